//! Replay at a start, in simulation: exactly the log entries that no SSTable contains are applied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::rng::Rng;
use engine::node::compaction as compactions;
use engine::shard::EngineShard;
use engine::{EngineOptions, OpenReport, ReadCommand, node, recover};
use model::{CqlType, PartitionRange, TableSchema};
use runtime::Shard;
use runtime::sim::{SimNode, SimOptions, SimWorld};

use crate::support::insert;

fn options() -> EngineOptions {
    let mut options = EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 4 << 20,
        ..EngineOptions::new("/data")
    };
    options.compaction.is_automatic = false;
    options
}

fn start(world: &SimWorld) -> (SimNode, OpenReport) {
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
    (node, opened.unwrap().unwrap_or_else(|error| panic!("{error}")))
}

/// A node with two tables.
fn world(seed: u64, shards: u32) -> (SimWorld, SimNode, Vec<Arc<TableSchema>>) {
    let world = SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() });
    let (node, _) = start(&world);
    let tables = world.block_on(&node, 0, |shard| async move {
        node::change_schema(&shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
            .await
            .unwrap();
        let mut tables = vec![];
        for name in ["t", "u"] {
            let schema = TableSchema::builder("ks", name)
                .id(uuid::Uuid::from_u128(u128::from(name.as_bytes()[0])))
                .partition_key("p", CqlType::Text)
                .clustering("c", CqlType::Int)
                .regular("v", CqlType::Text)
                .build()
                .unwrap();
            node::change_schema(&shard, |catalog| catalog.create_table(schema, Default::default()))
                .await
                .unwrap();
            tables.push(node::catalog(&shard).unwrap().schema("ks", name).unwrap().clone());
        }
        tables
    });
    (world, node, tables.unwrap())
}

fn on<T: Send + 'static, F, Fut>(world: &SimWorld, node: &SimNode, f: F) -> T
where
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    world.block_on(node, 0, f).unwrap_or_else(|stop| panic!("{stop}"))
}

fn write(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>, rows: std::ops::Range<i32>) {
    let table = table.clone();
    on(world, node, |shard| async move {
        for c in rows {
            node::apply(
                &shard,
                insert(&table, &format!("k{}", c % 20), c, "value", i64::from(c)),
                node::Deadline::NONE,
            )
            .await
            .unwrap();
        }
    });
}

fn flush(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>) {
    let id = table.id;
    on(world, node, move |shard| async move { node::flush(&shard, vec![id]).await.unwrap() });
}

fn count(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>) -> usize {
    let id = table.id;
    on(world, node, move |shard| async move {
        let mut command = ReadCommand::new(id, PartitionRange::all());
        let mut rows = 0;
        loop {
            let page = node::read(&shard, command.clone(), node::Deadline::NONE).await.unwrap();
            rows += page.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
            match page.next {
                Some(next) => command.paging = Some(next),
                None => return rows,
            }
        }
    })
}

/// The files of the table's directory.
fn files_of(world: &SimWorld, table: &TableSchema) -> Vec<PathBuf> {
    let dir = Path::new("/data/data/ks").join(format!("{}-{}", table.name, table.id.simple()));
    world.disk().files().into_iter().filter(|path| path.parent() == Some(&dir)).collect()
}

fn sstables_of(world: &SimWorld, table: &TableSchema) -> usize {
    let is_toc = |path: &&PathBuf| path.to_str().is_some_and(|path| path.ends_with("TOC.txt"));
    files_of(world, table).iter().filter(is_toc).count()
}

/// Replayed and applied entries of all tables; those of system tables have been flushed.
fn applied(report: &OpenReport) -> u64 {
    report.replay.entries - report.replay.flushed - report.replay.skipped
}

#[test]
fn what_was_flushed_is_not_replayed_and_the_rest_is() {
    let (world, node, tables) = world(1, 1);
    let (t, u) = (&tables[0], &tables[1]);
    write(&world, &node, t, 0..3);
    write(&world, &node, u, 0..5);
    flush(&world, &node, t);
    world.kill();
    let (node, report) = start(&world);
    assert_eq!(applied(&report), 5, "{:?}", report.replay);
    assert_eq!((sstables_of(&world, t), sstables_of(&world, u)), (1, 1));
    assert_eq!((count(&world, &node, t), count(&world, &node, u)), (3, 5));
    // Each run records its own flushed entries; some entries are flushed, some are not, some are not in the
    // log any more.
    write(&world, &node, t, 3..10);
    flush(&world, &node, t);
    write(&world, &node, t, 10..14);
    world.kill();
    let (node, report) = start(&world);
    assert_eq!(applied(&report), 4, "{:?}", report.replay);
    assert_eq!(count(&world, &node, t), 14);
    // After a complete start nothing is left to replay.
    world.kill();
    let (_node, report) = start(&world);
    assert_eq!(applied(&report), 0, "{:?}", report.replay);
}

