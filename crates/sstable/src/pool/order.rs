//! S3-FIFO with cost-aware eviction: an order of items by size and by the cost of getting them back. Pure: it
//! contains no values and no clock.
//!
//! Two policies:
//! - [`EvictionPolicy::Lru`]: evicts the least recently used item. A scan evicts everything, and a large item
//!   that is used once counts as much as a small item that is used often.
//! - [`EvictionPolicy::CostAware`], the default: S3-FIFO, where a use counts more for items of higher worth.
//!   New items enter the probation queue, which takes a tenth of the memory. An item that is not used there
//!   is evicted; a used one moves to the main queue. An item that returns soon after its eviction enters the
//!   main queue at once (`Ghosts`). At the end of a queue an item spends a chance and moves to the start of
//!   the main queue; an item without a chance is evicted. Each use gives as many chances as the item's worth,
//!   the cost of getting it back per byte of memory. So a 4 KiB page outlives a 64 KiB chunk that is used as
//!   often, because sixteen such pages fit into the chunk's memory.
//!
//! Source: Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023) for queues and ghosts;
//! Cao and Irani, "Cost-aware WWW proxy caching algorithms" (1997) for cost over size. `examples/eviction.rs`
//! measures both policies.
//!
//! Guarantees: a use is O(1) without an allocation and, with `CostAware`, without moving anything. Insert,
//! remove and victim are O(1), victim amortized.

/// The order of evictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    Lru,
    #[default]
    CostAware,
}

/// An item's number in the order. A slot is reused after its item was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// Slots are numbered from 0, without gaps.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// "No node", at either end of a queue.
const NONE: u32 = u32::MAX;
/// The probation queue may hold one part in this number of all bytes before its items are evicted first.
const PROBATION_SHARE: usize = 10;
/// An item of this number of bytes that takes [`WORTH_READ_US`] to get back has worth 1.
const WORTH_BYTES: u64 = 16 * 1024;
/// Microseconds to read a chunk from an SSD.
const WORTH_READ_US: u64 = 100;
const WORTH_MAX: u64 = 7;
/// Uses of an item that count between two of its turns at the end of a queue.
const USES_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    Free,
    Probation,
    Main,
}

struct Item {
    /// The neighbour towards the newer end.
    before: u32,
    after: u32,
    bytes: usize,
    fingerprint: u32,
    place: QueueKind,
    chances: u8,
    worth: u8,
}

/// Memory of the order for each item.
pub const SLOT_BYTES: usize = size_of::<Item>() + size_of::<Ghost>();

#[derive(Clone, Copy)]
struct Queue {
    newest: u32,
    oldest: u32,
    bytes: usize,
}

/// See the head of this file.
pub struct EvictionOrder {
    policy: EvictionPolicy,
    nodes: Vec<Item>,
    free: Vec<u32>,
    probation: Queue,
    main: Queue,
    ghosts: Ghosts,
}

impl EvictionOrder {
    pub fn new(policy: EvictionPolicy) -> Self {
        let empty = Queue { newest: NONE, oldest: NONE, bytes: 0 };
        Self { policy, nodes: vec![], free: vec![], probation: empty, main: empty, ghosts: Ghosts::default() }
    }

