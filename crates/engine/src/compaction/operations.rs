//! What users ask for: a major compaction, rewriting single SSTables, rewriting them without what others delete.

use std::rc::Rc;

use compaction::garbage::{self, Granularity};
use compaction::{Layout, Plan, Reason, SSTableId, SSTableView, Strategy, TableView};
use model::TableId;
use sstable::name::SstableName;
use sstable::read::SSTable;

use super::error::JobError;
use super::job::Shadow;
use super::managed::Managed;
use super::manager::Manager;
use crate::error::EngineError;

impl From<JobError> for EngineError {
    fn from(error: JobError) -> Self {
        let text = error.to_string();
        if error.is_no_space() { Self::NoSpace(text) } else { Self::Compaction(text) }
    }
}

impl Manager {
    /// `nodetool compact`: everything the table has, as its strategy does that.
    pub async fn major(self: &Rc<Self>, id: TableId, split: bool) -> Result<(), EngineError> {
        self.carry_out(id, "Major compaction", |strategy, view, _| strategy.major(view, split)).await
    }

    /// Merges these SSTables into one.
    pub async fn merge(self: &Rc<Self>, id: TableId, names: &[SstableName]) -> Result<(), EngineError> {
        let plans = |strategy: &mut dyn Strategy, view: &TableView<'_>, sstables: &[Rc<SSTable>]| {
            let named = view.sstables.iter().zip(sstables).filter(|(_, it)| names.contains(&it.name()));
            let inputs = named.filter(|(view, _)| view.is_free()).map(|(view, _)| view.id).collect();
            let reason = Reason::Asked("user-defined");
            let layout = Layout { level: 0, ..strategy.layout(0) };
            vec![Plan { inputs, expired: vec![], layout, reason, release_early: false }]
        };
        self.carry_out(id, "User defined compaction", plans).await
    }

    /// Rewrites those SSTables that `wants` picks, each by itself.
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
        self.carry_out(id, kind, plans).await
    }

    /// Rewrites one after the other what may have something dead in it, without what the other SSTables delete or, by
    /// cells, overwrite.
    pub async fn garbage_collect(
        self: &Rc<Self>,
        id: TableId,
        granularity: Granularity,
    ) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        self.hold(&managed).await;
        let order = self.with_view(&managed, |_, view| garbage::candidates(view, granularity));
        let result = self.collect_from(&managed, order, granularity).await;
        self.let_go(&managed);
        Ok(result?)
    }

    async fn collect_from(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        order: Vec<SSTableId>,
        granularity: Granularity,
    ) -> Result<(), JobError> {
        for id in order {
            // What the jobs before have written takes part as what they replaced did.
            let planned = self.with_view(managed, |strategy, view| {
                let plan = garbage::plan(view, id, |level| strategy.layout(level))?;
                Some((plan, garbage::shadows_of(view, id, granularity)))
            });
            let Some((plan, shadows)) = planned else { continue };
            let mut by = self.sstables(managed, &shadows)?;
            by.retain(|sstable| !managed.table.is_quarantined(sstable.name()));
            let shadow = (!by.is_empty()).then_some(Shadow { by, granularity });
            self.begin_with(managed, plan, "Remove deleted data", None, shadow)?.await?;
        }
        Ok(())
    }

    /// Stops the table's jobs, lets `plan` say what is to be done instead (it gets the SSTables of the view beside it)
    /// and does that, one after the other.
    pub async fn carry_out(
        self: &Rc<Self>,
        id: TableId,
        kind: &'static str,
        plan: impl FnOnce(&mut dyn Strategy, &TableView<'_>, &[Rc<SSTable>]) -> Vec<Plan>,
    ) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        self.hold(&managed).await;
        let sstables = managed.table.sstables();
        let plans = self.with_view(&managed, |strategy, view| plan(strategy, view, &sstables));
        drop(sstables);
        let result = self.run_all(&managed, plans, kind).await;
        self.let_go(&managed);
        Ok(result?)
    }

    async fn run_all(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        plans: Vec<Plan>,
        kind: &'static str,
    ) -> Result<(), JobError> {
        for plan in plans.into_iter().filter(|plan| !plan.inputs.is_empty() || !plan.expired.is_empty()) {
            self.begin(managed, plan, kind, None)?.await?;
        }
        Ok(())
    }
}
