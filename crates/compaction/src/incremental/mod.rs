//! The incremental strategy, called Hybrid in the talk that proposed it: size tiers over runs of fragments.
//!
//! A run counts as one file of size-tiered compaction. All fragments have the same size, so a merge can
//! release each fragment of its inputs as soon as it is consumed. A merge therefore needs the disk space of a
//! few fragments instead of the size of its inputs. This allows large merges, and merges for reasons other
//! than size.
//!
//! A decision tries the following rules in order and takes the first that finds a job:
//!
//! 1. SSTables in which all data has expired; they are dropped without being read.
//! 2. If the disk is short of space: the job that frees most bytes per byte written ([`space`]).
//! 3. Runs with enough common partitions to make merging them worthwhile by itself ([`duplicates`]).
//! 4. `min_threshold` runs of about the same size, or fewer of them if the disk has no space for more.
//! 5. At least two runs of about the same size, unless the node enforces `min_threshold`.
//! 6. If no job of the table is running: droppable tombstones, by a fragment with all older data
//!    ([`fragments`]) or by whole tiers ([`whole_tiers`]).
//! 7. If no job is running and there is a goal for space amplification: the two largest tiers
//!    ([`whole_tiers`]).
//!
//! Rules 4 to 7 are ScyllaDB's, with whole tiers in rule 6.
//!
//! The strategy quiesces: every merge of whole runs reduces the number of runs. A job on fragments either
//! moves bytes to larger runs, or collects a fragment, which is then too young to be collected again.

mod duplicates;
mod fragments;
mod options;
mod pieces;
mod space;
mod trace;
mod whole_tiers;

pub use options::{IncrementalOptions, TombstoneCollection};
pub use pieces::pieces;

use crate::backlog;
use crate::explain::{Explanation, Verdict};
use crate::plan::{Finished, Layout, Plan, Reason, needs_bytes};
use crate::reshape::{self, Reshape};
use crate::sample::{SAMPLED_RUNS_MAX, SamplePlan};
use crate::strategy::Strategy;
use crate::tiers::{Bucket, Run, free_runs, ids};
use crate::tombstones::{drop_plan, fully_expired};
use crate::view::TableView;
use duplicates::{Sketches, releases_early};
use fragments::FragmentJob;
use space::{SHORT_GAIN, Space};
use trace::Trace;

/// Approximate number of bytes read for a sample.
const SAMPLE_BYTES: u64 = 16 << 20;
/// Number of ring ranges in a sample.
const SAMPLE_RANGES: u32 = 16;
/// Maximum size ratio of two runs that are merged beyond the budget. Without this limit, each flush would
/// rewrite the whole table if the live data alone exceeded the budget.
const BEYOND_BUDGET_RATIO: u64 = 4;
/// Each job of another kind raises the trust by this fraction of the difference to full trust.
const FORGIVING: f64 = 0.02;

/// Decides for one table.
#[derive(Clone, Debug)]
pub struct Incremental {
    options: IncrementalOptions,
    /// The fraction of the bytes predicted dead by sketches that actually were dead; initially 1.0.
    trust: f64,
    sketches: Sketches,
}

impl Incremental {
    /// The strategy with these options, without running jobs.
    pub fn new(options: IncrementalOptions) -> Self {
        Self { options, trust: 1.0, sketches: Sketches::default() }
    }

    /// The options given to [`Self::new`].
    pub fn options(&self) -> &IncrementalOptions {
        &self.options
    }

