//! The I/O scheduler with a simulated disk of limited speed, in virtual time: latency of reads while
//! compaction uses all it gets.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use runtime::sim::{FaultPlan, SimOptions, SimWorld};
use runtime::{DiskModel, DiskOptions, Files, IoBuf, IoClass, OpenOptions, Shard};

/// The simulated disk.
const DISK: DiskModel = DiskModel {
    read_bandwidth_bytes_s: 1_000_000_000,
    write_bandwidth_bytes_s: 500_000_000,
    read_iops: 100_000,
    write_iops: 50_000,
    ..DiskModel::NOMINAL
};

const RUN_US: u64 = 1_000_000;
const CHUNK_BYTES: usize = 1 << 20;

/// Configuration of the scheduler.
#[derive(Clone, Copy)]
enum Belief {
    Model(DiskModel),
    /// No model: the disk was never measured.
    Nothing,
    /// The scheduler is bypassed.
    Off,
}

fn world(seed: u64, believed: Belief) -> SimWorld {
    let faults = FaultPlan {
        disk_speed: Some(DISK),
        disk_channels: 8,
        latency_us_min: 30,
        latency_us_max: 90,
        ..FaultPlan::default()
    };
    let disk = match believed {
        Belief::Model(model) => DiskOptions { model: Some(model), ..DiskOptions::default() },
        Belief::Nothing => DiskOptions::default(),
        Belief::Off => DiskOptions { latency_goal_ns: 1 << 60, ..DiskOptions::default() },
    };
    let world = SimWorld::new(SimOptions { seed, faults, disk, by_shares: true, ..SimOptions::default() });
    world.disk().write(Path::new("/data/a"), &vec![7; 8 * CHUNK_BYTES]).unwrap();
    world
}

/// Reads 4 KiB at a fixed interval, without waiting for earlier reads. Returns the sorted latencies.
async fn reads(shard: Shard, every_us: u64) -> Vec<u64> {
    let file = shard.files().open(Path::new("/data/a"), OpenOptions::read()).await.unwrap();
    let latencies = Rc::new(RefCell::new(vec![]));
    let end_us = shard.now_us() + RUN_US;
    let mut tasks = vec![];
    while shard.now_us() < end_us {
        let (file, latencies, clock) = (file.clone(), Rc::clone(&latencies), shard.clone());
        let group = runtime::CpuGroup::Statement;
        tasks.push(shard.spawn(group, async move {
            let began_us = clock.now_us();
            let offset = clock.random_u64() % 2000 * 4096;
            file.read_at(offset, 4096, IoClass::Statement).await.unwrap();
            latencies.borrow_mut().push(clock.now_us() - began_us);
        }));
        shard.sleep_us(every_us).await;
    }
    for task in tasks {
        task.await;
    }
    let mut latencies = latencies.take();
    latencies.sort_unstable();
    latencies
}

/// Reads and writes whole chunks as fast as possible; `moved` counts the bytes.
async fn compact(files: Files, number: usize, stop: Rc<Cell<bool>>, moved: Rc<Cell<u64>>) {
    let from = files.open(Path::new("/data/a"), OpenOptions::read()).await.unwrap();
    let to = files.open(Path::new(&format!("/data/out-{number}")), OpenOptions::create_new()).await.unwrap();
    let mut buf = IoBuf::new();
    buf.extend_from_slice(&vec![1; CHUNK_BYTES]);
    for round in 0.. {
        if stop.get() {
            return;
        }
        from.read_at((round % 8) * CHUNK_BYTES as u64, CHUNK_BYTES, IoClass::Compaction).await.unwrap();
        buf = to.write_at((round % 4) * CHUNK_BYTES as u64, buf, IoClass::Compaction).await.unwrap();
        moved.set(moved.get() + 2 * CHUNK_BYTES as u64);
    }
}

struct Measured {
    p95_us: u64,
    /// Bytes that compaction read and wrote in a second.
    compacted: u64,
}

fn measure(believed: Belief, compactions: usize, cap_bytes_s: Option<u64>) -> Measured {
    let world = world(5, believed);
    let node = world.start_node(|_| async {}).unwrap();
    let measured = world.block_on(&node, 0, |shard| async move {
        shard.set_io_cap(IoClass::Compaction, cap_bytes_s);
        let (stop, moved) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let compacting: Vec<_> = (0..compactions)
            .map(|number| {
                let compacting = compact(shard.files().clone(), number, Rc::clone(&stop), Rc::clone(&moved));
                shard.spawn(runtime::CpuGroup::Compaction, compacting)
            })
            .collect();
        let latencies = reads(shard.clone(), 200).await;
        let compacted = moved.get();
        stop.set(true);
        for task in compacting {
            task.await;
        }
        assert_eq!(shard.disk().inflight_ns(), 0, "all that was started has completed");
        Measured { p95_us: latencies[latencies.len() * 95 / 100], compacted }
    });
    measured.unwrap()
}

