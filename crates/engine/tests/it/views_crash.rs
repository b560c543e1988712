//! Materialized views after crashes, in simulation: wherever the node loses its power, base table and views
//! agree after the next start, and every acknowledged write is there.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::rng::Rng;
use catalog::{Catalog, Keyspace};
use engine::commitlog::SyncMode;
use engine::node::{self, Deadline, NodeShard};
use engine::shard::EngineShard;
use engine::{EngineOptions, ReadCommand, recover};
use model::{ClusteringRange, Mutation, PartitionRange, TableSchema, sample};
use runtime::sim::{SimNode, SimOptions, SimWorld};
use runtime::{CpuGroup, Shard};

use crate::views::{Found, Model, NOW_S, VARIETY, WIDE, view_schemas, visible};

/// Writers at a time.
const WRITERS: u64 = 4;

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 4 << 20,
        commitlog_sync: SyncMode::Batch,
        ..EngineOptions::new("/data")
    }
}

fn start(world: &SimWorld) -> SimNode {
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
    opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
    node
}

fn base_schema() -> Arc<TableSchema> {
    sample::tables()[WIDE].clone()
}

fn table(shard: &Shard, name: &str) -> Option<Arc<TableSchema>> {
    node::catalog(shard).ok()?.schema("sample", name).cloned()
}

/// Works until the power fails: writes, and sometimes flushes, truncates, or drops or creates a view.
async fn work(shard: Shard, seed: u64, acknowledged: Arc<AtomicU64>) {
    let rng = Rc::new(RefCell::new(Rng::new(seed)));
    let Some(base) = table(&shard, &base_schema().name) else { return };
    loop {
        let (kind, mutations) = {
            let mut rng = rng.borrow_mut();
            let count = 1 + rng.below(3);
            let mutation =
                |rng: &mut Rng| Mutation { schema: base.clone(), ..sample::mutation(rng, &base, &VARIETY) };
            (rng.below(40), (0..count).map(|_| mutation(&mut rng)).collect::<Vec<_>>())
        };
        let done = match kind {
            0 => node::flush(&shard, vec![]).await,
            1 => node::truncate(&shard, base.id).await,
            2 => {
                let change = move |catalog: &Catalog| match catalog.table("sample", "low") {
                    Some(_) => catalog.drop_table("sample", "low"),
                    None => catalog.create_table(view_schemas(&base_schema()).remove(2), Default::default()),
                };
                node::change_schema(&shard, change).await.map(drop)
            }
            3..20 => node::apply_unlogged(&shard, mutations, Deadline::NONE).await,
            _ => node::apply_batch(&shard, mutations, Deadline::NONE).await,
        };
        if done.is_err() {
            return;
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

async fn rows(shard: &Shard, table: &TableSchema) -> Found {
    let mut command = ReadCommand { now_s: Some(NOW_S), ..ReadCommand::new(table.id, PartitionRange::all()) };
    let mut found = vec![];
    loop {
        let page = node::read(shard, command.clone(), Deadline::NONE).await.unwrap();
        for partition in page.partitions {
            let key = partition.key;
            found.extend(partition.rows.into_iter().map(|row| (key.clone(), row.key, visible(row.row))));
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return found,
        }
    }
}

/// The base table's content with tombstones.
async fn stored(shard: &Shard, base: &Arc<TableSchema>) -> Model {
    let mut model = Model::default();
    let sharder = NodeShard::of(shard).unwrap().sharder;
    for number in 0..VARIETY.partitions {
        let key = sample::partition_key(number);
        let (id, wanted) = (base.id, key.clone());
        let read = shard.call(sharder.shard_of(key.token()), CpuGroup::Statement, move |shard| async move {
            let engine = EngineShard::of(&shard).unwrap();
            engine.stored(id, &wanted, vec![ClusteringRange::all()]).await.unwrap()
        });
        let mut mutation = Mutation::new(base.clone(), key);
        mutation.partition = read.await.unwrap();
        model.base.apply(&mutation);
    }
    model
}

/// Compares the views with the base table. Returns the number of their rows.
async fn compare(shard: Shard, seed: u64) -> usize {
    while !node::view_builds(&shard).await.unwrap().is_empty() {
        shard.sleep_us(100_000).await;
    }
    let base = table(&shard, &base_schema().name).unwrap();
    let model = stored(&shard, &base).await;
    let mut count = 0;
    for view in ["by_i", "by_c", "low"] {
        let Some(view) = table(&shard, view) else { continue };
        let expected = model.expected(&base, &view, NOW_S);
        assert_eq!(rows(&shard, &view).await, expected, "seed {seed}: {}", view.name);
        count += expected.len();
    }
    count
}

#[test]
fn base_table_and_views_agree_after_a_loss_of_power_at_any_point() {
    let (mut all, mut writes) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let shards = 1 + seed as u32 % 3;
        let world = SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() });
        let mut node = start(&world);
        let setup = world.block_on(&node, 0, |shard| async move {
            let keyspace = |catalog: &Catalog| catalog.create_keyspace(Keyspace::simple("sample")?);
            node::change_schema(&shard, keyspace).await.unwrap();
            let base = |catalog: &Catalog| catalog.create_table(base_schema(), Default::default());
            node::change_schema(&shard, base).await.unwrap();
            for view in view_schemas(&base_schema()) {
                let create = move |catalog: &Catalog| catalog.create_table(view, Default::default());
                node::change_schema(&shard, create).await.unwrap();
            }
        });
        setup.unwrap();
        for run in 0..3 {
            let acknowledged = Arc::new(AtomicU64::new(0));
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
            writes += acknowledged.load(Ordering::Relaxed);
            world.power_loss();
            node = start(&world);
            let compared = world.block_on(&node, 0, move |shard| compare(shard, seed));
            all += compared.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        }
    }
    assert!(all > 1000 && writes > 1000, "{all} rows, {writes} writes");
}
