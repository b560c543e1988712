//! The row caches of a shard's tables in the [`MemoryPool`].
//!
//! Each entry of a partition is an item of its own, so a large partition is evicted row by row. Each
//! partition is one more item, for the memory that belongs to no entry. The rows of a table without
//! clustering columns are charged with their partitions. When the pool evicts an item, its [`ItemNumber`]
//! leads to the partition and the position.
//!
//! A change of a partition collects its new items in [`NewItems`] and enters them in the pool when the
//! partition is not borrowed any more, because entering may evict, even from the same partition.
//!
//! Partitions that are removed as a whole are freed here if they are small, and otherwise in steps by
//! [`RowCache::clean`].

use std::cell::{Cell, RefCell};
use std::collections::hash_map::IntoIter;
use std::rc::{Rc, Weak};

use base::HashMap;
use model::{PartitionKey, Position};
use runtime::{Event, Shard};
use sstable::pool::{CacheClass, MemberId, MemoryPool, Owner, Slot};

use super::content::{Content, Entry, row_bytes};
use super::table::CachedPartition;

/// Partitions with at most this number of entries are freed at once.
const SMALL_ENTRIES: usize = 32;
/// Cost of reading a row again: about one read of the disk.
const REREAD_US: u64 = 100;

/// Identifies an entry or a partition in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemNumber(u32);

impl ItemNumber {
    /// The entry is charged with its partition.
    pub const NONE: Self = Self(u32::MAX);
}

/// Counters of the row caches of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheStats {
    /// Reads of single partitions that used a cache.
    pub reads: u64,
    /// Those of `reads` that had to read SSTables.
    pub misses: u64,
    /// Rows taken from the cache, and rows read from SSTables.
    pub rows_hit: u64,
    pub rows_missed: u64,
    /// Flushed rows and tombstones that were merged into cached partitions.
    pub merged: u64,
    /// Number of times that a table's cache was cleared.
    pub invalidations: u64,
    /// Current number of partitions.
    pub partitions: u64,
    /// Entries: rows, rows known to be absent, and marks between them; without those that are charged with
    /// their partitions.
    pub entries: u64,
    /// Bytes in the pool, including overhead.
    pub bytes: usize,
    pub populations: u64,
    pub evictions: u64,
}

struct Item {
    /// The item's partition; `None` if the number is free.
    partition: Option<Rc<CachedPartition>>,
    /// The position of its entry; `None` for the partition itself.
    position: Option<Position>,
    slot: Option<Slot>,
}

/// Bytes of an entry without its row: in the tree, including slack, and in the list of items.
fn entry_bytes(at: &Position) -> usize {
    size_of::<(Position, Entry)>() * 4 / 3 + size_of::<Item>() + at.heap_bytes()
}

/// See the head of this file. Belongs to one shard.
pub struct RowCache {
    pool: Rc<MemoryPool>,
    member: MemberId,
    items: RefCell<Vec<Item>>,
    free: RefCell<Vec<ItemNumber>>,
    /// Partitions whose item was evicted before their entries; they are entered in the pool again with the
    /// next item.
    outlived: RefCell<Vec<ItemNumber>>,
    /// Large partitions that are in no table any more.
    leftover: RefCell<Vec<Rc<CachedPartition>>>,
    /// Partitions of tables whose cache was cleared.
    cleared: RefCell<Vec<IntoIter<PartitionKey, Rc<CachedPartition>>>>,
    has_leftover: Event,
    is_on: Cell<bool>,
    /// The vector of [`NewItems`], kept to reuse its memory.
    scratch: RefCell<Vec<(ItemNumber, usize)>>,
    pub(super) stats: Cell<RowCacheStats>,
}

