//! SSTables from elsewhere, and all at a start, are brought to the shards that own them and into the strategy's form.
//!
//! What several shards read is dealt out first (`reshard`), each SSTable by the shard whose turn it is, whenever there
//! is one. What has been loaded is then reshaped strictly, what was there at a start only where it would harm; each job
//! is asked for with what the one before left, until the strategy wants none.

use std::rc::Rc;

use base::HashSet;
use compaction::{Reshape, SSTableView, TableView};
use model::TableId;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use super::manager::Manager;
use super::reshard;
use super::running::NewJob;
use super::table_state::TableState;
use crate::error::EngineError;
use crate::table::Table;

const RESHARD: &str = "Reshard";
const RESHAPE: &str = "Reshape";
/// A strategy that has not come to an end by then is left to its own jobs.
const ROUNDS_MAX: u32 = 100;

/// What is being brought into form.
pub(super) struct Reshaping {
    mode: Reshape,
    names: HashSet<SSTableName>,
    rounds: u32,
}

impl Manager {
    /// What every table has, at a start.
    pub(super) fn reshape_all(&self) {
        for managed in self.tables.borrow().values() {
            let names = managed.table.sstables().iter().map(|sstable| sstable.name()).collect();
            managed.reshaping.replace(Some(Reshaping { mode: Reshape::Relaxed, names, rounds: 0 }));
        }
    }

    /// These have been loaded into the table.
    pub fn loaded(&self, id: TableId, names: &[SSTableName]) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        {
            let mut reshaping = managed.reshaping.borrow_mut();
            let reshaping = reshaping.get_or_insert_with(|| Reshaping {
                mode: Reshape::Strict,
                names: HashSet::default(),
                rounds: 0,
            });
            reshaping.mode = Reshape::Strict;
            reshaping.rounds = 0;
            reshaping.names.extend(names.iter().copied());
        }
        self.nudge(&managed.table);
        Ok(())
    }

    /// A job has put these in the place of some of those that are reshaped.
    pub(super) fn reshaped(&self, managed: &TableState, outputs: &[SSTableName]) {
        if let Some(reshaping) = managed.reshaping.borrow_mut().as_mut() {
            reshaping.names.extend(outputs.iter().copied());
        }
    }

    /// `input` was dealt out; these are this shard's part of it.
    pub(super) fn resharded(&self, table: &Rc<Table>, input: SSTableName, outputs: &[SSTableName]) {
        let Ok(managed) = self.managed(table.schema().id) else { return };
        if let Some(reshaping) = managed.reshaping.borrow_mut().as_mut()
            && reshaping.names.remove(&input)
        {
            reshaping.names.extend(outputs.iter().copied());
        }
    }

    /// Begins to deal out an SSTable of several shards, if there is one and it is this shard's turn.
    pub(super) fn start_reshard(self: &Rc<Self>, managed: &Rc<TableState>) {
        let shards = self.shard().shard_count();
        let table = &managed.table;
        if shards == 1 || table.is_system() || !self.may_begin(managed) {
            return;
        }
        if self.running.has_kind(RESHARD) {
            return;
        }
        let sstables = table.sstables();
        let is_mine = |sstable: &&Rc<SSTable>| {
            let name = sstable.name();
            table.is_shared(sstable, shards)
                && reshard::is_turn(self.shard(), name)
                && !table.sstables.is_frozen(name)
                && !table.sstables.is_quarantined(name)
        };
        let Some(input) = sstables.iter().find(is_mine).cloned() else { return };
        let needs_bytes = input.data_bytes() + input.index_bytes();
        if self.disk_view().free_bytes < needs_bytes {
            return;
        }
        let layout = managed.strategy.borrow().layout(input.level());
        let new = NewJob {
            kind: RESHARD,
            reason: "it has partitions of several shards".to_string(),
            total_bytes: input.uncompressed_bytes(),
            input_sstables: 1,
            weight: None,
            needs_bytes,
            own: Rc::new(std::cell::RefCell::new([input.name()].into_iter().collect())),
        };
        let (around, table) = (self.around.clone(), table.clone());
        let run = async move |control| Box::pin(reshard::run(&around, &control, table, input, layout)).await;
        match self.begin_job(managed, new, None, run) {
            Ok(job) => job.detach(),
            Err(error) => self.failed(managed, &error),
        }
    }

    /// Begins the next job that brings SSTables into form.
    pub(super) fn start_reshape(self: &Rc<Self>, managed: &Rc<TableState>) {
        if managed.reshaping.borrow().is_none() || !self.may_begin(managed) {
            return;
        }
        let jobs = self.running.of_table(managed.table.schema().id);
        if jobs.iter().any(|running| running.job.kind == RESHAPE) {
            return;
        }
        let sstables = managed.table.sstables();
        let shards = self.shard().shard_count();
        let mut is_waiting = false;
        let plan = self.with_view(managed, |strategy, view| {
            let mut reshaping = managed.reshaping.borrow_mut();
            let reshaping = reshaping.as_mut()?;
            let there: HashSet<SSTableName> = sstables.iter().map(|sstable| sstable.name()).collect();
            reshaping.names.retain(|name| there.contains(name));
            if reshaping.rounds == ROUNDS_MAX {
                return None;
            }
            let wanted = view.sstables.iter().zip(sstables.iter());
            let wanted = wanted.filter(|(_, sstable)| reshaping.names.contains(&sstable.name()));
            is_waiting = wanted
                .clone()
                .any(|(view, sstable)| view.compacting || managed.table.is_shared(sstable, shards));
            let chosen: Vec<SSTableView> = wanted.map(|(view, _)| view.clone()).collect();
            let plan = strategy.reshape(&TableView { sstables: &chosen, ..*view }, reshaping.mode);
            reshaping.rounds += u32::from(plan.is_some());
            plan
        });
        match plan {
            Some(plan) => match self.begin(managed, plan, RESHAPE, None) {
                Ok(job) => job.detach(),
                Err(error) => self.failed(managed, &error),
            },
            None if is_waiting => {}
            None => drop(managed.reshaping.take()),
        }
    }
}