#[test]
fn reads_do_not_wait_for_compaction() {
    let believed = Belief::Model(DISK.scaled(0.9));
    let idle = measure(believed, 0, None);
    let off = measure(Belief::Off, 16, None);
    let unmeasured = measure(Belief::Nothing, 16, None);
    let on = measure(believed, 16, None);
    println!("p95 of reads: idle {} us, off {} us, on {} us", idle.p95_us, off.p95_us, on.p95_us);
    println!("unmeasured: {} us, {} MB/s", unmeasured.p95_us, unmeasured.compacted / 1_000_000);
    println!("compacted: off {} MB/s, on {} MB/s", off.compacted / 1_000_000, on.compacted / 1_000_000);
    assert!(on.p95_us <= 2 * idle.p95_us, "on {} us, idle {} us", on.p95_us, idle.p95_us);
    assert!(off.p95_us >= 4 * on.p95_us, "on {} us, off {} us", on.p95_us, off.p95_us);
    // The part of nine tenths of the disk that the reads leave, by the model.
    let reads_ns = DISK.scaled(0.9).cost_ns(runtime::Direction::Read, 4096) * 5_000;
    let pair_ns = DISK.scaled(0.9).cost_ns(runtime::Direction::Read, 64 << 10)
        + DISK.scaled(0.9).cost_ns(runtime::Direction::Write, 64 << 10);
    let left = (1_000_000_000 - reads_ns) / pair_ns * (128 << 10);
    assert!(on.compacted >= left * 9 / 10, "{} of {left}", on.compacted);
}

#[test]
fn a_disk_slower_than_its_model_holds_back_too() {
    let on = measure(Belief::Model(DISK.scaled(2.0)), 16, None);
    let off = measure(Belief::Off, 16, None);
    println!("p95 of reads with a model of twice the speed: {} us, without {} us", on.p95_us, off.p95_us);
    assert!(on.p95_us * 2 <= off.p95_us, "on {} us, off {} us", on.p95_us, off.p95_us);
}

#[test]
fn a_cap_holds_on_an_idle_disk() {
    let capped = measure(Belief::Model(DISK), 4, Some(20 << 20));
    // The burst is 10 MiB, and each of the compactions may have a chunk in flight.
    assert!((20 << 20..38 << 20).contains(&capped.compacted), "{}", capped.compacted);
}

#[test]
fn long_requests_are_split_and_dropped_ones_leave_no_trace() {
    let world = world(1, Belief::Model(DISK));
    let node = world.start_node(|_| async {}).unwrap();
    world
        .block_on(&node, 0, |shard| async move {
            let file = shard.files().open(Path::new("/data/a"), OpenOptions::read()).await.unwrap();
            let bytes = file.read_at(5, 3 << 20, IoClass::Maintenance).await.unwrap();
            assert!(bytes.len() == 3 << 20 && bytes.iter().all(|byte| *byte == 7));
            let io = |shard: &Shard| {
                let stats = shard.io_stats();
                stats.into_iter().find(|io| io.class == IoClass::Maintenance).unwrap().counters
            };
            assert_eq!((io(&shard).reads, io(&shard).read_bytes), (24, 3 << 20));
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let file = file.clone();
                    shard.spawn(runtime::CpuGroup::Maintenance, async move {
                        file.read_at(0, 1 << 20, IoClass::Maintenance).await.map(drop)
                    })
                })
                .collect();
            shard.sleep_us(2_000).await;
            assert!(io(&shard).waiting > 0);
            drop(tasks);
            shard.sleep_us(200_000).await;
            assert_eq!((io(&shard).waiting, io(&shard).executing, shard.disk().inflight_ns()), (0, 0, 0));
        })
        .unwrap();
}

/// A task with many reads in flight polls only one of them. The others, whether complete or not yet started,
/// must not block it.
#[test]
fn abandoned_requests_come_and_go() {
    for believed in [Belief::Nothing, Belief::Model(DISK)] {
        let world = world(6, believed);
        let node = world.start_node(|_| async {}).unwrap();
        let took = world.block_on(&node, 0, |shard| async move {
            let file = shard.files().open(Path::new("/data/a"), OpenOptions::read()).await.unwrap();
            let began_us = shard.now_us();
            let mut ahead: Vec<_> = (0..64)
                .map(|number| {
                    Box::pin(file.read_at(
                        number % 8 * CHUNK_BYTES as u64,
                        CHUNK_BYTES / 2,
                        IoClass::Compaction,
                    ))
                })
                .collect();
            for request in &mut ahead {
                let polled =
                    std::future::poll_fn(|context| std::task::Poll::Ready(request.as_mut().poll(context)));
                assert!(polled.await.is_pending());
            }
            // The last one that was requested.
            let last = ahead.pop().unwrap().await.unwrap();
            assert_eq!(last.len(), CHUNK_BYTES / 2);
            shard.now_us() - began_us
        });
        // 32 MiB at 1 GB/s. With a model, long requests are split, and only their first part is started
        // without being polled.
        let took_us = took.unwrap();
        assert!(took_us < 60_000, "{took_us} us");
    }
}

/// A cap counts the bytes of files, not the buffer size of a function that reads whole files.
#[test]
fn small_files_are_read_at_once_under_a_cap() {
    let world = world(7, Belief::Nothing);
    for number in 0..500 {
        world.disk().write(Path::new(&format!("/data/small-{number}")), &[7; 1000]).unwrap();
    }
    let node = world.start_node(|_| async {}).unwrap();
    let took_us = world.block_on(&node, 0, |shard| async move {
        shard.set_io_cap(IoClass::Maintenance, Some(16 << 20));
        let began_us = shard.now_us();
        for number in 0..500 {
            let path = format!("/data/small-{number}");
            let read = shard.files().read_all(Path::new(&path), IoClass::Maintenance, 1 << 20).await.unwrap();
            assert_eq!(read.len(), 1000);
        }
        shard.now_us() - began_us
    });
    let took_us = took_us.unwrap();
    assert!(took_us < 500 * 400, "500 KB at 16 MiB/s took {took_us} us");
}
