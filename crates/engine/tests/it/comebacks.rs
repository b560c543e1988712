//! What was deleted, truncated or dropped does not come back, and what was written stays, in simulation: where two
//! things at the same time, an error at the wrong moment or a clock that was set back would have it otherwise.

use std::sync::Arc;

use engine::compaction::node as compactions;
use engine::{EngineError, EngineOptions, node, recover};
use model::TableSchema;
use runtime::Shard;
use runtime::sim::{SimNode, SimOptions, SimWorld};

use crate::support::{insert, test_table};

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 4 << 20,
        ..EngineOptions::new("/data")
    }
}

fn start(world: &SimWorld, options: EngineOptions) -> SimNode {
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options).await });
    opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
    node
}

async fn make(shard: &Shard, schema: Arc<TableSchema>) -> Result<Arc<TableSchema>, EngineError> {
    if node::catalog(shard)?.keyspace("ks").is_none() {
        node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
            .await?;
    }
    node::change_schema(shard, |catalog| catalog.create_table(schema, Default::default())).await?;
    Ok(node::catalog(shard)?.schema("ks", "t").expect("it was made").clone())
}

async fn fill(shard: &Shard, table: &Arc<TableSchema>, rows: i32) -> Result<(), EngineError> {
    for c in 0..rows {
        node::apply(shard, insert(table, &format!("k{}", c % 10), c, "value", 100)).await?;
    }
    Ok(())
}

#[test]
fn a_drop_ends_while_an_sstable_is_dealt_out_to_a_shard_that_compacts() {
    for seed in 0..150 {
        let mut world = SimWorld::new(SimOptions { seed, run_us_max: 60_000_000, ..SimOptions::default() });
        let mut manual = options();
        manual.compaction.is_automatic = false;
        let node = start(&world, manual);
        let table = world.block_on(&node, 0, |shard| async move {
            let table = make(&shard, test_table()).await?;
            for _ in 0..2 {
                fill(&shard, &table, 60).await?;
                node::flush(&shard, vec![]).await?;
            }
            node::close(&shard).await?;
            Ok::<_, EngineError>(table)
        });
        let table = table.unwrap().unwrap();
        drop(node);
        world.kill();
        world.set_shards(2);
        let mut manual = options();
        manual.compaction.is_automatic = false;
        let node = start(&world, manual);
        let ended = world.block_on(&node, 0, move |shard| async move {
            // Each shard has SSTables of its own to merge, beside those of both.
            for _ in 0..2 {
                fill(&shard, &table, 60).await?;
                node::flush(&shard, vec![]).await?;
            }
            let (id, here) = (table.id, shard.clone());
            let majors = shard.spawn(runtime::CpuGroup::Statement, async move {
                loop {
                    if compactions::major(&here, id, false).await.is_err() {
                        break;
                    }
                }
            });
            compactions::start(&shard).await?;
            shard.sleep_us(seed * 150).await;
            node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
            majors.await;
            Ok::<_, EngineError>(())
        });
        ended.unwrap_or_else(|stop| panic!("seed {seed}: {stop}")).unwrap_or_else(|error| panic!("{error}"));
    }
}
