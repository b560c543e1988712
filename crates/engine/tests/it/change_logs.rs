//! Change logs after crashes, in simulation: wherever the node loses its power, base table and log have the
//! same writes after the next start, and every acknowledged write is in both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use base::rng::Rng;
use catalog::{Catalog, Keyspace, TableSettings};
use engine::commitlog::SyncMode;
use engine::node::{self, Deadline};
use engine::{EngineOptions, ReadCommand, recover};
use model::change_log::STREAM_COUNT;
use model::{Cell, ClusteringKey, ColumnData, CqlType, Mutation, PartitionKey, PartitionRange, TableSchema};
use runtime::sim::{SimNode, SimOptions, SimWorld};
use runtime::{CpuGroup, Shard};

const WRITERS: u64 = 4;

fn start(world: &SimWorld) -> SimNode {
    let node = world.start_node(|_| async {}).unwrap();
    let options = EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 4 << 20,
        commitlog_sync: SyncMode::Batch,
        ..EngineOptions::new("/data")
    };
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options).await });
    opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
    node
}

fn base_schema() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t").partition_key("pk", CqlType::Text);
    builder.id(uuid::Uuid::from_u128(7)).regular("v", CqlType::Int).build().unwrap()
}

fn settings(cdc: &str) -> TableSettings {
    let others = BTreeMap::from([("cdc".to_string(), cdc.to_string())]);
    TableSettings { cdc: cdc.contains("'enabled': 'true'"), others, ..TableSettings::default() }
}

const ENABLED: &str = "{'enabled': 'true', 'preimage': 'full', 'ttl': '0'}";

async fn setup(shard: Shard) {
    let keyspace = |catalog: &Catalog| catalog.create_keyspace(Keyspace::simple("ks")?);
    node::change_schema(&shard, keyspace).await.unwrap();
    let base = |catalog: &Catalog| catalog.create_table(base_schema(), settings(ENABLED));
    node::change_schema(&shard, base).await.unwrap();
}

fn schema(shard: &Shard, keyspace: &str, name: &str) -> Arc<TableSchema> {
    node::catalog(shard).unwrap().schema(keyspace, name).unwrap().clone()
}

/// Writes partitions that no other writer writes until the power fails, and flushes sometimes.
async fn work(shard: Shard, seed: u64, acknowledged: Arc<Mutex<BTreeSet<String>>>) {
    let mut rng = Rng::new(seed);
    let base = schema(&shard, "ks", "t");
    for number in 0.. {
        let key = format!("{seed}-{number}");
        let mut mutation = Mutation::new(base.clone(), PartitionKey::new(key.clone().into_bytes()));
        let cell = Cell::live(1_700_000_000_000_000 + number, 1i32.to_be_bytes());
        mutation.row_mut(ClusteringKey::EMPTY).set(base.column_named("v").unwrap(), cell);
        let kind = rng.below(20);
        let is_flush = kind == 0;
        let done = match kind {
            0 => node::flush(&shard, vec![]).await,
            1..10 => node::apply_batch(&shard, vec![mutation], Deadline::NONE).await,
            _ => node::apply(&shard, mutation, Deadline::NONE).await,
        };
        if done.is_err() {
            return;
        }
        if !is_flush {
            acknowledged.lock().unwrap().insert(key);
        }
    }
}

/// All rows of a table: the partition key, and the value of a column if it has one.
async fn read(shard: &Shard, table: &TableSchema, column: &str) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    let column = table.column_named(column).unwrap().id;
    let mut found = vec![];
    loop {
        let page = node::read(shard, command.clone(), Deadline::NONE).await.unwrap();
        for partition in page.partitions {
            for row in &partition.rows {
                let value = match row.row.cell(column) {
                    Some(ColumnData::Simple(cell)) => Some(cell.value.to_vec()),
                    _ => None,
                };
                found.push((partition.key.bytes().to_vec(), value));
            }
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return found,
        }
    }
}

/// The keys in the base table and those in the log.
async fn keys(shard: Shard) -> [Vec<String>; 2] {
    let (base, log) = (schema(&shard, "ks", "t"), schema(&shard, "ks", "t_scylla_cdc_log"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let mut of_base: Vec<String> =
        read(&shard, &base, "v").await.into_iter().map(|(key, _)| text(key)).collect();
    let mut of_log: Vec<String> =
        read(&shard, &log, "pk").await.into_iter().filter_map(|(_, pk)| pk.map(text)).collect();
    of_base.sort();
    of_log.sort();
    [of_base, of_log]
}

#[test]
fn base_table_and_log_agree_after_a_loss_of_power_at_any_point() {
    let mut all = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let shards = 1 + (seed % 3) as u32;
        let world = SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() });
        let mut node = start(&world);
        world.block_on(&node, 0, setup).unwrap();
        let acknowledged: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        for run in 0..3 {
            world.crash_after(20 + rng.below(400));
            for writer in 0..WRITERS {
                let acknowledged = acknowledged.clone();
                let seed = seed * 1000 + run * 100 + writer;
                let target = (writer % u64::from(shards)) as u32;
                drop(node.remote().call(target, CpuGroup::Statement, move |shard| async move {
                    shard.spawn(CpuGroup::Statement, work(shard.clone(), seed, acknowledged)).await;
                }));
            }
            // The world stops at the crash.
            let _crashed = world.run_for_us(60_000_000);
            world.power_loss();
            node = start(&world);
            let [base, log] =
                world.block_on(&node, 0, keys).unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
            assert_eq!(base, log, "seed {seed}, run {run}: base table, log");
            let known: BTreeSet<&String> = base.iter().collect();
            assert_eq!(known.len(), base.len(), "no entry twice");
            let lost = acknowledged.lock().unwrap().iter().find(|key| !known.contains(key)).cloned();
            assert_eq!(lost, None, "seed {seed}, run {run}: acknowledged and lost");
            all += base.len();
        }
    }
    assert!(all > 1000, "{all} rows");
}

#[test]
fn streams_are_stored_once() {
    let world = SimWorld::new(SimOptions { seed: 1, shards: 2, ..SimOptions::default() });
    let node = start(&world);
    world.block_on(&node, 0, setup).unwrap();
    let counts = |shard: Shard| async move {
        let times = schema(&shard, "system_distributed", "cdc_generation_timestamps");
        let streams = schema(&shard, "system_distributed", "cdc_streams_descriptions_v2");
        [read(&shard, &times, "expired").await.len(), read(&shard, &streams, "streams").await.len()]
    };
    assert_eq!(world.block_on(&node, 0, counts).unwrap(), [1, STREAM_COUNT as usize]);
    for cdc in ["{'enabled': 'false'}", ENABLED] {
        let change = move |catalog: &Catalog| catalog.alter_table(base_schema(), settings(cdc));
        world
            .block_on(
                &node,
                0,
                move |shard| async move { node::change_schema(&shard, change).await.map(drop) },
            )
            .unwrap()
            .unwrap();
    }
    assert_eq!(world.block_on(&node, 0, counts).unwrap(), [1, STREAM_COUNT as usize]);
}
