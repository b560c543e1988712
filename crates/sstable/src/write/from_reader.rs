//! Writes all fragments of a reader into one SSTable: a flush, or a compaction with one output.

use std::path::Path;
use std::sync::Arc;

use model::TableSchema;
use reader::{Reader, Step};
use runtime::{Files, Shard};

use super::error::WriteError;
use super::options::{WriteOptions, Written};
use super::writer::SSTableWriter;
use crate::name::SSTableName;

/// Number of fragments between two checks whether the task should yield.
const FRAGMENTS_A_CHECK: u64 = 16;

/// Writes all partitions of `reader`, a forward reader, and seals the SSTable. `None` if the reader was
/// empty. Yields to other tasks of `shard` when its time slice has ended. After an error all written files
/// are removed.
pub async fn write_reader(
    files: &Files,
    dir: &Path,
    name: SSTableName,
    schema: Arc<TableSchema>,
    options: WriteOptions,
    reader: &mut dyn Reader,
    shard: &Shard,
) -> Result<Option<Written>, WriteError> {
    let mut writer = SSTableWriter::create(files, dir, name, schema, options).await?;
    match feed(&mut writer, reader, shard).await {
        Ok(()) => writer.finish().await,
        Err(error) => Err(writer.abort_after(error).await),
    }
}

async fn feed(writer: &mut SSTableWriter, reader: &mut dyn Reader, shard: &Shard) -> Result<(), WriteError> {
    let mut fragments = 0u64;
    loop {
        match reader.next()? {
            Step::Ready(fragment) => writer.push(fragment)?,
            Step::Load => reader.load().await?,
            Step::End => return Ok(()),
        }
        if writer.wants_write() {
            writer.write_out().await?;
        }
        fragments += 1;
        // Checking the time costs a considerable part of the time that a fragment takes.
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
            shard.yield_now().await;
        }
    }
}
