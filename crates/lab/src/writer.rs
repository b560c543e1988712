//! Draws the rows of memtables, and knows which rows are live.
//!
//! A memtable is drawn when it is sealed, from the number of its writes: rows of a pattern by
//! [`crate::population`], appended and sequential rows by their position. Each sampled row gets a time
//! between the first and the last write of the memtable. The writer also keeps the truth, the last write of
//! each sampled row, to which the disk space is compared.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use base::rng::Rng;
use model::NO_DELETION_TIME_S;

use crate::population::{Bin, Population, normal, unit};
use crate::sketch::{Entry, RowId, reconcile};
use crate::workload::{Pattern, Phase, Table};

/// `gauss(1..n)` of cassandra-stress has its bounds three deviations from its mean.
const DEVIATION: f64 = 1.0 / 6.0;
const EXPONENT: f64 = 0.99;
/// Bytes of a write in the commit log in addition to its row.
const LOG_ENTRY_BYTES: f64 = 54.0;
/// Sampled rows read at once to estimate the cost of reads.
const PICKS_TRIED: usize = 400;

/// The last write of a sampled row.
#[derive(Clone, Copy, Debug)]
struct Latest {
    bytes: f32,
    /// 0: never written, or deleted.
    dies_s: u32,
}

/// A memtable that takes no more writes.
pub struct Memtable {
    pub entries: Vec<Entry>,
    pub bytes: f64,
}

/// The patterns of a phase, prepared.
pub struct PhasePlan {
    bins: Vec<Bin>,
    read_bins: Vec<Bin>,
    /// Writes that fill a memtable.
    pub writes_per_flush: f64,
    pub log_bytes_per_write: f64,
}

/// See the head of this file.
pub struct Writer {
    pub population: Population,
    table: Table,
    rng: Rng,
    /// Sampled rows in the order of sequential writes: the slot, and the real rows up to its end.
    order: Vec<(u32, u32, f64)>,
    latest: Vec<Latest>,
    /// Real rows written by sequential writes, or appended.
    cursor: f64,
    /// Of appended rows: the rows that a sampled one stands for.
    append_weight: f64,
    /// Deletions of appended rows, by their time in microseconds.
    to_delete: VecDeque<(i64, RowId)>,
    /// Appended rows that will expire or be deleted: the time, and the bits of the bytes.
    mortal: BinaryHeap<Reverse<(u32, u32)>>,
    mortal_bytes: f64,
    immortal_bytes: f64,
}