impl RowCache {
    pub fn in_pool(pool: &Rc<MemoryPool>) -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Self>| Self {
            pool: pool.clone(),
            member: pool.join(this.clone()),
            items: RefCell::default(),
            free: RefCell::default(),
            outlived: RefCell::default(),
            leftover: RefCell::default(),
            cleared: RefCell::default(),
            has_leftover: Event::new(),
            is_on: Cell::new(true),
            scratch: RefCell::default(),
            stats: Cell::default(),
        })
    }

    /// Whether reads that begin from now on use and fill the caches. Cached data stays, and is kept
    /// consistent with the SSTables.
    pub fn set_on(&self, is_on: bool) {
        self.is_on.set(is_on);
    }

    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    pub fn stats(&self) -> RowCacheStats {
        let class = *self.pool.stats().of(CacheClass::Rows);
        let stats = self.stats.get();
        RowCacheStats {
            entries: class.entries.saturating_sub(stats.partitions),
            bytes: class.bytes,
            populations: class.populations,
            evictions: class.evictions,
            ..stats
        }
    }

    /// Approximate bytes kept alive by a snapshot with this number of entries.
    pub fn bytes_of_entries(&self, entries: u64) -> u64 {
        let class = *self.pool.stats().of(CacheClass::Rows);
        let mean = class.bytes as u64 / class.entries.max(1);
        entries.saturating_mul(mean.max(size_of::<(Position, Entry)>() as u64))
    }

    #[inline]
    pub(super) fn count(&self, change: impl FnOnce(&mut RowCacheStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Records a use of the item. The item may have been evicted, or its number reused; then the other item
    /// gets the hit.
    #[inline]
    pub(super) fn touch(&self, number: ItemNumber) {
        if let Some(Some(slot)) = self.items.borrow().get(number.0 as usize).map(|item| item.slot) {
            self.pool.hit(CacheClass::Rows, slot);
        }
    }

    fn make(&self, partition: &Rc<CachedPartition>, position: Option<Position>) -> ItemNumber {
        let item = Item { partition: Some(partition.clone()), position, slot: None };
        let items = &mut *self.items.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(number) => {
                items[number.0 as usize] = item;
                number
            }
            None => {
                items.push(item);
                ItemNumber(
                    u32::try_from(items.len() - 1)
                        .ok()
                        .filter(|n| *n < u32::MAX)
                        .expect("fewer than 2^32 items"),
                )
            }
        }
    }

    fn release(&self, number: ItemNumber) -> Item {
        let free = Item { partition: None, position: None, slot: None };
        let item = std::mem::replace(&mut self.items.borrow_mut()[number.0 as usize], free);
        self.free.borrow_mut().push(number);
        item
    }

    /// Releases an item on behalf of its owner.
    fn leave(&self, number: ItemNumber) {
        if number != ItemNumber::NONE
            && let Some(slot) = self.release(number).slot
        {
            self.pool.leave(slot);
        }
    }

    /// Sets the bytes of an item: enters it in the pool, or changes its charge. This may evict the item
    /// itself and others.
    fn size(&self, number: ItemNumber, bytes: usize) {
        let slot = match &self.items.borrow()[number.0 as usize] {
            // It was evicted by an item entered before it.
            Item { partition: None, .. } => return,
            item => item.slot,
        };
        match slot {
            Some(slot) => self.pool.resize(slot, bytes),
            None => {
                let fingerprint = self.fingerprint(number);
                let entered =
                    self.pool.enter(self.member, CacheClass::Rows, number.0, bytes, REREAD_US, fingerprint);
                match entered {
                    Some(slot) => self.items.borrow_mut()[number.0 as usize].slot = Some(slot),
                    None => self.evicted(number.0),
                }
            }
        }
    }

    /// Whether the evicted item is that of a partition whose entries are still in the pool; if so, the item
    /// number stays.
    fn outlives(&self, number: ItemNumber) -> bool {
        let item = &mut self.items.borrow_mut()[number.0 as usize];
        let partition = item.partition.as_ref().filter(|_| item.position.is_none());
        let outlives = partition.is_some_and(|partition| {
            partition.charges_entries() && partition.entry_count() > 0 && partition.is_attached()
        });
        item.slot = item.slot.filter(|_| !outlives);
        outlives
    }

    /// Enters partitions again whose items were evicted before their entries.
    fn enter_outlived(&self) {
        for number in self.outlived.take() {
            let partition = {
                let items = self.items.borrow();
                let item = &items[number.0 as usize];
                item.partition.clone().filter(|_| item.position.is_none() && item.slot.is_none())
            };
            if let Some(partition) = partition {
                self.size_partition(&partition);
            }
        }
    }

    /// A hash by which the pool recognizes an item that returns soon after its eviction.
    fn fingerprint(&self, number: ItemNumber) -> u32 {
        let items = self.items.borrow();
        let item = &items[number.0 as usize];
        let token = item.partition.as_ref().expect("in use").key().token();
        let place = item.position.as_ref().map_or(0, |at| base::murmur3::token(at.prefix.as_bytes()));
        ((token ^ place.rotate_left(1)) >> 32) as u32
    }

    /// Creates the item of a new partition.
    pub(super) fn adopt(&self, partition: &Rc<CachedPartition>) {
        partition.set_item(self.make(partition, None));
        self.count(|stats| stats.partitions += 1);
        self.size_partition(partition);
    }

    /// Changes a partition's content and charges the result.
    pub(super) fn change<T>(
        &self,
        partition: &Rc<CachedPartition>,
        change: impl FnOnce(&mut Content, &mut NewItems<'_>) -> T,
    ) -> T {
        let mut items = NewItems { cache: self, partition, sizes: self.scratch.take() };
        let result = change(&mut partition.content_mut(), &mut items);
        let mut sizes = items.sizes;
        let mut whole = false;
        for (number, bytes) in sizes.drain(..) {
            if number == ItemNumber::NONE { whole = true } else { self.size(number, bytes) }
        }
        self.scratch.replace(sizes);
        if whole {
            self.size_partition(partition);
        }
        if !self.outlived.borrow().is_empty() {
            self.enter_outlived();
        }
        result
    }

    /// Charges a partition for the memory that is not charged to its entries.
    pub(super) fn size_partition(&self, partition: &Rc<CachedPartition>) {
        if partition.is_attached() {
            self.size(partition.item(), partition.own_bytes());
        }
    }

    /// Frees a partition that is in no table any more.
    pub(super) fn drop_partition(&self, partition: &Rc<CachedPartition>) {
        let item = partition.take_item();
        if item != ItemNumber::NONE {
            self.leave(item);
            self.count(|stats| stats.partitions -= 1);
        }
        self.dispose(partition);
    }

    fn dispose(&self, partition: &Rc<CachedPartition>) {
        if partition.entry_count() > SMALL_ENTRIES {
            self.leftover.borrow_mut().push(partition.clone());
            self.has_leftover.signal();
            return;
        }
        while let Some(entry) = partition.take_last() {
            self.leave(entry.item);
        }
    }

    /// Frees partitions that are in no table any more, in the background.
    pub(super) fn drop_all(&self, partitions: HashMap<PartitionKey, Rc<CachedPartition>>) {
        self.count(|stats| stats.invalidations += 1);
        self.cleared.borrow_mut().push(partitions.into_iter());
        self.has_leftover.signal();
    }

    /// Frees large partitions and cleared tables in steps. Does not return.
    pub async fn clean(&self, shard: &Shard) {
        loop {
            let more = self.has_leftover.next();
            if !self.clean_step() {
                more.await;
            } else if shard.need_preempt() {
                shard.yield_now().await;
            }
        }
    }

    /// One step; false if there is nothing to free.
    pub(super) fn clean_step(&self) -> bool {
        let partition = self.leftover.borrow().last().cloned();
        if let Some(partition) = partition {
            // One entry at a time: a reader may share the nodes, and the pool may evict entries meanwhile.
            match partition.take_last() {
                Some(entry) => self.leave(entry.item),
                None => drop(self.leftover.borrow_mut().pop()),
            }
            return true;
        }
        let Some(cleared) = self.cleared.borrow_mut().last_mut().map(Iterator::next) else { return false };
        match cleared {
            Some((_, partition)) => self.drop_partition(&partition),
            None => drop(self.cleared.borrow_mut().pop()),
        }
        true
    }
}

impl Owner for RowCache {
    fn evicted(&self, item: u32) {
        let number = ItemNumber(item);
        if self.outlives(number) {
            return self.outlived.borrow_mut().push(number);
        }
        let item = self.release(number);
        let partition = item.partition.expect("an item in the pool is in use");
        match item.position {
            Some(position) => partition.forget(&position),
            None => {
                partition.take_item();
                partition.detach();
                self.count(|stats| stats.partitions -= 1);
                self.dispose(&partition);
            }
        }
    }
}

/// Items that a change of a partition creates or resizes; see the head of this file.
pub struct NewItems<'a> {
    cache: &'a RowCache,
    partition: &'a Rc<CachedPartition>,
    sizes: Vec<(ItemNumber, usize)>,
}

impl NewItems<'_> {
    /// The item of a new entry.
    pub fn make(&mut self, at: &Position) -> ItemNumber {
        if self.partition.charges_entries() {
            self.cache.make(self.partition, Some(at.clone()))
        } else {
            ItemNumber::NONE
        }
    }

    /// Sets the bytes of an entry's row; the entry itself is added.
    pub fn size(&mut self, item: ItemNumber, at: &Position, row_bytes: usize) {
        self.sizes.push((item, entry_bytes(at) + row_bytes));
    }
}

/// Bytes of a partition that are charged to no entry.
pub fn partition_bytes(content: &Content, key_bytes: usize, charges_entries: bool) -> usize {
    let own = size_of::<CachedPartition>() + size_of::<Item>() + 64 + key_bytes;
    let static_row = content.static_row.as_ref().map_or(0, row_bytes);
    let mut entries = 0;
    if !charges_entries {
        let mut cursor = content.entries.cursor(|_| std::cmp::Ordering::Greater);
        while let Some((at, entry)) = cursor.next() {
            entries += entry_bytes(at) + entry.row.as_ref().map_or(0, row_bytes);
        }
    }
    own + static_row + entries
}
