//! One row of 1 KB of a partition of 10 GB: the number of requests and bytes of a read.
//!
//! The publication counts for a cold read: two reads of a page of the partition index, one page of 4 KiB for
//! each step of the search in the partition's own index (log2 of its blocks), and two reads of data, for the
//! partition's header and the row's block. A hot read, with the index in memory, has only the two reads of
//! data. Here the engine's counters are measured. The bytes are compared with the bytes that the kernel read
//! from disk for the process. With `--backend threads` the requests are compared with the kernel's number of
//! read calls too.

use std::path::Path;

use base::rng::Rng;

use super::wide::{self, OneRead, ROW_BYTES};
use super::{Bench, percentile};
use crate::BenchError;
use crate::engine::BackendArgument;
use crate::report::number;
use crate::stopwatch::Stopwatch;
use crate::world::{World, kernel_read_bytes};

const WANTED_BYTES: u64 = 10_000_000_000;
/// Maximum fraction of the free disk space that is used.
const FREE_PART: f64 = 0.6;
const COLD_READS: usize = 12;
const PAST_CACHE_READS: usize = 200;
const HOT_READS: usize = 2000;
/// The index counts as warm when a read misses at most this number of its pages on average.
const WARM_MISSES: f64 = 0.01;
const WARM_READS: u64 = 2000;
const WARM_ROUNDS_MAX: u64 = 60;
/// The data is this many times the memory, so that it does not stay in memory.
const MEMORY_PART: u64 = 20;
const MEMORY_BYTES_MIN: u64 = 32 << 20;
const BLOCK_BYTES: f64 = 65_536.0;

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let wanted_bytes = (WANTED_BYTES as f64 * bench.arguments.scale) as u64;
    std::fs::create_dir_all(&bench.arguments.dir)?;
    let free_bytes = free_bytes(&bench.arguments.dir)?;
    let bytes = wanted_bytes.min((free_bytes as f64 * FREE_PART) as u64);
    if bytes < wanted_bytes {
        println!(
            "the disk has {} MB free: the partition is smaller than wanted",
            number(free_bytes as f64 / 1e6)
        );
    }
    let rows = (bytes / ROW_BYTES).max(1000);
    bench.empty_dir()?;
    let memory_bytes = (bytes / MEMORY_PART).max(MEMORY_BYTES_MIN);
    let world = wide::open(bench, wide::options(bench, memory_bytes))?;
    let watch = Stopwatch::start();
    let written = wide::fill(&world, &[(1, rows)])?;
    println!(
        "one partition of {} MB, {} rows, written in {:.0} s; I/O by {}",
        number(written as f64 / 1e6),
        number(rows as f64),
        watch.spent().wall_s,
        world.engine.backend()
    );
    let index_bytes = index_bytes(&world)?;
    world.close()?;
    let blocks = written as f64 / BLOCK_BYTES;
    let steps = blocks.log2().ceil();
    println!(
        "by the document's count, cold: 2 requests of the partition index, {steps} of the search in {} blocks, 2 of data: {} requests",
        number(blocks),
        steps + 4.0
    );
    bench.add("partition", "MB", written as f64 / 1e6);
    bench.add("index", "MB", index_bytes as f64 / 1e6);
    bench.add("document-cold-requests", "", steps + 4.0);

    let mut rng = Rng::new(17);
    let mut pick = move || (1, rng.below(rows));
    let mut cold = vec![];
    let mut kernel = Kernel::default();
    for _ in 0..COLD_READS {
        let world = wide::open(bench, wide::options(bench, memory_bytes))?;
        // The statistics read at the start are not counted for the read.
        let before = Kernel::read();
        cold.extend(wide::measured(&world, vec![pick()], false)?);
        kernel.add(&before);
        world.close()?;
    }
    add(bench, "cold", &cold, &kernel);

    let world = wide::open(bench, wide::options(bench, memory_bytes))?;
    let before = Kernel::read();
    let reads = wide::measured(&world, (0..PAST_CACHE_READS).map(|_| pick()).collect(), true)?;
    let mut kernel = Kernel::default();
    kernel.add(&before);
    add(bench, "bypass-cache", &reads, &kernel);

    let rounds = warm(&world, rows)?;
    println!("the index was warm after {} reads", number((rounds * WARM_READS) as f64));
    let before = Kernel::read();
    let hot = wide::measured(&world, (0..HOT_READS).map(|_| pick()).collect(), false)?;
    let mut kernel = Kernel::default();
    kernel.add(&before);
    add(bench, "hot", &hot, &kernel);
    let within = hot.iter().filter(|read| read.requests <= 2.0).count() as f64 / hot.len() as f64;
    bench.add("hot/within-2-requests", "", within);
    let most = hot.iter().map(|read| read.requests).fold(0.0, f64::max);
    println!("hot: {:.1} % of the reads took at most 2 requests, the most took {most}", within * 100.0);
    let pool = wide::pool(&world)?;
    bench.add("hot/index-in-memory", "MB", (pool.index_pages.bytes + pool.index_entries.bytes) as f64 / 1e6);
    world.close()?;
    if bench.arguments.backend != BackendArgument::Threads {
        println!(
            "requests are the engine's count; with --backend threads the kernel's read calls are compared with it"
        );
    }
    Ok(())
}

