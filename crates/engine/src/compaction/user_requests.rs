//! Compactions requested by users: major compaction, rewriting single SSTables, and rewriting SSTables
//! without the data that other SSTables delete.

use std::collections::VecDeque;
use std::rc::Rc;

use compaction::garbage::{self, Granularity};
use compaction::{Layout, Plan, Reason, SSTableId, SSTableView, Strategy, TableView};
use model::TableId;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use super::error::JobError;
use super::job::Shadow;
use super::manager::Manager;
use super::table_state::TableState;
use crate::error::EngineError;

/// Default limit of concurrent jobs of one major compaction.
const MAJOR_JOBS_MAX: usize = 4;

impl From<JobError> for EngineError {
    fn from(error: JobError) -> Self {
        let text = error.to_string();
        if error.is_no_space() { Self::NoSpace(text) } else { Self::Compaction(text) }
    }
}

impl Manager {
    /// `nodetool compact`: compacts the whole table in the way of its strategy.
    pub async fn major(self: &Rc<Self>, id: TableId, split: bool) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        let jobs_max = match (managed.rules.get().parallel_major, self.jobs_max()) {
            (false, _) => 1,
            (true, 0) => MAJOR_JOBS_MAX,
            (true, jobs) => jobs as usize,
        };
        self.acquire(&managed).await;
        let plans = self.with_view(&managed, |strategy, view| strategy.major(view, split));
        let result = self.run_all(&managed, plans, "Major compaction", jobs_max).await;
        self.release(&managed);
        Ok(result?)
    }

    /// Merges the named SSTables into one.
    pub async fn merge(self: &Rc<Self>, id: TableId, names: &[SSTableName]) -> Result<(), EngineError> {
        let plans = |strategy: &mut dyn Strategy, view: &TableView<'_>, sstables: &[Rc<SSTable>]| {
            let named = view.sstables.iter().zip(sstables).filter(|(_, it)| names.contains(&it.name()));
            let inputs = named.filter(|(view, _)| view.is_free()).map(|(view, _)| view.id).collect();
            let reason = Reason::Asked("user-defined");
            let layout = Layout { level: 0, ..strategy.layout(0) };
            vec![Plan { inputs, expired: vec![], layout, reason, release_early: false }]
        };
        self.run_request(id, "User defined compaction", plans).await
    }

    /// Rewrites each SSTable that `wants` selects, one at a time.
    pub async fn rewrite(
        self: &Rc<Self>,
        id: TableId,
        kind: &'static str,
        asked: &'static str,
        wants: impl Fn(&SSTable) -> bool,
    ) -> Result<(), EngineError> {
        let plans = |strategy: &mut dyn Strategy, view: &TableView<'_>, sstables: &[Rc<SSTable>]| {
            let plan = |view: &SSTableView| Plan {
                inputs: vec![view.id],
                expired: vec![],
                layout: strategy.layout(view.level),
                reason: Reason::Asked(asked),
                release_early: false,
            };
            let wanted = view.sstables.iter().zip(sstables);
            wanted
                .filter(|(view, sstable)| view.is_free() && wants(sstable))
                .map(|(view, _)| plan(view))
                .collect()
        };
        self.run_request(id, kind, plans).await
    }

    /// Rewrites, one after the other, the SSTables that may contain dead data, without data that other
    /// SSTables delete or, with granularity `Cell`, overwrite.
    pub async fn garbage_collect(
        self: &Rc<Self>,
        id: TableId,
        granularity: Granularity,
    ) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        self.acquire(&managed).await;
        let order = self.with_view(&managed, |_, view| garbage::candidates(view, granularity));
        let result = self.collect_from(&managed, order, granularity).await;
        self.release(&managed);
        Ok(result?)
    }

    async fn collect_from(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        order: Vec<SSTableId>,
        granularity: Granularity,
    ) -> Result<(), JobError> {
        for id in order {
            // Outputs of the jobs before participate in the place of their inputs.
            let planned = self.with_view(managed, |strategy, view| {
                let plan = garbage::plan(view, id, |level| strategy.layout(level))?;
                Some((plan, garbage::shadows_of(view, id, granularity)))
            });
            let Some((plan, shadows)) = planned else { continue };
            let mut by = self.sstables(managed, &shadows)?;
            by.retain(|sstable| !managed.table.sstables.is_quarantined(sstable.name()));
            let shadow = (!by.is_empty()).then_some(Shadow { by, granularity });
            self.begin_with(managed, plan, "Remove deleted data", None, shadow)?.await?;
        }
        Ok(())
    }

    /// Waits for other operations of the table, stops the strategy's jobs, and runs the plans that `plan`
    /// returns, one after the other. `plan` also gets the SSTables of the view, in the view's order.
    pub async fn run_request(
        self: &Rc<Self>,
        id: TableId,
        kind: &'static str,
        plan: impl FnOnce(&mut dyn Strategy, &TableView<'_>, &[Rc<SSTable>]) -> Vec<Plan>,
    ) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        self.acquire(&managed).await;
        let sstables = managed.table.sstables();
        let plans = self.with_view(&managed, |strategy, view| plan(strategy, view, &sstables));
        drop(sstables);
        let result = self.run_all(&managed, plans, kind, 1).await;
        self.release(&managed);
        Ok(result?)
    }

    /// Runs the plans, at most `jobs_max` at once. After an error no further job starts, the running ones are
    /// awaited, and the first error is returned.
    async fn run_all(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        plans: Vec<Plan>,
        kind: &'static str,
        jobs_max: usize,
    ) -> Result<(), JobError> {
        let mut result = Ok(());
        let mut running = VecDeque::new();
        for plan in plans.into_iter().filter(|plan| !plan.inputs.is_empty() || !plan.expired.is_empty()) {
            if running.len() >= jobs_max
                && let Some(oldest) = running.pop_front()
            {
                result = oldest.await;
            }
            if result.is_err() {
                break;
            }
            match self.begin(managed, plan, kind, None) {
                Ok(job) => running.push_back(job),
                Err(error) => result = Err(error),
            }
        }
        for job in running {
            let ended: Result<(), JobError> = job.await;
            result = result.and(ended);
        }
        result
    }
}
