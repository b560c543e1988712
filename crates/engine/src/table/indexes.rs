//! The secondary indexes of a table on a shard: which sources have them, and which components must
//! be built or removed.
//!
//! An index is queryable when every memtable and every SSTable has it. An SSTable that this node writes has
//! the indexes that the table had when the write began; for others the component is built in the background
//! (`compaction::index_build`). An SSTable that several shards share gets none, since it is soon dealt out.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use model::IndexDefinition;
use model::index::IndexId;
use sstable::component::secondary_index;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use super::Table;

/// What a shard has of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    pub name: String,
    /// SSTables of the table, and those that have the index.
    pub sstables: u64,
    pub built_sstables: u64,
    /// Bytes of Data.db of the SSTables, and of those that have the index.
    pub data_bytes: u64,
    pub built_data_bytes: u64,
    /// Memtables that are older than the index; their flush ends that.
    pub memtables_without: u64,
    /// Postings in SSTables, and bytes of their files.
    pub postings: u64,
    pub index_bytes: u64,
}

impl IndexState {
    /// Whether reads can use the index.
    pub fn is_queryable(&self) -> bool {
        self.sstables == self.built_sstables && self.memtables_without == 0
    }

    /// Adds what another shard has.
    pub fn merge(&mut self, other: &Self) {
        self.sstables += other.sstables;
        self.built_sstables += other.built_sstables;
        self.data_bytes += other.data_bytes;
        self.built_data_bytes += other.built_data_bytes;
        self.memtables_without += other.memtables_without;
        self.postings += other.postings;
        self.index_bytes += other.index_bytes;
    }
}

/// What the components of an SSTable need so that they are those of the table's indexes.
pub(crate) struct IndexWork {
    pub(crate) sstable: Rc<SSTable>,
    pub(crate) missing: Vec<Arc<IndexDefinition>>,
    pub(crate) dropped: Vec<IndexId>,
}

impl Table {
    /// What this shard has of each index of the table.
    pub fn index_states(&self) -> Vec<IndexState> {
        let schema = self.schema();
        schema.indexes.iter().map(|index| self.index_state(index)).collect()
    }

    fn index_state(&self, index: &IndexDefinition) -> IndexState {
        let mut state = IndexState { name: index.name.clone(), ..IndexState::default() };
        self.memtables.for_each(|logged, _| {
            let lacks = !logged.memtable.is_empty() && logged.memtable.index(index.id).is_none();
            state.memtables_without += u64::from(lacks);
        });
        for sstable in self.sstables().iter() {
            state.sstables += 1;
            state.data_bytes += sstable.data_bytes();
            if let Some(built) = sstable.secondary_index(index.id) {
                state.built_sstables += 1;
                state.built_data_bytes += sstable.data_bytes();
                state.postings += built.postings();
                state.index_bytes += built.file_bytes();
            }
        }
        state
    }

    /// Whether the active memtable is older than an index of the table.
    pub(crate) fn is_flush_due_for_indexes(&self) -> bool {
        let active = self.memtables.active();
        let lacks = |index: &Arc<IndexDefinition>| active.memtable.index(index.id).is_none();
        !active.memtable.is_empty() && self.schema().indexes.iter().any(lacks)
    }

    /// Gives up the component of an index if this is its file; then it is built again. False if it is another
    /// file.
    pub(crate) fn forget_damaged_index(&self, file: &Path) -> bool {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok((name, component)) = SSTableName::parse_file_name(name) else { return false };
        let Some(id) = secondary_index::id_of(&component) else { return false };
        for sstable in self.sstables().iter().filter(|sstable| sstable.name() == name) {
            sstable.forget_secondary_index(id);
        }
        self.parked.clear();
        true
    }

    /// Forgets the components of these indexes in all SSTables, so that they are built again.
    pub(crate) fn forget_indexes(&self, names: &[String]) {
        let schema = self.schema();
        for index in schema.indexes.iter().filter(|index| names.contains(&index.name)) {
            self.sstables().iter().for_each(|sstable| sstable.forget_secondary_index(index.id));
        }
        self.parked.clear();
    }

    /// About how many rows there are, overwritten and deleted ones included.
    pub(crate) fn rows_estimate(&self) -> u64 {
        let mut rows: u64 = self.sstables().iter().map(|sstable| sstable.stats().total_rows).sum();
        self.memtables.for_each(|logged, _| rows += logged.memtable.partition_count() as u64);
        rows
    }

    /// The first SSTable whose components are not those of the table's indexes, among those that `may_take`
    /// passes.
    pub(crate) fn index_work(&self, may_take: impl Fn(&SSTable) -> bool) -> Option<IndexWork> {
        let schema = self.schema();
        self.sstables().iter().find_map(|sstable| {
            let has = sstable.secondary_indexes();
            if has.is_empty() && schema.indexes.is_empty() {
                return None;
            }
            let missing: Vec<_> =
                schema.indexes.iter().filter(|index| !has.contains(&index.id)).cloned().collect();
            let is_dropped = |id: &IndexId| schema.indexes.iter().all(|index| index.id != *id);
            let dropped: Vec<_> = has.into_iter().filter(is_dropped).collect();
            let is_work = !missing.is_empty() || !dropped.is_empty();
            (is_work && may_take(sstable)).then(|| IndexWork { sstable: sstable.clone(), missing, dropped })
        })
    }
}
