//! The cache of a shard for its SSTables, in one [`MemoryPool`]. It holds:
//!
//! - chunks, the unit in which a file is read: a decompressed chunk of Data.db, or a page of an index file as
//!   stored;
//! - parsed pages of partition indexes ([`EntryPage`]).
//!
//! Both are shared by reference count, so a reader keeps the bytes that it uses alive after their eviction. A
//! value that several readers want at the same time is read once (single flight, see `loading_cache`).
//!
//! The cache also owns the shard's random numbers for checksums that are verified with a probability
//! ([`ChunkCache::draws`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::rng::Rng;

use super::loading_cache::{FileNumber, LoadingCache};
use crate::pool::{CacheClass, EvictionPolicy, MemoryPool, PoolStats};
use crate::read::index::entries::EntryPage;

/// Cost of getting a chunk back besides the disk read: bytes of data that are verified and decompressed per
/// microsecond.
const DECODE_BYTES_A_US: usize = 1000;
/// Cost of a disk request in microseconds.
const READ_US: u64 = 100;
/// Cost of parsing an entry of Index.db in nanoseconds.
const PARSE_ENTRY_NS: u64 = 100;

/// Disk requests and the bytes that they fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Requests of Data.db.
    pub data_requests: u64,
    pub data_bytes: u64,
    /// Requests of partition and row indexes.
    pub index_requests: u64,
    pub index_bytes: u64,
}

/// See the head of this file. Belongs to one shard.
pub struct ChunkCache {
    pool: Rc<MemoryPool>,
    chunks: Rc<LoadingCache<Rc<[u8]>>>,
    entries: Rc<LoadingCache<Rc<EntryPage>>>,
    next_file: Cell<u64>,
    caches_index: Cell<bool>,
    dice: RefCell<Rng>,
    disk: Cell<DiskReads>,
}

impl ChunkCache {
    /// Memory of a chunk besides its bytes: its nodes in lists and maps, and the reference counts.
    pub const ENTRY_OVERHEAD_BYTES: usize =
        LoadingCache::<Rc<[u8]>>::OVERHEAD_BYTES + MemoryPool::ITEM_OVERHEAD_BYTES;

    /// A cache with its own pool of at most `budget_bytes`, overhead included. With 0 the cache keeps
    /// nothing.
    pub fn new(budget_bytes: usize) -> Rc<Self> {
        Self::in_pool(&MemoryPool::new(budget_bytes, EvictionPolicy::default()))
    }

    /// A cache that shares a pool with other caches.
    pub fn in_pool(pool: &Rc<MemoryPool>) -> Rc<Self> {
        Rc::new(Self {
            pool: Rc::clone(pool),
            chunks: LoadingCache::new(pool),
            entries: LoadingCache::new(pool),
            next_file: Cell::new(0),
            caches_index: Cell::new(true),
            dice: RefCell::new(Rng::new(0)),
            disk: Cell::default(),
        })
    }

    /// Assigns a number to a file that is being opened. The file's chunks are accounted as `class`.
    pub(in crate::read) fn new_file(&self, class: CacheClass) -> FileNumber {
        self.next_file.set(self.next_file.get() + 1);
        FileNumber { number: self.next_file.get(), class }
    }

    /// Seeds the random numbers of [`Self::draws`] with a random number of the shard.
    pub fn seed(&self, seed: u64) {
        *self.dice.borrow_mut() = Rng::new(seed);
    }

