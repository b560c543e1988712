//! The SSTables of a table on a shard: those that are read, and what is known of those that are not, or not yet, or not
//! by all.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use base::HashSet;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use crate::manifest::SSTableManifest;

/// See the head of this file.
pub struct SSTableSet {
    /// Those that are read.
    live: RefCell<Rc<Vec<Rc<SSTable>>>>,
    /// Those that could not be opened, and why; without a name, all of them. Without them no read knows what it misses.
    unreadable: RefCell<Vec<(Option<SSTableName>, String)>>,
    /// Components that were damaged or missing when their SSTable was opened, and could be done without; and why.
    rebuilt: RefCell<Vec<String>>,
    /// They must stay as they are until a restart: a replacement of them is in doubt or unfinished.
    frozen: RefCell<HashSet<SSTableName>>,
    /// Found corrupt; no compaction takes them.
    quarantined: RefCell<HashSet<SSTableName>>,
    /// Opened, and not yet live: another shard writes them for this one.
    pub(crate) incoming: RefCell<Vec<Rc<SSTable>>>,
    /// Opened, and not yet live: they come from elsewhere, and all shards are to have opened theirs first.
    pub(crate) loading: RefCell<Vec<Rc<SSTable>>>,
    /// The number of the next SSTable this shard writes; shards number round robin (`number % shards == shard`).
    next_generation: Cell<u64>,
    shard_id: u32,
    /// Which SSTables there are, for the next start; `None` if the table is attached.
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

    /// Why the table cannot be read, if it cannot.
    pub fn unreadable(&self) -> Vec<String> {
        self.unreadable.borrow().iter().map(|(_, why)| why.clone()).collect()
    }

    /// The SSTables that could not be opened.
    pub fn unreadable_names(&self) -> Vec<SSTableName> {
        self.unreadable.borrow().iter().filter_map(|(name, _)| *name).collect()
    }

    /// The one of this name, or all if none is named, is not missed any more.
    pub(super) fn remove_unreadable(&self, name: Option<SSTableName>) {
        self.unreadable.borrow_mut().retain(|(unreadable, _)| name.is_some() && *unreadable != name);
    }

    pub(super) fn add_rebuilt(&self, sstable: &SSTable) {
        let why = sstable.rebuilt().iter().map(|(component, why)| format!("{component}: {why}"));
        self.rebuilt.borrow_mut().extend(why);
    }

    /// Components that were damaged or missing at the start and could be done without, each with what was wrong.
    pub fn rebuilt(&self) -> Vec<String> {
        self.rebuilt.borrow().clone()
    }

    /// These stay as they are until a restart, or until `thaw`.
    pub fn freeze(&self, names: impl Iterator<Item = SSTableName>) {
        self.frozen.borrow_mut().extend(names);
    }

    /// These are as all others again.
    pub(crate) fn thaw(&self, names: &[SSTableName]) {
        self.frozen.borrow_mut().retain(|name| !names.contains(name));
    }

    pub fn is_frozen(&self, name: SSTableName) -> bool {
        self.frozen.borrow().contains(&name)
    }

    /// The one with this file is damaged: compactions leave it alone until a restart. Reads go on trying.
    pub fn quarantine(&self, file: &Path) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Ok((name, _)) = SSTableName::parse_file_name(name) {
            self.quarantined.borrow_mut().insert(name);
        }
    }

    pub fn is_quarantined(&self, name: SSTableName) -> bool {
        self.quarantined.borrow().contains(&name)
    }

    /// Those in quarantine, by name.
    pub fn quarantined(&self) -> Vec<SSTableName> {
        let mut names: Vec<SSTableName> = self.quarantined.borrow().iter().copied().collect();
        names.sort();
        names
    }

    /// The number of the next SSTable that this shard would write.
    pub fn next_generation(&self) -> u64 {
        self.next_generation.get()
    }

    /// From now on SSTables have numbers of at least `from`.
    pub fn raise_generation(&self, from: u64, shard_count: u32) {
        let from = from.max(self.next_generation.get());
        self.next_generation.set(self.first_generation_from(from, shard_count));
    }

    pub fn take_generation(&self, shard_count: u32) -> u64 {
        let number = self.next_generation.get();
        self.next_generation.set(number + u64::from(shard_count));
        number
    }

    /// At a start: the first number of this shard from `from` on is the next.
    pub(super) fn begin_generations(&self, from: u64, shard_count: u32) {
        self.next_generation.set(self.first_generation_from(from, shard_count));
    }

    /// The first number of this shard from `from` on.
    fn first_generation_from(&self, from: u64, shard_count: u32) -> u64 {
        let (count, shard) = (u64::from(shard_count), u64::from(self.shard_id));
        from + (shard + count - from % count) % count
    }
}