    /// Total bytes of all items.
    pub fn bytes(&self) -> usize {
        self.probation.bytes + self.main.bytes
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts an item of `bytes` bytes that takes about `reread_us` microseconds to get back after an
    /// eviction. `fingerprint` is a hash that identifies the item when it returns.
    pub fn insert(&mut self, bytes: usize, reread_us: u64, fingerprint: u32) -> Slot {
        let known = match self.policy {
            EvictionPolicy::Lru => true,
            EvictionPolicy::CostAware => self.ghosts.take(fingerprint, self.len()),
        };
        let place = if known { QueueKind::Main } else { QueueKind::Probation };
        let worth =
            (reread_us * WORTH_BYTES / WORTH_READ_US / (bytes as u64).max(1)).clamp(1, WORTH_MAX) as u8;
        let node = Item { before: NONE, after: NONE, bytes, fingerprint, place, chances: 0, worth };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 items")
            }
        };
        self.link(at);
        Slot(at)
    }

    /// Records a use of the item.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        match self.policy {
            EvictionPolicy::CostAware => {
                let node = &mut self.nodes[slot.0 as usize];
                node.chances = (node.chances + node.worth).min(USES_MAX * node.worth);
            }
            EvictionPolicy::Lru if self.main.newest != slot.0 => {
                self.unlink(slot.0);
                self.link(slot.0);
            }
            EvictionPolicy::Lru => {}
        }
    }

    /// Changes the item's size to `bytes`; its worth stays.
    pub fn resize(&mut self, slot: Slot, bytes: usize) {
        let node = &mut self.nodes[slot.index()];
        let (place, before) = (node.place, std::mem::replace(&mut node.bytes, bytes));
        let queue = self.queue(place);
        queue.bytes = queue.bytes + bytes - before;
    }

    /// Removes the item without an eviction.
    pub fn remove(&mut self, slot: Slot) {
        self.unlink(slot.0);
        self.release(slot.0);
    }

    /// The slots of all items.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.len());
        for queue in [&self.probation, &self.main] {
            let mut at = queue.newest;
            while at != NONE {
                slots.push(Slot(at));
                at = self.nodes[at as usize].after;
            }
        }
        slots
    }

    /// Evicts the next item and returns its slot; `None` if there is no item.
    pub fn victim(&mut self) -> Option<Slot> {
        loop {
            let from_probation = self.probation.oldest != NONE
                && (self.main.oldest == NONE || self.probation.bytes * PROBATION_SHARE >= self.bytes());
            let at = if from_probation { self.probation.oldest } else { self.main.oldest };
            if at == NONE {
                return None;
            }
            self.unlink(at);
            let node = &mut self.nodes[at as usize];
            if node.chances > 0 {
                node.chances -= 1;
                node.place = QueueKind::Main;
                self.link(at);
                continue;
            }
            if from_probation {
                let (fingerprint, len) = (node.fingerprint, self.len());
                self.ghosts.add(fingerprint, len);
            }
            self.release(at);
            return Some(Slot(at));
        }
    }

    fn release(&mut self, at: u32) {
        self.nodes[at as usize].place = QueueKind::Free;
        self.free.push(at);
    }

    fn queue(&mut self, place: QueueKind) -> &mut Queue {
        match place {
            QueueKind::Probation => &mut self.probation,
            QueueKind::Main => &mut self.main,
            QueueKind::Free => unreachable!("a free node is in no queue"),
        }
    }

    fn link(&mut self, at: u32) {
        let (place, bytes) = (self.nodes[at as usize].place, self.nodes[at as usize].bytes);
        let queue = self.queue(place);
        queue.bytes += bytes;
        let after = std::mem::replace(&mut queue.newest, at);
        if after == NONE {
            queue.oldest = at;
        } else {
            self.nodes[after as usize].before = at;
        }
        let node = &mut self.nodes[at as usize];
        (node.before, node.after) = (NONE, after);
    }

    fn unlink(&mut self, at: u32) {
        let Item { before, after, place, bytes, .. } = self.nodes[at as usize];
        let queue = self.queue(place);
        queue.bytes -= bytes;
        if before == NONE {
            queue.newest = after;
        }
        if after == NONE {
            queue.oldest = before;
        }
        if before != NONE {
            self.nodes[before as usize].after = after;
        }
        if after != NONE {
            self.nodes[after as usize].before = before;
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Ghost {
    fingerprint: u32,
    /// Number of the eviction; 0 if the place is empty.
    number: u32,
}

/// Ghosts: fingerprints of recently evicted items, about as many as there are items. A hash table with one
/// place for each value of the low bits; a newer ghost overwrites an older one.
#[derive(Default)]
struct Ghosts {
    table: Vec<Ghost>,
    evictions: u32,
}

impl Ghosts {
    const LEN_MIN: usize = 256;

    fn add(&mut self, fingerprint: u32, items: usize) {
        if self.table.len() < items.max(Self::LEN_MIN) {
            let len = (items * 2).max(Self::LEN_MIN).next_power_of_two();
            let old = std::mem::replace(&mut self.table, vec![Ghost::default(); len]);
            for ghost in old.into_iter().filter(|ghost| ghost.number > 0) {
                let at = self.place(ghost.fingerprint);
                self.table[at] = ghost;
            }
        }
        self.evictions = self.evictions.wrapping_add(1).max(1);
        let at = self.place(fingerprint);
        self.table[at] = Ghost { fingerprint, number: self.evictions };
    }

    /// Whether the item was evicted within the last `items` evictions. Removes its ghost.
    fn take(&mut self, fingerprint: u32, items: usize) -> bool {
        if self.table.is_empty() {
            return false;
        }
        let at = self.place(fingerprint);
        let ghost = self.table[at];
        if ghost.number == 0 || ghost.fingerprint != fingerprint {
            return false;
        }
        self.table[at] = Ghost::default();
        self.evictions.wrapping_sub(ghost.number) as usize <= items
    }

    fn place(&self, fingerprint: u32) -> usize {
        fingerprint as usize & (self.table.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    /// After any sequence of operations, an item is in the order until it is removed or evicted, and `bytes`
    /// is the sum over the items.
    #[test]
    fn nothing_is_lost_and_nothing_counted_twice() {
        for policy in [EvictionPolicy::Lru, EvictionPolicy::CostAware] {
            for seed in 0..40 {
                let mut rng = Rng::new(seed);
                let mut order = EvictionOrder::new(policy);
                let mut items: Vec<(Slot, usize)> = vec![];
                for _ in 0..2000 {
                    match rng.below(10) {
                        0..4 => {
                            let bytes = 1 + rng.below(20_000) as usize;
                            let slot = order.insert(bytes, 1 + rng.below(400), rng.below(300) as u32);
                            assert!(items.iter().all(|(other, _)| *other != slot));
                            items.push((slot, bytes));
                        }
                        4..6 if !items.is_empty() => order.touch(rng.pick(&items).0),
                        6 if !items.is_empty() => {
                            let at = rng.index(items.len());
                            items[at].1 = 1 + rng.below(20_000) as usize;
                            order.resize(items[at].0, items[at].1);
                        }
                        7 if !items.is_empty() => {
                            let (slot, _) = items.swap_remove(rng.index(items.len()));
                            order.remove(slot);
                        }
                        _ => {
                            let victim = order.victim();
                            assert_eq!(victim.is_none(), items.is_empty());
                            let at = items.iter().position(|(slot, _)| Some(*slot) == victim);
                            at.map(|at| items.swap_remove(at));
                        }
                    }
                    assert_eq!(order.bytes(), items.iter().map(|(_, bytes)| bytes).sum::<usize>());
                    assert_eq!(order.len(), items.len());
                }
                for _ in 0..items.len() {
                    assert!(order.victim().is_some());
                }
                assert!(order.victim().is_none() && order.bytes() == 0);
            }
        }
    }

    #[test]
    fn lru_evicts_what_was_not_used_for_longest() {
        let mut order = EvictionOrder::new(EvictionPolicy::Lru);
        let slots: Vec<Slot> = (0..4).map(|n| order.insert(100, 100, n)).collect();
        order.touch(slots[0]);
        order.touch(slots[2]);
        let victims: Vec<Slot> = std::iter::from_fn(|| order.victim()).collect();
        assert_eq!(victims, [slots[1], slots[3], slots[0], slots[2]]);
    }

    /// Items that are used twice outlive any number of items that are used once.
    #[test]
    fn a_scan_does_not_drive_out_what_is_used() {
        let mut order = EvictionOrder::new(EvictionPolicy::CostAware);
        let used: Vec<Slot> = (0..50).map(|n| order.insert(4096, 100, n)).collect();
        used.iter().for_each(|slot| order.touch(*slot));
        for n in 1000..5000 {
            order.insert(4096, 100, n);
            while order.bytes() > 100 * 4096 {
                let victim = order.victim().unwrap();
                assert!(!used.contains(&victim), "after {n}");
            }
        }
    }

    /// Of two items that are used equally often, the one that takes more memory for the same cost is evicted
    /// first.
    #[test]
    fn worth_is_cost_for_bytes() {
        let mut order = EvictionOrder::new(EvictionPolicy::CostAware);
        let small = order.insert(4096, 100, 1);
        let large = order.insert(65_536, 100, 2);
        for slot in [small, large] {
            order.touch(slot);
        }
        assert_eq!(order.victim(), Some(large));
        assert_eq!(order.victim(), Some(small));
    }

    /// An item that returns soon after its eviction skips probation.
    #[test]
    fn ghosts_come_back_into_the_main_queue() {
        let mut order = EvictionOrder::new(EvictionPolicy::CostAware);
        let first = order.insert(1000, 100, 77);
        order.insert(1000, 100, 78);
        assert_eq!(order.victim(), Some(first));
        let again = order.insert(1000, 100, 77);
        assert_eq!(order.nodes[again.0 as usize].place, QueueKind::Main);
        let other = order.insert(1000, 100, 79);
        assert_eq!(order.nodes[other.0 as usize].place, QueueKind::Probation);
    }
}
