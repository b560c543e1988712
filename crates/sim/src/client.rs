//! The state of a simulated client of the node: its tables, acknowledged writes, and the errors that have a
//! reason.

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
use runtime::{CpuGroup, Shard};

use crate::content;
use crate::failure::{Checker, Failure};
use crate::register_history::{self, Registers};
use crate::table_model::TableModel;

/// The latest operations, for the report of a failure.
#[derive(Clone, Default)]
pub struct History(Rc<RefCell<VecDeque<String>>>);

/// Limit of the operations that are kept.
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

/// Active faults, which explain errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excuses {
    /// The disk has a limited size.
    pub no_space: bool,
    /// Reads, writes or syncs fail.
    pub io: bool,
}

/// A schema change that has started and not succeeded: a restart may find the schema before it or after it.
#[derive(Clone, Debug)]
pub struct PendingChange {
    pub table: TableId,
    pub before: Option<Arc<TableSchema>>,
    pub after: Option<Arc<TableSchema>>,
}

/// A batch that was sent.
pub struct SentBatch {
    /// The stamp of its beginning.
    pub begun: u64,
    /// The table and the number of each of its writes.
    pub writes: Vec<(TableId, i32)>,
}

/// Counts of operations, for the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub refused_writes: u64,
    pub reads: u64,
    pub restarts: u64,
    pub crashes: u64,
    pub changes: u64,
    pub truncates: u64,
    /// Requested compactions that succeeded.
    pub compactions: u64,
    /// SSTables made elsewhere that were loaded.
    pub loads: u64,
    /// Batches of several writes.
    pub batches: u64,
    /// Number of times that files were damaged.
    pub decays: u64,
    /// Uncertain writes that a restart settled, and the number of those that were found.
    pub doubtful: u64,
    /// Conditional writes, additions to counters, and reads between them.
    pub competing: u64,
    /// Number of times that the wall clock was set.
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
        self.batches += other.batches;
        self.decays += other.decays;
        self.doubtful += other.doubtful;
        self.competing += other.competing;
        self.clock_jumps += other.clock_jumps;
    }
}

/// The client, for tasks that run at the same time.
pub type SharedClient = Rc<RefCell<Client>>;

/// Runs `f` on a random shard.
pub async fn on_some_shard<T, F, Fut>(shard: &Shard, client: &SharedClient, f: F) -> Result<T, EngineError>
where
    T: Send + 'static,
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, EngineError>> + 'static,
{
    let target = client.borrow_mut().rng.below(u64::from(shard.shard_count())) as u32;
    shard.call(target, CpuGroup::Statement, f).await?
}

