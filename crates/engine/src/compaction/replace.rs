//! SSTables take the place of others, on disk by a [`record`](super::record) and in memory in one step.
//!
//! 1. The record is made durable. Before, nothing has happened; from here on the outputs count.
//! 2. In one turn the table gives the inputs up and has the outputs: no reader sees both or neither. Readers that are
//!    open go on; they hold the files.
//! 3. The outputs are sealed, the inputs removed, and then the record. Errors are waited out.
//!
//! The outputs must not be inputs of another job before 3 has ended.

use std::rc::Rc;

use runtime::Shard;
use sstable::read::SSTable;

use super::error::JobError;
use super::record::{self, NotStored, Record};
use crate::table::Table;

/// The first pause after an error in step 3, and the longest.
const RETRY_US_MIN: u64 = 100_000;
const RETRY_US_MAX: u64 = 10_000_000;

/// Whether everything was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "outputs of an unfinished replacement must stay as they are"]
pub(super) enum Replaced {
    Wholly,
    /// The outputs count; a start has to finish step 3.
    Unfinished,
}

/// Replaces. `must_leave` says that nobody can wait for errors to pass any more.
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
    let number = table.take_generation(shard.shard_count());
    match record::store(shard.files(), &table.dir, number, &record).await {
        Ok(()) => {}
        Err(NotStored::Absent(error)) => return Err(JobError::File(error)),
        Err(NotStored::InDoubt(error)) => return Err(JobError::InDoubt(error)),
    }
    table.replace_sstables(inputs, outputs);
    Ok(finish(shard, table, number, &record, must_leave).await)
}

/// Step 3.
pub(super) async fn finish(
    shard: &Shard,
    table: &Rc<Table>,
    number: u64,
    record: &Record,
    must_leave: impl Fn() -> bool,
) -> Replaced {
    let mut pause_us = RETRY_US_MIN;
    while let Err(_passing) = record::finish(shard.files(), &table.dir, number, record).await {
        let mut left_us = pause_us;
        while left_us > 0 {
            if must_leave() {
                return Replaced::Unfinished;
            }
            shard.sleep_us(left_us.min(RETRY_US_MIN)).await;
            left_us = left_us.saturating_sub(RETRY_US_MIN);
        }
        pause_us = (pause_us * 2).min(RETRY_US_MAX);
    }
    Replaced::Wholly
}
