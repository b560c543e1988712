//! The running jobs of a shard. No two of them have an SSTable in common.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::HashSet;
use compaction::weight::Weight;
use model::TableId;
use runtime::Event;
use sstable::name::SSTableName;

use super::error::JobError;
use super::job::Control;
use super::purge::OwnSSTables;
use crate::table::Table;

/// A job before it starts.
pub(super) struct NewJob {
    /// The name shown to users: "Compaction", "Cleanup", …
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// Uncompressed bytes of its inputs.
    pub(super) total_bytes: u64,
    pub(super) input_sstables: u64,
    pub(super) weight: Option<Weight>,
    /// Upper bound of its disk space.
    pub(super) needs_bytes: u64,
    pub(super) own: OwnSSTables,
}

/// A running job.
pub(super) struct Running {
    pub(super) control: Rc<Control>,
    pub(super) table: Rc<Table>,
    pub(super) job: NewJob,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct RunningJobs {
    jobs: RefCell<Vec<Rc<Running>>>,
    /// Ids count from 1.
    last_id: Cell<u64>,
    ended: Event,
}

impl RunningJobs {
    /// Registers the job until [`Self::end`].
    ///
    /// # Errors
    /// Another job has one of the job's SSTables. Of two outputs of one input, one would bring back the data
    /// that the other has purged.
    pub(super) fn begin(&self, table: &Rc<Table>, job: NewJob, now_us: u64) -> Result<Rc<Running>, JobError> {
        // Names are unique only within a table.
        let of_table = self.of_table(table.schema().id);
        let in_use =
            |running: &Rc<Running>| running.job.own.borrow().intersection(&job.own.borrow()).next().copied();
        if let Some(name) = of_table.iter().find_map(in_use) {
            return Err(JobError::Refused(format!(
                "another compaction works on {name}; try again when it has ended"
            )));
        }
        self.last_id.set(self.last_id.get() + 1);
        let control = Control::new(self.last_id.get(), job.total_bytes, now_us);
        let running = Rc::new(Running { control, table: table.clone(), job });
        self.jobs.borrow_mut().push(running.clone());
        Ok(running)
    }

    /// Removes the job. [`Self::signal_ended`] follows when the effects of its end are complete.
    pub(super) fn end(&self, ended: &Rc<Running>) {
        self.jobs.borrow_mut().retain(|other| !Rc::ptr_eq(other, ended));
    }

    /// Makes the tasks that wait in [`Self::until`] check again.
    pub(super) fn signal_ended(&self) {
        self.ended.signal();
    }

    /// Waits until `is_over` holds; it is checked each time a job has ended.
    pub(super) async fn until(&self, is_over: impl Fn() -> bool) {
        self.ended.until(is_over).await;
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.borrow().len()
    }

    pub(super) fn all(&self) -> Vec<Rc<Running>> {
        self.jobs.borrow().clone()
    }

    pub(super) fn of_table(&self, id: TableId) -> Vec<Rc<Running>> {
        let jobs = self.jobs.borrow();
        jobs.iter().filter(|running| running.table.schema().id == id).cloned().collect()
    }

    pub(super) fn has_kind(&self, kind: &str) -> bool {
        self.jobs.borrow().iter().any(|running| running.job.kind == kind)
    }

    /// The SSTables of the table that no other job may take.
    pub(super) fn sstables(&self, id: TableId) -> HashSet<SSTableName> {
        self.of_table(id).iter().flat_map(|running| running.job.own.borrow().clone()).collect()
    }

    /// Upper bound of the disk space that the running jobs may still use.
    pub(super) fn needs_bytes(&self) -> u64 {
        self.jobs.borrow().iter().map(|running| running.job.needs_bytes).sum()
    }

    /// Stops the jobs of a kind, or all if none is given, and returns their number. "Compaction" includes
    /// every merge: those of the strategy, major ones, and those of named files.
    pub(super) fn stop(&self, kind: Option<&str>) -> usize {
        const MERGES: [&str; 3] = ["Compaction", "Major compaction", "User defined compaction"];
        let is_asked =
            |kind: &str, of_job: &str| of_job == kind || kind == MERGES[0] && MERGES.contains(&of_job);
        let jobs = self.jobs.borrow();
        let stopped = jobs.iter().filter(|running| kind.is_none_or(|kind| is_asked(kind, running.job.kind)));
        stopped.map(|running| running.control.stop()).count()
    }

    /// Stops the job of this number; false if there is none.
    pub(super) fn stop_one(&self, id: u64) -> bool {
        let jobs = self.jobs.borrow();
        let found = jobs.iter().find(|running| running.control.id == id);
        found.map(|running| running.control.stop()).is_some()
    }

    /// Stops all jobs, even if errors prevent their cleanup.
    pub(super) fn leave(&self) {
        self.jobs.borrow().iter().for_each(|running| running.control.leave());
    }
}
