//! The SSTables of a table on a shard: those that are read (live), and the state of those that are not or not
//! yet.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use base::HashSet;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use crate::manifest::SSTableManifest;

/// See the head of this file.
pub struct SSTableSet {
    /// The SSTables that are read.
    live: RefCell<Rc<Vec<Rc<SSTable>>>>,
    /// SSTables that could not be opened, with the reason; without a name, all of the table's. Without them
    /// the result of any read would be incomplete.
    unreadable: RefCell<Vec<(Option<SSTableName>, String)>>,
    /// Damaged or missing components, not essential, of opened SSTables, with the reason.
    rebuilt: RefCell<Vec<String>>,
    /// SSTables that must stay as they are until a restart, because a replacement of them is in doubt or
    /// unfinished.
    frozen: RefCell<HashSet<SSTableName>>,
    /// Found corrupt; no compaction takes them.
    quarantined: RefCell<HashSet<SSTableName>>,
    /// Opened and not yet live: another shard writes them for this one.
    pub(crate) incoming: RefCell<Vec<Rc<SSTable>>>,
    /// Opened and not yet live: loaded from elsewhere, until all shards have opened theirs.
    pub(crate) loading: RefCell<Vec<Rc<SSTable>>>,
    /// The generation of the next SSTable that this shard writes; shards take numbers round robin (`number %
    /// shards == shard`).
    next_generation: Cell<u64>,
    shard_id: u32,
    /// The list of SSTables for the next start; `None` if the table is attached.
    pub(crate) manifest: Option<SSTableManifest>,
}

impl SSTableSet {
    pub(super) fn new(shard_id: u32, manifest: Option<SSTableManifest>) -> Self {
        Self {
            live: RefCell::default(),
            unreadable: RefCell::default(),
            rebuilt: RefCell::default(),
            frozen: RefCell::default(),
            quarantined: RefCell::default(),
            incoming: RefCell::default(),
            loading: RefCell::default(),
            next_generation: Cell::new(1),
            shard_id,
            manifest,
        }
    }

    pub fn live(&self) -> Rc<Vec<Rc<SSTable>>> {
        self.live.borrow().clone()
    }

    pub(super) fn set_live(&self, sstables: Vec<Rc<SSTable>>) {
        *self.live.borrow_mut() = Rc::new(sstables);
    }

    pub(super) fn add_unreadable(&self, name: Option<SSTableName>, why: String) {
        self.unreadable.borrow_mut().push((name, why));
    }

    /// Why the table cannot be read; empty if it can.
    pub fn unreadable(&self) -> Vec<String> {
        self.unreadable.borrow().iter().map(|(_, why)| why.clone()).collect()
    }

    /// The SSTables that could not be opened.
    pub fn unreadable_names(&self) -> Vec<SSTableName> {
        self.unreadable.borrow().iter().filter_map(|(name, _)| *name).collect()
    }

    /// Removes the unreadable SSTable of this name, or all without a name.
    pub(super) fn remove_unreadable(&self, name: Option<SSTableName>) {
        self.unreadable.borrow_mut().retain(|(unreadable, _)| name.is_some() && *unreadable != name);
    }

    pub(super) fn add_rebuilt(&self, sstable: &SSTable) {
        let why = sstable.rebuilt().iter().map(|(component, why)| format!("{component}: {why}"));
        self.rebuilt.borrow_mut().extend(why);
    }

    /// Components that were damaged or missing at the start and not essential, each with the reason.
    pub fn rebuilt(&self) -> Vec<String> {
        self.rebuilt.borrow().clone()
    }

    /// These SSTables must stay as they are until a restart, or until `thaw`.
    pub fn freeze(&self, names: impl Iterator<Item = SSTableName>) {
        self.frozen.borrow_mut().extend(names);
    }

    /// Ends `freeze` for these SSTables.
    pub(crate) fn thaw(&self, names: &[SSTableName]) {
        self.frozen.borrow_mut().retain(|name| !names.contains(name));
    }

    pub fn is_frozen(&self, name: SSTableName) -> bool {
        self.frozen.borrow().contains(&name)
    }

    /// Excludes the damaged SSTable with this file from compactions until a scrub replaces it, or a restart.
    /// Reads still use it.
    pub fn quarantine(&self, file: &Path) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Ok((name, _)) = SSTableName::parse_file_name(name) {
            self.quarantined.borrow_mut().insert(name);
        }
    }

    pub fn is_quarantined(&self, name: SSTableName) -> bool {
        self.quarantined.borrow().contains(&name)
    }

    /// SSTables in quarantine, by name.
    pub fn quarantined(&self) -> Vec<SSTableName> {
        let mut names: Vec<SSTableName> = self.quarantined.borrow().iter().copied().collect();
        names.sort();
        names
    }

    /// The generation of the next SSTable that this shard would write.
    pub fn next_generation(&self) -> u64 {
        self.next_generation.get()
    }

    /// Later SSTables get generations of at least `from`.
    pub fn raise_generation(&self, from: u64, shard_count: u32) {
        let from = from.max(self.next_generation.get());
        self.next_generation.set(self.first_generation_from(from, shard_count));
    }

    pub fn take_generation(&self, shard_count: u32) -> u64 {
        let number = self.next_generation.get();
        self.next_generation.set(number + u64::from(shard_count));
        number
    }

    /// At a start: the next generation is this shard's first one that is at least `from`.
    pub(super) fn begin_generations(&self, from: u64, shard_count: u32) {
        self.next_generation.set(self.first_generation_from(from, shard_count));
    }

    /// This shard's first generation that is at least `from`.
    fn first_generation_from(&self, from: u64, shard_count: u32) -> u64 {
        let (count, shard) = (u64::from(shard_count), u64::from(self.shard_id));
        from + (shard + count - from % count) % count
    }
}
