//! What the disk has under way is divided while others read, whichever shards they are on.

use iosched::{Direction, DiskModel, DiskOptions};

use crate::lab::{Lab, Load};

const S: u64 = 1_000_000_000;
/// The disk that the scheduler knows: 4 GB/s.
const DISK: DiskModel =
    DiskModel { read_bandwidth_bytes_s: 4 << 30, read_iops: 500_000, ..DiskModel::NOMINAL };
const STATEMENT: usize = 0;
const COMPACTION: usize = 1;

/// A shard reads 4 KiB at a time, and from the first second on another one 64 KiB, sixteen at a time, with a fifth of the shares. For how long 95 of
/// 100 short reads take alone and beside it, and for what part of its time the other has the disk.
fn run(real: DiskModel, divides_room: bool) -> (u64, u64, f64) {
    let options = DiskOptions {
        model: Some(DISK),
        latency_goal_ns: 150_000,
        shards: 2,
        under_way_goals: 1,
        divides_room,
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
fn reads_of_one_shard_do_not_wait_for_what_another_has_under_way() {
    // It serves one request after the other, so what is under way is waited for.
    let (alone_ns, beside_ns, used) = run(DISK, true);
    assert!(beside_ns <= alone_ns * 2, "{beside_ns} beside {alone_ns}");
    assert!(used > 0.2, "{used}");
    let (_, undivided_ns, _) = run(DISK, false);
    assert!(undivided_ns > beside_ns * 3 / 2, "{undivided_ns}, divided {beside_ns}");
}

#[test]
fn another_shard_has_it_all_where_that_does_not_slow_reads_down() {
    // Ten times as fast as it is taken for.
    let (alone_ns, beside_ns, used) = run(DISK.scaled(10.0), true);
    assert!(beside_ns <= alone_ns * 2, "{beside_ns} beside {alone_ns}");
    assert!(used > 0.8, "{used}");
}
