//! The compaction manager's state of a table.

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
use super::table_strategy;
use super::view::Views;
use crate::table::Table;

/// See the head of this file.
pub(super) struct TableState {
    pub(super) table: Rc<Table>,
    pub(super) options: RefCell<BTreeMap<String, String>>,
    /// The rules for its jobs, from its options.
    pub(super) rules: Cell<JobRules>,
    pub(super) tombstone_gc: Cell<TombstoneGcMode>,
    /// SSTables that are to be brought into the strategy's form.
    pub(super) reshaping: RefCell<Option<Reshaping>>,
    pub(super) sampling: Sampling,
    pub(super) strategy: RefCell<Box<dyn Strategy>>,
    pub(super) views: RefCell<Views>,
    /// SSTables whose tombstones cannot be purged yet.
    pub(super) futile: RefCell<Futile>,
    /// False after `nodetool disableautocompaction`.
    pub(super) auto: Cell<bool>,
    /// Number of operations during which no job may run: truncates, and the drop of the table.
    pub(super) blocks: Cell<u32>,
    /// Held by the one operation that uses all SSTables for its own jobs, such as a major compaction or a
    /// scrub. Other operations wait.
    pub(super) operation: Mutex,
    /// The strategy may have a job.
    pub(super) wants: Cell<bool>,
    /// The backlog and the SSTables from which it was computed.
    pub(super) backlog: Cell<Option<Backlog>>,
    /// While it lasts no job starts, because the last one failed.
    pub(super) pause: Pause,
}

/// SSTables, and the bytes of them that must still be rewritten.
pub(super) type Backlog = (Rc<Vec<Rc<SSTable>>>, f64);

impl TableState {
    pub(super) fn new(table: &Rc<Table>, settings: &TableSettings, strategy: Box<dyn Strategy>) -> Rc<Self> {
        let options = &settings.compaction;
        Rc::new(Self {
            table: table.clone(),
            options: RefCell::new(options.clone()),
            rules: Cell::new(table_strategy::rules_of(options)),
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
