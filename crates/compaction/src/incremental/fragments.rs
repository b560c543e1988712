//! Jobs on a few fragments of several runs, which leave all other fragments unchanged.
//!
//! - [`collect`]: a fragment with many droppable tombstones, and all older fragments that overlap it. A
//!   tombstone can be purged only if no data outside the merge may be deleted by it. Therefore the job must
//!   contain *all older* data, whatever its tier; younger data is not needed.
//! - [`promote`]: a fragment, and the fragments of larger runs that overlap it, because of their common
//!   partitions. The output is added to the largest of these runs.

use super::duplicates::{dead_bytes_between, gain, releases_early};
use super::options::IncrementalOptions;
use super::pieces::pieces;
use super::trace::Trace;
use crate::explain::Verdict;
use crate::plan::{Layout, Plan, Reason, Split, needs_bytes};
use crate::tiers::runs;
use crate::view::{SSTableView, TableView};

/// A fragment is not collected for its tombstones within this time after it was written, even if the disk is
/// short. In seconds.
const RETRY_S: u32 = 600;
/// A fragment is not collected within this time after it was written, unless the disk is short. In seconds.
const SETTLED_S: u32 = 3600;
/// Minimum fraction of droppable tombstones of a fragment to be collected when the disk is short.
const SHORT_RATIO: f64 = 0.05;
/// Maximum number of fragments per decision for which sketches are merged.
const ESTIMATED_MAX: usize = 64;

/// A fragment and the SSTables to be merged with it.
#[derive(Clone, Debug)]
pub struct FragmentJob<'a> {
    /// The fragment comes first.
    pub inputs: Vec<&'a SSTableView>,
    pub bytes: u64,
    pub dead_bytes: f64,
    pub ratio: f64,
}

impl FragmentJob<'_> {
    pub fn gain(&self) -> f64 {
        gain(self.dead_bytes, self.bytes)
    }

    /// The plan of the job. The outputs are placed in the runs of the inputs.
    pub fn plan(&self, view: &TableView<'_>, fragment_bytes: u64, reason: Reason) -> Plan {
        Plan {
            inputs: self.inputs.iter().map(|input| input.id).collect(),
            expired: vec![],
            layout: Layout { split: Split::Runs(pieces(view, &self.inputs)), ..Layout::run(fragment_bytes) },
            reason,
            release_early: releases_early(&self.inputs),
        }
    }
}

/// Limits of jobs on fragments.
#[derive(Clone, Copy, Debug)]
pub struct FragmentLimits {
    pub fragment_bytes: u64,
    /// `None`: any job fits.
    pub free_bytes: Option<u64>,
    /// Whether the disk is short of space.
    pub short: bool,
}

