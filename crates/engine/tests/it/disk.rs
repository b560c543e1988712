//! A disk that becomes full, fails and recovers, in simulation.

use base::rng::Rng;
use catalog::TableSettings;
use engine::commitlog::{LogError, SyncMode};
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, ReadCommand, node, recover};
use model::{PartitionRange, TableSchema};
use runtime::Shard;
use runtime::log_capture::LogCapture;
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
    open_with(shard, options()).await
}

async fn open_with(shard: &Shard, options: EngineOptions) -> Arc<TableSchema> {
    open_table(shard, options, TableSettings::default()).await
}

async fn open_table(shard: &Shard, options: EngineOptions, settings: TableSettings) -> Arc<TableSchema> {
    recover::open(shard, options).await.unwrap_or_else(|error| panic!("{error}"));
    if let Some(table) = node::catalog(shard).unwrap().schema("ks", "t") {
        return table.clone();
    }
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
        .await
        .unwrap();
    node::change_schema(shard, move |catalog| catalog.create_table(test_table(), settings.clone()))
        .await
        .unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

async fn count(shard: &Shard, table: &TableSchema) -> usize {
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    let mut rows = 0;
    loop {
        let page = node::read(shard, command.clone(), node::Deadline::NONE)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        rows += page.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return rows,
        }
    }
}

/// Writes until a write is refused; returns the number of acknowledged writes, and the error.
async fn write_until_refused(shard: &Shard, table: &Arc<TableSchema>, from: i32) -> (i32, EngineError) {
    let value = "v".repeat(2000);
    for c in from.. {
        let key = format!("k{}", c % 50);
        if let Err(error) = node::apply(shard, insert(table, &key, c, &value, 1), node::Deadline::NONE).await
        {
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
        let log = LogCapture::of_this_thread();
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
        // Space is freed: writes resume without a restart.
        world.set_faults(|faults| faults.capacity_bytes = Some(room + 40_000_000));
        let t = table.clone();
        let resumed = world.block_on(&node_1, 0, |shard| async move {
            for attempt in 0.. {
                let key = format!("late{attempt}");
                match node::apply(&shard, insert(&t, &key, 1, "x", 1), node::Deadline::NONE).await {
                    Ok(()) => break,
                    Err(error) => assert!(attempt < 60, "still refused after a minute: {error}"),
                }
                shard.sleep_us(1_000_000).await;
            }
            assert_eq!(count(&shard, &t).await, written as usize + 1);
        });
        resumed.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        // The shard that met the full disk has said so, and not each time.
        let of_disk =
            ["cannot flush ks.t, and tries again until it can: ", "the commit log cannot grow, and writes "];
        let lines =
            log.lines().into_iter().filter(|line| of_disk.iter().any(|text| line.text.starts_with(text)));
        let lines: Vec<_> = lines.collect();
        assert!((1..=4).contains(&lines.len()), "seed {seed}: {lines:?}");
        for line in lines {
            assert_eq!(
                (line.level, &*line.target, line.shard),
                (log::Level::Error, "engine", Some(0)),
                "{line:?}"
            );
        }
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
                node::apply(&shard, insert(&t, "a", 1, "kept", 1), node::Deadline::NONE).await.unwrap();
            })
            .unwrap();
        world.set_faults(|faults| {
            let is_log = |path: &std::path::Path| {
                path.starts_with("/data/commitlog") && !path.starts_with("/data/commitlog/schema")
            };
            faults.write_error_paths = Some(std::rc::Rc::new(is_log));
        });
        let log = LogCapture::of_this_thread();
        let t = table.clone();
        world
            .block_on(&node_1, 0, |shard| async move {
                for c in 2..5 {
                    let error = node::apply(&shard, insert(&t, "a", c, "lost", 1), node::Deadline::NONE)
                        .await
                        .unwrap_err();
                    assert!(matches!(error, EngineError::Log(LogError::Failed(_))), "{error}");
                    assert!(error.to_string().contains("restarted"), "{error}");
                }
                assert!(count(&shard, &t).await >= 1, "reads go on");
            })
            .unwrap();
        let lines = log.texts_of("engine");
        let failures = lines.iter().filter(|line| line.starts_with("the commit log failed: ")).count();
        assert_eq!(failures, 1, "seed {seed}: {lines:?}");
        world.set_faults(|faults| faults.write_error_paths = None);
        world.kill();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let rows = world.block_on(&node_2, 0, |shard| async move {
            let table = open(&shard).await;
            node::apply(&shard, insert(&table, "a", 9, "new", 1), node::Deadline::NONE).await.unwrap();
            count(&shard, &table).await
        });
        assert!(rows.unwrap() >= 2, "seed {seed}");
    }
}

