//! A single-flight cache: values read from files, by file and number, together with the loads that are in
//! flight.
//!
//! 1. [`LoadingCache::get`] finds the value, a load of it that another reader has begun ([`PendingLoad`]),
//!    or nothing.
//! 2. A reader that finds nothing begins a load ([`LoadingCache::begin`]) and completes it with the values or
//!    with an error.
//! 3. A reader that finds a flight waits for it and gets the same result. If the loading reader is dropped
//!    during the load, the waiting readers search again, and one of them loads.
//!
//! Guarantees: a value is never read twice at the same time. An error is returned to the readers that waited
//! for that load, and to no later reader. A reader that waits for a flight has no flight of its own, so no
//! reader waits for itself. Values are kept in the order of a [`MemoryPool`]; a value that does not fit into
//! the pool is returned but not kept.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};

use base::HashMap;
use reader::ReadError;
use runtime::Event;

use crate::pool::{CacheClass, MemberId, MemoryPool, Owner, Slot};

/// The cache's number of a file. A cache never assigns a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNumber {
    pub(in crate::read) number: u64,
    pub(in crate::read) class: CacheClass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    file: u64,
    number: u64,
}

impl Key {
    fn fingerprint(self) -> u32 {
        let mixed = (self.file.rotate_left(32) ^ self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32
    }
}

/// "No node", at either end of a list.
const NONE: u32 = u32::MAX;

struct Entry<V> {
    key: Key,
    slot: Slot,
    /// `None` if the node is free.
    value: Option<V>,
    /// Links to the other values of the same file.
    before: u32,
    after: u32,
}

struct Inner<V> {
    map: HashMap<Key, u32>,
    nodes: Vec<Entry<V>>,
    free: Vec<u32>,
    first_of_file: HashMap<u64, u32>,
    pending: HashMap<Key, Rc<PendingLoad<V>>>,
}

/// See the head of this file.
pub(in crate::read) struct LoadingCache<V> {
    pool: Rc<MemoryPool>,
    member: MemberId,
    inner: RefCell<Inner<V>>,
}

/// The result of a search for a value.
pub(in crate::read) enum Lookup<V> {
    Found(V),
    InFlight(Rc<PendingLoad<V>>),
    Nothing,
}

enum Loaded<V> {
    Values(Vec<V>),
    Failed(ReadError),
    /// The loading reader was dropped.
    Abandoned,
}

/// A load in flight of values with consecutive numbers.
pub(in crate::read) struct PendingLoad<V> {
    first: u64,
    result: OnceCell<Loaded<V>>,
    event: Event,
}

impl<V: Clone> PendingLoad<V> {
    /// Waits for the value `number`, which must belong to this flight. `None` if the load was abandoned;
    /// search again.
    pub(in crate::read) async fn wait(&self, number: u64) -> Option<Result<V, ReadError>> {
        self.event.until(|| self.result.get().is_some()).await;
        match self.result.get().expect("it has landed") {
            Loaded::Values(values) => Some(Ok(values[(number - self.first) as usize].clone())),
            Loaded::Failed(error) => Some(Err(error.copied())),
            Loaded::Abandoned => None,
        }
    }
}

/// The loader's side of a flight. If it is dropped before completion, the waiting readers are woken.
pub(in crate::read) struct Loading<V: Clone + 'static> {
    loading_cache: Rc<LoadingCache<V>>,
    file: FileNumber,
    count: u64,
    pending: Rc<PendingLoad<V>>,
}

impl<V: Clone + 'static> Loading<V> {
    /// Completes the load. `cost` returns the bytes of a value and the microseconds that it takes to get the
    /// value back.
    pub(in crate::read) fn land(self, values: Vec<V>, cost: impl Fn(&V) -> (usize, u64)) {
        assert_eq!(values.len() as u64, self.count, "a load brings what it was begun for");
        for (number, value) in (self.pending.first..).zip(&values) {
            let (bytes, reread_us) = cost(value);
            self.loading_cache.insert(self.file, number, value.clone(), bytes, reread_us);
        }
        self.pending.result.set(Loaded::Values(values)).ok();
    }

    /// Completes the load with an error, and returns the error.
    pub(in crate::read) fn fail(self, error: ReadError) -> ReadError {
        self.pending.result.set(Loaded::Failed(error.copied())).ok();
        error
    }
}

impl<V: Clone + 'static> Drop for Loading<V> {
    fn drop(&mut self) {
        self.pending.result.get_or_init(|| Loaded::Abandoned);
        let mut inner = self.loading_cache.inner.borrow_mut();
        for number in self.pending.first..self.pending.first + self.count {
            inner.pending.remove(&Key { file: self.file.number, number });
        }
        drop(inner);
        self.pending.event.signal();
    }
}

