//! One flush: writes a sealed memtable as an SSTable, opens it, and adds it to its table.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::broken;
use model::{PartitionRange, Purge};
use reader::{CompactReader, Keep, ReadSpec, Source};
use runtime::{Event, IoClass, Shard};
use sstable::component::statistics::{DeltaBases, DeltaBasesCollector};
use sstable::name::{Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable, SSTableError};
use sstable::write::{WriteError, WriteOptions, Written, remove_sstable, write_reader};

use crate::commitlog::LogError;
use crate::memtable::LeastTimes;
use crate::options::SSTableForm;
use crate::table::large_data_log::LargeDataLog;
use crate::table::{LoggedMemtable, Table};

/// A sealed memtable in the queue.
pub(super) struct Job {
    pub(super) table: Rc<Table>,
    pub(super) sealed: Rc<LoggedMemtable>,
    pub(super) state: Rc<JobState>,
}

impl Job {
    /// False if a truncate has removed the memtable.
    fn is_wanted(&self) -> bool {
        self.table.memtables.is_sealed(&self.sealed)
    }
}

#[derive(Default)]
pub(super) struct JobState {
    pub(super) done: Cell<bool>,
    /// An SSTable of an earlier attempt that could be neither opened nor removed. It is not in the table, so
    /// its content is not considered by purges: if the next start added it, it would bring back data that was
    /// deleted since and whose tombstone was purged.
    leftover: Cell<Option<SSTableName>>,
    pub(super) failures: Cell<u64>,
    pub(super) last_error: RefCell<Option<(String, bool)>>,
    pub(super) changed: Event,
}

impl JobState {
    /// Records a failed attempt, or one that would fail for the same reason.
    pub(super) fn fail(&self, error: &FlushError, no_space: bool) {
        self.failures.set(self.failures.get() + 1);
        *self.last_error.borrow_mut() = Some((error.to_string(), no_space));
        self.changed.signal();
    }
}

/// Why a flush failed.
pub(super) enum FlushError {
    Write(WriteError),
    /// The SSTable was written and sealed, but cannot be read.
    Open(SSTableError),
    /// The memtable has a part of a schema change or of a batch, and the log failed to store the whole.
    Log(LogError),
}

impl FlushError {
    pub(super) fn is_no_space(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_no_space())
    }
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl From<WriteError> for FlushError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// The bases of the delta encoding of times in the SSTable.
fn delta_bases(least: LeastTimes) -> DeltaBases {
    let mut bases = DeltaBasesCollector::new();
    if least.timestamp_us != LeastTimes::NONE.timestamp_us {
        bases.update_timestamp(least.timestamp_us);
    }
    if least.deletion_time_s != LeastTimes::NONE.deletion_time_s {
        bases.update_deletion_time(i32::try_from(least.deletion_time_s).unwrap_or(i32::MAX - 1));
    }
    if least.ttl_s != LeastTimes::NONE.ttl_s {
        bases.update_ttl(i32::try_from(least.ttl_s).unwrap_or(i32::MAX));
    }
    bases.finish()
}

/// The writer of SSTables for all flushes of a shard.
pub(super) struct FlushWriter {
    pub(super) shard: Shard,
    pub(super) cache: Rc<ChunkCache>,
    pub(super) host_id: [u8; 16],
    pub(super) form: SSTableForm,
    pub(super) large_data: Rc<LargeDataLog>,
}

impl FlushWriter {
    /// Writes the memtable and adds the SSTable to the table; both are read until the new data is merged into
    /// the row cache. `None` if there is nothing to write.
    pub(super) async fn write(&self, job: &Job) -> Result<Option<Written>, FlushError> {
        if job.table.is_dropped() || !job.is_wanted() {
            return Ok(None);
        }
        // A schema change is spread over several tables, and is in the log completely or not at all. If a
        // part of it were flushed before it is in the log, a crash could leave only that part.
        if job.table.is_system() {
            job.table.log.sync().await.map_err(FlushError::Log)?;
        } else if job.sealed.has_batch.get() {
            // For the same reason.
            let segments = job.sealed.segments.borrow().clone();
            job.table.log.sync_with(&segments).await.map_err(FlushError::Log)?;
        }
        assert!(!broken::is("assertion"), "an assertion of a flush fails on purpose");
        let memtable = &job.sealed.memtable;
        let schema = memtable.schema_to_write();
        let mut options = WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush);
        options.shard_count = self.shard.shard_count();
        options.shard_id = self.shard.id();
        options.host_id = Some(self.host_id);
        options.expected_partitions = memtable.partition_count() as u64;
        options.delta_bases = delta_bases(memtable.least_times());
        self.form.apply_to(&mut options);
        self.large_data.apply_to(&mut options);
        if let Some(leftover) = job.state.leftover.get() {
            remove_sstable(self.shard.files(), &job.table.dir, &leftover).await.map_err(WriteError::from)?;
            job.state.leftover.set(None);
        }
        let number = job.table.sstables.take_generation(self.shard.shard_count());
        let name = SSTableName::big(self.form.version, Generation::Number(number));
        // Cassandra assumes that an SSTable contains no data that the SSTable itself deletes: its reads do
        // not apply a single source's own tombstones to it.
        let reader = memtable.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
        let mut reader = CompactReader::new(reader, Purge::nothing(0), Keep::Needed);
        let (files, dir) = (self.shard.files(), &job.table.dir);
        let written = write_reader(files, dir, name, schema.clone(), options, &mut reader, &self.shard);
        // The future is large and rarely used, so it is boxed.
        let written = Box::pin(written).await.inspect_err(|error| {
            if matches!(error, WriteError::Leftover { .. }) {
                job.state.leftover.set(Some(name));
            }
        })?;
        if let Some(written) = &written {
            let opened = SSTable::open(
                self.shard.files(),
                &job.table.dir,
                written.name,
                &self.cache,
                IoClass::MemtableFlush,
            );
            let sstable = match opened.await {
                Ok(sstable) => sstable,
                Err(error) => {
                    job.state.leftover.set(Some(written.name));
                    return Err(FlushError::Open(error));
                }
            };
            if job.table.is_dropped() || !job.is_wanted() {
                return Ok(None);
            }
            self.large_data.written(&schema, written);
            job.table.add_sstable(sstable);
            job.table.memtables.add_flushed(&job.sealed);
            job.table.store_manifest(self.shard.files()).await;
            // Both are read until the merge ends; then the memtable is removed (`finish`).
            job.table.merge_into_cache(&self.shard, &job.sealed).await;
        }
        Ok(written)
    }
}
