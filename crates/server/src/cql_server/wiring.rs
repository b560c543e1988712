//! From the configuration to listeners that serve, and their end.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base::murmur3;
use catalog::{Catalog, RoleChange};
use cql::ResultLimits;
use cql::system::{NodeInfo, SettingInfo};
use engine::Engine;
use runtime::Remote;

use super::listener::{self, Ports};
use super::overload::Limits;
use super::passwords::{self, Passwords};
use super::transport::TlsSettings;
use super::{CqlOptions, Timeouts};
use crate::config::Config;
use crate::config::options::{Authenticator, OPTIONS, OptionDef};
use crate::config::storage::Machine;
use crate::serve::{ClientListeners, ServeError};
use crate::{info, warning};

/// Bytes of requests under way on a shard.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Of connections together, on a shard; see `CqlOptions`.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Of a shard's memory so much, but not less than this: a page must find room.
const ANSWER_PART: u64 = 16;
const ANSWER_BYTES_MIN: u64 = 4 << 20;
/// ScyllaDB's part of a shard's memory for results in the making.
const RESULT_PART: u64 = 10;
const RESULT_BYTES_MIN: u64 = 2 << 20;
const UNFINISHED_BYTES_MAX: usize = 128 << 20;
const PREPARED_BYTES_MAX: usize = 16 << 20;
const REQUESTS_PER_CONNECTION_MAX: u32 = 1024;
const CONNECTIONS_MAX_DEFAULT: usize = 100_000;

/// Name and password of the superuser that a node without roles gets. Cassandra's.
const SUPERUSER: &str = "cassandra";

struct Listeners {
    remote: Remote,
    address: SocketAddr,
    connections: Arc<AtomicU64>,
}

impl ClientListeners for Listeners {
    fn is_listening(&self) -> bool {
        true
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(listener::stop(&self.remote, self.address))
    }
}

fn address_of(host: &str, port: u16, option: &str) -> Result<SocketAddr, ServeError> {
    let found = (host, port).to_socket_addrs().map(|mut all| all.next());
    found.ok().flatten().ok_or_else(|| {
        ServeError::from(format!("{option} {host}: no such host; an address of this machine is expected"))
    })
}

/// Serves CQL as configured.
///
/// # Errors
/// A port is taken, an address is not this machine's, or the certificate cannot be used.
pub fn start(engine: &Engine, config: &Arc<Config>) -> Result<Arc<dyn ClientListeners>, ServeError> {
    let host = config.cql_address();
    let plain = address_of(host, config.native_transport_port, "rpc_address")?;
    let beside = |port: u16| (port != 0).then(|| SocketAddr::new(plain.ip(), port));
    let tls = tls_settings(config)?;
    let ports = Ports {
        plain,
        shard_aware: beside(config.native_shard_aware_transport_port),
        tls: tls.clone().and_then(|tls| Some((beside(config.native_transport_port_ssl)?, tls))),
        shard_aware_tls: tls
            .and_then(|tls| Some((beside(config.native_shard_aware_transport_port_ssl)?, tls))),
    };
    let connections = Arc::new(AtomicU64::new(0));
    let shard_bytes = config.memory_bytes(Machine::look()) / u64::from(engine.remote().shard_count());
    let options = CqlOptions {
        node: node_info(engine, config, plain)?,
        shard_aware_port: None,
        shard_aware_port_ssl: None,
        body_bytes_max: usize::try_from(config.native_transport_max_frame_bytes).unwrap_or(usize::MAX),
        connections_max: config
            .native_transport_max_concurrent_connections
            .map_or(CONNECTIONS_MAX_DEFAULT, |max| usize::try_from(max).unwrap_or(usize::MAX)),
        requests_per_connection_max: REQUESTS_PER_CONNECTION_MAX,
        limits: Limits {
            request_bytes_max: config
                .native_transport_max_concurrent_requests_bytes
                .map_or(REQUEST_BYTES_MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            requests_max: config
                .max_concurrent_requests_per_shard
                .map_or(u32::MAX, |max| u32::try_from(max).unwrap_or(u32::MAX)),
        },
        passwords: passwords(engine, config)?,
        timeouts: Timeouts {
            read_us: config.read_request_timeout_ms.saturating_mul(1000),
            range_us: config.range_request_timeout_ms.saturating_mul(1000),
            write_us: config.write_request_timeout_ms.saturating_mul(1000),
            counter_us: config.counter_write_request_timeout_ms.saturating_mul(1000),
            conditional_us: config
                .write_request_timeout_ms
                .saturating_add(config.cas_contention_timeout_ms)
                .saturating_mul(1000),
            truncate_us: config.truncate_request_timeout_ms.saturating_mul(1000),
            other_us: config.request_timeout_ms.saturating_mul(1000),
        },
        answer_bytes_max: (shard_bytes / ANSWER_PART).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX as u64)
            as usize,
        unfinished_bytes_max: UNFINISHED_BYTES_MAX,
        prepared_bytes_max: PREPARED_BYTES_MAX,
        result_limits: ResultLimits {
            page_bytes: config.query_page_bytes,
            page_tombstones: match config.query_tombstone_page_limit {
                0 => u64::MAX,
                limit => limit,
            },
            unpaged_soft_bytes: config.max_memory_for_unlimited_query_soft_bytes,
            unpaged_hard_bytes: config.max_memory_for_unlimited_query_hard_bytes,
            unpaged_room_bytes: u64::MAX,
        },
        result_bytes_max: (shard_bytes / RESULT_PART).max(RESULT_BYTES_MIN),
        tombstone_warn_threshold: config.tombstone_warn_threshold,
        open_connections: connections.clone(),
    };
    let started =
        engine.ask(0, move |shard| async move { Ok(listener::start(&shard, options, ports).await) });
    let opened = started
        .wait()
        .map_err(|error| ServeError::from(error.to_string()))?
        .map_err(|error| ServeError::from(format!("cannot serve CQL: {error} (--native-transport-port)")))?;
    for text in &opened.missing {
        warning!("cql", "{text}; clients do without");
    }
    for (what, address) in &opened.addresses {
        info!("cql", "Starting listening for {what} on {address}");
    }
    let address = opened.addresses[0].1;
    Ok(Arc::new(Listeners { remote: engine.remote().clone(), address, connections }))
}

