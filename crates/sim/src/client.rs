//! What a client of the node knows: its tables, what was acknowledged, and which errors it has a reason to expect.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use engine::EngineError;
use engine::commitlog::{LogError, SyncMode};
use model::sample::{self, Variety};
use model::{Liveness, Mutation, TableId, TableSchema};
use reader::{ReadError, Refusal};
use runtime::sim::SimClock;

use crate::content;
use crate::failure::{Checker, Failure};
use crate::known::KnownTable;
use crate::registers::{self, Registers};

/// The last operations, for the report of a failure.
#[derive(Clone, Default)]
pub struct History(Rc<RefCell<VecDeque<String>>>);

/// So many operations are remembered.
const REMEMBERED: usize = 2000;

impl History {
    pub fn note(&self, what: String) {
        let mut lines = self.0.borrow_mut();
        if lines.len() == REMEMBERED {
            lines.pop_front();
        }
        lines.push_back(what);
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.borrow().iter().cloned().collect()
    }
}

/// Faults that are being made, which explain errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excuses {
    /// The disk has a size.
    pub no_space: bool,
    /// Reads, writes or syncs fail.
    pub io: bool,
}

/// A change of the schema that was begun and did not end well: either of the two is what a restart finds.
#[derive(Clone, Debug)]
pub struct PendingChange {
    pub table: TableId,
    pub before: Option<Arc<TableSchema>>,
    pub after: Option<Arc<TableSchema>>,
}

/// What was done, for the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub refused_writes: u64,
    pub reads: u64,
    pub restarts: u64,
    pub crashes: u64,
    pub changes: u64,
    pub truncates: u64,
    /// Compactions asked for that ended well.
    pub compactions: u64,
    /// SSTables from elsewhere that were taken in.
    pub loads: u64,
    /// Times at which files were damaged.
    pub decays: u64,
    /// Writes whose fate a restart decided, and of those the ones that were there.
    pub doubtful: u64,
    /// Conditional writes, additions to counters, and reads between them.
    pub competing: u64,
    /// Times at which somebody set the wall clock.
    pub clock_jumps: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.refused_writes += other.refused_writes;
        self.reads += other.reads;
        self.restarts += other.restarts;
        self.crashes += other.crashes;
        self.changes += other.changes;
        self.truncates += other.truncates;
        self.compactions += other.compactions;
        self.loads += other.loads;
        self.decays += other.decays;
        self.doubtful += other.doubtful;
        self.competing += other.competing;
        self.clock_jumps += other.clock_jumps;
    }
}

/// See the head of this file.
pub struct Client {
    pub rng: Rng,
    pub history: History,
    pub tables: Vec<KnownTable>,
    pub variety: Variety,
    pub sync: SyncMode,
    /// Tombstones are dropped soon. Then every write is younger than those before, as the engine may expect of a
    /// write that comes when a tombstone's time is over.
    pub purges: bool,
    /// The tables get secondary indexes.
    pub has_indexes: bool,
    pub excuses: Excuses,
    /// Files are damaged: reads may fail, and must not show anything wrong.
    pub is_decayed: bool,
    /// SSTables are being loaded.
    pub is_loading: bool,
    pub pending: Option<PendingChange>,
    /// Tables that this run of the node has dropped; another one may get their ids.
    pub dropped: Vec<TableId>,
    /// The log failed, or a change of the schema: only a restart makes the node whole.
    pub needs_restart: bool,
    /// The first thing that must not be.
    pub failure: Option<Failure>,
    pub counts: Counts,
    pub registers: Registers,
    pub clock: SimClock,
    /// The latest that the wall clock has shown: what had expired by then may be gone.
    wall_us_max: i64,
    stamp: u64,
    next_seq: i32,
}

impl Client {
    pub fn new(
        rng: Rng,
        history: History,
        variety: Variety,
        sync: SyncMode,
        purges: bool,
        clock: SimClock,
    ) -> Self {
        let mut rng = rng;
        let has_indexes = rng.fork().chance(2, 3);
        Self {
            has_indexes,
            rng,
            history,
            tables: vec![],
            variety,
            sync,
            purges,
            excuses: Excuses::default(),
            is_decayed: false,
            is_loading: false,
            pending: None,
            dropped: vec![],
            needs_restart: false,
            failure: None,
            counts: Counts::default(),
            registers: Registers::default(),
            clock,
            wall_us_max: 0,
            stamp: 0,
            next_seq: 0,
        }
    }

    /// The next stamp.
    pub fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    pub fn note(&self, what: impl Into<String>) {
        self.history.note(format!("{:>6} {}", self.stamp, what.into()));
    }

