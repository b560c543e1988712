//! Replaces SSTables by others: on disk by a [`record`](super::record), in memory in one step.
//!
//! 1. The inputs are removed from the table's SSTable manifest, and the record is made durable. Before that,
//!    nothing has happened; from then on the outputs count.
//! 2. In one turn the table drops the inputs and adds the outputs: no reader sees both or neither. Open
//!    readers continue; they hold the files.
//! 3. The outputs are sealed, then the inputs are removed, then the record. After an error this step is
//!    retried for a while; then the replacement is reported as unfinished, with the reason, and a task
//!    continues to retry.
//!
//! The outputs must not become inputs of another job before step 3 has ended.

use std::rc::Rc;
use std::sync::Arc;

use runtime::{CpuGroup, FileError, Shard};
use sstable::read::SSTable;

use super::error::JobError;
use super::host::CompactionHost;
use super::record::{self, NotStored, Record};
use crate::table::Table;

/// The first pause after an error in step 3, and the longest.
const RETRY_US_MIN: u64 = 100_000;
const RETRY_US_MAX: u64 = 10_000_000;
/// The longest time for which the caller waits for retries of step 3.
const WAIT_US: u64 = 5_000_000;

/// Whether the replacement is complete.
#[derive(Clone, Debug)]
#[must_use = "outputs of an unfinished replacement must stay as they are"]
pub(super) enum Replaced {
    Wholly,
    /// The outputs count, and step 3 failed.
    Unfinished(Unfinished),
}

/// The rest of step 3, for [`Unfinished::finish_later`] or for the next start.
#[derive(Clone, Debug)]
pub(super) struct Unfinished {
    number: u64,
    record: Record,
    pub why: Arc<FileError>,
}

impl Unfinished {
    /// Retries in a task until the table is dropped or the shard stops. `then` runs when step 3 is complete.
    pub(super) fn finish_later<F>(
        self,
        shard: &Shard,
        table: &Rc<Table>,
        then: impl FnOnce(Shard, Record) -> F + 'static,
    ) where
        F: Future<Output = ()>,
    {
        let (shard, table) = (shard.clone(), table.clone());
        let spawner = shard.clone();
        let finish = async move {
            loop {
                shard.sleep_us(RETRY_US_MAX).await;
                let is_over = CompactionHost::of(&shard).is_none_or(|host| host.is_stopping());
                if is_over || table.is_dropped() {
                    return;
                }
                let _files = table.files_lock.lock().await;
                if record::finish(shard.files(), &table.dir, self.number, &self.record).await.is_ok() {
                    break;
                }
            }
            then(shard, self.record).await;
        };
        spawner.spawn(CpuGroup::Compaction, finish).detach();
    }
}

/// Replaces `inputs` by `outputs`. `must_leave` returns true when the caller can no longer wait for retries.
pub(super) async fn replace(
    shard: &Shard,
    table: &Rc<Table>,
    inputs: &[Rc<SSTable>],
    outputs: &[Rc<SSTable>],
    must_leave: impl Fn() -> bool,
) -> Result<Replaced, JobError> {
    let _files = table.files_lock.lock().await;
    let names = |sstables: &[Rc<SSTable>]| sstables.iter().map(|sstable| sstable.name()).collect();
    let record = Record { outputs: names(outputs), inputs: names(inputs) };
    table.begin_removal(shard.files(), &record.inputs).await.map_err(JobError::File)?;
    let number = table.sstables.take_generation(shard.shard_count());
    match record::store(shard.files(), &table.dir, number, &record).await {
        Ok(()) => {}
        Err(NotStored::Absent(error)) => {
            table.commit_removal(shard.files(), &record.inputs).await;
            return Err(JobError::File(error));
        }
        Err(NotStored::InDoubt(error)) => return Err(JobError::InDoubt(error)),
    }
    table.replace_sstables(inputs, outputs);
    table.commit_removal(shard.files(), &record.inputs).await;
    Ok(finish(shard, table, number, &record, must_leave).await)
}

/// Runs step 3.
pub(super) async fn finish(
    shard: &Shard,
    table: &Rc<Table>,
    number: u64,
    record: &Record,
    must_leave: impl Fn() -> bool,
) -> Replaced {
    let mut pause_us = RETRY_US_MIN;
    let until_us = shard.now_us() + WAIT_US;
    while let Err(error) = record::finish(shard.files(), &table.dir, number, record).await {
        let mut left_us = pause_us;
        while left_us > 0 {
            if must_leave() || shard.now_us() >= until_us {
                let (record, why) = (record.clone(), Arc::new(error));
                return Replaced::Unfinished(Unfinished { number, record, why });
            }
            shard.sleep_us(left_us.min(RETRY_US_MIN)).await;
            left_us = left_us.saturating_sub(RETRY_US_MIN);
        }
        pause_us = (pause_us * 2).min(RETRY_US_MAX);
    }
    Replaced::Wholly
}
