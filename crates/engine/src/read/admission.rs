//! Admission of reads: each read gets a permit before any reader of it is opened.
//!
//! Reads of system tables have a semaphore, and those of users one for each service level (CPU group), so
//! that none keeps the others waiting; the levels divide the memory for reads of users, and lend each other
//! half of it (`read_memory`). A read that cannot be admitted waits in line, for as long as the read timeout
//! allows; what was going on when one was refused is logged, at most every `DUMP_PAUSE_US`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use base::LogThrottle;
use log::info;
use model::PartitionRange;
use reader::semaphore::{PermitGroup, ReadKind, SemaphoreStats};
use reader::{Permit, ReadAdmission, ReadCommand, ReadError, Refusal, Semaphore, SemaphoreLimits};
use reports::{PermitReport, SemaphoreReport};
use runtime::{CpuGroup, GROUPS_MAX, Shard};

use super::read_memory::{self, Holder};
use crate::options::ReadOptions;
use crate::table::Table;

/// Pause between two dumps in the log.
const DUMP_PAUSE_US: u64 = 30_000_000;

/// Inverse of a fraction: a read whose remaining time after the wait is below this part of its timeout is
/// refused, because it would not finish, and with many waiting reads all work would be wasted.
const LEFT_PART_MIN: u64 = 4;

/// See the head of this file.
pub struct Admissions {
    /// By the number of the CPU group that is charged for the read: `CpuGroup::Statement` is 0, others are
    /// created with their first read.
    users: RefCell<Vec<Option<UserReads>>>,
    system: Rc<ReadAdmission>,
    /// The shard's memory.
    memory_bytes: u64,
    options: ReadOptions,
    dumps: LogThrottle,
    /// Says where the shard's memory is.
    explain: RefCell<Box<dyn Fn() -> String>>,
}

/// The reads of a group.
struct UserReads {
    admission: Rc<ReadAdmission>,
    /// The group's shares at its last read.
    shares: u32,
}

/// The limits of all users' reads together on a shard with this memory.
fn limits_of_users(memory_bytes: u64, options: &ReadOptions) -> SemaphoreLimits {
    SemaphoreLimits {
        serialize_multiplier: options.serialize_limit_multiplier,
        kill_multiplier: options.kill_limit_multiplier,
        ..SemaphoreLimits::for_users(memory_bytes)
    }
}

impl Admissions {
    /// `memory_bytes` is the shard's memory.
    pub fn new(memory_bytes: u64, options: ReadOptions) -> Self {
        let system = Semaphore::new("system", SemaphoreLimits::for_system(memory_bytes));
        let default = Semaphore::new("sl:default", limits_of_users(memory_bytes, &options));
        let default = UserReads { admission: ReadAdmission::new(default), shares: 1000 };
        Self {
            users: RefCell::new(vec![Some(default)]),
            system: ReadAdmission::new(system),
            memory_bytes,
            options,
            dumps: LogThrottle::default(),
            explain: RefCell::new(Box::new(String::new)),
        }
    }

    /// What `explain` says of the shard's memory is logged with each dump.
    pub fn explain_by(&self, explain: impl Fn() -> String + 'static) {
        *self.explain.borrow_mut() = Box::new(explain);
    }

    /// The admission of the current group. A group that is not a service level uses that of statements.
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

    /// Sets the current limit of the group's reads. Recomputed for each read, because the usage of the other
    /// groups changes.
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

    /// Removes a group that was deleted, because its number may be reused.
    pub fn forget_group(&self, group: CpuGroup) {
        let mut users = self.users.borrow_mut();
        if let Some(reads) = users.get_mut(group.index()) {
            *reads = None;
        }
    }

    /// Waits until the read may begin.
    ///
    /// # Errors
    /// Too many reads are waiting, or this one has waited too long.
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
                self.log_refused(shard, || {
                    admission.with(|semaphore| semaphore.dump("wait queue overload", None))
                });
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
                self.log_refused(shard, || permit.dump("timed out"));
                return Err(permit.time_out());
            }
        }
        Ok(Rc::new(permit))
    }

    /// Limit of tombstones read for a page.
    pub fn tombstones_max(&self, table: &Table) -> u64 {
        match self.options.tombstone_failure_threshold {
            0 => u64::MAX,
            _ if table.is_system() => u64::MAX,
            threshold => threshold,
        }
    }

    /// Time limit of the read, including its wait for admission.
    pub fn timeout_us(&self, command: &ReadCommand) -> u64 {
        command.timeout_us.unwrap_or(match command.partitions {
            PartitionRange::Key(_) => self.options.timeout_us,
            PartitionRange::Between { .. } => self.options.range_timeout_us,
        })
    }

    /// Records the failure of an admitted read.
    pub fn failed(&self, shard: &Shard, permit: &Permit, error: &ReadError) {
        if let ReadError::Refused(Refusal::Killed(_)) = error {
            self.log_refused(shard, || permit.dump("kill limit triggered"));
        }
    }

    /// Logs the diagnostics of a refused read and where the shard's memory is, at most every
    /// [`DUMP_PAUSE_US`].
    fn log_refused(&self, shard: &Shard, dump: impl FnOnce() -> String) {
        if self.dumps.admit(shard.now_us(), DUMP_PAUSE_US).is_some() {
            let memory = || (self.explain.borrow())();
            info!(target: "reader_concurrency_semaphore", "{}\n{}", dump(), memory());
        }
    }

    fn all(&self) -> Vec<Rc<ReadAdmission>> {
        let users = self.users.borrow();
        let users = users.iter().flatten().map(|reads| reads.admission.clone());
        users.chain([self.system.clone()]).collect()
    }

    /// Human-readable state of each semaphore.
    pub fn dump(&self) -> Vec<String> {
        let dump =
            |admission: &Rc<ReadAdmission>| admission.with(|semaphore| semaphore.dump("user request", None));
        self.all().iter().map(dump).collect()
    }

    /// State of each semaphore, as values.
    pub fn reports(&self) -> Vec<SemaphoreReport> {
        let of = |admission: &Rc<ReadAdmission>| admission.with(semaphore_report);
        self.all().iter().map(of).collect()
    }

    /// Name, limits and counters of each semaphore.
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