    /// True with probability `chance`; always if `chance` is 1.0 or more, never if it is 0.0.
    #[inline]
    pub fn draws(&self, chance: f64) -> bool {
        // A number from 0.0 up to, but not including, 1.0.
        let unit = || (self.dice.borrow_mut().next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        chance >= 1.0 || (chance > 0.0 && unit() < chance)
    }

    pub(in crate::read) fn chunks(&self) -> &Rc<LoadingCache<Rc<[u8]>>> {
        &self.chunks
    }

    pub(in crate::read) fn entries(&self) -> &Rc<LoadingCache<Rc<EntryPage>>> {
        &self.entries
    }

    /// Removes the values of a file that is closed. Takes time proportional to their number.
    pub(in crate::read) fn clear_file(&self, file: FileNumber) {
        match file.class {
            CacheClass::IndexEntries => self.entries.clear_file(file),
            CacheClass::Chunks | CacheClass::IndexPages => self.chunks.clear_file(file),
            CacheClass::Rows => unreachable!("rows are of no file"),
        }
    }

    /// Sets whether reads use cached index pages and add to them (`cache_index_pages`); the default is yes.
    /// Affects reads that begin later.
    pub fn set_caches_index(&self, caches_index: bool) {
        self.caches_index.set(caches_index);
    }

    pub(in crate::read) fn caches_index(&self) -> bool {
        self.caches_index.get()
    }

    pub fn pool(&self) -> &Rc<MemoryPool> {
        &self.pool
    }

    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Disk reads of the shard's SSTables since the start, including reads that bypass the cache.
    pub fn disk_reads(&self) -> DiskReads {
        self.disk.get()
    }

    pub(in crate::read) fn count_request(&self, file: FileNumber, bytes: u64) {
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

/// Bytes of a chunk and the cost in microseconds of reading it again.
pub(in crate::read) fn chunk_cost(bytes: &Rc<[u8]>) -> (usize, u64) {
    (bytes.len(), READ_US + (bytes.len() / DECODE_BYTES_A_US) as u64)
}

/// Bytes of a parsed page and the cost in microseconds of getting it back, which may include reading the
/// file's pages again.
pub(in crate::read) fn page_cost(page: &Rc<EntryPage>) -> (usize, u64) {
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

    use super::super::loading_cache::Lookup;
    use super::*;

    fn chunk(len: usize, fill: u8) -> Rc<[u8]> {
        vec![fill; len].into()
    }

    fn get(cache: &ChunkCache, file: FileNumber, number: u64) -> Option<Rc<[u8]>> {
        match cache.chunks().get(file, number) {
            Lookup::Found(bytes) => Some(bytes),
            Lookup::Nothing => None,
            Lookup::InFlight(_) => panic!("nothing is under way"),
        }
    }

    fn put(cache: &ChunkCache, file: FileNumber, number: u64, bytes: Rc<[u8]>) {
        cache.chunks().begin(file, number, 1).land(vec![bytes], chunk_cost);
    }

    /// After any sequence of operations, a found value is the value that was put in under this key, and the
    /// budget holds.
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

    /// A task that waits for a load gets its value, even if the pool keeps nothing, or its error. The next
    /// task after an error loads again.
    #[test]
    fn a_load_is_shared_and_a_failed_one_is_not_kept() {
        let cache = ChunkCache::new(0);
        let file = cache.new_file(CacheClass::Chunks);
        let flying = |number| match cache.chunks().get(file, number) {
            Lookup::InFlight(pending) => pending,
            _ => panic!("a load is under way"),
        };
        let loading = cache.chunks().begin(file, 3, 2);
        let pending = flying(4);
        loading.land(vec![chunk(1, 3), chunk(1, 4)], chunk_cost);
        assert_eq!(block_on_ready(pending.wait(4)).unwrap().unwrap()[0], 4);
        assert!(get(&cache, file, 4).is_none());

        let loading = cache.chunks().begin(file, 3, 1);
        let pending = flying(3);
        assert!(loading.fail(failure()).to_string().contains("torn"));
        assert_eq!(block_on_ready(pending.wait(3)).unwrap().unwrap_err().to_string(), failure().to_string());
        assert!(get(&cache, file, 3).is_none(), "the error is not remembered");
        assert_eq!(cache.stats().chunks.shared_loads, 2);
    }

    /// If the loading reader is dropped during the load, a waiting task takes the load over.
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
                            match cache.chunks().get(file, 0) {
                                Lookup::Found(bytes) => break bytes,
                                Lookup::InFlight(pending) => {
                                    if let Some(result) = pending.wait(0).await {
                                        break result.unwrap();
                                    }
                                }
                                Lookup::Nothing => {
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