impl Writer {
    /// `table` is the part of one shard. `append_weight`: the number of appended
    /// rows for each row that is sampled.
    pub fn new(table: Table, sample: f64, append_weight: f64, is_append: bool, mut rng: Rng) -> Self {
        let rows = if is_append { 1.0 } else { table.rows_per_partition.0 };
        let population = Population::new(table.partitions.0, rows, sample);
        let mut order = vec![];
        let mut latest = vec![];
        if !is_append {
            let rows_each = population.rows_each();
            let indexes = 0..population.len() as u32;
            order = indexes.flat_map(|index| (0..rows_each).map(move |row| (index, row, 0.0))).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, rng.index(at + 1));
            }
            let mut end = 0.0;
            for (index, _, row_end) in &mut order {
                end += population.weight(*index as usize);
                *row_end = end;
            }
            latest = vec![Latest { bytes: 0.0, dies_s: 0 }; order.len()];
        }
        Self {
            population,
            table,
            rng,
            order,
            latest,
            cursor: 0.0,
            append_weight,
            to_delete: VecDeque::new(),
            mortal: BinaryHeap::new(),
            mortal_bytes: 0.0,
            immortal_bytes: 0.0,
        }
    }

    /// Prepares a phase. `flush_bytes` and `log_bytes` are the limits of a memtable and of the commit log.
    pub fn plan(&self, phase: &Phase, flush_bytes: f64, log_bytes: f64) -> PhasePlan {
        let bins = |pattern| {
            let (exponent, deviation) =
                (phase.exponent.unwrap_or(EXPONENT), phase.deviation.unwrap_or(DEVIATION));
            self.population.bins(pattern, exponent, deviation)
        };
        let (row, tombstone) = (self.table.row_bytes.0, self.table.tombstone_bytes.0);
        let bins_of_writes = bins(phase.pattern);
        let each = row * (1.0 - phase.deletes) + tombstone * phase.deletes;
        let log_bytes_per_write = each + LOG_ENTRY_BYTES;
        let most = log_bytes / log_bytes_per_write;
        let writes_per_flush = match phase.pattern {
            Pattern::Append => {
                let deletes = if phase.delete_after.is_some() { tombstone } else { 0.0 };
                flush_bytes / (row + deletes)
            }
            Pattern::Sequential => {
                let writes = flush_bytes / each;
                if writes > self.population.rows() { most } else { writes }
            }
            Pattern::Uniform | Pattern::Gauss | Pattern::Zipf => {
                let bytes = |writes: f64| {
                    let distinct = |bin: &Bin| bin.rows * -(-bin.probability * writes).exp_m1();
                    bins_of_writes.iter().map(distinct).sum::<f64>() * each
                };
                let (mut low, mut high) = (1.0, most.max(2.0));
                if bytes(high) > flush_bytes {
                    for _ in 0..60 {
                        let middle = f64::sqrt(low * high);
                        if bytes(middle) < flush_bytes { low = middle } else { high = middle }
                    }
                }
                high
            }
        };
        PhasePlan {
            bins: bins_of_writes,
            read_bins: bins(phase.reads()),
            writes_per_flush: writes_per_flush.min(most).max(1.0),
            log_bytes_per_write,
        }
    }

    /// The memtable of `writes` writes between two times, in microseconds since 1970.
    pub fn fill(
        &mut self,
        phase: &Phase,
        plan: &PhasePlan,
        writes: f64,
        from_us: i64,
        to_us: i64,
    ) -> Memtable {
        let mut entries = match phase.pattern {
            Pattern::Append => self.append(phase, writes, from_us, to_us),
            Pattern::Sequential => self.sequential(phase, writes, from_us, to_us),
            Pattern::Uniform | Pattern::Gauss | Pattern::Zipf => {
                self.drawn(phase, plan, writes, from_us, to_us)
            }
        };
        reconcile(&mut entries);
        let bytes = crate::sketch::bytes(&entries);
        Memtable { entries, bytes }
    }

    fn entry(&mut self, place: RowId, weight: f64, timestamp_us: i64, deletes: f64) -> Entry {
        let written_s = seconds(timestamp_us);
        if deletes > 0.0 && unit(&mut self.rng) < deletes {
            return Entry::tombstone(place, timestamp_us, written_s, weight * self.table.tombstone_bytes.0);
        }
        let mut mean = self.table.row_bytes.0;
        if self.table.row_bytes_deviation.0 > 0.0 {
            // The entry stands for the mean of `weight` rows.
            mean += self.table.row_bytes_deviation.0 * normal(&mut self.rng) / weight.max(1.0).sqrt();
        }
        let dies_s = self.table.ttl.map_or(NO_DELETION_TIME_S, |ttl| written_s.saturating_add(ttl.0 as u32));
        Entry::row(place, timestamp_us, dies_s, mean.max(1.0) * weight)
    }

    fn note(&mut self, entry: &Entry) {
        let latest = &mut self.latest[self.population.slot(entry.place)];
        if latest.dies_s == NO_DELETION_TIME_S {
            self.immortal_bytes -= f64::from(latest.bytes);
        }
        let dies_s = if entry.is_tombstone() { 0 } else { entry.dies_s };
        *latest = Latest { bytes: entry.bytes() as f32, dies_s };
        if dies_s == NO_DELETION_TIME_S {
            self.immortal_bytes += f64::from(latest.bytes);
        }
    }

    fn drawn(
        &mut self,
        phase: &Phase,
        plan: &PhasePlan,
        writes: f64,
        from_us: i64,
        to_us: i64,
    ) -> Vec<Entry> {
        let rows_each = u64::from(self.population.rows_each());
        let mut entries = vec![];
        for bin in &plan.bins {
            let expected = bin.probability * writes;
            let rows = (bin.to - bin.from) as u64 * rows_each;
            let mut row = 0u64;
            loop {
                // The number of rows without a write before the next one with a write is geometric.
                let skipped = -(1.0 - unit(&mut self.rng)).ln() / expected;
                row = row.saturating_add(skipped as u64);
                if row >= rows {
                    break;
                }
                let index = bin.from + (row / rows_each) as usize;
                let place = self.population.place(index, (row % rows_each) as u32);
                let timestamp_us = from_us + (unit(&mut self.rng) * (to_us - from_us) as f64) as i64;
                let entry = self.entry(place, self.population.weight(index), timestamp_us, phase.deletes);
                self.note(&entry);
                entries.push(entry);
                row += 1;
            }
        }
        entries
    }

    fn sequential(&mut self, phase: &Phase, writes: f64, from_us: i64, to_us: i64) -> Vec<Entry> {
        let rows = self.population.rows();
        let begin = self.cursor;
        self.cursor = begin + writes;
        // Of more than one round, only the last write of each row matters.
        let begin = begin.max(self.cursor - rows);
        let mut entries = vec![];
        let mut round = (begin / rows).floor();
        while round * rows < self.cursor {
            let (low, high) = (begin - round * rows, self.cursor - round * rows);
            let from = self.order.partition_point(|(_, _, end)| *end <= low);
            let to = self.order.partition_point(|(_, _, end)| *end <= high);
            for at in from..to {
                let (index, row, end) = self.order[at];
                let part = ((end - low) / (high - low).max(1.0)).clamp(0.0, 1.0);
                let timestamp_us = from_us + (part * (to_us - from_us) as f64) as i64;
                let place = self.population.place(index as usize, row);
                let weight = self.population.weight(index as usize);
                let entry = self.entry(place, weight, timestamp_us, phase.deletes);
                self.note(&entry);
                entries.push(entry);
            }
            round += 1.0;
        }
        entries
    }

    fn append(&mut self, phase: &Phase, writes: f64, from_us: i64, to_us: i64) -> Vec<Entry> {
        let weight = self.append_weight;
        let (first, end) =
            ((self.cursor / weight).ceil() as u32, ((self.cursor + writes) / weight).ceil() as u32);
        let begin = self.cursor;
        self.cursor += writes;
        let mut entries = vec![];
        for number in first..end {
            let part = ((f64::from(number) * weight - begin) / writes).clamp(0.0, 1.0);
            let mut timestamp_us = from_us + (part * (to_us - from_us) as f64) as i64;
            if phase.late > 0.0 && unit(&mut self.rng) < phase.late {
                let late_s = phase.late_by.map_or(0.0, |by| by.0) * unit(&mut self.rng);
                timestamp_us -= (late_s * 1e6) as i64;
            }
            let index = self.rng.index(self.population.len());
            let place = self.population.place(index, number);
            let entry = self.entry(place, weight, timestamp_us, 0.0);
            let mut dies_s = entry.dies_s;
            if let Some(after) = phase.delete_after {
                let due_us = timestamp_us + (after.0 * 1e6) as i64;
                dies_s = dies_s.min(seconds(due_us));
                self.to_delete.push_back((due_us, place));
            }
            if dies_s == NO_DELETION_TIME_S {
                self.immortal_bytes += entry.bytes();
            } else {
                self.mortal_bytes += entry.bytes();
                self.mortal.push(Reverse((dies_s, (entry.bytes() as f32).to_bits())));
            }
            entries.push(entry);
        }
        let bytes = weight * self.table.tombstone_bytes.0;
        while self.to_delete.front().is_some_and(|(due_us, _)| *due_us <= to_us) {
            let (due_us, place) = self.to_delete.pop_front().expect("there is one");
            entries.push(Entry::tombstone(place, due_us, seconds(due_us), bytes));
        }
        entries
    }

    /// Bytes before compression of the rows that reads return at `now_s`.
    pub fn live_bytes(&mut self, now_s: u32) -> f64 {
        while self.mortal.peek().is_some_and(|Reverse((dies_s, _))| *dies_s <= now_s) {
            let Reverse((_, bits)) = self.mortal.pop().expect("there is one");
            self.mortal_bytes -= f64::from(f32::from_bits(bits));
        }
        let mut expiring_bytes = 0.0;
        if self.table.ttl.is_some() {
            let is_live = |latest: &&Latest| (now_s + 1..NO_DELETION_TIME_S).contains(&latest.dies_s);
            expiring_bytes = self.latest.iter().filter(is_live).map(|latest| f64::from(latest.bytes)).sum();
        }
        expiring_bytes + self.mortal_bytes.max(0.0) + self.immortal_bytes.max(0.0)
    }

    /// Whether reads at `now_s` return the row; always true for appended rows.
    pub fn is_live(&self, place: RowId, now_s: u32) -> bool {
        self.latest.is_empty() || self.latest[self.population.slot(place)].dies_s > now_s
    }

    /// Rows that reads of the phase choose, at most `count`.
    pub fn picks(&self, plan: &PhasePlan, count: usize, now_s: u32, rng: &mut Rng) -> Vec<RowId> {
        let picks = (0..PICKS_TRIED).map(|_| self.population.pick(&plan.read_bins, rng));
        picks.filter(|place| self.is_live(*place, now_s)).take(count).collect()
    }
}

fn seconds(us: i64) -> u32 {
    u32::try_from(us / 1_000_000).unwrap_or(0)
}
