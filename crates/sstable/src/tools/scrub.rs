//! What can be read of a damaged SSTable, written anew.
//!
//! The first SSTable that is written has the partitions that stand in order. One that does not is remembered by its
//! key and place, and written into a second SSTable (and those that are there twice into a third, and so on).

use std::path::Path;
use std::rc::Rc;

use model::PartitionKey;
use reader::Fragment;
use runtime::{IoClass, Shard};

use super::rewrite::{RewriteError, RewritePlan, next_generation, push, write_options};
use crate::dump::schema_of_header;
use crate::name::{Generation, SstableName};
use crate::read::{SSTable, SalvageLosses, Salvaged};
use crate::write::{SSTableWriter, Written};

/// What was kept and what was not.
#[derive(Debug, Default)]
pub struct ScrubReport {
    /// The first has what stood in order, the others what did not.
    pub written: Vec<Written>,
    /// Partitions and rows in what was written.
    pub partitions: u64,
    pub rows: u64,
    /// Partitions that did not stand in order, and were kept.
    pub out_of_order: u64,
    pub losses: SalvageLosses,
    /// What is not as in the source, beside what was damaged.
    pub note: Option<String>,
}

impl ScrubReport {
    /// Nothing is missing from what was written.
    pub fn is_complete(&self) -> bool {
        let losses = &self.losses;
        losses.error_count == 0 && losses.partitions == 0 && losses.damaged_partitions == 0
    }
}

/// Writes what can be read of `table` into `dir`, with numbers from the first free one on. The original stays as it is.
///
/// # Errors
/// `dir` cannot be written, or the header describes no table. What is wrong with the data is in the report.
pub async fn scrub(
    shard: &Shard,
    table: &Rc<SSTable>,
    dir: &Path,
    plan: &RewritePlan,
    mut progress: impl FnMut(u64, u64),
) -> Result<ScrubReport, RewriteError> {
    let class = IoClass::Maintenance;
    let schema = schema_of_header(&table.statistics().header)?;
    let (options, note) = write_options(table, &schema, plan, class);
    let mut number = next_generation(shard.files(), dir).await?;
    let mut salvage = table.salvage(&schema, class)?;
    let mut report = ScrubReport { note, ..ScrubReport::default() };
    let mut waiting: Vec<Salvaged> = vec![];
    let mut round = 0;
    loop {
        let name = SstableName::big(plan.version, Generation::Number(number));
        number += 1;
        let create = SSTableWriter::create(shard.files(), dir, name, schema.clone(), options.clone());
        let mut writer = create.await?;
        let mut last: Option<PartitionKey> = None;
        let mut again = waiting.into_iter();
        waiting = vec![];
        loop {
            let next = if round == 0 {
                salvage.next_partition().await
            } else {
                let Some(partition) = again.next() else { break };
                if last.as_ref() == Some(&partition.key) {
                    waiting.push(partition);
                    continue;
                }
                salvage.seek(&partition);
                salvage.next_partition().await.filter(|found| found.key == partition.key)
            };
            let Some(partition) = next else {
                // A second look found something else: the disk is not telling the same twice.
                if round > 0 {
                    report.losses.partitions += 1;
                    continue;
                }
                break;
            };
            if round == 0 && last.as_ref().is_some_and(|last| *last >= partition.key) {
                let losses = std::mem::take(&mut salvage.losses);
                waiting.push(partition);
                // Its damage is met, and counted, when it is written.
                while salvage.next_fragment().await != Fragment::PartitionEnd {}
                salvage.losses = losses;
                continue;
            }
            last = Some(partition.key.clone());
            let start = Fragment::PartitionStart { key: partition.key, tombstone: partition.tombstone };
            let mut result = push(&mut writer, start).await;
            while result.is_ok() {
                let fragment = salvage.next_fragment().await;
                let is_end = fragment == Fragment::PartitionEnd;
                result = push(&mut writer, fragment).await;
                if is_end {
                    break;
                }
                if shard.need_preempt() {
                    shard.yield_now().await;
                }
            }
            if let Err(error) = result {
                writer.abort().await?;
                return Err(error.into());
            }
            if round == 0 {
                progress(salvage.position(), table.uncompressed_bytes());
            }
        }
        if let Some(written) = writer.finish().await? {
            report.partitions += written.partitions;
            report.rows += written.rows;
            if round > 0 {
                report.out_of_order += written.partitions;
            }
            report.written.push(written);
        }
        if waiting.is_empty() {
            break;
        }
        if round == 0 {
            waiting.sort_by(|a, b| a.key.cmp(&b.key));
        }
        round += 1;
    }
    report.losses = std::mem::take(&mut salvage.losses);
    Ok(report)
}
