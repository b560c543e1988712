//! The chunks of SSTable files that a shard keeps in memory: one LRU for all its SSTables.
//!
//! A chunk is what a file is read in: a decompressed chunk of Data.db, a page of Index.db. It is shared by
//! reference count, so a reader that works on a chunk keeps its bytes alive after the chunk was evicted.
//!
//! Guarantees: `get`, `insert` and evicting one chunk are O(1); the bytes charged never exceed the budget; what
//! is charged is every chunk's length plus [`ENTRY_OVERHEAD_BYTES`]. Not charged: evicted chunks that readers
//! still hold. Left to others: sharing one budget with other caches (`set_budget_bytes`).
//!
//! It also has the shard's dice for checksums that are verified now and then ([`ChunkCache::draws`]).

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use base::HashMap;
use base::rng::Rng;

/// What an entry costs besides its bytes: the list node, its place in the map, and the reference counts.
pub const ENTRY_OVERHEAD_BYTES: usize = size_of::<Node>() + size_of::<(Key, u32)>() + 2 * size_of::<usize>();

/// A file as the cache knows it. Never given twice by one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileNumber(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    file: FileNumber,
    chunk: u64,
}

/// "No node", at either end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

struct Node {
    key: Key,
    /// `None` in a node that is free.
    bytes: Option<Rc<[u8]>>,
    /// In the order of use: `before` is the one used more recently.
    used: Links,
    /// Among the chunks of the same file.
    of_file: Links,
}

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub insertions: u64,
    pub evictions: u64,
    /// Chunks in the cache now.
    pub chunks: u64,
    /// Bytes charged now.
    pub used_bytes: usize,
}

struct Inner {
    budget_bytes: usize,
    next_file: u64,
    map: HashMap<Key, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    most_recent: u32,
    least_recent: u32,
    first_of_file: HashMap<FileNumber, u32>,
    stats: CacheStats,
    dice: Rng,
}

/// See the head of this file. Belongs to one shard.
pub struct ChunkCache(RefCell<Inner>);

impl ChunkCache {
    /// A cache that holds at most `budget_bytes`, overhead included. 0: it keeps nothing.
    pub fn new(budget_bytes: usize) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Inner {
            budget_bytes,
            next_file: 0,
            map: HashMap::default(),
            nodes: vec![],
            free: vec![],
            most_recent: NONE,
            least_recent: NONE,
            first_of_file: HashMap::default(),
            stats: CacheStats::default(),
            dice: Rng::new(0),
        })))
    }

    /// A number for a file that is being opened.
    pub fn new_file(&self) -> FileNumber {
        let mut inner = self.0.borrow_mut();
        inner.next_file += 1;
        FileNumber(inner.next_file)
    }

    /// What [`Self::draws`] says from now on follows from `seed`, a random number of the shard's.
    pub fn seed(&self, seed: u64) {
        self.0.borrow_mut().dice = Rng::new(seed);
    }

    /// True with the given chance; always if it is 1.0 or more, never if it is 0.0.
    #[inline]
    pub fn draws(&self, chance: f64) -> bool {
        chance >= 1.0 || (chance > 0.0 && self.0.borrow_mut().unit() < chance)
    }

    /// The chunk, which becomes the most recently used. Counts as a hit or a miss.
    #[inline]
    pub fn get(&self, file: FileNumber, chunk: u64) -> Option<Rc<[u8]>> {
        let inner = &mut *self.0.borrow_mut();
        let Some(&at) = inner.map.get(&Key { file, chunk }) else {
            inner.stats.misses += 1;
            return None;
        };
        inner.stats.hits += 1;
        if inner.most_recent != at {
            inner.unlink_used(at);
            inner.link_most_recent(at);
        }
        inner.nodes[at as usize].bytes.clone()
    }

    /// Keeps a chunk, evicting what was not used for longest. A chunk that is there already stays as it is; one
    /// that does not fit into the whole budget is not kept.
    pub fn insert(&self, file: FileNumber, chunk: u64, bytes: Rc<[u8]>) {
        let inner = &mut *self.0.borrow_mut();
        let key = Key { file, chunk };
        let cost = cost_bytes(&bytes);
        if cost > inner.budget_bytes || inner.map.contains_key(&key) {
            return;
        }
        inner.shrink_to(inner.budget_bytes - cost);
        let node = Node { key, bytes: Some(bytes), used: Links::NONE, of_file: Links::NONE };
        let at = match inner.free.pop() {
            Some(at) => {
                inner.nodes[at as usize] = node;
                at
            }
            None => {
                inner.nodes.push(node);
                u32::try_from(inner.nodes.len() - 1).expect("a cache has less than 2^32 chunks")
            }
        };
        inner.map.insert(key, at);
        inner.link_most_recent(at);
        inner.link_of_file(at);
        inner.stats.insertions += 1;
        inner.stats.chunks += 1;
        inner.stats.used_bytes += cost;
    }

    /// Forgets the chunks of a file: it was deleted. Costs its chunks.
    pub fn clear_file(&self, file: FileNumber) {
        let inner = &mut *self.0.borrow_mut();
        while let Some(&at) = inner.first_of_file.get(&file) {
            inner.remove(at);
        }
    }

    /// Changes the budget; what does not fit any more is evicted now.
    pub fn set_budget_bytes(&self, budget_bytes: usize) {
        let inner = &mut *self.0.borrow_mut();
        inner.budget_bytes = budget_bytes;
        inner.shrink_to(budget_bytes);
    }

    pub fn stats(&self) -> CacheStats {
        self.0.borrow().stats
    }
}

