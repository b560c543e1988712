//! The listeners: opens the ports, and assigns new connections to shards.
//!
//! Shard 0 accepts all connections. A connection to an ordinary port goes to the shard with the fewest
//! connections. On the shard-aware port the client's source port selects the shard: port modulo number of
//! shards, as ScyllaDB's drivers compute it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::broken;
use engine::EngineError;
use protocol::StatusChange;
use runtime::{Accepted, CpuGroup, ListenOptions, Listener, NetError, Remote, Shard};

use super::connection::Connection;
use super::transport::{Encryption, Transport};
use super::{CqlOptions, CqlShard, events, levels};
use crate::audit;

/// How long requests in flight and the sending of their answers may take when the node stops.
const DRAIN_US_MAX: u64 = 5_000_000;
const DRAIN_LOOK_US: u64 = 5_000;

/// A port to listen on.
#[derive(Clone, Debug)]
pub struct Port {
    pub address: SocketAddr,
    pub is_shard_aware: bool,
    pub encryption: Encryption,
}

impl Port {
    fn name(&self) -> &'static str {
        match (self.is_shard_aware, &self.encryption) {
            (false, Encryption::Plain) => "CQL clients",
            (true, Encryption::Plain) => "shard-aware CQL clients",
            (false, Encryption::Tls(_)) => "encrypted CQL clients",
            (true, Encryption::Tls(_)) => "encrypted shard-aware CQL clients",
            (false, Encryption::Optional(_)) => "CQL clients, encrypted or not",
            (true, Encryption::Optional(_)) => "shard-aware CQL clients, encrypted or not",
        }
    }
}

