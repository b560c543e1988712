//! What every strategy answers.

use crate::plan::{Finished, Layout, Plan};
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

    /// How flushes and rewrites of single SSTables are cut.
    fn layout(&self, level: u32) -> Layout;

    /// Whether several jobs of the table may run at once.
    fn runs_in_parallel(&self) -> bool {
        true
    }

    /// About how many jobs are to be done.
    fn pending(&self, view: &TableView<'_>) -> u64;

    /// Bytes that must still be rewritten for what is here, as the backlog controller counts them.
    fn backlog_bytes(&self, view: &TableView<'_>) -> f64;
}
