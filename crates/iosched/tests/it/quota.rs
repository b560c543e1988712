//! The in-flight limit is divided while others read, across shards.

use iosched::{Direction, DiskModel, DiskOptions};

use crate::lab::{Lab, Load};

const S: u64 = 1_000_000_000;
/// The rates given to the scheduler: 4 GB/s.
const DISK: DiskModel =
    DiskModel { read_bandwidth_bytes_s: 4 << 30, read_iops: 500_000, ..DiskModel::NOMINAL };
const STATEMENT: usize = 0;
const COMPACTION: usize = 1;

/// One shard reads 4 KiB at a time. From the first second on another shard reads 64 KiB, 16 requests at a
/// time, with a fifth of the shares. Returns the 95th percentile of the short reads alone, the same next to
/// the second load, and the part of its time for which the second load uses the disk.
fn run(real: DiskModel, uses_quotas: bool) -> (u64, u64, f64) {
    let options = DiskOptions {
        model: Some(DISK),
        latency_goal_ns: 150_000,
        shards: 2,
        inflight_goals: 1,
        uses_quotas,
    };
    let mut lab = Lab::with(options, real);
    lab.set_shares(STATEMENT, 1000);
    lab.set_shares(COMPACTION, 200);
    let short = Load::new(STATEMENT, Direction::Read, 4096, 1);
    let long = Load { shard: 1, from_ns: S, ..Load::new(COMPACTION, Direction::Read, 64 << 10, 16) };
    lab.run(&[short, long], 4 * S);
    let used_ns = lab.cost_ns(COMPACTION, 2 * S, 4 * S);
    (lab.p95_ns(STATEMENT, 0, S), lab.p95_ns(STATEMENT, 2 * S, 4 * S), used_ns as f64 / (2.0 * S as f64))
}

#[test]
fn reads_of_one_shard_do_not_wait_for_requests_in_flight_of_another() {
    // The disk serves one request after the other, so a read waits for all requests in flight.
    let (alone_ns, beside_ns, used) = run(DISK, true);
    assert!(beside_ns <= alone_ns * 2, "{beside_ns} beside {alone_ns}");
    assert!(used > 0.2, "{used}");
    let (_, undivided_ns, _) = run(DISK, false);
    assert!(undivided_ns > beside_ns * 3 / 2, "{undivided_ns}, divided {beside_ns}");
}

#[test]
fn another_shard_has_it_all_where_that_does_not_slow_reads_down() {
    // The disk is ten times as fast as its model.
    let (alone_ns, beside_ns, used) = run(DISK.scaled(10.0), true);
    assert!(beside_ns <= alone_ns * 2, "{beside_ns} beside {alone_ns}");
    assert!(used > 0.8, "{used}");
}