/// 4,000 bytes of text that compresses to a little less.
fn noise(rng: &mut Rng) -> String {
    (0..4000).map(|_| char::from(b'0' + rng.below(64) as u8)).collect()
}

/// The files of the commit logs, and their bytes on disk.
async fn log_files(shard: &Shard) -> (Vec<String>, u64) {
    let (mut names, mut bytes) = (vec![], 0);
    for dir in ["/data/commitlog", "/data/commitlog/schema"] {
        let dir = std::path::Path::new(dir);
        for entry in shard.files().read_dir(dir).await.unwrap().into_iter().filter(|entry| !entry.is_dir) {
            let file =
                shard.files().open(&dir.join(&entry.name), runtime::OpenOptions::read()).await.unwrap();
            bytes += file.len_bytes().await.unwrap();
            names.push(entry.name);
        }
    }
    names.sort();
    (names, bytes)
}

/// Neither memory nor log limits trigger a flush in this test.
fn live_log() -> EngineOptions {
    EngineOptions { commitlog_total_bytes: 16 << 20, ..large_log() }
}

/// All log entries of a killed node are needed. Starts fail for lack of space and leave no further files;
/// with enough space for the flush, the node starts with all rows.
#[test]
fn a_node_killed_on_a_full_disk_starts_when_the_flush_has_room() {
    for seed in 0..4 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node_1 = world.start_node(|_| async {}).unwrap();
        let table = world.block_on(&node_1, 0, |shard| async move { open(&shard).await }).unwrap();
        world.kill();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let t = table.clone();
        let written = world.block_on(&node_2, 0, move |shard| async move {
            recover::open(&shard, live_log()).await.unwrap_or_else(|error| panic!("{error}"));
            let mut rng = Rng::new(seed);
            for c in 0..300 {
                let row = insert(&t, &format!("k{}", c % 50), c, &noise(&mut rng), 1);
                node::apply(&shard, row, node::Deadline::NONE).await.unwrap();
            }
            log_files(&shard).await.1
        });
        let log_bytes = written.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        assert!(log_bytes > 1_200_000, "{log_bytes}: the rows are in the log");
        world.kill();
        // Too little space for the flush, but enough for segments.
        let used = world.disk().used_bytes();
        world.set_faults(|faults| faults.capacity_bytes = Some(used + 400_000));
        let mut first = None;
        for attempt in 0..5 {
            let node = world.start_node(|_| async {}).unwrap();
            let failed = world.block_on(&node, 0, |shard| async move {
                let error = recover::open(&shard, live_log()).await.map(drop).unwrap_err();
                assert!(matches!(error, EngineError::NoSpace(_)), "{error}");
                log_files(&shard).await
            });
            let (names, bytes) = failed.unwrap_or_else(|stop| panic!("seed {seed}, {attempt}: {stop}"));
            world.kill();
            let now = (names.len(), bytes, world.disk().used_bytes());
            let expected = *first.get_or_insert(now);
            assert_eq!(now, expected, "seed {seed}, start {attempt}: {names:?}");
            assert!(
                bytes < log_bytes + 100_000,
                "seed {seed}, start {attempt}: {bytes} bytes, were {log_bytes}"
            );
        }
        // SSTables need no more space than the rows.
        world.set_faults(|faults| faults.capacity_bytes = Some(used + 1_400_000));
        let node_3 = world.start_node(|_| async {}).unwrap();
        let t = table.clone();
        let rows = world.block_on(&node_3, 0, |shard| async move {
            recover::open(&shard, live_log()).await.unwrap_or_else(|error| panic!("{error}"));
            node::apply(&shard, insert(&t, "new", 1, "x", 1), node::Deadline::NONE).await.unwrap();
            count(&shard, &t).await
        });
        assert_eq!(rows.unwrap_or_else(|stop| panic!("seed {seed}: {stop}")), 301);
    }
}

