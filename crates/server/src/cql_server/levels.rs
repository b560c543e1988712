//! The service levels of a shard: the level of each session, and counters of each level.
//!
//! Levels are part of the catalog. [`publish`] applies them on every shard: each level has a CPU group with
//! the level's shares, which is also its I/O class and its read semaphore. A statement that changes roles or
//! levels is answered after that, and every session compares [`Levels::version`] before its next request, so
//! changes take effect at once for open connections too.
//!
//! The default level is the group `statement` and always exists. A level for which no group could be made is
//! served there. The level `driver` is built in too: it serves logins and the statements by which drivers
//! read nodes and schema (`Session::served_for`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Access, DEFAULT_LEVEL, DRIVER_LEVEL, DRIVER_SHARES, Workload};
use engine::EngineError;
use engine::node::NodeShard;
use engine::shard::EngineShard;
use engine::table::counters::LatencyCounter;
use runtime::{CpuGroup, GROUPS_MAX, GroupError, Shard};

use super::overload::ServiceRate;
use super::{CqlShard, on_all_shards};

/// Limit of the number of levels, besides the default level and the level `driver`.
pub const LEVELS_MAX: usize = GROUPS_MAX - CpuGroup::ALL.len() - 1;

/// Prefix of the groups of service levels; the level's name follows.
const GROUP_PREFIX: &str = "sl:";

/// A service level on a shard.
pub(crate) struct Level {
    pub name: String,
    pub group: Cell<CpuGroup>,
    pub service_rate: RefCell<ServiceRate>,
    pub counters: LevelCounters,
}

/// Counters of a level, for metrics.
#[derive(Default)]
pub(crate) struct LevelCounters {
    pub requests: Cell<u64>,
    /// Requests refused because of overload.
    pub shed: Cell<u64>,
    /// Times that a connection was not read because of overload.
    pub delayed: Cell<u64>,
    pub timed_out: Cell<u64>,
    /// From the arrival of a request to its answer.
    pub latency: LatencyCounter,
}

/// Increments a counter.
pub(crate) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Level {
    fn new(name: &str, group: CpuGroup) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_string(),
            group: Cell::new(group),
            service_rate: RefCell::default(),
            counters: LevelCounters::default(),
        })
    }
}

/// The level, timeout and workload of a session's requests.
#[derive(Clone)]
pub(crate) struct Effective {
    pub level: Rc<Level>,
    /// Overrides the node's timeouts.
    pub timeout_us: Option<u64>,
    pub workload: Workload,
}

/// See the head of this file.
pub(crate) struct Levels {
    version: Cell<u64>,
    access: RefCell<Arc<Access>>,
    by_name: RefCell<BTreeMap<String, Rc<Level>>>,
    default: Rc<Level>,
    driver: Rc<Level>,
}

impl Levels {
    pub fn new() -> Self {
        Self {
            version: Cell::new(0),
            access: RefCell::default(),
            by_name: RefCell::default(),
            default: Level::new(DEFAULT_LEVEL, CpuGroup::Statement),
            driver: Level::new(DRIVER_LEVEL, CpuGroup::Statement),
        }
    }

    /// When the version changes, each session must look up its level again.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// All levels, the built-in ones first.
    pub fn all(&self) -> Vec<Rc<Level>> {
        let mut all = vec![self.default.clone(), self.driver.clone()];
        all.extend(self.by_name.borrow().values().cloned());
        all
    }

    /// A level by name, and its timeout in microseconds.
    pub fn named(&self, name: &str) -> Option<(Rc<Level>, Option<u64>)> {
        match name {
            DEFAULT_LEVEL => return Some((self.default.clone(), None)),
            DRIVER_LEVEL => return Some((self.driver.clone(), None)),
            _ => {}
        }
        let level = self.by_name.borrow().get(name)?.clone();
        let timeout_ms = self.access.borrow().level(name).and_then(|level| level.timeout_ms);
        Some((level, timeout_ms.map(|ms| ms.saturating_mul(1000))))
    }

    /// The level of drivers' own statements.
    pub fn of_drivers(&self) -> Effective {
        Effective { level: self.driver.clone(), timeout_us: None, workload: Workload::Batch }
    }

    /// The level of a role; `None`: a client that has not logged in.
    pub fn of_role(&self, role: Option<&str>) -> Effective {
        let found = role.and_then(|role| self.access.borrow().effective_level(role));
        let Some(found) = found else {
            return Effective {
                level: self.default.clone(),
                timeout_us: None,
                workload: Workload::Unspecified,
            };
        };
        let level = self.by_name.borrow().get(&found.shares.level).cloned();
        Effective {
            level: level.unwrap_or_else(|| self.default.clone()),
            timeout_us: found.timeout_ms.value.map(|ms| ms.saturating_mul(1000)),
            workload: found.workload.value,
        }
    }

