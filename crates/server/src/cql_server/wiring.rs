//! Starts the CQL listeners from the configuration, and stops them.

#![deny(unused_variables)]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::murmur3;
use catalog::{Catalog, RoleChange, Scripts};
use cql::BatchLimits;
use cql::system::{NodeInfo, SettingInfo};
use cql::{ResultLimits, SchemaRules};
use engine::Engine;
use log::{info, warn};
use runtime::Remote;

use super::listener::{self, Port};
use super::overload::Limits;
use super::passwords::{self, Passwords};
use super::transport;
use super::{CqlOptions, Timeouts};
use crate::audit::AuditOptions;
use crate::client_listeners::{ClientListeners, ClientParts, ConsoleDoor};
use crate::config::audit::AuditConfig;
use crate::config::options::{Authenticator, Authorizer, OPTIONS, OptionDef};
use crate::config::ports::{self, PortPlan};
use crate::config::{
    BatchConfig, Config, Encryption, FunctionConfig, IdentityConfig, ListenConfig, RequestConfig,
    ResultConfig, SchemaConfig, SecurityConfig, TimeoutConfig,
};
use crate::serve_error::ServeError;
use crate::start_time::StartTime;
use crate::tls::ReloadableTls;

/// Default limit of the bytes of requests in flight on a shard.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Limit of the bytes of answers on a shard, of all connections together; see `CqlOptions`.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Divisor of a shard's memory for answers, and the lower bound: a page must fit.
const ANSWER_PART: u64 = 16;
const ANSWER_BYTES_MIN: u64 = 4 << 20;
/// Divisor of a shard's memory for results that are being produced. As in ScyllaDB.
const RESULT_PART: u64 = 10;
const RESULT_BYTES_MIN: u64 = 2 << 20;
const UNFINISHED_BYTES_MAX: usize = 128 << 20;
const PREPARED_BYTES_MAX: usize = 16 << 20;
const REQUESTS_PER_CONNECTION_MAX: u32 = 1024;
const CONNECTIONS_MAX_DEFAULT: usize = 100_000;

/// Name and password of the superuser that a node without roles gets. As in Cassandra.
const SUPERUSER: &str = "cassandra";

struct Listeners {
    remote: Remote,
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    is_listening: AtomicBool,
    tls: Option<Arc<ReloadableTls>>,
    console: Option<ConsoleDoor>,
}

impl ClientListeners for Listeners {
    fn reload_certificates(&self) {
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }

    fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }

    fn console(&self) -> Option<ConsoleDoor> {
        self.console
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_listening.store(false, Ordering::Release);
        Box::pin(listener::stop(&self.remote, self.address))
    }

    fn resume(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async move {
            listener::resume(&self.remote, self.address).await.map_err(|error| error.to_string())?;
            self.is_listening.store(true, Ordering::Release);
            Ok(())
        })
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
/// A port is in use, an address does not belong to this machine, or the certificate cannot be used.
pub fn start(engine: &Engine, clients: ClientParts) -> Result<Arc<dyn ClientListeners>, ServeError> {
    let ClientParts {
        identity,
        listen,
        security,
        requests,
        timeouts,
        results,
        batches,
        schema,
        memory_bytes,
        shown,
        started,
    } = clients;
    let plans = ports::plan(&listen.wanted(&security.client_encryption))?;
    let plain = address_of(listen.address(), plans.first().map_or(0, |plan| plan.port), "rpc_address")?;
    let counts_as_all_replicas = identity.counts_as_all_replicas;
    let node = node_info(engine, identity, &listen, plain, &shown, started)?;
    if counts_as_all_replicas {
        log::warn!(
            target: "cql",
            "node_counts_as_all_replicas: QUORUM, ALL and SERIAL succeed with one copy of the data; meant for tests"
        );
    }
    let masks_columns = security.dynamic_data_masking;
    let audit = audit_options(&security.audit, &shown.place.data_dir, engine.remote().shard_count())?;
    let checks_permissions = security.authorizer == Authorizer::Cassandra;
    let (tls, passwords) = secure(engine, security)?;
    let asks_role = passwords.is_some();
    let ports = listened(&plans, plain, tls.as_ref())?;
    if !plans.iter().any(|plan| plan.port == listen.port) {
        info!(
            target: "cql",
            "native_transport_port {} is closed: with client_encryption_options.enabled and native_transport_port_ssl, plain text is served \
             only if client_encryption_options.optional is true",
            listen.port
        );
    }
    let is_plain =
        ports.first().is_some_and(|port| !matches!(port.encryption, transport::Encryption::Tls(_)));
    let RequestConfig {
        frame_bytes_max,
        connections_max,
        in_flight_bytes_max,
        in_flight_max,
        idle_timeout_ms,
    } = requests;
    let ResultConfig {
        page_bytes,
        unpaged_soft_bytes,
        unpaged_hard_bytes,
        tombstone_warn_threshold,
        tombstone_page_limit,
    } = results;
    let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let connections = Arc::new(AtomicU64::new(0));
    let shard_bytes = memory_bytes / u64::from(engine.remote().shard_count());
    let options = CqlOptions {
        node,
        shard_aware_port: None,
        shard_aware_port_ssl: None,
        body_bytes_max: to_usize(frame_bytes_max),
        connections_max: connections_max.map_or(CONNECTIONS_MAX_DEFAULT, to_usize),
        requests_per_connection_max: REQUESTS_PER_CONNECTION_MAX,
        idle_timeout_us: (idle_timeout_ms > 0).then(|| idle_timeout_ms.saturating_mul(1000)),
        limits: Limits {
            request_bytes_max: in_flight_bytes_max.map_or(REQUEST_BYTES_MAX, to_usize),
            requests_max: in_flight_max.map_or(u32::MAX, |max| u32::try_from(max).unwrap_or(u32::MAX)),
        },
        passwords,
        checks_permissions,
        audit,
        masks_columns,
        scripts: scripts(&schema.functions),
        counts_as_all_replicas,
        slow_query_us: timeouts.slow_query_ms.saturating_mul(1000),
        timeouts: timeouts_of(timeouts),
        answer_bytes_max: to_usize(
            (shard_bytes / ANSWER_PART).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX as u64),
        ),
        unfinished_bytes_max: UNFINISHED_BYTES_MAX,
        prepared_bytes_max: PREPARED_BYTES_MAX,
        result_limits: ResultLimits {
            page_bytes,
            page_tombstones: if tombstone_page_limit == 0 { u64::MAX } else { tombstone_page_limit },
            unpaged_soft_bytes,
            unpaged_hard_bytes,
        },
        batch_limits: batch_limits(batches),
        schema_rules: schema_rules(&schema),
        result_bytes_max: (shard_bytes / RESULT_PART).max(RESULT_BYTES_MIN),
        tombstone_warn_threshold,
        open_connections: connections.clone(),
    };
    let started =
        engine.ask(0, move |shard| async move { Ok(listener::start(&shard, options, ports).await) });
    let opened = started
        .wait()
        .map_err(|error| ServeError::from(error.to_string()))?
        .map_err(|error| ServeError::from(format!("cannot serve CQL: {error} (--native-transport-port)")))?;
    for text in &opened.missing {
        warn!(target: "cql", "{text}; clients do without");
    }
    for (what, address) in &opened.addresses {
        info!(target: "cql", "Starting listening for {what} on {address}");
    }
    let address = opened.addresses[0].1;
    let is_listening = AtomicBool::new(true);
    let console = is_plain.then_some(ConsoleDoor { address, asks_role });
    Ok(Arc::new(Listeners {
        remote: engine.remote().clone(),
        address,
        connections,
        is_listening,
        tls,
        console,
    }))
}

fn timeouts_of(timeouts: TimeoutConfig) -> Timeouts {
    let TimeoutConfig {
        read_ms,
        range_ms,
        write_ms,
        counter_write_ms,
        cas_contention_ms,
        truncate_ms,
        slow_query_ms: _,
    } = timeouts;
    let to_us = |ms: u64| ms.saturating_mul(1000);
    Timeouts {
        read_us: to_us(read_ms),
        range_us: to_us(range_ms),
        write_us: to_us(write_ms),
        counter_us: to_us(counter_write_ms),
        conditional_us: to_us(write_ms.saturating_add(cas_contention_ms)),
        truncate_us: to_us(truncate_ms),
    }
}

fn schema_rules(schema: &SchemaConfig) -> SchemaRules {
    let SchemaConfig {
        compact_tables_enabled,
        drop_compact_storage_enabled,
        materialized_views_enabled,
        functions: _,
    } = *schema;
    SchemaRules {
        may_create_compact: compact_tables_enabled,
        may_drop_compact_storage: drop_compact_storage_enabled,
        may_create_views: materialized_views_enabled,
    }
}

/// What runs user-defined functions, if they are allowed.
fn scripts(functions: &FunctionConfig) -> Option<Scripts> {
    let FunctionConfig { is_enabled, time_ms, memory_bytes } = *functions;
    let limits = udf::Limits {
        time_us: time_ms.saturating_mul(1000),
        clock: Some(Arc::new(runtime::real::thread_cpu_us)),
        memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
        ..udf::Limits::default()
    };
    is_enabled.then(|| Scripts(Arc::new(udf::LuaEngine::new(limits))))
}

