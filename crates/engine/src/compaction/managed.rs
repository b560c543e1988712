//! A table, and a job, as the manager knows them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use catalog::{TableSettings, TombstoneGcMode};
use compaction::weight::Weight;
use compaction::{RunId, SampledOverlap, Strategy};
use sstable::read::SSTable;

use super::futile::Futile;
use super::job::Control;
use super::purge::OwnSSTables;
use super::reshape::Reshaping;
use super::view::Views;
use crate::table::Table;

/// A table as the manager knows it.
pub(super) struct Managed {
    pub(super) table: Rc<Table>,
    pub(super) options: RefCell<BTreeMap<String, String>>,
    pub(super) tombstone_gc: Cell<TombstoneGcMode>,
    /// SSTables that are to be brought into the strategy's form.
    pub(super) reshaping: RefCell<Option<Reshaping>>,
    /// What a merge of samples showed; forgotten when a job has ended.
    pub(super) sampled: RefCell<Option<SampledOverlap>>,
    /// What is being sampled, or was last and said nothing.
    pub(super) sampled_runs: RefCell<Vec<RunId>>,
    pub(super) is_sampling: Cell<bool>,
    pub(super) strategy: RefCell<Box<dyn Strategy>>,
    pub(super) views: RefCell<Views>,
    /// SSTables whose tombstones cannot go yet.
    pub(super) futile: RefCell<Futile>,
    /// `nodetool disableautocompaction` has not been called.
    pub(super) auto: Cell<bool>,
    /// So many need the table to be left alone: truncates, the end of the table.
    pub(super) blocks: Cell<u32>,
    /// So many want all SSTables for jobs of their own: a major compaction.
    pub(super) holds: Cell<u32>,
    /// The strategy may have a job.
    pub(super) wants: Cell<bool>,
    /// The backlog of these SSTables.
    pub(super) backlog: Cell<Option<Backlog>>,
    pub(super) pause_us: Cell<u64>,
    /// No job begins before, since the last one failed.
    pub(super) paused_until_us: Cell<u64>,
    /// That was for want of space on the disk; so much was free then.
    pub(super) short_at_bytes: Cell<Option<u64>>,
}

/// SSTables, and how many bytes must still be rewritten of them.
pub(super) type Backlog = (Rc<Vec<Rc<SSTable>>>, f64);

impl Managed {
    pub(super) fn new(table: &Rc<Table>, settings: &TableSettings, strategy: Box<dyn Strategy>) -> Rc<Self> {
        let options = &settings.compaction;
        Rc::new(Self {
            table: table.clone(),
            options: RefCell::new(options.clone()),
            tombstone_gc: Cell::new(settings.tombstone_gc()),
            reshaping: RefCell::default(),
            sampled: RefCell::default(),
            sampled_runs: RefCell::default(),
            is_sampling: Cell::new(false),
            strategy: RefCell::new(strategy),
            views: RefCell::default(),
            futile: RefCell::default(),
            auto: Cell::new(true),
            blocks: Cell::new(0),
            holds: Cell::new(0),
            wants: Cell::new(true),
            backlog: Cell::new(None),
            pause_us: Cell::new(0),
            paused_until_us: Cell::new(0),
            short_at_bytes: Cell::new(None),
        })
    }
}

/// A job that is to begin.
pub(super) struct Starting {
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// Of its inputs, before compression.
    pub(super) total_bytes: u64,
    pub(super) input_sstables: u64,
    pub(super) weight: Option<Weight>,
    pub(super) needs_bytes: u64,
    pub(super) own: OwnSSTables,
}

/// A job that runs.
pub(super) struct Running {
    pub(super) control: Rc<Control>,
    pub(super) table: Rc<Table>,
    /// What users know it as: "Compaction", "Cleanup", …
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) weight: Option<Weight>,
    /// The most disk space it may still take.
    pub(super) needs_bytes: u64,
    pub(super) own: OwnSSTables,
}
