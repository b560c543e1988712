//! Deleted, truncated and dropped data does not return, and written data stays, in simulation: with
//! concurrent operations, errors at a critical moment, and a clock that is set back.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use engine::node::compaction::{self as compactions, Rewrite};
use engine::node::upload;
use engine::{EngineError, EngineOptions, ReadCommand, node, recover};
use model::{CqlType, Mutation, PartitionKey, PartitionRange, TableSchema, Tombstone};
use runtime::Shard;
use runtime::sim::{FaultPlan, SimNode, SimOptions, SimWorld};

use crate::support::{insert, test_table};

const DAY_US: i64 = 86_400_000_000;

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 4 << 20,
        // Data that returns must not come from a snapshot.
        auto_snapshot: false,
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

async fn count(shard: &Shard, table: &TableSchema) -> Result<usize, EngineError> {
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    let mut rows = 0;
    loop {
        let page = node::read(shard, command.clone(), node::Deadline::NONE).await?;
        rows += page.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return Ok(rows),
        }
    }
}

async fn fill(shard: &Shard, table: &Arc<TableSchema>, rows: i32) -> Result<(), EngineError> {
    for c in 0..rows {
        node::apply(shard, insert(table, &format!("k{}", c % 10), c, "value", 100), node::Deadline::NONE)
            .await?;
    }
    Ok(())
}

fn files(world: &SimWorld, ending: &str) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        path.starts_with("/data/data/ks") && path.to_str().is_some_and(|path| path.ends_with(ending))
    };
    world.disk().files().into_iter().filter(is_one).collect()
}

/// The table's directory, as created by [`make`].
fn table_dir(table: &TableSchema) -> PathBuf {
    Path::new("/data/data/ks").join(format!("t-{}", table.id.simple()))
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
            // Each shard has SSTables of its own to merge, in addition to the shared ones.
            for _ in 0..2 {
                fill(&shard, &table, 60).await?;
                node::flush(&shard, vec![]).await?;
            }
            let (id, here) = (table.id, shard.clone());
            let is_dropped = Rc::new(Cell::new(false));
            let is_over = is_dropped.clone();
            let majors = shard.spawn(runtime::CpuGroup::Statement, async move {
                while !is_over.get() {
                    let _stopped = compactions::major(&here, id, false).await;
                    here.sleep_us(1000).await;
                }
            });
            compactions::start(&shard).await?;
            shard.sleep_us(seed * 150).await;
            node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
            is_dropped.set(true);
            majors.await;
            Ok::<_, EngineError>(())
        });
        ended.unwrap_or_else(|stop| panic!("seed {seed}: {stop}")).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_flush_that_cannot_open_what_it_wrote_leaves_no_second_copy() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let table = make(&shard, test_table()).await?;
        fill(&shard, &table, 10).await?;
        Ok::<_, EngineError>(table)
    });
    let table = table.unwrap().unwrap();
    world.set_faults(|faults| {
        faults.read_error_paths =
            Some(Rc::new(|path: &Path| path.to_str().unwrap().ends_with("Statistics.db")));
    });
    let flushed = world.block_on(&node, 0, |shard| async move { node::flush(&shard, vec![]).await }).unwrap();
    assert!(flushed.unwrap_err().to_string().contains("will be retried"));
    world.set_faults(|faults| *faults = FaultPlan::default());
    let rows = world.block_on(&node, 0, move |shard| async move {
        node::flush(&shard, vec![]).await?;
        count(&shard, &table).await
    });
    assert_eq!(rows.unwrap().unwrap(), 10);
    assert_eq!(files(&world, "-TOC.txt").len(), 1, "{:?}", files(&world, ""));
}

