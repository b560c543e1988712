//! Content of one partition: its tombstone, static row, rows and range tombstones.
//!
//! The same type serves as a write (in a [`Mutation`]), as the content of a source in tests, and as the
//! reference for the examination of readers. [`Partition::merge`] merges two partitions;
//! [`Partition::compact`] removes data that is deleted, expired or purgeable. A partition is held in memory
//! as a whole; the crate `reader` streams partitions.

use std::sync::Arc;

use crate::clustering::{ClusteringKey, ClusteringRange, Position};
use crate::key::PartitionKey;
use crate::purge::Purge;
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::row::{ClusteringRow, Row};
use crate::schema::TableSchema;
use crate::tombstone::Tombstone;

/// A partition in memory: a write or the content of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The deletion of the whole partition; [`Tombstone::LIVE`]: none.
    pub tombstone: Tombstone,
    /// Empty if the partition has no static data.
    pub static_row: Row,
    /// Sorted in the table's order, without duplicate keys.
    rows: Vec<ClusteringRow>,
    range_tombstones: RangeTombstones,
}

/// A write to one partition of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The version of the table by which the ids of columns are understood.
    pub schema: Arc<TableSchema>,
    /// The partition that is written.
    pub key: PartitionKey,
    /// The written cells, rows and tombstones.
    pub partition: Partition,
}

impl Mutation {
    /// A mutation without changes.
    pub fn new(schema: Arc<TableSchema>, key: PartitionKey) -> Self {
        Self { schema, key, partition: Partition::default() }
    }

    /// The row with this key, created if absent.
    pub fn row_mut(&mut self, key: ClusteringKey) -> &mut Row {
        self.partition.row_mut(&self.schema, key)
    }

    /// Deletes the rows of `range`.
    pub fn delete_range(&mut self, range: ClusteringRange, tombstone: Tombstone) {
        self.partition.delete_range(&self.schema, &RangeTombstone { range, tombstone });
    }
}

impl Partition {
    /// Whether the partition contains neither data nor tombstones.
    pub fn is_empty(&self) -> bool {
        self.tombstone.is_live()
            && self.static_row.is_empty()
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }

    /// The rows, in the table's order.
    pub fn rows(&self) -> &[ClusteringRow] {
        &self.rows
    }

    pub(crate) fn each_row_mut(&mut self, change: impl FnMut(&mut Row)) {
        self.rows.iter_mut().map(|row| &mut row.row).for_each(change);
    }

    /// Applies `change` to all range tombstones that are not live.
    pub(crate) fn each_range_tombstone_mut(&mut self, change: impl FnMut(&mut Tombstone)) {
        self.range_tombstones.each_mut(change);
    }

    /// Takes the rows out, in order.
    pub fn take_rows(&mut self) -> Vec<ClusteringRow> {
        std::mem::take(&mut self.rows)
    }

    /// The range tombstones of the mutation.
    pub fn range_tombstones(&self) -> &RangeTombstones {
        &self.range_tombstones
    }

    /// The row with this key, created if absent.
    pub fn row_mut(&mut self, schema: &TableSchema, key: ClusteringKey) -> &mut Row {
        debug_assert_eq!(key.len(), schema.clustering.len(), "a row's key has every clustering column");
        let at = match self.rows.binary_search_by(|row| schema.compare_keys(&row.key, &key)) {
            Ok(at) => at,
            Err(at) => {
                if self.rows.capacity() == 0 {
                    // Most writes contain one row.
                    self.rows.reserve_exact(1);
                }
                self.rows.insert(at, ClusteringRow { key, row: Row::new() });
                at
            }
        };
        &mut self.rows[at].row
    }

    /// The row with this key; `None` if absent.
    pub fn row(&self, schema: &TableSchema, key: &ClusteringKey) -> Option<&Row> {
        let at = self.rows.binary_search_by(|row| schema.compare_keys(&row.key, key)).ok()?;
        Some(&self.rows[at].row)
    }

