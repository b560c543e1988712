//! The interface of compaction strategies.

use crate::explain::Explanation;
use crate::plan::{Finished, Layout, Plan};
use crate::reshape::Reshape;
use crate::sample::SamplePlan;
use crate::view::TableView;

/// Decides for one table on one shard. A strategy may keep state about its decisions, and it receives all
/// other information as arguments.
///
/// Every strategy **quiesces**: if its plans are run one after another without writes in between, they come
/// to an end. A plan never contains an SSTable that is not free ([`crate::SSTableView::is_free`]).
pub trait Strategy {
    /// The strategy's name as in `compaction = {'class': …}`, without package.
    fn name(&self) -> &'static str;

    /// The next job; `None` if no job is worthwhile.
    fn next(&mut self, view: &TableView<'_>) -> Option<Plan>;

    /// Reports that a plan of this strategy was completed.
    fn finished(&mut self, _finished: &Finished<'_>) {}

    /// `nodetool compact`: compacts everything once. With `split`, one large output is divided as Cassandra
    /// and ScyllaDB do.
    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan>;

    /// The next job that brings SSTables from elsewhere into the strategy's form; `view` contains only these
    /// SSTables. `None`: they have this form. The job purges nothing.
    fn reshape(&self, _view: &TableView<'_>, _mode: Reshape) -> Option<Plan> {
        None
    }

    /// The layout of flushes and of rewrites of single SSTables.
    fn layout(&self, level: u32) -> Layout;

    /// The number of SSTables that each level may have, level 0 first; empty without levels.
    fn level_limits(&self) -> Vec<u64> {
        vec![]
    }

    /// Whether several jobs of the table may run at once.
    fn runs_in_parallel(&self) -> bool {
        true
    }

    /// The space reserve in bytes. Flushes wait while less disk space is free, so that a job that frees space
    /// can always run. The reserve may exceed the size of the disk; then waiting helps only if [`Self::next`]
    /// has a plan.
    fn reserve_bytes(&self, _view: &TableView<'_>) -> u64 {
        0
    }

    /// A sample that would improve the decision, to be passed in [`TableView::sampled`]. Called before
    /// [`Self::next`].
    fn wants_sample(&self, _view: &TableView<'_>) -> Option<SamplePlan> {
        None
    }

    /// The candidates that [`Self::next`] would consider, and why each is taken or not.
    fn explain(&self, view: &TableView<'_>) -> Explanation;

    /// Estimate of the number of pending jobs.
    fn pending(&self, view: &TableView<'_>) -> u64;

    /// The backlog in bytes, for the controller.
    fn backlog_bytes(&self, view: &TableView<'_>) -> f64;
}
