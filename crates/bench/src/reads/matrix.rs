//! Cache matrix: small partitions, large ones, both, and both with a concurrent scan; without an index cache,
//! with the single LRU of the publications, and with Messina's default. The question is whether the default
//! is ever worse than no index cache.
//!
//! The memory is a tenth of the data. Nine of ten reads go to a tenth of the rows, so that some data is worth
//! caching. Each cell of the matrix is a separate engine on the same files. It is warmed up by half the
//! number of reads, then measured.

use std::cell::RefCell;
use std::rc::Rc;

use base::rng::Rng;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, ReadCommand};
use model::{PartitionRange, TableId};
use runtime::IoClass;
use sstable::pool::EvictionPolicy;

use super::Bench;
use super::wide::{self, ROW_BYTES};
use crate::BenchError;
use crate::report::number;
use crate::stopwatch::Spent;
use crate::world::World;

/// Bytes of data of each kind.
const DATA_BYTES: u64 = 400_000_000;
const LARGE_PARTITIONS: u64 = 8;
/// Number of the first small partition; each has one row.
const SMALL_FROM: u64 = 1_000_000;
const CONCURRENCY: usize = 32;
const READS: u64 = 60_000;
/// Relative difference that counts as noise: two equal runs differ by this much.
const NOISE: f64 = 0.05;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    Small,
    Large,
    Mixed,
    MixedWithScan,
}

const WORKLOADS: [(&str, Workload); 4] = [
    ("small", Workload::Small),
    ("large", Workload::Large),
    ("mixed", Workload::Mixed),
    ("mixed-with-scan", Workload::MixedWithScan),
];

fn policies(options: &EngineOptions) -> [(&'static str, EngineOptions); 3] {
    let with = |caches_index: bool, eviction: EvictionPolicy| {
        let mut options = options.clone();
        options.reads.cache_index_pages = caches_index;
        options.reads.eviction = eviction;
        options
    };
    let default = EvictionPolicy::default();
    [
        ("no-index-cache", with(false, default)),
        ("lru", with(true, EvictionPolicy::Lru)),
        ("default", with(true, default)),
    ]
}

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(DATA_BYTES / ROW_BYTES, 8000);
    let reads = bench.scaled(READS, 4000);
    let large_rows = rows / LARGE_PARTITIONS;
    bench.empty_dir()?;
    let memory_bytes = (2 * rows * ROW_BYTES / 10).max(16 << 20);
    let world = wide::open(bench, wide::options(bench, memory_bytes))?;
    let large: Vec<(u64, u64)> = (0..LARGE_PARTITIONS).map(|number| (number, large_rows)).collect();
    wide::fill(&world, &large)?;
    let small: Vec<(u64, u64)> = (0..rows).map(|number| (SMALL_FROM + number, 1)).collect();
    wide::fill(&world, &small)?;
    world.close()?;
    println!(
        "{} MB in {LARGE_PARTITIONS} partitions, as much in {} small ones, {} MB of memory, {} reads",
        number((rows * ROW_BYTES) as f64 / 1e6),
        number(rows as f64),
        memory_bytes >> 20,
        number(reads as f64)
    );
    let mut worse = vec![];
    for (workload_name, workload) in WORKLOADS {
        for (policy, options) in policies(&wide::options(bench, memory_bytes)) {
            let world = wide::open(bench, options)?;
            let picks = Picks { workload, rows, large_rows };
            read(&world, reads / 2, &picks, 1)?;
            let before = world.io_of(IoClass::Statement)?;
            let spent = read(&world, reads, &picks, 2)?;
            let requests = (world.io_of(IoClass::Statement)?.reads - before.reads) as f64;
            bench.report.add_rate(&format!("reads/{workload_name}/{policy}"), "/s", reads as f64, spent);
            bench.add(&format!("requests/{workload_name}/{policy}"), "", requests / reads as f64);
            world.close()?;
        }
        let of = |figure: &str, policy: &str| bench.value_of(&format!("{figure}/{workload_name}/{policy}"));
        let more_requests = of("requests", "default") / of("requests", "no-index-cache");
        let faster = of("reads", "default") / of("reads", "no-index-cache");
        println!(
            "{workload_name}: the default does {:.2} times the requests and {faster:.2} times the reads/s of no index cache",
            more_requests
        );
        if more_requests > 1.0 + NOISE {
            worse.push(workload_name);
        }
    }
    println!(
        "{}",
        match &worse[..] {
            [] => "the default is nowhere worse than no index cache".to_string(),
            worse =>
                format!("the default asks the disk more often than no index cache does: {}", worse.join(", ")),
        }
    );
    bench.add("workloads-where-the-default-is-worse", "", worse.len() as f64);
    Ok(())
}

#[derive(Clone, Copy)]
struct Picks {
    workload: Workload,
    rows: u64,
    large_rows: u64,
}

impl Picks {
    /// Picks a row; nine of ten picks are from the hot tenth.
    fn pick(&self, rng: &mut Rng) -> (u64, u64) {
        let skewed = |rng: &mut Rng, among: u64| {
            let hot = (among / 10).max(1);
            if rng.below(10) < 9 { rng.below(hot) } else { rng.below(among) }
        };
        let is_large = match self.workload {
            Workload::Small => false,
            Workload::Large => true,
            Workload::Mixed | Workload::MixedWithScan => rng.below(2) == 0,
        };
        if is_large {
            (rng.below(LARGE_PARTITIONS), skewed(rng, self.large_rows))
        } else {
            // Hot partitions are spread over the whole ring.
            (SMALL_FROM + skewed(rng, self.rows), 0)
        }
    }
}

/// Runs reads. With a scan, one of the clients first reads the whole table once, in pages, and then continues
/// with its reads. The requests of the scan are the same for every policy.
fn read(world: &World, reads: u64, picks: &Picks, seed: u64) -> Result<Spent, BenchError> {
    let (picks, table) = (*picks, world.table.clone());
    let with_scan = picks.workload == Workload::MixedWithScan;
    let workload = wide::workload();
    world.on_shard_made(CONCURRENCY, reads, move || {
        let rng = RefCell::new(Rng::new(seed));
        move |engine: Rc<EngineShard>, number| {
            let (partition, row) = picks.pick(&mut rng.borrow_mut());
            let command = wide::one_row(&table, partition, row);
            let workload = workload.clone();
            let scans = with_scan && number == reads / 3;
            async move {
                if scans {
                    scan(&engine, command.table).await?;
                }
                let page = engine.read(&command).await?;
                if wide::is_row(&page, &workload, partition, row) {
                    return Ok(());
                }
                Err(EngineError::Invalid(format!("row {row} of {partition} is not what was written")))
            }
        }
    })
}

async fn scan(engine: &EngineShard, table: TableId) -> Result<(), EngineError> {
    let mut command = ReadCommand::new(table, PartitionRange::all());
    loop {
        command.paging = engine.read(&command).await?.next;
        if command.paging.is_none() {
            return Ok(());
        }
    }
}
