//! The cached partitions of one table on one shard, and the rule that keeps them consistent with the
//! SSTables.
//!
//! The cache mirrors the table's set of SSTables. Each time the set gains data, the *phase* is incremented in
//! the same turn: data read from an older set is added only if the phase is still the one in which the read
//! began. Flushed data is then merged into the cached partitions ([`update`](super::update)), while the
//! memtable is still read; every other addition ([`TableCache::clear`]) clears the cache. A compaction
//! changes nothing that matters to a cache: a tombstone that it purged may stay cached.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use base::HashMap;
use model::{PartitionKey, Position, Row, TableSchema, Tombstone};

use super::content::{Content, Entry};
use super::space::{ItemNumber, RowCache, partition_bytes};

/// See the head of this file.
pub struct TableCache {
    pub(super) rows: Rc<RowCache>,
    this: Weak<Self>,
    partitions: RefCell<HashMap<PartitionKey, Rc<CachedPartition>>>,
    phase: Cell<u64>,
    /// Number of clears so far; partitions of an older epoch are detached.
    epoch: Cell<u64>,
    is_on: Cell<bool>,
}

impl TableCache {
    pub fn new(rows: &Rc<RowCache>) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            rows: rows.clone(),
            this: this.clone(),
            partitions: RefCell::default(),
            phase: Cell::new(0),
            epoch: Cell::new(0),
            is_on: Cell::new(true),
        })
    }

    /// Applies the table's caching option. If off, the cache is empty.
    pub fn set_on(&self, is_on: bool) {
        if !is_on && self.is_on.get() {
            self.clear();
        }
        self.is_on.set(is_on);
    }

    /// Whether reads use the cache.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get() && self.rows.is_on()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.borrow().is_empty()
    }

    pub fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }

    #[inline]
    pub fn phase(&self) -> u64 {
        self.phase.get()
    }

    /// The set of SSTables has gained data.
    pub fn raise_phase(&self) {
        self.phase.set(self.phase.get() + 1);
    }

    /// Clears the cache, because the set of SSTables or its interpretation has changed in an unknown way.
    pub fn clear(&self) {
        self.raise_phase();
        self.epoch.set(self.epoch.get() + 1);
        if !self.is_empty() {
            self.rows.drop_all(self.partitions.take());
        }
    }

    #[inline]
    pub fn find(&self, key: &PartitionKey) -> Option<Rc<CachedPartition>> {
        self.partitions.borrow().get(key).cloned()
    }

    /// The partition, created with its tombstone and static row if it is not there.
    pub(super) fn find_or_make(
        &self,
        key: &PartitionKey,
        schema: &Arc<TableSchema>,
        tombstone: Tombstone,
        static_row: Option<Rc<Row>>,
    ) -> Rc<CachedPartition> {
        if let Some(found) = self.find(key) {
            return found;
        }
        let made = Rc::new(CachedPartition {
            key: key.clone(),
            schema: schema.clone(),
            table: self.this.clone(),
            epoch: self.epoch.get(),
            is_attached: Cell::new(true),
            item: Cell::new(ItemNumber::NONE),
            content: RefCell::new(Content { tombstone, static_row, ..Content::default() }),
        });
        self.partitions.borrow_mut().insert(key.clone(), made.clone());
        self.rows.adopt(&made);
        made
    }

    /// Removes a partition.
    pub(super) fn forget(&self, partition: &Rc<CachedPartition>) {
        if partition.detach() {
            self.rows.drop_partition(partition);
        }
    }
}

impl Drop for TableCache {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.rows.drop_all(self.partitions.take());
        }
    }
}

/// A partition of a table's cache.
pub struct CachedPartition {
    key: PartitionKey,
    schema: Arc<TableSchema>,
    table: Weak<TableCache>,
    epoch: u64,
    is_attached: Cell<bool>,
    item: Cell<ItemNumber>,
    content: RefCell<Content>,
}

impl CachedPartition {
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }

    /// The current content, to be cloned for a snapshot.
    #[inline]
    pub fn content(&self) -> Ref<'_, Content> {
        self.content.borrow()
    }

    pub(super) fn content_mut(&self) -> RefMut<'_, Content> {
        self.content.borrow_mut()
    }

    /// Whether it is still in its table's cache.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.is_attached.get() && self.table.upgrade().is_some_and(|table| table.epoch.get() == self.epoch)
    }

    /// Removes it from its table's cache; false if it was not in it.
    pub(super) fn detach(&self) -> bool {
        let was_attached = self.is_attached();
        if was_attached && let Some(table) = self.table.upgrade() {
            table.partitions.borrow_mut().remove(&self.key);
        }
        self.is_attached.set(false);
        was_attached
    }

    /// Whether each entry is an item of its own. Not so in a table without clustering columns, whose
    /// partitions have one row.
    #[inline]
    pub(super) fn charges_entries(&self) -> bool {
        !self.schema.clustering.is_empty()
    }

    pub(super) fn item(&self) -> ItemNumber {
        self.item.get()
    }

    pub(super) fn set_item(&self, item: ItemNumber) {
        self.item.set(item);
    }

    pub(super) fn take_item(&self) -> ItemNumber {
        self.item.replace(ItemNumber::NONE)
    }

    pub fn entry_count(&self) -> usize {
        self.content.borrow().entries.len()
    }

    pub(super) fn own_bytes(&self) -> usize {
        partition_bytes(&self.content.borrow(), self.key.heap_bytes(), self.charges_entries())
    }

    /// Removes an entry.
    pub(super) fn forget(&self, at: &Position) {
        // The entry is freed after the borrow has ended.
        let _removed = self.content.borrow_mut().remove(&self.schema, at);
    }

    /// Removes and returns its last entry.
    pub(super) fn take_last(&self) -> Option<Entry> {
        let content = &mut *self.content.borrow_mut();
        let last = content.entries.last_before(|_| std::cmp::Ordering::Less)?.0.clone();
        content.remove(&self.schema, &last)
    }
}
