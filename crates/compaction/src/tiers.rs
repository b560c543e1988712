//! Size tiers: which runs are of about the same size.
//!
//! A **run** is what a strategy of sizes takes for one file: an SSTable, or SSTables that lie one after the other.
//! Runs are sorted by size and cut into **buckets**; one bucket at a time is merged. Two ways to cut:
//!
//! - [`Bucketing::Guarded`] (ScyllaDB): a run joins the bucket before it if its size is between `bucket_low` and
//!   `bucket_high` of the bucket's average, or both are small; but not if it draws the average so far up that the
//!   bucket's smallest run would no longer belong. Runs count as small, and are lumped together, only when no small one
//!   was written lately: while flushes come in, small runs are tiered as large ones are.
//! - [`Bucketing::Average`] (Cassandra): the same by the average alone, and small ones are always lumped together.
//!
//! Both take O(n log n) for n runs.

use base::HashMap;

use crate::plan::Reason;
use crate::view::{RunId, SSTableId, SSTableView, TableView};

/// SSTables that count as one.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// In the order of their keys; at least one.
    pub sstables: Vec<&'a SSTableView>,
    /// Bytes before compression, all together.
    pub bytes: u64,
}

impl<'a> Run<'a> {
    pub fn of_one(sstable: &'a SSTableView) -> Self {
        Self { sstables: vec![sstable], bytes: sstable.data_bytes }
    }

    pub fn id(&self) -> RunId {
        self.sstables[0].run
    }

    pub fn max_timestamp_us(&self) -> i64 {
        self.sstables.iter().map(|sstable| sstable.max_timestamp_us).max().unwrap_or(i64::MIN)
    }

    pub fn min_timestamp_us(&self) -> i64 {
        self.sstables.iter().map(|sstable| sstable.min_timestamp_us).min().unwrap_or(i64::MAX)
    }

    /// When the newest of its SSTables was written.
    pub fn written_s(&self) -> u32 {
        self.sstables.iter().map(|sstable| sstable.written_s).max().unwrap_or(0)
    }
}

/// The SSTables grouped by their runs, in the order in which each run first appears.
pub fn runs<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Vec<Run<'a>> {
    let mut found: Vec<Run<'a>> = vec![];
    let mut at: HashMap<RunId, usize> = HashMap::default();
    for sstable in sstables {
        match at.get(&sstable.run) {
            Some(index) => {
                found[*index].bytes += sstable.data_bytes;
                found[*index].sstables.push(sstable);
            }
            None => {
                at.insert(sstable.run, found.len());
                found.push(Run::of_one(sstable));
            }
        }
    }
    for run in &mut found {
        run.sstables.sort_unstable_by(|a, b| a.first.cmp(&b.first));
    }
    found
}

/// The runs of which every SSTable is free.
pub fn free_runs<'a>(view: &TableView<'a>) -> Vec<Run<'a>> {
    let mut all = runs(view.sstables);
    all.retain(|run| run.sstables.iter().all(|sstable| sstable.is_free()));
    all
}

/// The ids of every SSTable of these runs.
pub fn ids<'r, 'a: 'r>(runs: impl IntoIterator<Item = &'r Run<'a>>) -> Vec<SSTableId> {
    runs.into_iter().flat_map(|run| &run.sstables).map(|sstable| sstable.id).collect()
}

/// Runs of about the same size.
#[derive(Clone, Debug)]
pub struct Bucket<'a> {
    /// By rising size; at least one.
    pub runs: Vec<Run<'a>>,
    pub average_bytes: u64,
}

impl<'a> Bucket<'a> {
    fn new(run: Run<'a>) -> Self {
        Self { average_bytes: run.bytes, runs: vec![run] }
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    fn push(&mut self, run: Run<'a>, average: f64) {
        self.average_bytes = average as u64;
        self.runs.push(run);
    }
}

/// How the sizes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucketing {
    /// As ScyllaDB does.
    Guarded,
    /// As Cassandra does.
    Average,
}

/// What strategies of sizes are told.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiering {
    pub bucketing: Bucketing,
    pub bucket_low: f64,
    pub bucket_high: f64,
    /// Smaller ones may be lumped together.
    pub min_sstable_bytes: u64,
    /// So long after a small one was written, small ones are not lumped together.
    pub min_sstable_age_s: u32,
    pub min_threshold: usize,
    pub max_threshold: usize,
}

