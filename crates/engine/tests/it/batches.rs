//! Batches over several shards and tables, in simulation: after a crash all of a batch is there, or none.

use std::sync::Arc;

use base::rng::Rng;
use catalog::TableSettings;
use engine::commitlog::SyncMode;
use engine::node::compaction as compactions;
use engine::shard::EngineShard;
use engine::sharder::Sharder;
use engine::{EngineError, EngineOptions, OpenReport, ReadCommand, node, recover};
use model::{CqlType, Mutation, PartitionKey, PartitionRange, TableOptions, TableSchema, Tombstone};
use runtime::Shard;
use runtime::sim::{SimNode, SimOptions, SimStop, SimWorld};

use crate::support::{clustering, insert};

pub fn options(sync: SyncMode) -> EngineOptions {
    let mut options = EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 16 << 10,
        commitlog_total_bytes: 1 << 20,
        commitlog_sync: sync,
        ..EngineOptions::new("/data")
    };
    options.compaction.is_automatic = false;
    options
}

/// Nothing is synced by itself within a test.
const RARELY: SyncMode = SyncMode::Periodic { period_us: 3_600_000_000 };

pub fn start(world: &SimWorld, sync: SyncMode) -> (SimNode, OpenReport) {
    let node = world.start_node(|_| async {}).unwrap();
    let opened =
        world.block_on(&node, 0, move |shard| async move { recover::open(&shard, options(sync)).await });
    (node, opened.unwrap().unwrap_or_else(|error| panic!("{error}")))
}

/// A node with the tables `t` and `u`; only `u` is kept in a snapshot before it is truncated.
pub fn world(seed: u64, shards: u32, sync: SyncMode) -> (SimWorld, SimNode, Vec<Arc<TableSchema>>) {
    let world = SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() });
    let (node, _) = start(&world, sync);
    let tables = on(&world, &node, |shard| async move {
        node::change_schema(&shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
            .await
            .unwrap();
        let mut tables = vec![];
        for name in ["t", "u"] {
            let schema = TableSchema::builder("ks", name)
                .partition_key("p", CqlType::Text)
                .clustering("c", CqlType::Int)
                .regular("v", CqlType::Text)
                .options(TableOptions { gc_grace_s: 0, ..TableOptions::default() })
                .build()
                .unwrap();
            let others = [("allow_auto_snapshot".to_string(), (name == "u").to_string())].into();
            let settings = TableSettings { others, ..TableSettings::default() };
            node::change_schema(&shard, |catalog| catalog.create_table(schema, settings)).await.unwrap();
            tables.push(node::catalog(&shard).unwrap().schema("ks", name).unwrap().clone());
        }
        tables
    });
    (world, node, tables)
}

pub fn on<T: Send + 'static, F, Fut>(world: &SimWorld, node: &SimNode, f: F) -> T
where
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    world.block_on(node, 0, f).unwrap_or_else(|stop| panic!("{stop}"))
}

/// Keys on every shard of nodes with up to four shards.
pub const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Batch `c`: one row in each partition of each table.
pub fn batch(tables: &[Arc<TableSchema>], c: i32) -> Vec<Mutation> {
    let rows = tables.iter().flat_map(|table| KEYS.map(|key| insert(table, key, c, "value", i64::from(c))));
    rows.collect()
}

pub fn apply(world: &SimWorld, node: &SimNode, tables: &[Arc<TableSchema>], c: i32) {
    let batch = batch(tables, c);
    on(world, node, |shard| async move {
        node::apply_batch(&shard, batch, node::Deadline::NONE).await.unwrap();
    });
}

/// A conditional write on the partition of the first mutation, which decides to write all of them.
async fn decide(shard: &Shard, mutations: Vec<Mutation>) {
    let partition = PartitionRange::Key(mutations[0].key.clone());
    let command = ReadCommand::new(mutations[0].schema.id, partition);
    let decide = move |_: &Shard, _: &engine::Page| Ok::<_, EngineError>(Some(mutations));
    node::read_modify_write(shard, command, node::Deadline::NONE, decide).await.unwrap();
}

