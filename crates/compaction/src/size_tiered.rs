//! `SizeTieredCompactionStrategy`: SSTables of about the same size are merged into one.
//!
//! 1. A bucket ([`Tiering`]) with at least `min_threshold` SSTables, the fullest; at most `max_threshold` of it.
//! 2. Otherwise any bucket with two, unless `min_threshold` is enforced.
//! 3. Otherwise, from the largest bucket on, an SSTable that is worth a tombstone compaction: of those in a bucket the one
//!    with the oldest data.
//!
//! A decision takes O(n log n). Each row is written about log4(table / flush) times; a merge of the largest bucket
//! needs as much space again as the table has.

use crate::backlog;
use crate::plan::{Layout, Plan, Reason};
use crate::reshape::{self, Reshape};
use crate::split::halves;
use crate::strategy::Strategy;
use crate::tiers::{Bucket, Run, Tiering, ids};
use crate::tombstones::{TombstoneRules, fully_expired};
use crate::view::{SSTableView, TableView};

#[derive(Clone, Debug, Default)]
pub struct SizeTiered {
    pub tiering: Tiering,
    pub tombstones: TombstoneRules,
}

/// The free SSTables, each by itself.
pub(crate) fn singles<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Vec<Run<'a>> {
    sstables.into_iter().map(Run::of_one).collect()
}

/// From the last bucket to the first, in each those with the oldest data first.
pub(crate) fn by_tier_and_age<'a>(buckets: &[Bucket<'a>]) -> Vec<&'a SSTableView> {
    let mut ordered = vec![];
    for bucket in buckets.iter().rev() {
        let from = ordered.len();
        ordered.extend(bucket.runs.iter().flat_map(|run| run.sstables.iter().copied()));
        ordered[from..].sort_by_key(|sstable| sstable.min_timestamp_us);
    }
    ordered
}

impl Strategy for SizeTiered {
    fn name(&self) -> &'static str {
        "SizeTieredCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let buckets = self.tiering.buckets(singles(view.free()), view.now_s());
        if let Some((bucket, reason)) = self.tiering.choose(&buckets, view.enforce_min_threshold) {
            let expired = fully_expired(view, bucket.runs.iter().map(|run| run.sstables[0]), false);
            let mut inputs = ids(&bucket.runs);
            inputs.retain(|id| !expired.contains(id));
            return Some(Plan { inputs, expired, layout: Layout::whole(), reason, release_early: false });
        }
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

    fn pending(&self, view: &TableView<'_>) -> u64 {
        self.tiering.pending(&self.tiering.buckets(singles(view.free()), view.now_s()))
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        backlog::of_tiers(&self.tiering, singles(view.sstables), view.now_s())
    }
}