    /// Applies the catalog's levels.
    fn take_over(&self, shard: &Shard, access: &Arc<Access>) {
        self.driver.group.set(group_of(shard, DRIVER_LEVEL, DRIVER_SHARES));
        let mut by_name = self.by_name.borrow_mut();
        by_name.retain(|name, _| access.level(name).is_some());
        for (name, level) in access.levels() {
            let group = group_of(shard, name, level.shares);
            match by_name.get(name) {
                Some(known) => known.group.set(group),
                None => drop(by_name.insert(name.to_string(), Level::new(name, group))),
            }
        }
        *self.access.borrow_mut() = access.clone();
        self.version.set(self.version.get() + 1);
    }
}

/// The level's group with these shares. It is created if no shard has done so yet.
fn group_of(shard: &Shard, level: &str, shares: u32) -> CpuGroup {
    let (groups, name) = (shard.groups(), format!("{GROUP_PREFIX}{level}"));
    let group = match groups.create(&name, shares) {
        Ok(group) => Some(group),
        // Another shard has created the group.
        Err(GroupError::NameTaken(_)) => groups.by_name(&name),
        Err(_) => None,
    };
    match group {
        Some(group) => {
            if groups.shares(group) != shares {
                groups.set_shares(group, shares);
            }
            group
        }
        None => CpuGroup::Statement,
    }
}

/// Applies the catalog's levels on every shard, and removes the groups of dropped levels.
pub(crate) async fn publish(shard: &Shard) -> Result<(), EngineError> {
    // Each shard uses its own catalog, so a late call does not restore an earlier state.
    let take_over = |cql: &CqlShard| {
        let Ok(node) = NodeShard::of(&cql.shard) else { return };
        let access = node.catalog.borrow().access().clone();
        cql.levels.take_over(&cql.shard, &access);
        // A connection that waits at one level may have another level now.
        cql.released.signal();
    };
    on_all_shards(shard, take_over).await;
    let clean_up = |shard: Shard| async move {
        let Ok(node) = NodeShard::of(&shard) else { return };
        let is_gone = |name: &str| {
            let level = name.strip_prefix(GROUP_PREFIX);
            level.is_some_and(|level| {
                level != DRIVER_LEVEL && node.catalog.borrow().access().level(level).is_none()
            })
        };
        let groups = shard.groups();
        for (group, name) in groups.list().into_iter().filter(|(_, name)| is_gone(name)) {
            for target in 0..shard.shard_count() {
                let forget = move |shard: Shard| async move {
                    if let Ok(engine) = EngineShard::of(&shard) {
                        engine.admissions().forget_group(group);
                    }
                };
                // A stopped shard has no state to remove.
                let _ = shard.call(target, CpuGroup::Statement, forget).await;
            }
            // Meanwhile the level may have been created again, or another call may have removed the group.
            if is_gone(&name) && groups.name(group).as_ref() == Some(&name) {
                let _ = groups.remove(group);
            }
        }
    };
    Ok(shard.call(0, CpuGroup::Statement, clean_up).await?)
}

/// Counters of a level on a shard, for metrics.
#[derive(Clone, Debug)]
pub struct LevelReport {
    pub level: String,
    pub requests: u64,
    pub shed: u64,
    pub delayed: u64,
    pub timed_out: u64,
    pub under_way: u32,
    pub latency: engine::table::counters::Latencies,
}

/// For every shard a list, the default level first.
pub async fn report(shard: &Shard) -> Vec<Vec<LevelReport>> {
    let mut reports = vec![];
    for target in 0..shard.shard_count() {
        let asked = shard.call(target, CpuGroup::Statement, |shard| async move {
            let Ok(cql) = CqlShard::of(&shard) else { return vec![] };
            let of = |level: &Rc<Level>| LevelReport {
                level: level.name.clone(),
                requests: level.counters.requests.get(),
                shed: level.counters.shed.get(),
                delayed: level.counters.delayed.get(),
                timed_out: level.counters.timed_out.get(),
                under_way: level.service_rate.borrow().in_flight(),
                latency: level.counters.latency.get(),
            };
            cql.levels.all().iter().map(of).collect()
        });
        reports.push(asked.await.unwrap_or_default());
    }
    reports
}
