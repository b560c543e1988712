//! What every strategy answers.

use crate::explain::Explanation;
use crate::plan::{Finished, Layout, Plan};
use crate::reshape::Reshape;
use crate::sample::SamplePlan;
use crate::view::TableView;

/// Decides for one table on one shard. It may remember what it decided; it learns nothing but by its arguments.
///
/// Every strategy **quiesces**: carried out one after the other with no writes between, its plans come to an end. A plan
/// never names an SSTable that is not free ([`crate::SSTableView::is_free`]).
pub trait Strategy {
    /// The strategy's name as `compaction = {'class': …}` has it, without package.
    fn name(&self) -> &'static str;

    /// The next job, if there is one worth doing.
    fn next(&mut self, view: &TableView<'_>) -> Option<Plan>;

    /// A plan of this strategy was carried out.
    fn finished(&mut self, _finished: &Finished<'_>) {}

    /// `nodetool compact`: everything, once. With `split`, the output of one large SSTable is cut as the peers do.
    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan>;

    /// The next job that brings SSTables from elsewhere, which are all of `view`, into the strategy's form; `None`: they
    /// are. Nothing is purged by it.
    fn reshape(&self, _view: &TableView<'_>, _mode: Reshape) -> Option<Plan> {
        None
    }

    /// How flushes and rewrites of single SSTables are cut.
    fn layout(&self, level: u32) -> Layout;

    /// Whether several jobs of the table may run at once.
    fn runs_in_parallel(&self) -> bool {
        true
    }

    /// Flushes wait while less than this is free, so that there is always room for a job that frees some. It may ask for
    /// more than the disk has: then there is nothing to be won by waiting unless [`Self::next`] has a plan.
    fn reserve_bytes(&self, _view: &TableView<'_>) -> u64 {
        0
    }

    /// A sample that would help to decide, to be put into [`TableView::sampled`]. Asked before [`Self::next`].
    fn wants_sample(&self, _view: &TableView<'_>) -> Option<SamplePlan> {
        None
    }

    /// What [`Self::next`] would look at, and why each is taken or not.
    fn explain(&self, view: &TableView<'_>) -> Explanation {
        Explanation::plain(self.name(), view, self.pending(view))
    }

    /// About how many jobs are to be done.
    fn pending(&self, view: &TableView<'_>) -> u64;

    /// Bytes that must still be rewritten for what is here, as the backlog controller counts them.
    fn backlog_bytes(&self, view: &TableView<'_>) -> f64;
}