#[test]
fn tombstones_stay_while_an_sstable_of_the_table_cannot_be_opened() {
    let world = SimWorld::new(SimOptions::default());
    let manual = || {
        let mut manual = options();
        manual.compaction.is_automatic = false;
        manual
    };
    let node = start(&world, manual());
    let table = world.block_on(&node, 0, |shard| async move {
        let mut schema = (*test_table()).clone();
        schema.options.gc_grace_s = 0;
        let table = make(&shard, Arc::new(schema)).await?;
        fill(&shard, &table, 10).await?;
        node::flush(&shard, vec![]).await?;
        for key in 0..10 {
            let mut gone = Mutation::new(table.clone(), PartitionKey::new(format!("k{key}").as_str()));
            gone.partition.tombstone = Tombstone::new(200, 1_700_000_000);
            node::apply(&shard, gone, node::Deadline::NONE).await?;
        }
        node::flush(&shard, vec![]).await?;
        node::close(&shard).await?;
        Ok::<_, EngineError>(table)
    });
    let table = table.unwrap().unwrap();
    drop(node);
    world.kill();
    let mut index = files(&world, "-Index.db");
    index.sort();
    let kept = world.disk().read(&index[0]).unwrap();
    world.disk().remove(&index[0]).unwrap();
    let node = start(&world, manual());
    let id = table.id;
    let compacted = world.block_on(&node, 0, move |shard| async move {
        compactions::major(&shard, id, false).await?;
        node::close(&shard).await
    });
    compacted.unwrap().unwrap();
    drop(node);
    world.kill();
    world.disk().write(&index[0], &kept).unwrap();
    let node = start(&world, manual());
    let rows = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
    assert_eq!(rows.unwrap().unwrap(), 0);
}

#[test]
fn two_operations_on_a_table_at_once_bring_no_deleted_row_back() {
    for seed in 0..60 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let mut manual = options();
        manual.compaction.is_automatic = false;
        let node = start(&world, manual);
        let rows = world.block_on(&node, 0, move |shard| async move {
            let mut schema = (*test_table()).clone();
            schema.options.gc_grace_s = 0;
            let table = make(&shard, Arc::new(schema)).await?;
            // Deleted rows in four SSTables, their tombstones in a fifth.
            for first in [0, 100, 200, 300] {
                for c in first..first + 100 {
                    let value = format!("{c}{}", "v".repeat(3000));
                    node::apply(
                        &shard,
                        insert(&table, &format!("k{}", c % 10), c, &value, 100),
                        node::Deadline::NONE,
                    )
                    .await?;
                }
                node::flush(&shard, vec![]).await?;
            }
            for key in 0..10 {
                let mut gone = Mutation::new(table.clone(), PartitionKey::new(format!("k{key}").as_str()));
                gone.partition.tombstone = Tombstone::new(200, 1_600_000_000);
                node::apply(&shard, gone, node::Deadline::NONE).await?;
            }
            node::flush(&shard, vec![]).await?;
            let (id, here) = (table.id, shard.clone());
            let upgrade = shard.spawn(runtime::CpuGroup::Maintenance, async move {
                compactions::rewrite(&here, id, Rewrite::Upgrade { all: true }).await
            });
            // The upgrade has rewritten some of the SSTables when the major compaction begins.
            shard.sleep_us(seed * 500).await;
            // Neither operation ends the other: the later one waits.
            compactions::major(&shard, id, false).await?;
            upgrade.await?;
            count(&shard, &table).await
        });
        let rows = rows.unwrap().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(rows, 0, "seed {seed}");
    }
}

