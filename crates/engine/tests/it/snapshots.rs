//! Automatic snapshots before TRUNCATE and DROP, in simulation: complete with concurrent writes and after a
//! crash at any point.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Keyspace, TableSettings};
use engine::node::upload;
use engine::{EngineError, EngineOptions, ReadCommand, node, recover};
use model::{PartitionRange, TableSchema};
use runtime::sim::{FaultPlan, SimNode, SimOptions, SimWorld};
use runtime::{CpuGroup, Shard};

use crate::support::{insert, test_table};

fn options() -> EngineOptions {
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 4 << 20,
        commitlog_sync: engine::commitlog::SyncMode::Batch,
        ..EngineOptions::new("/data")
    }
}

fn start(world: &SimWorld) -> (SimNode, engine::OpenReport) {
    let node = world.start_node(|_| async {}).unwrap();
    let opened = world.block_on(&node, 0, |shard| async move { recover::open(&shard, options()).await });
    let report = opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
    (node, report)
}

/// Runs `f` on the first shard; an error fails the test.
fn on<T: Send + 'static, Fut>(
    world: &SimWorld,
    node: &SimNode,
    f: impl FnOnce(Shard) -> Fut + Send + 'static,
) -> T
where
    Fut: Future<Output = Result<T, EngineError>> + 'static,
{
    world.block_on(node, 0, f).unwrap().unwrap_or_else(|error| panic!("{error}"))
}

async fn make(shard: &Shard) -> Result<Arc<TableSchema>, EngineError> {
    node::change_schema(shard, |catalog| catalog.create_keyspace(Keyspace::simple("ks")?)).await?;
    node::change_schema(shard, |catalog| catalog.create_table(test_table(), TableSettings::default()))
        .await?;
    Ok(node::catalog(shard)?.schema("ks", "t").expect("it was made").clone())
}

async fn write(shard: &Shard, table: &Arc<TableSchema>, c: i32) -> Result<(), EngineError> {
    node::apply(shard, insert(table, &format!("k{}", c % 10), c, "value", 100), node::Deadline::NONE).await
}

/// Rows 0..20, half of them in SSTables.
async fn fill(shard: &Shard, table: &Arc<TableSchema>) -> Result<(), EngineError> {
    for c in 0..20 {
        write(shard, table, c).await?;
        if c == 9 {
            node::flush(shard, vec![table.id]).await?;
        }
    }
    Ok(())
}

/// The clustering values in the table.
async fn rows(shard: &Shard, table: &TableSchema) -> Result<BTreeSet<i32>, EngineError> {
    let page =
        node::read(shard, ReadCommand::new(table.id, PartitionRange::all()), node::Deadline::NONE).await?;
    assert!(page.next.is_none());
    let rows = page.partitions.iter().flat_map(|partition| &partition.rows);
    Ok(rows.map(|row| i32::from_be_bytes(row.key.values().next().unwrap().try_into().unwrap())).collect())
}

fn files(world: &SimWorld, ending: &str) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        path.starts_with("/data/data/ks") && path.to_str().is_some_and(|path| path.ends_with(ending))
    };
    world.disk().files().into_iter().filter(is_one).collect()
}

#[test]
fn concurrent_writes_are_in_the_table_or_in_the_snapshot() {
    for seed in 0..60 {
        let world = SimWorld::new(SimOptions { seed, shards: 2, ..SimOptions::default() });
        let (node, _) = start(&world);
        let (in_table, in_both, acknowledged) = on(&world, &node, move |shard| async move {
            let table = make(&shard).await?;
            fill(&shard, &table).await?;
            let (is_over, written) =
                (Rc::new(Cell::new(false)), Rc::new(RefCell::new((0..20).collect::<BTreeSet<i32>>())));
            let writer = {
                let (here, table) = (shard.clone(), table.clone());
                let (is_over, written) = (is_over.clone(), written.clone());
                shard.spawn(CpuGroup::Statement, async move {
                    let mut c = 20;
                    while !is_over.get() {
                        write(&here, &table, c).await.unwrap();
                        written.borrow_mut().insert(c);
                        c += 1;
                        if c % 16 == 0 {
                            // Writes after the separation wait with their flush; other tables do not wait for
                            // it.
                            let (behind, id) = (here.clone(), table.id);
                            let flush = async move { node::flush(&behind, vec![id]).await };
                            here.spawn(CpuGroup::Memtable, flush).detach();
                        }
                    }
                })
            };
            shard.sleep_us(seed * 37).await;
            node::truncate(&shard, table.id).await?;
            is_over.set(true);
            writer.await;
            let in_table = rows(&shard, &table).await?;
            let [snapshot] = &node::snapshots(&shard).await?[..] else { panic!("one snapshot") };
            assert!(snapshot.tag.starts_with("truncated-") && snapshot.tag.ends_with("-t"), "{snapshot:?}");
            upload::import(&shard, table.id, snapshot.dir.clone()).await?;
            let in_both = rows(&shard, &table).await?;
            let acknowledged = written.borrow().clone();
            Ok((in_table, in_both, acknowledged))
        });
        assert!((0..20).all(|c| !in_table.contains(&c)), "seed {seed}: {in_table:?}");
        assert_eq!(in_both, acknowledged, "seed {seed}");
        assert!(acknowledged.len() > 25, "seed {seed}: nothing was written meanwhile");
    }
}

