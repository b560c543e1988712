//! The log keeps its guarantees when processes are killed and power is lost.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::rng::Rng;
use runtime::sim::{SimOptions, SimStop, SimWorld};
use runtime::{CpuGroup, Shard};
use uuid::Uuid;

use super::census::Census;
use super::replay::{self, ReplayReport};
use super::*;

const TABLE: Uuid = Uuid::from_u128(7);

fn dir() -> PathBuf {
    PathBuf::from("/log")
}

fn options(sync: SyncMode) -> CommitLogOptions {
    CommitLogOptions {
        dir: dir(),
        segment_bytes: 16 * 1024,
        total_bytes_max: 1 << 20,
        sync,
        is_archived: false,
    }
}

/// Reads every segment; returns the appended numbers that were found, and the report.
async fn read_all(shard: Shard) -> (Vec<u64>, ReplayReport, Vec<replay::OldSegment>) {
    let files = shard.files().clone();
    let census = census::take(&files, &dir()).await.expect("the directory is there");
    let (mut numbers, mut report) = (vec![], ReplayReport::default());
    report.damaged = census::missing(&census, &Census::default());
    let segments = census.segments;
    let known = replay::synced_whole(&files, &segments).await.expect("readable");
    for (segment, synced_whole) in segments.iter().zip(known) {
        let apply = async |replayed: Replayed<'_>| {
            numbers.push(u64::from_be_bytes(
                replayed.entry[..8].try_into().expect("an entry begins with its number"),
            ));
            assert!(replayed.entry[8..].iter().all(|byte| *byte == numbers[numbers.len() - 1] as u8));
            Ok(())
        };
        report.merge(replay::read_segment(&files, segment, synced_whole, apply).await.expect("readable"));
    }
    (numbers, report, segments)
}

/// Appends numbers from several tasks until the world stops; the acknowledged ones are in `acknowledged`.
async fn write(shard: Shard, sync: SyncMode, run: u64, seed: u64, acknowledged: Rc<RefCell<Vec<u64>>>) {
    shard.files().create_dir_all(&dir()).await.expect("a directory");
    shard.files().sync_dir(Path::new("/")).await.expect("synced");
    let log = CommitLog::open(&shard, options(sync), run * 100).await.expect("a log");
    let mut writers = vec![];
    for writer in 0..4 {
        let (log, acknowledged, on) = (log.clone(), acknowledged.clone(), shard.clone());
        let mut rng = Rng::new(seed * 10 + writer);
        let task = async move {
            let mut kept = SegmentRefs::default();
            for n in 0..40 {
                let number = run * 10_000 + writer * 1000 + n;
                let mut entry = number.to_be_bytes().to_vec();
                entry.resize(8 + rng.below(600) as usize, number as u8);
                log.make_room(entry.len(), || None).await.expect("room");
                let appended = log.append(TABLE, &entry);
                kept.add(appended.position.segment);
                appended.durable().await.expect("durable");
                acknowledged.borrow_mut().push(number);
                if rng.chance(1, 10) {
                    on.sleep_us(rng.below(3000)).await;
                }
            }
        };
        writers.push(shard.spawn(runtime::CpuGroup::Statement, task));
    }
    for writer in writers {
        writer.await;
    }
    log.close().await.expect("closed");
}

