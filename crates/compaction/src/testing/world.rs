//! A table of a few thousand cells that runs plans, to test strategies.
//!
//! It is a model, not a store: a cell has a fixed number of bytes, and an SSTable is a sorted list of cells.
//! The model does the work of the engine (merging, purging, splitting by the layout, releasing early) and
//! panics if a plan breaks a rule. It counts the bytes written and the peak of the space.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::hyperloglog::{HyperLogLog, key_hash};
use model::{NO_DELETION_TIME_S, PartitionKey, Tombstone};

use super::keys::key;
use crate::plan::{Finished, Layout, Plan, RunPiece, Split};
use crate::purge::{self, GcBefore, Outside, PurgeHorizon, TombstoneGc};
use crate::sample::{SamplePlan, SampledGroup, SampledOverlap};
use crate::sstable_id::{RunId, SSTableId};
use crate::strategy::Strategy;
use crate::view::{DiskView, SSTableView, TableView};

/// A partition, as its position on the ring (see [`key`]), and a row in it.
pub type RowKey = (u32, u32);

/// The last write of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The time of the write, which decides between two cells.
    pub timestamp_us: i64,
    /// `None`: a tombstone.
    pub value: Option<u64>,
    /// Time of deletion or expiry in seconds; [`NO_DELETION_TIME_S`]: never.
    pub dies_s: u32,
}

impl Cell {
    /// A live cell.
    pub fn write(timestamp_us: i64, value: u64) -> Self {
        Self { timestamp_us, value: Some(value), dies_s: NO_DELETION_TIME_S }
    }

    /// A tombstone.
    pub fn delete(timestamp_us: i64) -> Self {
        Self { timestamp_us, value: None, dies_s: (timestamp_us / 1_000_000) as u32 }
    }

    /// A cell that expires `ttl_s` seconds after `timestamp_us`.
    pub fn expiring(timestamp_us: i64, value: u64, ttl_s: u32) -> Self {
        Self { timestamp_us, value: Some(value), dies_s: (timestamp_us / 1_000_000) as u32 + ttl_s }
    }

    /// The value that a read returns at this time.
    pub fn read(&self, now_s: u32) -> Option<u64> {
        self.value.filter(|_| self.dies_s > now_s)
    }

    fn is_dead(&self, now_s: u32) -> bool {
        self.value.is_none() || self.dies_s <= now_s
    }

    fn wins_over(&self, other: &Self) -> bool {
        (self.timestamp_us, self.value.is_none(), self.value)
            > (other.timestamp_us, other.value.is_none(), other.value)
    }
}

#[derive(Clone, Debug)]
struct Stored {
    view: SSTableView,
    /// Sorted by place.
    cells: Rc<Vec<(RowKey, Cell)>>,
}

impl Outside for &Stored {
    fn id(&self) -> SSTableId {
        self.view.id
    }

    fn first(&self) -> &PartitionKey {
        &self.view.first
    }

    fn last(&self) -> &PartitionKey {
        &self.view.last
    }

    fn min_live_timestamp_us(&self) -> i64 {
        self.view.min_timestamp_us
    }

    fn may_contain(&self, wanted: &PartitionKey) -> bool {
        let at = self.cells.partition_point(|((partition, _), _)| key(*partition) < wanted);
        self.cells.get(at).is_some_and(|((partition, _), _)| key(*partition) == wanted)
    }
}

/// Counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that jobs wrote.
    pub compacted_bytes: u64,
    /// The largest size of the table at any time, including unreleased inputs.
    pub peak_bytes: u64,
    /// The number of jobs.
    pub jobs: u64,
}

