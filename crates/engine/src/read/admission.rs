//! Which reads may begin: a permit for each, before any reader of it exists.
//!
//! Reads of system tables have a semaphore, and those of users one for each service level (CPU group), so that none
//! keeps the others waiting; the levels divide the memory for reads of users, and lend each other half of it
//! (`read_memory`). A read that cannot be admitted waits in line, for as long as the read timeout allows; what was
//! going on when one was refused is told to the log, at most every `DUMP_PAUSE_US`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use model::PartitionRange;
use reader::semaphore::{PermitGroup, ReadKind, SemaphoreStats};
use reader::{Permit, ReadAdmission, ReadCommand, ReadError, Refusal, Semaphore, SemaphoreLimits};
use reports::{PermitReport, SemaphoreReport};
use runtime::{CpuGroup, GROUPS_MAX, Shard};

use super::read_memory::{self, Holder};
use crate::options::ReadOptions;
use crate::table::Table;

/// How long the log hears nothing of refused reads after it heard of one.
const DUMP_PAUSE_US: u64 = 30_000_000;

/// A read that has waited until less than this part of its time was left is not begun: it would not come to its end,
/// and with many waiting all would be done in vain.
const LEFT_PART_MIN: u64 = 4;

/// See the head of this file.
pub struct Admissions {
    /// By the number of the CPU group in whose name is read: the statements' at 0, others when the first read comes.
    users: RefCell<Vec<Option<UserReads>>>,
    system: Rc<ReadAdmission>,
    /// The shard's.
    memory_bytes: u64,
    options: ReadOptions,
    last_dump_us: Cell<Option<u64>>,
    /// Says where the shard's memory is.
    explain: RefCell<Box<dyn Fn() -> String>>,
}

/// The reads of a group.
struct UserReads {
    admission: Rc<ReadAdmission>,
    /// The group's when they were last looked at.
    shares: u32,
}

/// What reads of users may hold together on a shard of so much memory.
fn limits_of_users(memory_bytes: u64, options: &ReadOptions) -> SemaphoreLimits {
    SemaphoreLimits {
        serialize_multiplier: options.serialize_limit_multiplier,
        kill_multiplier: options.kill_limit_multiplier,
        ..SemaphoreLimits::for_users(memory_bytes)
    }
}

impl Admissions {
    /// `memory_bytes` is the shard's.
    pub fn new(memory_bytes: u64, options: ReadOptions) -> Self {
        let system = Semaphore::new("system", SemaphoreLimits::for_system(memory_bytes));
        let default = Semaphore::new("sl:default", limits_of_users(memory_bytes, &options));
        let default = UserReads { admission: ReadAdmission::new(default), shares: 1000 };
        Self {
            users: RefCell::new(vec![Some(default)]),
            system: ReadAdmission::new(system),
            memory_bytes,
            options,
            last_dump_us: Cell::new(None),
            explain: RefCell::new(Box::new(String::new)),
        }
    }

    /// What `explain` says of the shard's memory is told with each dump.
    pub fn explain_by(&self, explain: impl Fn() -> String + 'static) {
        *self.explain.borrow_mut() = Box::new(explain);
    }

    /// That of the group which runs now. A group that is not there for statements reads as the statements do.
    fn of_group(&self, shard: &Shard) -> Rc<ReadAdmission> {
        let group = match shard.current_group() {
            group @ CpuGroup::Created(_) => group,
            _ => CpuGroup::Statement,
        };
        let mut users = self.users.borrow_mut();
        if users.len() <= group.index() {
            users.resize_with(group.index() + 1, || None);
        }
        let shares = shard.groups().shares(group);
        match &mut users[group.index()] {
            Some(reads) => reads.shares = shares,
            none => {
                let name = shard.groups().name(group).unwrap_or_default();
                let limits = limits_of_users(self.memory_bytes, &self.options);
                let admission = ReadAdmission::new(Semaphore::new(name, limits));
                *none = Some(UserReads { admission, shares });
            }
        }
        self.set_limit(&users, group.index());
        users[group.index()].as_ref().expect("it has just been made").admission.clone()
    }

    /// What the group's reads may hold as things are now: looked at anew for each read, since the others come and go.
    fn set_limit(&self, users: &[Option<UserReads>], index: usize) {
        let mut holders = [Holder { shares: 0, used_bytes: 0 }; GROUPS_MAX];
        for (holder, reads) in holders.iter_mut().zip(users) {
            let Some(reads) = reads else { continue };
            let used_bytes = reads.admission.with(|semaphore| semaphore.used_bytes());
            *holder = Holder { shares: reads.shares, used_bytes };
        }
        let whole = limits_of_users(self.memory_bytes, &self.options);
        let memory_bytes = read_memory::limit_bytes(whole.memory_bytes, &holders[..users.len()], index);
        if let Some(reads) = &users[index] {
            reads.admission.with(|semaphore| semaphore.set_limits(SemaphoreLimits { memory_bytes, ..whole }));
        }
    }

