//! Brings SSTables from elsewhere, and at a start all SSTables, to the shards that own them and into the
//! strategy's form.
//!
//! An SSTable that several shards read is dealt out first (`reshard`); each one by the shard that is
//! responsible for it, as soon as it appears. Loaded SSTables are then reshaped strictly; SSTables found at a
//! start only where their form would harm. Each job is planned from the result of the one before, until the
//! strategy wants none.

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
/// Limit of jobs. A strategy that has not finished by then continues with its ordinary jobs.
const ROUNDS_MAX: u32 = 100;

/// The SSTables being reshaped.
pub(super) struct Reshaping {
    mode: Reshape,
    names: HashSet<SSTableName>,
    rounds: u32,
}

impl Manager {
    /// Starts reshaping of all tables, at a start.
    pub(super) fn reshape_all(&self) {
        for managed in self.tables.borrow().values() {
            let names = managed.table.sstables().iter().map(|sstable| sstable.name()).collect();
            managed.reshaping.replace(Some(Reshaping { mode: Reshape::Relaxed, names, rounds: 0 }));
        }
    }

    /// Starts reshaping of SSTables that were loaded into the table.
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

    /// Adds the outputs of a reshape job to the SSTables being reshaped.
    pub(super) fn reshaped(&self, managed: &TableState, outputs: &[SSTableName]) {
        if let Some(reshaping) = managed.reshaping.borrow_mut().as_mut() {
            reshaping.names.extend(outputs.iter().copied());
        }
    }

    /// Replaces `input`, which was dealt out, by this shard's part of it.
    pub(super) fn resharded(&self, table: &Rc<Table>, input: SSTableName, outputs: &[SSTableName]) {
        let Ok(managed) = self.managed(table.schema().id) else { return };
        if let Some(reshaping) = managed.reshaping.borrow_mut().as_mut()
            && reshaping.names.remove(&input)
        {
            reshaping.names.extend(outputs.iter().copied());
        }
    }

    /// Starts to deal out an SSTable of several shards, if this shard is responsible for one.
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
                && reshard::is_owner(self.shard(), name)
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

    /// Starts the next reshape job.
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