/// The log's limit is larger than the disk, and only the log triggers flushes.
fn large_log() -> EngineOptions {
    EngineOptions { memory_bytes: 256 << 20, commitlog_total_bytes: 1 << 30, ..options() }
}

/// Overwrites the same rows, many times the capacity of the disk: flushes free the log, which never fills the
/// disk.
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
                node::apply(&shard, row, node::Deadline::NONE)
                    .await
                    .unwrap_or_else(|error| panic!("write {c}: {error}"));
            }
            count(&shard, &t).await
        });
        assert_eq!(written.unwrap_or_else(|stop| panic!("seed {seed}: {stop}")), 100);
        // The node starts with the remaining disk space.
        world.kill();
        let node_2 = world.start_node(|_| async {}).unwrap();
        let rows = world.block_on(&node_2, 0, |shard| async move {
            recover::open(&shard, large_log()).await.unwrap_or_else(|error| panic!("{error}"));
            count(&shard, &table).await
        });
        assert_eq!(rows.unwrap(), 100, "seed {seed}");
    }
}

/// Numbers of SSTables, failed compactions, and compactions that ended well.
fn state(shard: &Shard, table: &TableSchema) -> (usize, u64, u64) {
    let engine = EngineShard::of(shard).unwrap();
    let stats = engine.compactions().stats().0;
    (engine.table(table.id).unwrap().sstables().len(), stats.failed, stats.completed)
}

/// A merge fails on a full disk until its pause is minutes long. When the disk has space again, it runs
/// within seconds.
#[test]
fn free_space_on_a_full_disk_ends_the_pause_of_compactions() {
    let world = SimWorld::new(SimOptions { shards: 1, ..SimOptions::default() });
    let node_1 = world.start_node(|_| async {}).unwrap();
    let fill = |shard: Shard, table: Arc<TableSchema>, from: i32| async move {
        let mut rng = Rng::new(from as u64);
        for c in from..from + 80 {
            let row = insert(&table, &format!("k{c}"), c, &noise(&mut rng), i64::from(c));
            node::apply(&shard, row, node::Deadline::NONE).await.unwrap();
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
    };
    let table = world.block_on(&node_1, 0, move |shard| async move {
        let compaction = [("class".to_string(), "SizeTieredCompactionStrategy".to_string())].into();
        let settings = TableSettings { compaction, ..TableSettings::default() };
        // Two or three SSTables are not merged, whatever time the flushes take.
        let compaction = CompactionOptions { enforce_min_threshold: true, ..CompactionOptions::default() };
        let table = open_table(&shard, EngineOptions { compaction, ..large_log() }, settings).await;
        for flush in 0..3 {
            fill(shard.clone(), table.clone(), flush * 100).await;
        }
        table
    });
    let table = table.unwrap_or_else(|stop| panic!("{stop}"));
    // Space for the fourth SSTable and for half of the merge of the four.
    let room = world.disk().used_bytes() + 1_100_000;
    let log = LogCapture::of_this_thread();
    world.set_faults(|faults| faults.capacity_bytes = Some(room));
    let t = table.clone();
    let before = world.block_on(&node_1, 0, move |shard| async move {
        fill(shard.clone(), t.clone(), 300).await;
        shard.sleep_us(200_000_000).await;
        state(&shard, &t)
    });
    let (sstables, failed, completed) = before.unwrap_or_else(|stop| panic!("{stop}"));
    assert!(sstables > 1 && (4..10).contains(&failed), "{sstables} SSTables, {failed} failures, {completed}");
    let lines = log.texts_of("compaction");
    let failures = lines.iter().filter(|line| line.starts_with("a compaction failed: ks.t: ")).count();
    assert_eq!(failures as u64, failed, "{lines:?}");
    world.set_faults(|faults| faults.capacity_bytes = None);
    let after = world.block_on(&node_1, 0, move |shard| async move {
        shard.sleep_us(5_000_000).await;
        state(&shard, &table)
    });
    let (left, _, completed_after) = after.unwrap_or_else(|stop| panic!("{stop}"));
    assert!(
        left < sstables && completed_after > completed,
        "{left} of {sstables} SSTables, {completed_after}"
    );
}
