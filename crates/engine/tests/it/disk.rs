//! A disk that fills up, fails and comes back, in simulation.

use engine::commitlog::{LogError, SyncMode};
use engine::{EngineError, EngineOptions, ReadCommand, node, recover};
use model::{PartitionRange, TableSchema};
use runtime::Shard;
use runtime::sim::{SimOptions, SimWorld};
use std::sync::Arc;

use crate::support::{insert, test_table};

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 1 << 20,
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 512 << 10,
        commitlog_sync: SyncMode::Batch,
        ..EngineOptions::new("/data")
    }
}

async fn open(shard: &Shard) -> Arc<TableSchema> {
    recover::open(shard, options()).await.unwrap_or_else(|error| panic!("{error}"));
    if let Some(table) = node::catalog(shard).unwrap().schema("ks", "t") {
        return table.clone();
    }
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
        .await
        .unwrap();
    node::change_schema(shard, |catalog| catalog.create_table(test_table(), Default::default()))
        .await
        .unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

async fn count(shard: &Shard, table: &TableSchema) -> usize {
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    let mut rows = 0;
    loop {
        let page = node::read(shard, command.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        rows += page.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return rows,
        }
    }
}

/// Writes until refused; how many were acknowledged, and the refusal.
async fn write_until_refused(shard: &Shard, table: &Arc<TableSchema>, from: i32) -> (i32, EngineError) {
    let value = "v".repeat(2000);
    for c in from.. {
        let key = format!("k{}", c % 50);
        if let Err(error) = node::apply(shard, insert(table, &key, c, &value, 1)).await {
            return (c - from, error);
        }
    }
    unreachable!("the disk is finite")
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_loses_nothing() {
    for seed in 0..10 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node_1 = world.start_node(|_| async {}).unwrap();
        let table = world.block_on(&node_1, 0, |shard| async move { open(&shard).await }).unwrap();
        let room = world.disk().used_bytes() + 700_000 + seed * 13_000;
        world.set_faults(|faults| faults.capacity_bytes = Some(room));
        let t = table.clone();
        let written = world.block_on(&node_1, 0, |shard| async move {
            let (written, error) = write_until_refused(&shard, &t, 0).await;
            let full = matches!(error, EngineError::NoSpace(_) | EngineError::Log(LogError::NoSpace(_)));
            assert!(full && error.to_string().contains("space is freed"), "{error}");
            assert!(written > 20, "{written} writes fit");
            assert_eq!(count(&shard, &t).await, written as usize, "reads go on");
            written
        });
        let written = written.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        // Space is freed: writing resumes by itself.
        world.set_faults(|faults| faults.capacity_bytes = Some(room + 40_000_000));
        let t = table.clone();
        let resumed = world.block_on(&node_1, 0, |shard| async move {
            for attempt in 0.. {
                let key = format!("late{attempt}");
                match node::apply(&shard, insert(&t, &key, 1, "x", 1)).await {
                    Ok(()) => break,
                    Err(error) => assert!(attempt < 60, "still refused after a minute: {error}"),
                }
                shard.sleep_us(1_000_000).await;
            }
            assert_eq!(count(&shard, &t).await, written as usize + 1);
        });
        resumed.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        // And all of it survives the end of the process.
        world.power_loss();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let survived = world.block_on(&node_2, 0, |shard| async move {
            let table = open(&shard).await;
            count(&shard, &table).await
        });
        assert_eq!(survived.unwrap(), written as usize + 1, "seed {seed}");
    }
}

#[test]
fn a_log_that_cannot_be_written_acknowledges_nothing_and_reads_go_on() {
    for seed in 0..10 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node_1 = world.start_node(|_| async {}).unwrap();
        let table = world.block_on(&node_1, 0, |shard| async move { open(&shard).await }).unwrap();
        let t = table.clone();
        world
            .block_on(&node_1, 0, |shard| async move {
                node::apply(&shard, insert(&t, "a", 1, "kept", 1)).await.unwrap();
            })
            .unwrap();
        world.set_faults(|faults| {
            let is_log = |path: &std::path::Path| {
                path.starts_with("/data/commitlog") && !path.starts_with("/data/commitlog/schema")
            };
            faults.write_error_paths = Some(std::rc::Rc::new(is_log));
        });
        let t = table.clone();
        world
            .block_on(&node_1, 0, |shard| async move {
                for c in 2..5 {
                    let error = node::apply(&shard, insert(&t, "a", c, "lost", 1)).await.unwrap_err();
                    assert!(matches!(error, EngineError::Log(LogError::Failed(_))), "{error}");
                    assert!(error.to_string().contains("restarted"), "{error}");
                }
                assert!(count(&shard, &t).await >= 1, "reads go on");
            })
            .unwrap();
        world.set_faults(|faults| faults.write_error_paths = None);
        world.kill();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let rows = world.block_on(&node_2, 0, |shard| async move {
            let table = open(&shard).await;
            node::apply(&shard, insert(&table, "a", 9, "new", 1)).await.unwrap();
            count(&shard, &table).await
        });
        assert!(rows.unwrap() >= 2, "seed {seed}");
    }
}

/// The log may take more than the disk has, and nothing but the log makes memtables be flushed.
fn large_log() -> EngineOptions {
    EngineOptions { memory_bytes: 256 << 20, commitlog_total_bytes: 1 << 30, ..options() }
}

/// Overwrites the same rows, many times what the disk holds: the log is flushed for its room, and never fills the disk.
#[test]
fn a_log_that_may_take_more_than_the_disk_has_is_flushed_and_goes_on() {
    for seed in 0..4 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node_1 = world.start_node(|_| async {}).unwrap();
        let open_large = |shard: Shard| async move {
            recover::open(&shard, large_log()).await.unwrap_or_else(|error| panic!("{error}"));
        };
        world.block_on(&node_1, 0, open_large).unwrap();
        let room = world.disk().used_bytes() + 3_000_000 + seed * 100_000;
        let written = world.block_on(&node_1, 0, |shard| async move {
            node::change_schema(&shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
                .await
                .unwrap();
            node::change_schema(&shard, |catalog| catalog.create_table(test_table(), Default::default()))
                .await
                .unwrap();
            node::catalog(&shard).unwrap().schema("ks", "t").unwrap().clone()
        });
        let table = written.unwrap();
        world.set_faults(|faults| faults.capacity_bytes = Some(room));
        let t = table.clone();
        let written = world.block_on(&node_1, 0, |shard| async move {
            let value = "v".repeat(2000);
            for c in 0..6000 {
                let row = insert(&t, &format!("k{}", c % 50), c % 100, &value, i64::from(c) + 1);
                node::apply(&shard, row).await.unwrap_or_else(|error| panic!("write {c}: {error}"));
            }
            count(&shard, &t).await
        });
        assert_eq!(written.unwrap_or_else(|stop| panic!("seed {seed}: {stop}")), 100);
        // And the node starts on what is left of the disk.
        world.kill();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let rows = world.block_on(&node_2, 0, |shard| async move {
            recover::open(&shard, large_log()).await.unwrap_or_else(|error| panic!("{error}"));
            count(&shard, &table).await
        });
        assert_eq!(rows.unwrap(), 100, "seed {seed}");
    }
}