/// The number of rows of batch `c` in a table.
pub fn rows_of(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>, c: i32) -> usize {
    let id = table.id;
    on(world, node, move |shard| async move {
        let mut command = ReadCommand::new(id, PartitionRange::all());
        let mut rows = 0;
        loop {
            let page = node::read(&shard, command.clone(), node::Deadline::NONE).await.unwrap();
            let of_batch = page.partitions.iter().flat_map(|partition| &partition.rows);
            rows += of_batch.filter(|row| row.key == clustering(c)).count();
            match page.next {
                Some(next) => command.paging = Some(next),
                None => return rows,
            }
        }
    })
}

pub fn flush(world: &SimWorld, node: &SimNode, tables: &[Arc<TableSchema>]) {
    let ids = tables.iter().map(|table| table.id).collect();
    on(world, node, |shard| async move { node::flush(&shard, ids).await.unwrap() });
}

#[test]
fn a_batch_is_whole_after_a_crash_at_any_operation() {
    let (mut before, mut during, mut whole) = (0, 0, 0);
    for seed in 0..240 {
        let mut rng = Rng::new(seed);
        let sync = match rng.below(3) {
            0 => SyncMode::Batch,
            1 => SyncMode::Group { window_us: 500 },
            _ => SyncMode::Periodic { period_us: 100 + rng.below(3000) },
        };
        let (mut world, node, tables) = world(1000 + seed, 1 + seed as u32 % 4, sync);
        apply(&world, &node, &tables, 0);
        on(&world, &node, |shard| async move { node::sync(&shard).await.unwrap() });
        // Batches and flushes of single tables, until the node dies at some operation on its disk.
        world.crash_after(rng.below(90));
        let (sent, flushed) = (tables.clone(), tables[rng.below(2) as usize].id);
        let is_flushing = rng.chance(2, 3);
        let acknowledged = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
        let counted = acknowledged.clone();
        let died = world.block_on(
            &node,
            rng.below(2) as u32 % node.remote().shard_count(),
            move |shard| async move {
                for c in 1..12 {
                    if c % 4 == 0 {
                        decide(&shard, batch(&sent, c)).await;
                    } else {
                        node::apply_batch(&shard, batch(&sent, c), node::Deadline::NONE).await.unwrap();
                    }
                    counted.store(c, std::sync::atomic::Ordering::Relaxed);
                    if is_flushing {
                        let ids = vec![flushed];
                        node::flush(&shard, ids).await.unwrap();
                    }
                }
            },
        );
        assert!(died.is_ok() || matches!(died, Err(SimStop::Crashed)), "seed {seed}: {died:?}");
        let mut is_power = rng.chance(1, 2);
        if is_power {
            world.power_loss()
        } else {
            world.kill()
        }
        world.set_faults(|faults| faults.crash_after_ops = None);
        // A start that dies too must not tear a batch either.
        if rng.chance(1, 2) {
            world.set_shards(1 + rng.below(4) as u32);
            world.crash_after(10 + rng.below(150));
            let begun = world.start_node(|_| async {}).unwrap();
            let opened = world
                .block_on(&begun, 0, move |shard| async move { recover::open(&shard, options(sync)).await });
            if let Ok(Err(error)) = opened {
                panic!("seed {seed}: {error}");
            }
            let is_power_now = rng.chance(1, 2);
            if is_power_now {
                world.power_loss()
            } else {
                world.kill()
            }
            is_power |= is_power_now;
            world.set_faults(|faults| faults.crash_after_ops = None);
        }
        let (node, _) = start(&world, sync);
        let acknowledged = acknowledged.load(std::sync::atomic::Ordering::Relaxed);
        let is_kept = !is_power || !matches!(sync, SyncMode::Periodic { .. });
        for c in 0..12 {
            let rows: Vec<usize> = tables.iter().map(|table| rows_of(&world, &node, table, c)).collect();
            assert!(rows == [0, 0] || rows == [8, 8], "seed {seed}, {sync:?}: batch {c} has {rows:?} rows");
            assert!(
                c > acknowledged || (c > 0 && !is_kept) || rows[0] == 8,
                "seed {seed}: batch {c} is lost"
            );
            match (c > acknowledged, rows[0]) {
                (true, 0) => before += 1,
                (true, _) => during += 1,
                (false, _) => whole += 1,
            }
        }
    }
    assert!(before > 50 && during > 5 && whole > 300, "{before} {during} {whole}");
}

