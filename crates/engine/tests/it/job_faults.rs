//! Every kind of job with a disk that returns read errors or wrong data: no data is lost, damaged SSTables
//! stay, and no files are left over.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use compaction::{Layout, Plan, Reason};
use engine::commitlog::SyncMode;
use engine::compaction::Granularity;
use engine::node::compaction::{self as compactions, Rewrite};
use engine::node::scrub::{ScrubOptions, scrub};
use engine::node::verify;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, node, recover};
use model::{Mutation, PartitionKey, TableSchema, Tombstone};
use reports::Verified;
use runtime::Shard;
use runtime::sim::{SimNode, SimOptions, SimWorld};

use crate::support::{count, insert, test_table};

const ROWS: usize = 400;
const FLUSHES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Major,
    /// Fragments that release their inputs while the job runs.
    Runs,
    Upgrade,
    GarbageCollect,
    Named,
    Reshard,
    Scrub,
}

/// The jobs that leave damaged SSTables in place.
const ALL: [Job; 6] = [Job::Major, Job::Runs, Job::Upgrade, Job::GarbageCollect, Job::Named, Job::Reshard];

fn options(job: Job) -> EngineOptions {
    let is_automatic = job == Job::Reshard;
    let compaction = CompactionOptions { is_automatic, ..CompactionOptions::default() };
    EngineOptions {
        memory_bytes: 8 << 20,
        commitlog_segment_bytes: 256 << 10,
        commitlog_total_bytes: 2 << 20,
        commitlog_sync: SyncMode::Batch,
        compaction,
        ..EngineOptions::new("/data")
    }
}

fn start(world: &SimWorld, job: Job) -> SimNode {
    let node = world.start_node(|_| async {}).unwrap();
    let opened =
        world.block_on(&node, 0, move |shard| async move { recover::open(&shard, options(job)).await });
    opened.unwrap().unwrap_or_else(|error| panic!("{job:?}: {error}"));
    node
}

/// Four SSTables that share all partitions, each with a tombstone that deletes nothing.
async fn fill(shard: &Shard) -> Result<Arc<TableSchema>, EngineError> {
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?)).await?;
    let mut settings = catalog::TableSettings::default();
    // Other jobs are covered by other tests.
    settings.compaction.insert("min_threshold".to_string(), "30".to_string());
    node::change_schema(shard, |catalog| catalog.create_table(test_table(), settings)).await?;
    let table = node::catalog(shard)?.schema("ks", "t").expect("it was made").clone();
    for flush in 0..FLUSHES {
        for row in 0..ROWS / FLUSHES {
            let value = format!("{flush} {row} {}", "v".repeat(300));
            let c = (flush * 1000 + row) as i32;
            node::apply(
                shard,
                insert(&table, &format!("k{}", row % 20), c, &value, 100),
                node::Deadline::NONE,
            )
            .await?;
        }
        let mut gone = Mutation::new(table.clone(), PartitionKey::new(format!("none{flush}").as_str()));
        gone.partition.tombstone = Tombstone::new(50, 1_700_000_000);
        node::apply(shard, gone, node::Deadline::NONE).await?;
        node::flush(shard, vec![table.id]).await?;
    }
    Ok(table)
}

fn rows(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>) -> usize {
    let table = table.clone();
    let counted = world.block_on(node, 0, |shard| async move { count(&shard, &table).await });
    counted.unwrap().unwrap_or_else(|error| panic!("{error}"))
}

fn data_files(world: &SimWorld) -> Vec<PathBuf> {
    let is_data = |path: &PathBuf| {
        path.starts_with("/data/data/ks") && path.to_str().is_some_and(|path| path.ends_with("-Data.db"))
    };
    let mut files: Vec<PathBuf> = world.disk().files().into_iter().filter(is_data).collect();
    files.sort();
    files
}

fn assert_no_strays(world: &SimWorld, what: &str) {
    let is_stray = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.starts_with("/data/data/ks") && (name.ends_with(".tmp") || name.starts_with("compaction-"))
    };
    let strays: Vec<PathBuf> = world.disk().files().into_iter().filter(is_stray).collect();
    assert_eq!(strays, Vec::<PathBuf>::new(), "{what}");
}

