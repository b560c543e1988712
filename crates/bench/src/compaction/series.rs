//! A time series: sensors write one row per minute with a TTL, at many times the real speed.
//!
//! The series has twenty days and ends yesterday; rows live for ten days. At the end ten windows have
//! expired, and nothing else deletes data. When half of the rows are written, some rows of the first five
//! days arrive late, as by a repair. Then one day of one sensor is read.

use std::sync::Arc;

use engine::shard::EngineShard;
use model::{
    Cell as ColumnCell, ClusteringPrefix, ClusteringRange, ColumnData, CqlType, Liveness, Mutation,
    PartitionKey, Position, TableSchema,
};

use super::recorder::record;
use super::{Bench, CLIENTS, value_column};
use crate::BenchError;
use crate::workload::Workload;
use crate::world::World;

const DAYS: u64 = 20;
const TTL_DAYS: u64 = 10;
const DAY_S: u64 = 86_400;
const SENSORS: u64 = 100;
const LATE_DAYS: u64 = 5;
const VALUE_BYTES: usize = 200;

fn table() -> Arc<TableSchema> {
    let mut table = TableSchema::builder("bench", "series")
        .partition_key("sensor", CqlType::Int)
        .clustering("at", CqlType::BigInt)
        .regular("value", CqlType::Blob)
        .build()
        .expect("two keys and a column");
    Arc::get_mut(&mut table).expect("nobody else has it").options.gc_grace_s = 0;
    table
}

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let in_day = bench.scaled(100_000);
    let workload = Arc::new(Workload::new(in_day * DAYS, VALUE_BYTES, 40));
    for strategy in bench.strategies.clone() {
        let world = bench.open(&table(), strategy)?;
        // The last day ends at the last midnight, so that windows are whole days.
        let begin_s = (world.now_s()? / DAY_S - DAYS) * DAY_S;
        let name = strategy.name();
        let (spent, trace) = record(&world, || {
            let half = in_day * DAYS / 2;
            let in_order = move |number: u64| begin_s + number * DAY_S / in_day;
            let spent = write(&world, &workload, half, in_order)?;
            let late = in_day / 20;
            write(&world, &workload, late, move |number| begin_s + number * DAY_S * LATE_DAYS / late + 1)?;
            write(&world, &workload, half, move |number| in_order(half + number))?;
            world.engine.flush(vec![world.table.id])?;
            bench.wait_until_quiet(&world)?;
            // Wait for the periodic search for expired SSTables.
            world.sleep_us(3_000_000)?;
            bench.wait_until_quiet(&world)?;
            Ok(spent)
        })?;
        bench.report.add_rate(&format!("writes/{name}"), "/s", (in_day * DAYS / 2) as f64, spent);
        let user_bytes = (in_day * DAYS) as f64 * (12 + VALUE_BYTES) as f64;
        bench.add_written(&world, name, user_bytes)?;
        bench.add_space(&trace, name, trace.end_disk_bytes());
        let day_s = begin_s + (DAYS - 5) * DAY_S;
        let shape = read(&world, begin_s, day_s)?;
        bench.add(&format!("sstables/{name}"), "", shape.sstables);
        bench.add(&format!("sstables-of-a-day/{name}"), "", shape.opened);
        bench.add(&format!("days-per-sstable/{name}"), "", shape.days_per_sstable);
        bench.add(&format!("expired-rows-kept/{name}"), "", shape.expired_rows);
        bench.traces.push((name.to_string(), trace));
        world.close()?;
        eprintln!("{name} done");
    }
    Ok(())
}

fn write(
    world: &World,
    workload: &Arc<Workload>,
    count: u64,
    at_s: impl Fn(u64) -> u64 + Send + 'static,
) -> Result<crate::stopwatch::Spent, BenchError> {
    let (table, workload) = (world.table.clone(), workload.clone());
    let value = value_column(&table);
    let ttl_s = (TTL_DAYS * DAY_S) as u32;
    world.on_shard(CLIENTS, count, move |engine, number| {
        let at_s = at_s(number);
        let timestamp_us = at_s as i64 * 1_000_000 + (number % 1_000_000) as i64;
        let written_s = at_s as u32;
        let sensor = (number % SENSORS) as i32;
        let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&sensor.to_be_bytes()[..]));
        let row = mutation.row_mut(ClusteringPrefix::new([&timestamp_us.to_be_bytes()[..]]));
        row.liveness = Liveness::expiring(timestamp_us, ttl_s, written_s);
        let cell = ColumnCell::expiring(timestamp_us, ttl_s, written_s, workload.value(number));
        row.push(value, ColumnData::Simple(cell));
        async move { engine.apply(mutation).await }
    })
}

struct Shape {
    sstables: f64,
    /// SSTables that a read of one day of a sensor opens.
    opened: f64,
    /// Mean number of days between the oldest and the newest write of an SSTable.
    days_per_sstable: f64,
    /// Rows in SSTables whose data has all expired.
    expired_rows: f64,
}

fn read(world: &World, begin_s: u64, day_s: u64) -> Result<Shape, BenchError> {
    let id = world.table.id;
    let now_s = world.now_s()? as u32;
    let looked = world.engine.ask(0, move |shard| async move {
        let table = EngineShard::of(&shard)?.table(id)?;
        let sstables = table.sstables();
        let bound = |at_s: u64| ClusteringPrefix::new([&(at_s as i64 * 1_000_000).to_be_bytes()[..]]);
        let day = ClusteringRange {
            start: Position::before(bound(day_s)),
            end: Position::before(bound(day_s + DAY_S)),
        };
        let key = PartitionKey::new(&7i32.to_be_bytes()[..]);
        let schema = table.schema();
        let is_opened = |sstable: &&std::rc::Rc<sstable::read::SSTable>| {
            sstable.may_contain(&key) && sstable.may_contain_clustering(&schema, std::slice::from_ref(&day))
        };
        let day_of = |timestamp_us: i64| (timestamp_us / 1_000_000 - begin_s as i64) / DAY_S as i64;
        let days = |sstable: &std::rc::Rc<sstable::read::SSTable>| {
            (day_of(sstable.max_timestamp_us()) - day_of(sstable.min_timestamp_us()) + 1) as f64
        };
        let count = sstables.len().max(1) as f64;
        let is_expired = |sstable: &&std::rc::Rc<sstable::read::SSTable>| {
            sstable.max_local_deletion_time_s().is_some_and(|last_s| last_s < now_s)
        };
        let expired =
            sstables.iter().filter(is_expired).map(|sstable| sstable.stats().total_rows).sum::<u64>();
        Ok(Shape {
            sstables: sstables.len() as f64,
            opened: sstables.iter().filter(is_opened).count() as f64,
            days_per_sstable: sstables.iter().map(days).sum::<f64>() / count,
            expired_rows: expired as f64,
        })
    });
    Ok(looked.wait()?)
}