    fn decide(&self, view: &TableView<'_>, trace: &mut Trace) -> Option<Plan> {
        trace.rule("SSTables in which all has expired");
        let expired = fully_expired(view, view.free(), false);
        if !expired.is_empty() {
            let bytes = expired.iter().filter_map(|id| view.find(*id)).map(|s| s.data_bytes).sum();
            trace.saw(expired.len(), bytes, Some(bytes as f64), Verdict::Taken);
            return Some(drop_plan(expired));
        }
        let space = Space::new(&self.options, view);
        let runs = free_runs(view);
        if space.is_short() {
            return self.when_short(view, space, runs, trace);
        }
        trace.rule("runs that share partitions");
        if self.options.overlap_threshold > 0.0 {
            let bounds = self.bounds(space, self.options.overlap_threshold);
            let found = duplicates::best(view, &runs, &self.sketches, self.trust, bounds, trace);
            if let Some(choice) = found {
                let ratio = choice.dead_bytes / choice.bytes.max(1) as f64;
                let reason = Reason::Duplicates { ratio, sampled: choice.sampled };
                return Some(merge(&choice.runs, space, reason));
            }
        } else {
            trace.saw(0, 0, None, Verdict::Off("overlap_threshold is 0"));
        }
        let buckets = self.options.tiering.buckets(runs, view.now_s());
        self.by_size(view, space, &buckets, trace).or_else(|| {
            if view.jobs_running > 0 {
                return None;
            }
            self.for_tombstones(view, space, &buckets, trace).or_else(|| {
                let goal = self.options.space_amplification_goal?;
                trace.rule("the two largest tiers");
                let (runs, reason) = whole_tiers::oversized_tiers(goal, &buckets, trace)?;
                fitting(runs, space, reason, trace)
            })
        })
    }

    fn bounds(&self, space: Space, threshold: f64) -> duplicates::ChoiceLimits {
        duplicates::ChoiceLimits {
            threshold,
            runs_max: self.options.tiering.max_threshold,
            free_bytes: space.free_bytes,
            fragment_bytes: space.fragment_bytes,
        }
    }