#[test]
fn after_a_compaction_nothing_is_replayed_either() {
    let (world, node, tables) = world(2, 2);
    let t = &tables[0];
    for flushed in 0..4 {
        write(&world, &node, t, flushed * 50..flushed * 50 + 50);
        flush(&world, &node, t);
    }
    let id = t.id;
    on(&world, &node, move |shard| async move {
        compactions::major(&shard, id, false).await.unwrap();
    });
    assert_eq!(sstables_of(&world, t), 2, "one on each shard");
    world.kill();
    let (node, report) = start(&world);
    assert_eq!(applied(&report), 0, "{:?}", report.replay);
    assert_eq!((sstables_of(&world, t), count(&world, &node, t)), (2, 200));
}

#[test]
fn with_another_number_of_shards_what_was_flushed_is_known() {
    for (before, after) in [(1, 3), (3, 2), (2, 4)] {
        let (mut world, node, tables) = world(3, before);
        let t = &tables[0];
        write(&world, &node, t, 0..100);
        flush(&world, &node, t);
        write(&world, &node, t, 100..130);
        world.kill();
        world.set_shards(after);
        let (node, report) = start(&world);
        assert_eq!(applied(&report), 30, "{before} to {after}: {:?}", report.replay);
        assert_eq!(count(&world, &node, t), 130);
    }
}

/// Entries still in the log are not skipped because of an SSTable that is missing, cannot be opened, or was
/// replaced.
#[test]
fn without_its_sstables_everything_is_replayed() {
    let (a, node_a, tables) = world(4, 1);
    let t = &tables[0];
    write(&a, &node_a, t, 0..30);
    flush(&a, &node_a, t);
    write(&a, &node_a, t, 30..40);
    flush(&a, &node_a, t);
    // Another node, with other rows in SSTables of the same names.
    let (b, node_b, tables_b) = world(5, 1);
    write(&b, &node_b, &tables_b[0], 100..102);
    flush(&b, &node_b, &tables_b[0]);
    a.kill();
    let first = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("me-1-");
    let files: Vec<PathBuf> = files_of(&a, t).iter().filter(first).cloned().collect();
    assert!(files.len() > 5, "{files:?}");
    let foreign: Vec<PathBuf> = files_of(&b, &tables_b[0]).iter().filter(first).cloned().collect();
    assert_eq!(foreign, files, "the tables have the same id");
    for path in &files {
        a.disk().write(path, &b.disk().read(path).unwrap()).unwrap();
    }
    let (node, report) = start(&a);
    assert_eq!(applied(&report), 40, "another node's: {:?}", report.replay);
    assert_eq!(count(&a, &node, t), 42);

    for how in ["gone", "damaged"] {
        let (world, node, tables) = world(6, 1);
        let t = &tables[0];
        write(&world, &node, t, 0..30);
        flush(&world, &node, t);
        world.kill();
        for path in files_of(&world, t) {
            match how {
                "gone" => world.disk().remove(&path).unwrap(),
                _ if path.to_str().unwrap().ends_with("Statistics.db") => {
                    world.disk().truncate(&path, 10).unwrap()
                }
                _ => {}
            }
        }
        let (node, report) = start(&world);
        assert_eq!(applied(&report), 30, "{how}: {:?}", report.replay);
        if how == "gone" {
            assert_eq!(report.missing_sstables.len(), 1);
            assert_eq!(count(&world, &node, t), 30, "the log had them all");
        }
    }
}

/// A start interrupted by a crash at any point skips no entry that is not in an SSTable.
#[test]
fn starts_that_crash_lose_nothing() {
    for seed in 0..40 {
        let (mut world, node, tables) = world(100 + seed, 1 + seed as u32 % 3);
        let t = &tables[0];
        let mut rng = Rng::new(seed);
        let mut node = node;
        let mut rows = 0;
        for _ in 0..3 {
            for _ in 0..rng.below(4) {
                let more = rng.below(40) as i32;
                write(&world, &node, t, rows..rows + more);
                rows += more;
                if rng.below(2) == 0 {
                    flush(&world, &node, t);
                }
            }
            on(&world, &node, |shard| async move { node::sync(&shard).await.unwrap() });
            let crash = |world: &SimWorld, rng: &mut Rng| match rng.below(2) {
                0 => world.kill(),
                _ => world.power_loss(),
            };
            crash(&world, &mut rng);
            for _ in 0..rng.below(3) {
                if rng.below(4) == 0 {
                    world.set_shards(1 + rng.below(3) as u32);
                }
                world.crash_after(20 + rng.below(400));
                let begun = world.start_node(|_| async {}).unwrap();
                let opened =
                    world.block_on(&begun, 0, |shard| async move { recover::open(&shard, options()).await });
                if let Ok(Err(error)) = opened {
                    panic!("seed {seed}: {error}");
                }
                crash(&world, &mut rng);
            }
            world.set_faults(|faults| faults.crash_after_ops = None);
            (node, _) = start(&world);
            assert_eq!(count(&world, &node, t), rows as usize, "seed {seed}");
        }
        let shards = node.remote().shard_count();
        for shard in 0..shards {
            let id = t.id;
            let is_readable = world.block_on(&node, shard, move |shard| async move {
                EngineShard::of(&shard).unwrap().table(id).unwrap().check_readable().is_ok()
            });
            assert!(is_readable.unwrap());
        }
    }
}
