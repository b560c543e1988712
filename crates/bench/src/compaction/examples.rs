//! Examples 1 to 3 of "Scylla's compaction strategies".

use std::sync::Arc;

use base::rng::Rng;
use engine::ReadCommand;
use engine::shard::EngineShard;
use model::{PartitionKey, PartitionRange};
use runtime::IoClass;

use super::recorder::record;
use super::strategies::StrategyArgument;
use super::{Bench, narrow_table, sstables_per_read, write};
use crate::BenchError;
use crate::workload::Workload;
use crate::world::World;

/// About 300 bytes per row in Data.db, before compression.
const VALUE_BYTES: usize = 250;
const SEED: u64 = 2017;

/// The publication has 30 M partitions and 10,000 writes/s; here there are a tenth of the partitions and four
/// times the rate.
pub(super) fn write_only(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(3_000_000);
    let workload = Arc::new(Workload::new(rows, VALUE_BYTES, SEED));
    let per_s = Some(bench.writes_per_s.unwrap_or(40_000));
    for strategy in bench.strategies.clone() {
        let world = bench.open(&narrow_table(), strategy)?;
        let name = strategy.name();
        let (spent, trace) = record(&world, || {
            let spent = write(&world, &workload, rows, per_s, |number| number)?;
            world.engine.flush(vec![world.table.id])?;
            bench.wait_until_quiet(&world)?;
            Ok(spent)
        })?;
        let live = trace.end_disk_bytes();
        bench.report.add_rate(&format!("writes/{name}"), "/s", rows as f64, spent);
        bench.add_written(&world, name, workload.user_bytes() as f64)?;
        // No row is written twice, so all data at the end is live.
        bench.add_space(&trace, name, live);
        let sample = (0..1000).map(|number| number * rows / 1000);
        let opened = sstables_per_read(&world, &workload, sample)?;
        bench.add(&format!("sstables-per-read/{name}"), "", opened);
        bench.traces.push((name.to_string(), trace));
        world.close()?;
        eprintln!("{name} done");
    }
    Ok(())
}

/// The publication writes the same 4 M partitions fifteen times; here there are a tenth of them.
pub(super) fn overwrite(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(400_000);
    let workload = Arc::new(Workload::new(rows, VALUE_BYTES, SEED));
    for strategy in bench.strategies.clone() {
        let world = bench.open(&narrow_table(), strategy)?;
        let name = strategy.name();
        let (spent, trace) = record(&world, || {
            let spent = write(&world, &workload, 15 * rows, bench.writes_per_s, move |number| number % rows)?;
            world.engine.flush(vec![world.table.id])?;
            bench.wait_until_quiet(&world)?;
            Ok(spent)
        })?;
        bench.report.add_rate(&format!("writes/{name}"), "/s", 15.0 * rows as f64, spent);
        bench.add_written(&world, name, 15.0 * workload.user_bytes() as f64)?;
        bench.major(&world)?;
        let (_, after) = record(&world, || Ok(()))?;
        bench.add(&format!("live/{name}"), "MB", after.end_disk_bytes() / 1e6);
        bench.add_space(&trace, name, after.end_disk_bytes());
        bench.traces.push((name.to_string(), trace));
        world.close()?;
        eprintln!("{name} done");
    }
    Ok(())
}

/// The publication has 4 M writes to 1 M partitions, then 1 M reads; here a fifth of that. Then eight times
/// the partitions.
pub(super) fn read_and_update(bench: &mut Bench) -> Result<(), BenchError> {
    let wanted = |strategy: &StrategyArgument| !matches!(strategy, StrategyArgument::Twcs);
    for strategy in bench.strategies.clone().into_iter().filter(wanted) {
        for (times, label) in [(1, ""), (8, "-8x")] {
            if times == 8 && !matches!(strategy, StrategyArgument::Stcs | StrategyArgument::Lcs) {
                continue;
            }
            let rows = bench.scaled(200_000) * times;
            let workload = Arc::new(Workload::new(rows, VALUE_BYTES, SEED));
            let world = bench.open(&narrow_table(), strategy)?;
            let name = format!("{}{label}", strategy.name());
            let ((), trace) = record(&world, || {
                let at = |number: u64| Rng::new(SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                write(&world, &workload, 4 * rows, None, move |number| at(number).below(rows))?;
                world.engine.flush(vec![world.table.id])?;
                bench.wait_until_quiet(&world)?;
                Ok(())
            })?;
            read(bench, &world, &workload, &name)?;
            if times == 1 {
                bench.major(&world)?;
                read(bench, &world, &workload, &format!("{name}-after-major"))?;
            }
            bench.traces.push((name.clone(), trace));
            world.close()?;
            eprintln!("{name} done");
        }
    }
    Ok(())
}

/// Random reads that bypass the caches: bytes, requests and SSTables per read.
fn read(bench: &mut Bench, world: &World, workload: &Arc<Workload>, name: &str) -> Result<(), BenchError> {
    let reads = bench.scaled(20_000);
    let before = world.io_of(IoClass::Statement)?;
    let (table, rows) = (world.table.id, workload.clone());
    let spent = world.on_shard_made(32, reads, move || {
        let picks = std::cell::RefCell::new(rows.picks(7));
        move |engine: std::rc::Rc<EngineShard>, _| {
            let key = PartitionKey::new(&rows.key(picks.borrow_mut().pick())[..]);
            let mut command = ReadCommand::new(table, PartitionRange::Key(key));
            command.bypass_cache = true;
            async move { engine.read(&command).await.map(drop) }
        }
    })?;
    let after = world.io_of(IoClass::Statement)?;
    let each = |count: u64| count as f64 / reads as f64;
    bench.report.add_rate(&format!("reads/{name}"), "/s", reads as f64, spent);
    bench.add(&format!("bytes-per-read/{name}"), "B", each(after.read_bytes - before.read_bytes));
    bench.add(&format!("requests-per-read/{name}"), "", each(after.reads - before.reads));
    let mut picks = workload.picks(8);
    let sample: Vec<u64> = (0..2000).map(|_| picks.pick()).collect();
    let opened = sstables_per_read(world, workload, sample.into_iter())?;
    bench.add(&format!("sstables-per-read/{name}"), "", opened);
    Ok(())
}
