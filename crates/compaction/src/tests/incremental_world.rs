//! Laws of the incremental strategy for any workload.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::testing::{Cell, RowKey, SimulatedRun, Timeline, World, WriteLoad};
use crate::{
    Incremental, IncrementalOptions, SSTableView, SampledOverlap, SizeTiered, Strategy, TableView,
    TombstoneCollection,
};

const CELL_BYTES: u64 = 100;
const PARTITIONS: u32 = 200;
const ROWS: u32 = 3;
const FRAGMENT_BYTES: u64 = 4_000;
const FLUSHED_ROWS_MAX: u64 = 60;

/// The largest possible SSTable: an SSTable ends only at the end of a partition.
const SSTABLE_BYTES_MAX: u64 = FRAGMENT_BYTES + ROWS as u64 * CELL_BYTES;
const FLUSH_BYTES_MAX: u64 = FLUSHED_ROWS_MAX * CELL_BYTES;
const _: () = assert!(FLUSH_BYTES_MAX > FRAGMENT_BYTES, "some flushes have several fragments");

#[derive(Clone, Debug)]
enum Op {
    /// Writes `rows` rows, one in `deletes_one_in` a deletion; to partitions from `first` on, `step` apart.
    Flush {
        first: u32,
        step: u32,
        rows: u64,
        deletes_one_in: u64,
        ttl_s: Option<u32>,
    },
    Wait {
        seconds: u32,
    },
    /// Runs this number of jobs, or fewer if there are no more.
    Compact {
        jobs: usize,
    },
    /// Another job takes one SSTable, until the next operation of this kind.
    Busy {
        index: usize,
    },
}

fn op() -> impl proptest::strategy::Strategy<Value = Op> {
    prop_oneof![
        6 => (0..PARTITIONS, prop_oneof![Just(1u32), Just(7), Just(61)], 1..=FLUSHED_ROWS_MAX, 2..12u64, any::<bool>())
            .prop_map(|(first, step, rows, deletes_one_in, expires)| Op::Flush {
                first, step, rows, deletes_one_in, ttl_s: expires.then_some(500),
            }),
        1 => (1..200_000u32).prop_map(|seconds| Op::Wait { seconds }),
        3 => (1..4usize).prop_map(|jobs| Op::Compact { jobs }),
        1 => any::<usize>().prop_map(|index| Op::Busy { index }),
    ]
}

fn options(collection: u8, overlap_threshold: f64) -> IncrementalOptions {
    let collection =
        [TombstoneCollection::Fragments, TombstoneCollection::WhenShort, TombstoneCollection::Tiers]
            [usize::from(collection) % 3];
    IncrementalOptions {
        fragment_bytes: FRAGMENT_BYTES,
        overlap_threshold,
        tombstone_collection: collection,
        space_amplification_goal: (overlap_threshold > 0.4).then_some(1.5),
        ..IncrementalOptions::default()
    }
}

/// A table and its expected content.
struct Trial {
    world: World,
    strategy: Incremental,
    model: BTreeMap<RowKey, Cell>,
    writes: u64,
    sampled: Option<SampledOverlap>,
}

impl Trial {
    fn new(options: IncrementalOptions, gc_grace_s: u32, has_sketches: bool) -> Self {
        let options = IncrementalOptions { sampled_from_bytes: 3 * FRAGMENT_BYTES, ..options };
        let mut world = World::new(CELL_BYTES);
        (world.gc_grace_s, world.has_sketches) = (gc_grace_s, has_sketches);
        Self { world, strategy: Incremental::new(options), model: BTreeMap::new(), writes: 0, sampled: None }
    }

    fn flush(&mut self, first: u32, step: u32, rows: u64, deletes_one_in: u64, ttl_s: Option<u32>) {
        let mut writes = vec![];
        for n in 0..rows {
            self.writes += 1;
            self.world.now_us += 1_000;
            // The number of partitions, 200, is not a multiple of the steps, so that all rows are reached.
            let at = u64::from(first) + n * u64::from(step);
            let place =
                ((at % u64::from(PARTITIONS)) as u32 * 300, (at / u64::from(PARTITIONS)) as u32 % ROWS);
            let cell = match ttl_s {
                _ if self.writes.is_multiple_of(deletes_one_in) => Cell::delete(self.world.now_us),
                Some(ttl_s) if n % 3 == 0 => Cell::expiring(self.world.now_us, self.writes, ttl_s),
                _ => Cell::write(self.world.now_us, self.writes),
            };
            self.model.insert(place, cell);
            writes.push((place, cell));
        }
        self.world.flush(&self.strategy, writes);
    }

    fn check(&self) {
        self.world.check_disjoint();
        let now_s = self.world.now_s();
        let expect: BTreeMap<RowKey, u64> =
            self.model.iter().filter_map(|(place, cell)| Some((*place, cell.read(now_s)?))).collect();
        assert_eq!(self.world.content(), expect);
    }

