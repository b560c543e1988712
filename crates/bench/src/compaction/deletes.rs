//! Writes and deletions of rows, 4:1, at a steady rate: does compaction keep up?
//!
//! The publication has 1,500 operations/s on three nodes with hundreds of GB. Here there are one core and ten
//! times the rate, for less than a minute. `gc_grace_seconds` is ten days as in the publication, so no
//! tombstone is purged.

use std::sync::Arc;

use base::rng::Rng;
use engine::shard::EngineShard;
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, CqlType, Liveness, Mutation, PartitionKey, TableSchema,
    Tombstone,
};

use super::recorder::record;
use super::{Bench, CLIENTS, Pacer, value_column};
use crate::BenchError;
use crate::workload::Workload;

const PER_S: u64 = 15_000;
const PARTITIONS: u64 = 20_000;
const ROWS: u64 = 100;
const VALUE_BYTES: usize = 250;

fn table() -> Arc<TableSchema> {
    TableSchema::builder("bench", "deletes")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("value", CqlType::Blob)
        .build()
        .expect("two keys and a column")
}

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let operations = bench.scaled(900_000);
    let workload = Arc::new(Workload::new(operations, VALUE_BYTES, 4));
    for strategy in bench.strategies.clone() {
        let world = bench.open(&table(), strategy)?;
        let name = strategy.name();
        let (table, values) = (world.table.clone(), workload.clone());
        let value = value_column(&table);
        let (spent, trace) = record(&world, || {
            world.on_shard_made(CLIENTS, operations, move || {
                let pace = Pacer::new(Some(PER_S));
                move |engine: std::rc::Rc<EngineShard>, number| {
                    let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    let (p, c) = (rng.below(PARTITIONS) as i32, rng.below(ROWS) as i32);
                    let timestamp_us = 1_700_000_000_000_000 + number as i64;
                    let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&p.to_be_bytes()[..]));
                    let row = mutation.row_mut(ClusteringPrefix::new([&c.to_be_bytes()[..]]));
                    if number % 5 == 4 {
                        let now_s = (engine.shard().wall_us() / 1_000_000) as u32;
                        row.deletion = Tombstone::new(timestamp_us, now_s);
                    } else {
                        row.liveness = Liveness::new(timestamp_us);
                        row.push(
                            value,
                            ColumnData::Simple(ColumnCell::live(timestamp_us, values.value(number))),
                        );
                    }
                    let pace = pace.clone();
                    async move {
                        pace.wait(&engine, number).await;
                        engine.apply(mutation).await
                    }
                }
            })
        })?;
        bench.report.add_rate(&format!("operations/{name}"), "/s", operations as f64, spent);
        bench.add_written(&world, name, workload.user_bytes() as f64)?;
        bench.add(&format!("unleveled-peak/{name}"), "", trace.peak(|moment| moment.unleveled));
        bench.add(
            &format!("unleveled-second-half/{name}"),
            "",
            trace.mean_from(0.5, |moment| moment.unleveled),
        );
        bench.add(&format!("pending-second-half/{name}"), "", trace.mean_from(0.5, |moment| moment.pending));
        bench.add(&format!("sstables-peak/{name}"), "", trace.peak(|moment| moment.sstables));
        let quiet_s = bench.wait_until_quiet(&world)?;
        bench.add(&format!("quiet-after/{name}"), "s", quiet_s);
        bench.add(&format!("end-space/{name}"), "MB", trace.end_disk_bytes() / 1e6);
        bench.traces.push((name.to_string(), trace));
        world.close()?;
        eprintln!("{name} done");
    }
    Ok(())
}
