//! Rates estimated from loads that pass through the queues, compared with the rates of the simulated disk.

use iosched::{
    BUSY_WINDOWS_MIN, Direction, DiskModel, Learned, Learner, Observation, STEPS, Traffic, WINDOW_NS,
};

use super::lab::{Lab, Load};

const REAL: DiskModel = DiskModel {
    read_bandwidth_bytes_s: 900_000_000,
    write_bandwidth_bytes_s: 300_000_000,
    read_iops: 60_000,
    write_iops: 25_000,
    ..DiskModel::NOMINAL
};

const SECOND_NS: u64 = 1_000_000_000;

/// Loads of one second with these depths: reads of 4 KiB and 1 MiB, writes of 4 KiB and 256 KiB.
fn mix(depths: [usize; 4], shard: usize, second: u64) -> Vec<Load> {
    use Direction::{Read, Write};
    let kinds = [(Read, 4096), (Read, 1 << 20), (Write, 4096), (Write, 256 << 10)];
    let load = |((direction, bytes), depth)| Load {
        shard,
        from_ns: second * SECOND_NS,
        until_ns: (second + 1) * SECOND_NS,
        ..Load::new(shard, direction, bytes, depth)
    };
    kinds.into_iter().zip(depths).filter(|(_, depth)| *depth > 0).map(load).collect()
}

fn learn(believed: DiskModel, shards: usize, seconds: &[[usize; 4]]) -> Learned {
    let mut lab = Lab::new(believed, REAL, shards);
    lab.disk.set_bypassed(true);
    let of_second = |(second, depths): (usize, &[usize; 4])| {
        (0..shards).flat_map(|shard| mix(*depths, shard, second as u64)).collect::<Vec<_>>()
    };
    let loads: Vec<Load> = seconds.iter().enumerate().flat_map(of_second).collect();
    lab.run(&loads, seconds.len() as u64 * SECOND_NS);
    let mut learned = Learned::default();
    lab.queues.iter().for_each(|queue| learned.merge(&queue.learned()));
    learned
}

/// For each kind one second without other load, then mixes that exceed the disk.
const BUSY: [[usize; 4]; 10] = [
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
    [0, 0, 0, 1],
    [64, 0, 0, 0],
    [0, 16, 0, 0],
    [0, 0, 64, 0],
    [0, 0, 0, 16],
    [64, 4, 16, 4],
    [16, 8, 32, 2],
];

#[track_caller]
fn near(found: u64, real: u64) {
    assert!((found as f64 / real as f64 - 1.0).abs() < 0.1, "{found} is not near {real}");
}

#[test]
fn a_disk_that_is_busy_is_found_as_it_is() {
    for (believed, shards) in [(REAL, 1), (DiskModel::NOMINAL, 1), (DiskModel::NOMINAL, 3)] {
        let learned = learn(believed, shards, &BUSY);
        assert!(learned.busy_windows >= 40, "{} of {}", learned.busy_windows, learned.windows);
        let model = learned.model().expect("all kinds were busy");
        near(model.read_iops, REAL.read_iops);
        near(model.read_bandwidth_bytes_s, REAL.read_bandwidth_bytes_s);
        near(model.write_iops, REAL.write_iops);
        near(model.write_bandwidth_bytes_s, REAL.write_bandwidth_bytes_s);
    }
}

#[test]
fn a_disk_that_is_never_busy_is_only_seen() {
    let learned = learn(DiskModel::NOMINAL, 1, &[[1, 0, 0, 0], [1, 0, 0, 1]]);
    assert_eq!((learned.busy_windows, learned.model()), (0, None));
    assert!(learned.windows >= 18);
    let alone_s = 1e9 / (REAL.cost_ns(Direction::Read, 4096) + 50_000) as f64;
    near(learned.read_iops.greatest_s as u64, alone_s as u64);
    assert!(learned.write_bandwidth.greatest_s > 0.0);
}

#[test]
fn only_what_was_busy_is_fitted() {
    let learned = learn(DiskModel::NOMINAL, 1, &[[1, 0, 0, 0], [64, 0, 0, 0], [64, 0, 0, 0]]);
    assert!(learned.read_iops.fitted_s.is_some());
    assert_eq!((learned.write_iops.fitted_s, learned.write_bandwidth.fitted_s), (None, None));
}

/// Costs that always occur in the same proportion cannot be separated, so neither is reported.
#[test]
fn what_busy_windows_do_not_tell_apart_is_not_given() {
    let mut learner = Learner::new(DiskModel::NOMINAL);
    let mut traffic = Traffic::default();
    let mut now_ns = 0;
    for window in 0..100_u64 {
        let (requests, latency_ns) = if window < 5 { (20, 100_000) } else { (5_000, 900_000) };
        for _ in 0..requests {
            now_ns += WINDOW_NS / requests;
            traffic.reads += 1;
            traffic.read_bytes += 10_737;
            let read = Observation { direction: Direction::Read, bytes: 10_737, in_flight: 1, latency_ns };
            learner.observe(read, now_ns, || traffic);
        }
    }
    let learned = learner.learned();
    assert!(learned.busy_windows > 50, "{}", learned.busy_windows);
    assert_eq!((learned.read_iops.fitted_s, learned.read_bandwidth.fitted_s), (None, None));
    near(learned.read_iops.greatest_s as u64, 50_000);
}

/// A start reads some hundred small files in a burst, which is too little to estimate the disk's rates.
#[test]
fn too_little_is_not_fitted() {
    let seconds = [[1, 0, 0, 0], [64, 16, 0, 0]];
    let mut lab = Lab::new(DiskModel::NOMINAL, REAL, 1);
    lab.disk.set_bypassed(true);
    let mut loads: Vec<Load> =
        seconds.iter().enumerate().flat_map(|(second, depths)| mix(*depths, 0, second as u64)).collect();
    // Half a second of the burst.
    loads.iter_mut().for_each(|load| load.until_ns = load.until_ns.min(SECOND_NS * 3 / 2));
    lab.run(&loads, 2 * SECOND_NS);
    let learned = lab.queues[0].learned();
    assert!((1..BUSY_WINDOWS_MIN).contains(&learned.busy_windows), "{}", learned.busy_windows);
    assert_eq!((learned.read_iops.fitted_s, learned.read_bandwidth.fitted_s), (None, None));
    assert!(learned.read_bandwidth.greatest_s > 0.0);
}

#[test]
fn latencies_rise_across_the_plane() {
    let learned = learn(DiskModel::NOMINAL, 2, &[[1, 0, 0, 0], [8, 0, 0, 0], [2, 0, 0, 8], [64, 0, 0, 0]]);
    let (rows, columns) = learned.plane.extent();
    let p95_us = |row, column| {
        let cell = learned.plane.cell(row, column)?;
        Some(cell.latencies.percentile_ns(0.95) / 1000)
    };
    assert!(rows > 8 && (2..=STEPS).contains(&columns), "{rows} × {columns}");
    let quiet = (0..rows).find_map(|row| p95_us(row, 0)).expect("reads alone");
    let most = p95_us(rows - 1, 0).expect("reads alone, as many as the disk can do");
    let beside_writes = (0..rows).find_map(|row| p95_us(row, columns - 1)).expect("reads beside writes");
    assert!(quiet < 150 && most > 8 * quiet && beside_writes > 8 * quiet, "{quiet} {most} {beside_writes}");
}
