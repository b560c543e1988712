//! Options of a world, and the faults that it makes.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

use base::rng::Rng;
use cql::system::NodeInfo;
use engine::EngineOptions;
use engine::commitlog::SyncMode;
use runtime::sim::{FaultPlan, SimWorld};
use server::cql_server::{CqlOptions, Limits, Passwords, Timeouts};
use uuid::Uuid;

use super::notes::Excuses;

/// The node's data directory.
pub const DATA_DIR: &str = "/node/data";

/// Microseconds after which the system gives up a connection whose client has vanished with answers in
/// transit.
pub const GIVES_UP_US: u64 = 60_000_000;

/// The node's address.
pub fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 9042))
}

/// Options that stay the same for the life of a world.
#[derive(Clone)]
pub struct Climate {
    pub engine: EngineOptions,
    pub cql: CqlOptions,
    /// Faults that are always active.
    pub faults: FaultPlan,
    pub is_small: bool,
    /// The node asks for passwords.
    pub has_logins: bool,
}

impl Climate {
    pub fn new(rng: &mut Rng) -> Self {
        let is_small = rng.chance(1, 3);
        let mut engine = EngineOptions::new(DATA_DIR);
        engine.commitlog_sync = match rng.below(5) {
            0 => SyncMode::Group { window_us: 200 + rng.below(2000) },
            1 => SyncMode::Periodic { period_us: 5000 + rng.below(40_000) },
            _ => SyncMode::Batch,
        };
        engine.commitlog_segment_bytes = (32 * 1024) << rng.below(3);
        engine.commitlog_total_bytes = engine.commitlog_segment_bytes * (4 + rng.below(16));
        engine.memory_bytes = if is_small { (128 * 1024) << rng.below(3) } else { 64 << 20 };
        engine.compaction.is_automatic = rng.chance(2, 3);
        let mut faults = FaultPlan { net_gives_up_us: GIVES_UP_US, ..FaultPlan::default() };
        if rng.chance(1, 3) {
            faults.short_transfer = 0.1;
        }
        if rng.chance(1, 4) {
            faults.spike = 0.02;
        }
        let mut cql = cql_options(rng, is_small);
        let has_logins = rng.chance(1, 3);
        if has_logins {
            cql.passwords = Some(Passwords::at_once(4));
        }
        Self { engine, cql, faults, is_small, has_logins }
    }
}

fn cql_options(rng: &mut Rng, is_small: bool) -> CqlOptions {
    let mut pick = |small: usize, large: usize| if is_small && rng.chance(2, 3) { small } else { large };
    let limits = Limits {
        request_bytes_max: pick(2 << 10, 64 << 20),
        requests_max: pick(20, usize::from(u16::MAX)) as u32,
    };
    let answer_bytes_max = pick(96 << 10, 4 << 20);
    let requests_per_connection_max = pick(4, 1024) as u32;
    let prepared_bytes_max = pick(24 << 10, 16 << 20);
    let result_bytes_max = pick(256 << 10, 2 << 20) as u64;
    let page_bytes = *rng.pick(&[300, 5000, 1 << 20]);
    let page_tombstones = *rng.pick(&[1, 3, 10, 10_000]);
    CqlOptions {
        node: NodeInfo::new(Uuid::from_u128(1), address().ip(), address().port()),
        shard_aware_port: None,
        shard_aware_port_ssl: None,
        body_bytes_max: 1 << 20,
        connections_max: 1000,
        requests_per_connection_max,
        limits,
        passwords: None,
        checks_permissions: false,
        masks_columns: false,
        audit: None,
        slow_query_us: 0,
        counts_as_all_replicas: false,
        scripts: None,
        timeouts: Timeouts {
            read_us: 2_000_000,
            range_us: 4_000_000,
            write_us: 1_000_000,
            counter_us: 2_000_000,
            conditional_us: 2_000_000,
            truncate_us: 60_000_000,
        },
        answer_bytes_max,
        unfinished_bytes_max: 4 << 20,
        open_connections: std::sync::Arc::default(),
        prepared_bytes_max,
        idle_timeout_us: rng.chance(1, 3).then(|| 2_000_000 + rng.below(6_000_000)),
        batch_limits: cql::BatchLimits::DEFAULT,
        schema_rules: cql::SchemaRules::default(),
        result_limits: cql::ResultLimits { page_bytes, page_tombstones, ..cql::ResultLimits::default() },
        result_bytes_max,
        tombstone_warn_threshold: 0,
    }
}

/// Activates the faults of one round and records them in `excuses`.
pub fn make(rng: &mut Rng, world: &SimWorld, excuses: &mut Excuses) {
    match rng.below(16) {
        0 => {
            excuses.no_space = true;
            let capacity_bytes = world.disk().used_bytes() + rng.below(150_000);
            world.set_faults(|faults| faults.capacity_bytes = Some(capacity_bytes));
        }
        1 => {
            excuses.io = true;
            world.set_faults(|faults| {
                faults.write_error_paths = Some(Rc::new(|path: &Path| {
                    path.components().any(|part| part.as_os_str() == "commitlog")
                }));
            });
        }
        2 => {
            excuses.io = true;
            world.set_faults(|faults| (faults.sync_error, faults.write_error) = (0.05, 0.02));
        }
        3 => {
            excuses.io = true;
            world.set_faults(|faults| faults.read_error = 0.05);
        }
        4..=6 => {
            excuses.network = true;
            world.set_faults(|faults| faults.net_reset = 0.01);
        }
        7 => {
            excuses.vanishing = true;
            world.set_faults(|faults| faults.net_vanish = 0.5);
        }
        _ => {}
    }
}
