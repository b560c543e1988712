//! What a shard keeps of its SSTables between reads, all in one [`MemoryPool`]:
//!
//! - chunks: what a file is read in, a decompressed chunk of Data.db or a page of an index file as it lies there;
//! - parsed pages of partition indexes ([`EntryPage`]).
//!
//! Both are shared by reference count, so a reader that works on one keeps its bytes alive after it was evicted. What
//! several readers want at the same time is read once (`keyed`).
//!
//! It also has the shard's dice for checksums that are verified now and then ([`ChunkCache::draws`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::rng::Rng;

use super::entries::EntryPage;
use super::keyed::{FileNumber, Keyed};
use crate::pool::{CacheClass, EvictionPolicy, MemoryPool, PoolStats};

/// What getting a chunk back costs besides the read: checking and decompressing it, for each byte of its data.
const DECODE_BYTES_A_US: usize = 1000;
/// A request of the disk.
const READ_US: u64 = 100;
/// Parsing an entry of Index.db.
const PARSE_ENTRY_NS: u64 = 100;

/// Requests of the disk and what they fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Of data.
    pub data_requests: u64,
    pub data_bytes: u64,
    /// Of partition and row indexes.
    pub index_requests: u64,
    pub index_bytes: u64,
}

/// See the head of this file. Belongs to one shard.
pub struct ChunkCache {
    pool: Rc<MemoryPool>,
    chunks: Rc<Keyed<Rc<[u8]>>>,
    entries: Rc<Keyed<Rc<EntryPage>>>,
    next_file: Cell<u64>,
    caches_index: Cell<bool>,
    dice: RefCell<Rng>,
    disk: Cell<DiskReads>,
}

impl ChunkCache {
    /// What a chunk costs besides its bytes: its place in lists and maps, and the reference counts.
    pub const ENTRY_OVERHEAD_BYTES: usize =
        Keyed::<Rc<[u8]>>::OVERHEAD_BYTES + MemoryPool::ITEM_OVERHEAD_BYTES;

    /// A cache with a pool of its own, which holds at most `budget_bytes`, overhead included. 0: it keeps nothing.
    pub fn new(budget_bytes: usize) -> Rc<Self> {
        Self::in_pool(&MemoryPool::new(budget_bytes, EvictionPolicy::default()))
    }

    /// A cache that shares a pool with others.
    pub fn in_pool(pool: &Rc<MemoryPool>) -> Rc<Self> {
        Rc::new(Self {
            pool: Rc::clone(pool),
            chunks: Keyed::new(pool),
            entries: Keyed::new(pool),
            next_file: Cell::new(0),
            caches_index: Cell::new(true),
            dice: RefCell::new(Rng::new(0)),
            disk: Cell::default(),
        })
    }

    /// A number for a file that is being opened, and what its chunks are counted as.
    pub(super) fn new_file(&self, class: CacheClass) -> FileNumber {
        self.next_file.set(self.next_file.get() + 1);
        FileNumber { number: self.next_file.get(), class }
    }

    /// What [`Self::draws`] says from now on follows from `seed`, a random number of the shard's.
    pub fn seed(&self, seed: u64) {
        *self.dice.borrow_mut() = Rng::new(seed);
    }