/// Why no port was opened.
#[derive(Debug)]
pub enum ListenError {
    Net(NetError),
    Engine(EngineError),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ListenError {}

impl From<NetError> for ListenError {
    fn from(error: NetError) -> Self {
        Self::Net(error)
    }
}

impl From<EngineError> for ListenError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// The opened ports.
pub struct Opened {
    /// Name in the log, and address, of each port; the ordinary one first.
    pub addresses: Vec<(&'static str, SocketAddr)>,
    /// Errors of optional ports that could not be opened.
    pub missing: Vec<String>,
}

/// State of the listeners, on shard 0.
struct Endpoints {
    /// Empty while clients are not served.
    listeners: RefCell<Vec<Rc<Listener>>>,
    /// The ports that were opened at the start, with the numbers that they had.
    ports: Vec<Port>,
    options: Arc<CqlOptions>,
    /// By shard.
    open_connections: Vec<Cell<usize>>,
}

impl Endpoints {
    /// Takes connections from these listeners from now on.
    fn serve(self: &Rc<Self>, shard: &Shard, open: Vec<(Port, Rc<Listener>)>) {
        *self.listeners.borrow_mut() = open.iter().map(|(_, listener)| listener.clone()).collect();
        for (port, listener) in open {
            let accepting = accept(shard.clone(), self.clone(), port, listener, self.options.clone());
            shard.spawn(CpuGroup::Statement, accepting).detach();
        }
    }
}

/// Listens and serves; on shard 0. Ends when the ports are open.
///
/// # Errors
/// An ordinary port is in use or not allowed; then no port is open.
pub async fn start(shard: &Shard, mut options: CqlOptions, ports: Vec<Port>) -> Result<Opened, ListenError> {
    let (mut open, mut missing) = (vec![], vec![]);
    for port in ports {
        match shard.net().listen(port.address, ListenOptions::default()) {
            Ok(listener) => open.push((port, Rc::new(listener))),
            Err(error) if port.is_shard_aware => missing.push(format!("no {}: {error}", port.name())),
            Err(error) => return Err(error.into()),
        }
    }
    let shard_aware = |takes: fn(&Encryption) -> bool| {
        let found = open.iter().find(|(port, _)| port.is_shard_aware && takes(&port.encryption));
        found.map(|(_, listener)| listener.local_addr().port())
    };
    options.shard_aware_port = shard_aware(|encryption| !matches!(encryption, Encryption::Tls(_)));
    options.shard_aware_port_ssl = shard_aware(|encryption| !matches!(encryption, Encryption::Plain));
    if let Some((_, listener)) = open.iter().find(|(port, _)| !port.is_shard_aware) {
        options.node.rpc_port = listener.local_addr().port();
    }
    let options = Arc::new(options);
    for target in 0..shard.shard_count() {
        let options = options.clone();
        let started = shard.call(target, CpuGroup::Statement, |shard| async move {
            CqlShard::start(&shard, options);
        });
        started.await.map_err(EngineError::from)?;
    }
    levels::publish(shard).await?;
    let open_connections = (0..shard.shard_count()).map(|_| Cell::new(0)).collect();
    let addresses = open.iter().map(|(port, listener)| (port.name(), listener.local_addr())).collect();
    let bound =
        |(port, listener): &(Port, Rc<Listener>)| Port { address: listener.local_addr(), ..port.clone() };
    let ports = open.iter().map(bound).collect();
    let endpoints = Rc::new(Endpoints { listeners: RefCell::default(), ports, options, open_connections });
    shard.set_local(endpoints.clone());
    endpoints.serve(shard, open);
    Ok(Opened { addresses, missing })
}

/// Stops accepting, sends clients the event that the node at `address` goes down, waits for requests in
/// flight, and closes all connections.
pub async fn stop(remote: &Remote, address: SocketAddr) {
    let stop_listening = move |shard: Shard| async move {
        if let Some(endpoints) = shard.local::<Endpoints>() {
            endpoints.listeners.take().iter().for_each(|listener| listener.close());
        }
        events::status_changed(&shard, StatusChange::Down, address).await;
    };
    // A stopped shard has nothing to stop.
    let _ = remote.call(0, CpuGroup::Statement, stop_listening).await;
    let stop = |shard: Shard| async move {
        let Ok(cql) = CqlShard::of(&shard) else { return };
        cql.stop();
        let deadline_us = shard.now_us() + DRAIN_US_MAX;
        while !cql.connections.borrow().is_empty() && shard.now_us() < deadline_us {
            shard.sleep_us(DRAIN_LOOK_US).await;
        }
        let open: Vec<_> = cql.connections.borrow().values().cloned().collect();
        open.iter().for_each(|connection| connection.close());
    };
    let stops: Vec<_> =
        (0..remote.shard_count()).map(|target| remote.call(target, CpuGroup::Statement, stop)).collect();
    for stopped in stops {
        let _ = stopped.await;
    }
    let flush = |shard: Shard| async move { audit::flush(&shard).await };
    let _ = remote.call(0, CpuGroup::Statement, flush).await;
}

/// Takes connections again after [`stop`], on the ports that were open, and tells clients that the node at
/// `address` is up.
///
/// # Errors
/// A port is taken; then none is open.
pub async fn resume(remote: &Remote, address: SocketAddr) -> Result<(), ListenError> {
    let listen = move |shard: Shard| async move {
        let endpoints = shard.local::<Endpoints>();
        let Some(endpoints) = endpoints.filter(|it| it.listeners.borrow().is_empty()) else {
            return Ok::<_, ListenError>(());
        };
        let mut open = vec![];
        for port in &endpoints.ports {
            open.push((port.clone(), Rc::new(shard.net().listen(port.address, ListenOptions::default())?)));
        }
        for target in 0..shard.shard_count() {
            let resumed = shard.call(target, CpuGroup::Statement, |shard| async move {
                if let Ok(cql) = CqlShard::of(&shard) {
                    cql.resume();
                }
            });
            resumed.await.map_err(EngineError::from)?;
        }
        endpoints.serve(&shard, open);
        events::status_changed(&shard, StatusChange::Up, address).await;
        Ok(())
    };
    remote.call(0, CpuGroup::Statement, listen).await.map_err(EngineError::from)?
}

async fn accept(
    shard: Shard,
    endpoints: Rc<Endpoints>,
    port: Port,
    listener: Rc<Listener>,
    options: Arc<CqlOptions>,
) {
    while let Some(accepted) = listener.accept().await {
        let open: usize = endpoints.open_connections.iter().map(Cell::get).sum();
        if open >= options.connections_max {
            continue;
        }
        let target = if port.is_shard_aware {
            u32::from(accepted.peer_addr().port()) % shard.shard_count()
        } else {
            let counts = endpoints.open_connections.iter().map(Cell::get);
            counts.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(target, _)| target as u32)
        };
        let count = &endpoints.open_connections[target as usize];
        count.set(count.get() + 1);
        options.open_connections.fetch_add(1, Ordering::Relaxed);
        let open_connections = options.open_connections.clone();
        let encryption = port.encryption.clone();
        let served = shard.call(target, CpuGroup::Statement, move |shard| serve(shard, accepted, encryption));
        let endpoints = endpoints.clone();
        let ended = async move {
            let _ = served.await;
            let count = &endpoints.open_connections[target as usize];
            count.set(count.get() - 1);
            open_connections.fetch_sub(1, Ordering::Relaxed);
        };
        shard.spawn(CpuGroup::Statement, ended).detach();
    }
}

/// Serves a connection to its end.
async fn serve(shard: Shard, accepted: Accepted, encryption: Encryption) {
    let Ok(cql) = CqlShard::of(&shard) else { return };
    if cql.is_stopping.get() {
        return;
    }
    // A connection that broke before it was adopted is not logged.
    let Ok(stream) = shard.net().adopt(accepted) else { return };
    let _ = stream.set_nodelay(true);
    if !broken::is("keepalive_set") {
        let _ = stream.set_keepalive(Some(60));
    }
    let Ok(transport) = Transport::new(stream, &encryption) else { return };
    Connection::serve(cql, transport).await;
}