/// See the head of this file.
pub struct Client {
    pub rng: Rng,
    pub history: History,
    pub tables: Vec<TableModel>,
    pub variety: Variety,
    pub sync: SyncMode,
    /// Tombstones expire soon. Every write then has a higher timestamp than all earlier ones, because the
    /// engine may expect that of writes after a tombstone's grace period.
    pub purges: bool,
    /// The tables get secondary indexes.
    pub has_indexes: bool,
    pub excuses: Excuses,
    /// Files are damaged: reads may fail, but must not return anything wrong.
    pub is_decayed: bool,
    /// SSTables are being loaded.
    pub is_loading: bool,
    pub pending: Option<PendingChange>,
    /// Tables that this run of the node has dropped. New tables may reuse their ids.
    pub dropped: Vec<TableId>,
    /// The commit log or a schema change has failed: only a restart makes the node usable again.
    pub needs_restart: bool,
    /// The first violation.
    pub failure: Option<Failure>,
    pub counts: Counts,
    /// Batches since the last restart.
    pub batches: Vec<SentBatch>,
    pub registers: Registers,
    pub clock: SimClock,
    /// The latest time that the wall clock has shown. Data that had expired by then may be purged.
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
            batches: vec![],
            registers: Registers::default(),
            clock,
            wall_us_max: 0,
            stamp: 0,
            next_seq: 0,
        }
    }

    /// The next stamp: the number of an event.
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

    pub fn table(&mut self, id: TableId) -> Option<&mut TableModel> {
        self.tables.iter_mut().find(|table| table.schema.id == id)
    }

    /// A random table whose schema is not being changed.
    pub fn random_table(&mut self) -> Option<TableId> {
        let steady: Vec<TableId> =
            self.tables.iter().filter(|table| !table.is_changing).map(|table| table.schema.id).collect();
        (!steady.is_empty()).then(|| *self.rng.pick(&steady))
    }

    /// The time of a read: later than the time of any compaction whose output it may read.
    pub fn read_now_s(&mut self, wall_us: i64) -> u32 {
        self.wall_us_max = self.wall_us_max.max(wall_us);
        (self.wall_us_max / 1_000_000) as u32 + 3 + self.rng.below(8) as u32
    }

    /// Sets the wall clock, which shows `wall_us`, by `us`.
    pub fn set_clock_by_us(&mut self, wall_us: i64, us: i64) {
        self.wall_us_max = self.wall_us_max.max(wall_us).max(wall_us + us);
        self.clock.set_wall_by_us(us);
        self.counts.clock_jumps += 1;
        self.note(format!("wall clock set by {us} us"));
    }

    /// Creates a random write.
    pub fn begin_write(&mut self, id: TableId) -> Option<(i32, Mutation)> {
        let (mut variety, seq) = (self.variety, self.next_seq);
        let schema = self.table(id)?.schema.clone();
        if self.purges && !schema.has_counters() {
            variety.first_timestamp_us += 16 * i64::from(seq);
        }
        let mut mutation = sample::mutation(&mut self.rng, &schema, &variety);
        // Static rows have no marker; the samples add one if they find no column to write.
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

    /// No earlier write has a higher timestamp. If tombstones expire soon, every later write has one.
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

    /// Marks writes of a load as refused because the load never started.
    pub fn refused_all(&mut self, id: TableId, writes: &[(i32, Mutation)]) {
        self.is_loading = false;
        if let Some(table) = self.table(id) {
            writes.iter().for_each(|(seq, _)| table.refused(*seq));
        }
    }

    /// Records the end of a load of `writes` that started at `begun`. If it failed, each write is uncertain.
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
            // The SSTables could not be read for the check.
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

    /// Records a failed operation that may have happened; only a restart settles it.
    pub fn in_doubt(&mut self, what: &str, table: TableId, error: &EngineError) {
        self.excuse(what, table, error);
        self.needs_restart = true;
    }

    /// Fails unless the error has a reason.
    pub fn excuse(&mut self, what: &str, table: TableId, error: &EngineError) {
        let is_changing = |client: &mut Self| {
            !register_history::is_one(table) && client.table(table).is_none_or(|table| table.is_changing)
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
            // A segment could not be created, for any reason.
            EngineError::Log(LogError::NoSpace(_)) => self.excuses.no_space || self.excuses.io,
            EngineError::Log(LogError::Failed(_)) => self.excuses.io || self.needs_restart,
            EngineError::Log(LogError::TooLarge { .. }) => true,
            // Simulated nodes have little memory: few reads may wait for a permit, and a read that exceeds
            // the kill limit together with others is refused.
            EngineError::Read(ReadError::Refused(Refusal::QueueFull(_) | Refusal::Killed(_))) => true,
            EngineError::File(_) | EngineError::SSTable(_) | EngineError::Read(_) => {
                self.excuses.io || is_changing(self)
            }
            // A truncate, a schema change or another compaction of the table stops running compactions.
            EngineError::Compaction(text) => {
                text.contains("was stopped")
                    || text.contains("was removed meanwhile")
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

    /// The node died: judges what the registers answered while it ran, then keeps what must have outlived it.
    fn crash_registers(&mut self, loses_unsynced: bool) {
        // A node that died while it opened has answered nothing since the last comparison.
        if !self.registers.is_lost
            && let Err(error) = self.registers.check()
        {
            self.fail(Checker::Linear, format!("while it ran: {error}"));
        }
        let is_periodic = matches!(self.sync, SyncMode::Periodic { .. });
        self.registers.crashed(loses_unsynced && is_periodic);
    }

    /// The node died; see [`TableModel::crashed`].
    pub fn crashed(&mut self, loses_unsynced: bool) {
        self.is_loading = false;
        self.crash_registers(loses_unsynced);
        self.dropped.clear();
        self.tables.iter_mut().for_each(|table| table.crashed(loses_unsynced));
        self.counts.doubtful += self.tables.iter().map(|table| table.uncertain() as u64).sum::<u64>();
        self.needs_restart = false;
    }

    /// After a restart: checks that the node's tables are the expected ones.
    pub fn take_schema(&mut self, found: &[Arc<TableSchema>]) -> Result<(), String> {
        // The order of dropped columns is undefined.
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
                    None => self.tables.push(TableModel::new(schema)),
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