/// A table in memory that applies plans, see the head of this file.
#[derive(Clone, Debug)]
pub struct World {
    /// The present time.
    pub now_us: i64,
    /// Bytes of each cell on disk.
    pub cell_bytes: u64,
    /// Seconds after which a tombstone is droppable.
    pub gc_grace_s: u32,
    /// Whether merges of fewer than `min_threshold` runs are forbidden.
    pub enforce_min_threshold: bool,
    /// Whether SSTables have sketches of their partitions.
    pub has_sketches: bool,
    /// Whether the content is read before and after each job and compared.
    pub checks_reads: bool,
    /// Size of the disk.
    pub capacity_bytes: u64,
    /// Sums since the start.
    pub totals: Totals,
    sstables: Vec<Stored>,
    flush_bytes: u64,
    next_id: u64,
    next_run: u128,
    decisions: u64,
}

impl Default for World {
    fn default() -> Self {
        Self::new(1 << 20)
    }
}

impl World {
    /// An empty table at time 1,000,000,000 s. `cell_bytes` is the size of a cell.
    pub fn new(cell_bytes: u64) -> Self {
        Self {
            now_us: 1_000_000_000_000_000,
            cell_bytes,
            gc_grace_s: 864_000,
            enforce_min_threshold: false,
            has_sketches: false,
            checks_reads: true,
            capacity_bytes: 1 << 50,
            totals: Totals::default(),
            sstables: vec![],
            flush_bytes: 0,
            next_id: 1,
            next_run: 1,
            decisions: 0,
        }
    }

    /// The present time in seconds since 1970.
    pub fn now_s(&self) -> u32 {
        (self.now_us / 1_000_000) as u32
    }

    /// Before which deletion time a tombstone is droppable now.
    pub fn gc_before(&self) -> GcBefore {
        GcBefore::new(TombstoneGc::Timeout { gc_grace_s: self.gc_grace_s }, self.now_s(), None)
    }

    /// The SSTables as values for [`World::view`].
    pub fn sstables(&self) -> Vec<SSTableView> {
        let gc_before_s = self.gc_before().before_s;
        self.sstables
            .iter()
            .map(|stored| {
                let droppable = stored.cells.iter().filter(|(_, cell)| cell.dies_s < gc_before_s).count();
                let droppable_ratio = droppable as f64 / stored.cells.len() as f64;
                SSTableView { droppable_ratio, ..stored.view.clone() }
            })
            .collect()
    }