/// Runs the job on a node of one shard; jobs of [`Job::Reshard`] start automatically.
fn run_request(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>, job: Job) -> Result<(), String> {
    let (id, files) = (table.id, data_files(world));
    let done = world.block_on(node, 0, move |shard| async move {
        match job {
            Job::Major => compactions::major(&shard, id, false).await,
            Job::Upgrade => compactions::rewrite(&shard, id, Rewrite::Upgrade { all: true }).await,
            Job::GarbageCollect => compactions::garbage_collect(&shard, id, Granularity::Cell).await,
            Job::Named => compactions::merge_files(&shard, id, files).await,
            Job::Runs => {
                let manager = EngineShard::of(&shard)?.compactions().clone();
                let plan = |_: &mut dyn compaction::Strategy, view: &compaction::TableView<'_>, _: &[_]| {
                    vec![Plan {
                        inputs: view.free().map(|sstable| sstable.id).collect(),
                        expired: vec![],
                        layout: Layout::run(8 << 10),
                        reason: Reason::Asked("test"),
                        release_early: true,
                    }]
                };
                manager.run_request(id, "Test", plan).await
            }
            Job::Reshard => Ok(()),
            Job::Scrub => {
                let options = ScrubOptions { no_snapshot: true, ..ScrubOptions::default() };
                let scrubbed = scrub(&shard, id, options).await?;
                let is_done = scrubbed.left.is_empty();
                if is_done { Ok(()) } else { Err(EngineError::Compaction(scrubbed.left.join("; "))) }
            }
        }
    });
    done.unwrap().map_err(|error| error.to_string())
}

/// A node with the table; for [`Job::Reshard`] it was filled by one shard and has three.
fn filled(
    seed: u64,
    job: Job,
    before_last_start: impl FnOnce(&SimWorld),
) -> (SimWorld, SimNode, Arc<TableSchema>) {
    let mut world = SimWorld::new(SimOptions { seed, run_us_max: 2_000_000_000, ..SimOptions::default() });
    let node_1 = start(&world, job);
    let table = world.block_on(&node_1, 0, |shard| async move { fill(&shard).await }).unwrap().unwrap();
    if job != Job::Reshard {
        before_last_start(&world);
        return (world, node_1, table);
    }
    world.block_on(&node_1, 0, |shard| async move { node::close(&shard).await }).unwrap().unwrap();
    drop(node_1);
    world.kill();
    world.set_shards(3);
    before_last_start(&world);
    let node_3 = start(&world, job);
    (world, node_3, table)
}

#[test]
fn a_disk_that_cannot_be_read_for_a_while_loses_nothing() {
    for job in ALL.into_iter().chain([Job::Scrub]) {
        let mut failures = 0;
        for seed in 0..6 {
            let what = format!("{job:?}, seed {seed}");
            let (world, node, table) = filled(seed, job, |_| {});
            world.set_faults(|faults| faults.read_error = 0.05 * seed as f64);
            failures += usize::from(run_request(&world, &node, &table, job).is_err());
            world.run_for_us(2_000_000).unwrap();
            world.set_faults(|faults| faults.read_error = 0.0);
            assert_eq!(rows(&world, &node, &table), ROWS, "{what}");
            // An automatic job that failed is retried after at most five minutes.
            world.run_for_us(400_000_000).unwrap();
            match run_request(&world, &node, &table, job) {
                Ok(()) => {}
                // It has been merged by now, and is not removed yet.
                Err(error) if job == Job::Named && error.contains("the table has no SSTable") => {}
                Err(error) => panic!("{what}: {error}"),
            }
            assert_eq!(rows(&world, &node, &table), ROWS, "{what}, done again");
            if job == Job::Reshard {
                // One SSTable per shard for each input, or what the strategy has made of them.
                let count = data_files(&world).len();
                assert!((3..=3 * FLUSHES).contains(&count), "{what}: {count}");
            }
            drop(node);
            world.power_loss();
            let node = start(&world, job);
            assert_eq!(rows(&world, &node, &table), ROWS, "{what}, after a loss of power");
            // Files that could not be removed because they were unreadable are removed by now.
            assert_no_strays(&world, &what);
        }
        assert!(failures > 0 || job == Job::Reshard, "{job:?} met no error");
    }
}