#[test]
fn wherever_a_crash_ends_a_truncate_the_rows_are_in_the_table_or_in_a_whole_snapshot() {
    let (mut kept, mut emptied, mut unfinished) = (0, 0, 0);
    for crash in 0..260_u64 {
        let world = SimWorld::new(SimOptions { seed: crash, shards: 2, ..SimOptions::default() });
        let (node, _) = start(&world);
        let table = on(&world, &node, move |shard| async move {
            let table = make(&shard).await?;
            fill(&shard, &table).await?;
            let (here, id) = (shard.clone(), table.id);
            shard.spawn(CpuGroup::Statement, async move { node::truncate(&here, id).await }).detach();
            shard.sleep_us(crash * 60).await;
            Ok(table)
        });
        drop(node);
        unfinished += files(&world, "/unfinished").len();
        if crash % 2 == 0 {
            world.kill()
        } else {
            world.power_loss()
        };
        let (node, _) = start(&world);
        assert_eq!(files(&world, "/unfinished"), [] as [PathBuf; 0], "crash {crash}");
        let (is_kept, found) = on(&world, &node, move |shard| async move {
            let before = rows(&shard, &table).await?;
            if before.is_empty() {
                let [snapshot] = &node::snapshots(&shard).await?[..] else { panic!("one snapshot") };
                upload::import(&shard, table.id, snapshot.dir.clone()).await?;
            }
            Ok((!before.is_empty(), rows(&shard, &table).await?))
        });
        assert_eq!(found, (0..20).collect(), "crash {crash}");
        *if is_kept { &mut kept } else { &mut emptied } += 1;
    }
    assert!(kept > 10 && emptied > 10 && unfinished > 10, "{kept} {emptied} {unfinished}");
}

