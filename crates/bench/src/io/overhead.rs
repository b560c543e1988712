//! The cost of scheduling without competing work. Point reads from the cache and from disk, each as a
//! separate task like on a server, run with CPU groups and the I/O scheduler, and with both bypassed.
//!
//! Both modes alternate in one process, each for a tenth of a second, so that other activity of the machine
//! affects both equally. The result is the median of the ratios of neighbouring measurements, for CPU time
//! and for wall time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, ReadCommand};
use model::{CqlType, PartitionKey, PartitionRange, TableSchema};
use runtime::{BackendChoice, CpuGroup, DiskModel, DiskOptions, Shard};

use super::IoArguments;
use crate::BenchError;
use crate::engine::Scratch;
use crate::report::{Report, Sample};
use crate::stopwatch::{Spent, Stopwatch};
use crate::workload::Workload;
use crate::world::{self, World};

const ROWS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const CLIENTS: usize = 64;
/// Pairs of measurements per run.
const PAIRS: u64 = 20;
const HOT_READS: u64 = 20_000;
const DISK_READS: u64 = 1_500;

/// A disk model without limits: requests are accounted but never wait.
const FAST: DiskModel = DiskModel {
    read_bandwidth_bytes_s: 1 << 40,
    write_bandwidth_bytes_s: 1 << 40,
    read_iops: 1 << 30,
    write_iops: 1 << 30,
    ..DiskModel::NOMINAL
};

pub fn run(arguments: &IoArguments, report: &mut Report) -> Result<(), BenchError> {
    let scratch = Scratch::make(&arguments.dir)?;
    let workload = Arc::new(Workload::new(ROWS, VALUE_BYTES, 5));
    let table = TableSchema::builder("bench", "rows")
        .partition_key("key", CqlType::Blob)
        .regular("value", CqlType::Blob)
        .build()?;
    let options = EngineOptions { memory_bytes: 512 << 20, ..EngineOptions::new(scratch.0.join("world")) };
    let disk = DiskOptions { model: Some(FAST), ..DiskOptions::default() };
    let world = World::open_on(disk, options, BackendChoice::Auto, &table, &world::uncompacted())?;
    world.write_all(CLIENTS, &workload)?;
    world.engine.flush(vec![world.table.id])?;
    println!("\noverhead: {CLIENTS} clients, a task for each read, {} x {PAIRS} pairs", arguments.runs);
    for (name, reads, bypass_cache) in [("hot", HOT_READS, false), ("disk", DISK_READS, true)] {
        let read = |reads| read(&world, &workload, reads, bypass_cache);
        // Loads all rows into memory.
        read(if bypass_cache { reads } else { 4 * ROWS })?;
        let mut ratios = (vec![], vec![]);
        for pair in 0..u64::from(arguments.runs) * PAIRS {
            let mut spent = [Spent::default(); 2];
            // The order of the two modes alternates from pair to pair.
            for at in [pair % 2, 1 - pair % 2] {
                set_bypassed(&world, at == 1)?;
                spent[at as usize] = read(reads)?;
            }
            for (spent, how) in spent.iter().zip(["scheduled", "bypassed"]) {
                report.add_rate(&format!("overhead/{name}/{how}"), "/s", reads as f64, *spent);
            }
            ratios.0.push((spent[0].cpu_s / spent[1].cpu_s - 1.0) * 100.0);
            ratios.1.push((spent[0].wall_s / spent[1].wall_s - 1.0) * 100.0);
        }
        set_bypassed(&world, false)?;
        for (what, ratios) in [("cpu", ratios.0), ("time", ratios.1)] {
            let figure = format!("overhead/{name}/{what}");
            ratios.iter().for_each(|value| report.add(&figure, "%", Sample { value: *value, cpu_us: None }));
            let (least, median, greatest) = report.get(&figure).expect("just added").spread();
            println!(
                "{name}: {median:.2} % more {what} than bypassed (pairs: {least:.1} to {greatest:.1} %)"
            );
        }
        for how in ["scheduled", "bypassed"] {
            let figure = report.get(&format!("overhead/{name}/{how}")).expect("measured above");
            println!(
                "{name}, {how}: {:.0} reads/s, {:.2} us of CPU a read",
                figure.spread().1,
                figure.cpu_us().unwrap_or_default()
            );
        }
    }
    world.close()?;
    Ok(())
}

fn set_bypassed(world: &World, bypassed: bool) -> Result<(), BenchError> {
    let set = world.engine.ask(0, move |shard| async move {
        shard.set_scheduling_bypassed(bypassed);
        Ok(())
    });
    Ok(set.wait()?)
}

/// Reads random rows, each by a separate task.
fn read(
    world: &World,
    workload: &Arc<Workload>,
    reads: u64,
    bypass_cache: bool,
) -> Result<Spent, BenchError> {
    let (id, workload) = (world.table.id, workload.clone());
    let watch = Stopwatch::start();
    let done = world.engine.ask(0, move |shard| async move {
        let (engine, left) = (EngineShard::of(&shard)?, Rc::new(Cell::new(reads)));
        let picks = Rc::new(std::cell::RefCell::new(workload.picks(1)));
        let client = |_| {
            let (shard, engine, left) = (shard.clone(), engine.clone(), left.clone());
            let (workload, picks) = (workload.clone(), picks.clone());
            shard.clone().spawn(CpuGroup::Statement, async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let row = picks.borrow_mut().pick();
                    let key = PartitionKey::new(&workload.key(row)[..]);
                    let command =
                        ReadCommand { bypass_cache, ..ReadCommand::new(id, PartitionRange::Key(key)) };
                    one(&shard, &engine, command).await?;
                }
                Ok::<(), EngineError>(())
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            client.await?;
        }
        Ok(())
    });
    done.wait()?;
    Ok(watch.spent())
}

async fn one(shard: &Shard, engine: &Rc<EngineShard>, command: ReadCommand) -> Result<(), EngineError> {
    let engine = engine.clone();
    let page = shard.spawn(CpuGroup::Statement, async move { engine.read(&command).await }).await?;
    match page.row_count() {
        1 => Ok(()),
        rows => Err(EngineError::Invalid(format!("{rows} rows were found where one was written"))),
    }
}
