//! What is known of one partition: its deletion, static row, rows and range deletions.
//!
//! The same type is a write (a [`Mutation`] carries one), the content of a source in tests, and the reference
//! by which readers are examined: [`Partition::merge`] is the union of two, [`Partition::compact`] leaves out
//! what is deleted, expired or may be purged. It holds a partition in memory; what streams is `reader`.

use std::sync::Arc;

use crate::clustering::{ClusteringKey, ClusteringRange, Position};
use crate::key::PartitionKey;
use crate::purge::Purge;
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::row::{ClusteringRow, Row};
use crate::schema::TableSchema;
use crate::tombstone::Tombstone;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub tombstone: Tombstone,
    /// Empty if there is nothing in it.
    pub static_row: Row,
    /// Sorted by the table's order, no key twice.
    rows: Vec<ClusteringRow>,
    range_tombstones: RangeTombstones,
}

/// A write to one partition of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub schema: Arc<TableSchema>,
    pub key: PartitionKey,
    pub partition: Partition,
}

impl Mutation {
    pub fn new(schema: Arc<TableSchema>, key: PartitionKey) -> Self {
        Self { schema, key, partition: Partition::default() }
    }

    /// The row with this key, made if it is not there.
    pub fn row_mut(&mut self, key: ClusteringKey) -> &mut Row {
        self.partition.row_mut(&self.schema, key)
    }

    pub fn delete_range(&mut self, range: ClusteringRange, tombstone: Tombstone) {
        self.partition.delete_range(&self.schema, &RangeTombstone { range, tombstone });
    }
}

impl Partition {
    /// Says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.tombstone.is_live()
            && self.static_row.is_empty()
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }

    pub fn rows(&self) -> &[ClusteringRow] {
        &self.rows
    }

    /// Gives the rows away, in order.
    pub fn take_rows(&mut self) -> Vec<ClusteringRow> {
        std::mem::take(&mut self.rows)
    }

    pub fn range_tombstones(&self) -> &RangeTombstones {
        &self.range_tombstones
    }

    /// The row with this key, made if it is not there.
    pub fn row_mut(&mut self, schema: &TableSchema, key: ClusteringKey) -> &mut Row {
        debug_assert_eq!(key.len(), schema.clustering.len(), "a row's key has every clustering column");
        let at = match self.rows.binary_search_by(|row| schema.compare_keys(&row.key, &key)) {
            Ok(at) => at,
            Err(at) => {
                if self.rows.capacity() == 0 {
                    // Most writes are of one row.
                    self.rows.reserve_exact(1);
                }
                self.rows.insert(at, ClusteringRow { key, row: Row::new() });
                at
            }
        };
        &mut self.rows[at].row
    }

    pub fn row(&self, schema: &TableSchema, key: &ClusteringKey) -> Option<&Row> {
        let at = self.rows.binary_search_by(|row| schema.compare_keys(&row.key, key)).ok()?;
        Some(&self.rows[at].row)
    }

    /// Adds a row behind all that are there; for sources that produce them in order.
    pub fn push_row(&mut self, schema: &TableSchema, row: ClusteringRow) {
        let rises = self.rows.last().is_none_or(|last| schema.compare_keys(&last.key, &row.key).is_lt());
        assert!(rises, "rows rise: {:?} after {:?}", row.key, self.rows.last().map(|last| &last.key));
        self.rows.push(row);
    }

    pub fn delete_range(&mut self, schema: &TableSchema, deletion: &RangeTombstone) {
        self.range_tombstones.add(schema, deletion);
    }

    /// Takes over all that `other` says. Commutative, associative, idempotent up to [`Self::shadow`].
    pub fn merge(&mut self, other: &Self, schema: &TableSchema) {
        if schema.has_counters() {
            // See `Row::merge`: what is deleted must be gone before counters are added up.
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

    /// What is in force at a row: the partition's deletion and those of ranges.
    pub fn tombstone_at(&self, schema: &TableSchema, key: &ClusteringKey) -> Tombstone {
        self.tombstone.max(self.range_tombstones.at(schema, &Position::at(key.clone())))
    }

    /// Leaves out what the partition's own deletions delete, and range deletions that the partition's covers.
    /// Two partitions that say the same are equal after it.
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

    /// [`Self::shadow`], then expires and purges by `purge`.
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
