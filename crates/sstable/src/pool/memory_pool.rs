//! The budget, and the books: what each class of items has and how often it was of use.
//!
//! A cache [joins](MemoryPool::join) with a way to be told that an item of it has been evicted, and enters each item
//! that it takes in. Entering makes room; when the budget shrinks, items go at once.
//!
//! Guarantees: the bytes of all items never exceed the budget; owners are called while the pool is not borrowed, so they
//! may call it. What readers still hold after it was evicted is theirs, and not counted here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use super::order::{EvictionOrder, EvictionPolicy, SLOT_BYTES, Slot};

/// Kinds of items, for the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheClass {
    /// Chunks of Data.db.
    Chunks,
    /// Pages of index files as they lie there.
    IndexPages,
    /// Parsed parts of partition indexes.
    IndexEntries,
    /// Rows and partitions of the row cache.
    Rows,
}

impl CacheClass {
    pub const ALL: [Self; 4] = [Self::Chunks, Self::IndexPages, Self::IndexEntries, Self::Rows];
}

/// What one class of items has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    pub hits: u64,
    pub misses: u64,
    /// Misses that were another reader's too, and waited for that one's load.
    pub shared_loads: u64,
    /// Items taken in.
    pub populations: u64,
    pub evictions: u64,
    /// Items now.
    pub entries: u64,
    /// Bytes charged now.
    pub bytes: usize,
}

/// What a pool has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
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

    pub fn used_bytes(&self) -> usize {
        CacheClass::ALL.iter().map(|class| self.of(*class).bytes).sum()
    }
}

/// A cache in a pool.
pub trait Owner {
    /// The item of that number has been evicted: forget it.
    fn evicted(&self, item: u32);
}

/// Which cache of a pool.
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
    /// By slot.
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
    /// What the pool takes for each item besides the item's own bytes.
    pub const ITEM_OVERHEAD_BYTES: usize = SLOT_BYTES + size_of::<Item>();

    /// A pool of at most `budget_bytes`, overhead included. 0: nothing is kept.
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

    pub fn join(&self, owner: Weak<dyn Owner>) -> MemberId {
        let members = &mut self.inner.borrow_mut().members;
        members.push(owner);
        MemberId(u16::try_from(members.len() - 1).expect("a pool has few members"))
    }

    /// Enters item `number` of a member and makes room for it. `None`: it is larger than the whole budget, and must
    /// not be kept. `bytes` without the pool's overhead; `reread_us` and `fingerprint` as for [`EvictionOrder::insert`].
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

    /// An item was found and used.
    #[inline]
    pub fn hit(&self, class: CacheClass, slot: Slot) {
        let inner = &mut *self.inner.borrow_mut();
        inner.stats.of_mut(class).hits += 1;
        inner.order.touch(slot);
    }

    /// An item was not there. `shared`: another reader is getting it already.
    pub fn missed(&self, class: CacheClass, shared: bool) {
        let stats = &mut self.inner.borrow_mut().stats;
        stats.of_mut(class).misses += 1;
        stats.of_mut(class).shared_loads += u64::from(shared);
    }

    /// An item takes so many bytes now, without the pool's overhead. Others may have to go for it, or it itself.
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

    /// Its owner gives an item up.
    pub fn leave(&self, slot: Slot) {
        let inner = &mut *self.inner.borrow_mut();
        inner.order.remove(slot);
        let item = inner.items[slot.index()];
        inner.stats.forget(item);
    }

    fn shrink_to(&self, bytes: usize) {
        while let Some((owner, number)) = self.take_victim(bytes) {
            // The pool is not borrowed any more: the owner may call it.
            if let Some(owner) = owner {
                owner.evicted(number);
            }
        }
    }

    /// The next item to go, out of the books; `None` if what is left fits into `bytes`.
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

    /// Changes the budget; what does not fit any more is evicted now.
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