/// Their SSTables have the same names, in different directories.
#[test]
fn operations_of_two_tables_do_not_refuse_each_other() {
    for seed in 0..20 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let mut manual = options();
        manual.compaction.is_automatic = false;
        let node = start(&world, manual);
        let ended = world.block_on(&node, 0, move |shard| async move {
            let first = make(&shard, test_table()).await?;
            let mut schema = (*test_table()).clone();
            (schema.name, schema.id) = ("u".to_string(), uuid::Uuid::from_u128(7));
            node::change_schema(&shard, |catalog| catalog.create_table(Arc::new(schema), Default::default()))
                .await?;
            let second = node::catalog(&shard)?.schema("ks", "u").expect("it was made").clone();
            for table in [&first, &second] {
                for _ in 0..3 {
                    fill(&shard, table, 40).await?;
                    node::flush(&shard, vec![]).await?;
                }
            }
            let (here, id) = (shard.clone(), first.id);
            let other = shard.spawn(runtime::CpuGroup::Maintenance, async move {
                compactions::major(&here, id, false).await
            });
            shard.sleep_us(seed * 100).await;
            compactions::major(&shard, second.id, false).await?;
            other.await
        });
        ended.unwrap().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn the_second_page_of_a_read_that_a_truncate_has_met_is_empty() {
    let mut met = 0;
    for seed in 0..60 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node = start(&world, options());
        let left = world.block_on(&node, 0, move |shard| async move {
            let table = make(&shard, test_table()).await?;
            for c in 0..40 {
                node::apply(&shard, insert(&table, "k", c, &"v".repeat(2000), 100), node::Deadline::NONE)
                    .await?;
            }
            node::flush(&shard, vec![]).await?;
            let id = table.id;
            let first = ReadCommand {
                page_rows: 30,
                bypass_cache: true,
                ..ReadCommand::new(id, PartitionRange::Key(PartitionKey::new("k")))
            };
            let (here, asked) = (shard.clone(), first.clone());
            let page = shard.spawn(runtime::CpuGroup::Statement, async move {
                node::read(&here, asked, node::Deadline::NONE).await
            });
            shard.sleep_us(seed * 20).await;
            node::truncate(&shard, id).await?;
            let Ok(page) = page.await else { return Ok(None) };
            let Some(next) = page.next else { return Ok(None) };
            let second =
                node::read(&shard, ReadCommand { paging: Some(next), ..first }, node::Deadline::NONE).await?;
            Ok::<_, EngineError>(Some(second.row_count()))
        });
        if let Some(rows) = left.unwrap().unwrap() {
            assert_eq!(rows, 0, "seed {seed}");
            met += 1;
        }
    }
    assert!(met > 10, "{met}");
}

#[test]
fn with_the_clock_set_back_what_comes_after_a_truncate_is_replayed() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let table = make(&shard, test_table()).await?;
        fill(&shard, &table, 10).await?;
        node::truncate(&shard, table.id).await?;
        node::close(&shard).await?;
        Ok::<_, EngineError>(table)
    });
    let table = table.unwrap().unwrap();
    drop(node);
    world.kill();
    world.clock().set_wall_by_us(-DAY_US);
    let node = start(&world, options());
    let written = table.clone();
    let filled = world.block_on(&node, 0, move |shard| async move { fill(&shard, &written, 7).await });
    filled.unwrap().unwrap();
    drop(node);
    world.kill();
    let node = start(&world, options());
    let rows = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
    assert_eq!(rows.unwrap().unwrap(), 7);
}

#[test]
fn with_the_clock_set_back_changes_of_the_schema_stay() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let made = world.block_on(&node, 0, |shard| async move {
        make(&shard, test_table()).await?;
        node::close(&shard).await
    });
    made.unwrap().unwrap();
    drop(node);
    world.kill();
    world.clock().set_wall_by_us(-DAY_US);
    let node = start(&world, options());
    let dropped = world.block_on(&node, 0, |shard| async move {
        node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
        node::close(&shard).await
    });
    dropped.unwrap().unwrap();
    drop(node);
    world.kill();
    let node = start(&world, options());
    let found = world.block_on(&node, 0, |shard| async move {
        node::catalog(&shard).map(|catalog| catalog.schema("ks", "t").is_some())
    });
    assert!(!found.unwrap().unwrap(), "the table is there again");
}

#[test]
fn a_table_made_with_the_id_of_one_that_was_dropped_is_empty_after_a_crash() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let table = make(&shard, test_table()).await?;
        fill(&shard, &table, 10).await?;
        node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
        let again = make(&shard, table.clone()).await?;
        assert_eq!(again.id, table.id);
        node::apply(&shard, insert(&again, "new", 1, "value", 100), node::Deadline::NONE).await?;
        Ok::<_, EngineError>(again)
    });
    let table = table.unwrap().unwrap();
    drop(node);
    world.kill();
    let node = start(&world, options());
    let rows = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
    assert_eq!(rows.unwrap().unwrap(), 1);
}

