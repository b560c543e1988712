//! Compares the eviction policies: disk reads for several workloads and cache sizes.
//!
//! `cargo run -p sstable --example eviction --release`
//!
//! Only the pool is real: items are numbers, and each is charged the memory of a real item of its kind. A
//! lookup uses the parsed page of the partition index (a miss reads two pages of Index.db), in a large
//! partition the pages of the promoted index that a binary search visits, and one chunk. The line "no index"
//! caches only chunks, in an LRU. The program prints the disk reads of a lookup. For "scan" only the lookups
//! are counted, while a scan of everything uses the same cache.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use base::HashMap;
use base::rng::Rng;
use sstable::pool::{CacheClass, EvictionPolicy, MemberId, MemoryPool, Owner, Slot};

const LOOKUPS: u64 = 300_000;

/// Kind and number of an item.
type Name = (u8, u64);
const CHUNK: u8 = 0;
const PAGE: u8 = 1;
const ENTRIES: u8 = 2;

struct Cache {
    pool: Rc<MemoryPool>,
    member: MemberId,
    keeps_index: bool,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    map: HashMap<Name, (u32, Slot)>,
    names: Vec<Name>,
    free: Vec<u32>,
}

impl Owner for Cache {
    fn evicted(&self, item: u32) {
        let inner = &mut *self.inner.borrow_mut();
        inner.map.remove(&inner.names[item as usize]);
        inner.free.push(item);
    }
}

impl Cache {
    fn new(budget_bytes: usize, policy: EvictionPolicy, keeps_index: bool) -> Rc<Self> {
        let pool = MemoryPool::new(budget_bytes, policy);
        Rc::new_cyclic(|this: &Weak<Self>| Self {
            member: pool.join(this.clone()),
            pool: pool.clone(),
            keeps_index,
            inner: RefCell::default(),
        })
    }

    /// Whether the item was cached. It is cached afterwards.
    fn uses(&self, name: Name) -> bool {
        if !self.keeps_index && name.0 != CHUNK {
            return false;
        }
        let (class, bytes, reread_us) = match name.0 {
            CHUNK => (CacheClass::Chunks, 16_400, 116),
            PAGE => (CacheClass::IndexPages, 4200, 104),
            _ => (CacheClass::IndexEntries, 128 * 32, 112),
        };
        let found = self.inner.borrow().map.get(&name).copied();
        if let Some((_, slot)) = found {
            self.pool.hit(class, slot);
            return true;
        }
        let item = {
            let inner = &mut *self.inner.borrow_mut();
            inner.free.pop().unwrap_or_else(|| {
                inner.names.push(name);
                (inner.names.len() - 1) as u32
            })
        };
        let fingerprint = ((name.1 * 4 + u64::from(name.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let slot = self.pool.enter(self.member, class, item, bytes, reread_us, fingerprint).expect("it fits");
        let inner = &mut *self.inner.borrow_mut();
        inner.names[item as usize] = name;
        inner.map.insert(name, (item, slot));
        false
    }

    /// Number of disk reads to look up the partition's entry.
    fn entry(&self, partition: u64) -> u64 {
        let sample = partition / 128;
        if self.uses((ENTRIES, sample)) {
            return 0;
        }
        u64::from(!self.uses((PAGE, sample))) + u64::from(!self.uses((PAGE, sample + 1)))
    }

    fn chunk(&self, chunk: u64) -> u64 {
        u64::from(!self.uses((CHUNK, chunk)))
    }
}

/// A rank in 0..count, where low ranks are more frequent (Zipf with exponent 0.99, by inversion of its
/// continuous form).
fn zipf(rng: &mut Rng, count: u64) -> u64 {
    let s: f64 = 1.0 - 0.99;
    let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let x = (u * ((count as f64).powf(s) - 1.0) + 1.0).powf(1.0 / s);
    ((x as u64).max(1) - 1).min(count - 1)
}

/// Maps ranks to positions that are spread over the ring.
fn shuffled(rank: u64, count: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count
}

const SMALL: u64 = 1_000_000;

/// Reads a partition of 1 KB among a million.
fn small(cache: &Cache, rng: &mut Rng) -> u64 {
    let partition = shuffled(zipf(rng, SMALL), SMALL);
    cache.entry(partition) + cache.chunk(partition / 16)
}

/// Reads a row of one of 20 partitions of 1 GB: 16,384 blocks each, 32 bytes per block, 128 blocks per page.
fn large(cache: &Cache, rng: &mut Rng, skewed: bool) -> u64 {
    const BLOCKS: u64 = 16_384;
    let (partition, block) = if skewed {
        let at = shuffled(zipf(rng, 20 * BLOCKS), 20 * BLOCKS);
        (at / BLOCKS, at % BLOCKS)
    } else {
        (rng.below(20), rng.below(BLOCKS))
    };
    let base = 1_000_000 + partition * 1000;
    let mut reads = cache.entry(SMALL + partition * 128);
    let (mut low, mut high) = (0, BLOCKS);
    let mut last = u64::MAX;
    while low < high {
        let middle = low.midpoint(high);
        let pages = [base + 200 + middle / 1024, base + middle / 128];
        reads += pages.iter().filter(|page| **page != last && !cache.uses((PAGE, **page))).count() as u64;
        last = pages[1];
        if middle < block { low = middle + 1 } else { high = middle }
    }
    reads + cache.chunk(10_000_000 + (partition * BLOCKS + block) * 4 + rng.below(4))
}

fn main() {
    println!("{:<28}{:>8}{:>12}{:>12}{:>12}", "workload", "MiB", "no index", "lru", "cost-aware");
    type Lookup = fn(&Cache, &mut Rng, u64) -> u64;
    let workloads: [(&str, Lookup); 5] = [
        ("small partitions, skewed", |cache, rng, _| small(cache, rng)),
        ("large partitions, uniform", |cache, rng, _| large(cache, rng, false)),
        ("large partitions, skewed", |cache, rng, _| large(cache, rng, true)),
        ("mixed", |cache, rng, n| if n % 2 == 0 { small(cache, rng) } else { large(cache, rng, true) }),
        ("small, scan in the middle", |cache, rng, n| {
            if (LOOKUPS / 3..LOOKUPS * 2 / 3).contains(&n) {
                cache.chunk(50_000_000 + n);
            }
            small(cache, rng)
        }),
    ];
    for (name, lookup) in workloads {
        for mib in [4, 16, 64, 256] {
            let reads = |policy, keeps_index| {
                let cache = Cache::new(mib << 20, policy, keeps_index);
                let mut rng = Rng::new(1);
                let reads: u64 = (0..LOOKUPS).map(|n| lookup(&cache, &mut rng, n)).sum();
                reads as f64 / LOOKUPS as f64
            };
            println!(
                "{name:<28}{mib:>8}{:>12.3}{:>12.3}{:>12.3}",
                reads(EvictionPolicy::Lru, false),
                reads(EvictionPolicy::Lru, true),
                reads(EvictionPolicy::CostAware, true),
            );
        }
    }
}