    fn view<'a>(&'a self, sstables: &'a [SSTableView]) -> TableView<'a> {
        TableView {
            flush_bytes: FLUSH_BYTES_MAX,
            sampled: self.sampled.as_ref(),
            ..self.world.view(sstables)
        }
    }

    /// Runs one job; returns false if there is none. The job must fit into the free space.
    fn compact(&mut self) -> bool {
        let sstables = self.world.sstables();
        if let Some(wanted) = self.strategy.wants_sample(&self.view(&sstables)) {
            self.sampled = Some(self.world.sample(&wanted));
        }
        let mut strategy = self.strategy.clone();
        let view = self.view(&sstables);
        let Some(plan) = strategy.next(&view) else { return false };
        let needs_bytes = plan.needs_bytes(&view).expect("its inputs are there");
        assert!(needs_bytes <= view.disk.free_bytes, "{needs_bytes} of {:?}: {plan:?}", view.disk);
        let before = self.world.totals.peak_bytes;
        self.world.totals.peak_bytes = 0;
        let bytes = self.world.bytes();
        self.world.run_plan(&mut strategy, &plan);
        (self.strategy, self.sampled) = (strategy, None);
        let peak_bytes = self.world.totals.peak_bytes;
        assert!(peak_bytes <= bytes + needs_bytes, "{peak_bytes} at most, {bytes} + {needs_bytes} said");
        self.world.totals.peak_bytes = peak_bytes.max(before);
        true
    }

    fn free_and_reserve(&self) -> (u64, u64) {
        let sstables = self.world.sstables();
        let view = self.view(&sstables);
        (view.disk.free_bytes, self.strategy.reserve_bytes(&view))
    }

