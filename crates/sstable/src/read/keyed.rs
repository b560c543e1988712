//! What was read of files, by file and number, and what is being read: the map of a cache and its loads under way.
//!
//! 1. [`Keyed::look`] finds the value, a load of it that another reader has begun ([`Flight`]), or nothing.
//! 2. Who finds nothing begins a load ([`Keyed::begin`]) and lands it with the values, or with the error.
//! 3. Who found a flight waits for it and gets the same. If the reader that loads is dropped in the middle, they
//!    look again, and one of them loads.
//!
//! Guarantees: no value is read twice at the same time; an error goes to those who waited for that load and to nobody
//! later. Who waits for a flight has none of its own, so nobody waits for itself. Values are kept in the order of a
//! [`MemoryPool`]; one that it has no room for is given out and not kept.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};

use base::HashMap;
use reader::ReadError;
use runtime::Event;

use crate::pool::{CacheClass, MemberId, MemoryPool, Owner, Slot};

/// A file as the cache knows it. Never given twice by one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNumber {
    pub(super) number: u64,
    pub(super) class: CacheClass,
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

struct Node<V> {
    key: Key,
    slot: Slot,
    /// `None` in a node that is free.
    value: Option<V>,
    /// Among the values of the same file.
    before: u32,
    after: u32,
}

struct Inner<V> {
    map: HashMap<Key, u32>,
    nodes: Vec<Node<V>>,
    free: Vec<u32>,
    first_of_file: HashMap<u64, u32>,
    flights: HashMap<Key, Rc<Flight<V>>>,
}

/// See the head of this file.
pub(super) struct Keyed<V> {
    pool: Rc<MemoryPool>,
    member: MemberId,
    inner: RefCell<Inner<V>>,
}

/// What is known of a value.
pub(super) enum Look<V> {
    Found(V),
    Flying(Rc<Flight<V>>),
    Nothing,
}

enum Landed<V> {
    Values(Vec<V>),
    Failed(ReadError),
    /// The reader that loaded went away.
    Abandoned,
}

/// A load under way of values that follow one another.
pub(super) struct Flight<V> {
    first: u64,
    landed: OnceCell<Landed<V>>,
    event: Event,
}

impl<V: Clone> Flight<V> {
    /// Waits for the value, which must be one of this flight's. `None`: nobody loads it any more; look again.
    pub(super) async fn wait(&self, number: u64) -> Option<Result<V, ReadError>> {
        self.event.until(|| self.landed.get().is_some()).await;
        match self.landed.get().expect("it has landed") {
            Landed::Values(values) => Some(Ok(values[(number - self.first) as usize].clone())),
            Landed::Failed(error) => Some(Err(error.copied())),
            Landed::Abandoned => None,
        }
    }
}

/// The loader's side of a flight. Dropped before it has landed, it lets the others know.
pub(super) struct Loading<V: Clone + 'static> {
    keyed: Rc<Keyed<V>>,
    file: FileNumber,
    count: u64,
    flight: Rc<Flight<V>>,
}

impl<V: Clone + 'static> Loading<V> {
    /// The values are there, each with its bytes and what it takes to get it back, in microseconds.
    pub(super) fn land(self, values: Vec<V>, cost: impl Fn(&V) -> (usize, u64)) {
        assert_eq!(values.len() as u64, self.count, "a load brings what it was begun for");
        for (number, value) in (self.flight.first..).zip(&values) {
            let (bytes, reread_us) = cost(value);
            self.keyed.insert(self.file, number, value.clone(), bytes, reread_us);
        }
        self.flight.landed.set(Landed::Values(values)).ok();
    }

    /// Nothing came. Gives the error back.
    pub(super) fn fail(self, error: ReadError) -> ReadError {
        self.flight.landed.set(Landed::Failed(error.copied())).ok();
        error
    }
}