    /// True with the given chance; always if it is 1.0 or more, never if it is 0.0.
    #[inline]
    pub fn draws(&self, chance: f64) -> bool {
        // From 0.0 to 1.0, which it never is.
        let unit = || (self.dice.borrow_mut().next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        chance >= 1.0 || (chance > 0.0 && unit() < chance)
    }

    pub(super) fn chunks(&self) -> &Rc<Keyed<Rc<[u8]>>> {
        &self.chunks
    }

    pub(super) fn entries(&self) -> &Rc<Keyed<Rc<EntryPage>>> {
        &self.entries
    }

    /// Forgets what it has of a file: it was deleted. Costs that much.
    pub(super) fn clear_file(&self, file: FileNumber) {
        match file.class {
            CacheClass::IndexEntries => self.entries.clear_file(file),
            CacheClass::Chunks | CacheClass::IndexPages => self.chunks.clear_file(file),
            CacheClass::Rows => unreachable!("rows are of no file"),
        }
    }

    /// Whether reads may look into cached indexes and fill them (`cache_index_pages`); they may unless this says
    /// otherwise. Counts for reads that begin afterwards.
    pub fn set_caches_index(&self, caches_index: bool) {
        self.caches_index.set(caches_index);
    }

    pub(super) fn caches_index(&self) -> bool {
        self.caches_index.get()
    }

    pub fn pool(&self) -> &Rc<MemoryPool> {
        &self.pool
    }

    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// What was read of the shard's SSTables since the start, by whomever and through whichever cache.
    pub fn disk_reads(&self) -> DiskReads {
        self.disk.get()
    }

    pub(super) fn count_request(&self, file: FileNumber, bytes: u64) {
        let mut disk = self.disk.get();
        match file.class {
            CacheClass::Chunks => {
                disk.data_requests += 1;
                disk.data_bytes += bytes;
            }
            CacheClass::IndexPages | CacheClass::IndexEntries => {
                disk.index_requests += 1;
                disk.index_bytes += bytes;
            }
            CacheClass::Rows => unreachable!("rows are of no file"),
        }
        self.disk.set(disk);
    }
}

/// Bytes and cost of a chunk in the pool.
pub(super) fn chunk_cost(bytes: &Rc<[u8]>) -> (usize, u64) {
    (bytes.len(), READ_US + (bytes.len() / DECODE_BYTES_A_US) as u64)
}

/// Bytes and cost of a parsed page in the pool. Its pages of the file may have to be read again too.
pub(super) fn page_cost(page: &Rc<EntryPage>) -> (usize, u64) {
    (page.memory_bytes(), READ_US + page.len() as u64 * PARSE_ENTRY_NS / 1000)
}

impl fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkCache({:?})", self.stats())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use base::rng::Rng;
    use reader::{ReadError, block_on_ready};
    use runtime::sim;

    use super::super::keyed::Look;
    use super::*;

    fn chunk(len: usize, fill: u8) -> Rc<[u8]> {
        vec![fill; len].into()
    }

    fn get(cache: &ChunkCache, file: FileNumber, number: u64) -> Option<Rc<[u8]>> {
        match cache.chunks().look(file, number) {
            Look::Found(bytes) => Some(bytes),
            Look::Nothing => None,
            Look::Flying(_) => panic!("nothing is under way"),
        }
    }

    fn put(cache: &ChunkCache, file: FileNumber, number: u64, bytes: Rc<[u8]>) {
        cache.chunks().begin(file, number, 1).land(vec![bytes], chunk_cost);
    }