#[test]
fn a_verify_finds_damage_and_puts_the_sstable_into_quarantine() {
    let (world, node, table) = filled(3, Job::Major, |_| {});
    let id = table.id;
    let check = |rows| {
        let asked =
            world.block_on(&node, 0, move |shard| async move { verify::verify(&shard, id, rows).await });
        asked.unwrap().unwrap()
    };
    let whole = Verified { sstables: FLUSHES as u64, damaged: vec![] };
    assert_eq!((check(false), check(true)), (whole.clone(), whole));
    let file = data_files(&world).remove(2);
    let bytes = world.disk().read(&file).unwrap().len() as u64;
    world.disk().flip(&file, bytes / 3, 1).unwrap();
    let found = check(false);
    assert_eq!((found.sstables, found.damaged.len()), (FLUSHES as u64, 1));
    assert!(found.damaged[0].starts_with(file.to_str().unwrap()), "{found:?}");
    // A major compaction skips the damaged SSTable.
    run_request(&world, &node, &table, Job::Major).unwrap();
    assert_eq!(data_files(&world).len(), 2);
    assert!(data_files(&world).contains(&file));
}

#[test]
fn a_damaged_input_is_quarantined_and_nothing_else_is_lost() {
    for job in ALL {
        let what = format!("{job:?}");
        let mut damaged = None;
        let (world, node, table) = filled(7, job, |world| {
            let file = data_files(world).remove(1);
            let bytes = world.disk().read(&file).unwrap().len() as u64;
            world.disk().flip(&file, bytes / 2, 0x10).unwrap();
            damaged = Some((file, bytes / 2));
        });
        let (file, at) = damaged.expect("a file was damaged");
        let done = run_request(&world, &node, &table, job);
        world.run_for_us(20_000_000).unwrap();
        assert_eq!(done.is_err(), job != Job::Reshard, "{what}: {done:?}");
        let id = table.id;
        let shards = if job == Job::Reshard { 3 } else { 1 };
        let in_quarantine: usize = (0..shards)
            .map(|shard| {
                let asked = world.block_on(&node, shard, move |shard| async move {
                    Ok::<_, EngineError>(EngineShard::of(&shard)?.table(id)?.sstables.quarantined().len())
                });
                asked.unwrap().unwrap()
            })
            .sum();
        assert_eq!(in_quarantine, 1, "{what}");
        assert!(data_files(&world).contains(&file), "{what}: it is still there");
        assert_no_strays(&world, &what);
        // With the correct bytes all rows are there again.
        world.disk().flip(&file, at, 0x10).unwrap();
        assert_eq!(rows(&world, &node, &table), ROWS, "{what}");
        drop(node);
        world.kill();
        let node = start(&world, job);
        world.run_for_us(20_000_000).unwrap();
        run_request(&world, &node, &table, job).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(rows(&world, &node, &table), ROWS, "{what}, after a restart");
        assert_no_strays(&world, &what);
    }
}

#[test]
fn inputs_that_cannot_be_removed_are_logged_and_removed_later() {
    let (world, node, table) = filled(7, Job::Major, |_| {});
    let inputs = data_files(&world);
    let (before_us, kept) = (world.now_us(), inputs.clone());
    world.set_faults(|faults| {
        faults.remove_error_paths = Some(Rc::new(move |path: &Path| kept.iter().any(|kept| kept == path)));
    });
    let error = run_request(&world, &node, &table, Job::Major).unwrap_err();
    assert!(error.contains("still use disk space") && error.contains(inputs[0].to_str().unwrap()), "{error}");
    assert!(world.now_us() - before_us < 20_000_000, "{} us", world.now_us() - before_us);
    assert_eq!(data_files(&world).len(), inputs.len() + 1);
    assert_eq!(rows(&world, &node, &table), ROWS);
    world.set_faults(|faults| faults.remove_error_paths = None);
    world.run_for_us(30_000_000).unwrap();
    assert_eq!(data_files(&world).len(), 1);
    assert_no_strays(&world, "afterwards");
    // The output may be an input again.
    run_request(&world, &node, &table, Job::Major).unwrap();
    assert_eq!((data_files(&world).len(), rows(&world, &node, &table)), (1, ROWS));
}

#[test]
fn a_restart_removes_what_a_job_could_not() {
    let (world, node, table) = filled(8, Job::Major, |_| {});
    let inputs = data_files(&world);
    world.set_faults(|faults| {
        faults.remove_error_paths = Some(Rc::new(move |path: &Path| inputs.iter().any(|kept| kept == path)));
    });
    run_request(&world, &node, &table, Job::Major).unwrap_err();
    world.block_on(&node, 0, |shard| async move { node::close(&shard).await }).unwrap().unwrap();
    drop(node);
    world.kill();
    world.set_faults(|faults| faults.remove_error_paths = None);
    let node = start(&world, Job::Major);
    assert_eq!((data_files(&world).len(), rows(&world, &node, &table)), (1, ROWS));
    assert_no_strays(&world, "after a restart");
}