    /// Runs jobs until the reserve is free. It is an error if there are not enough jobs.
    fn make_room(&mut self) {
        for jobs in 0.. {
            let (free, reserve) = self.free_and_reserve();
            if free >= reserve {
                break;
            }
            assert!(jobs < 1000 && self.compact(), "{free} of {reserve} are free after {jobs} jobs");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No data is lost or resurrected, runs stay free of overlaps, jobs take only free SSTables and not more
    /// space than planned, and in the end there is no further job.
    #[test]
    fn what_is_read_stays_the_same(
        ops in prop::collection::vec(op(), 1..60),
        collection in 0..3u8,
        overlap_threshold in prop_oneof![Just(0.0), Just(0.2), Just(0.5)],
        gc_grace_s in prop_oneof![Just(0u32), Just(1_000), Just(1_000_000)],
        has_sketches in any::<bool>(),
        enforce in any::<bool>(),
    ) {
        let mut trial = Trial::new(options(collection, overlap_threshold), gc_grace_s, has_sketches);
        trial.world.enforce_min_threshold = enforce;
        let mut busy = None;
        for op in ops {
            match op {
                Op::Flush { first, step, rows, deletes_one_in, ttl_s } => {
                    trial.flush(first, step, rows, deletes_one_in, ttl_s);
                }
                Op::Wait { seconds } => trial.world.now_us += i64::from(seconds) * 1_000_000,
                Op::Compact { jobs } => {
                    for _ in 0..jobs {
                        trial.compact();
                        trial.check();
                    }
                }
                Op::Busy { index } => {
                    if let Some(id) = busy.take() {
                        trial.world.set_compacting(id, false);
                    }
                    let sstables = trial.world.sstables();
                    if let Some(sstable) = sstables.get(index % sstables.len().max(1)) {
                        busy = Some(sstable.id);
                        trial.world.set_compacting(sstable.id, true);
                    }
                }
            }
            trial.check();
        }
        if let Some(id) = busy {
            trial.world.set_compacting(id, false);
        }
        trial.world.run_until_quiet(&mut trial.strategy);
        trial.check();
    }

    /// The guarantee of `incremental::space`: the disk has space for all live data and all tombstones that
    /// must be kept (at most each row once), a flush, and three SSTables. Flushes wait for the reserve.
    #[test]
    fn a_disk_that_holds_what_lives_is_never_full(
        ops in prop::collection::vec(op(), 1..80),
        collection in 0..3u8,
        gc_grace_s in prop_oneof![Just(0u32), Just(1_000_000)],
        has_sketches in any::<bool>(),
        always_compacts in any::<bool>(),
    ) {
        let rows_bytes = u64::from(PARTITIONS * ROWS) * CELL_BYTES;
        let largest = SSTABLE_BYTES_MAX.max(FLUSH_BYTES_MAX);
        let mut trial = Trial::new(options(collection, 0.5), gc_grace_s, has_sketches);
        let capacity_bytes = rows_bytes + FLUSH_BYTES_MAX + 3 * largest;
        trial.world.capacity_bytes = capacity_bytes;
        for op in ops {
            match op {
                Op::Flush { first, step, rows, deletes_one_in, ttl_s } => {
                    trial.make_room();
                    trial.flush(first, step, rows, deletes_one_in, ttl_s);
                }
                Op::Wait { seconds } => trial.world.now_us += i64::from(seconds) * 1_000_000,
                Op::Compact { jobs } => _ = (0..jobs).all(|_| trial.compact()),
                Op::Busy { .. } if always_compacts => while trial.compact() {},
                Op::Busy { .. } => {}
            }
            let peak_bytes = trial.world.totals.peak_bytes;
            prop_assert!(peak_bytes <= capacity_bytes, "{peak_bytes} of {capacity_bytes}");
        }
        trial.check();
        trial.world.run_until_quiet(&mut trial.strategy);
        trial.check();
    }
}

/// Writes every row `times` times in scattered order, on a disk of this size. Returns the bytes written per
/// byte flushed, and the largest space divided by the live bytes.
fn overwrite(options: IncrementalOptions, times: u64, capacity_bytes: u64, has_sketches: bool) -> (f64, f64) {
    let mut trial = Trial::new(options, 0, has_sketches);
    trial.world.capacity_bytes = capacity_bytes;
    let rows = u64::from(PARTITIONS * ROWS);
    for at in (0..rows * times).step_by(50) {
        trial.make_room();
        // 7 and the number of rows have no common factor.
        let writes: Vec<(RowKey, Cell)> = (at..at + 50)
            .map(|n| {
                let row = (n * 7 % rows) as u32;
                let place = (row % PARTITIONS * 300, row / PARTITIONS);
                (place, Cell::write(trial.world.now_us + n as i64, n))
            })
            .collect();
        trial.model.extend(writes.iter().copied());
        trial.world.flush(&trial.strategy, writes);
        trial.compact();
    }
    trial.check();
    let (totals, live_bytes) = (&trial.world.totals, trial.world.live_bytes());
    assert_eq!(live_bytes, rows * CELL_BYTES);
    (
        totals.compacted_bytes as f64 / totals.flushed_bytes as f64,
        totals.peak_bytes as f64 / live_bytes as f64,
    )
}

#[test]
fn all_rows_fifteen_times_on_a_disk_hardly_larger_than_they_are() {
    let live_bytes = u64::from(PARTITIONS * ROWS) * CELL_BYTES;
    let tight_bytes = live_bytes + 5_000 + 3 * SSTABLE_BYTES_MAX.max(5_000);
    for has_sketches in [true, false] {
        let (written, space) = overwrite(options(0, 0.5), 15, tight_bytes, has_sketches);
        assert!(space <= tight_bytes as f64 / live_bytes as f64, "{space:.2} times the space");
        assert!(written < 20.0, "{written:.1} bytes written for each");
    }
    let (written, space) = overwrite(options(0, 0.5), 15, 1 << 40, true);
    assert!(space < 2.0 && written < 6.0, "{space:.2} times the space, {written:.1} bytes written");
    let peers = IncrementalOptions { space_amplification_goal: None, ..options(0, 0.0).as_the_peers() };
    let (_, space) = overwrite(peers, 15, 1 << 40, true);
    assert!(space > 2.0, "the peers take {space:.2} times the space");
}

/// Examples 1 and 2 of the talk that proposed the strategy (`examples/strategies.rs` prints more of them).
#[test]
fn hybrid_writes_as_size_tiered_does_without_its_peaks() {
    let incremental = |load: WriteLoad, fragments| {
        let options = IncrementalOptions {
            fragment_bytes: load.live_bytes() / fragments,
            ..IncrementalOptions::default()
        };
        Timeline::run(load, &mut Incremental::new(options), 1)
    };
    let times_live =
        |load: WriteLoad, outcome: &SimulatedRun| outcome.peak_bytes as f64 / load.live_bytes() as f64;

    let load = WriteLoad { partitions: 1 << 14, flush_bytes: (300 << 14) / 256, ..WriteLoad::write_once() };
    let (ours, tiered) = (incremental(load, 256), Timeline::run(load, &mut SizeTiered::default(), 1));
    assert!(ours.write_amplification() < 1.15 * tiered.write_amplification(), "{ours:?}");
    let (ours, tiered) = (times_live(load, &ours), times_live(load, &tiered));
    assert!(ours < 1.1 && tiered > 1.6, "{ours:.2} times the space, size-tiered {tiered:.2}");

    let load = WriteLoad { partitions: 1 << 14, flush_bytes: (300 << 14) / 36, ..WriteLoad::overwrite() };
    let (ours, tiered) = (incremental(load, 120), Timeline::run(load, &mut SizeTiered::default(), 1));
    let (ours, tiered) = (times_live(load, &ours), times_live(load, &tiered));
    assert!(ours < 2.0 && tiered > 4.0, "{ours:.2} times the space, size-tiered {tiered:.2}");
}
