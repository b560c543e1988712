//! `only_purge_repaired_tombstones`: repaired and unrepaired SSTables are treated as two separate tables.
//!
//! An SSTable is repaired if its Statistics.db has a repair time (`repairedAt`). As in Cassandra, each of the
//! two sets has its own strategy, and no plan mixes them, so that repaired SSTables stay repaired. Nothing in
//! the unrepaired set may be purged, so its view has no droppable tombstones and nothing expired. The
//! SSTables of the other set are passed as [`TableView::outside`], because a tombstone may still be needed
//! for them.

use base::HashSet;

use crate::explain::{Attempt, Explanation, Verdict};
use crate::plan::{Finished, Layout, Plan};
use crate::reshape::Reshape;
use crate::sample::SamplePlan;
use crate::sstable_id::SSTableId;
use crate::strategy::Strategy;
use crate::view::{SSTableView, TableView};

/// Plans the two sets separately; see the head of this file.
pub struct RepairedApart {
    unrepaired: Box<dyn Strategy>,
    repaired: Box<dyn Strategy>,
    /// The repaired SSTables of the last view.
    repaired_ids: HashSet<SSTableId>,
}

/// The SSTables of the two sets, and the view without them.
struct Sets<'a> {
    view: TableView<'a>,
    unrepaired: Vec<SSTableView>,
    repaired: Vec<SSTableView>,
}

impl<'a> Sets<'a> {
    fn of(view: &TableView<'a>) -> Self {
        let (repaired, mut unrepaired): (Vec<SSTableView>, Vec<SSTableView>) =
            view.sstables.iter().cloned().partition(|sstable| sstable.is_repaired);
        unrepaired.iter_mut().for_each(|sstable| sstable.droppable_ratio = 0.0);
        Self { view: *view, unrepaired, repaired }
    }

    fn unrepaired(&self) -> TableView<'_> {
        let outside = &self.repaired;
        TableView { sstables: &self.unrepaired, outside, gc_before_s: 0, ..self.view }
    }

    fn repaired(&self) -> TableView<'_> {
        TableView { sstables: &self.repaired, outside: &self.unrepaired, ..self.view }
    }
}

impl RepairedApart {
    /// Takes two strategies made of the same options.
    pub fn new(unrepaired: Box<dyn Strategy>, repaired: Box<dyn Strategy>) -> Self {
        Self { unrepaired, repaired, repaired_ids: HashSet::default() }
    }

    fn sets<'a>(&mut self, view: &TableView<'a>) -> Sets<'a> {
        let sets = Sets::of(view);
        self.repaired_ids = sets.repaired.iter().map(|sstable| sstable.id).collect();
        sets
    }
}

impl Strategy for RepairedApart {
    fn name(&self) -> &'static str {
        self.unrepaired.name()
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let sets = self.sets(view);
        self.unrepaired.next(&sets.unrepaired()).or_else(|| self.repaired.next(&sets.repaired()))
    }

    fn finished(&mut self, finished: &Finished<'_>) {
        let plan = finished.plan;
        let is_repaired = plan.inputs.iter().chain(&plan.expired).any(|id| self.repaired_ids.contains(id));
        let strategy = if is_repaired { &mut self.repaired } else { &mut self.unrepaired };
        strategy.finished(finished);
    }

    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan> {
        let sets = self.sets(view);
        let mut plans = self.unrepaired.major(&sets.unrepaired(), split);
        plans.extend(self.repaired.major(&sets.repaired(), split));
        plans
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        let sets = Sets::of(view);
        let of_repaired = || self.repaired.reshape(&sets.repaired(), mode);
        self.unrepaired.reshape(&sets.unrepaired(), mode).or_else(of_repaired)
    }

    fn layout(&self, level: u32) -> Layout {
        self.unrepaired.layout(level)
    }

    fn runs_in_parallel(&self) -> bool {
        self.unrepaired.runs_in_parallel()
    }

    fn reserve_bytes(&self, view: &TableView<'_>) -> u64 {
        self.unrepaired.reserve_bytes(view)
    }

    /// Samples only the unrepaired set: a view has one sample, and two strategies would request it
    /// alternately.
    fn wants_sample(&self, view: &TableView<'_>) -> Option<SamplePlan> {
        self.unrepaired.wants_sample(&Sets::of(view).unrepaired())
    }

    fn level_limits(&self) -> Vec<u64> {
        self.unrepaired.level_limits()
    }

    /// The repaired set is asked only if there is no job for the other one.
    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let sets = Sets::of(view);
        let unrepaired = self.unrepaired.explain(&sets.unrepaired());
        let repaired = self.repaired.explain(&sets.repaired());
        let is_behind = unrepaired.plan.is_some();
        let labeled = |set: &str, attempts: Vec<Attempt>, is_behind: bool| {
            let of = |mut attempt: Attempt| {
                attempt.rule = format!("{set}: {}", attempt.rule).into();
                let taken = attempt.candidates.iter_mut().filter(|it| it.verdict == Verdict::Taken);
                taken.filter(|_| is_behind).for_each(|candidate| candidate.verdict = Verdict::Behind);
                attempt
            };
            attempts.into_iter().map(of).collect::<Vec<_>>()
        };
        let mut attempts = labeled("not repaired", unrepaired.attempts, false);
        attempts.extend(labeled("repaired", repaired.attempts, is_behind));
        Explanation {
            strategy: self.name(),
            sstables: view.sstables.len(),
            bytes: unrepaired.bytes + repaired.bytes,
            attempts,
            plan: unrepaired.plan.or(repaired.plan),
        }
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let sets = Sets::of(view);
        self.unrepaired.pending(&sets.unrepaired()) + self.repaired.pending(&sets.repaired())
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        let sets = Sets::of(view);
        self.unrepaired.backlog_bytes(&sets.unrepaired()) + self.repaired.backlog_bytes(&sets.repaired())
    }
}