    /// A group has gone: what its number will stand for is another.
    pub fn forget_group(&self, group: CpuGroup) {
        let mut users = self.users.borrow_mut();
        if let Some(reads) = users.get_mut(group.index()) {
            *reads = None;
        }
    }

    /// Waits until the read may begin.
    ///
    /// # Errors
    /// Too many wait already, or this one has waited for too long.
    pub async fn admit(
        &self,
        shard: &Shard,
        table: &Table,
        command: &ReadCommand,
    ) -> Result<Rc<Permit>, ReadError> {
        let admission = &if table.is_system() { self.system.clone() } else { self.of_group(shard) };
        let kind = match command.partitions {
            PartitionRange::Key(_) => ReadKind::Partition,
            PartitionRange::Between { .. } => ReadKind::Range,
        };
        let permit = match admission.enter(table.full_name(), "data-query", kind) {
            Ok(permit) => permit,
            Err(error) => {
                self.tell(shard, || admission.with(|semaphore| semaphore.dump("wait queue overload", None)));
                return Err(error);
            }
        };
        if permit.is_waiting() {
            let timeout_us = self.timeout_us(command);
            let entered_us = shard.now_us();
            let (mut admitted, mut alarm) = (pin!(permit.admitted()), pin!(shard.sleep_us(timeout_us)));
            let in_time = poll_fn(|cx| match admitted.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => alarm.as_mut().poll(cx).map(|()| false),
            });
            let in_time = in_time.await;
            let left_us = timeout_us.saturating_sub(shard.now_us() - entered_us);
            if !in_time || left_us < timeout_us / LEFT_PART_MIN {
                self.tell(shard, || permit.dump("timed out"));
                return Err(permit.time_out());
            }
        }
        Ok(Rc::new(permit))
    }

    /// A page may be read past so many tombstones.
    pub fn tombstones_max(&self, table: &Table) -> u64 {
        match self.options.tombstone_failure_threshold {
            0 => u64::MAX,
            _ if table.is_system() => u64::MAX,
            threshold => threshold,
        }
    }

    /// How long the read may take, waiting included.
    pub fn timeout_us(&self, command: &ReadCommand) -> u64 {
        command.timeout_us.unwrap_or(match command.partitions {
            PartitionRange::Key(_) => self.options.timeout_us,
            PartitionRange::Between { .. } => self.options.range_timeout_us,
        })
    }

    /// A read that had been admitted failed.
    pub fn failed(&self, shard: &Shard, permit: &Permit, error: &ReadError) {
        if let ReadError::Refused(Refusal::Killed(_)) = error {
            self.tell(shard, || permit.dump("kill limit triggered"));
        }
    }

    fn tell(&self, shard: &Shard, dump: impl FnOnce() -> String) {
        let now_us = shard.now_us();
        if self.last_dump_us.get().is_none_or(|last_us| now_us >= last_us + DUMP_PAUSE_US) {
            self.last_dump_us.set(Some(now_us));
            let memory = (self.explain.borrow())();
            (self.options.tell)(shard.id(), &format!("{}\n{memory}", dump()));
        }
    }

    fn all(&self) -> Vec<Rc<ReadAdmission>> {
        let users = self.users.borrow();
        let users = users.iter().flatten().map(|reads| reads.admission.clone());
        users.chain([self.system.clone()]).collect()
    }

    /// What is going on in each, for people.
    pub fn dump(&self) -> Vec<String> {
        let dump =
            |admission: &Rc<ReadAdmission>| admission.with(|semaphore| semaphore.dump("user request", None));
        self.all().iter().map(dump).collect()
    }

    /// What is going on in each, as values.
    pub fn reports(&self) -> Vec<SemaphoreReport> {
        let of = |admission: &Rc<ReadAdmission>| admission.with(semaphore_report);
        self.all().iter().map(of).collect()
    }

    /// Names, limits and counters of each.
    pub fn stats(&self) -> Vec<(String, SemaphoreLimits, SemaphoreStats)> {
        let of = |admission: &Rc<ReadAdmission>| {
            admission.with(|semaphore| (semaphore.name().to_string(), semaphore.limits(), semaphore.stats()))
        };
        self.all().iter().map(of).collect()
    }
}

fn semaphore_report(semaphore: &mut Semaphore) -> SemaphoreReport {
    let (limits, stats) = (semaphore.limits(), semaphore.stats());
    SemaphoreReport {
        name: semaphore.name().to_string(),
        admitted: stats.used_count,
        admitted_limit: limits.count,
        memory_bytes: stats.used_bytes,
        memory_limit_bytes: limits.memory_bytes,
        queued: stats.queued,
        stats: semaphore.counters().into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        permits: semaphore.groups().into_iter().map(permit_report).collect(),
    }
}

fn permit_report(group: PermitGroup) -> PermitReport {
    let (keyspace, table) = group.table.split_once('.').unwrap_or(("", &group.table));
    PermitReport {
        keyspace: keyspace.to_string(),
        table: table.to_string(),
        operation: group.operation.to_string(),
        state: group.state.map_or("", |state| state.name()).to_string(),
        permits: group.permits,
        admitted: group.count,
        memory_bytes: group.bytes,
    }
}
