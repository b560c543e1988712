//! Merges flushed data into the cached partitions.
//!
//! The merge runs while the table's set has the new SSTable and the memtable is still read too, so no read
//! misses data, and a gap filled meanwhile already contains the flushed data. It proceeds in small steps, in
//! the CPU group `MemtableToCache`. It is idempotent, so data that a partition already has does no harm.
//!
//! Only known parts are updated: cached rows and continuous gaps. In expensive cases the partition is removed
//! from the cache instead: a tombstone of a partition with rows or of very many rows; and counters, whose
//! sums and deletions depend on the order.

use std::rc::Rc;
use std::sync::Arc;

use ::reader::{Fragment, ReadSpec, Reader, Source, Step};
use model::{PartitionRange, Position, TableSchema, Tombstone};

use super::table::{CachedPartition, TableCache};

/// A range tombstone over more entries is not merged: the partition is removed from the cache.
const DELETED_MAX: usize = 256;

/// See the head of this file.
pub struct MergeFlushed {
    cache: Rc<TableCache>,
    schema: Arc<TableSchema>,
    reader: Box<dyn Reader>,
    phase: u64,
    open: Option<Merge>,
}

impl MergeFlushed {
    /// Merges `memtable`, read with `schema`. To be called in the turn in which the SSTable with its data is
    /// added to the set.
    pub fn new(cache: &Rc<TableCache>, memtable: &impl Source, schema: &Arc<TableSchema>) -> Self {
        Self {
            cache: cache.clone(),
            schema: schema.clone(),
            reader: memtable.reader(&ReadSpec::new(schema.clone(), PartitionRange::all())),
            phase: cache.phase(),
            open: None,
        }
    }

    /// Merges the next fragment; false at the end. It ends early if the phase has changed: then the cache was
    /// cleared, and its present content was read together with the flushed data.
    pub fn step(&mut self) -> bool {
        if self.cache.is_empty() || self.cache.phase() != self.phase {
            return false;
        }
        // A memtable reader returns no errors and needs no load.
        let Ok(Step::Ready(fragment)) = self.reader.next() else { return false };
        let goes_on = match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                let merge = |partition| Merge { partition, range: None };
                self.open = self.cache.find(&key).map(merge);
                self.open.as_mut().is_some_and(|merge| merge.start(&self.cache, &self.schema, tombstone))
            }
            Fragment::PartitionEnd => {
                self.open = None;
                return true;
            }
            fragment => {
                self.open.as_mut().is_some_and(|merge| merge.take(&self.cache, &self.schema, fragment))
            }
        };
        if !goes_on {
            self.open = None;
            self.reader.skip_partition();
        }
        true
    }
}

/// A partition that is being merged into.
struct Merge {
    partition: Rc<CachedPartition>,
    /// The open range tombstone.
    range: Option<(Position, Tombstone)>,
}

impl Merge {
    /// False if the rest of the partition needs no merge.
    fn start(&mut self, cache: &TableCache, schema: &TableSchema, tombstone: Tombstone) -> bool {
        let has_rows = self.partition.entry_count() > 0;
        if schema.has_counters() || (!tombstone.is_live() && has_rows) {
            cache.forget(&self.partition);
            return false;
        }
        if !tombstone.is_live() {
            cache.rows.change(&self.partition, |content, _| content.delete_partition(tombstone));
            cache.rows.size_partition(&self.partition);
        }
        true
    }

    fn take(&mut self, cache: &TableCache, schema: &TableSchema, fragment: Fragment) -> bool {
        if !self.partition.is_attached() {
            return false;
        }
        let rows = &cache.rows;
        let mut is_small = true;
        match fragment {
            Fragment::Static(row) => {
                rows.change(&self.partition, |content, _| content.merge_static(schema, &row));
                rows.size_partition(&self.partition);
            }
            Fragment::Row(row) => rows.change(&self.partition, |content, items| {
                content.merge_row(schema, &row.key, &row.row, items);
            }),
            Fragment::Change(change) => {
                let ended = self.range.take();
                self.range =
                    (!change.tombstone.is_live()).then(|| (change.position.clone(), change.tombstone));
                if let Some((start, tombstone)) = ended {
                    is_small = rows.change(&self.partition, |content, items| {
                        content.delete(schema, (&start, &change.position), tombstone, DELETED_MAX, items)
                    });
                }
            }
            Fragment::PartitionStart { .. } | Fragment::PartitionEnd => unreachable!("taken by the caller"),
        }
        rows.count(|stats| stats.merged += 1);
        if !is_small {
            cache.forget(&self.partition);
        }
        is_small
    }
}