/// The other table's part is only in the log of the coordinator, which was not synced before the flush.
#[test]
fn the_flush_of_a_part_keeps_the_whole() {
    for shards in 1..4 {
        let (world, node, tables) = world(u64::from(shards), shards, RARELY);
        apply(&world, &node, &tables, 1);
        flush(&world, &node, &tables[..1]);
        apply(&world, &node, &tables, 2);
        world.power_loss();
        let (node, _) = start(&world, RARELY);
        let rows = |c| [&tables[0], &tables[1]].map(|table| rows_of(&world, &node, table, c));
        assert_eq!(rows(1), [8, 8], "{shards} shards");
        // Nothing has synced this one.
        assert!(rows(2) == [0, 0] || rows(2) == [8, 8], "{shards} shards: {:?}", rows(2));
    }
}

#[test]
fn a_truncate_after_the_batch_stays_one() {
    for seed in 0..60 {
        let (mut world, node, tables) = world(seed, 2 + seed as u32 % 2, SyncMode::Batch);
        let mut rng = Rng::new(seed);
        let (truncated, other) = (&tables[seed as usize / 2 % 2], &tables[1 - seed as usize / 2 % 2]);
        let id = truncated.id;
        // Batches and a truncate at the same time: each batch is before the truncate, or after it.
        let sent = tables.clone();
        let pause_us = rng.below(3000);
        on(&world, &node, move |shard| async move {
            let writer = shard.clone();
            let write = shard.spawn(shard.current_group(), async move {
                for c in 0..30 {
                    node::apply_batch(&writer, batch(&sent, c), node::Deadline::NONE).await.unwrap();
                }
            });
            shard.sleep_us(pause_us).await;
            node::truncate(&shard, id).await.unwrap();
            write.await;
        });
        let seen: Vec<usize> = (0..30).map(|c| rows_of(&world, &node, truncated, c)).collect();
        assert!(seen.iter().all(|rows| *rows == 0 || *rows == 8), "seed {seed}: {seen:?}");
        world.set_shards(1 + rng.below(3) as u32);
        if rng.chance(1, 2) {
            world.power_loss()
        } else {
            world.kill()
        }
        let (node, _) = start(&world, SyncMode::Batch);
        for c in 0..30 {
            let rows = rows_of(&world, &node, truncated, c);
            assert_eq!(rows, seen[c as usize], "seed {seed}: the truncated table shows batch {c} otherwise");
            assert_eq!(rows_of(&world, &node, other, c), 8, "seed {seed}: the other table, batch {c}");
        }
    }
}

