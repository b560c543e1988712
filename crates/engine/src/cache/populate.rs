//! Adds fragments read from SSTables to a cached partition while they pass to the reader.
//!
//! Data is added as far as the read has come, so a read that ends early has an effect too. Adding ends
//! silently when the table's set of SSTables is not the one of the read any more, or when the partition has
//! been evicted.

use std::rc::Rc;
use std::sync::Arc;

use model::{ClusteringRange, PartitionKey, Position, Row, TableSchema, Tombstone};
use reader::RowFragment;

use super::table::{CachedPartition, TableCache};

/// See the head of this file.
pub struct Populator {
    pub cache: Rc<TableCache>,
    pub schema: Arc<TableSchema>,
    pub key: PartitionKey,
    /// The phase in which the read began.
    pub phase: u64,
    /// The ranges being read: disjoint, rising.
    pub ranges: Arc<[ClusteringRange]>,
    pub reversed: bool,
    /// The partition, once it is known. For a read of gaps it is set from the beginning.
    pub partition: Option<Rc<CachedPartition>>,
    pub progress: Progress,
}

/// State of the read.
#[derive(Default)]
pub struct Progress {
    tombstone: Tombstone,
    static_row: Option<Rc<Row>>,
    /// Number of the current range, in the direction of the read, and the position in it up to which
    /// everything is known; `None`: its beginning.
    range: usize,
    at: Option<Position>,
    in_force: Tombstone,
    is_over: bool,
}

impl Populator {
    pub fn start(&mut self, tombstone: Tombstone) {
        self.progress.tombstone = tombstone;
    }

    pub fn static_row(&mut self, row: &Rc<Row>) {
        self.progress.static_row = Some(row.clone());
    }

    pub fn row(&mut self, row: &RowFragment) {
        let Some(partition) = self.partition() else { return };
        self.pass(&partition, &Position::at(row.key.clone()));
        let (before, after) = (Position::before(row.key.clone()), Position::after(row.key.clone()));
        let (near, far) = if self.reversed { (after, before) } else { (before, after) };
        let in_force = self.progress.in_force;
        let from = self.at();
        self.cache.rows.change(&partition, |content, items| {
            content.put(&self.schema, &row.key, Some(row.row.clone()), in_force, items);
            let (low, high) = if self.reversed { (&near, &from) } else { (&from, &near) };
            content.connect(&self.schema, low, high, in_force, items);
        });
        self.progress.at = Some(far);
    }

    /// From `position` on, `tombstone` is in force.
    pub fn change(&mut self, position: &Position, tombstone: Tombstone) {
        let Some(partition) = self.partition() else { return };
        self.pass(&partition, position);
        self.connect(&partition, position);
        self.progress.at = Some(position.clone());
        self.progress.in_force = tombstone;
    }

    /// Ends the read: all ranges have been read.
    pub fn end(&mut self) {
        let Some(partition) = self.partition() else { return };
        while self.progress.range < self.ranges.len() {
            self.end_range(&partition);
        }
    }

    /// The partition, if data may still be added.
    fn partition(&mut self) -> Option<Rc<CachedPartition>> {
        let progress = &mut self.progress;
        if progress.is_over || self.cache.phase() != self.phase || !self.cache.is_on() {
            progress.is_over = true;
            return None;
        }
        let partition = self.partition.get_or_insert_with(|| {
            let static_row = progress.static_row.take();
            self.cache.find_or_make(&self.key, &self.schema, progress.tombstone, static_row)
        });
        progress.is_over = !partition.is_attached();
        (!progress.is_over).then(|| partition.clone())
    }

    fn range(&self) -> &ClusteringRange {
        let at = self.progress.range;
        if self.reversed { &self.ranges[self.ranges.len() - 1 - at] } else { &self.ranges[at] }
    }

    /// The position up to which everything is known.
    fn at(&self) -> Position {
        let begin =
            |range: &ClusteringRange| if self.reversed { range.end.clone() } else { range.start.clone() };
        self.progress.at.clone().unwrap_or_else(|| begin(self.range()))
    }

    /// Ends the ranges before `position`.
    fn pass(&mut self, partition: &Rc<CachedPartition>, position: &Position) {
        while self.progress.range + 1 < self.ranges.len() {
            let range = self.range();
            let is_behind = if self.reversed {
                self.schema.compare_positions(position, &range.start).is_lt()
            } else {
                self.schema.compare_positions(position, &range.end).is_gt()
            };
            if !is_behind {
                break;
            }
            self.end_range(partition);
        }
    }

    fn end_range(&mut self, partition: &Rc<CachedPartition>) {
        let range = self.range();
        let end = if self.reversed { range.start.clone() } else { range.end.clone() };
        self.connect(partition, &end);
        self.progress.range += 1;
        self.progress.at = None;
    }

    /// Records that there is no row up to `to`.
    fn connect(&self, partition: &Rc<CachedPartition>, to: &Position) {
        let from = self.at();
        let (low, high) = if self.reversed { (to, &from) } else { (&from, to) };
        self.cache.rows.change(partition, |content, items| {
            content.connect(&self.schema, low, high, self.progress.in_force, items);
        });
    }
}
