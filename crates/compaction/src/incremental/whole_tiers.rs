//! ScyllaDB's rules for whole tiers: purge tombstones of a tier together with its neighbour, and merge the
//! two largest tiers when they take too much space.

use super::options::IncrementalOptions;
use super::trace::Trace;
use crate::explain::Verdict;
use crate::plan::Reason;
use crate::tiers::{Bucket, Run};
use crate::view::{SSTableView, TableView};

/// A run is not collected within this time after it was written, in seconds.
const SETTLED_S: u32 = 3600;

/// Runs to be merged, and the reason.
pub type Chosen<'a> = (Vec<Run<'a>>, Reason);

/// The largest tier that has a run with many droppable tombstones, together with the next larger tier. The
/// largest tier of all is merged with the second largest.
pub fn with_tombstones<'a>(
    options: &IncrementalOptions,
    view: &TableView<'a>,
    buckets: &[Bucket<'a>],
    trace: &mut Trace,
) -> Option<Chosen<'a>> {
    for (at, bucket) in buckets.iter().enumerate().rev() {
        let worth = bucket.runs.iter().find_map(|run| ratio_if_worth(options, view, run));
        let Some(ratio) = worth else {
            let verdict = Verdict::RatioTooSmall {
                ratio: bucket.runs.iter().map(ratio_of).fold(0.0, f64::max),
                threshold: options.tombstones.threshold,
            };
            trace.saw(bucket.runs.len(), bucket.bytes(), None, verdict);
            continue;
        };
        let neighbour = if at + 1 < buckets.len() { Some(at + 1) } else { at.checked_sub(1) };
        let mut runs = bucket.runs.clone();
        runs.extend(neighbour.iter().flat_map(|at| &buckets[*at].runs).cloned());
        trace.saw(runs.len(), runs.iter().map(|run| run.bytes).sum(), None, Verdict::Taken);
        return Some((runs, Reason::Tombstones { ratio, threshold: options.tombstones.threshold }));
    }
    None
}

/// The fraction of the run that is droppable tombstones.
fn ratio_of(run: &Run<'_>) -> f64 {
    let droppable = |sstable: &&SSTableView| sstable.droppable_ratio * sstable.data_bytes as f64;
    run.sstables.iter().map(droppable).sum::<f64>() / run.bytes.max(1) as f64
}

fn ratio_if_worth(options: &IncrementalOptions, view: &TableView<'_>, run: &Run<'_>) -> Option<f64> {
    let rules = &options.tombstones;
    let ratio = ratio_of(run);
    let age_s = view.now_s().saturating_sub(run.written_s());
    if age_s < SETTLED_S.min(rules.interval_s) {
        return None;
    }
    let stale = age_s >= rules.interval_s;
    let memtables_older = view.memtable_min_timestamp_us.is_some_and(|least| run.max_timestamp_us() >= least);
    let threshold = match stale {
        _ if rules.unchecked => 0.0,
        true => rules.threshold,
        false if memtables_older => return None,
        false => (2.0 * rules.threshold).clamp(0.5, 1.0),
    };
    (ratio >= threshold).then_some(ratio)
}

/// The two tiers with the largest runs, if their size divided by the largest tier's size exceeds the goal.
pub fn oversized_tiers<'a>(goal: f64, buckets: &[Bucket<'a>], trace: &mut Trace) -> Option<Chosen<'a>> {
    let [.., second, largest] = buckets else {
        trace.saw(buckets.len(), buckets.iter().map(Bucket::bytes).sum(), None, Verdict::TooFew { least: 2 });
        return None;
    };
    let bytes = second.bytes() + largest.bytes();
    let ratio = bytes as f64 / largest.bytes().max(1) as f64;
    let runs: Vec<Run<'a>> = second.runs.iter().chain(&largest.runs).cloned().collect();
    if ratio <= goal {
        let verdict = Verdict::GainTooSmall { gain: ratio - 1.0, threshold: goal - 1.0 };
        trace.saw(runs.len(), bytes, None, verdict);
        return None;
    }
    trace.saw(runs.len(), bytes, None, Verdict::Taken);
    Some((runs, Reason::SpaceAmplification { ratio, goal }))
}
