//! What can be read of a damaged SSTable, written anew.
//!
//! The first SSTable that is written has the partitions that stand in order. One that does not is remembered by its
//! key and place, and written into a second SSTable (and those that are there twice into a third, and so on).
//! [`ScrubRounds`] says which is which, also for who writes by itself.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, TableSchema};
use reader::{Fragment, ReadError};
use runtime::{IoClass, Shard};

use super::rewrite::{RewriteError, RewritePlan, next_generation, push, write_options};
use crate::dump::schema_of_header;
use crate::name::{Generation, SstableName};
use crate::read::{SSTable, Salvage, SalvageLosses, Salvaged};
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
        self.losses.is_none()
    }
}

/// What can be read of a damaged SSTable, in rounds of partitions that stand in order: the first has those that do in the
/// file, between its least and greatest key, each further one some of the others.
pub struct ScrubRounds {
    table: Rc<SSTable>,
    salvage: Salvage,
    /// Partitions for further rounds, by key from the second round on.
    waiting: Vec<Salvaged>,
    /// Those of this round that are still to come.
    again: std::vec::IntoIter<Salvaged>,
    is_first: bool,
    is_inside: bool,
    last: Option<PartitionKey>,
}

impl ScrubRounds {
    /// Reads for `schema`.
    ///
    /// # Errors
    /// The schema is not this SSTable's.
    pub fn new(table: &Rc<SSTable>, schema: &Arc<TableSchema>, class: IoClass) -> Result<Self, ReadError> {
        Ok(Self {
            table: Rc::clone(table),
            salvage: table.salvage(schema, class)?,
            waiting: vec![],
            again: vec![].into_iter(),
            is_first: true,
            is_inside: false,
            last: None,
        })
    }

    /// Whether rows with values that are none of their types are left out, as they are unless this is called.
    pub fn validating(mut self, validates: bool) -> Self {
        self.salvage.validates = validates;
        self
    }

    /// The next fragment of the round; `None` at its end.
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
            let (key, table) = (&partition.key, &self.table);
            let rises = self.last.as_ref().is_none_or(|last| last < key);
            if rises && table.first_key() <= key && key <= table.last_key() {
                return Some(partition);
            }
            // Its damage is met, and counted, when it is written.
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
                // The disk is not telling the same twice.
                found => {
                    self.salvage.losses.partitions += 1;
                    if found.is_some() {
                        self.pass().await;
                    }
                }
            }
        }
    }

    /// The rest of the partition at hand is left out.
    async fn pass(&mut self) {
        while self.salvage.next_fragment().await != Fragment::PartitionEnd {}
    }

    /// Begins the next round, if there is one.
    pub fn next_round(&mut self) -> bool {
        assert!(!self.is_inside, "a round is read to its end");
        if std::mem::replace(&mut self.is_first, false) {
            self.waiting.sort_by(|a, b| a.key.cmp(&b.key));
        }
        self.last = None;
        self.again = std::mem::take(&mut self.waiting).into_iter();
        self.again.len() > 0
    }

    /// The first round is not over.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// How far it is in the data before compression; once through in the first round.
    pub fn position(&self) -> u64 {
        self.salvage.position()
    }

    /// What could not be read.
    pub fn into_losses(self) -> SalvageLosses {
        self.salvage.losses
    }
}

impl SalvageLosses {
    /// Nothing is missing.
    pub fn is_none(&self) -> bool {
        self.error_count == 0 && self.partitions == 0 && self.damaged_partitions == 0
    }
}

/// Writes what can be read of `table` into `dir`, with numbers from the first free one on. The original stays as it is. Unless
/// it `validates`, rows with values that are none of their types are kept.
///
/// # Errors
/// `dir` cannot be written, or the header describes no table. What is wrong with the data is in the report.
pub async fn scrub(
    shard: &Shard,
    table: &Rc<SSTable>,
    dir: &Path,
    plan: &RewritePlan,
    validates: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<ScrubReport, RewriteError> {
    let class = IoClass::Maintenance;
    let schema = schema_of_header(&table.statistics().header)?;
    let (options, note) = write_options(table, &schema, plan, class);
    let mut number = next_generation(shard.files(), dir).await?;
    let mut rounds = ScrubRounds::new(table, &schema, class)?.validating(validates);
    let mut report = ScrubReport { note, ..ScrubReport::default() };
    loop {
        let name = SstableName::big(plan.version, Generation::Number(number));
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
                progress(rounds.position(), table.uncompressed_bytes());
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
