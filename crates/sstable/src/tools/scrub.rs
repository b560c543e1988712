//! Scrub: rewrites the readable part of a damaged SSTable.
//!
//! The first written SSTable has the partitions that are in order. A partition out of order is remembered by
//! its key and position, and written into a second SSTable; a key that occurs twice there goes into a third,
//! and so on. [`ScrubRounds`] divides the partitions into these rounds, and can also be used by callers with
//! a writer of their own.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, TableSchema};
use reader::{Fragment, ReadError};
use runtime::{IoClass, Shard};

use super::rewrite::{RewriteError, RewritePlan, next_generation, push, write_options};
use crate::dump::schema_of_header;
use crate::name::{Generation, SSTableName};
use crate::read::{SSTable, Salvage, SalvageLosses, Salvaged};
use crate::write::{SSTableWriter, Written};

/// The result of a scrub: the kept and the lost data.
#[derive(Debug, Default)]
pub struct ScrubReport {
    /// The first SSTable has the partitions that were in order, the others those that were not.
    pub written: Vec<Written>,
    /// Number of partitions in the written SSTables.
    pub partitions: u64,
    /// Number of rows in the written SSTables.
    pub rows: u64,
    /// Partitions that were out of order and were kept.
    pub out_of_order: u64,
    /// The parts of the source that could not be read.
    pub losses: SalvageLosses,
    /// Differences from the source other than losses.
    pub note: Option<String>,
}

impl ScrubReport {
    /// Whether the output has everything that the source has.
    pub fn is_complete(&self) -> bool {
        self.losses.is_none()
    }
}

/// The readable part of a damaged SSTable, in rounds of partitions that are in order. The first round has the
/// partitions that are in order in the file and between the SSTable's smallest and largest key; each further
/// round has some of the others.
pub struct ScrubRounds {
    sstable: Rc<SSTable>,
    salvage: Salvage,
    /// Partitions for later rounds; sorted by key from the second round on.
    waiting: Vec<Salvaged>,
    /// The remaining partitions of this round.
    again: std::vec::IntoIter<Salvaged>,
    is_first: bool,
    is_inside: bool,
    last: Option<PartitionKey>,
}

impl ScrubRounds {
    /// Starts the first round, with reads for `schema`.
    ///
    /// # Errors
    /// The schema does not fit this SSTable.
    pub fn new(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>, class: IoClass) -> Result<Self, ReadError> {
        Ok(Self {
            sstable: Rc::clone(sstable),
            salvage: sstable.salvage(schema, class)?,
            waiting: vec![],
            again: vec![].into_iter(),
            is_first: true,
            is_inside: false,
            last: None,
        })
    }

    /// Sets whether rows with values that are invalid for their types are skipped; the default is yes.
    pub fn validating(mut self, validates: bool) -> Self {
        self.salvage.validates = validates;
        self
    }

    /// The next fragment of the round; `None` at the end of the round.
    pub async fn next(&mut self) -> Option<Fragment> {
        if self.is_inside {
            let fragment = self.salvage.next_fragment().await;
            self.is_inside = fragment != Fragment::PartitionEnd;
            return Some(fragment);
        }
        let Salvaged { key, tombstone, .. } =
            if self.is_first { self.in_order().await? } else { self.out_of_order().await? };
        self.last = Some(key.clone());
        self.is_inside = true;
        Some(Fragment::PartitionStart { key, tombstone })
    }

    async fn in_order(&mut self) -> Option<Salvaged> {
        loop {
            let partition = self.salvage.next_partition().await?;
            let (key, sstable) = (&partition.key, &self.sstable);
            let rises = self.last.as_ref().is_none_or(|last| last < key);
            if rises && sstable.first_key() <= key && key <= sstable.last_key() {
                return Some(partition);
            }
            // Losses in this partition are counted when a later round reads it.
            let losses = std::mem::take(&mut self.salvage.losses);
            self.waiting.push(partition);
            self.pass().await;
            self.salvage.losses = losses;
        }
    }

    async fn out_of_order(&mut self) -> Option<Salvaged> {
        loop {
            let partition = self.again.next()?;
            if self.last.as_ref() == Some(&partition.key) {
                self.waiting.push(partition);
                continue;
            }
            self.salvage.seek(&partition);
            match self.salvage.next_partition().await {
                Some(found) if found.key == partition.key => return Some(found),
                // The second read of the disk returned other data than the first.
                found => {
                    self.salvage.losses.partitions += 1;
                    if found.is_some() {
                        self.pass().await;
                    }
                }
            }
        }
    }

    /// Skips the rest of the current partition.
    async fn pass(&mut self) {
        while self.salvage.next_fragment().await != Fragment::PartitionEnd {}
    }

    /// Begins the next round. Returns false if there is none.
    pub fn next_round(&mut self) -> bool {
        assert!(!self.is_inside, "a round is read to its end");
        if std::mem::replace(&mut self.is_first, false) {
            self.waiting.sort_by(|a, b| a.key.cmp(&b.key));
        }
        self.last = None;
        self.again = std::mem::take(&mut self.waiting).into_iter();
        self.again.len() > 0
    }

    /// Whether this is the first round.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Current position in the data before compression. The first round passes every position once.
    pub fn position(&self) -> u64 {
        self.salvage.position()
    }

    /// The parts that could not be read.
    pub fn into_losses(self) -> SalvageLosses {
        self.salvage.losses
    }
}

impl SalvageLosses {
    /// Whether nothing was lost.
    pub fn is_none(&self) -> bool {
        self.error_count == 0 && self.partitions == 0 && self.damaged_partitions == 0
    }
}

/// Writes the readable part of `table` into `dir`, with generation numbers from the first free one on. Does
/// not change the original. If `validates` is false, rows with values that are invalid for their types are
/// kept.
///
/// # Errors
/// `dir` cannot be written, or the header describes no table. Errors in the data are in the report.
pub async fn scrub(
    shard: &Shard,
    sstable: &Rc<SSTable>,
    dir: &Path,
    plan: &RewritePlan,
    validates: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<ScrubReport, RewriteError> {
    let class = IoClass::Maintenance;
    let schema = schema_of_header(&sstable.statistics().header)?;
    let (options, note) = write_options(sstable, &schema, plan, class);
    let mut number = next_generation(shard.files(), dir).await?;
    let mut rounds = ScrubRounds::new(sstable, &schema, class)?.validating(validates);
    let mut report = ScrubReport { note, ..ScrubReport::default() };
    loop {
        let name = SSTableName::big(plan.version, Generation::Number(number));
        number += 1;
        let create = SSTableWriter::create(shard.files(), dir, name, schema.clone(), options.clone());
        let mut writer = create.await?;
        while let Some(fragment) = rounds.next().await {
            let is_end = fragment == Fragment::PartitionEnd;
            if let Err(error) = push(&mut writer, fragment).await {
                writer.abort().await?;
                return Err(error.into());
            }
            if is_end && rounds.is_first() {
                progress(rounds.position(), sstable.uncompressed_bytes());
            }
            if shard.need_preempt() {
                shard.yield_now().await;
            }
        }
        if let Some(written) = writer.finish().await? {
            report.partitions += written.partitions;
            report.rows += written.rows;
            if !rounds.is_first() {
                report.out_of_order += written.partitions;
            }
            report.written.push(written);
        }
        if !rounds.next_round() {
            break;
        }
    }
    report.losses = rounds.into_losses();
    Ok(report)
}