#[test]
fn what_was_acknowledged_is_read_back_after_a_crash() {
    let modes = [SyncMode::Batch, SyncMode::Group { window_us: 500 }, SyncMode::Periodic { period_us: 2000 }];
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let sync = *rng.pick(&modes);
        // Acknowledged entries of a run must be found; unacknowledged ones may be.
        let mut must: Vec<u64> = vec![];
        for run in 1..4 {
            let acknowledged = Rc::new(RefCell::new(vec![]));
            world.crash_after(1 + rng.below(150));
            let writing = acknowledged.clone();
            let stop = world
                .start_node(|_| async {})
                .and_then(|node| world.block_on(&node, 0, |shard| write(shard, sync, run, seed, writing)));
            world.set_faults(|faults| faults.crash_after_ops = None);
            assert!(matches!(stop, Ok(()) | Err(SimStop::Crashed)), "seed {seed}: {stop:?}");
            must.append(&mut acknowledged.borrow_mut());
            let power = rng.chance(1, 2);
            if power {
                world.power_loss();
            } else {
                world.kill();
            }
            let node = world.start_node(|_| async {}).unwrap();
            let there = world.block_on(&node, 0, |shard| async move {
                match shard.files().exists(&dir()).await {
                    Ok(true) => Some(read_all(shard).await),
                    _ => None,
                }
            });
            let (found, report, _) = there.unwrap().unwrap_or_default();
            assert_eq!(report.damaged, [], "seed {seed} {sync:?} power {power}");
            let lost: Vec<u64> = must.iter().copied().filter(|number| !found.contains(number)).collect();
            let promised = !power || !matches!(sync, SyncMode::Periodic { .. });
            assert!(!promised || lost.is_empty(), "seed {seed} {sync:?} power {power}: lost {lost:?}");
            // Entries that a power failure took from `periodic` stay lost.
            must.retain(|number| found.contains(number));
            world.kill();
        }
    }
}

#[test]
fn damage_to_what_was_durable_is_reported_and_never_taken_for_a_torn_end() {
    let mut losses = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let acknowledged = Rc::new(RefCell::new(vec![]));
        let writing = acknowledged.clone();
        world.block_on(&node, 0, |shard| write(shard, SyncMode::Batch, 1, seed, writing)).unwrap();
        world.kill();
        let node = world.start_node(|_| async {}).unwrap();
        let (before, report, segments) = world.block_on(&node, 0, read_all).unwrap();
        assert_eq!((before.len(), report.damaged.len(), report.truncated.len()), (160, 0, 0), "seed {seed}");
        assert!(segments.len() > 2, "seed {seed}: the test wants several segments");

        // Any bit of any segment but the last one that holds entries.
        let target = &segments[rng.index(segments.len() - 2)];
        let bytes = world.disk().read(&target.path).unwrap();
        let offset = rng.below(bytes.len() as u64);
        world.disk().flip(&target.path, offset, 1 << rng.below(8)).unwrap();
        let (after, report, _) = world.block_on(&node, 0, read_all).unwrap();
        let lost = before.len() - after.len();
        assert!(
            lost == 0 || !report.damaged.is_empty(),
            "seed {seed}: flipped {offset} of {:?}",
            target.path
        );
        losses += usize::from(lost > 0);
        assert!(report.truncated.is_empty(), "seed {seed}");
        assert!(after.iter().all(|number| before.contains(number)), "seed {seed}: nothing is made up");
    }
    assert!(losses > 30, "most of a segment is entries, but only {losses} flips hit one");
}