    /// Appends a row, whose key must be greater than all present; for sources that produce rows in order.
    pub fn push_row(&mut self, schema: &TableSchema, row: ClusteringRow) {
        let rises = self.rows.last().is_none_or(|last| schema.compare_keys(&last.key, &row.key).is_lt());
        assert!(rises, "rows rise: {:?} after {:?}", row.key, self.rows.last().map(|last| &last.key));
        self.rows.push(row);
    }

    /// Adds a range tombstone.
    pub fn delete_range(&mut self, schema: &TableSchema, deletion: &RangeTombstone) {
        self.range_tombstones.add(schema, deletion);
    }

    /// Merges `other` into this partition. Commutative, associative and idempotent, up to [`Self::shadow`].
    pub fn merge(&mut self, other: &Self, schema: &TableSchema) {
        if schema.has_counters() {
            // See `Row::merge`: tombstones must be applied before counters are added up.
            let mut other = other.clone();
            self.delete_as(&other, schema);
            other.delete_as(self, schema);
            self.shadow(schema);
            other.shadow(schema);
            self.merge_rows(&other, schema);
        } else {
            self.delete_as(other, schema);
            self.merge_rows(other, schema);
        }
    }

    fn delete_as(&mut self, other: &Self, schema: &TableSchema) {
        self.tombstone = self.tombstone.max(other.tombstone);
        other.range_tombstones.ranges().for_each(|deletion| self.range_tombstones.add(schema, &deletion));
    }

    fn merge_rows(&mut self, other: &Self, schema: &TableSchema) {
        self.static_row.merge(&other.static_row, schema);
        let mut merged = Vec::with_capacity(self.rows.len() + other.rows.len());
        let mut mine = std::mem::take(&mut self.rows).into_iter().peekable();
        for theirs in &other.rows {
            while let Some(row) = mine.next_if(|mine| schema.compare_keys(&mine.key, &theirs.key).is_lt()) {
                merged.push(row);
            }
            match mine.next_if(|mine| schema.compare_keys(&mine.key, &theirs.key).is_eq()) {
                Some(mut row) => {
                    row.row.merge(&theirs.row, schema);
                    merged.push(row);
                }
                None => merged.push(theirs.clone()),
            }
        }
        merged.extend(mine);
        self.rows = merged;
    }

    /// The tombstone in force at a row: the strongest of the partition's tombstone and the range tombstones.
    pub fn tombstone_at(&self, schema: &TableSchema, key: &ClusteringKey) -> Tombstone {
        self.tombstone.max(self.range_tombstones.at(schema, &Position::at(key.clone())))
    }

    /// Removes the data that the partition's own tombstones delete, and the range tombstones that the
    /// partition's tombstone covers. Two partitions with the same meaning are equal afterwards.
    pub fn shadow(&mut self, schema: &TableSchema) {
        self.static_row.shadow(self.tombstone);
        for mut row in self.take_rows() {
            row.row.shadow(self.tombstone_at(schema, &row.key));
            if !row.row.is_empty() {
                self.rows.push(row);
            }
        }
        let tombstone = self.tombstone;
        let ranges = std::mem::take(&mut self.range_tombstones);
        for deletion in ranges.ranges().filter(|deletion| tombstone.max(deletion.tombstone) != tombstone) {
            self.range_tombstones.add(schema, &deletion);
        }
    }

    /// [`Self::shadow`], followed by expiry and purge.
    pub fn compact(&mut self, schema: &TableSchema, purge: &Purge) {
        self.shadow(schema);
        purge.row(&mut self.static_row);
        for mut row in self.take_rows() {
            purge.row(&mut row.row);
            if !row.row.is_empty() {
                self.rows.push(row);
            }
        }
        let ranges = std::mem::take(&mut self.range_tombstones);
        for deletion in ranges.ranges().filter(|deletion| !purge.may_drop(deletion.tombstone)) {
            self.range_tombstones.add(schema, &deletion);
        }
        if purge.may_drop(self.tombstone) {
            self.tombstone = Tombstone::LIVE;
        }
    }
}
