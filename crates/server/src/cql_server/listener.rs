//! Who listens: the ports, and which shard a new connection goes to.
//!
//! Shard 0 accepts. On the ordinary ports each connection goes to the shard with the fewest; on the shard-aware port the
//! client's source port says which: port modulo number of shards, as ScyllaDB's drivers choose it.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cql::protocol::StatusChange;
use engine::EngineError;
use runtime::{Accepted, CpuGroup, ListenOptions, Listener, NetError, Remote, Shard};

use super::connection::Connection;
use super::transport::{TlsSettings, Transport};
use super::{CqlOptions, CqlShard, events, levels};

/// How long requests under way, and sending their answers, may take when the node stops.
const DRAIN_US_MAX: u64 = 5_000_000;
const DRAIN_LOOK_US: u64 = 5_000;

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

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "CQL clients",
            Self::ShardAware => "shard-aware CQL clients",
            Self::Tls => "encrypted CQL clients",
            Self::ShardAwareTls => "encrypted shard-aware CQL clients",
        }
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

/// What was opened.
pub struct Opened {
    /// What each is called in the log, and its address; the ordinary one is first.
    pub addresses: Vec<(&'static str, SocketAddr)>,
    /// Why a port that clients can do without is not open.
    pub missing: Vec<String>,
}

/// What shard 0 keeps of the listeners.
struct Doors {
    listeners: Vec<Rc<Listener>>,
    /// By shard.
    open_connections: Vec<Cell<usize>>,
}

/// Listens and serves; on shard 0. Ends when the ports are open.
///
/// # Errors
/// The ordinary port or the one with TLS is taken or not allowed; then none is open.
pub async fn start(shard: &Shard, mut options: CqlOptions, ports: Ports) -> Result<Opened, ListenError> {
    let mut wanted = vec![(Door::Plain, ports.plain, None)];
    wanted.extend(ports.shard_aware.map(|address| (Door::ShardAware, address, None)));
    wanted.extend(ports.tls.map(|(address, tls)| (Door::Tls, address, Some(tls))));
    wanted.extend(ports.shard_aware_tls.map(|(address, tls)| (Door::ShardAwareTls, address, Some(tls))));
    let (mut open, mut missing) = (vec![], vec![]);
    for (door, address, tls) in wanted {
        match shard.net().listen(address, ListenOptions::default()) {
            Ok(listener) => open.push((door, Rc::new(listener), tls)),
            Err(error) if door.is_shard_aware() => missing.push(format!("no {}: {error}", door.name())),
            Err(error) => return Err(error.into()),
        }
    }
    let port_of = |door: Door| {
        open.iter().find(|(open, _, _)| *open == door).map(|(_, listener, _)| listener.local_addr().port())
    };
    options.shard_aware_port = port_of(Door::ShardAware);
    options.shard_aware_port_ssl = port_of(Door::ShardAwareTls);
    if let Some(port) = port_of(Door::Plain) {
        options.node.rpc_port = port;
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
    let listeners: Vec<_> = open.iter().map(|(_, listener, _)| listener.clone()).collect();
    let addresses = open.iter().map(|(door, listener, _)| (door.name(), listener.local_addr())).collect();
    let doors = Rc::new(Doors { listeners, open_connections });
    shard.set_local(doors.clone());
    for (door, listener, tls) in open {
        let accepting = accept(shard.clone(), doors.clone(), door, listener, tls, options.clone());
        shard.spawn(CpuGroup::Statement, accepting).detach();
    }
    Ok(Opened { addresses, missing })
}

/// Takes no more connections, tells clients that the node at `address` goes down, lets requests under way end, and
/// closes what is open.
pub async fn stop(remote: &Remote, address: SocketAddr) {
    let stop_listening = move |shard: Shard| async move {
        if let Some(doors) = shard.local::<Doors>() {
            doors.listeners.iter().for_each(|listener| listener.close());
        }
        events::status_changed(&shard, StatusChange::Down, address).await;
    };
    // A shard that is gone has nothing to stop.
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
        options.open_connections.fetch_add(1, Ordering::Relaxed);
        let open_connections = options.open_connections.clone();
        let tls = tls.clone();
        let served = shard.call(target, CpuGroup::Statement, move |shard| serve(shard, accepted, tls));
        let doors = doors.clone();
        let ended = async move {
            let _ = served.await;
            let count = &doors.open_connections[target as usize];
            count.set(count.get() - 1);
            open_connections.fetch_sub(1, Ordering::Relaxed);
        };
        shard.spawn(CpuGroup::Statement, ended).detach();
    }
}

/// Serves a connection to its end.
async fn serve(shard: Shard, accepted: Accepted, tls: Option<TlsSettings>) {
    let Ok(cql) = CqlShard::of(&shard) else { return };
    if cql.is_stopping.get() {
        return;
    }
    // A connection that broke before it was looked at is no event.
    let Ok(stream) = shard.net().adopt(accepted) else { return };
    let _ = stream.set_nodelay(true);
    let _ = stream.set_keepalive(Some(60));
    let Ok(transport) = Transport::new(stream, tls.as_ref()) else { return };
    Connection::serve(cql, transport).await;
}
