//! What the manager knows of a table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use catalog::{TableSettings, TombstoneGcMode};
use compaction::{JobRules, Strategy};
use runtime::Mutex;
use sstable::read::SSTable;

use super::futile::Futile;
use super::pause::Pause;
use super::reshape::Reshaping;
use super::sample::Sampling;
use super::strategies;
use super::view::Views;
use crate::table::Table;

/// A table as the manager knows it.
pub(super) struct TableState {
    pub(super) table: Rc<Table>,
    pub(super) options: RefCell<BTreeMap<String, String>>,
    /// How its jobs are carried out, by its options.
    pub(super) rules: Cell<JobRules>,
    pub(super) tombstone_gc: Cell<TombstoneGcMode>,
    /// SSTables that are to be brought into the strategy's form.
    pub(super) reshaping: RefCell<Option<Reshaping>>,
    pub(super) sampling: Sampling,
    pub(super) strategy: RefCell<Box<dyn Strategy>>,
    pub(super) views: RefCell<Views>,
    /// SSTables whose tombstones cannot go yet.
    pub(super) futile: RefCell<Futile>,
    /// `nodetool disableautocompaction` has not been called.
    pub(super) auto: Cell<bool>,
    /// So many need the table to be left alone: truncates, the end of the table.
    pub(super) blocks: Cell<u32>,
    /// Held by the one operation that has all SSTables for jobs of its own: a major compaction, a scrub. Others wait.
    pub(super) operation: Mutex,
    /// The strategy may have a job.
    pub(super) wants: Cell<bool>,
    /// The backlog of these SSTables.
    pub(super) backlog: Cell<Option<Backlog>>,
    /// No job begins in it, since the last one failed.
    pub(super) pause: Pause,
}

/// SSTables, and how many bytes must still be rewritten of them.
pub(super) type Backlog = (Rc<Vec<Rc<SSTable>>>, f64);

impl TableState {
    pub(super) fn new(table: &Rc<Table>, settings: &TableSettings, strategy: Box<dyn Strategy>) -> Rc<Self> {
        let options = &settings.compaction;
        Rc::new(Self {
            table: table.clone(),
            options: RefCell::new(options.clone()),
            rules: Cell::new(strategies::rules_of(options)),
            tombstone_gc: Cell::new(settings.tombstone_gc()),
            reshaping: RefCell::default(),
            sampling: Sampling::default(),
            strategy: RefCell::new(strategy),
            views: RefCell::default(),
            futile: RefCell::default(),
            auto: Cell::new(true),
            blocks: Cell::new(0),
            operation: Mutex::default(),
            wants: Cell::new(true),
            backlog: Cell::new(None),
            pause: Pause::default(),
        })
    }
}
