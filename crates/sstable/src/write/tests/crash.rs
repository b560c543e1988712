//! After any failure an SSTable exists completely or not at all.

use base::crc::crc32;
use base::rng::Rng;
use model::sample::{self, Variety};
use runtime::sim::{SimNode, SimOptions, SimStop, SimWorld};

use super::*;
use crate::component::{digest, toc};

fn world(seed: u64) -> (SimWorld, SimNode) {
    let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
    let node = start(&world);
    (world, node)
}

fn start(world: &SimWorld) -> SimNode {
    let node = world.start_node(|shard| async move {
        shard.files().create_dir_all(&dir()).await.unwrap();
        for above in dir().ancestors().skip(1) {
            shard.files().sync_dir(above).await.unwrap();
        }
    });
    node.unwrap()
}

/// Writes some hundreds of kilobytes, so that buffers fill and space is reserved.
async fn write_sample(shard: Shard) -> Result<(), WriteError> {
    let schema = sample::tables()[2].clone();
    let variety = Variety { partitions: 50, rows: 50, value_bytes: 3000, ..Variety::default() };
    let mut rng = Rng::new(5);
    let mutations: Vec<_> = (0..200).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let options = options(&schema);
    let written = write_mutations(&shard, &dir(), name_of(Version::Me), schema, options, &mutations).await?;
    assert!(written.unwrap().data_bytes > 200_000);
    Ok(())
}

/// Whether the SSTable exists. Asserts that it is complete if it exists, and that no file of it remains
/// otherwise.
async fn check(shard: Shard) -> bool {
    let files = shard.files();
    clean_up(files, &dir()).await.unwrap();
    let mut found = files.read_dir(&dir()).await.unwrap();
    // Generations that may be damaged SSTables were set aside in a directory.
    found.retain(|entry| !entry.is_dir);
    if found.is_empty() {
        return false;
    }
    let name = name_of(Version::Me);
    let read = async |component: &Component| {
        let path = dir().join(name.file_name(component));
        files.read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap()
    };
    let components = toc::decode(&read(&Component::Toc).await).unwrap();
    let listed = components.iter().map(|component| name.file_name(component));
    let mut listed: Vec<_> = listed.collect();
    listed.sort();
    assert_eq!(found.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), listed);
    let data = read(&Component::Data).await;
    assert_eq!(digest::decode(&read(&Component::Digest).await), Ok(crc32(&data)));
    true
}

#[test]
fn after_a_power_loss_at_any_operation_it_is_there_whole_or_not_at_all() {
    let ops = {
        let (world, node) = world(1);
        let before = world.io_ops();
        on_node(&world, &node, write_sample).unwrap().unwrap();
        world.io_ops() - before
    };
    assert!(ops > 30, "{ops}");
    let mut outcomes = [0, 0];
    for at in 0..ops + 3 {
        let (world, node) = world(at);
        world.crash_after(at);
        let finished = match on_node(&world, &node, write_sample) {
            Ok(written) => written.is_ok(),
            Err(stop) => {
                assert_eq!(stop, SimStop::Crashed);
                false
            }
        };
        world.set_faults(|faults| faults.crash_after_ops = None);
        world.power_loss();
        let node = start(&world);
        let is_there = on_node(&world, &node, check).unwrap();
        assert!(is_there || !finished, "what was sealed is gone, crash after {at} operations");
        outcomes[usize::from(is_there)] += 1;
    }
    assert!(outcomes[0] > 10 && outcomes[1] > 2, "{outcomes:?}");
}