    pub fn fail(&mut self, checker: Checker, what: impl Into<String>) {
        let failure = Failure::new(checker, what);
        self.note(format!("FAILED {failure}"));
        self.failure.get_or_insert(failure);
    }

    pub fn table(&mut self, id: TableId) -> Option<&mut KnownTable> {
        self.tables.iter_mut().find(|table| table.schema.id == id)
    }

    /// A table whose schema is not being changed.
    pub fn random_table(&mut self) -> Option<TableId> {
        let steady: Vec<TableId> =
            self.tables.iter().filter(|table| !table.is_changing).map(|table| table.schema.id).collect();
        (!steady.is_empty()).then(|| *self.rng.pick(&steady))
    }

    /// When a read is: not before any compaction that it may meet.
    pub fn read_now_s(&mut self, wall_us: i64) -> u32 {
        self.wall_us_max = self.wall_us_max.max(wall_us);
        (self.wall_us_max / 1_000_000) as u32 + 3 + self.rng.below(8) as u32
    }

    /// Somebody sets the wall clock, `wall_us` until now, by `us`.
    pub fn set_clock_by_us(&mut self, wall_us: i64, us: i64) {
        self.wall_us_max = self.wall_us_max.max(wall_us).max(wall_us + us);
        self.clock.set_wall_by_us(us);
        self.counts.clock_jumps += 1;
        self.note(format!("wall clock set by {us} us"));
    }

    /// Makes up a write.
    pub fn begin_write(&mut self, id: TableId) -> Option<(i32, Mutation)> {
        let (mut variety, seq) = (self.variety, self.next_seq);
        let schema = self.table(id)?.schema.clone();
        if self.purges && !schema.has_counters() {
            variety.first_timestamp_us += 16 * i64::from(seq);
        }
        let mut mutation = sample::mutation(&mut self.rng, &schema, &variety);
        // Static rows have no marker; the samples give them one where they find no column to write.
        mutation.partition.static_row.liveness = Liveness::NONE;
        content::mark(&mut mutation, seq);
        self.next_seq += 1;
        self.stamp += 1;
        self.table(id)?.began(seq, mutation.clone());
        self.counts.writes += 1;
        let key = String::from_utf8_lossy(mutation.key.bytes()).into_owned();
        self.note(format!("write {seq} to {} of {}", key, schema.name));
        Some((seq, mutation))
    }

    /// The timestamp of no write before is later; if tombstones are dropped soon, that of every write to come is.
    pub fn last_write_us(&self) -> i64 {
        let Variety { first_timestamp_us, timestamps, .. } = self.variety;
        if self.purges {
            first_timestamp_us + 16 * i64::from(self.next_seq) - 1
        } else {
            first_timestamp_us + timestamps as i64
        }
    }

    pub fn end_write(&mut self, id: TableId, seq: i32, result: Result<(), EngineError>) {
        let stamp = self.stamp();
        let is_synced = !matches!(self.sync, SyncMode::Periodic { .. });
        match result {
            Ok(()) => {
                self.note(format!("write {seq} acknowledged"));
                if let Some(table) = self.table(id) {
                    table.acknowledged(seq, stamp, is_synced);
                }
            }
            Err(error) => {
                let text: String = error.to_string().chars().take(90).collect();
                self.note(format!("write {seq} refused: {text}"));
                self.excuse(&format!("write {seq}"), id, &error);
                let is_in_doubt = matches!(error, EngineError::Log(LogError::Failed(_)));
                self.needs_restart |= is_in_doubt;
                self.counts.refused_writes += 1;
                if let Some(table) = self.table(id) {
                    if is_in_doubt { table.failed(seq, stamp) } else { table.refused(seq) }
                }
            }
        }
    }

    /// Writes that were to be loaded, and were not even brought to where that begins.
    pub fn refused_all(&mut self, id: TableId, writes: &[(i32, Mutation)]) {
        self.is_loading = false;
        if let Some(table) = self.table(id) {
            writes.iter().for_each(|(seq, _)| table.refused(*seq));
        }
    }

    /// A load of `writes` ended, which began at `begun`. If it failed, each of them may be there or not.
    pub fn end_load(
        &mut self,
        id: TableId,
        writes: &[(i32, Mutation)],
        begun: u64,
        result: Result<(), EngineError>,
    ) {
        self.is_loading = false;
        let stamp = self.stamp();
        let is_other = self.table(id).is_none_or(|table| table.is_changing || table.disturbed >= begun);
        match &result {
            Ok(()) => self.counts.loads += 1,
            // The table has other columns now.
            Err(EngineError::Invalid(_)) if is_other => {}
            // They could not be read to be looked at.
            Err(EngineError::Invalid(_)) if self.excuses.io => {}
            Err(error) => self.excuse(&format!("load {begun}"), id, error),
        }
        let Some(table) = self.table(id) else { return };
        for (seq, _) in writes {
            match &result {
                Ok(()) => table.acknowledged(*seq, stamp, true),
                Err(_) => table.failed(*seq, stamp),
            }
        }
    }