#[test]
fn a_segment_that_is_removed_cut_or_emptied_is_missed() {
    let mut losses = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let modes = [SyncMode::Batch, SyncMode::Periodic { period_us: 1000 }];
        let sync = *rng.pick(&modes);
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let acknowledged = Rc::new(RefCell::new(vec![]));
        // Some runs are stopped, some crash.
        if rng.chance(1, 2) {
            world.crash_after(60 + rng.below(150));
        }
        let writing = acknowledged.clone();
        let _ = world.block_on(&node, 0, |shard| write(shard, sync, 1, seed, writing));
        world.set_faults(|faults| faults.crash_after_ops = None);
        world.kill();
        let node = world.start_node(|_| async {}).unwrap();
        let (before, report, segments) = world.block_on(&node, 0, read_all).unwrap();
        assert_eq!((report.damaged.len(), report.truncated.len()), (0, 0), "seed {seed}");

        let target = &segments[rng.index(segments.len())];
        let disk = world.disk();
        match rng.below(4) {
            0 => disk.remove(&target.path).unwrap(),
            1 => disk.truncate(&target.path, 64 * rng.below(target.len_bytes / 64)).unwrap(),
            2 => disk.overwrite(&target.path, 0, &vec![0; target.len_bytes as usize]).unwrap(),
            _ => {
                // A cut before a chunk, where nothing looks torn.
                let bytes = disk.read(&target.path).unwrap();
                let begins = |at: &usize| {
                    let header = bytes[*at..].first_chunk().unwrap();
                    format::ChunkHeader::decode(header, target.id, *at as u64).is_some()
                };
                let chunks: Vec<usize> = (64..bytes.len() - 64).step_by(64).filter(begins).collect();
                if chunks.is_empty() {
                    continue;
                }
                disk.truncate(&target.path, *rng.pick(&chunks) as u64).unwrap();
            }
        }
        let (after, report, _) = world.block_on(&node, 0, read_all).unwrap();
        let lost = before.len() - after.len();
        assert!(lost == 0 || !report.damaged.is_empty(), "seed {seed} {sync:?}: lost {lost} of {target:?}");
        losses += usize::from(lost > 0);
    }
    assert!(losses > 30, "{losses}");
}

