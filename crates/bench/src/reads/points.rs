//! Point reads on one core: partitions of one small row, all in memory, and all from disk.
//!
//! The limit of the reads from disk is measured by `fio`, with the same number of random reads of the same
//! length in flight. If `fio` is not installed, it is measured by a loop that uses the engine's backend.
//! `bench/reads.sh` runs the same reads over CQL, and compares them with Cassandra.

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use engine::shard::EngineShard;
use engine::{EngineError, ReadCommand};
use model::{ColumnData, CqlType, PartitionKey, PartitionRange, TableSchema};
use runtime::IoClass;

use super::{Bench, wide};
use crate::BenchError;
use crate::limits;
use crate::report::{Sample, number};
use crate::stopwatch::Spent;
use crate::workload::Workload;
use crate::world::{self, World};

const ROWS: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;
const READS_HOT: u64 = 500_000;
const READS_COLD: u64 = 50_000;
const CONCURRENCY: usize = 64;
const FIO_SECONDS: u32 = 8;
const FIO_BYTES: u64 = 1 << 30;
/// Approximate bytes of a disk request for a chunk or an index page.
const REQUEST_BYTES: u32 = 16 * 1024;
const FIO: &str = "limit/fio";

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(ROWS, 1000);
    let workload = Arc::new(Workload::new(rows, VALUE_BYTES, 5));
    let table = TableSchema::builder("bench", "rows")
        .partition_key("key", CqlType::Blob)
        .regular("value", CqlType::Blob)
        .build()?;
    bench.empty_dir()?;
    let mut options = wide::options(bench, (rows * 4000).max(512 << 20));
    options.commitlog_total_bytes = options.commitlog_total_bytes.max(options.memory_bytes);
    let world = World::open(options, bench.arguments.backend.into(), &table, &world::uncompacted())?;
    world.write_all(CONCURRENCY, &workload)?;
    world.engine.flush(vec![world.table.id])?;

    let reads = bench.scaled(READS_HOT, 1000);
    for _ in 0..2 {
        // Loads all rows into memory.
        read(&world, &workload, rows, false, Some(0))?;
    }
    let spent = read(&world, &workload, reads, false, None)?;
    bench.report.add_rate("hot", "/s", reads as f64, spent);

    let reads = bench.scaled(READS_COLD, 1000);
    let before = world.io_of(IoClass::Statement)?;
    let spent = read(&world, &workload, reads, true, None)?;
    let after = world.io_of(IoClass::Statement)?;
    let requests = (after.reads - before.reads) as f64;
    bench.report.add_rate("cold", "/s", reads as f64, spent);
    bench.add("cold/requests-a-read", "", requests / reads as f64);
    bench.report.add_rate("cold/requests", "/s", requests, spent);
    world.close()?;

    let limit = match fio(bench, CONCURRENCY)? {
        Some(iops) => {
            bench.report.add(FIO, "/s", Sample { value: iops, cpu_us: None });
            FIO
        }
        None => {
            println!("fio is not installed (Debian: apt-get install fio); the limit is a loop of our own");
            let dir = bench.empty_dir()?.to_owned();
            std::fs::create_dir_all(&dir)?;
            let backend = bench.arguments.backend.into();
            limits::measure(&mut bench.report, &workload, CONCURRENCY, backend, &dir)?;
            limits::DISK_RANDOM_READ
        }
    };
    bench.report.bound("cold/requests", &[limit]);
    println!(
        "cold: {} reads/s of {:.2} requests each; the disk alone answers {} requests/s",
        number(bench.value_of("cold")),
        bench.value_of("cold/requests-a-read"),
        number(bench.value_of(limit))
    );
    Ok(())
}

/// Reads rows at random, or one after another beginning with number `from`. Each is checked.
fn read(
    world: &World,
    workload: &Arc<Workload>,
    reads: u64,
    bypass_cache: bool,
    from: Option<u64>,
) -> Result<Spent, BenchError> {
    let (id, workload) = (world.table.id, workload.clone());
    world.on_shard_made(CONCURRENCY, reads, move || {
        let rng = RefCell::new(Rng::new(3));
        move |engine: Rc<EngineShard>, number| {
            let row = match from {
                Some(from) => (from + number) % workload.rows,
                None => rng.borrow_mut().below(workload.rows),
            };
            let key = PartitionKey::new(&workload.key(row)[..]);
            let command = ReadCommand { bypass_cache, ..ReadCommand::new(id, PartitionRange::Key(key)) };
            let workload = workload.clone();
            async move {
                let page = engine.read(&command).await?;
                let is_right = match page.partitions.first().and_then(|found| found.rows.first()) {
                    Some(found) => matches!(found.row.cells(), [(_, ColumnData::Simple(cell))] if *cell.value == *workload.value(row)),
                    None => false,
                };
                if is_right {
                    return Ok(());
                }
                Err(EngineError::Invalid(format!("row {row} is not what was written")))
            }
        }
    })
}

/// Random reads per second of the disk with the benchmark's directory, measured by `fio`; `None` if `fio` is
/// not installed.
fn fio(bench: &Bench, depth: usize) -> Result<Option<f64>, BenchError> {
    let dir = bench.empty_dir()?.to_owned();
    std::fs::create_dir_all(&dir)?;
    let found = Command::new("fio")
        .args(["--name=limit", "--rw=randread", "--direct=1", "--time_based", "--output-format=json"])
        .arg(format!("--filename={}", dir.join("fio").display()))
        .args([
            format!("--size={FIO_BYTES}"),
            format!("--bs={REQUEST_BYTES}"),
            format!("--runtime={FIO_SECONDS}"),
        ])
        .args([format!("--iodepth={depth}"), "--ioengine=libaio".to_string()])
        .output();
    let output = match found {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let iops = said["jobs"][0]["read"]["iops"].as_f64();
    Ok(Some(iops.ok_or("fio does not say how many reads a second it did")?))
}
