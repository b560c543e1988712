//! Finds runs with common partitions, and estimates the bytes that a merge of them would free.
//!
//! The union of two sketches estimates the partitions of two runs together. The difference between this
//! number and the sum is the number of common partitions. A partition in both runs is assumed to be
//! overwritten, so that the smaller of its two copies is dead. If there is a sample of the merge
//! ([`crate::SampledOverlap`]), it is used instead, because it compares rows. Without a sample, estimates are
//! scaled by the accuracy of previous estimates (`trust`).
//!
//! The choice is by **gain**: bytes freed per byte written. Starting from each run as the largest, each
//! smaller run is added if its own gain is sufficient. Therefore all merges for duplicates together write at
//! most `1 / threshold` bytes per byte that they free, and they cannot free more bytes than were ever
//! written. As far as the estimates are right, they add at most `1 / threshold` to the write amplification,
//! for any workload.

use std::cell::RefCell;
use std::rc::Rc;

use base::HashMap;
use base::hyperloglog::HyperLogLog;

use super::trace::Trace;
use crate::explain::Verdict;
use crate::plan::needs_bytes;
use crate::sstable_id::RunId;
use crate::tiers::Run;
use crate::view::{SSTableView, TableView};

/// Sketches of whole runs, cached between decisions.
#[derive(Clone, Debug, Default)]
pub struct Sketches {
    of_runs: RefCell<HashMap<RunId, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Checksum of the ids of the SSTables from which `keys` was made.
    mark: u64,
    keys: Option<Rc<HyperLogLog>>,
}

impl Sketches {
    /// The sketch of all partitions of a run; `None` if one of its SSTables has no sketch.
    fn of(&self, run: &Run<'_>) -> Option<Rc<HyperLogLog>> {
        // Ids are never used again, so different SSTables have different ids.
        let mark = run.sstables.iter().fold(0u64, |mark, s| mark.rotate_left(7) ^ (s.id.0 + 1));
        if let Some(known) = self.of_runs.borrow().get(&run.id()).filter(|known| known.mark == mark) {
            return known.keys.clone();
        }
        let keys = union(run.sstables.iter().copied()).map(Rc::new);
        self.of_runs.borrow_mut().insert(run.id(), Known { mark, keys: keys.clone() });
        keys
    }

    fn forget_all_but(&self, runs: &[Run<'_>]) {
        let mut of_runs = self.of_runs.borrow_mut();
        if of_runs.len() > 2 * runs.len() + 16 {
            of_runs.retain(|id, _| runs.iter().any(|run| run.id() == *id));
        }
    }
}

fn union<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Option<HyperLogLog> {
    let mut all = HyperLogLog::new();
    for sstable in sstables {
        all.merge(sstable.keys.as_deref()?).ok()?;
    }
    Some(all)
}

/// Partitions and bytes of a growing set of runs.
struct Merged {
    keys: HyperLogLog,
    partitions: f64,
    bytes: f64,
}

impl Merged {
    fn new(keys: HyperLogLog, bytes: u64) -> Self {
        Self { partitions: keys.cardinality() as f64, keys, bytes: bytes as f64 }
    }

    /// The bytes freed when `other` is merged into this set, and the merged set. `None` if the sketches are
    /// incompatible.
    fn with(&self, other: &HyperLogLog, bytes: u64) -> Option<(f64, Self)> {
        let mut keys = self.keys.clone();
        keys.merge(other).ok()?;
        let theirs = other.cardinality() as f64;
        let partitions =
            (keys.cardinality() as f64).clamp(self.partitions.max(theirs), self.partitions + theirs);
        let shared = self.partitions + theirs - partitions;
        let bytes_each = (self.bytes / self.partitions.max(1.0)).min(bytes as f64 / theirs.max(1.0));
        let dead_bytes = (shared * bytes_each).min(bytes as f64);
        Some((dead_bytes, Self { keys, partitions, bytes: self.bytes + bytes as f64 - dead_bytes }))
    }
}

/// Runs that are worth merging because of their common data.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    pub runs: Vec<Run<'a>>,
    pub bytes: u64,
    pub dead_bytes: f64,
    /// Whether the estimate is from a sample instead of sketches.
    pub sampled: bool,
}

impl Choice<'_> {
    pub fn gain(&self) -> f64 {
        gain(self.dead_bytes, self.bytes)
    }
}

/// Bytes freed per byte written.
pub fn gain(dead_bytes: f64, bytes: u64) -> f64 {
    dead_bytes / (bytes as f64 - dead_bytes).max(1.0)
}

/// Limits of the choice.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceLimits {
    pub threshold: f64,
    pub runs_max: usize,
    /// `None`: any job fits.
    pub free_bytes: Option<u64>,
    pub fragment_bytes: u64,
}