/// A replay brings old rows back, as long as the entry of the batch is in the coordinator's log: a compaction
/// on another shard must keep the tombstones of these rows.
#[test]
fn what_was_deleted_since_stays_deleted() {
    for shards in 2..4 {
        let (world, node, tables) = world(u64::from(shards), shards, SyncMode::Batch);
        apply(&world, &node, &tables, 1);
        let t = tables[0].clone();
        on(&world, &node, move |shard| async move {
            for key in KEYS {
                let mut deletion = Mutation::new(t.clone(), PartitionKey::new(key));
                deletion.partition.tombstone = Tombstone::new(50, shard.wall_s() - 10);
                node::apply(&shard, deletion, node::Deadline::NONE).await.unwrap();
            }
            // The memtables of the other table still hold the entry.
            node::flush(&shard, vec![t.id]).await.unwrap();
            compactions::major(&shard, t.id, false).await.unwrap();
        });
        assert_eq!(rows_of(&world, &node, &tables[0], 1), 0);
        world.kill();
        let (node, _) = start(&world, SyncMode::Batch);
        assert_eq!(rows_of(&world, &node, &tables[0], 1), 0, "{shards} shards: deleted rows are back");
        assert_eq!(rows_of(&world, &node, &tables[1], 1), 8);
        // Nothing holds the tombstones any more.
        let id = tables[0].id;
        on(&world, &node, move |shard| async move { compactions::major(&shard, id, false).await.unwrap() });
        let left = on(&world, &node, move |shard| async move {
            let count =
                move |shard: Shard| async move { Ok(EngineShard::of(&shard)?.table(id)?.sstables().len()) };
            node::on_all(&shard, shard.current_group(), count).await.unwrap()
        });
        assert!(left.iter().all(|sstables| *sstables == 0), "{left:?}");
    }
}

/// The log of the coordinator is released by flushes on the other shards, also when it is full.
#[test]
fn the_log_is_released() {
    the_log_is_released_with(|_| true, 8);
}

#[test]
fn the_log_of_a_shard_without_a_part_is_released() {
    let sharder = Sharder { shard_count: 3 };
    let is_elsewhere = move |mutation: &Mutation| sharder.shard_of(mutation.key.token()) != 0;
    let keys = KEYS.iter().filter(|key| sharder.shard_of(PartitionKey::new(**key).token()) != 0).count();
    the_log_is_released_with(is_elsewhere, keys);
}

fn the_log_is_released_with(is_wanted: impl Fn(&Mutation) -> bool, keys: usize) {
    let (world, node, tables) = world(1, 3, SyncMode::Batch);
    for c in 0..1500 {
        let mut batch = batch(&tables, c);
        batch.retain(&is_wanted);
        on(&world, &node, |shard| async move {
            node::apply_batch(&shard, batch, node::Deadline::NONE).await.unwrap();
        });
    }
    let bytes = on(&world, &node, |shard| async move {
        let bytes = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.log().disk_bytes()) };
        node::on_all(&shard, shard.current_group(), bytes).await.unwrap()
    });
    assert!(bytes[0] <= 1 << 20 && bytes[0] > 64 << 10, "{bytes:?}");
    flush(&world, &node, &tables);
    world.run_for_us(1_000_000).unwrap();
    let bytes = on(&world, &node, |shard| async move { EngineShard::of(&shard).unwrap().log().disk_bytes() });
    assert!(bytes <= 6 * (16 << 10), "only the open segment, the next, and recycled ones: {bytes}");
    on(&world, &node, |shard| async move { node::close(&shard).await.unwrap() });
    world.kill();
    let (node, report) = start(&world, SyncMode::Batch);
    assert_eq!(
        report.replay.entries - report.replay.flushed - report.replay.skipped,
        0,
        "{:?}",
        report.replay
    );
    assert_eq!(rows_of(&world, &node, &tables[1], 1499), keys);
}

#[test]
fn a_dropped_table_takes_only_its_own_part_along() {
    let (world, node, tables) = world(7, 3, SyncMode::Batch);
    apply(&world, &node, &tables, 1);
    on(&world, &node, |shard| async move {
        node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await.unwrap();
    });
    let late = batch(&tables, 2);
    let refused =
        on(&world, &node, |shard| async move { node::apply_batch(&shard, late, node::Deadline::NONE).await });
    assert!(matches!(refused, Err(EngineError::UnknownTable(_))), "{refused:?}");
    world.kill();
    let (node, _) = start(&world, SyncMode::Batch);
    assert_eq!(rows_of(&world, &node, &tables[1], 1), 8);
    assert_eq!(rows_of(&world, &node, &tables[1], 2), 0, "a refused batch has no part");
}
