//! Jobs that release their inputs early: at every moment, and after a crash at any moment, the table has the
//! same rows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use compaction::{Layout, Plan, Reason};
use engine::commitlog::SyncMode;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, node, recover};
use model::{Mutation, PartitionKey, TableSchema, Tombstone};
use runtime::sim::{SimNode, SimOptions, SimStop, SimWorld};
use runtime::{CpuGroup, Shard};

use crate::support::{count, insert, test_table};

const KEYS: usize = 24;
/// SSTables; each has the partitions of a part of the ring, and shares the first and last with its
/// neighbours.
const FLUSHES: usize = 6;
/// Bytes of an output: the partitions of a few keys.
const OUTPUT_BYTES: u64 = 3 << 10;

/// Rows of each partition in each SSTable. It varies with the seed, and so do the ends of outputs.
fn rows_a_key(seed: u64) -> usize {
    2 + (seed % 4) as usize
}

fn rows(seed: u64) -> usize {
    (KEYS + FLUSHES - 1) * rows_a_key(seed)
}

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 2 << 20,
        commitlog_sync: SyncMode::Batch,
        compaction: CompactionOptions { is_automatic: false, ..CompactionOptions::default() },
        ..EngineOptions::new("/data")
    }
}

fn start(world: &SimWorld) -> SimNode {
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
    opened.unwrap().unwrap();
    node
}

/// SSTables of which a job over runs releases one after the other. Every second partition has a tombstone
/// that is purged, so it has garbage from its start on.
async fn fill(shard: &Shard, seed: u64) -> Result<Arc<TableSchema>, EngineError> {
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?)).await?;
    let settings = catalog::TableSettings::default();
    node::change_schema(shard, |catalog| catalog.create_table(test_table(), settings)).await?;
    let table = node::catalog(shard)?.schema("ks", "t").expect("it was made").clone();
    let mut keys: Vec<PartitionKey> =
        (0..KEYS).map(|key| PartitionKey::new(format!("k{key}").as_str())).collect();
    keys.sort();
    for flush in 0..FLUSHES {
        let width = KEYS / FLUSHES;
        for (at, key) in keys.iter().enumerate().skip(flush * width).take(width + 1) {
            let name = std::str::from_utf8(key.bytes()).expect("it is text");
            for row in 0..rows_a_key(seed) {
                let c = (row * FLUSHES + flush) as i32;
                let write = insert(&table, name, c, &"v".repeat(200), 100);
                node::apply(shard, write, node::Deadline::NONE).await?;
            }
            if (at as u64 + seed).is_multiple_of(2) {
                let mut gone = Mutation::new(table.clone(), key.clone());
                gone.partition.tombstone = Tombstone::new(50, 1_700_000_000);
                node::apply(shard, gone, node::Deadline::NONE).await?;
            }
        }
        node::flush(shard, vec![table.id]).await?;
    }
    Ok(table)
}

async fn merge(shard: &Shard, table: &TableSchema) -> Result<(), EngineError> {
    let manager = EngineShard::of(shard)?.compactions().clone();
    let plan = |_: &mut dyn compaction::Strategy, view: &compaction::TableView<'_>, _: &[_]| {
        vec![Plan {
            inputs: view.free().map(|sstable| sstable.id).collect(),
            expired: vec![],
            layout: Layout::run(OUTPUT_BYTES),
            reason: Reason::Asked("test"),
            release_early: true,
        }]
    };
    manager.run_request(table.id, "Test", plan).await
}

/// A restarted node with the table: its tombstones are not in the commit log any more, so they are purged.
fn filled(seed: u64) -> (SimWorld, SimNode, Arc<TableSchema>) {
    let world = SimWorld::new(SimOptions { seed, run_us_max: 2_000_000_000, ..SimOptions::default() });
    let node = start(&world);
    let table = world.block_on(&node, 0, |shard| async move { fill(&shard, seed).await }).unwrap().unwrap();
    world.block_on(&node, 0, |shard| async move { node::close(&shard).await }).unwrap().unwrap();
    drop(node);
    world.kill();
    let node = start(&world);
    (world, node, table)
}

#[test]
fn no_row_is_missing_while_inputs_are_released() {
    let mut reads_seen = 0;
    for seed in 0..8 {
        let (world, node, table) = filled(seed);
        let counted = world.block_on(&node, 0, move |shard| async move {
            let is_over = Rc::new(Cell::new(false));
            let job = {
                let (shard_of_job, table, is_over) = (shard.clone(), table.clone(), is_over.clone());
                shard.spawn(CpuGroup::Compaction, async move {
                    let merged = merge(&shard_of_job, &table).await;
                    is_over.set(true);
                    merged
                })
            };
            let mut counted = vec![];
            while !is_over.get() {
                counted.push(count(&shard, &table).await?);
            }
            job.await?;
            counted.push(count(&shard, &table).await?);
            Ok::<_, EngineError>(counted)
        });
        let counted = counted.unwrap().unwrap();
        reads_seen += counted.len();
        let expected = rows(seed);
        assert!(counted.iter().all(|rows| *rows == expected), "seed {seed}: {counted:?} of {expected}");
    }
    assert!(reads_seen > 20, "the jobs are over before they are read beside: {reads_seen}");
}

#[test]
fn no_row_is_lost_by_a_crash_while_inputs_are_released() {
    let mut crashes = 0;
    for seed in 0..4 {
        for operations in (10..).step_by(23) {
            let (world, node, table) = filled(seed);
            let of_job = table.clone();
            world.crash_after(operations);
            let merged = world.block_on(&node, 0, |shard| async move { merge(&shard, &of_job).await });
            match merged {
                Ok(merged) => {
                    merged.unwrap();
                    break;
                }
                Err(SimStop::Crashed) => crashes += 1,
                Err(stop) => panic!("{stop:?}"),
            }
            drop(node);
            world.power_loss();
            let node = start(&world);
            let counted = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
            assert_eq!(counted.unwrap().unwrap(), rows(seed), "seed {seed}, crash at {operations}");
        }
    }
    assert!(crashes > 20, "{crashes}");
}