#[test]
fn a_cut_after_the_last_chunk_loses_nothing() {
    let world = SimWorld::new(SimOptions { seed: 5, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    let acknowledged = Rc::new(RefCell::new(vec![]));
    world.crash_after(120);
    let writing = acknowledged.clone();
    let sync = SyncMode::Batch;
    let _ = world.block_on(&node, 0, |shard| write(shard, sync, 1, 5, writing));
    world.set_faults(|faults| faults.crash_after_ops = None);
    world.kill();
    let node = world.start_node(|_| async {}).unwrap();
    let (before, _, segments) = world.block_on(&node, 0, read_all).unwrap();
    assert!(!before.is_empty());
    let last = segments.iter().rfind(|segment| {
        let bytes = world.disk().read(&segment.path).unwrap();
        bytes[format::FIRST_CHUNK_BYTES as usize..].iter().any(|byte| *byte != 0)
    });
    let last = last.expect("something was written");
    world.disk().truncate(&last.path, last.len_bytes - 64).unwrap();
    let (after, report, _) = world.block_on(&node, 0, read_all).unwrap();
    assert_eq!((after, report.damaged.len()), (before, 0), "{report:?}");
}

#[test]
fn the_synced_position_is_known_without_a_later_write() {
    for sync in [SyncMode::Batch, SyncMode::Periodic { period_us: 10_000 }] {
        let world = SimWorld::new(SimOptions { seed: 4, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        world
            .block_on(&node, 0, |shard| async move {
                shard.files().create_dir_all(&dir()).await.unwrap();
                let log = CommitLog::open(&shard, options(sync), 1).await.unwrap();
                log.make_room(100, || None).await.unwrap();
                log.append(TABLE, &[0; 100]).durable().await.unwrap();
                shard.sleep_us(3_000_000).await;
            })
            .unwrap();
        world.kill();
        let path = dir().join(format::file_name(1));
        world.disk().overwrite(&path, format::FIRST_CHUNK_BYTES, &[0; 256]).unwrap();
        let node = world.start_node(|_| async {}).unwrap();
        let (numbers, report, _) = world.block_on(&node, 0, read_all).unwrap();
        assert_eq!((numbers, report.damaged.len()), (vec![], 1), "{sync:?} {report:?}");
    }
}

#[test]
fn nothing_behind_a_failed_sync_is_called_synced() {
    let mut failed = 0;
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        world.set_faults(|faults| faults.sync_error = 0.15);
        let modes = [SyncMode::Batch, SyncMode::Periodic { period_us: 1000 }];
        let sync = *rng.pick(&modes);
        let synced = Rc::new(RefCell::new(vec![]));
        let node = world.start_node(|_| async {}).unwrap();
        let noted = synced.clone();
        let has_failed = world.block_on(&node, 0, |shard| async move {
            shard.files().create_dir_all(&dir()).await.ok()?;
            shard.files().sync_dir(Path::new("/")).await.ok()?;
            let log = CommitLog::open(&shard, options(sync), 1).await.ok()?;
            let mut writers = vec![];
            for writer in 0..4u64 {
                let (log, on, noted) = (log.clone(), shard.clone(), noted.clone());
                let mut rng = Rng::new(seed * 10 + writer);
                let task = async move {
                    for n in 0..60 {
                        let number = writer * 1000 + n;
                        let mut entry = number.to_be_bytes().to_vec();
                        entry.resize(8 + rng.below(600) as usize, number as u8);
                        if log.make_room(entry.len(), || None).await.is_err() {
                            return;
                        }
                        drop(log.append(TABLE, &entry));
                        let result = match rng.below(4) {
                            0 => log.rotate().await.map(|_| ()),
                            _ => log.sync().await,
                        };
                        match result {
                            Ok(()) => noted.borrow_mut().push(number),
                            Err(LogError::NoSpace(_)) => (),
                            Err(_) => return,
                        }
                        on.sleep_us(rng.below(300)).await;
                    }
                };
                writers.push(shard.spawn(CpuGroup::Statement, task));
            }
            for writer in writers {
                writer.await;
            }
            // The manifest is written meanwhile.
            shard.sleep_us(10_000_000).await;
            Some(log.failure().is_some())
        });
        failed += usize::from(has_failed.unwrap() == Some(true));
        world.set_faults(|faults| faults.sync_error = 0.0);
        world.power_loss();
        let node = world.start_node(|_| async {}).unwrap();
        let there = world.block_on(&node, 0, |shard| async move {
            match shard.files().exists(&dir()).await {
                Ok(true) => Some(read_all(shard).await),
                _ => None,
            }
        });
        let (found, report, _) = there.unwrap().unwrap_or_default();
        assert_eq!(report.damaged, [], "seed {seed} {sync:?}");
        let synced = synced.borrow();
        let lost: Vec<&u64> = synced.iter().filter(|number| !found.contains(number)).collect();
        assert!(lost.is_empty(), "seed {seed} {sync:?}: lost {lost:?}");
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn what_others_have_appended_can_be_waited_for() {
    for sync in
        [SyncMode::Batch, SyncMode::Group { window_us: 5000 }, SyncMode::Periodic { period_us: 10_000 }]
    {
        let world = SimWorld::new(SimOptions { seed: 5, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        world
            .block_on(&node, 0, |shard| async move {
                shard.files().create_dir_all(&dir()).await.unwrap();
                let log = CommitLog::open(&shard, options(sync), 1).await.unwrap();
                log.durable().await.unwrap();
                // Several chunks; the first is being written while the others gather.
                for number in 1..=3u64 {
                    log.make_room(8, || None).await.unwrap();
                    drop(log.append(TABLE, &number.to_be_bytes()));
                    if number == 1 {
                        shard.yield_now().await;
                    }
                }
                log.durable().await.unwrap();
            })
            .unwrap();
        world.kill();
        let node = world.start_node(|_| async {}).unwrap();
        let (numbers, ..) = world.block_on(&node, 0, read_all).unwrap();
        assert_eq!(numbers, [1, 2, 3], "{sync:?}");
    }
}

#[test]
fn segments_are_given_up_when_their_entries_are_flushed_and_used_again() {
    runtime::sim::run(3, 1, |shard| async move {
        shard.files().create_dir_all(&dir()).await.unwrap();
        let options = CommitLogOptions { total_bytes_max: 96 * 1024, ..options(SyncMode::Batch) };
        let log = CommitLog::open(&shard, options, 1).await.unwrap();
        let mut held = SegmentRefs::default();
        for n in 0..200u64 {
            let entry = [n as u8; 2000];
            log.make_room(entry.len(), || None).await.unwrap();
            let appended = log.append(TABLE, &entry);
            held.add(appended.position.segment);
            appended.durable().await.unwrap();
            assert!(log.disk_bytes() <= 96 * 1024 + 16 * 1024, "{} bytes", log.disk_bytes());
            if log
                .flush_boundary()
                .is_some_and(|boundary| held.oldest_of(0).is_some_and(|oldest| oldest < boundary))
            {
                log.release(TABLE, &std::mem::take(&mut held));
                shard.sleep_us(10_000).await;
                assert_eq!(log.flush_boundary(), None);
            }
        }
        let names: Vec<String> =
            shard.files().read_dir(&dir()).await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(names.iter().any(|name| name.starts_with("Recycled-")), "{names:?}");
        log.close().await.unwrap();
        assert!(matches!(log.make_room(1, || None).await, Err(LogError::Closed)));
    });
}

#[test]
fn a_full_log_waits_for_flushes_and_a_full_disk_is_an_error() {
    let world = SimWorld::new(SimOptions { seed: 5, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    world.set_faults(|faults| faults.capacity_bytes = Some(60 * 1024));
    world
        .block_on(&node, 0, |shard| async move {
            shard.files().create_dir_all(&dir()).await.unwrap();
            let log = CommitLog::open(&shard, options(SyncMode::Batch), 1).await.unwrap();
            let mut held = SegmentRefs::default();
            // After four entries the disk is so full that memtables cannot be flushed; before that, a write
            // would wait for the flush.
            let appended_entries = std::cell::Cell::new(0);
            let cannot_flush = || {
                let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
                let error = FileError::new("flush", Path::new("memtables"), source);
                (appended_entries.get() >= 4).then(|| LogError::NoSpace(Arc::new(error)))
            };
            let error = loop {
                match log.make_room(3000, cannot_flush).await {
                    Ok(()) => {
                        let appended = log.append(TABLE, &[1; 3000]);
                        held.add(appended.position.segment);
                        appended.durable().await.unwrap();
                        appended_entries.set(appended_entries.get() + 1);
                    }
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, LogError::NoSpace(_)), "{error}");
            assert!(error.to_string().contains("until space is freed"), "{error}");
            // Flushing frees segments, and writes continue.
            log.release(TABLE, &held);
            shard.sleep_us(10_000).await;
            log.make_room(3000, || None).await.unwrap();
            log.append(TABLE, &[2; 3000]).durable().await.unwrap();
            assert!(matches!(log.make_room(9000, || None).await, Err(LogError::TooLarge { .. })));
        })
        .unwrap();
}

#[test]
fn a_sync_ends_while_the_first_segment_is_being_made() {
    let world = SimWorld::new(SimOptions { seed: 6, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    // The log opens without a segment.
    world.set_faults(|faults| faults.capacity_bytes = Some(8 * 1024));
    let open = |shard: Shard| async move {
        shard.files().create_dir_all(&dir()).await.unwrap();
        CommitLog::open(&shard, options(SyncMode::Batch), 1).await.unwrap()
    };
    let log = world.block_on(&node, 0, open).unwrap();
    world.set_faults(|faults| faults.capacity_bytes = None);
    let sync = |shard: Shard| async move {
        let writer = log.clone();
        let room =
            shard.spawn(CpuGroup::CommitLog, async move { writer.make_room(100, || None).await.is_ok() });
        let mut syncs = 0;
        while !room.is_finished() {
            log.sync().await.unwrap();
            shard.sleep_us(20).await;
            syncs += 1;
        }
        assert!(room.await && syncs > 3, "{syncs} syncs");
        log.append(TABLE, &[1; 100]).durable().await.unwrap();
    };
    world.block_on(&node, 0, sync).unwrap();
}