    /// Whatever is asked: what is found is what was put there, and the budget holds.
    #[test]
    fn it_never_gives_out_what_was_not_put_in() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut budget_bytes = 4000;
            let cache = ChunkCache::new(budget_bytes);
            let files: Vec<FileNumber> = (0..3).map(|_| cache.new_file(CacheClass::Chunks)).collect();
            let mut hits = 0;
            for _ in 0..400 {
                let (file, number) = (*rng.pick(&files), rng.below(8));
                let fill = (file.number * 16 + number) as u8;
                match rng.below(12) {
                    0 => {
                        cache.clear_file(file);
                        assert!((0..8).all(|number| get(&cache, file, number).is_none()), "seed {seed}");
                    }
                    1 => {
                        budget_bytes = 1000 + rng.below(4000) as usize;
                        cache.pool().set_budget_bytes(budget_bytes);
                    }
                    _ => match get(&cache, file, number) {
                        Some(bytes) => {
                            hits += 1;
                            assert!(bytes.iter().all(|byte| *byte == fill), "seed {seed}");
                        }
                        None => put(&cache, file, number, chunk(rng.below(900) as usize, fill)),
                    },
                }
                let stats = cache.stats();
                assert!(stats.used_bytes() <= budget_bytes, "seed {seed}");
                assert!(stats.chunks.populations - stats.chunks.evictions >= stats.chunks.entries);
            }
            assert!(hits > 20, "seed {seed}: {hits}");
        }
    }

    #[test]
    fn a_reader_keeps_what_it_holds() {
        let cache = ChunkCache::new(200 + ChunkCache::ENTRY_OVERHEAD_BYTES);
        let file = cache.new_file(CacheClass::Chunks);
        put(&cache, file, 0, chunk(200, 7));
        let held = get(&cache, file, 0).unwrap();
        cache.pool().set_budget_bytes(10);
        assert!(get(&cache, file, 0).is_none());
        assert_eq!((held[199], cache.stats().used_bytes()), (7, 0));
        put(&cache, file, 2, chunk(201, 9));
        assert!(get(&cache, file, 2).is_none(), "larger than the whole budget");
        assert_eq!(cache.stats().chunks.evictions, 1);
    }

    fn failure() -> ReadError {
        ReadError::Corrupt { file: "x".into(), offset_bytes: 7, detail: "torn".into() }
    }

    /// Who waits for a load gets its value, also if the pool keeps nothing; or its error, and the next one tries anew.
    #[test]
    fn a_load_is_shared_and_a_failed_one_is_not_kept() {
        let cache = ChunkCache::new(0);
        let file = cache.new_file(CacheClass::Chunks);
        let flying = |number| match cache.chunks().look(file, number) {
            Look::Flying(flight) => flight,
            _ => panic!("a load is under way"),
        };
        let loading = cache.chunks().begin(file, 3, 2);
        let flight = flying(4);
        loading.land(vec![chunk(1, 3), chunk(1, 4)], chunk_cost);
        assert_eq!(block_on_ready(flight.wait(4)).unwrap().unwrap()[0], 4);
        assert!(get(&cache, file, 4).is_none());

        let loading = cache.chunks().begin(file, 3, 1);
        let flight = flying(3);
        assert!(loading.fail(failure()).to_string().contains("torn"));
        assert_eq!(block_on_ready(flight.wait(3)).unwrap().unwrap_err().to_string(), failure().to_string());
        assert!(get(&cache, file, 3).is_none(), "the error is not remembered");
        assert_eq!(cache.stats().chunks.shared_loads, 2);
    }

    /// A reader that goes away in the middle of a load leaves it to those who wait.
    #[test]
    fn an_abandoned_load_is_taken_over() {
        sim::run(1, 1, |shard| async move {
            let cache = ChunkCache::new(10_000);
            let file = cache.new_file(CacheClass::Chunks);
            let loading = cache.chunks().begin(file, 0, 1);
            let got = Rc::new(RefCell::new(vec![]));
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let (cache, got) = (cache.clone(), got.clone());
                    shard.spawn(runtime::CpuGroup::Statement, async move {
                        let bytes = loop {
                            match cache.chunks().look(file, 0) {
                                Look::Found(bytes) => break bytes,
                                Look::Flying(flight) => {
                                    if let Some(landed) = flight.wait(0).await {
                                        break landed.unwrap();
                                    }
                                }
                                Look::Nothing => {
                                    let loading = cache.chunks().begin(file, 0, 1);
                                    loading.land(vec![chunk(5, 9)], chunk_cost);
                                }
                            }
                        };
                        got.borrow_mut().push(bytes[0]);
                    })
                })
                .collect();
            shard.yield_now().await;
            drop(loading);
            for waiter in waiters {
                waiter.await;
            }
            assert_eq!(*got.borrow(), [9, 9, 9]);
            assert_eq!(cache.stats().chunks.populations, 1);
        });
    }
}
