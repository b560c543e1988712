//! `SizeTieredCompactionStrategy`: merges SSTables of about the same size into one.
//!
//! 1. The fullest bucket ([`Tiering`]) with at least `min_threshold` SSTables; at most `max_threshold` of
//!    them.
//! 2. Otherwise any bucket with two SSTables, unless `min_threshold` is enforced.
//! 3. Otherwise, from the largest bucket on, an SSTable worth a tombstone compaction; within a bucket, the
//!    one with the oldest data.
//!
//! With `cold_reads_to_omit`, the SSTables that are read least are excluded from steps 1 and 2.
//!
//! A decision takes O(n log n). Each row is written about log4(table / flush) times. A merge of the largest
//! bucket needs as much additional disk space as the table has.

use crate::backlog;
use crate::considered::{Taken, explanation, of_buckets, of_tombstones};
use crate::explain::Explanation;
use crate::plan::{Layout, Plan, Reason};
use crate::reshape::{self, Reshape};
use crate::split::halves;
use crate::strategy::Strategy;
use crate::tiers::{Bucket, Run, Tiering, ids};
use crate::tombstones::{TombstoneRules, fully_expired};
use crate::view::{SSTableView, TableView};

/// The strategy; see the head of this file.
#[derive(Clone, Debug, Default)]
pub struct SizeTiered {
    /// Which SSTables have about the same size, and how many are merged.
    pub tiering: Tiering,
    /// When an SSTable is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    /// The SSTables that together get at most this fraction of all reads are not merged; 0.0: all are.
    pub cold_reads_to_omit: f64,
}

/// Each SSTable as a run of its own.
pub(crate) fn singles<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Vec<Run<'a>> {
    sstables.into_iter().map(Run::of_one).collect()
}

/// The SSTables from the last bucket to the first; within a bucket, those with the oldest data first.
pub(crate) fn by_tier_and_age<'a>(buckets: &[Bucket<'a>]) -> Vec<&'a SSTableView> {
    let mut ordered = vec![];
    for bucket in buckets.iter().rev() {
        let from = ordered.len();
        ordered.extend(bucket.runs.iter().flat_map(|run| run.sstables.iter().copied()));
        ordered[from..].sort_by_key(|sstable| sstable.min_timestamp_us);
    }
    ordered
}

impl SizeTiered {
    /// The runs to merge, without the coldest SSTables. Hotness is reads per second and partition, as in
    /// Cassandra. An SSTable whose reads were not counted for long enough is not cold. If there are no reads,
    /// no SSTable is cold.
    fn runs<'a>(&self, sstables: impl Iterator<Item = &'a SSTableView>) -> Vec<Run<'a>> {
        let (mut rated, mut kept): (Vec<(f64, &SSTableView)>, Vec<&SSTableView>) = (vec![], vec![]);
        for sstable in sstables {
            match sstable.reads_per_s.filter(|_| self.cold_reads_to_omit > 0.0) {
                Some(per_s) => rated.push((per_s, sstable)),
                None => kept.push(sstable),
            }
        }
        let all: f64 = rated.iter().map(|(per_s, _)| per_s).sum();
        let hotness = |(per_s, sstable): &(f64, &SSTableView)| per_s / sstable.partitions.max(1) as f64;
        rated.sort_by(|a, b| hotness(a).total_cmp(&hotness(b)).then(a.1.id.cmp(&b.1.id)));
        let mut omitted = 0.0;
        for (per_s, sstable) in rated {
            omitted += per_s;
            if all <= 0.0 || omitted > self.cold_reads_to_omit * all {
                kept.push(sstable);
            }
        }
        singles(kept)
    }
}

impl Strategy for SizeTiered {
    fn name(&self) -> &'static str {
        "SizeTieredCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let buckets = self.tiering.buckets(self.runs(view.free()), view.now_s());
        if let Some((bucket, reason)) = self.tiering.choose(&buckets, view.enforce_min_threshold) {
            let expired = fully_expired(view, bucket.runs.iter().map(|run| run.sstables[0]), false);
            let mut inputs = ids(&bucket.runs);
            inputs.retain(|id| !expired.contains(id));
            return Some(Plan { inputs, expired, layout: Layout::whole(), reason, release_early: false });
        }
        let buckets = self.tiering.buckets(singles(view.free()), view.now_s());
        self.tombstones.plan(view, by_tier_and_age(&buckets), |_| Layout::whole())
    }

    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan> {
        let free: Vec<&SSTableView> = view.free().collect();
        if free.is_empty() {
            return vec![];
        }
        let layout = if split { halves(&free) } else { Layout::whole() };
        let inputs = free.iter().map(|sstable| sstable.id).collect();
        vec![Plan { inputs, expired: vec![], layout, reason: Reason::Asked("compact"), release_early: false }]
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        reshape::of_tiers(&self.tiering, singles(view.free()), view.now_s(), mode, Layout::whole())
    }

    fn layout(&self, _level: u32) -> Layout {
        Layout::whole()
    }

    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let plan = self.clone().next(view);
        let taken = Taken::of(plan.as_ref());
        let buckets = self.tiering.buckets(self.runs(view.free()), view.now_s());
        let attempts = vec![
            of_buckets("runs of about the same size", &buckets, self.tiering.min_threshold, &taken),
            of_tombstones(view, &self.tombstones, &taken),
        ];
        explanation(self.name(), view, attempts, plan)
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        self.tiering.pending(&self.tiering.buckets(self.runs(view.free()), view.now_s()))
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        backlog::of_tiers(&self.tiering, self.runs(view.sstables.iter()), view.now_s())
    }
}
