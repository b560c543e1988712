//! Memtables: writes that are not yet in an SSTable.
//!
//! - `tree`: the sorted map with cheap snapshots that holds partitions, and in each partition its rows;
//! - `partition`: one partition, and how a write changes it;
//! - `reader`: reading a snapshot, forward and reverse;
//! - `index`: the terms of a secondary index.
//!
//! **Invariants:** a reader never sees a part of a mutation, and its data does not change during writes.
//! `charged_bytes` is the memory that the memtable has requested from the allocator, to the byte.

mod index;
mod partition;
mod reader;
pub(crate) mod tree;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use ::reader::{ReadSpec, Reader, Source};
use model::index::IndexId;
use model::{Cell as ColumnCell, ColumnData, ColumnId, Mutation, PartitionKey, Row, TableSchema, Tombstone};
use reader::{MemtableReader, PartitionReader};

pub use index::{MemIndex, MemIndexEntry};
use partition::MemPartition;
use tree::Tree;

/// The least times seen; they are the bases of the delta encoding in SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTimes {
    pub timestamp_us: i64,
    pub deletion_time_s: u32,
    pub ttl_s: u32,
}

impl LeastTimes {
    /// No time was seen.
    pub const NONE: Self = Self { timestamp_us: i64::MAX, deletion_time_s: u32::MAX, ttl_s: u32::MAX };

    fn see_tombstone(&mut self, tombstone: Tombstone) {
        if !tombstone.is_live() {
            self.timestamp_us = self.timestamp_us.min(tombstone.timestamp_us);
            self.deletion_time_s = self.deletion_time_s.min(tombstone.deletion_time_s);
        }
    }

    fn see_cell(&mut self, cell: &ColumnCell) {
        self.timestamp_us = self.timestamp_us.min(cell.timestamp_us);
        self.deletion_time_s = self.deletion_time_s.min(cell.local_deletion_time_s);
        if cell.ttl_s != 0 {
            self.ttl_s = self.ttl_s.min(cell.ttl());
        }
    }

    fn see_row(&mut self, row: &Row) {
        self.see_tombstone(row.deletion);
        if !row.liveness.is_none() {
            self.timestamp_us = self.timestamp_us.min(row.liveness.timestamp_us);
            self.deletion_time_s = self.deletion_time_s.min(row.liveness.local_expiration_s);
            if row.liveness.is_expiring() {
                self.ttl_s = self.ttl_s.min(row.liveness.ttl_s);
            }
        }
        for (_, data) in row.cells() {
            match data {
                ColumnData::Simple(cell) => self.see_cell(cell),
                ColumnData::Complex(complex) => {
                    self.see_tombstone(complex.deletion);
                    complex.cells.iter().for_each(|element| self.see_cell(&element.cell));
                }
            }
        }
    }
}

/// The writes to one table on one shard since the last flush.
pub struct Memtable {
    schema: RefCell<Arc<TableSchema>>,
    partitions: RefCell<Tree<PartitionKey, MemPartition>>,
    /// Memory of the partitions' content, without the nodes of `partitions` itself.
    below_bytes: Cell<usize>,
    least: Cell<LeastTimes>,
    /// Of the indexes that the table had when the first write came.
    indexes: RefCell<Vec<Rc<MemIndex>>>,
}

impl Memtable {
    pub fn new(schema: Arc<TableSchema>) -> Self {
        let indexes = MemIndex::of(&schema).into_iter().map(Rc::new).collect();
        Self {
            indexes: RefCell::new(indexes),
            schema: RefCell::new(schema),
            partitions: RefCell::default(),
            below_bytes: Cell::new(0),
            least: Cell::new(LeastTimes::NONE),
        }
    }