impl FragmentLimits {
    fn check(&self, inputs: &[&SSTableView]) -> Result<(), Verdict> {
        let needs_bytes = needs_bytes(inputs, Some(self.fragment_bytes), releases_early(inputs));
        match self.free_bytes {
            Some(free_bytes) if needs_bytes > free_bytes => {
                Err(Verdict::DoesNotFit { needs_bytes, free_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// The fragment with the largest gain when it is merged with all older fragments that overlap it.
pub fn collect<'a>(
    options: &IncrementalOptions,
    view: &TableView<'a>,
    bounds: FragmentLimits,
    trace: &mut Trace,
) -> Option<FragmentJob<'a>> {
    let mut best: Option<FragmentJob<'a>> = None;
    for fragment in view.free().filter(|fragment| fragment.droppable_ratio > 0.0) {
        let dead_bytes = fragment.droppable_ratio.min(1.0) * fragment.data_bytes as f64;
        let mut inputs = vec![fragment];
        let verdict = match add_older(options, view, bounds, &mut inputs) {
            Err(verdict) => verdict,
            Ok(()) => {
                let bytes = inputs.iter().map(|input| input.data_bytes).sum();
                let job = FragmentJob {
                    inputs: inputs.clone(),
                    bytes,
                    dead_bytes,
                    ratio: fragment.droppable_ratio,
                };
                if best.as_ref().is_none_or(|best| job.gain() > best.gain()) {
                    best = Some(job);
                    Verdict::Taken
                } else {
                    Verdict::Behind
                }
            }
        };
        let bytes = inputs.iter().map(|input| input.data_bytes).sum();
        trace.saw(inputs.len(), bytes, Some(dead_bytes), verdict);
    }
    best
}

/// Adds all older fragments that overlap the fragment, if it is worth collecting.
fn add_older<'a>(
    options: &IncrementalOptions,
    view: &TableView<'a>,
    bounds: FragmentLimits,
    inputs: &mut Vec<&'a SSTableView>,
) -> Result<(), Verdict> {
    let fragment = inputs[0];
    let rules = &options.tombstones;
    let age_s = view.now_s().saturating_sub(fragment.written_s);
    let least_s = if bounds.short { RETRY_S } else { SETTLED_S }.min(rules.interval_s);
    if age_s < least_s {
        return Err(Verdict::TooYoung { age_s, least_s });
    }
    let stale = age_s >= rules.interval_s;
    // If memtables may contain data that its tombstones delete, the tombstones may not be droppable.
    let memtables_older =
        view.memtable_min_timestamp_us.is_some_and(|memtables| fragment.max_timestamp_us >= memtables);
    if memtables_older && !stale {
        return Err(Verdict::TooYoung { age_s, least_s: rules.interval_s });
    }
    let threshold = match bounds.short {
        _ if rules.unchecked => 0.0,
        true => SHORT_RATIO.min(rules.threshold),
        false if stale => rules.threshold,
        false => (2.0 * rules.threshold).clamp(0.5, 1.0),
    };
    if fragment.droppable_ratio < threshold {
        return Err(Verdict::RatioTooSmall { ratio: fragment.droppable_ratio, threshold });
    }
    let older = view.sstables.iter().filter(|other| {
        other.id != fragment.id
            && other.overlaps(fragment)
            && other.min_timestamp_us <= fragment.max_timestamp_us
    });
    inputs.extend(older);
    if !inputs.iter().all(|input| input.is_free()) {
        return Err(Verdict::Busy);
    }
    let most = options.tiering.max_threshold;
    let bytes: u64 = inputs.iter().map(|input| input.data_bytes).sum();
    if inputs.len() > most || bytes > bounds.fragment_bytes.saturating_mul(most as u64) {
        return Err(Verdict::Off("more fragments overlap it than max_threshold"));
    }
    bounds.check(inputs)
}

/// The fragment with the largest gain when it is merged into the larger runs that overlap it.
pub fn promote<'a>(
    view: &TableView<'a>,
    bounds: FragmentLimits,
    least_gain: f64,
    trust: f64,
    trace: &mut Trace,
) -> Option<FragmentJob<'a>> {
    let mut all = runs(view.sstables);
    all.sort_by_key(|run| (run.bytes, run.id()));
    let mut candidates: Vec<(Vec<&'a SSTableView>, u64)> = vec![];
    for (at, run) in all.iter().enumerate() {
        for &fragment in run.sstables.iter().filter(|fragment| fragment.is_free()) {
            let above = all[at + 1..].iter().flat_map(|larger| &larger.sstables).copied();
            let mut inputs = vec![fragment];
            inputs.extend(above.filter(|other| other.is_free() && other.overlaps(fragment)));
            let bytes = inputs.iter().map(|input| input.data_bytes).sum();
            // The gain must be sufficient if the whole fragment is dead; this is an upper bound.
            if inputs.len() > 1 && gain(fragment.data_bytes as f64, bytes) >= least_gain {
                candidates.push((inputs, bytes));
            }
        }
    }
    let most = |(inputs, bytes): &(Vec<&SSTableView>, u64)| gain(inputs[0].data_bytes as f64, *bytes);
    candidates.sort_by(|a, b| most(b).total_cmp(&most(a)).then(a.0[0].id.cmp(&b.0[0].id)));
    candidates.truncate(ESTIMATED_MAX);
    let mut best: Option<FragmentJob<'a>> = None;
    for (inputs, bytes) in candidates {
        let dead_bytes = dead_bytes_between(inputs[0], &inputs[1..]) * trust;
        let job = FragmentJob { ratio: dead_bytes / bytes.max(1) as f64, bytes, dead_bytes, inputs };
        let verdict = match bounds.check(&job.inputs) {
            Err(verdict) => verdict,
            Ok(()) if job.gain() < least_gain => {
                Verdict::GainTooSmall { gain: job.gain(), threshold: least_gain }
            }
            Ok(()) if best.as_ref().is_some_and(|best| job.gain() <= best.gain()) => Verdict::Behind,
            Ok(()) => Verdict::Taken,
        };
        trace.saw(job.inputs.len(), bytes, Some(dead_bytes), verdict.clone());
        if verdict == Verdict::Taken {
            best = Some(job);
        }
    }
    best
}