/// The runs whose merge has the largest gain, if the gain reaches the threshold and the job fits.
pub fn best<'a>(
    view: &TableView<'a>,
    free: &[Run<'a>],
    sketches: &Sketches,
    trust: f64,
    bounds: ChoiceLimits,
    trace: &mut Trace,
) -> Option<Choice<'a>> {
    sketches.forget_all_but(free);
    let mut runs: Vec<&Run<'a>> = free.iter().collect();
    runs.sort_by_key(|run| (std::cmp::Reverse(run.bytes), run.id()));
    let mut best: Option<Choice<'a>> = None;
    let mut smaller_bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    for (at, largest) in runs.iter().enumerate() {
        smaller_bytes -= largest.bytes;
        if smaller_bytes == 0 || gain(smaller_bytes as f64, smaller_bytes + largest.bytes) < bounds.threshold
        {
            // The gain would be too small even if all smaller runs were dead.
            continue;
        }
        let choice = grow(view, largest, &runs[at + 1..], sketches, trust, bounds);
        let enough = choice.runs.len() > 1 && choice.gain() >= bounds.threshold;
        let verdict = match &best {
            _ if !enough => Verdict::GainTooSmall { gain: choice.gain(), threshold: bounds.threshold },
            Some(best) if choice.gain() <= best.gain() => Verdict::Behind,
            _ => Verdict::Taken,
        };
        trace.saw(choice.runs.len(), choice.bytes, Some(choice.dead_bytes), verdict.clone());
        if verdict == Verdict::Taken {
            best = Some(choice);
        }
    }
    best
}

/// Starts with `largest` and adds each smaller run whose own gain is sufficient.
fn grow<'a>(
    view: &TableView<'a>,
    largest: &Run<'a>,
    smaller: &[&Run<'a>],
    sketches: &Sketches,
    trust: f64,
    bounds: ChoiceLimits,
) -> Choice<'a> {
    let mut choice =
        Choice { runs: vec![largest.clone()], bytes: largest.bytes, dead_bytes: 0.0, sampled: false };
    let mut merged = sketches.of(largest).map(|keys| Merged::new((*keys).clone(), largest.bytes));
    let mut inputs: Vec<&SSTableView> = largest.sstables.clone();
    for run in smaller {
        if choice.runs.len() >= bounds.runs_max {
            break;
        }
        let bytes = choice.bytes + run.bytes;
        let by_sample = view.sampled.and_then(|sampled| {
            let ids: Vec<RunId> = choice.runs.iter().map(Run::id).chain([run.id()]).collect();
            Some((sampled.dead_ratio(&ids)? * bytes as f64 - choice.dead_bytes).max(0.0))
        });
        let by_sketch =
            || merged.as_ref().and_then(|merged| merged.with(sketches.of(run)?.as_ref(), run.bytes));
        let (dead_bytes, grown) = match by_sample {
            Some(dead_bytes) => (dead_bytes, None),
            None => match by_sketch() {
                Some((dead_bytes, grown)) => (dead_bytes * trust, Some(grown)),
                None => continue,
            },
        };
        if gain(dead_bytes, run.bytes) < bounds.threshold {
            continue;
        }
        inputs.extend(&run.sstables);
        if bounds.free_bytes.is_some_and(|free| {
            needs_bytes(&inputs, Some(bounds.fragment_bytes), releases_early(&inputs)) > free
        }) {
            inputs.truncate(inputs.len() - run.sstables.len());
            continue;
        }
        choice.sampled = grown.is_none();
        merged = grown.or_else(|| {
            let merged = merged.as_ref()?;
            Some(merged.with(sketches.of(run)?.as_ref(), run.bytes)?.1)
        });
        choice.runs.push((*run).clone());
        choice.bytes = bytes;
        choice.dead_bytes += dead_bytes;
    }
    choice
}

/// Whether inputs can be released before the end of the job: at least one run has several fragments.
pub fn releases_early(inputs: &[&SSTableView]) -> bool {
    let mut seen = base::HashSet::default();
    inputs.iter().any(|input| !seen.insert(input.run))
}

/// Estimate of the bytes that die when this SSTable is merged with the others, by their sketches; 0.0 if one
/// has no sketch.
pub fn dead_bytes_between(sstable: &SSTableView, others: &[&SSTableView]) -> f64 {
    let others_bytes: u64 = others.iter().map(|other| other.data_bytes).sum();
    let found = || {
        let merged = Merged::new(union(others.iter().copied())?, others_bytes);
        Some(merged.with(sstable.keys.as_deref()?, sstable.data_bytes)?.0)
    };
    found().unwrap_or(0.0)
}