    /// The newest schema with which it was written.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.schema.borrow().clone()
    }

    /// The schema with which its SSTable is written: the newest one, and the dropped columns if there are
    /// cells that reappear when the column is added again.
    pub fn schema_to_write(&self) -> Arc<TableSchema> {
        let schema = self.schema();
        let with_dropped = schema.with_dropped();
        if Arc::ptr_eq(&schema, &with_dropped) {
            return schema;
        }
        let back: Vec<(ColumnId, i64)> =
            with_dropped.recreated().iter().filter(|(id, _)| schema.column(*id).is_none()).copied().collect();
        let partitions = self.partitions.borrow();
        let mut cursor = partitions.cursor(|_| std::cmp::Ordering::Greater);
        while let Some((_, partition)) = cursor.next() {
            if partition.has_cells_after(&back) {
                return with_dropped;
            }
        }
        schema
    }

    /// ALTER TABLE. An index that is new is without the writes that are here, and so it is not made here.
    pub fn set_schema(&self, schema: Arc<TableSchema>) {
        if self.is_empty() {
            *self.indexes.borrow_mut() = MemIndex::of(&schema).into_iter().map(Rc::new).collect();
        } else {
            let is_kept = |index: &Rc<MemIndex>| schema.indexes.iter().any(|kept| kept.id == index.id());
            self.indexes.borrow_mut().retain(is_kept);
        }
        *self.schema.borrow_mut() = schema;
    }

    /// The index, if all writes are in it.
    pub fn index(&self, id: IndexId) -> Option<Rc<MemIndex>> {
        self.indexes.borrow().iter().find(|index| index.id() == id).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.borrow().len() == 0
    }

    pub fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }

    pub fn contains(&self, key: &PartitionKey) -> bool {
        self.partitions.borrow().get(|probe| probe.cmp(key)).is_some()
    }

    /// Frees the memory in small steps, one for each call of the iterator; freeing it at once takes long.
    pub fn drain_in_steps(self) -> impl Iterator<Item = ()> {
        // An index that a read has open goes with the read.
        let indexes = self.indexes.into_inner().into_iter().filter_map(Rc::into_inner);
        let partitions = self.partitions.into_inner().drain_in_steps().map(|lot| {
            black_box(lot.iter().map(|(_, partition)| partition.touch()).sum::<u64>());
        });
        partitions.chain(indexes.flat_map(MemIndex::drain_in_steps))
    }

    /// Bytes requested from the allocator and not yet freed.
    pub fn charged_bytes(&self) -> usize {
        let of_indexes: usize = self.indexes.borrow().iter().map(|index| index.charged_bytes()).sum();
        self.partitions.borrow().heap_bytes() + self.below_bytes.get() + of_indexes
    }

    pub fn least_times(&self) -> LeastTimes {
        self.least.get()
    }

    /// Applies a write. Readers opened afterwards see all of it, readers opened before see none of it.
    pub fn apply(&self, mutation: Mutation) {
        let Mutation { schema, key, partition } = mutation;
        let mut least = self.least.get();
        least.see_tombstone(partition.tombstone);
        least.see_row(&partition.static_row);
        partition.rows().iter().for_each(|row| least.see_row(&row.row));
        partition
            .range_tombstones()
            .changes()
            .iter()
            .for_each(|change| least.see_tombstone(change.tombstone));
        self.least.set(least);
        self.indexes.borrow().iter().for_each(|index| index.add(&key, &partition));

        let mut partitions = self.partitions.borrow_mut();
        let key_bytes = key.heap_bytes();
        let (new, (before, after)) = partitions.upsert(
            &key,
            |probe| probe.cmp(&key),
            MemPartition::default,
            |slot| slot.apply(&schema, partition),
        );
        let key_bytes = if new { key_bytes } else { 0 };
        self.below_bytes.set(self.below_bytes.get() + key_bytes + after - before);
    }
}

impl Source for Memtable {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let partitions = self.partitions.borrow();
        match &spec.partitions {
            model::PartitionRange::Key(key) => {
                let found = partitions.get(|probe| probe.cmp(key)).cloned();
                Box::new(PartitionReader::new(spec, found.map(|found| (key.clone(), found))))
            }
            model::PartitionRange::Between { .. } => Box::new(MemtableReader::new(spec, &partitions)),
        }
    }
}

/// A memtable that may be read while it is written or flushed.
pub type SharedMemtable = Rc<Memtable>;

#[cfg(test)]
mod tests;