fn batch_limits(batches: BatchConfig) -> BatchLimits {
    let BatchConfig { warn_bytes, fail_bytes, unlogged_partitions_warn } = batches;
    BatchLimits { warn_bytes, fail_bytes, unlogged_partitions: unlogged_partitions_warn }
}

/// Encryption and password checks of connections; each may be off.
fn secure(
    engine: &Engine,
    security: SecurityConfig,
) -> Result<(Option<Arc<ReloadableTls>>, Option<Passwords>), ServeError> {
    // Permissions, masks and the audit log act where statements are executed.
    let SecurityConfig { client_encryption, authenticator, authorizer: _, dynamic_data_masking: _, audit: _ } =
        security;
    let passwords = match authenticator {
        Authenticator::AllowAll => None,
        Authenticator::Password => Some(passwords(engine)?),
    };
    Ok((tls_of(&client_encryption)?, passwords))
}

/// The options of the audit log if it is enabled.
fn audit_options(
    audit: &AuditConfig,
    data_dir: &Path,
    shards: u32,
) -> Result<Option<Arc<AuditOptions>>, ServeError> {
    if !audit.enabled {
        return Ok(None);
    }
    let mut options = audit.options(data_dir)?;
    options.queue_bytes_max /= u64::from(shards);
    info!(target: "auth", "the audit log is on, in {}", options.dir.display());
    Ok(Some(Arc::new(options)))
}

/// Starts the password checks. A node without any role gets the superuser that Cassandra and ScyllaDB create.
fn passwords(engine: &Engine) -> Result<Passwords, ServeError> {
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
        warn!(
            target: "auth",
            "Created default superuser role '{SUPERUSER}' with the password '{SUPERUSER}'; log in and change it"
        );
    }
    Ok(passwords)
}

fn tls_of(encryption: &Encryption) -> Result<Option<Arc<ReloadableTls>>, ServeError> {
    let wrong = |error: String| ServeError::from(format!("client_encryption_options: {error}"));
    match encryption.tls_files().map_err(wrong)? {
        Some(files) => Ok(Some(ReloadableTls::load("CQL", files).map_err(wrong)?)),
        None => Ok(None),
    }
}

/// The planned ports with their addresses. A missing certificate never turns an encrypted port into plain
/// text.
fn listened(
    plans: &[PortPlan],
    plain: SocketAddr,
    tls: Option<&Arc<ReloadableTls>>,
) -> Result<Vec<Port>, ServeError> {
    let with_tls = |of: fn(Arc<ReloadableTls>) -> transport::Encryption| match tls {
        Some(tls) => Ok(of(tls.clone())),
        None => Err(ServeError::from("an encrypted port without a certificate".to_string())),
    };
    let port = |plan: &PortPlan| {
        Ok(Port {
            address: SocketAddr::new(plain.ip(), plan.port),
            is_shard_aware: plan.is_shard_aware,
            encryption: match plan.encryption {
                ports::Encryption::Plain => transport::Encryption::Plain,
                ports::Encryption::Tls => with_tls(transport::Encryption::Tls)?,
                ports::Encryption::Optional => with_tls(transport::Encryption::Optional)?,
            },
        })
    };
    plans.iter().map(port).collect()
}

/// Every option with its value. None is a secret.
fn settings(config: &Config) -> BTreeMap<String, SettingInfo> {
    let mut config = config.clone();
    let setting = |option: &OptionDef| {
        let kind = (option.target)(&mut config).kind();
        let value = (option.target)(&mut config).show();
        (option.name.to_string(), SettingInfo { value, kind })
    };
    OPTIONS.iter().map(setting).collect()
}

fn node_info(
    engine: &Engine,
    identity: IdentityConfig,
    listen: &ListenConfig,
    plain: SocketAddr,
    shown: &Config,
    started: StartTime,
) -> Result<NodeInfo, ServeError> {
    let host_id = engine.open_report().host_id;
    let broadcast = address_of(identity.address(listen), plain.port(), "broadcast_rpc_address")?;
    let IdentityConfig {
        cluster_name,
        broadcast_rpc_address: _,
        data_center,
        rack,
        counts_as_all_replicas: _,
    } = identity;
    // Any token does; the node's own stays the same.
    let token = murmur3::hash128(host_id.as_bytes()).0 as i64;
    Ok(NodeInfo {
        cluster_name,
        data_center,
        rack,
        tokens: vec![token],
        generation_s: i32::try_from(started.unix_s()).unwrap_or(i32::MAX),
        settings: settings(shown),
        ..NodeInfo::new(host_id, broadcast.ip(), plain.port())
    })
}
