//! Candidates of the strategies as explanations: tiers, levels and windows, expired SSTables and tombstones.
//!
//! An explanation is made after a decision on a copy of the strategy: the verdicts of candidates are derived
//! from the plan, so both agree. Lists are limited to [`CANDIDATES_MAX`].

use std::borrow::Cow;

use base::HashSet;

use crate::explain::{Attempt, Candidate, Explanation, Verdict};
use crate::plan::Plan;
use crate::sstable_id::SSTableId;
use crate::tiers::Bucket;
use crate::tombstones::{TombstoneRules, fully_expired};
use crate::view::{SSTableView, TableView};

/// Limit of the candidates of a rule.
const CANDIDATES_MAX: usize = 32;

/// The SSTables of a plan, to find its candidates again.
pub(crate) struct Taken(HashSet<SSTableId>);

impl Taken {
    pub fn of(plan: Option<&Plan>) -> Self {
        let ids = plan.into_iter().flat_map(|plan| plan.inputs.iter().chain(&plan.expired));
        Self(ids.copied().collect())
    }

    pub fn has_any<'a>(&self, sstables: impl IntoIterator<Item = &'a SSTableView>) -> bool {
        sstables.into_iter().any(|sstable| self.0.contains(&sstable.id))
    }

    /// `otherwise`, unless one of the SSTables is taken.
    pub fn or<'a>(&self, sstables: impl IntoIterator<Item = &'a SSTableView>, otherwise: Verdict) -> Verdict {
        if self.has_any(sstables) { Verdict::Taken } else { otherwise }
    }
}

/// Some SSTables, and why they are taken or not.
pub(crate) fn candidate(sstables: &[&SSTableView], verdict: Verdict) -> Candidate {
    let bytes = sstables.iter().map(|sstable| sstable.data_bytes).sum();
    Candidate { runs: sstables.len(), bytes, dead_bytes: None, verdict }
}

/// The buckets of a tiering; `least`: the number of runs from which one is merged.
pub(crate) fn of_buckets(
    rule: impl Into<Cow<'static, str>>,
    buckets: &[Bucket<'_>],
    least: usize,
    taken: &Taken,
) -> Attempt {
    let of = |bucket: &Bucket<'_>| {
        let sstables = bucket.runs.iter().flat_map(|run| run.sstables.iter().copied());
        let otherwise = match bucket.runs.len() < least {
            true => Verdict::TooFew { least },
            false => Verdict::Behind,
        };
        let verdict = taken.or(sstables, otherwise);
        Candidate { runs: bucket.runs.len(), bytes: bucket.bytes(), dead_bytes: None, verdict }
    };
    Attempt { rule: rule.into(), candidates: buckets.iter().take(CANDIDATES_MAX).map(of).collect() }
}

/// SSTables in which everything has expired.
pub(crate) fn of_expired(view: &TableView<'_>, ignores_overlaps: bool, taken: &Taken) -> Attempt {
    let free: HashSet<SSTableId> = fully_expired(view, view.sstables, ignores_overlaps).into_iter().collect();
    let over = view.free().filter(|sstable| sstable.max_deletion_time_s < view.gc_before_s);
    let of = |sstable: &SSTableView| {
        let otherwise = if free.contains(&sstable.id) { Verdict::Behind } else { Verdict::Overlapped };
        candidate(&[sstable], taken.or([sstable], otherwise))
    };
    let candidates = over.take(CANDIDATES_MAX).map(of).collect();
    Attempt { rule: "SSTables in which all has expired".into(), candidates }
}

/// SSTables with droppable tombstones; the one with the most comes first.
pub(crate) fn of_tombstones(view: &TableView<'_>, rules: &TombstoneRules, taken: &Taken) -> Attempt {
    let now_s = view.now_s();
    let mut sstables: Vec<&SSTableView> =
        view.sstables.iter().filter(|sstable| sstable.droppable_ratio > 0.0).collect();
    sstables.sort_by(|a, b| b.droppable_ratio.total_cmp(&a.droppable_ratio));
    let of = |sstable: &SSTableView| {
        let (ratio, threshold) = (sstable.droppable_ratio, rules.threshold);
        let age_s = now_s.saturating_sub(sstable.written_s);
        let otherwise = match () {
            () if !sstable.is_free() => Verdict::Busy,
            () if !rules.enabled => Verdict::Off("tombstone compactions are switched off"),
            () if ratio < threshold => Verdict::RatioTooSmall { ratio, threshold },
            () if age_s < rules.interval_s => Verdict::TooYoung { age_s, least_s: rules.interval_s },
            () if rules.first_worth(view, [sstable]).is_some() => Verdict::Behind,
            () => Verdict::Overlapped,
        };
        let dead_bytes = Some((ratio * sstable.data_bytes as f64) as u64);
        let verdict = taken.or([sstable], otherwise);
        Candidate { runs: 1, bytes: sstable.data_bytes, dead_bytes, verdict }
    };
    let candidates = sstables.into_iter().take(CANDIDATES_MAX).map(of).collect();
    Attempt { rule: "tombstones that may be dropped".into(), candidates }
}

/// SSTables that a running job has, or that no job may take.
fn of_others(view: &TableView<'_>) -> Attempt {
    let busy: Vec<&SSTableView> = view.sstables.iter().filter(|sstable| sstable.compacting).collect();
    let frozen: Vec<&SSTableView> =
        view.sstables.iter().filter(|sstable| sstable.frozen && !sstable.compacting).collect();
    let mut candidates = vec![];
    if !busy.is_empty() {
        candidates.push(candidate(&busy, Verdict::Busy));
    }
    if !frozen.is_empty() {
        let why = "in quarantine until a scrub, or part of a table that is only read";
        candidates.push(candidate(&frozen, Verdict::Off(why)));
    }
    Attempt { rule: "SSTables that cannot be taken".into(), candidates }
}

/// The explanation of a decision.
pub(crate) fn explanation(
    strategy: &'static str,
    view: &TableView<'_>,
    mut attempts: Vec<Attempt>,
    plan: Option<Plan>,
) -> Explanation {
    attempts.push(of_others(view));
    Explanation {
        strategy,
        sstables: view.sstables.len(),
        bytes: view.sstables.iter().map(|sstable| sstable.data_bytes).sum(),
        attempts,
        plan,
    }
}
