//! The simulated world: the same seed gives the same result, and each fault has its documented effect and no
//! other.

use std::path::Path;

use base::HashSet;
use runtime::sim::{FaultPlan, SimOptions, SimStop, SimWorld, run};
use runtime::{CpuGroup, Files, IoBuf, IoClass, OpenOptions, Shard};

const CLASS: IoClass = IoClass::CommitLog;

fn world(seed: u64, shards: u32) -> SimWorld {
    SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() })
}

/// A mix of operations: files, calls, timers, yields.
async fn churn(shard: Shard) {
    let dir = format!("/data/{}", shard.id());
    shard.files().create_dir_all(Path::new(&dir)).await.unwrap();
    for round in 0..10_u32 {
        let path = format!("{dir}/{round}");
        let file = shard.files().open(Path::new(&path), OpenOptions::create_new()).await.unwrap();
        let len = (shard.random_u64() % 5000) as usize;
        file.write_at(0, IoBuf::copy_from(&vec![round as u8; len]), CLASS).await.unwrap();
        if round % 3 == 0 {
            file.sync_data().await.unwrap();
            shard.files().sync_dir(Path::new(&dir)).await.unwrap();
        }
        let next = (shard.id() + 1) % shard.shard_count();
        let slept = shard.call(next, CpuGroup::Statement, |there| async move {
            there.sleep_us(there.random_u64() % 500).await;
            there.yield_now().await;
        });
        slept.await.unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_disk() {
    let outcome = |seed, crash_ops| {
        let world = world(seed, 3);
        world.crash_after(crash_ops);
        let stopped = world.start_node(churn).map(drop);
        let before = (stopped, world.schedule_hash(), world.now_us(), world.disk_snapshot_hash());
        world.power_loss();
        (before, world.disk_snapshot_hash())
    };
    let mut different = HashSet::default();
    for seed in 0..50 {
        for crash_ops in [seed * 3 / 2, 10_000] {
            let first = outcome(seed, crash_ops);
            assert_eq!(first, outcome(seed, crash_ops), "seed {seed}");
            assert_eq!(first.0.0, if crash_ops == 10_000 { Ok(()) } else { Err(SimStop::Crashed) });
            if first.0.0.is_ok() {
                different.insert(first.0.1);
            }
        }
    }
    assert_eq!(different.len(), 50, "each seed has a schedule of its own");
}

#[test]
fn one_line_is_enough() {
    let sum = run(3, 4, |shard| async move {
        let mut sum = 0;
        for target in 0..shard.shard_count() {
            sum += shard.call(target, CpuGroup::Statement, |there| async move { there.id() }).await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 6);
}

#[test]
fn tasks_run_in_different_orders() {
    let order = |seed| {
        run(seed, 1, |shard| async move {
            let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..4)
                .map(|at| {
                    let order = std::rc::Rc::clone(&order);
                    shard.spawn(CpuGroup::Statement, async move { order.borrow_mut().push(at) })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            order.take()
        })
    };
    let orders: HashSet<Vec<i32>> = (0..200).map(order).collect();
    assert!(orders.len() > 15, "{} of 24 orders", orders.len());
}

#[test]
fn a_deadlock_is_reported() {
    let world = world(1, 1);
    let node = world.start_node(|_| async {}).unwrap();
    let never = node.remote().call(0, CpuGroup::Statement, |_| std::future::pending::<()>());
    assert_eq!(world.run_until(never), Err(SimStop::Stuck));
}

async fn write(files: &Files, path: &str, text: &[u8]) -> runtime::File {
    let options = OpenOptions { create: true, ..OpenOptions::read_write() };
    let file = files.open(Path::new(path), options).await.unwrap();
    file.write_at(0, IoBuf::copy_from(text), CLASS).await.unwrap();
    file
}

#[test]
fn a_killed_process_leaves_what_it_wrote() {
    for seed in 0..50 {
        let world = world(seed, 1);
        let node = world.start_node(|_| async {}).unwrap();
        let written = world.block_on(&node, 0, |shard| async move {
            let _held = shard.files().lock_dir(Path::new("/")).await.unwrap();
            let file = write(shard.files(), "/log", b"acknowledged").await;
            // In flight when the process dies.
            shard
                .spawn(CpuGroup::Statement, async move {
                    drop(file.write_at(12, IoBuf::copy_from(b" maybe"), CLASS).await);
                })
                .detach();
            shard.yield_now().await;
            std::future::pending::<()>().await;
        });
        assert_eq!(written, Err(SimStop::Stuck));
        world.kill();
        let log = world.disk().read(Path::new("/log")).unwrap();
        assert!(log == b"acknowledged" || log == b"acknowledged maybe", "seed {seed}: {log:?}");
        assert_eq!(
            world.run_until(node.remote().call(0, CpuGroup::Statement, |_| async {})),
            Err(SimStop::ShardGone)
        );
        let node = world.start_node(|_| async {}).unwrap();
        let relocked = world.block_on(&node, 0, |shard| async move {
            shard.files().lock_dir(Path::new("/")).await.map(drop).is_ok()
        });
        assert_eq!(relocked, Ok(true), "the lock died with its holder");
    }
}

#[test]
fn a_second_node_does_not_get_the_directory() {
    let world = world(5, 1);
    let first = world.start_node(|_| async {}).unwrap();
    let second = world.start_node(|_| async {}).unwrap();
    let lock = |shard: Shard| async move { shard.files().lock_dir(Path::new("/")).await };
    let held = world.block_on(&first, 0, lock).unwrap().unwrap();
    let error = world.block_on(&second, 0, lock).unwrap().unwrap_err();
    assert!(error.is_locked() && error.to_string().contains("process 100"), "{error}");
    drop(held);
    assert!(world.block_on(&second, 0, lock).unwrap().is_ok());
}

#[test]
fn what_was_synced_survives_power_loss_and_the_rest_need_not() {
    let (mut torn, mut lost, mut kept, mut unnamed) = (0, 0, 0, 0);
    for seed in 0..200 {
        let world = world(seed, 1);
        let node = world.start_node(|_| async {}).unwrap();
        let done = world.block_on(&node, 0, |shard| async move {
            let file = write(shard.files(), "/log", &[1; 8192]).await;
            file.sync_data().await.unwrap();
            shard.files().sync_dir(Path::new("/")).await.unwrap();
            file.write_at(4096, IoBuf::copy_from(&[2; 8192]), CLASS).await.unwrap();
            write(shard.files(), "/unnamed", b"synced").await.sync_data().await.unwrap();
        });
        assert_eq!(done, Ok(()));
        world.power_loss();
        let log = world.disk().read(Path::new("/log")).unwrap();
        assert!(log.len() >= 8192 && log[..4096].iter().all(|byte| *byte == 1), "seed {seed}");
        assert!(log[4096..8192].iter().all(|byte| *byte == 1 || *byte == 2), "seed {seed}");
        assert!(log[8192..].iter().all(|byte| *byte == 0 || *byte == 2), "seed {seed}");
        match log[4096..].iter().filter(|byte| **byte == 2).count() {
            0 => lost += 1,
            8192 => kept += 1,
            _ => torn += 1,
        }
        match world.disk().read(Path::new("/unnamed")) {
            Ok(bytes) => assert_eq!(bytes, b"synced", "seed {seed}: its data was synced, its name was not"),
            Err(_) => unnamed += 1,
        }
    }
    assert!(torn > 20 && lost > 20 && kept > 20 && unnamed > 20, "{torn} {lost} {kept} {unnamed}");
}

#[test]
fn reads_writes_and_syncs_fail_as_planned() {
    let faults = FaultPlan {
        read_error_paths: Some(std::rc::Rc::new(|path| path.ends_with("bad"))),
        ..FaultPlan::default()
    };
    let world = SimWorld::new(SimOptions { seed: 1, shards: 1, faults, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    let file = world.block_on(&node, 0, |shard| async move {
        let bad = write(shard.files(), "/bad", b"123").await;
        let error = bad.read_at(1, 1, CLASS).await.unwrap_err();
        assert!(error.to_string().contains("/bad at byte 1"), "{error}");
        let good = write(shard.files(), "/good", b"123").await;
        assert_eq!(&*good.read_at(1, 1, CLASS).await.unwrap(), b"2");
        good
    });
    let file = file.unwrap();
    world.set_faults(|faults| {
        faults.sync_error = 1.0;
        faults.write_error = 1.0;
    });
    let failed = world.block_on(&node, 0, |_| async move {
        assert!(file.sync_data().await.is_err());
        assert!(file.write_at(0, IoBuf::copy_from(b"x"), CLASS).await.is_err());
    });
    assert_eq!(failed, Ok(()));
}

#[test]
fn after_a_failed_sync_a_later_one_does_not_bring_the_data_back() {
    let mut lost = 0;
    for seed in 0..100 {
        let world = world(seed, 1);
        let node = world.start_node(|_| async {}).unwrap();
        let file = world.block_on(&node, 0, |shard| async move {
            let file = write(shard.files(), "/log", &[7; 1024]).await;
            shard.files().sync_dir(Path::new("/")).await.unwrap();
            file
        });
        let file = file.unwrap();
        world.set_faults(|faults| faults.sync_error = 1.0);
        let again = file.clone();
        world.block_on(&node, 0, |_| async move { assert!(again.sync_data().await.is_err()) }).unwrap();
        world.set_faults(|faults| faults.sync_error = 0.0);
        world.block_on(&node, 0, |_| async move { file.sync_data().await.unwrap() }).unwrap();
        world.power_loss();
        lost += usize::from(world.disk().read(Path::new("/log")).unwrap() != [7; 1024]);
    }
    assert!((10..90).contains(&lost), "{lost} of 100");
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let world = world(1, 1);
    world.set_faults(|faults| faults.capacity_bytes = Some(10_000));
    let node = world.start_node(|_| async {}).unwrap();
    let file = world.block_on(&node, 0, |shard| async move {
        let file = write(shard.files(), "/a", &[1; 8000]).await;
        let error = file.write_at(8000, IoBuf::copy_from(&[2; 8000]), CLASS).await.unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert!(file.allocate(0, 20_000).await.unwrap_err().is_no_space());
        file.write_at(0, IoBuf::copy_from(&[3; 8000]), CLASS).await.unwrap();
        assert_eq!(shard.files().free_bytes(Path::new("/")).await.unwrap(), 0);
        file
    });
    let file = file.unwrap();
    world.set_faults(|faults| faults.capacity_bytes = Some(40_000));
    let resumed = world.block_on(&node, 0, |_| async move {
        file.allocate(0, 20_000).await.unwrap();
        file.len_bytes().await.unwrap()
    });
    assert_eq!(resumed, Ok(20_000));
}

#[test]
fn space_that_cannot_be_reserved_is_written_as_zeros() {
    for direct in [false, true] {
        let world = world(1, 1);
        world.set_faults(|faults| faults.allocate_unsupported = true);
        let node = world.start_node(|_| async {}).unwrap();
        let done = world.block_on(&node, 0, |shard| async move {
            let text = vec![9; 4096];
            write(shard.files(), "/a", &text).await;
            let options = OpenOptions::read_write().with_direct(direct);
            let file = shard.files().open(Path::new("/a"), options).await.unwrap();
            file.allocate(0, 3_000_001).await.unwrap();
            assert_eq!(file.len_bytes().await.unwrap(), 3_000_001);
            let read = file.read_at(0, 4_000_000, CLASS).await.unwrap();
            assert!(read.len() == 3_000_001 && read[..4096] == text && read[4096..].iter().all(|b| *b == 0));
            file.allocate(0, 100).await.unwrap();
            assert_eq!(file.len_bytes().await.unwrap(), 3_000_001);
        });
        assert_eq!(done, Ok(()));
    }
}

#[test]
fn a_test_can_damage_the_disk() {
    let world = world(1, 1);
    let path = Path::new("/d/file");
    world.disk().write(path, b"abc").unwrap();
    world.disk().flip(path, 1, 0x20).unwrap();
    world.power_loss();
    assert_eq!(world.disk().read(path).unwrap(), b"aBc");
    world.disk().truncate(path, 2).unwrap();
    assert_eq!(world.disk().files(), [path]);
    assert_eq!(world.disk().used_bytes(), 2);
    assert!(world.disk().flip(path, 2, 1).is_err());
}

/// The protocol for replacing a file atomically: write a temporary file, sync it, rename it, sync the
/// directory. If a loss of power or a kill interrupts it at any operation, either the old or the new bytes
/// are left.
#[test]
fn a_file_is_replaced_whole_wherever_it_is_cut_off() {
    async fn replace(shard: Shard) {
        let files = shard.files();
        let (aside, place) = (Path::new("/d/file.tmp"), Path::new("/d/file"));
        files.write_all(aside, &[2; 6000], CLASS).await.unwrap();
        files.rename(aside, place).await.unwrap();
        files.sync_dir(Path::new("/d")).await.unwrap();
    }
    let (mut old, mut new) = (0, 0);
    for seed in 0..40 {
        for ops in 0.. {
            let world = world(seed, 1);
            world.disk().write(Path::new("/d/file"), &[1; 3000]).unwrap();
            let node = world.start_node(|_| async {}).unwrap();
            world.crash_after(ops);
            let done = world.block_on(&node, 0, replace);
            if seed % 4 == 0 {
                world.kill()
            } else {
                world.power_loss()
            }
            let bytes = world.disk().read(Path::new("/d/file")).unwrap();
            assert!(bytes == [1; 3000] || bytes == [2; 6000], "seed {seed}, {ops} operations");
            *(if bytes == [1; 3000] { &mut old } else { &mut new }) += 1;
            if done == Ok(()) {
                assert_eq!(bytes, [2; 6000], "seed {seed}: it was done");
                break;
            }
            assert_eq!(done, Err(SimStop::Crashed));
        }
    }
    assert!(old > 100 && new > 50, "{old} old, {new} new");
}