#[test]
fn a_dropped_table_and_keyspace_leave_snapshots_that_can_be_listed_and_cleared_after_a_restart() {
    let world = SimWorld::new(SimOptions::default());
    let (node, _) = start(&world);
    on(&world, &node, |shard| async move {
        let table = make(&shard).await?;
        fill(&shard, &table).await?;
        node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
        let other =
            TableSchema::builder("ks", "other").partition_key("p", model::CqlType::Text).build().unwrap();
        node::change_schema(&shard, |catalog| catalog.create_table(other, TableSettings::default())).await?;
        node::change_schema(&shard, |catalog| catalog.drop_keyspace("ks")).await?;
        node::close(&shard).await
    });
    drop(node);
    world.kill();
    let (node, report) = start(&world);
    assert_eq!((report.unknown_dirs, report.ended_drops), (vec![], vec![]));
    let snapshots = on(&world, &node, |shard| async move { node::snapshots(&shard).await });
    let of_t: Vec<_> = snapshots.iter().filter(|snapshot| snapshot.table == "t").collect();
    assert_eq!((snapshots.len(), of_t.len()), (2, 1), "{snapshots:?}");
    assert!(of_t[0].tag.starts_with("dropped-") && of_t[0].tag.ends_with("-t"), "{of_t:?}");
    let read = |name: &str| {
        let path = of_t[0].dir.join(name);
        String::from_utf8(world.disk().read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap()
    };
    let manifest = read("manifest.json");
    assert_eq!(manifest.matches("-Data.db\"").count(), files(&world, "-Data.db").len(), "{manifest}");
    assert!(read("schema.cql").contains("CREATE TABLE IF NOT EXISTS ks.t (\n"), "{}", read("schema.cql"));

    let clear = |which: node::Clear| {
        on(&world, &node, move |shard| async move { node::clear_snapshots(&shard, which).await })
    };
    let of = |keyspace: &str| node::Clear { keyspace: Some(keyspace.to_string()), ..Default::default() };
    assert_eq!(clear(of("other")), 0);
    assert_eq!(clear(node::Clear { table: Some("t".to_string()), ..of("ks") }), 1);
    assert_eq!(clear(node::Clear::default()), 1);
    assert_eq!(files(&world, ""), [] as [PathBuf; 0]);
    assert_eq!(on(&world, &node, |shard| async move { node::snapshots(&shard).await }), []);
}

#[test]
fn a_statement_without_a_snapshot_is_refused_and_nothing_is_lost() {
    let world = SimWorld::new(SimOptions::default());
    let (node, _) = start(&world);
    let table = on(&world, &node, |shard| async move {
        let table = make(&shard).await?;
        fill(&shard, &table).await?;
        Ok(table)
    });
    let room = world.disk().used_bytes() + 100;
    world.set_faults(|faults| faults.capacity_bytes = Some(room));
    let id = table.id;
    let truncate =
        || world.block_on(&node, 0, move |shard| async move { node::truncate(&shard, id).await }).unwrap();
    let drop_keyspace = || {
        let drop = |shard: Shard| async move {
            node::change_schema(&shard, |catalog| catalog.drop_keyspace("ks")).await
        };
        world.block_on(&node, 0, drop).unwrap()
    };
    for (error, what) in [(truncate().unwrap_err(), "truncated"), (drop_keyspace().unwrap_err(), "dropped")] {
        let text = error.to_string();
        assert!(matches!(error, EngineError::NoSpace(_)), "{text}");
        assert!(
            text.contains(&format!("ks.t was not {what}")) && text.contains("nodetool clearsnapshot"),
            "{text}"
        );
    }
    world.set_faults(|faults| *faults = FaultPlan::default());
    let known = table.clone();
    let found = on(&world, &node, move |shard| async move {
        assert_eq!(node::snapshots(&shard).await?, []);
        rows(&shard, &known).await
    });
    assert_eq!(found, (0..20).collect());

    // The second table's snapshot fails, so there is none of the first.
    on(&world, &node, |shard| async move {
        let other = TableSchema::builder("ks", "u").partition_key("p", model::CqlType::Text).build().unwrap();
        node::change_schema(&shard, |catalog| catalog.create_table(other, TableSettings::default())).await
    });
    world.set_faults(|faults| {
        let is_of_u = |path: &Path| path.to_str().unwrap().contains("/u-") && path.ends_with("manifest.json");
        faults.write_error_paths = Some(Rc::new(is_of_u));
    });
    let error = drop_keyspace().unwrap_err().to_string();
    assert!(error.contains("ks.u was not dropped"), "{error}");
    world.set_faults(|faults| *faults = FaultPlan::default());
    assert_eq!(files(&world, "manifest.json"), [] as [PathBuf; 0]);
    truncate().unwrap();
    drop_keyspace().unwrap();
    let snapshots = on(&world, &node, |shard| async move { node::snapshots(&shard).await });
    assert_eq!(snapshots.len(), 3, "{snapshots:?}");
}

#[test]
fn snapshots_can_be_turned_off_for_a_node_or_a_table() {
    for by_table in [false, true] {
        let world = SimWorld::new(SimOptions::default());
        let node = world.start_node(|_| async {}).unwrap();
        let left = on(&world, &node, move |shard| async move {
            recover::open(&shard, EngineOptions { auto_snapshot: by_table, ..options() }).await?;
            let table = make(&shard).await?;
            if by_table {
                let known = table.clone();
                node::change_schema(&shard, move |catalog| {
                    let others = [("allow_auto_snapshot".to_string(), "false".to_string())].into();
                    catalog.alter_table(known, TableSettings { others, ..TableSettings::default() })
                })
                .await?;
            }
            fill(&shard, &table).await?;
            node::truncate(&shard, table.id).await?;
            assert_eq!(rows(&shard, &table).await?, BTreeSet::new());
            fill(&shard, &table).await?;
            node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await?;
            node::snapshots(&shard).await
        });
        assert_eq!(left, []);
        assert_eq!(files(&world, ""), [] as [PathBuf; 0]);
    }
}
