//! A slice of a time series in windows: the number of SSTables that a read opens.
//!
//! The rows of each day are in a separate SSTable, as with TimeWindowCompactionStrategy. Every SSTable
//! contains every partition, so bloom filters cannot exclude any. The other SSTables stay closed because each
//! has its smallest and largest clustering key in memory.

use engine::shard::EngineShard;
use engine::{EngineError, ReadCommand};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ClusteringRange, ColumnData, CqlType, Liveness, Mutation,
    PartitionKey, PartitionRange, Position, TableSchema,
};

use super::{Bench, wide};
use crate::BenchError;
use crate::workload::Workload;
use crate::world::{self, World};

const DAYS: u64 = 30;
const SENSORS: u64 = 20;
const DAY_MS: u64 = 86_400_000;
const BEGIN_MS: u64 = 1_760_054_400_000;
const VALUE_BYTES: usize = 100;
/// Numbers of days read at once.
const SLICES: [u64; 4] = [1, 2, 7, DAYS];

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows_a_day = bench.scaled(1440, 10);
    let table = TableSchema::builder("bench", "series")
        .partition_key("sensor", CqlType::Int)
        .clustering("at", CqlType::Timestamp)
        .regular("value", CqlType::Blob)
        .build()?;
    bench.empty_dir()?;
    let options = wide::options(bench, 512 << 20);
    let world = World::open(options, bench.arguments.backend.into(), &table, &world::uncompacted())?;
    for day in 0..DAYS {
        write_day(&world, day, rows_a_day)?;
        world.engine.flush(vec![world.table.id])?;
    }
    for days in SLICES {
        let (opened, rows) = read(&world, days)?;
        let wanted = days * rows_a_day;
        if rows != wanted {
            return Err(format!("{rows} rows of {days} days where {wanted} were written").into());
        }
        bench.add(&format!("sstables-opened/{days}-days"), "", opened);
        println!("{days} days: {opened} of {DAYS} SSTables opened");
        if opened != days as f64 {
            return Err(format!("a slice of {days} days opened {opened} SSTables").into());
        }
    }
    world.close()?;
    Ok(())
}

fn bound(at_ms: u64) -> ClusteringPrefix {
    ClusteringPrefix::new([&(at_ms as i64).to_be_bytes()[..]])
}

fn write_day(world: &World, day: u64, rows: u64) -> Result<(), BenchError> {
    let table = world.table.clone();
    let column = table.column_named("value").expect("made above").id;
    let workload = Workload::new(rows, VALUE_BYTES, 42);
    world.on_shard(64, rows * SENSORS, move |engine, number| {
        let (sensor, row) = (number % SENSORS, number / SENSORS);
        let at_ms = BEGIN_MS + day * DAY_MS + row * (DAY_MS / rows);
        let timestamp_us = at_ms as i64 * 1000;
        let key = PartitionKey::new(&(sensor as i32).to_be_bytes()[..]);
        let mut mutation = Mutation::new(table.clone(), key);
        let written = mutation.row_mut(bound(at_ms));
        written.liveness = Liveness::new(timestamp_us);
        written.push(column, ColumnData::Simple(ColumnCell::live(timestamp_us, workload.value(row))));
        async move { engine.apply(mutation).await }
    })?;
    Ok(())
}

/// Reads some days from the middle of one sensor. Returns the SSTables opened, by the table's own counter,
/// and the rows.
fn read(world: &World, days: u64) -> Result<(f64, u64), BenchError> {
    let from_ms = BEGIN_MS + (DAYS - days) / 2 * DAY_MS;
    let range = ClusteringRange {
        start: Position::before(bound(from_ms)),
        end: Position::before(bound(from_ms + days * DAY_MS)),
    };
    let id = world.table.id;
    let asked = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let table = engine.table(id)?;
        let opened = || table.counters.sstables.opened.get();
        let before = opened();
        let key = PartitionKey::new(&7i32.to_be_bytes()[..]);
        let mut command = ReadCommand::new(id, PartitionRange::Key(key));
        // A day in the row cache would be read without any SSTable.
        command.bypass_cache = true;
        command.ranges = [range].into();
        command.page_rows = u64::MAX;
        command.page_bytes = u64::MAX;
        let page = engine.read(&command).await?;
        Ok::<_, EngineError>(((opened() - before) as f64, page.row_count()))
    });
    Ok(asked.wait()?)
}