    /// Plans a merge of runs of about the same size, as many as fit.
    fn by_size(
        &self,
        view: &TableView<'_>,
        space: Space,
        buckets: &[Bucket<'_>],
        trace: &mut Trace,
    ) -> Option<Plan> {
        trace.rule("runs of about the same size");
        let chosen = self.options.tiering.choose(buckets, view.enforce_min_threshold);
        let index = chosen.as_ref().map(|(bucket, _)| bucket.runs[0].id());
        for bucket in buckets {
            let verdict = match index {
                Some(first) if bucket.runs[0].id() == first => Verdict::Taken,
                Some(_) if bucket.runs.len() >= self.options.tiering.min_threshold => Verdict::Behind,
                _ => Verdict::TooFew { least: self.options.tiering.min_threshold },
            };
            trace.saw(bucket.runs.len(), bucket.bytes(), None, verdict);
        }
        let (bucket, reason) = chosen?;
        fitting(bucket.runs, space, reason, trace)
    }

    fn for_tombstones(
        &self,
        view: &TableView<'_>,
        space: Space,
        buckets: &[Bucket<'_>],
        trace: &mut Trace,
    ) -> Option<Plan> {
        trace.rule("tombstones that may be dropped");
        match self.options.tombstone_collection {
            _ if !self.options.tombstones.enabled => None,
            TombstoneCollection::WhenShort => {
                trace.saw(0, 0, None, Verdict::Off("tombstone_collection is when_short"));
                None
            }
            TombstoneCollection::Fragments => {
                let job = fragments::collect(&self.options, view, fragment_bounds(space), trace)?;
                let reason =
                    Reason::FragmentTombstones { ratio: job.ratio, overlapping: job.inputs.len() - 1 };
                Some(job.plan(view, space.fragment_bytes, reason))
            }
            TombstoneCollection::Tiers => {
                let (runs, reason) = whole_tiers::with_tombstones(&self.options, view, buckets, trace)?;
                fitting(runs, space, reason, trace)
            }
        }
    }

    /// Plans a job when less disk space than the reserve is free.
    fn when_short(
        &self,
        view: &TableView<'_>,
        space: Space,
        runs: Vec<Run<'_>>,
        trace: &mut Trace,
    ) -> Option<Plan> {
        let bounds = fragment_bounds(space);
        trace.rule("the disk is short: runs that share partitions");
        let runs_bounds = self.bounds(space, SHORT_GAIN);
        let whole = duplicates::best(view, &runs, &self.sketches, self.trust, runs_bounds, trace);
        trace.rule("the disk is short: fragments that share partitions with larger runs");
        let shared = fragments::promote(view, bounds, SHORT_GAIN, self.trust, trace);
        trace.rule("the disk is short: tombstones that may be dropped");
        let collected = fragments::collect(&self.options, view, bounds, trace);
        let of_fragments = [shared, collected]
            .into_iter()
            .flatten()
            .max_by(|a, b| a.gain().total_cmp(&b.gain()).then(b.bytes.cmp(&a.bytes)));
        let known = |dead_bytes: f64| Reason::DiskShortDeadBytes { dead_bytes: dead_bytes as u64 };
        let by_fragments =
            |job: &FragmentJob<'_>| job.plan(view, space.fragment_bytes, known(job.dead_bytes));
        match (whole, of_fragments) {
            (Some(whole), Some(job)) if job.gain() > whole.gain() => return Some(by_fragments(&job)),
            (Some(whole), _) => return Some(merge(&whole.runs, space, known(whole.dead_bytes))),
            (None, Some(job)) => return Some(by_fragments(&job)),
            (None, None) => {}
        }
        trace.rule("the disk is short: a few runs of like size");
        let needs = |runs: &[Run<'_>]| job_needs(runs, space.fragment_bytes);
        let usual = self.options.tiering.buckets(runs.clone(), view.now_s());
        if let Some(bucket) = self.options.tiering.most_interesting(&usual, 2) {
            let reason =
                Reason::DiskShort { needed_bytes: needs(&bucket.runs), free_bytes: view.disk.free_bytes };
            if let Some(plan) = fitting(bucket.runs, space, reason, trace) {
                return Some(plan);
            }
        }
        let mut runs = runs;
        runs.sort_by_key(|run| (run.bytes, run.id()));
        let free_bytes = view.disk.free_bytes;
        let pair = runs.windows(2).find(|pair| {
            let (fits, needs_bytes) = (space.has(needs(pair)), needs(pair));
            let verdict = if fits { Verdict::Taken } else { Verdict::DoesNotFit { needs_bytes, free_bytes } };
            trace.saw(2, pair[0].bytes + pair[1].bytes, None, verdict);
            fits
        });
        if let Some(pair) = pair {
            return Some(merge(pair, space, Reason::DiskShort { needed_bytes: needs(pair), free_bytes }));
        }
        // A budget may be exceeded for a time; the file system's space may not. If dead bytes stayed, the
        // budget would be exceeded permanently.
        if view.jobs_running > 0 {
            return None;
        }
        trace.rule("no job fits into the budget: the smallest");
        let alike = |pair: &&[Run<'_>]| pair[1].bytes <= pair[0].bytes.saturating_mul(BEYOND_BUDGET_RATIO);
        let pair = runs.windows(2).filter(alike).min_by_key(|pair| needs(pair))?;
        let needed_bytes = needs(pair);
        let fits = needed_bytes <= view.disk.file_system_free_bytes;
        let verdict = match fits {
            true => Verdict::Taken,
            false => Verdict::DoesNotFit {
                needs_bytes: needed_bytes,
                free_bytes: view.disk.file_system_free_bytes,
            },
        };
        trace.saw(2, pair[0].bytes + pair[1].bytes, None, verdict);
        fits.then(|| merge(pair, space, Reason::BudgetTooSmall { needed_bytes, free_bytes }))
    }
}

fn fragment_bounds(space: Space) -> fragments::FragmentLimits {
    fragments::FragmentLimits {
        fragment_bytes: space.fragment_bytes,
        free_bytes: space.free_bytes,
        short: space.is_short(),
    }
}

fn job_needs(runs: &[Run<'_>], fragment_bytes: u64) -> u64 {
    let inputs: Vec<_> = runs.iter().flat_map(|run| run.sstables.iter().copied()).collect();
    needs_bytes(&inputs, Some(fragment_bytes), releases_early(&inputs))
}

/// Merges all runs if they fit, or else as many of the smallest as fit, at least two.
fn fitting(mut runs: Vec<Run<'_>>, space: Space, reason: Reason, trace: &mut Trace) -> Option<Plan> {
    let all_need = job_needs(&runs, space.fragment_bytes);
    let mut needs_bytes = all_need;
    runs.sort_by_key(|run| (run.bytes, run.id()));
    while let Some(free_bytes) = space.free_bytes.filter(|free| needs_bytes > *free) {
        let bytes = runs.iter().map(|run| run.bytes).sum();
        trace.saw(runs.len(), bytes, None, Verdict::DoesNotFit { needs_bytes, free_bytes });
        runs.pop();
        if runs.len() < 2 {
            return None;
        }
        needs_bytes = job_needs(&runs, space.fragment_bytes);
    }
    let reason = match space.free_bytes {
        Some(free_bytes) if needs_bytes < all_need && all_need > free_bytes => {
            Reason::DiskShort { needed_bytes: all_need, free_bytes }
        }
        _ => reason,
    };
    Some(merge(&runs, space, reason))
}

/// Merges whole runs into one.
fn merge(runs: &[Run<'_>], space: Space, reason: Reason) -> Plan {
    let inputs: Vec<_> = runs.iter().flat_map(|run| run.sstables.iter().copied()).collect();
    Plan {
        inputs: ids(runs),
        expired: vec![],
        layout: Layout::run(space.fragment_bytes),
        reason,
        release_early: releases_early(&inputs),
    }
}

impl Strategy for Incremental {
    fn name(&self) -> &'static str {
        "IncrementalCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        self.decide(view, &mut Trace::default())
    }

    fn finished(&mut self, finished: &Finished<'_>) {
        let Reason::Duplicates { ratio, sampled: false } = finished.plan.reason else {
            self.trust += (1.0 - self.trust) * FORGIVING;
            return;
        };
        let freed = finished.input_bytes.saturating_sub(finished.output_bytes) as f64;
        let found = freed / finished.input_bytes.max(1) as f64;
        let promised = (ratio / self.trust).max(f64::MIN_POSITIVE);
        self.trust = ((self.trust + found / promised) / 2.0).clamp(0.0, 1.0);
    }

    fn major(&mut self, view: &TableView<'_>, _split: bool) -> Vec<Plan> {
        let space = Space::new(&self.options, view);
        let runs = free_runs(view);
        if runs.is_empty() {
            return vec![];
        }
        vec![merge(&runs, space, Reason::Asked("major compaction"))]
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        let space = Space::new(&self.options, view);
        let layout = Layout::run(space.fragment_bytes);
        reshape::of_tiers(&self.options.tiering, free_runs(view), view.now_s(), mode, layout)
    }

    fn layout(&self, _level: u32) -> Layout {
        Layout::run(self.options.fragment_bytes)
    }

    fn reserve_bytes(&self, view: &TableView<'_>) -> u64 {
        Space::new(&self.options, view).reserve_bytes
    }

    fn wants_sample(&self, view: &TableView<'_>) -> Option<SamplePlan> {
        if self.options.overlap_threshold <= 0.0 {
            return None;
        }
        let space = Space::new(&self.options, view);
        // The estimate by sketches with full trust is an upper bound of the result.
        let unsampled = TableView { sampled: None, ..*view };
        let bounds = self.bounds(space, self.options.overlap_threshold);
        let runs = free_runs(view);
        let choice = duplicates::best(&unsampled, &runs, &self.sketches, 1.0, bounds, &mut Trace::default())?;
        let ids: Vec<_> = choice.runs.iter().map(Run::id).take(SAMPLED_RUNS_MAX).collect();
        let known = view.sampled.is_some_and(|sampled| sampled.dead_ratio(&ids).is_some());
        let share = SAMPLE_BYTES as f64 / choice.bytes as f64;
        (!known && choice.bytes >= self.options.sampled_from_bytes)
            .then(|| SamplePlan::uniform(ids, share, SAMPLE_RANGES, view.seed))
    }

    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let mut trace = Trace::kept();
        let plan = self.decide(view, &mut trace);
        Explanation {
            strategy: self.name(),
            sstables: view.sstables.len(),
            bytes: view.sstables.iter().map(|sstable| sstable.data_bytes).sum(),
            attempts: trace.into_attempts(),
            plan,
        }
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let tiering = &self.options.tiering;
        tiering.pending(&tiering.buckets(free_runs(view), view.now_s()))
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        backlog::of_tiers(&self.options.tiering, crate::tiers::runs(view.sstables), view.now_s())
    }
}