/// The process is killed, which keeps what the system has cached; the power is lost after the next start.
#[test]
fn what_a_start_finds_after_a_kill_stays_there() {
    let mut outcomes = [0, 0];
    for back in 0..12 {
        let (world, node) = world(1);
        let before = world.io_ops();
        on_node(&world, &node, write_sample).unwrap().unwrap();
        let ops = world.io_ops() - before;
        let (world, node) = self::world(1);
        world.crash_after(ops - back);
        let _cut = on_node(&world, &node, write_sample);
        world.set_faults(|faults| faults.crash_after_ops = None);
        world.kill();
        let node = start(&world);
        let was_there = on_node(&world, &node, check).unwrap();
        world.power_loss();
        let node = start(&world);
        assert_eq!(on_node(&world, &node, check).unwrap(), was_there, "cut {back} operations before the end");
        outcomes[usize::from(was_there)] += 1;
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn a_removal_that_a_power_loss_cuts_is_whole_or_not_at_all() {
    let mut outcomes = [0, 0];
    for at in 0..30 {
        let (world, node) = world(at);
        on_node(&world, &node, write_sample).unwrap().unwrap();
        world.crash_after(at);
        let removed = on_node(&world, &node, |shard| async move {
            remove_sstable(shard.files(), &dir(), &name_of(Version::Me)).await.unwrap();
        });
        world.set_faults(|faults| faults.crash_after_ops = None);
        world.power_loss();
        let node = start(&world);
        let is_there = on_node(&world, &node, check).unwrap();
        assert!(!is_there || removed.is_err(), "what was removed is back, crash after {at} operations");
        outcomes[usize::from(is_there)] += 1;
    }
    assert!(outcomes[0] > 10 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_nothing_and_can_be_retried() {
    for kib in [0, 4, 100, 300] {
        let (world, node) = world(kib);
        world.set_faults(|faults| faults.capacity_bytes = Some(kib * 1024));
        let error = on_node(&world, &node, write_sample).unwrap().unwrap_err();
        assert!(error.is_no_space(), "{error}");
        let left =
            on_node(&world, &node, |shard| async move { shard.files().read_dir(&dir()).await.unwrap() });
        assert_eq!(left.unwrap(), []);
        world.set_faults(|faults| faults.capacity_bytes = None);
        on_node(&world, &node, write_sample).unwrap().unwrap();
        assert!(on_node(&world, &node, check).unwrap());
    }
}

#[test]
fn errors_of_the_disk_leave_nothing_sealed() {
    let mut failed = 0;
    for seed in 0..60 {
        let (world, node) = world(seed);
        world.set_faults(|faults| {
            faults.write_error = 0.03;
            faults.sync_error = 0.03;
            faults.short_transfer = 0.3;
        });
        let result = on_node(&world, &node, write_sample).unwrap();
        world.set_faults(|faults| (faults.write_error, faults.sync_error) = (0.0, 0.0));
        let is_there = on_node(&world, &node, check).unwrap();
        match result {
            Ok(()) => assert!(is_there),
            Err(WriteError::Leftover { .. }) => failed += 1,
            Err(_) => {
                assert!(!is_there, "seed {seed}");
                failed += 1;
            }
        }
    }
    assert!((5..55).contains(&failed), "{failed}");
}

#[test]
fn what_exists_is_not_overwritten() {
    let (world, node) = world(1);
    on_node(&world, &node, write_sample).unwrap().unwrap();
    let error = on_node(&world, &node, write_sample).unwrap().unwrap_err();
    assert!(matches!(&error, WriteError::File(error) if error.is_already_exists()), "{error}");
    assert!(on_node(&world, &node, check).unwrap());
}

#[test]
fn cleaning_up_leaves_what_is_not_ours() {
    let (world, node) = world(1);
    on_node(&world, &node, write_sample).unwrap().unwrap();
    let foreign = ["notes.txt", "ka-1-Data.db", "oa-9-big-Data.db", "me-x-big-Data.db"];
    let orphans = ["me-2-big-Data.db", "me-3-big-TOC.txt.tmp", "me-3-big-Index.db", "nb-4-big-Rows.db"];
    for file in foreign.iter().chain(&orphans) {
        world.disk().write(&dir().join(file), b"x").unwrap();
    }
    let removed =
        on_node(&world, &node, |shard| async move { clean_up(shard.files(), &dir()).await.unwrap() });
    let done = removed.unwrap();
    let names: Vec<String> = done.removed.iter().map(ToString::to_string).collect();
    assert_eq!(
        (names, done.set_aside),
        (vec!["me-2-big".into(), "me-3-big".into(), "nb-4-big".into()], vec![])
    );
    let left = world.disk().files();
    for file in foreign {
        assert!(left.contains(&dir().join(file)), "{file}");
    }
    for file in orphans {
        assert!(!left.contains(&dir().join(file)), "{file}");
    }
}