#[test]
fn wherever_a_crash_ends_a_drop_a_table_of_the_same_id_begins_empty() {
    let mut ended_by_start = 0;
    for crash_us in (0..6_000).step_by(40) {
        let world = SimWorld::new(SimOptions { seed: crash_us, ..SimOptions::default() });
        let node = start(&world, options());
        let table = world.block_on(&node, 0, move |shard| async move {
            let table = make(&shard, test_table()).await?;
            fill(&shard, &table, 10).await?;
            node::flush(&shard, vec![table.id]).await?;
            fill(&shard, &table, 10).await?;
            node::flush(&shard, vec![table.id]).await?;
            let here = shard.clone();
            let drop =
                async move { node::change_schema(&here, |catalog| catalog.drop_table("ks", "t")).await };
            shard.spawn(runtime::CpuGroup::Statement, drop).detach();
            shard.sleep_us(crash_us).await;
            Ok::<_, EngineError>(table)
        });
        let table = table.unwrap().unwrap();
        drop(node);
        world.kill();
        let node = world.start_node(|_| async {}).unwrap();
        let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
        ended_by_start += opened.unwrap().unwrap().ended_drops.len();
        let same = table.clone();
        let rows = world.block_on(&node, 0, move |shard| async move {
            if node::catalog(&shard)?.schema("ks", "t").is_none() {
                make(&shard, same.clone()).await?;
                return count(&shard, &same).await.map(|rows| (true, rows));
            }
            count(&shard, &same).await.map(|rows| (false, rows))
        });
        let (is_new, rows) = rows.unwrap().unwrap();
        assert_eq!(rows, if is_new { 0 } else { 10 }, "a crash after {crash_us} us");
        assert!(files(&world, "/dropped").is_empty(), "a crash after {crash_us} us");
    }
    assert!(ended_by_start > 0, "no crash came in the middle of a drop");
}

#[test]
fn a_snapshot_that_fails_is_not_there() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let table = make(&shard, test_table()).await?;
        fill(&shard, &table, 10).await?;
        node::flush(&shard, vec![]).await?;
        Ok::<_, EngineError>(table)
    });
    let id = table.unwrap().unwrap().id;
    let snapshot = || {
        let made = world.block_on(&node, 0, move |shard| async move {
            node::snapshot(&shard, id, "tag".to_string()).await
        });
        made.unwrap()
    };
    world.set_faults(|faults| faults.sync_error = 1.0);
    assert!(snapshot().is_err());
    world.set_faults(|faults| *faults = FaultPlan::default());
    let listed = || world.block_on(&node, 0, |shard| async move { node::snapshots(&shard).await });
    assert_eq!(listed().unwrap().unwrap(), []);
    assert!(files(&world, "/tag/unfinished").is_empty());
    assert_eq!(snapshot().unwrap_or_else(|error| panic!("{error}")), 9);
    let listed = listed().unwrap().unwrap();
    let [listed] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&*listed.keyspace, &*listed.table, &*listed.tag), ("ks", "t", "tag"));
    assert!(listed.disk_bytes > 0);
}

#[test]
fn a_load_that_one_shard_cannot_carry_out_takes_nothing() {
    let world = SimWorld::new(SimOptions { shards: 2, ..SimOptions::default() });
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let table = make(&shard, test_table()).await?;
        fill(&shard, &table, 20).await?;
        node::snapshot(&shard, table.id, "tag".to_string()).await?;
        node::truncate(&shard, table.id).await?;
        Ok::<_, EngineError>(table)
    });
    let table = table.unwrap().unwrap();
    let from = table_dir(&table).join("snapshots/tag");
    let import = |opens_left: u32| {
        // Each shard opens a loaded SSTable once more after its check.
        let left = Cell::new(opens_left);
        world.set_faults(|faults| {
            faults.read_error_paths = Some(Rc::new(move |path: &Path| {
                if !path.to_str().unwrap().ends_with("Statistics.db") {
                    return false;
                }
                left.set(left.get().wrapping_sub(1));
                left.get() == u32::MAX
            }));
        });
        let (from, id) = (from.clone(), table.id);
        let imported =
            world.block_on(&node, 0, move |shard| async move { upload::import(&shard, id, from).await });
        world.set_faults(|faults| *faults = FaultPlan::default());
        imported.unwrap()
    };
    let rows = || {
        let table = table.clone();
        let counted = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
        counted.unwrap().unwrap_or_else(|error| panic!("{error}"))
    };
    let mut refused = 0;
    for opens_left in 0.. {
        let Err(error) = import(opens_left) else { break };
        assert!(opens_left < 40, "{error}");
        refused += 1;
        assert_eq!(rows(), 0, "the error came at reading {opens_left}");
        assert_eq!(files(&world, "-TOC.txt").iter().filter(|path| !path.starts_with(&from)).count(), 0);
    }
    assert!(refused >= 4, "{refused}");
    assert_eq!(rows(), 20);
}