    /// An operation failed that may have happened: only a restart says whether it did.
    pub fn in_doubt(&mut self, what: &str, table: TableId, error: &EngineError) {
        self.excuse(what, table, error);
        self.needs_restart = true;
    }

    /// An error must have a reason.
    pub fn excuse(&mut self, what: &str, table: TableId, error: &EngineError) {
        let is_changing = |client: &mut Self| {
            !registers::is_one(table) && client.table(table).is_none_or(|table| table.is_changing)
        };
        let is_excused = match error {
            EngineError::File(_)
            | EngineError::SSTable(_)
            | EngineError::Read(_)
            | EngineError::Compaction(_)
                if self.is_decayed =>
            {
                true
            }
            EngineError::NoSpace(_) => self.excuses.no_space,
            // A segment that could not be made, for whatever reason.
            EngineError::Log(LogError::NoSpace(_)) => self.excuses.no_space || self.excuses.io,
            EngineError::Log(LogError::Failed(_)) => self.excuses.io || self.needs_restart,
            EngineError::Log(LogError::TooLarge { .. }) => true,
            // The worlds have little memory: few reads may wait for a permit, and one that wants more than the kill limit
            // beside others is refused.
            EngineError::Read(ReadError::Refused(Refusal::QueueFull(_) | Refusal::Killed(_))) => true,
            EngineError::File(_) | EngineError::SSTable(_) | EngineError::Read(_) => {
                self.excuses.io || is_changing(self)
            }
            // Whoever truncates or changes a table, or compacts it otherwise, stops what runs.
            EngineError::Compaction(text) => {
                text.contains("was stopped")
                    || text.contains("is gone")
                    || self.excuses.io
                    || self.excuses.no_space
                    || is_changing(self)
            }
            EngineError::UnknownTable(_) => is_changing(self),
            _ => false,
        };
        if !is_excused {
            self.fail(Checker::Errors, format!("{what}: an error without a reason: {error:?}: {error}"));
        }
    }

    /// The node died; see [`KnownTable::crashed`].
    pub fn crashed(&mut self, loses_unsynced: bool) {
        self.is_loading = false;
        registers::crashed(self, loses_unsynced);
        self.dropped.clear();
        self.tables.iter_mut().for_each(|table| table.crashed(loses_unsynced));
        self.counts.doubtful += self.tables.iter().map(|table| table.uncertain() as u64).sum::<u64>();
        self.needs_restart = false;
    }

    /// After a restart: the tables that the node has are those that must be there.
    pub fn take_schema(&mut self, found: &[Arc<TableSchema>]) -> Result<(), String> {
        // Dropped columns have no order among themselves.
        let by_name = |schema: &Arc<TableSchema>| {
            let mut sorted = schema.clone();
            Arc::make_mut(&mut sorted).dropped.sort_by(|a, b| a.name.cmp(&b.name));
            sorted
        };
        let found: Vec<Arc<TableSchema>> = found.iter().map(by_name).collect();
        self.tables.iter_mut().for_each(|table| table.schema = by_name(&table.schema));
        if let Some(PendingChange { table, before, after }) = self.pending.take() {
            let (before, after) = (before.as_ref().map(by_name), after.as_ref().map(by_name));
            let now = found.iter().find(|schema| schema.id == table).cloned();
            if now != before && now != after {
                return Err(format!(
                    "a change of the schema ended in neither state\n  before {before:?}\n  after  {after:?}\n  found  {now:?}"
                ));
            }
            match now {
                None => self.tables.retain(|known| known.schema.id != table),
                Some(schema) => match self.table(table) {
                    Some(known) => known.schema = schema,
                    None => self.tables.push(KnownTable::new(schema)),
                },
            }
        }
        self.tables.iter_mut().for_each(|table| table.is_changing = false);
        let mut known: Vec<&Arc<TableSchema>> = self.tables.iter().map(|table| &table.schema).collect();
        let mut found: Vec<&Arc<TableSchema>> = found.iter().collect();
        known.sort_by_key(|schema| schema.id);
        found.sort_by_key(|schema| schema.id);
        if known != found {
            return Err(format!("the schema is another one\n  expected {known:?}\n  found    {found:?}"));
        }
        Ok(())
    }
}