impl fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkCache({:?})", self.stats())
    }
}

fn cost_bytes(bytes: &[u8]) -> usize {
    bytes.len() + ENTRY_OVERHEAD_BYTES
}

impl Links {
    const NONE: Self = Self { before: NONE, after: NONE };
}

impl Inner {
    /// A random number from 0.0 to 1.0, which it never is.
    fn unit(&mut self) -> f64 {
        (self.dice.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.stats.used_bytes > bytes {
            let at = self.least_recent;
            assert!(at != NONE, "an empty cache has no bytes");
            self.stats.evictions += 1;
            self.remove(at);
        }
    }

    fn remove(&mut self, at: u32) {
        self.unlink_used(at);
        self.unlink_of_file(at);
        let node = &mut self.nodes[at as usize];
        let bytes = node.bytes.take().expect("a node in a list has bytes");
        self.stats.used_bytes -= cost_bytes(&bytes);
        self.stats.chunks -= 1;
        self.map.remove(&node.key);
        self.free.push(at);
    }

    fn link_most_recent(&mut self, at: u32) {
        let after = self.most_recent;
        self.nodes[at as usize].used = Links { before: NONE, after };
        match after {
            NONE => self.least_recent = at,
            _ => self.nodes[after as usize].used.before = at,
        }
        self.most_recent = at;
    }

    fn unlink_used(&mut self, at: u32) {
        let Links { before, after } = self.nodes[at as usize].used;
        match before {
            NONE => self.most_recent = after,
            _ => self.nodes[before as usize].used.after = after,
        }
        match after {
            NONE => self.least_recent = before,
            _ => self.nodes[after as usize].used.before = before,
        }
    }

    fn link_of_file(&mut self, at: u32) {
        let file = self.nodes[at as usize].key.file;
        let after = self.first_of_file.insert(file, at).unwrap_or(NONE);
        self.nodes[at as usize].of_file = Links { before: NONE, after };
        if after != NONE {
            self.nodes[after as usize].of_file.before = at;
        }
    }

    fn unlink_of_file(&mut self, at: u32) {
        let Node { key, of_file: Links { before, after }, .. } = self.nodes[at as usize];
        if after != NONE {
            self.nodes[after as usize].of_file.before = before;
        }
        match (before, after) {
            (NONE, NONE) => drop(self.first_of_file.remove(&key.file)),
            (NONE, _) => drop(self.first_of_file.insert(key.file, after)),
            _ => self.nodes[before as usize].of_file.after = after,
        }
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    fn chunk(len: usize, fill: u8) -> Rc<[u8]> {
        vec![fill; len].into()
    }

    /// The plainest LRU: a list in order of use.
    #[derive(Default)]
    struct Model {
        entries: Vec<(FileNumber, u64, usize)>,
        budget_bytes: usize,
    }

    impl Model {
        fn used_bytes(&self) -> usize {
            self.entries.iter().map(|(_, _, len)| len + ENTRY_OVERHEAD_BYTES).sum()
        }

        fn evict(&mut self) {
            while self.used_bytes() > self.budget_bytes {
                self.entries.remove(0);
            }
        }
    }

    #[test]
    fn it_does_what_the_plainest_lru_does() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let budget_bytes = 3000;
            let cache = ChunkCache::new(budget_bytes);
            let mut model = Model { budget_bytes, ..Model::default() };
            let files: Vec<FileNumber> = (0..3).map(|_| cache.new_file()).collect();
            for _ in 0..400 {
                let (file, number) = (*rng.pick(&files), rng.below(12));
                let found = model.entries.iter().position(|(f, n, _)| (*f, *n) == (file, number));
                match rng.below(10) {
                    0 => {
                        cache.clear_file(file);
                        model.entries.retain(|(f, ..)| *f != file);
                    }
                    1 => {
                        model.budget_bytes = 1000 + rng.below(3000) as usize;
                        cache.set_budget_bytes(model.budget_bytes);
                        model.evict();
                    }
                    2..6 => {
                        let got = cache.get(file, number).map(|bytes| bytes.len());
                        let expect = found.map(|at| {
                            let entry = model.entries.remove(at);
                            model.entries.push(entry);
                            entry.2
                        });
                        assert_eq!(got, expect, "seed {seed}");
                    }
                    _ => {
                        let len = rng.below(900) as usize;
                        cache.insert(file, number, chunk(len, 1));
                        if found.is_none() && len + ENTRY_OVERHEAD_BYTES <= model.budget_bytes {
                            model.entries.push((file, number, len));
                            model.evict();
                        }
                    }
                }
                let stats = cache.stats();
                assert_eq!(stats.used_bytes, model.used_bytes(), "seed {seed}");
                assert_eq!(stats.chunks, model.entries.len() as u64, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_reader_keeps_what_it_holds() {
        let cache = ChunkCache::new(200 + ENTRY_OVERHEAD_BYTES);
        let file = cache.new_file();
        cache.insert(file, 0, chunk(200, 7));
        let held = cache.get(file, 0).unwrap();
        cache.insert(file, 1, chunk(200, 8));
        assert!(cache.get(file, 0).is_none() && cache.get(file, 1).is_some());
        assert_eq!(held[199], 7);
        cache.insert(file, 2, chunk(201, 9));
        assert!(cache.get(file, 2).is_none(), "larger than the whole budget");
        assert_eq!(cache.stats().evictions, 1);
    }
}
