//! Secondary indexes of SSTables that do not have them: of an index that is new, of an SSTable from
//! elsewhere, of a component that was damaged. And components of indexes that were dropped are removed.
//!
//! A job like any other: one at a time on a shard, with progress, and no compaction takes its SSTable
//! meanwhile. What a crash interrupts begins again with the SSTable it was at; those that were done have
//! their component.

use std::cell::RefCell;
use std::rc::Rc;

use runtime::IoClass;
use sstable::write::{build_index, discard_index, publish_index, remove_index};

use super::error::JobError;
use super::job::{Control, JobContext, JobStats};
use super::manager::Manager;
use super::running::NewJob;
use super::table_state::TableState;
use crate::table::Table;
use crate::table::indexes::IndexWork;

const KIND: &str = "Secondary index build";

impl Manager {
    /// Begins to build what an SSTable lacks, if there is one and no other is being built.
    pub(super) fn start_index_build(self: &Rc<Self>, managed: &Rc<TableState>) {
        let may_begin = self.schedule.has_room(self.running.len())
            && managed.blocks.get() == 0
            && !managed.operation.is_held()
            && !managed.pause.is_on(self.shard().now_us());
        let table = &managed.table;
        if !may_begin || table.is_read_only() || table.is_dropped() || self.running.has_kind(KIND) {
            return;
        }
        let busy = self.running.sstables(table.schema().id);
        let shards = self.shard().shard_count();
        let work = table.index_work(|sstable| {
            let name = sstable.name();
            table.is_written_here(sstable, shards)
                && !busy.contains(&name)
                && !table.sstables.is_frozen(name)
                && !table.sstables.is_quarantined(name)
        });
        let Some(work) = work else { return };
        let names = work.missing.iter().map(|index| index.name.as_str()).collect::<Vec<_>>().join(", ");
        let reason = match work.missing.is_empty() {
            true => "an index was dropped".to_string(),
            false => format!("{} has no index {names}", work.sstable.name()),
        };
        let new = NewJob {
            kind: KIND,
            reason,
            total_bytes: work.sstable.uncompressed_bytes() * work.missing.len() as u64,
            input_sstables: 1,
            weight: None,
            needs_bytes: 0,
            own: Rc::new(RefCell::new([work.sstable.name()].into_iter().collect())),
        };
        let (around, table) = (self.around.clone(), table.clone());
        let run = async move |control| Box::pin(build(&around, &control, &table, work)).await;
        match self.begin_job(managed, new, None, run) {
            Ok(job) => job.detach(),
            Err(error) => self.failed(managed, &error),
        }
    }
}

async fn build(
    around: &JobContext,
    control: &Rc<Control>,
    table: &Rc<Table>,
    work: IndexWork,
) -> Result<JobStats, JobError> {
    let IndexWork { sstable, missing, dropped } = work;
    let (files, cache) = (around.shard.files(), &around.cache);
    for id in dropped {
        let _files = table.files_lock.lock().await;
        control.check()?;
        sstable.forget_secondary_index(id);
        remove_index(files, &sstable, id).await.map_err(JobError::File)?;
    }
    let mut done = JobStats::default();
    for index in missing {
        // The schema may have changed since: an index that it no longer has is not built.
        let schema = table.schema();
        let is_wanted =
            || !control.stop.get() && table.schema().indexes.iter().any(|wanted| wanted.id == index.id);
        let class = IoClass::Compaction;
        let progress = control.read_bytes.clone();
        if !schema.indexes.iter().any(|wanted| wanted.id == index.id) {
            continue;
        }
        let shard = &around.shard;
        let built = build_index(&sstable, &schema, &index, class, shard, progress, &is_wanted);
        if !built.await.map_err(JobError::Write)? {
            control.check()?;
            continue;
        }
        let _files = table.files_lock.lock().await;
        if let Err(stopped) = control.check() {
            discard_index(files, &sstable, index.id).await.map_err(JobError::File)?;
            return Err(stopped);
        }
        publish_index(files, &sstable, index.id).await.map_err(JobError::File)?;
        sstable.open_secondary_index(files, index.id, cache, class).await.map_err(JobError::Open)?;
        done.input_bytes += sstable.data_bytes();
        done.plain_input_bytes += sstable.uncompressed_bytes();
        done.input_partitions += sstable.partition_count();
    }
    Ok(done)
}
