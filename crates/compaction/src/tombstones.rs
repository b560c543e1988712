//! Selects SSTables that are worth a job of their own because of their tombstones, and SSTables that can be
//! dropped because all their data has expired.
//!
//! A tombstone may be purged when it is droppable and no other SSTable may contain data that it deletes.
//! Besides its age, the decisive question is **which older data overlaps it**. Both questions are answered
//! from the timestamps of the SSTables:
//!
//! - An SSTable is worth rewriting alone if it was written at least `tombstone_compaction_interval` ago and
//!   at least `tombstone_threshold` of its cells are droppable tombstones. The threshold must also be reached
//!   when only the part of its token range is counted that no SSTable with older data overlaps.
//!   `unchecked_tombstone_compaction` drops the last condition.
//! - An SSTable is fully expired if it contains no live data, all its tombstones are droppable, and no older
//!   write exists elsewhere: no memtable, and no overlapping SSTable with live data, has a write as old as
//!   the SSTable's newest write.

use crate::overlap::{LeastIndex, share_outside};
use crate::plan::{Layout, Plan, Reason};
use crate::sstable_id::SSTableId;
use crate::view::{SSTableView, TableView};

/// Maximum number of SSTables with overlapping older data that are checked exactly per decision.
const CHECKED_MAX: usize = 64;

/// The options of tombstone compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstoneRules {
    /// False: no tombstone compactions.
    pub enabled: bool,
    /// The droppable part, from 0 to 1, from which on an SSTable is rewritten.
    pub threshold: f64,
    /// Seconds after its last write in which an SSTable is not rewritten for its tombstones.
    pub interval_s: u32,
    /// Whether overlapping SSTables are ignored.
    pub unchecked: bool,
}

impl Default for TombstoneRules {
    fn default() -> Self {
        Self { enabled: true, threshold: 0.2, interval_s: 86_400, unchecked: false }
    }
}

impl TombstoneRules {
    /// Whether it is old enough and has enough tombstones, regardless of overlapping SSTables.
    pub fn is_candidate(&self, sstable: &SSTableView, now_s: u32) -> bool {
        self.enabled
            && sstable.is_free()
            && sstable.droppable_ratio > 0.0
            && sstable.droppable_ratio >= self.threshold
            && sstable.written_s.saturating_add(self.interval_s) <= now_s
    }

    fn reason(&self, sstable: &SSTableView) -> Reason {
        Reason::Tombstones { ratio: sstable.droppable_ratio, threshold: self.threshold }
    }

    /// The first of `preferred` that is worth rewriting alone. O(n log n). If more than 64 candidates are
    /// overlapped by older data, only 64 of them are checked; the seed selects which.
    pub fn first_worth<'a>(
        &self,
        view: &TableView<'a>,
        preferred: impl IntoIterator<Item = &'a SSTableView>,
    ) -> Option<(&'a SSTableView, Reason)> {
        let now_s = view.now_s();
        let candidates: Vec<&SSTableView> =
            preferred.into_iter().filter(|sstable| self.is_candidate(sstable, now_s)).collect();
        if candidates.is_empty() || self.unchecked {
            return candidates.first().map(|sstable| (*sstable, self.reason(sstable)));
        }
        let oldest = LeastIndex::new(view.all().map(|s| (s, s.min_timestamp_us)));
        let has_older = |s: &SSTableView| oldest.min_of_overlapping(s) <= s.max_timestamp_us;
        if let Some(sstable) = candidates.iter().find(|sstable| !has_older(sstable)) {
            return Some((sstable, self.reason(sstable)));
        }
        let skip = if candidates.len() > CHECKED_MAX { view.seed as usize % candidates.len() } else { 0 };
        candidates.iter().cycle().skip(skip).take(candidates.len().min(CHECKED_MAX)).copied().find_map(
            |sstable| {
                let older = view.all().filter(|other| {
                    other.id != sstable.id && other.min_timestamp_us <= sstable.max_timestamp_us
                });
                let ratio = sstable.droppable_ratio * share_outside(sstable, older);
                (ratio > 0.0 && ratio >= self.threshold).then(|| (sstable, self.reason(sstable)))
            },
        )
    }

    /// A job that rewrites the first of `preferred` that is worth it.
    pub fn plan<'a>(
        &self,
        view: &TableView<'a>,
        preferred: impl IntoIterator<Item = &'a SSTableView>,
        layout: impl FnOnce(&SSTableView) -> Layout,
    ) -> Option<Plan> {
        let (sstable, reason) = self.first_worth(view, preferred)?;
        let layout = layout(sstable);
        Some(Plan { inputs: vec![sstable.id], expired: vec![], layout, reason, release_early: false })
    }
}

/// The fully expired SSTables of `candidates`, in no particular order. With `ignores_overlaps`, older data
/// elsewhere that their tombstones still delete is ignored. O(n log n).
pub fn fully_expired<'a>(
    view: &TableView<'a>,
    candidates: impl IntoIterator<Item = &'a SSTableView>,
    ignores_overlaps: bool,
) -> Vec<SSTableId> {
    let is_over = |sstable: &SSTableView| sstable.max_deletion_time_s < view.gc_before_s;
    let over: Vec<&SSTableView> =
        candidates.into_iter().filter(|sstable| sstable.is_free() && is_over(sstable)).collect();
    if over.is_empty() || ignores_overlaps {
        return over.iter().map(|sstable| sstable.id).collect();
    }
    let alive =
        LeastIndex::new(view.all().filter(|sstable| !is_over(sstable)).map(|s| (s, s.min_timestamp_us)));
    let in_memory = view.memtable_min_timestamp_us.unwrap_or(i64::MAX);
    over.into_iter()
        .filter(|sstable| sstable.max_timestamp_us < alive.min_of_overlapping(sstable).min(in_memory))
        .map(|sstable| sstable.id)
        .collect()
}

/// A job that only drops these SSTables.
pub fn drop_plan(expired: Vec<SSTableId>) -> Plan {
    let reason = Reason::Expired { sstables: expired.len() };
    Plan { inputs: vec![], expired, layout: Layout::whole(), reason, release_early: false }
}
