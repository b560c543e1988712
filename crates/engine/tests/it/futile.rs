//! Tombstone compactions that free nothing: one is run, and the next only after one of the blockers has
//! changed.

use std::sync::Arc;

use catalog::TableSettings;
use engine::commitlog::SyncMode;
use engine::shard::EngineShard;
use engine::{EngineOptions, node, recover};
use model::{Mutation, PartitionKey, TableSchema, Tombstone};
use runtime::Shard;
use runtime::sim::{SimOptions, SimWorld};

use crate::support::{clustering, insert, test_table};

fn options() -> EngineOptions {
    EngineOptions {
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 4 << 20,
        commitlog_sync: SyncMode::Batch,
        ..EngineOptions::new("/data")
    }
}

async fn create(shard: &Shard) -> Arc<TableSchema> {
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
        .await
        .unwrap();
    node::change_schema(shard, |catalog| {
        let compaction = [("class", "SizeTieredCompactionStrategy"), ("tombstone_compaction_interval", "1")];
        let compaction = compaction.map(|(name, value)| (name.to_string(), value.to_string())).into();
        catalog.create_table(test_table(), TableSettings { compaction, ..TableSettings::default() })
    })
    .await
    .unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

async fn apply(shard: &Shard, mutation: Mutation) {
    node::apply(shard, mutation, node::Deadline::NONE).await.unwrap();
}

/// Number of ended compactions, and of SSTables with tombstones.
fn state(shard: &Shard, table: &TableSchema) -> (u64, usize) {
    let engine = EngineShard::of(shard).unwrap();
    let sstables = engine.table(table.id).unwrap().sstables();
    let with_tombstones = sstables.iter().filter(|sstable| sstable.may_have_tombstones()).count();
    (engine.compactions().stats().0.completed, with_tombstones)
}

/// The commit log still has the rows that tombstones delete, so a tombstone compaction writes what it has
/// read. It is not repeated for ten minutes; when the log has released the rows, it runs again and purges the
/// tombstones.
#[test]
fn a_job_that_freed_nothing_waits_for_what_kept_the_tombstones() {
    let world = SimWorld::new(SimOptions { shards: 1, ..SimOptions::default() });
    let node_1 = world.start_node(|_| async {}).unwrap();
    let done = world.block_on(&node_1, 0, |shard| async move {
        recover::open(&shard, options()).await.unwrap_or_else(|error| panic!("{error}"));
        let table = create(&shard).await;
        for c in 0..50 {
            apply(&shard, insert(&table, "a", c, "v", 10)).await;
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
        for c in 0..40 {
            let mut gone = Mutation::new(table.clone(), PartitionKey::new("a"));
            gone.row_mut(clustering(c)).deletion = Tombstone::new(11, 1_000_000_000);
            apply(&shard, gone).await;
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
        // One SSTable of 40 tombstones and 10 rows.
        node::compaction::major(&shard, table.id, false).await.unwrap();
        let (before, with_tombstones) = state(&shard, &table);
        assert_eq!(with_tombstones, 1, "the log keeps the tombstones");
        shard.sleep_us(600_000_000).await;
        let (after, with_tombstones) = state(&shard, &table);
        assert_eq!((after - before, with_tombstones), (1, 1), "jobs in ten minutes");
        // Newer rows fill the segment, and their flush releases it.
        for c in 0..300 {
            apply(&shard, insert(&table, "z", c, &"v".repeat(2000), 1000)).await;
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
        shard.sleep_us(600_000_000).await;
        let (last, with_tombstones) = state(&shard, &table);
        assert!(last > after, "no further job");
        with_tombstones
    });
    assert_eq!(done.unwrap_or_else(|stop| panic!("{stop}")), 0, "the tombstones went");
}
