//! Who listens: the ports, and which shard a new connection goes to.
//!
//! Shard 0 accepts. On the ordinary ports each connection goes to the shard with the fewest; on the shard-aware port the
//! client's source port says which: port modulo number of shards, as ScyllaDB's drivers choose it.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use cql::protocol::StatusChange;
use engine::{Engine, EngineError};
use runtime::{Accepted, CpuGroup, ListenOptions, Listener, NetError, Shard};

use super::connection::Connection;
use super::transport::{TlsSettings, Transport};
use super::{CqlOptions, CqlShard, events};

/// Which connections a port takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Plain,
    ShardAware,
    Tls,
    ShardAwareTls,
}

impl Door {
    fn is_shard_aware(self) -> bool {
        matches!(self, Self::ShardAware | Self::ShardAwareTls)
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::ShardAwareTls)
    }
}

/// Why nobody listens.
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

/// The ports to listen on; `None`: not at all.
#[derive(Clone, Debug)]
pub struct Ports {
    pub plain: SocketAddr,
    pub shard_aware: Option<SocketAddr>,
    pub tls: Option<(SocketAddr, TlsSettings)>,
    pub shard_aware_tls: Option<(SocketAddr, TlsSettings)>,
}

/// The listening server. It goes on until [`Self::stop`].
pub struct CqlServer {
    /// Where it listens, in the order plain, shard-aware, TLS, shard-aware TLS; only those that were asked for.
    pub addresses: Vec<SocketAddr>,
    address: SocketAddr,
}

/// What shard 0 keeps of the listeners.
struct Doors {
    listeners: Vec<Rc<Listener>>,
    open_connections: Vec<Cell<usize>>,
}

impl CqlServer {
    /// Listens and serves. Ends when all ports are open.
    ///
    /// # Errors
    /// A port is taken or not allowed; then none is open.
    pub fn start(engine: &Engine, options: CqlOptions, ports: Ports) -> Result<Self, ListenError> {
        let options = Arc::new(options);
        let asked = engine.ask(0, move |shard| async move { Ok(start(&shard, options, ports).await) });
        let addresses = asked.wait()??;
        Ok(Self { address: addresses[0], addresses })
    }

    /// Takes no more connections, and tells clients that the node goes down; those that are there go on.
    pub fn stop(&self, engine: &Engine) -> Result<(), EngineError> {
        let address = self.address;
        let stop = move |shard: Shard| async move {
            if let Some(doors) = shard.local::<Doors>() {
                doors.listeners.iter().for_each(|listener| listener.close());
            }
            events::status_changed(&shard, StatusChange::Down, address).await;
            Ok(())
        };
        engine.ask(0, stop).wait()
    }
}

async fn start(
    shard: &Shard,
    options: Arc<CqlOptions>,
    ports: Ports,
) -> Result<Vec<SocketAddr>, ListenError> {
    for target in 0..shard.shard_count() {
        let options = options.clone();
        let started = shard.call(target, CpuGroup::Statement, |shard| async move {
            CqlShard::start(&shard, options);
        });
        started.await.map_err(EngineError::from)?;
    }
    let mut wanted = vec![(Door::Plain, ports.plain, None)];
    wanted.extend(ports.shard_aware.map(|address| (Door::ShardAware, address, None)));
    wanted.extend(ports.tls.map(|(address, tls)| (Door::Tls, address, Some(tls))));
    wanted.extend(ports.shard_aware_tls.map(|(address, tls)| (Door::ShardAwareTls, address, Some(tls))));
    let mut open = vec![];
    for (door, address, tls) in wanted {
        let listener = shard.net().listen(address, ListenOptions::default())?;
        open.push((door, Rc::new(listener), tls));
    }
    let open_connections = (0..shard.shard_count()).map(|_| Cell::new(0)).collect();
    let listeners: Vec<_> = open.iter().map(|(_, listener, _)| listener.clone()).collect();
    let addresses = listeners.iter().map(|listener| listener.local_addr()).collect();
    let doors = Rc::new(Doors { listeners, open_connections });
    shard.set_local(doors.clone());
    for (door, listener, tls) in open {
        let accepting = accept(shard.clone(), doors.clone(), door, listener, tls, options.clone());
        shard.spawn(CpuGroup::Statement, accepting).detach();
    }
    Ok(addresses)
}

async fn accept(
    shard: Shard,
    doors: Rc<Doors>,
    door: Door,
    listener: Rc<Listener>,
    tls: Option<TlsSettings>,
    options: Arc<CqlOptions>,
) {
    assert!(door.is_tls() == tls.is_some(), "who encrypts has a certificate");
    while let Some(accepted) = listener.accept().await {
        let open: usize = doors.open_connections.iter().map(Cell::get).sum();
        if open >= options.connections_max {
            continue;
        }
        let target = if door.is_shard_aware() {
            u32::from(accepted.peer_addr().port()) % shard.shard_count()
        } else {
            let counts = doors.open_connections.iter().map(Cell::get);
            counts.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(target, _)| target as u32)
        };
        let count = &doors.open_connections[target as usize];
        count.set(count.get() + 1);
        let tls = tls.clone();
        let served = shard.call(target, CpuGroup::Statement, move |shard| serve(shard, accepted, tls));
        let doors = doors.clone();
        let ended = async move {
            let _ = served.await;
            let count = &doors.open_connections[target as usize];
            count.set(count.get() - 1);
        };
        shard.spawn(CpuGroup::Statement, ended).detach();
    }
}

/// Serves a connection to its end.
async fn serve(shard: Shard, accepted: Accepted, tls: Option<TlsSettings>) {
    let Ok(cql) = CqlShard::of(&shard) else { return };
    // A connection that broke before it was looked at is no event.
    let Ok(stream) = shard.net().adopt(accepted) else { return };
    let _ = stream.set_nodelay(true);
    let _ = stream.set_keepalive(Some(60));
    let Ok(transport) = Transport::new(stream, tls.as_ref()) else { return };
    Connection::serve(cql, transport).await;
}