/// Reads random rows until nearly all index pages that they need are in memory.
fn warm(world: &World, rows: u64) -> Result<u64, BenchError> {
    for round in 0..WARM_ROUNDS_MAX {
        let before = wide::pool(world)?.index_pages.misses;
        wide::read_many(world, 16, WARM_READS, move |read| {
            (1, Rng::new(round * WARM_READS + read).below(rows))
        })?;
        let misses = wide::pool(world)?.index_pages.misses - before;
        if (misses as f64) < WARM_MISSES * WARM_READS as f64 {
            return Ok(round + 1);
        }
    }
    println!("the index is not warm after {WARM_ROUNDS_MAX} rounds: it does not stay in memory");
    Ok(WARM_ROUNDS_MAX)
}

fn index_bytes(world: &World) -> Result<u64, BenchError> {
    let id = world.table.id;
    let asked = world.engine.ask(0, move |shard| async move {
        let table = engine::shard::EngineShard::of(&shard)?.table(id)?;
        Ok(table.sstables().iter().map(|sstable| sstable.index_bytes()).sum())
    });
    Ok(asked.wait()?)
}

/// The kernel's counters of this process.
#[derive(Clone, Copy, Debug, Default)]
struct Kernel {
    bytes: u64,
    calls: u64,
}

impl Kernel {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let calls = text.lines().find_map(|line| line.strip_prefix("syscr: "));
        Self { bytes: kernel_read_bytes(), calls: calls.and_then(|calls| calls.parse().ok()).unwrap_or(0) }
    }

    fn add(&mut self, before: &Self) {
        let now = Self::read();
        self.bytes += now.bytes - before.bytes;
        self.calls += now.calls - before.calls;
    }
}

fn add(bench: &mut Bench, name: &str, reads: &[OneRead], kernel: &Kernel) {
    let count = reads.len() as f64;
    let mean = |of: fn(&OneRead) -> f64| reads.iter().map(of).sum::<f64>() / count;
    let mut times: Vec<f64> = reads.iter().map(|read| read.us).collect();
    let (requests, bytes, index_pages) =
        (mean(|read| read.requests), mean(|read| read.bytes), mean(|read| read.index_pages));
    bench.add(&format!("{name}/requests"), "", requests);
    bench.add(&format!("{name}/bytes"), "B", bytes);
    bench.add(&format!("{name}/kernel-bytes"), "B", kernel.bytes as f64 / count);
    if bench.arguments.backend == BackendArgument::Threads {
        bench.add(&format!("{name}/kernel-read-calls"), "", kernel.calls as f64 / count);
    }
    bench.add(&format!("{name}/index-pages-missed"), "", index_pages);
    bench.add(&format!("{name}/median"), "us", percentile(&mut times, 0.5));
    bench.add(&format!("{name}/p99"), "us", percentile(&mut times, 0.99));
}

/// Free bytes in the file system of `dir`.
fn free_bytes(dir: &Path) -> Result<u64, BenchError> {
    let found = rustix::fs::statvfs(dir).map_err(std::io::Error::from)?;
    Ok(found.f_bavail * found.f_frsize)
}