#[test]
fn an_expired_sstable_stays_while_the_log_has_what_it_deletes() {
    let world = SimWorld::new(SimOptions::default());
    let node = start(&world, options());
    let table = world.block_on(&node, 0, |shard| async move {
        let mut schema = (*test_table()).clone();
        schema.options.gc_grace_s = 0;
        let table = make(&shard, Arc::new(schema)).await?;
        // A row in another table's memtable holds the segment.
        let [other, filler] = ["other", "filler"].map(|name| {
            let table = TableSchema::builder("ks", name).partition_key("p", CqlType::Text);
            table.clustering("c", CqlType::Int).regular("v", CqlType::Text).build().unwrap()
        });
        for table in [other.clone(), filler.clone()] {
            node::change_schema(&shard, |catalog| catalog.create_table(table, Default::default())).await?;
        }
        node::apply(&shard, insert(&other, "k", 1, "value", 100), node::Deadline::NONE).await?;

        let fill_segment = async |shard: &Shard| {
            for c in 0..40 {
                node::apply(shard, insert(&filler, "k", c, &"v".repeat(10_000), 100), node::Deadline::NONE)
                    .await?;
            }
            node::flush(shard, vec![filler.id]).await
        };
        node::apply(&shard, insert(&table, "k", 1, "value", 100), node::Deadline::NONE).await?;
        node::flush(&shard, vec![table.id]).await?;
        // The tombstone is in another segment, which is released.
        fill_segment(&shard).await?;
        let mut gone = Mutation::new(table.clone(), PartitionKey::new("k"));
        gone.partition.tombstone = Tombstone::new(200, 1_700_000_000);
        node::apply(&shard, gone, node::Deadline::NONE).await?;
        node::flush(&shard, vec![table.id]).await?;
        fill_segment(&shard).await?;
        compactions::major(&shard, table.id, false).await?;
        // The strategy drops expired data at its next check.
        let changed = table.clone();
        let mut settings = catalog::TableSettings::default();
        for (name, value) in
            [("class", "TimeWindowCompactionStrategy"), ("expired_sstable_check_frequency_seconds", "0")]
        {
            settings.compaction.insert(name.to_string(), value.to_string());
        }
        node::change_schema(&shard, |catalog| catalog.alter_table(changed, settings)).await?;
        shard.sleep_us(120_000_000).await;
        assert_eq!(count(&shard, &table).await?, 0);
        Ok::<_, EngineError>(table)
    });
    let table = table.unwrap().unwrap();
    drop(node);
    world.kill();
    let node = start(&world, options());
    let rows = world.block_on(&node, 0, move |shard| async move { count(&shard, &table).await });
    assert_eq!(rows.unwrap().unwrap(), 0, "it is back");
}

#[test]
fn a_directory_whose_name_may_be_lost_is_not_opened() {
    let world = SimWorld::new(SimOptions::default());
    world.set_faults(|faults| faults.write_error_paths = Some(Rc::new(|path| path == Path::new("/"))));
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
    assert!(opened.unwrap().is_err());
    drop(node);
    world.kill();
    world.set_faults(|faults| *faults = FaultPlan::default());
    start(&world, options());
}