    /// The table as a strategy sees it. `sstables` are those that [`Self::sstables`] returned.
    pub fn view<'a>(&self, sstables: &'a [SSTableView]) -> TableView<'a> {
        TableView {
            now_us: self.now_us,
            sstables,
            outside: &[],
            gc_before_s: self.gc_before().before_s,
            memtable_min_timestamp_us: None,
            jobs_running: 0,
            flush_bytes: self.flush_bytes,
            ring_share: 1.0,
            enforce_min_threshold: self.enforce_min_threshold,
            disk: DiskView::new(self.capacity_bytes, self.capacity_bytes.saturating_sub(self.bytes())),
            sampled: None,
            seed: self.decisions,
        }
    }

    /// Bytes of all SSTables, including inputs that are not released yet.
    pub fn bytes(&self) -> u64 {
        self.sstables.iter().map(|stored| stored.view.disk_bytes).sum()
    }

    /// Bytes of the rows that a read returns.
    pub fn live_bytes(&self) -> u64 {
        self.content().len() as u64 * self.cell_bytes
    }

    /// All rows that a read returns.
    pub fn content(&self) -> BTreeMap<RowKey, u64> {
        let merged = merge(self.sstables.iter().map(|stored| stored.cells.as_slice()));
        merged.into_iter().filter_map(|(place, cell)| Some((place, cell.read(self.now_s())?))).collect()
    }

    /// The number of SSTables that contain the partition.
    pub fn sstables_of(&self, partition: u32) -> usize {
        self.sstables.iter().filter(|stored| stored.may_contain(key(partition))).count()
    }

    /// Writes cells through a memtable into one or more SSTables.
    pub fn flush(&mut self, strategy: &dyn Strategy, writes: impl IntoIterator<Item = (RowKey, Cell)>) {
        let mut memtable: BTreeMap<RowKey, Cell> = BTreeMap::new();
        for (place, cell) in writes {
            match memtable.get_mut(&place) {
                Some(present) if !cell.wins_over(present) => {}
                Some(present) => *present = cell,
                None => _ = memtable.insert(place, cell),
            }
        }
        let cells: Vec<(RowKey, Cell)> = memtable.into_iter().collect();
        self.flush_bytes = cells.len() as u64 * self.cell_bytes;
        self.totals.flushed_bytes += self.flush_bytes;
        let layout = strategy.layout(0);
        let run = self.new_run();
        for piece in self.cut(cells, &layout) {
            let stored = self.store(piece, &layout, run);
            self.sstables.push(stored);
        }
        self.note_peak();
    }

    fn note_peak(&mut self) {
        self.totals.peak_bytes = self.totals.peak_bytes.max(self.bytes());
    }

    fn new_run(&mut self) -> RunId {
        self.next_run += 1;
        RunId(self.next_run)
    }

    fn store(&mut self, cells: Vec<(RowKey, Cell)>, layout: &Layout, run: RunId) -> Stored {
        let run = if layout.is_run { run } else { self.new_run() };
        let id = SSTableId(self.next_id);
        self.next_id += 1;
        let timestamps = || cells.iter().map(|(_, cell)| cell.timestamp_us);
        let mut partitions: Vec<u32> = cells.iter().map(|((partition, _), _)| *partition).collect();
        partitions.dedup();
        let sketch = || {
            let mut sketch = HyperLogLog::new();
            partitions.iter().for_each(|partition| sketch.offer(key_hash(key(*partition).bytes())));
            Rc::new(sketch)
        };
        let bytes = cells.len() as u64 * self.cell_bytes;
        let view = SSTableView {
            id,
            run,
            data_bytes: bytes,
            disk_bytes: bytes,
            first: key(partitions[0]).clone(),
            last: key(partitions[partitions.len() - 1]).clone(),
            level: layout.level,
            min_timestamp_us: timestamps().min().expect("an SSTable has cells"),
            max_timestamp_us: timestamps().max().expect("an SSTable has cells"),
            max_deletion_time_s: cells.iter().map(|(_, cell)| cell.dies_s).max().expect("cells"),
            written_s: self.now_s(),
            may_delete: true,
            droppable_ratio: 0.0,
            partitions: partitions.len() as u64,
            keys: self.has_sketches.then(sketch),
            compacting: false,
            frozen: false,
            is_repaired: false,
            reads_per_s: None,
        };
        Stored { view, cells: Rc::new(cells) }
    }

    /// Divides the output; the pieces are in the order in which they are sealed.
    fn cut(&self, cells: Vec<(RowKey, Cell)>, layout: &Layout) -> Vec<Vec<(RowKey, Cell)>> {
        if let Split::Windows { window_us, windows_max } = &layout.split {
            let mut windows: BTreeMap<i64, Vec<(RowKey, Cell)>> = BTreeMap::new();
            for (place, cell) in cells {
                let window = cell.timestamp_us.div_euclid(*window_us) * window_us;
                let window = if windows.contains_key(&window) || windows.len() < *windows_max {
                    window
                } else {
                    *windows.keys().min_by_key(|open| open.abs_diff(window)).expect("some are open")
                };
                windows.entry(window).or_default().push((place, cell));
            }
            return windows.into_values().collect();
        }
        let mut pieces: Vec<Vec<(RowKey, Cell)>> = vec![];
        for (place, cell) in cells {
            let is_cut = pieces.last().is_some_and(|piece| {
                let last = piece[piece.len() - 1].0;
                let is_full = layout.max_bytes.is_some_and(|max| piece.len() as u64 * self.cell_bytes >= max);
                let is_next = place.0 != last.0;
                let is_split = match &layout.split {
                    Split::Tokens(tokens) => {
                        let part = |p: u32| tokens.partition_point(|token| *token < key(p).token());
                        part(last.0) != part(place.0)
                    }
                    Split::Runs(runs) => RunPiece::of(runs, key(last.0)) != RunPiece::of(runs, key(place.0)),
                    _ => false,
                };
                is_next && (is_full || is_split)
            });
            if is_cut || pieces.is_empty() {
                pieces.push(vec![]);
            }
            pieces.last_mut().expect("one was begun").push((place, cell));
        }
        pieces
    }

    /// Runs a plan, reports it to the strategy, and returns the new SSTables.
    ///
    /// # Panics
    /// If an SSTable of the plan does not exist, is not free or occurs twice, or if the job changes the
    /// content of the table.
    pub fn run_plan(&mut self, strategy: &mut dyn Strategy, plan: &Plan) -> Vec<SSTableId> {
        let before = self.checks_reads.then(|| self.content());
        let mut named: Vec<SSTableId> = plan.inputs.iter().chain(&plan.expired).copied().collect();
        assert!(!named.is_empty(), "an empty plan: {plan:?}");
        for id in &named {
            let stored = self.sstables.iter().find(|stored| stored.view.id == *id);
            let stored = stored.unwrap_or_else(|| panic!("{id:?} does not exist: {plan:?}"));
            assert!(stored.view.is_free(), "{id:?} is not free: {plan:?}");
        }
        named.sort_unstable();
        assert!(named.windows(2).all(|pair| pair[0] != pair[1]), "one twice: {plan:?}");
        let is_input = |stored: &Stored| plan.inputs.contains(&stored.view.id);
        let input_level =
            self.sstables.iter().filter(|s| is_input(s)).map(|s| s.view.level).min().unwrap_or(0);
        self.sstables.retain(|stored| !plan.expired.contains(&stored.view.id));

        let cells = self.merged(plan);
        let run = self.new_run();
        let bytes_of = |cells: usize| cells as u64 * self.cell_bytes;
        let input_bytes = self.sstables.iter().filter(|s| is_input(s)).map(|s| bytes_of(s.cells.len())).sum();
        let output_bytes = bytes_of(cells.len());
        let pieces = self.cut(cells, &plan.layout);
        let last_key = pieces.last().map(|piece| key(piece[piece.len() - 1].0.0).clone());
        let mut made = vec![];
        for piece in pieces {
            let end = key(piece[piece.len() - 1].0.0);
            let run = match &plan.layout.split {
                Split::Runs(runs) => {
                    let at =
                        RunPiece::of(runs, end).unwrap_or_else(|| panic!("no run for {end:?}: {plan:?}"));
                    runs[at].run
                }
                _ => run,
            };
            let stored = self.store(piece, &plan.layout, run);
            self.totals.compacted_bytes += stored.view.disk_bytes;
            made.push(stored.view.id);
            self.sstables.push(stored);
            self.note_peak();
            if plan.release_early {
                self.sstables.retain(|s| !(plan.inputs.contains(&s.view.id) && s.view.last <= *end));
            }
        }
        self.sstables.retain(|stored| !plan.inputs.contains(&stored.view.id));
        self.totals.jobs += 1;
        if let Some(before) = before {
            assert_eq!(self.content(), before, "what is read has changed: {plan:?}");
        }
        strategy.finished(&Finished { plan, input_level, last_key, input_bytes, output_bytes });
        made
    }

    /// The merge of the inputs without the cells that may be purged.
    fn merged(&self, plan: &Plan) -> Vec<(RowKey, Cell)> {
        let (inputs, outside): (Vec<&Stored>, Vec<&Stored>) =
            self.sstables.iter().partition(|stored| plan.inputs.contains(&stored.view.id));
        let max_timestamp_us = inputs.iter().map(|s| s.view.max_timestamp_us).max().unwrap_or(i64::MIN);
        let mut horizon = PurgeHorizon::new(outside, max_timestamp_us);
        let (gc, now_s) = (self.gc_before(), self.now_s());
        let mut cells = merge(inputs.iter().map(|stored| stored.cells.as_slice()));
        cells.retain(|(partition, _), cell| {
            if !cell.is_dead(now_s) {
                return true;
            }
            let tombstone = Tombstone { timestamp_us: cell.timestamp_us, deletion_time_s: cell.dies_s };
            let limit = horizon.max_purgeable(key(*partition), None, |_| None);
            purge::blocks(tombstone, &gc, limit).is_some()
        });
        cells.into_iter().collect()
    }

    /// The next plan.
    pub fn decide(&mut self, strategy: &mut dyn Strategy) -> Option<Plan> {
        self.decisions += 1;
        let sstables = self.sstables();
        strategy.next(&self.view(&sstables))
    }

    /// Runs plans until there are no more, and returns their number.
    ///
    /// # Panics
    /// If the plans do not come to an end.
    pub fn run_until_quiet(&mut self, strategy: &mut dyn Strategy) -> usize {
        for jobs in 0..10_000 {
            let Some(plan) = self.decide(strategy) else { return jobs };
            self.run_plan(strategy, &plan);
        }
        panic!("{} does not come to rest", strategy.name());
    }

    /// Merges a sample.
    pub fn sample(&self, plan: &SamplePlan) -> SampledOverlap {
        let is_sampled = |((partition, _), _): &(RowKey, Cell)| {
            let token = key(*partition).token();
            plan.ranges.iter().any(|(start, end)| (*start..=*end).contains(&token))
        };
        let mut rows: BTreeMap<RowKey, u64> = BTreeMap::new();
        for (index, run) in plan.runs.iter().enumerate() {
            let sstables = self.sstables.iter().filter(|stored| stored.view.run == *run);
            for (place, _) in sstables.flat_map(|s| s.cells.iter()).filter(|cell| is_sampled(cell)) {
                *rows.entry(*place).or_default() |= 1 << index;
            }
        }
        let mut groups: BTreeMap<u64, SampledGroup> = BTreeMap::new();
        for members in rows.into_values() {
            let group =
                groups.entry(members).or_insert(SampledGroup { members, input_bytes: 0, output_bytes: 0 });
            group.input_bytes += u64::from(members.count_ones()) * self.cell_bytes;
            group.output_bytes += self.cell_bytes;
        }
        SampledOverlap { runs: plan.runs.clone(), groups: groups.into_values().collect() }
    }

    /// Marks or unmarks an SSTable as compacting.
    pub fn set_compacting(&mut self, id: SSTableId, compacting: bool) {
        for stored in self.sstables.iter_mut().filter(|stored| stored.view.id == id) {
            stored.view.compacting = compacting;
        }
    }

    /// # Panics
    /// If two SSTables of a level above 0, or two SSTables of a run, overlap.
    pub fn check_disjoint(&self) {
        let mut sorted: Vec<&SSTableView> = self.sstables.iter().map(|stored| &stored.view).collect();
        sorted.sort_by(|a, b| a.first.cmp(&b.first));
        for (at, one) in sorted.iter().enumerate() {
            for other in sorted[at + 1..].iter().take_while(|other| other.first <= one.last) {
                assert!(one.run != other.run, "{:?} and {:?} of one run overlap", one.id, other.id);
                assert!(
                    one.level == 0 || one.level != other.level,
                    "{:?} and {:?} of level {} overlap",
                    one.id,
                    other.id,
                    one.level
                );
            }
        }
    }
}

/// Merges cells: the last write of each row.
fn merge<'a>(inputs: impl IntoIterator<Item = &'a [(RowKey, Cell)]>) -> BTreeMap<RowKey, Cell> {
    let mut merged: BTreeMap<RowKey, Cell> = BTreeMap::new();
    for (place, cell) in inputs.into_iter().flatten() {
        let present = merged.entry(*place).or_insert(*cell);
        if cell.wins_over(present) {
            *present = *cell;
        }
    }
    merged
}
