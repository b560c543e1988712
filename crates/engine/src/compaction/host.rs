//! What a shard's compactions offer to jobs of other shards, and to tasks that outlive a job: little, and by the shard
//! alone.

use std::rc::{Rc, Weak};

use model::TableId;
use runtime::Shard;
use sstable::name::SSTableName;
use sstable::read::ChunkCache;

use super::error::JobError;
use super::manager::Manager;
use crate::error::EngineError;
use crate::table::Table;

/// See the head of this file.
pub(super) struct CompactionHost(Weak<Manager>);

impl CompactionHost {
    /// Calls to this shard find the manager from now on.
    pub(super) fn offer(shard: &Shard, manager: &Rc<Manager>) {
        shard.set_local(Rc::new(Self(Rc::downgrade(manager))));
    }

    /// `None`: the shard has ended.
    pub(super) fn of(shard: &Shard) -> Option<HostGuard> {
        shard.local::<Self>()?.0.upgrade().map(HostGuard)
    }
}

/// The compactions of a shard for the length of a call.
pub(super) struct HostGuard(Rc<Manager>);

impl HostGuard {
    /// The table while jobs of it may run. One that is being dropped is found until its jobs have ended: they may wait
    /// for files that are held.
    pub(super) fn table(&self, id: TableId) -> Result<Rc<Table>, EngineError> {
        Ok(self.0.managed(id)?.table.clone())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.schedule.is_stopping()
    }

    /// The table's SSTables may be compacted again.
    pub(super) fn nudge(&self, table: &Rc<Table>) {
        self.0.nudge(table);
    }

    /// What outputs are opened with.
    pub(super) fn cache(&self) -> &Rc<ChunkCache> {
        &self.0.around.cache
    }

    /// An error that ends no job.
    pub(super) fn report(&self, table: &Table, error: &JobError) {
        self.0.log_failed(table, error);
    }

    /// See [`Manager::resharded`].
    pub(super) fn resharded(&self, table: &Rc<Table>, input: SSTableName, outputs: &[SSTableName]) {
        self.0.resharded(table, input, outputs);
    }
}
