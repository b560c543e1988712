//! The memory budget of a shard's caches, with accounting by class: bytes, entries, hits and misses.
//!
//! A cache [joins](MemoryPool::join) with an `Owner` that is called when an item is evicted. The cache enters
//! each item that it keeps. Entering an item evicts others if memory is needed; when the budget shrinks,
//! items are evicted at once.
//!
//! Guarantees: the bytes of all items never exceed the budget. Owners are called while the pool is not
//! borrowed, so they may call it. Memory that readers still hold after an eviction is not counted here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use super::order::{EvictionOrder, EvictionPolicy, SLOT_BYTES, Slot};

/// Classes of items, for the accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheClass {
    /// Chunks of Data.db.
    Chunks,
    /// Pages of index files as stored.
    IndexPages,
    /// Parsed parts of partition indexes.
    IndexEntries,
    /// Rows and partitions of the row cache.
    Rows,
}

impl CacheClass {
    pub const ALL: [Self; 4] = [Self::Chunks, Self::IndexPages, Self::IndexEntries, Self::Rows];
}

/// Counters of a class of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Searches that found the item.
    pub hits: u64,
    /// Searches that did not find the item, including shared loads.
    pub misses: u64,
    /// Misses during another reader's load of the same item. The reader waited for this load.
    pub shared_loads: u64,
    /// Items entered.
    pub populations: u64,
    /// Items removed to make room for others or for a smaller budget.
    pub evictions: u64,
    /// Items at present.
    pub entries: u64,
    /// Bytes charged at present.
    pub bytes: usize,
}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Maximum of `used_bytes()`.
    pub budget_bytes: usize,
    pub chunks: ClassStats,
    pub index_pages: ClassStats,
    pub index_entries: ClassStats,
    pub rows: ClassStats,
}

impl PoolStats {
    pub fn of(&self, class: CacheClass) -> &ClassStats {
        match class {
            CacheClass::Chunks => &self.chunks,
            CacheClass::IndexPages => &self.index_pages,
            CacheClass::IndexEntries => &self.index_entries,
            CacheClass::Rows => &self.rows,
        }
    }

    fn of_mut(&mut self, class: CacheClass) -> &mut ClassStats {
        match class {
            CacheClass::Chunks => &mut self.chunks,
            CacheClass::IndexPages => &mut self.index_pages,
            CacheClass::IndexEntries => &mut self.index_entries,
            CacheClass::Rows => &mut self.rows,
        }
    }

    fn forget(&mut self, item: Item) {
        self.of_mut(item.class).entries -= 1;
        self.of_mut(item.class).bytes -= item.bytes;
    }

    /// Bytes charged for the items of all classes, overhead included.
    pub fn used_bytes(&self) -> usize {
        CacheClass::ALL.iter().map(|class| self.of(*class).bytes).sum()
    }
}

/// A cache in a pool.
pub trait Owner {
    /// Called when item `item` has been evicted. The cache must drop it.
    fn evicted(&self, item: u32);
}

/// The number of a cache in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberId(u16);

#[derive(Clone, Copy)]
struct Item {
    member: MemberId,
    class: CacheClass,
    number: u32,
    bytes: usize,
}

struct Inner {
    order: EvictionOrder,
    /// Items by slot.
    items: Vec<Item>,
    members: Vec<Weak<dyn Owner>>,
    stats: PoolStats,
}

/// See the head of this file. Belongs to one shard.
pub struct MemoryPool {
    inner: RefCell<Inner>,
    budget_bytes: Cell<usize>,
}

impl MemoryPool {
    /// Memory of the pool for each item, besides the item's own bytes.
    pub const ITEM_OVERHEAD_BYTES: usize = SLOT_BYTES + size_of::<Item>();

    /// A pool of at most `budget_bytes`, overhead included. With 0 the pool keeps nothing.
    pub fn new(budget_bytes: usize, policy: EvictionPolicy) -> Rc<Self> {
        Rc::new(Self {
            inner: RefCell::new(Inner {
                order: EvictionOrder::new(policy),
                items: vec![],
                members: vec![],
                stats: PoolStats::default(),
            }),
            budget_bytes: Cell::new(budget_bytes),
        })
    }

    /// Adds a cache to the pool. `owner` is called for each evicted item.
    pub fn join(&self, owner: Weak<dyn Owner>) -> MemberId {
        let members = &mut self.inner.borrow_mut().members;
        members.push(owner);
        MemberId(u16::try_from(members.len() - 1).expect("a pool has few members"))
    }

