//! SSTables for which another tombstone compaction would free nothing: the job that wrote them kept
//! tombstones and freed no bytes. No job is made for their tombstones until one of the blockers has changed.

use base::HashMap;
use sstable::name::SSTableName;

use super::job::JobStats;
use super::purge::Blocker;
use crate::table::Table;

/// A blocker that kept tombstones, with its state when the job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// The least timestamp that a start would replay from the commit log.
    CommitLog(i64),
    /// The least timestamp in the memtables.
    Memtable(i64),
    SSTable(String),
}

impl Held {
    fn of(blocker: &Blocker, table: &Table) -> Option<Self> {
        match blocker {
            Blocker::CommitLog => table.replayable_since_us().map(Self::CommitLog),
            Blocker::Memtable => table.memtables.min_timestamp_us().map(Self::Memtable),
            Blocker::SSTable(name) => Some(Self::SSTable(name.clone())),
            // Age and repair state are already part of the droppable ratio.
            Blocker::Young | Blocker::Disabled | Blocker::NotRepaired => None,
        }
    }

    fn still_exists(&self, table: &Table) -> bool {
        match self {
            Self::CommitLog(since_us) => table.replayable_since_us() == Some(*since_us),
            Self::Memtable(since_us) => table.memtables.min_timestamp_us() == Some(*since_us),
            Self::SSTable(name) => table.sstables().iter().any(|it| it.name().to_string() == *name),
        }
    }
}

/// The futile SSTables of one table, each with its blockers.
#[derive(Default)]
pub(super) struct Futile(HashMap<SSTableName, Vec<Held>>);

impl Futile {
    /// Records the result of a job that has ended.
    pub(super) fn ended(&mut self, table: &Table, done: &JobStats) {
        let sstables = table.sstables();
        self.0.retain(|name, _| sstables.iter().any(|it| it.name() == *name));
        if done.plain_output_bytes < done.plain_input_bytes {
            return;
        }
        let held: Vec<Held> = done.kept_tombstones.keys().filter_map(|it| Held::of(it, table)).collect();
        if !held.is_empty() {
            self.0.extend(done.outputs.iter().map(|name| (*name, held.clone())));
        }
    }

    /// Whether another job for the tombstones of this SSTable would free nothing either.
    pub(super) fn has(&self, table: &Table, name: SSTableName) -> bool {
        self.0.get(&name).is_some_and(|held| held.iter().all(|held| held.still_exists(table)))
    }
}