impl<V: Clone + 'static> LoadingCache<V> {
    /// Memory of a value besides its own bytes and the pool's overhead.
    pub(in crate::read) const OVERHEAD_BYTES: usize =
        size_of::<Entry<V>>() + size_of::<(Key, u32)>() + 2 * size_of::<usize>();

    pub(in crate::read) fn new(pool: &Rc<MemoryPool>) -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Self>| {
            let member = pool.join(this.clone());
            let inner = Inner {
                map: HashMap::default(),
                nodes: vec![],
                free: vec![],
                first_of_file: HashMap::default(),
                pending: HashMap::default(),
            };
            Self { pool: pool.clone(), member, inner: RefCell::new(inner) }
        })
    }

    /// The value, if it is cached. Counts as a hit or a miss.
    #[inline]
    pub(in crate::read) fn get(&self, file: FileNumber, number: u64) -> Lookup<V> {
        let key = Key { file: file.number, number };
        let inner = self.inner.borrow();
        if let Some(at) = inner.map.get(&key) {
            let node = &inner.nodes[*at as usize];
            self.pool.hit(file.class, node.slot);
            return Lookup::Found(node.value.clone().expect("a node in the map has a value"));
        }
        let pending = inner.pending.get(&key).cloned();
        self.pool.missed(file.class, pending.is_some());
        pending.map_or(Lookup::Nothing, Lookup::InFlight)
    }

    /// Whether [`Self::get`] would find neither a value nor a flight. Counts as a miss if so, otherwise as
    /// nothing.
    pub(in crate::read) fn misses(&self, file: FileNumber, number: u64) -> bool {
        let key = Key { file: file.number, number };
        let inner = self.inner.borrow();
        let misses = !inner.map.contains_key(&key) && !inner.pending.contains_key(&key);
        if misses {
            self.pool.missed(file.class, false);
        }
        misses
    }

    /// Begins a load of `count` values with numbers from `first` on. None of them may be cached or in flight.
    pub(in crate::read) fn begin(self: &Rc<Self>, file: FileNumber, first: u64, count: u64) -> Loading<V> {
        let pending = Rc::new(PendingLoad { first, result: OnceCell::new(), event: Event::new() });
        let mut inner = self.inner.borrow_mut();
        for number in first..first + count {
            let before = inner.pending.insert(Key { file: file.number, number }, pending.clone());
            assert!(before.is_none(), "value {number} is being loaded already");
        }
        Loading { loading_cache: Rc::clone(self), file, count, pending }
    }

    /// Keeps a value if the pool accepts it. A value that is already cached stays as it is.
    fn insert(&self, file: FileNumber, number: u64, value: V, bytes: usize, reread_us: u64) {
        let key = Key { file: file.number, number };
        if self.inner.borrow().map.contains_key(&key) {
            return;
        }
        let at = {
            let inner = self.inner.borrow();
            inner.free.last().copied().unwrap_or(inner.nodes.len() as u32)
        };
        // While it makes room, the pool may evict values of this cache and so free other nodes. Node `at`
        // stays free meanwhile.
        let bytes = bytes + Self::OVERHEAD_BYTES;
        let Some(slot) = self.pool.enter(self.member, file.class, at, bytes, reread_us, key.fingerprint())
        else {
            return;
        };
        let inner = &mut *self.inner.borrow_mut();
        let node = Entry { key, slot, value: Some(value), before: NONE, after: NONE };
        match inner.free.iter().rposition(|free| *free == at) {
            Some(place) => {
                inner.free.swap_remove(place);
                inner.nodes[at as usize] = node;
            }
            None => {
                assert_eq!(at as usize, inner.nodes.len(), "a new node is behind the others");
                inner.nodes.push(node);
            }
        }
        inner.map.insert(key, at);
        let after = inner.first_of_file.insert(file.number, at).unwrap_or(NONE);
        inner.nodes[at as usize].after = after;
        if after != NONE {
            inner.nodes[after as usize].before = at;
        }
    }

    /// Removes the values of a file that is closed. Takes time proportional to their number.
    pub(in crate::read) fn clear_file(&self, file: FileNumber) {
        loop {
            let inner = self.inner.borrow();
            let Some(&at) = inner.first_of_file.get(&file.number) else { return };
            let slot = inner.nodes[at as usize].slot;
            drop(inner);
            self.pool.leave(slot);
            self.evicted(at);
        }
    }
}

impl<V: Clone + 'static> Owner for LoadingCache<V> {
    fn evicted(&self, item: u32) {
        let inner = &mut *self.inner.borrow_mut();
        let node = &mut inner.nodes[item as usize];
        let value = node.value.take();
        let Entry { key, before, after, .. } = *node;
        inner.map.remove(&key);
        if after != NONE {
            inner.nodes[after as usize].before = before;
        }
        match (before, after) {
            (NONE, NONE) => drop(inner.first_of_file.remove(&key.file)),
            (NONE, _) => drop(inner.first_of_file.insert(key.file, after)),
            _ => inner.nodes[before as usize].after = after,
        }
        inner.free.push(item);
        drop(value);
    }
}
