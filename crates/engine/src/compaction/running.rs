//! The jobs that run on a shard: no two of them have an SSTable in common.

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

/// A job that is to begin.
pub(super) struct NewJob {
    /// What users know it as: "Compaction", "Cleanup", …
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// Of its inputs, before compression.
    pub(super) total_bytes: u64,
    pub(super) input_sstables: u64,
    pub(super) weight: Option<Weight>,
    /// The most disk space it may take.
    pub(super) needs_bytes: u64,
    pub(super) own: OwnSSTables,
}

/// A job that runs.
pub(super) struct Running {
    pub(super) control: Rc<Control>,
    pub(super) table: Rc<Table>,
    pub(super) job: NewJob,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct RunningJobs {
    jobs: RefCell<Vec<Rc<Running>>>,
    /// Jobs count from 1.
    last_id: Cell<u64>,
    ended: Event,
}

impl RunningJobs {
    /// The job is one of them until [`Self::end`].
    ///
    /// # Errors
    /// Another one works on one of the job's SSTables: of two outputs of one input, one brings back what the other has
    /// purged.
    pub(super) fn begin(&self, table: &Rc<Table>, job: NewJob, now_us: u64) -> Result<Rc<Running>, JobError> {
        // Names are unique within a table only.
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

    /// The job has ended; [`Self::signal_ended`] follows when all is done that its end brings about.
    pub(super) fn end(&self, ended: &Rc<Running>) {
        self.jobs.borrow_mut().retain(|other| !Rc::ptr_eq(other, ended));
    }

    /// Whoever waits in [`Self::until`] checks again.
    pub(super) fn signal_ended(&self) {
        self.ended.signal();
    }

    /// Waits until `is_over` holds, which is checked when a job has ended.
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

    /// The most disk space that they may still take.
    pub(super) fn needs_bytes(&self) -> u64 {
        self.jobs.borrow().iter().map(|running| running.job.needs_bytes).sum()
    }

    /// Stops those of a kind, all if none is named. Gives how many. "Compaction" names merges of every origin: those of
    /// the strategy, major ones and those of named files.
    pub(super) fn stop(&self, kind: Option<&str>) -> usize {
        const MERGES: [&str; 3] = ["Compaction", "Major compaction", "User defined compaction"];
        let is_asked =
            |kind: &str, of_job: &str| of_job == kind || kind == MERGES[0] && MERGES.contains(&of_job);
        let jobs = self.jobs.borrow();
        let stopped = jobs.iter().filter(|running| kind.is_none_or(|kind| is_asked(kind, running.job.kind)));
        stopped.map(|running| running.control.stop()).count()
    }

    /// Ends all, also if errors keep them from tidying up.
    pub(super) fn leave(&self) {
        self.jobs.borrow().iter().for_each(|running| running.control.leave());
    }
}