    /// Enters item `number` of a member and evicts others if necessary. `bytes` excludes the pool's overhead;
    /// `reread_us` and `fingerprint` are as for [`EvictionOrder::insert`]. `None`: the item is larger than
    /// the whole budget and must not be kept.
    pub fn enter(
        &self,
        member: MemberId,
        class: CacheClass,
        number: u32,
        bytes: usize,
        reread_us: u64,
        fingerprint: u32,
    ) -> Option<Slot> {
        let bytes = bytes + Self::ITEM_OVERHEAD_BYTES;
        let room = self.budget_bytes.get().checked_sub(bytes)?;
        self.shrink_to(room);
        let inner = &mut *self.inner.borrow_mut();
        let slot = inner.order.insert(bytes, reread_us, fingerprint);
        let item = Item { member, class, number, bytes };
        let at = slot.index();
        if at == inner.items.len() {
            inner.items.push(item)
        } else {
            inner.items[at] = item
        }
        let stats = inner.stats.of_mut(class);
        stats.populations += 1;
        stats.entries += 1;
        stats.bytes += bytes;
        Some(slot)
    }

    /// Records that an item was found and used.
    #[inline]
    pub fn hit(&self, class: CacheClass, slot: Slot) {
        let inner = &mut *self.inner.borrow_mut();
        inner.stats.of_mut(class).hits += 1;
        inner.order.touch(slot);
    }

    /// Records that an item was not found. `shared`: another reader's load of it is in flight.
    pub fn missed(&self, class: CacheClass, shared: bool) {
        let stats = &mut self.inner.borrow_mut().stats;
        stats.of_mut(class).misses += 1;
        stats.of_mut(class).shared_loads += u64::from(shared);
    }

    /// Changes the size of an item, without the pool's overhead, to `bytes`. May evict other items or this
    /// one.
    pub fn resize(&self, slot: Slot, bytes: usize) {
        let bytes = bytes + Self::ITEM_OVERHEAD_BYTES;
        {
            let inner = &mut *self.inner.borrow_mut();
            let item = &mut inner.items[slot.index()];
            let before = std::mem::replace(&mut item.bytes, bytes);
            let stats = inner.stats.of_mut(item.class);
            stats.bytes = stats.bytes + bytes - before;
            inner.order.resize(slot, bytes);
        }
        self.shrink_to(self.budget_bytes.get());
    }

    /// Removes an item at the request of its owner.
    pub fn leave(&self, slot: Slot) {
        let inner = &mut *self.inner.borrow_mut();
        inner.order.remove(slot);
        let item = inner.items[slot.index()];
        inner.stats.forget(item);
    }

    /// Evicts all items of a class. Only for classes whose owners drop an evicted item and no other one with
    /// it.
    pub fn evict_class(&self, class: CacheClass) {
        let evicted: Vec<(Option<Rc<dyn Owner>>, u32)> = {
            let inner = &mut *self.inner.borrow_mut();
            let of_class = |slot: &Slot| inner.items[slot.index()].class == class;
            let slots: Vec<Slot> = inner.order.slots().into_iter().filter(of_class).collect();
            let evict = |slot: Slot| {
                let item = inner.items[slot.index()];
                inner.order.remove(slot);
                inner.stats.forget(item);
                inner.stats.of_mut(class).evictions += 1;
                (inner.members[usize::from(item.member.0)].upgrade(), item.number)
            };
            slots.into_iter().map(evict).collect()
        };
        // The pool is not borrowed here, so the owner may call it.
        for (owner, number) in evicted {
            if let Some(owner) = owner {
                owner.evicted(number);
            }
        }
    }

    fn shrink_to(&self, bytes: usize) {
        while let Some((owner, number)) = self.take_victim(bytes) {
            // The pool is not borrowed here, so the owner may call it.
            if let Some(owner) = owner {
                owner.evicted(number);
            }
        }
    }

    /// Removes the next item to evict from the accounting; `None` if the items fit into `bytes`.
    fn take_victim(&self, bytes: usize) -> Option<(Option<Rc<dyn Owner>>, u32)> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.order.bytes() <= bytes {
            return None;
        }
        let slot = inner.order.victim().expect("a pool without items has no bytes");
        let item = inner.items[slot.index()];
        inner.stats.forget(item);
        inner.stats.of_mut(item.class).evictions += 1;
        Some((inner.members[usize::from(item.member.0)].upgrade(), item.number))
    }

    /// Changes the budget. Evicts the items that do not fit any more.
    pub fn set_budget_bytes(&self, budget_bytes: usize) {
        self.budget_bytes.set(budget_bytes);
        self.shrink_to(budget_bytes);
    }

    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes.get()
    }

    pub fn stats(&self) -> PoolStats {
        PoolStats { budget_bytes: self.budget_bytes.get(), ..self.inner.borrow().stats }
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryPool({:?})", self.stats())
    }
}