impl<V: Clone + 'static> Drop for Loading<V> {
    fn drop(&mut self) {
        self.flight.landed.get_or_init(|| Landed::Abandoned);
        let mut inner = self.keyed.inner.borrow_mut();
        for number in self.flight.first..self.flight.first + self.count {
            inner.flights.remove(&Key { file: self.file.number, number });
        }
        drop(inner);
        self.flight.event.signal();
    }
}

impl<V: Clone + 'static> Keyed<V> {
    /// What a value costs besides its own bytes, the pool's overhead left out.
    pub(super) const OVERHEAD_BYTES: usize =
        size_of::<Node<V>>() + size_of::<(Key, u32)>() + 2 * size_of::<usize>();

    pub(super) fn new(pool: &Rc<MemoryPool>) -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Self>| {
            let member = pool.join(this.clone());
            let inner = Inner {
                map: HashMap::default(),
                nodes: vec![],
                free: vec![],
                first_of_file: HashMap::default(),
                flights: HashMap::default(),
            };
            Self { pool: pool.clone(), member, inner: RefCell::new(inner) }
        })
    }

    /// The value, if it is here. Counts as a hit or a miss.
    #[inline]
    pub(super) fn look(&self, file: FileNumber, number: u64) -> Look<V> {
        let key = Key { file: file.number, number };
        let inner = self.inner.borrow();
        if let Some(at) = inner.map.get(&key) {
            let node = &inner.nodes[*at as usize];
            self.pool.hit(file.class, node.slot);
            return Look::Found(node.value.clone().expect("a node in the map has a value"));
        }
        let flight = inner.flights.get(&key).cloned();
        self.pool.missed(file.class, flight.is_some());
        flight.map_or(Look::Nothing, Look::Flying)
    }

    /// Whether [`Self::look`] would find nothing at all. Counts as a miss if so, else not at all.
    pub(super) fn misses(&self, file: FileNumber, number: u64) -> bool {
        let key = Key { file: file.number, number };
        let inner = self.inner.borrow();
        let misses = !inner.map.contains_key(&key) && !inner.flights.contains_key(&key);
        if misses {
            self.pool.missed(file.class, false);
        }
        misses
    }

    /// Begins a load of `count` values from number `first` on. None of them may be here or under way.
    pub(super) fn begin(self: &Rc<Self>, file: FileNumber, first: u64, count: u64) -> Loading<V> {
        let flight = Rc::new(Flight { first, landed: OnceCell::new(), event: Event::new() });
        let mut inner = self.inner.borrow_mut();
        for number in first..first + count {
            let before = inner.flights.insert(Key { file: file.number, number }, flight.clone());
            assert!(before.is_none(), "value {number} is being loaded already");
        }
        Loading { keyed: Rc::clone(self), file, count, flight }
    }

    /// Keeps a value if there is room for it. One that is here already stays as it is.
    fn insert(&self, file: FileNumber, number: u64, value: V, bytes: usize, reread_us: u64) {
        let key = Key { file: file.number, number };
        if self.inner.borrow().map.contains_key(&key) {
            return;
        }
        let at = {
            let inner = self.inner.borrow();
            inner.free.last().copied().unwrap_or(inner.nodes.len() as u32)
        };
        // The pool may evict values of this cache meanwhile; the free node it is told of then may be another.
        let bytes = bytes + Self::OVERHEAD_BYTES;
        let Some(slot) = self.pool.enter(self.member, file.class, at, bytes, reread_us, key.fingerprint())
        else {
            return;
        };
        let inner = &mut *self.inner.borrow_mut();
        let node = Node { key, slot, value: Some(value), before: NONE, after: NONE };
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

    /// Forgets the values of a file: it was deleted. Costs its values.
    pub(super) fn clear_file(&self, file: FileNumber) {
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

impl<V: Clone + 'static> Owner for Keyed<V> {
    fn evicted(&self, item: u32) {
        let inner = &mut *self.inner.borrow_mut();
        let node = &mut inner.nodes[item as usize];
        let value = node.value.take();
        let Node { key, before, after, .. } = *node;
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
