//! The part of a shard's compactions that is accessible to jobs of other shards, and to tasks that outlive a
//! job. All calls run on the shard itself.

use std::rc::{Rc, Weak};

use model::TableId;
use runtime::Shard;
use sstable::name::SSTableName;
use sstable::read::ChunkCache;

use super::error::JobError;
use super::manager::Manager;
use crate::error::EngineError;
use crate::table::Table;

/// A shard-local handle on the [`Manager`]; see the head of this file.
pub(super) struct CompactionHost(Weak<Manager>);

impl CompactionHost {
    /// Registers the manager as a local of the shard.
    pub(super) fn offer(shard: &Shard, manager: &Rc<Manager>) {
        shard.set_local(Rc::new(Self(Rc::downgrade(manager))));
    }

    /// `None` if the shard has stopped.
    pub(super) fn of(shard: &Shard) -> Option<HostGuard> {
        shard.local::<Self>()?.0.upgrade().map(HostGuard)
    }
}

/// Access to a shard's compactions for the duration of a call.
pub(super) struct HostGuard(Rc<Manager>);

impl HostGuard {
    /// The table, as long as jobs of it may run. A table that is being dropped is found until its jobs have
    /// ended: they may wait for `files_lock`.
    pub(super) fn table(&self, id: TableId) -> Result<Rc<Table>, EngineError> {
        Ok(self.0.managed(id)?.table.clone())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.schedule.is_stopping()
    }

    /// Wakes the manager: the table's SSTables may be compacted again.
    pub(super) fn nudge(&self, table: &Rc<Table>) {
        self.0.nudge(table);
    }

    /// The chunk cache with which outputs are opened.
    pub(super) fn cache(&self) -> &Rc<ChunkCache> {
        &self.0.around.cache
    }

    /// Reports an error that ends no job.
    pub(super) fn report(&self, table: &Table, error: &JobError) {
        self.0.log_failed(table, error);
    }

    /// See [`Manager::resharded`].
    pub(super) fn resharded(&self, table: &Rc<Table>, input: SSTableName, outputs: &[SSTableName]) {
        self.0.resharded(table, input, outputs);
    }
}
