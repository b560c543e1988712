//! The service levels of a shard: which one a session's requests are served at, and what was served at each.
//!
//! Levels are part of the catalog. [`publish`] makes them true on every shard: a CPU group for each, which is its class of
//! I/O and its semaphore of reads too, with the level's shares. A statement that changes roles or levels is answered after
//! that, and every session looks at [`Levels::version`] before its next request: so changes count at once, also for
//! those who are connected.
//!
//! The default level is the group `statement` and is always there. Levels for which there is no group are served there. The level `driver` is
//! built in too: for logging in, and for statements by which drivers look at nodes and schema (`Session::served_for`).

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

use super::overload::Pace;
use super::{CqlShard, on_all_shards};

/// So many levels there can be, besides the default one and the drivers' own.
pub const LEVELS_MAX: usize = GROUPS_MAX - CpuGroup::ALL.len() - 1;

/// Groups of service levels are called so, with the level's name behind.
const GROUP_PREFIX: &str = "sl:";

/// A level on a shard.
pub(crate) struct Level {
    pub name: String,
    pub group: Cell<CpuGroup>,
    pub pace: RefCell<Pace>,
    pub counters: LevelCounters,
}

/// What was served at a level, for metrics.
#[derive(Default)]
pub(crate) struct LevelCounters {
    pub requests: Cell<u64>,
    /// Refused because there was too much to do.
    pub shed: Cell<u64>,
    /// Times a connection was not read because there was too much to do.
    pub delayed: Cell<u64>,
    pub timed_out: Cell<u64>,
    /// From the arrival of a request to its answer.
    pub latency: LatencyCounter,
}

/// Of one counter one more.
pub(crate) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Level {
    fn new(name: &str, group: CpuGroup) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_string(),
            group: Cell::new(group),
            pace: RefCell::default(),
            counters: LevelCounters::default(),
        })
    }
}

/// At what a session is served.
#[derive(Clone)]
pub(crate) struct Effective {
    pub level: Rc<Level>,
    /// In place of the node's timeouts.
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

    /// Another one: what a session is served at is to be looked up again.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// All of them, the built-in ones first.
    pub fn all(&self) -> Vec<Rc<Level>> {
        let mut all = vec![self.default.clone(), self.driver.clone()];
        all.extend(self.by_name.borrow().values().cloned());
        all
    }

    /// A level and its timeout in microseconds.
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

    /// At what drivers are served that look after themselves.
    pub fn of_drivers(&self) -> Effective {
        Effective { level: self.driver.clone(), timeout_us: None, workload: Workload::Batch }
    }

    /// At what the role is served; `None`: whoever has not logged in.
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

    /// Takes over what the catalog says.
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

/// The level's group with these shares, made if no shard has made it yet.
fn group_of(shard: &Shard, level: &str, shares: u32) -> CpuGroup {
    let (groups, name) = (shard.groups(), format!("{GROUP_PREFIX}{level}"));
    let group = match groups.create(&name, shares) {
        Ok(group) => Some(group),
        // Another shard was first.
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

/// Makes the catalog's levels true on every shard, and takes away the groups of those that are gone.
pub(crate) async fn publish(shard: &Shard) -> Result<(), EngineError> {
    // Each by its own catalog: whoever comes late does not bring back what was before.
    let take_over = |cql: &CqlShard| {
        let Ok(node) = NodeShard::of(&cql.shard) else { return };
        let access = node.catalog.borrow().access().clone();
        cql.levels.take_over(&cql.shard, &access);
        // Who waits at one level may be served at another now.
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
                // A shard that has stopped has nothing to forget.
                let _ = shard.call(target, CpuGroup::Statement, forget).await;
            }
            // Somebody may have made a level of that name meanwhile, or have cleaned up first.
            if is_gone(&name) && groups.name(group).as_ref() == Some(&name) {
                let _ = groups.remove(group);
            }
        }
    };
    Ok(shard.call(0, CpuGroup::Statement, clean_up).await?)
}

/// What was served at each level of a shard, for metrics.
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

/// Of every shard, the default level first.
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
                under_way: level.pace.borrow().under_way(),
                latency: level.counters.latency.get(),
            };
            cql.levels.all().iter().map(of).collect()
        });
        reports.push(asked.await.unwrap_or_default());
    }
    reports
}
