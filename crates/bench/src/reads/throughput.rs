//! Random rows of large partitions, 100 reads at a time on one shard: the effect of caching the index.
//!
//! The data is many times larger than the memory, so nearly every read goes to disk for its row, and only the
//! index can stay in memory. Off is `cache_index_pages: false`: each read searches the index on disk, as
//! before indexes were cached.

use base::rng::Rng;

use super::Bench;
use super::wide::{self, ROW_BYTES};
use crate::BenchError;
use crate::report::number;

const DATA_BYTES: u64 = 4_000_000_000;
const PARTITIONS: u64 = 8;
/// The data is this many times the memory.
const MEMORY_PART: u64 = 16;
const MEMORY_BYTES_MIN: u64 = 48 << 20;
const CONCURRENCY: usize = 100;
const READS: u64 = 40_000;

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(DATA_BYTES / PARTITIONS / ROW_BYTES, 1000);
    let reads = bench.scaled(READS, 1000).min(READS);
    let partitions: Vec<(u64, u64)> = (0..PARTITIONS).map(|number| (number, rows)).collect();
    bench.empty_dir()?;
    let world = wide::open(bench, wide::options(bench, MEMORY_BYTES_MIN))?;
    let written = wide::fill(&world, &partitions)?;
    world.close()?;
    let memory_bytes = (written / MEMORY_PART).max(MEMORY_BYTES_MIN);
    println!(
        "{PARTITIONS} partitions of {} MB, {} MB of memory, {} reads, {CONCURRENCY} at a time",
        number((written / PARTITIONS) as f64 / 1e6),
        memory_bytes >> 20,
        number(reads as f64)
    );
    for (name, caches_index) in [("index-cache-off", false), ("index-cache-on", true)] {
        let mut options = wide::options(bench, memory_bytes);
        options.reads.cache_index_pages = caches_index;
        let world = wide::open(bench, options)?;
        let row_of = move |salt: u64| {
            move |read: u64| {
                let mut rng = Rng::new(salt + read);
                (rng.below(PARTITIONS), rng.below(rows))
            }
        };
        wide::read_many(&world, CONCURRENCY, reads, row_of(0))?;
        let (spent, requests, bytes) = wide::read_many(&world, CONCURRENCY, reads, row_of(1 << 40))?;
        let of_a_read = |count: u64| count as f64 / reads as f64;
        bench.report.add_rate(&format!("rows/{name}"), "/s", reads as f64, spent);
        bench.add(&format!("requests/{name}"), "", of_a_read(requests));
        bench.add(&format!("bytes/{name}"), "B", of_a_read(bytes));
        bench.add(&format!("bandwidth/{name}"), "MB/s", bytes as f64 / 1e6 / spent.wall_s);
        world.close()?;
    }
    let ratio = bench.value_of("rows/index-cache-on") / bench.value_of("rows/index-cache-off");
    bench.add("ratio", "", ratio);
    println!("with the index cached {ratio:.2} times the rows per second");
    Ok(())
}
