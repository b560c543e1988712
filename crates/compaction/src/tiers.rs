//! Size tiers: groups runs of about the same size.
//!
//! A **run** is the unit of strategies that merge by size: one SSTable, or several SSTables with consecutive
//! key ranges. Runs are sorted by size and divided into **buckets**; one bucket at a time is merged. There
//! are two rules:
//!
//! - [`Bucketing::Guarded`] (ScyllaDB): a run joins the preceding bucket if its size is between `bucket_low`
//!   and `bucket_high` of the bucket's average, or if both are small. It does not join if it would raise the
//!   average so far that the bucket's smallest run no longer belongs to it. Small runs share one bucket only
//!   if no small run was written recently: while flushes arrive, small runs are tiered by size like large
//!   ones.
//! - [`Bucketing::Average`] (Cassandra): by the average alone, and small runs always share one bucket.
//!
//! Both take O(n log n) for n runs.

use base::HashMap;

use crate::plan::Reason;
use crate::sstable_id::{RunId, SSTableId};
use crate::view::{SSTableView, TableView};

/// SSTables that count as one.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// In the order of their keys; at least one.
    pub sstables: Vec<&'a SSTableView>,
    /// Total bytes before compression.
    pub bytes: u64,
}

impl<'a> Run<'a> {
    /// An SSTable as a run of its own.
    pub fn of_one(sstable: &'a SSTableView) -> Self {
        Self { sstables: vec![sstable], bytes: sstable.data_bytes }
    }

    /// The run's id.
    pub fn id(&self) -> RunId {
        self.sstables[0].run
    }

    /// The largest timestamp of its SSTables.
    pub fn max_timestamp_us(&self) -> i64 {
        self.sstables.iter().map(|sstable| sstable.max_timestamp_us).max().unwrap_or(i64::MIN)
    }

    /// The smallest timestamp of its SSTables.
    pub fn min_timestamp_us(&self) -> i64 {
        self.sstables.iter().map(|sstable| sstable.min_timestamp_us).min().unwrap_or(i64::MAX)
    }

    /// When the newest of its SSTables was written, in seconds since 1970.
    pub fn written_s(&self) -> u32 {
        self.sstables.iter().map(|sstable| sstable.written_s).max().unwrap_or(0)
    }
}

/// The SSTables grouped by run, in the order in which each run first occurs.
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

/// The runs whose SSTables are all free.
pub fn free_runs<'a>(view: &TableView<'a>) -> Vec<Run<'a>> {
    let mut all = runs(view.sstables);
    all.retain(|run| run.sstables.iter().all(|sstable| sstable.is_free()));
    all
}

/// The ids of all SSTables of these runs.
pub fn ids<'r, 'a: 'r>(runs: impl IntoIterator<Item = &'r Run<'a>>) -> Vec<SSTableId> {
    runs.into_iter().flat_map(|run| &run.sstables).map(|sstable| sstable.id).collect()
}

/// Runs of about the same size.
#[derive(Clone, Debug)]
pub struct Bucket<'a> {
    /// In ascending order of size; at least one.
    pub runs: Vec<Run<'a>>,
    /// Their average size.
    pub average_bytes: u64,
}

impl<'a> Bucket<'a> {
    fn new(run: Run<'a>) -> Self {
        Self { average_bytes: run.bytes, runs: vec![run] }
    }

    /// The sum of their sizes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    fn push(&mut self, run: Run<'a>, average: f64) {
        self.average_bytes = average as u64;
        self.runs.push(run);
    }
}

/// How runs are divided into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucketing {
    /// ScyllaDB's rule.
    Guarded,
    /// Cassandra's rule.
    Average,
}

/// The options of strategies that merge by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiering {
    /// How runs are sorted into buckets.
    pub bucketing: Bucketing,
    /// A run belongs to a bucket if it is larger than this multiple of the bucket's average.
    pub bucket_low: f64,
    /// A run belongs to a bucket if it is smaller than this multiple of the bucket's average.
    pub bucket_high: f64,
    /// Smaller runs count as small and may share one bucket.
    pub min_sstable_bytes: u64,
    /// For this time after a small run was written, small runs do not share one bucket.
    pub min_sstable_age_s: u32,
    /// Number of runs from which on a bucket is merged.
    pub min_threshold: usize,
    /// Largest number of runs of one merge.
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
    /// The runs in buckets of ascending size.
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

    /// The bucket to merge next if `least` runs are enough, limited to its `max_threshold` smallest runs.
    /// With [`Bucketing::Guarded`] this is the bucket with the most runs; among equals, the one with the
    /// smallest runs. With [`Bucketing::Average`] it is the bucket with the largest runs. (Cassandra prefers
    /// the bucket that is read most; reads are not counted here.)
    pub fn most_interesting<'a>(&self, buckets: &[Bucket<'a>], least: usize) -> Option<Bucket<'a>> {
        let enough = buckets.iter().filter(|bucket| bucket.runs.len() >= least.max(2));
        let best = match self.bucketing {
            Bucketing::Guarded => {
                // Among equal elements, `max_by_key` returns the last.
                enough.rev().max_by_key(|bucket| bucket.runs.len().min(self.max_threshold))
            }
            Bucketing::Average => enough.max_by_key(|bucket| bucket.average_bytes),
        }?;
        let runs: Vec<Run<'a>> = best.runs.iter().take(self.max_threshold).cloned().collect();
        let average_bytes = runs.iter().map(|run| run.bytes).sum::<u64>() / runs.len() as u64;
        Some(Bucket { runs, average_bytes })
    }

    /// The bucket to merge next, and why: one with at least `min_threshold` runs, or else one with at least
    /// two, unless `enforces_min` is set. [`Bucketing::Average`] always enforces `min_threshold`.
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

    /// Estimate of the number of jobs that the buckets still need.
    pub fn pending(&self, buckets: &[Bucket<'_>]) -> u64 {
        buckets
            .iter()
            .filter(|bucket| bucket.runs.len() >= self.min_threshold)
            .map(|bucket| bucket.runs.len().div_ceil(self.max_threshold) as u64)
            .sum()
    }
}