impl Default for Tiering {
    fn default() -> Self {
        Self {
            bucketing: Bucketing::Guarded,
            bucket_low: 0.5,
            bucket_high: 1.5,
            min_sstable_bytes: 50 << 20,
            min_sstable_age_s: 3600,
            min_threshold: 4,
            max_threshold: 32,
        }
    }
}

impl Tiering {
    /// The runs in buckets of rising size.
    pub fn buckets<'a>(&self, mut runs: Vec<Run<'a>>, now_s: u32) -> Vec<Bucket<'a>> {
        runs.sort_by_key(|run| run.bytes);
        let lumps_small = match self.bucketing {
            Bucketing::Average => true,
            Bucketing::Guarded => !runs
                .iter()
                .take_while(|run| run.bytes < self.min_sstable_bytes)
                .any(|run| run.written_s().saturating_add(self.min_sstable_age_s) > now_s),
        };
        let is_small = |bytes: u64| lumps_small && bytes < self.min_sstable_bytes;
        let mut buckets: Vec<Bucket<'a>> = vec![];
        for run in runs {
            let Some(last) = buckets.last_mut() else {
                buckets.push(Bucket::new(run));
                continue;
            };
            let (size, average) = (run.bytes as f64, last.average_bytes as f64);
            let is_similar = average * self.bucket_low < size && size < average * self.bucket_high;
            let both_small = is_small(run.bytes) && is_small(last.average_bytes);
            let members = last.runs.len() as f64;
            let new_average = (average * members + size) / (members + 1.0);
            let holds_together = self.bucketing == Bucketing::Average
                || is_small(run.bytes)
                || last.runs[0].bytes as f64 > new_average * self.bucket_low;
            if (is_similar || both_small) && holds_together {
                last.push(run, new_average);
            } else {
                buckets.push(Bucket::new(run));
            }
        }
        buckets
    }

    /// The bucket to merge next if `least` runs are enough, cut to `max_threshold` of its smallest runs: the one with
    /// the most ([`Bucketing::Guarded`]; of several, the one of the smallest runs), or the one of the largest
    /// ([`Bucketing::Average`]; Cassandra prefers those that are read most, which is not counted here).
    pub fn most_interesting<'a>(&self, buckets: &[Bucket<'a>], least: usize) -> Option<Bucket<'a>> {
        let enough = buckets.iter().filter(|bucket| bucket.runs.len() >= least.max(2));
        let best = match self.bucketing {
            Bucketing::Guarded => {
                // Of equals `max_by_key` takes the last.
                enough.rev().max_by_key(|bucket| bucket.runs.len().min(self.max_threshold))
            }
            Bucketing::Average => enough.max_by_key(|bucket| bucket.average_bytes),
        }?;
        let runs: Vec<Run<'a>> = best.runs.iter().take(self.max_threshold).cloned().collect();
        let average_bytes = runs.iter().map(|run| run.bytes).sum::<u64>() / runs.len() as u64;
        Some(Bucket { runs, average_bytes })
    }

    /// What to merge next and why: `min_threshold` runs or more, or else two or more unless `enforces_min`
    /// ([`Bucketing::Average`] always does).
    pub fn choose<'a>(&self, buckets: &[Bucket<'a>], enforces_min: bool) -> Option<(Bucket<'a>, Reason)> {
        if let Some(best) = self.most_interesting(buckets, self.min_threshold) {
            let reason = Reason::SimilarSizes { runs: best.runs.len(), average_bytes: best.average_bytes };
            return Some((best, reason));
        }
        if enforces_min || self.bucketing == Bucketing::Average {
            return None;
        }
        let best = self.most_interesting(buckets, 2)?;
        let reason = Reason::FewSimilarSizes { runs: best.runs.len(), average_bytes: best.average_bytes };
        Some((best, reason))
    }

    /// About how many jobs the buckets still need.
    pub fn pending(&self, buckets: &[Bucket<'_>]) -> u64 {
        buckets
            .iter()
            .filter(|bucket| bucket.runs.len() >= self.min_threshold)
            .map(|bucket| bucket.runs.len().div_ceil(self.max_threshold) as u64)
            .sum()
    }
}