/// What asks for passwords, if the configuration says so. A node without any role gets the peers' superuser.
fn passwords(engine: &Engine, config: &Config) -> Result<Option<Passwords>, ServeError> {
    if config.authenticator != Authenticator::Password {
        return Ok(None);
    }
    let failed = |error: &dyn std::fmt::Display| ServeError::from(format!("authenticator: {error}"));
    let passwords = Passwords::start(passwords::COST_DEFAULT).map_err(|error| failed(&error))?;
    let catalog = engine.catalog().map_err(|error| failed(&error))?;
    if catalog.access().roles().next().is_none() {
        let superuser = RoleChange {
            can_login: Some(true),
            is_superuser: Some(true),
            salted_hash: Some(passwords.hash_blocking(SUPERUSER).map_err(|error| failed(&error))?),
        };
        let create = move |catalog: &Catalog| {
            catalog.change_access(|access| access.create_role(SUPERUSER, superuser, true))
        };
        engine.change_schema(create).map_err(|error| failed(&error))?;
        warning!(
            "auth",
            "Created default superuser role '{SUPERUSER}' with the password '{SUPERUSER}'; log in and change it"
        );
    }
    Ok(Some(passwords))
}

fn tls_settings(config: &Config) -> Result<Option<TlsSettings>, ServeError> {
    let encryption = &config.client_encryption;
    if !encryption.enabled {
        return Ok(None);
    }
    match (&encryption.certificate, &encryption.keyfile) {
        (Some(certificate), Some(key)) => Ok(Some(TlsSettings::from_pem(certificate, key)?)),
        _ => Err(ServeError::from(
            "client_encryption_options: enabled, but certificate and keyfile (PEM files) are not both given"
                .to_string(),
        )),
    }
}

/// Every option with its value. None is a secret.
fn settings(config: &Config) -> BTreeMap<String, SettingInfo> {
    let mut config = config.clone();
    let setting = |option: &OptionDef| {
        let kind = (option.at)(&mut config).kind();
        let value = (option.at)(&mut config).show();
        (option.name.to_string(), SettingInfo { value, kind })
    };
    OPTIONS.iter().map(setting).collect()
}

#[allow(clippy::disallowed_methods, reason = "a node says since when it runs")]
fn node_info(engine: &Engine, config: &Config, plain: SocketAddr) -> Result<NodeInfo, ServeError> {
    let host_id = engine.open_report().host_id;
    let told = address_of(config.broadcast_address(), plain.port(), "broadcast_rpc_address")?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Any token does; the node's own stays the same.
    let token = murmur3::hash128(host_id.as_bytes()).0 as i64;
    Ok(NodeInfo {
        cluster_name: config.cluster_name.clone(),
        tokens: vec![token],
        generation_s: i32::try_from(since.as_secs()).unwrap_or(i32::MAX),
        settings: settings(config),
        ..NodeInfo::new(host_id, told.ip(), plain.port())
    })
}
