//! Records the cost of a traced read: cache accesses, disk reads, and time.
//!
//! A shard has one thread and counts the work of all its readers. The difference of the counters before and
//! after a poll of a read is therefore the work of that read, and untraced reads need no counters of their
//! own ([`measured`]).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use reader::trace::{ReadTrace, Tracer};
use runtime::Shard;
use sstable::pool::{ClassStats, PoolStats};
use sstable::read::{ChunkCache, DiskReads};

use crate::cache::{RowCache, RowCacheStats};

/// The tracer that records a read on this shard.
pub fn tracer(shard: &Shard, trace: &Arc<ReadTrace>) -> Tracer {
    let (shard, trace) = (shard.clone(), trace.clone());
    Tracer::new(move |text| trace.note(shard.id(), shard.now_us(), text))
}

/// The shard's counters at one moment.
#[derive(Clone, Copy, Default)]
struct CounterSnapshot {
    pool: PoolStats,
    rows: RowCacheStats,
    disk: DiskReads,
    now_us: u64,
}

/// The sources of a shard's counters.
pub struct Counters<'a> {
    pub shard: &'a Shard,
    pub cache: &'a ChunkCache,
    pub rows: &'a RowCache,
}

impl Counters<'_> {
    fn now(&self) -> CounterSnapshot {
        CounterSnapshot {
            pool: self.cache.stats(),
            rows: self.rows.stats(),
            disk: self.cache.disk_reads(),
            now_us: self.shard.now_us(),
        }
    }
}

/// Accesses to a cache.
#[derive(Clone, Copy, Default)]
struct CacheAccesses {
    hits: u64,
    misses: u64,
    /// Of the misses, those that another read was already loading.
    shared: u64,
}

impl CacheAccesses {
    fn add(&mut self, before: &ClassStats, after: &ClassStats) {
        self.hits += after.hits - before.hits;
        self.misses += after.misses - before.misses;
        self.shared += after.shared_loads - before.shared_loads;
    }

    fn text(self, what: &str) -> String {
        let shared = match self.shared {
            0 => String::new(),
            shared => format!(" ({shared} of them loaded by other reads)"),
        };
        format!("{what} {} hit, {} missed{shared}", self.hits, self.misses)
    }
}

/// The cost of a read.
#[derive(Default)]
pub struct ReadCost {
    index_entries: CacheAccesses,
    index_pages: CacheAccesses,
    chunks: CacheAccesses,
    cached_reads: u64,
    cached_reads_missed: u64,
    rows_hit: u64,
    rows_missed: u64,
    disk: DiskReads,
    cpu_us: u64,
    total_us: u64,
}

impl ReadCost {
    fn add(&mut self, before: &CounterSnapshot, after: &CounterSnapshot) {
        self.index_entries.add(&before.pool.index_entries, &after.pool.index_entries);
        self.index_pages.add(&before.pool.index_pages, &after.pool.index_pages);
        self.chunks.add(&before.pool.chunks, &after.pool.chunks);
        self.cached_reads += after.rows.reads - before.rows.reads;
        self.cached_reads_missed += after.rows.misses - before.rows.misses;
        self.rows_hit += after.rows.rows_hit - before.rows.rows_hit;
        self.rows_missed += after.rows.rows_missed - before.rows.rows_missed;
        self.disk.data_requests += after.disk.data_requests - before.disk.data_requests;
        self.disk.data_bytes += after.disk.data_bytes - before.disk.data_bytes;
        self.disk.index_requests += after.disk.index_requests - before.disk.index_requests;
        self.disk.index_bytes += after.disk.index_bytes - before.disk.index_bytes;
        self.cpu_us += after.now_us - before.now_us;
    }

    /// Adds human-readable entries to the trace.
    pub fn note(&self, tracer: &Tracer) {
        if self.cached_reads > 0 {
            let outcome = if self.cached_reads_missed > 0 { "miss" } else { "hit" };
            let (hit, missed) = (self.rows_hit, self.rows_missed);
            tracer.note(format!("Row cache {outcome}: {hit} rows hit, {missed} read from SSTables"));
        }
        let caches = [
            self.index_entries.text("Index: parsed pages"),
            self.index_pages.text("pages"),
            self.chunks.text("chunks of data"),
        ];
        tracer.note(caches.join("; "));
        let DiskReads { data_requests, data_bytes, index_requests, index_bytes } = self.disk;
        tracer.note(format!(
            "Disk: {data_requests} data requests of {data_bytes} bytes, {index_requests} index requests of {index_bytes} bytes"
        ));
        tracer.note(format!("Took {} us, {} us of them on the CPU", self.total_us, self.cpu_us));
    }
}

/// The result of `work`, and its cost on this shard.
pub async fn measured<T>(counters: &Counters<'_>, work: impl Future<Output = T>) -> (T, ReadCost) {
    let mut work = pin!(work);
    let mut cost = ReadCost::default();
    let began_us = counters.shard.now_us();
    let done = poll_fn(|context| {
        let before = counters.now();
        let polled = work.as_mut().poll(context);
        cost.add(&before, &counters.now());
        polled
    });
    let done = done.await;
    cost.total_us = counters.shard.now_us() - began_us;
    (done, cost)
}
