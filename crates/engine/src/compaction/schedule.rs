//! Decides when strategies are asked for jobs, and how many jobs may run.
//!
//! Of each **weight** (the logarithm to base 4 of the bytes to merge) one job runs at a time on a shard, so
//! that large jobs do not pile up. A job that merges fewer runs than a running job waits as well; see
//! `compaction::weight`.

use std::cell::{Cell, RefCell};

use compaction::weight::{Admission, JobRefusal, Weight};
use runtime::{Event, NextEvent};

/// Interval at which every table is asked, without regard to events.
const ASK_ALL_US: u64 = 60_000_000;

/// See the head of this file.
pub(super) struct Schedule {
    /// The weights of jobs started by strategies.
    admission: RefCell<Admission>,
    /// Signalled when a strategy is to be asked.
    work: Event,
    has_started: Cell<bool>,
    stopping: Cell<bool>,
    /// Limit of concurrent jobs of any weight; 0: the number of weights.
    jobs_max: Cell<u32>,
    last_ask_us: Cell<u64>,
}

impl Schedule {
    pub(super) fn new(jobs_max: u32) -> Self {
        Self {
            admission: RefCell::default(),
            work: Event::new(),
            has_started: Cell::new(false),
            stopping: Cell::new(false),
            jobs_max: Cell::new(jobs_max),
            last_ask_us: Cell::new(0),
        }
    }

    /// Wakes the manager's task, which asks the strategies of the tables that want it.
    pub(super) fn wake(&self) {
        self.work.signal();
    }

    /// The next [`Self::wake`].
    pub(super) fn next_wake(&self) -> NextEvent<'_> {
        self.work.next()
    }

    /// Allows jobs to start.
    pub(super) fn start(&self) {
        self.has_started.set(true);
    }

    pub(super) fn has_started(&self) -> bool {
        self.has_started.get()
    }

    /// No job starts afterwards.
    pub(super) fn stop(&self) {
        self.stopping.set(true);
        self.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub(super) fn jobs_max(&self) -> u32 {
        self.jobs_max.get()
    }

    pub(super) fn set_jobs_max(&self, jobs: u32) {
        self.jobs_max.set(jobs);
        self.wake();
    }

    /// Whether a strategy may start a job in addition to `running` others.
    pub(super) fn has_room(&self, running: usize) -> bool {
        !self.stopping.get() && (self.jobs_max.get() == 0 || running < self.jobs_max.get() as usize)
    }

    /// Whether a job of the weight may start; if so, it counts until [`Self::release`].
    pub(super) fn admit(&self, weight: Weight) -> bool {
        self.admission.borrow_mut().begin(weight).is_ok()
    }

    /// Why a job of the weight may not start now.
    pub(super) fn check(&self, weight: Weight) -> Result<(), JobRefusal> {
        self.admission.borrow().check(weight)
    }

    pub(super) fn release(&self, weight: Weight) {
        self.admission.borrow_mut().end(weight);
    }

    /// Whether the interval [`ASK_ALL_US`] is over.
    pub(super) fn is_poll_due(&self, now_us: u64) -> bool {
        now_us >= self.last_ask_us.get() + ASK_ALL_US
    }

    /// Records that every table is asked now.
    pub(super) fn asks_all(&self, now_us: u64) {
        self.last_ask_us.set(now_us);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_room_up_to_their_number_and_until_a_stop() {
        let schedule = Schedule::new(2);
        assert!(schedule.has_room(1) && !schedule.has_room(2));
        schedule.set_jobs_max(0);
        assert!(schedule.has_room(200));
        let weight = Weight::new(1 << 20, 4);
        assert!(schedule.admit(weight) && !schedule.admit(weight));
        schedule.release(weight);
        assert!(schedule.admit(weight));
        schedule.stop();
        assert!(!schedule.has_room(0));
    }
}
