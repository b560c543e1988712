//! Everything a reader yields into one SSTable: a flush, or a compaction with one output.

use std::path::Path;
use std::sync::Arc;

use model::TableSchema;
use reader::{Reader, Step};
use runtime::{Files, Shard};

use super::error::WriteError;
use super::options::{WriteOptions, Written};
use super::writer::SSTableWriter;
use crate::name::SstableName;

/// Fragments between two looks at whether the turn is over.
const FRAGMENTS_A_CHECK: u64 = 16;

/// Writes all partitions of `reader`, which reads forward, and seals the SSTable. `None` if there was nothing to
/// write. Gives way to other tasks of `shard` when it should. After an error nothing is left.
pub async fn write_reader(
    files: &Files,
    dir: &Path,
    name: SstableName,
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
        // Asking for the time costs a good part of what a fragment does.
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
            shard.yield_now().await;
        }
    }
}
