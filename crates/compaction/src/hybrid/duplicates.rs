//! Which runs have the same partitions, and what merging them would free.
//!
//! The union of two sketches says how many partitions two runs have together; what is missing to the sum, they share.
//! A partition that both have is taken to be written anew, so that the smaller of both copies dies. Where a sample of
//! the merge is at hand ([`crate::SampledOverlap`]) it is believed instead: it knows rows. Where there is none,
//! estimates are scaled by how true they proved before (`trust`).
//!
//! The choice is by **gain**, bytes freed for each byte written. From a largest run downwards, each smaller run joins
//! that by itself gains enough. So all merges that are made for the sake of duplicates write together at most
//! `1 / threshold` bytes for each byte they free, and no more is freed than was ever written: they amplify writes by
//! `1 / threshold` at most, whatever the workload, as far as the estimates hold.

use std::cell::RefCell;
use std::rc::Rc;

use base::HashMap;
use base::hyperloglog::HyperLogLog;

use super::trace::Trace;
use crate::explain::Verdict;
use crate::plan::needs_bytes;
use crate::tiers::Run;
use crate::view::{RunId, SSTableView, TableView};

/// Sketches of whole runs, kept between decisions.
#[derive(Clone, Debug, Default)]
pub struct Sketches {
    of_runs: RefCell<HashMap<RunId, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Of the SSTables that the run had.
    mark: u64,
    keys: Option<Rc<HyperLogLog>>,
}

impl Sketches {
    /// Of all partitions of a run; `None` if that of one of its SSTables is unknown.
    fn of(&self, run: &Run<'_>) -> Option<Rc<HyperLogLog>> {
        // Ids are never used again: other SSTables have other ids.
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

/// Partitions and bytes of a set that grows.
struct Merged {
    keys: HyperLogLog,
    partitions: f64,
    bytes: f64,
}

impl Merged {
    fn new(keys: HyperLogLog, bytes: u64) -> Self {
        Self { partitions: keys.cardinality() as f64, keys, bytes: bytes as f64 }
    }

    /// What `other`, merged into this, frees; and what both are then. `None` if the sketches do not fit together.
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

/// Runs that are worth merging for what they share.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    pub runs: Vec<Run<'a>>,
    pub bytes: u64,
    pub dead_bytes: f64,
    /// It rests on a sample, not on sketches.
    pub sampled: bool,
}

impl Choice<'_> {
    pub fn gain(&self) -> f64 {
        gain(self.dead_bytes, self.bytes)
    }
}

/// Bytes freed for each byte written.
pub fn gain(dead_bytes: f64, bytes: u64) -> f64 {
    dead_bytes / (bytes as f64 - dead_bytes).max(1.0)
}

/// What bounds the choice.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub threshold: f64,
    pub runs_max: usize,
    /// `None`: any job fits.
    pub free_bytes: Option<u64>,
    pub fragment_bytes: u64,
}

/// The runs whose merge gains most, if it gains at least the threshold and fits.
pub fn best<'a>(
    view: &TableView<'a>,
    free: &[Run<'a>],
    sketches: &Sketches,
    trust: f64,
    bounds: Bounds,
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
            // Even if all that is smaller were dead: too little.
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

/// The largest run and every smaller one that, by itself, gains enough when it joins.
fn grow<'a>(
    view: &TableView<'a>,
    largest: &Run<'a>,
    smaller: &[&Run<'a>],
    sketches: &Sketches,
    trust: f64,
    bounds: Bounds,
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

/// Whether something can be released before the end: a run has more than one fragment.
pub fn releases_early(inputs: &[&SSTableView]) -> bool {
    let mut seen = base::HashSet::default();
    inputs.iter().any(|input| !seen.insert(input.run))
}

/// Bytes that die when this SSTable is merged with those, by their sketches; 0.0 if one has none.
pub fn dead_bytes_between(sstable: &SSTableView, others: &[&SSTableView]) -> f64 {
    let others_bytes: u64 = others.iter().map(|other| other.data_bytes).sum();
    let found = || {
        let merged = Merged::new(union(others.iter().copied())?, others_bytes);
        Some(merged.with(sstable.keys.as_deref()?, sstable.data_bytes)?.0)
    };
    found().unwrap_or(0.0)
}
