//! Which reads may begin: a permit for each, before any reader of it exists.
//!
//! Reads of users and of system tables have a semaphore each, so that neither keeps the other waiting. A read that
//! cannot be admitted waits in line, for as long as the read timeout allows; what was going on when one was refused
//! is told to the log, at most every `DUMP_PAUSE_US`.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use model::PartitionRange;
use reader::semaphore::SemaphoreStats;
use reader::{Permit, ReadAdmission, ReadCommand, ReadError, Refusal, Semaphore, SemaphoreLimits};
use runtime::Shard;

use crate::options::ReadOptions;
use crate::table::Table;

/// How long the log hears nothing of refused reads after it heard of one.
const DUMP_PAUSE_US: u64 = 30_000_000;

/// A read that has waited until less than this part of its time was left is not begun: it would not come to its end, and with many
/// waiting all would be done in vain.
const LEFT_PART_MIN: u64 = 4;

/// See the head of this file.
pub struct Admissions {
    users: Rc<ReadAdmission>,
    system: Rc<ReadAdmission>,
    options: ReadOptions,
    last_dump_us: Cell<Option<u64>>,
}

impl Admissions {
    /// `memory_bytes` is the shard's.
    pub fn new(memory_bytes: u64, options: ReadOptions) -> Self {
        let users = Semaphore::new("sl:default", SemaphoreLimits::for_users(memory_bytes));
        let system = Semaphore::new("system", SemaphoreLimits::for_system(memory_bytes));
        Self {
            users: ReadAdmission::new(users),
            system: ReadAdmission::new(system),
            options,
            last_dump_us: Cell::new(None),
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
        let admission = if table.is_system() { &self.system } else { &self.users };
        let permit = match admission.enter(table.full_name(), "data-query") {
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
            (self.options.tell)(shard.id(), &dump());
        }
    }

    /// What is going on in both, for people.
    pub fn dump(&self) -> Vec<String> {
        let dump =
            |admission: &ReadAdmission| admission.with(|semaphore| semaphore.dump("user request", None));
        vec![dump(&self.users), dump(&self.system)]
    }

    /// Names, limits and counters of both.
    pub fn stats(&self) -> Vec<(String, SemaphoreLimits, SemaphoreStats)> {
        let of = |admission: &ReadAdmission| {
            admission.with(|semaphore| (semaphore.name().to_string(), semaphore.limits(), semaphore.stats()))
        };
        vec![of(&self.users), of(&self.system)]
    }
}
