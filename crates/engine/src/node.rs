//! All shards of a node as one: each request goes to the shards that must answer it.
//!
//! Every function here may be called on any shard. Tables of the system keyspaces live on shard 0 alone; of all
//! others each shard has the partitions whose tokens are its own ([`Sharder`]).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use base::HashSet;
use catalog::system::is_system_keyspace;
use catalog::{Catalog, Changed, SchemaChange};
use model::{Mutation, PartitionKey, PartitionRange, TableId, TableSchema};
use runtime::{CpuGroup, Shard};
use sstable::name::Component;

use crate::attach;
use crate::commitlog::CommitLog;
use crate::compaction::history_table;
use crate::error::EngineError;
use crate::large_data::{self, LargeItem};
use crate::options::EngineOptions;
use crate::read::admission::SemaphoreReport;
use crate::read::gather::merge_pages;
use crate::read::run::now_s;
use crate::read::{Page, ReadCommand};
use crate::report::{ShardReport, TableReport};
use crate::shard::EngineShard;
use crate::sharder::Sharder;
use crate::table::roster::Roster;
use crate::table::truncation::{self, Truncation};
use crate::table::{Table, dropped, files, lost};
use runtime::Event;

/// What each shard knows of the node it is part of.
pub struct NodeShard {
    pub options: EngineOptions,
    pub engine: Rc<EngineShard>,
    pub sharder: Sharder,
    pub catalog: RefCell<Catalog>,
    /// Shard 0 alone: the log of the system tables.
    pub schema_log: Option<Rc<CommitLog>>,
    /// Shard 0 alone: a change of schema, or a truncate, is under way.
    busy: Cell<bool>,
    idle: Event,
    last_schema_us: Cell<i64>,
    /// Shard 0 alone: tables that this run has dropped. The log may still have entries of them.
    dropped: RefCell<HashSet<TableId>>,
    /// Shard 0 alone: keyspaces that are nowhere but in this node's memory, for attached tables.
    pub attached_keyspaces: RefCell<Vec<String>>,
}

impl NodeShard {
    pub fn new(
        options: EngineOptions,
        engine: Rc<EngineShard>,
        schema_log: Option<Rc<CommitLog>>,
    ) -> Rc<Self> {
        let sharder = Sharder { shard_count: engine.shard().shard_count() };
        Rc::new(Self {
            options,
            engine,
            sharder,
            catalog: RefCell::new(Catalog::empty()),
            schema_log,
            busy: Cell::new(false),
            idle: Event::new(),
            last_schema_us: Cell::new(0),
            dropped: RefCell::default(),
            attached_keyspaces: RefCell::default(),
        })
    }

    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }

    /// The directory of a table.
    pub fn table_dir(&self, schema: &TableSchema) -> PathBuf {
        table_dir(&self.options.data_dir, schema)
    }

    /// Makes this shard's part of a table, empty, and knows it from now on.
    pub fn make_table(&self, schema: &std::sync::Arc<TableSchema>) -> Rc<Table> {
        let (log, sharder) = match (&self.schema_log, is_system_keyspace(&schema.keyspace)) {
            (Some(log), true) => (log.clone(), None),
            (None, true) => unreachable!("system tables live on shard 0"),
            (_, false) => (self.engine.log().clone(), Some(self.sharder)),
        };
        let shard_id = self.engine.shard().id();
        let roster = Roster::new(&self.options.data_dir, schema.id, shard_id);
        Table::new(schema.clone(), self.table_dir(schema), log, shard_id, sharder, roster)
    }

    /// Changes of the schema are written with later times than this, whatever the clock says.
    pub fn schema_is_of(&self, timestamp_us: i64) {
        self.last_schema_us.set(self.last_schema_us.get().max(timestamp_us));
    }

    /// Takes the place of a change's beginning: one at a time.
    pub async fn lock(&self) {
        self.idle.until(|| !self.busy.get()).await;
        self.busy.set(true);
    }

    pub fn unlock(&self) {
        self.busy.set(false);
        self.idle.signal();
    }
}

/// `<data dir>/data/<keyspace>/<table>-<id>`
pub fn table_dir(data_dir: &Path, schema: &TableSchema) -> PathBuf {
    data_dir.join("data").join(&schema.keyspace).join(format!("{}-{}", schema.name, schema.id.simple()))
}

/// The shard that has the partition.
fn owner(node: &NodeShard, schema: &TableSchema, token: i64) -> u32 {
    if is_system_keyspace(&schema.keyspace) { 0 } else { node.sharder.shard_of(token) }
}

/// When a request is given up, on the clock of [`Shard::now_us`], which all shards share. What belongs to it runs in
/// the CPU group of the task that asks, on every shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(pub Option<u64>);

impl Deadline {
    fn left_us(self, shard: &Shard) -> Option<u64> {
        self.0.map(|deadline_us| deadline_us.saturating_sub(shard.now_us()))
    }

    /// That there is time left.
    fn check(self, shard: &Shard) -> Result<(), EngineError> {
        if self.left_us(shard) == Some(0) { Err(EngineError::TimedOut) } else { Ok(()) }
    }

    /// What `work` gives, if it does so in time; otherwise it is dropped. It is not begun when the time is over.
    async fn limit<T>(
        self,
        shard: &Shard,
        mut work: Pin<&mut impl Future<Output = Result<T, EngineError>>>,
    ) -> Result<T, EngineError> {
        let Some(left_us) = self.left_us(shard) else { return work.await };
        self.check(shard)?;
        let mut alarm = pin!(shard.sleep_us(left_us));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| Err(EngineError::TimedOut)),
        })
        .await
    }
}

/// Writes a mutation where it belongs. See [`EngineShard::apply`].
pub async fn apply(shard: &Shard, mutation: Mutation) -> Result<(), EngineError> {
    apply_by(shard, mutation, Deadline::default()).await
}

/// As [`apply`]; a write that waits when its time is over does not happen, unless it is in the log already.
pub async fn apply_by(shard: &Shard, mutation: Mutation, deadline: Deadline) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let target = owner(&node, &mutation.schema, mutation.key.token());
    if target == shard.id() {
        return deadline.limit(shard, pin!(node.engine.apply(mutation))).await;
    }
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        deadline.limit(&shard, pin!(engine.apply(mutation))).await
    });
    call.await?
}

/// Reads the next page.
pub async fn read(shard: &Shard, command: ReadCommand) -> Result<Page, EngineError> {
    read_by(shard, command, Deadline::default()).await
}

/// As [`read`]; when its time is over no shard reads on.
pub async fn read_by(shard: &Shard, command: ReadCommand, deadline: Deadline) -> Result<Page, EngineError> {
    let node = NodeShard::of(shard)?;
    let mut command = command;
    if let Some(left_us) = deadline.left_us(shard) {
        command.timeout_us = Some(command.timeout_us.map_or(left_us, |timeout_us| timeout_us.min(left_us)));
    }
    // Every shard is to see the same things expire.
    command.now_s.get_or_insert_with(|| now_s(shard));
    if command.read_id == 0 {
        command.read_id = shard.random_u64();
    }
    let schema = match node.engine.table(command.table) {
        Ok(table) => table.schema(),
        Err(error) => match node.catalog.borrow().table_by_id(command.table) {
            Some(table) => table.schema.clone(),
            None => return Err(error),
        },
    };
    let one = match &command.partitions {
        PartitionRange::Key(key) => Some(owner(&node, &schema, key.token())),
        PartitionRange::Between { .. } if is_system_keyspace(&schema.keyspace) => Some(0),
        PartitionRange::Between { .. } if shard.shard_count() == 1 => Some(0),
        PartitionRange::Between { .. } => None,
    };
    let group = shard.current_group();
    let ask = |target: u32, command: ReadCommand| {
        shard.call(target, group, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            deadline.limit(&shard, pin!(engine.read(&command))).await
        })
    };
    match one {
        Some(target) if target == shard.id() => deadline.limit(shard, pin!(node.engine.read(&command))).await,
        Some(target) => ask(target, command).await?,
        None => {
            let asked: Vec<_> = (0..shard.shard_count()).map(|target| ask(target, command.clone())).collect();
            let mut pages = vec![];
            for page in asked {
                pages.push(page.await??);
            }
            Ok(merge_pages(&command, pages))
        }
    }
}

/// Writes all, each where it belongs: what one shard has of them is in its log wholly or not at all.
pub async fn apply_together(shard: &Shard, mutations: Vec<Mutation>) -> Result<(), EngineError> {
    apply_together_by(shard, mutations, Deadline::default()).await
}

/// As [`apply_together`], with [`apply_by`]'s deadline.
pub async fn apply_together_by(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let group = shard.current_group();
    let mut by_shard: Vec<Vec<Mutation>> = (0..shard.shard_count()).map(|_| vec![]).collect();
    for mutation in mutations {
        by_shard[owner(&node, &mutation.schema, mutation.key.token()) as usize].push(mutation);
    }
    let calls: Vec<_> = (0..shard.shard_count())
        .zip(by_shard)
        .filter(|(_, mutations)| !mutations.is_empty())
        .map(|(target, mutations)| {
            shard.call(target, group, move |shard| async move {
                let engine = EngineShard::of(&shard)?;
                deadline.limit(&shard, pin!(engine.apply_together(mutations))).await
            })
        })
        .collect();
    let mut failed = None;
    for call in calls {
        if let Err(error) = call.await.map_err(EngineError::from).and_then(|result| result) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// See [`EngineShard::read_and_write`]; on the shard that has the partition.
pub async fn read_and_write<E>(
    shard: &Shard,
    command: ReadCommand,
    decide: impl FnOnce(&Page) -> Result<Option<Vec<Mutation>>, E> + Send + 'static,
) -> Result<Page, E>
where
    E: From<EngineError> + Send + 'static,
{
    read_and_write_by(shard, command, Deadline::default(), decide).await
}

/// As [`read_and_write`]; it is not begun when its time is over, and ends once it has begun, also if nobody waits for
/// it any more: half of what was decided is not written.
pub async fn read_and_write_by<E>(
    shard: &Shard,
    mut command: ReadCommand,
    deadline: Deadline,
    decide: impl FnOnce(&Page) -> Result<Option<Vec<Mutation>>, E> + Send + 'static,
) -> Result<Page, E>
where
    E: From<EngineError> + Send + 'static,
{
    let node = NodeShard::of(shard)?;
    command.now_s.get_or_insert_with(|| now_s(shard));
    let PartitionRange::Key(key) = &command.partitions else {
        return Err(EngineError::Invalid("a conditional write is to one partition".to_string()).into());
    };
    let schema = node.engine.table(command.table)?.schema();
    let target = owner(&node, &schema, key.token());
    // A task of its own on this shard too.
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        deadline.check(&shard)?;
        engine.read_and_write(&command, decide).await
    });
    call.await.map_err(EngineError::from)?
}

/// Runs `f` on every shard at once; all results in the order of the shards, or the first error.
pub async fn on_all<T, F, Fut>(shard: &Shard, group: CpuGroup, f: F) -> Result<Vec<T>, EngineError>
where
    T: Send + 'static,
    F: Fn(Shard) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<T, EngineError>> + 'static,
{
    let calls: Vec<_> = (0..shard.shard_count()).map(|target| shard.call(target, group, f.clone())).collect();
    let mut results = vec![];
    let mut failed = None;
    for call in calls {
        match call.await.map_err(EngineError::from).and_then(|result| result) {
            Ok(result) => results.push(result),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    failed.map_or(Ok(results), Err)
}

/// Flushes the tables, all if none is named.
pub async fn flush(shard: &Shard, tables: Vec<TableId>) -> Result<(), EngineError> {
    let flush = move |shard: Shard| {
        let tables = tables.clone();
        async move { EngineShard::of(&shard)?.flush(&tables).await }
    };
    on_all(shard, CpuGroup::Memtable, flush).await.map(drop)
}

/// Makes all that was acknowledged durable against power loss, whatever the sync mode.
pub async fn sync(shard: &Shard) -> Result<(), EngineError> {
    let sync = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.log().sync().await?) };
    on_all(shard, CpuGroup::CommitLog, sync).await.map(drop)
}

/// Changes the schema: stored, durable and known to every shard when it ends. `change` gets the catalog as it is
/// and gives the one to come.
pub async fn change_schema<F>(shard: &Shard, change: F) -> Result<Vec<SchemaChange>, EngineError>
where
    F: FnOnce(&Catalog) -> Changed + Send + 'static,
{
    let call = shard.call(0, CpuGroup::Statement, |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = change_schema_locked(&shard, &node, change).await;
        node.unlock();
        result
    });
    call.await?
}

async fn change_schema_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    change: impl FnOnce(&Catalog) -> Changed,
) -> Result<Vec<SchemaChange>, EngineError> {
    let old = node.catalog.borrow().clone();
    let (new, changes) = change(&old)?;
    attach::check_unchanged(node, &old, &new)?;
    let timestamp_us = shard.wall_us().max(node.last_schema_us.get().saturating_add(1));
    node.last_schema_us.set(timestamp_us);
    // The directories come first: a table that is known can be flushed.
    let made = new.all_tables().filter(|table| old.table_by_id(table.schema.id).is_none());
    let made: Vec<&TableSchema> = made.map(|table| &*table.schema).collect();
    for schema in &made {
        dropped::settle(shard.files(), &node.table_dir(schema), false).await?;
    }
    make_dirs(shard, &node.options.data_dir, made.iter().copied()).await?;
    for schema in made.into_iter().filter(|schema| node.dropped.borrow().contains(&schema.id)) {
        forget_logged(shard, &node.table_dir(schema)).await?;
    }
    let gone = gone_tables(&old, &new);
    let gone: Vec<&TableSchema> =
        gone.iter().filter_map(|id| old.table_by_id(*id)).map(|table| &*table.schema).collect();
    for schema in &gone {
        dropped::mark(shard.files(), &node.table_dir(schema)).await?;
    }
    // One entry of the log for all, so that a crash leaves the schema as it was or as it is to be.
    node.engine.apply_together(catalog::mutations_for(&old, &new, timestamp_us, now_s(shard))).await?;
    // It is durable in the log of the system tables; a flush that fails now, or takes long since others fail, goes on by itself.
    let system: Vec<TableId> = catalog::system_tables().iter().map(|schema| schema.id).collect();
    let until = Deadline(Some(shard.now_us() + SCHEMA_FLUSH_US));
    drop(until.limit(shard, pin!(node.engine.flush(&system))).await);
    node.dropped.borrow_mut().extend(gone.iter().map(|schema| schema.id));
    publish(shard, new.clone()).await?;
    for schema in gone {
        dropped::remove(shard.files(), &node.table_dir(schema)).await?;
    }
    Ok(changes)
}

/// A table with the id of one that was dropped begins empty: what the logs have of that one is not replayed into it.
async fn forget_logged(shard: &Shard, dir: &Path) -> Result<(), EngineError> {
    let position = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.log().position()) };
    let positions = on_all(shard, CpuGroup::Statement, position).await?;
    let Truncation { first_generation, .. } = truncation::load(shard.files(), dir).await?;
    truncation::store(shard.files(), dir, &Truncation { first_generation, positions }).await?;
    Ok(shard.files().sync_dir(dir).await?)
}

/// Lets every shard take over a catalog: make, alter and drop what it says.
pub async fn publish(shard: &Shard, catalog: Catalog) -> Result<(), EngineError> {
    // Jobs end on all shards while all know the table: one that deals an SSTable out holds its files on every shard, and
    // lets go of them by the table's name.
    let new = catalog.clone();
    let end_jobs = move |shard: Shard| {
        let new = new.clone();
        async move {
            let node = NodeShard::of(&shard)?;
            let gone = gone_tables(&node.catalog.borrow(), &new);
            for id in gone {
                node.engine.compactions().block(id).await;
            }
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Statement, end_jobs).await?;
    let take_over = move |shard: Shard| {
        let catalog = catalog.clone();
        async move { take_over(&shard, catalog).await }
    };
    on_all(shard, CpuGroup::Statement, take_over).await.map(drop)
}

/// The tables that `new` does not have any more.
fn gone_tables(old: &Catalog, new: &Catalog) -> Vec<TableId> {
    let gone = old.all_tables().filter(|table| new.table_by_id(table.schema.id).is_none());
    gone.map(|table| table.schema.id).collect()
}

async fn take_over(shard: &Shard, new: Catalog) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let old = node.catalog.replace(new.clone());
    let engine = &node.engine;
    for id in gone_tables(&old, &new) {
        if let Some(table) = engine.take_table(id) {
            engine.flushes().block(&table).await;
            table.drop_contents();
            engine.flushes().allow(&table);
            engine.compactions().forget_table(id);
            if let Some(roster) = &table.roster {
                roster.remove(shard.files()).await;
            }
        }
    }
    for table in new.all_tables().filter(|table| !is_system_keyspace(&table.schema.keyspace)) {
        match engine.table(table.schema.id) {
            Ok(known) => {
                if known.schema() != table.schema {
                    known.set_schema(table.schema.clone());
                }
                known.set_caching(table.settings.caches_rows());
                if !known.is_read_only() {
                    engine.compactions().set_table(&known, &table.settings);
                }
            }
            Err(_) => {
                let made = node.make_table(&table.schema);
                made.open_sstables(shard.files(), engine.cache(), shard.shard_count()).await?;
                let truncation = truncation::load(shard.files(), &made.dir).await?;
                // If nothing was left, numbers would start again below the record, and the next start would
                // remove what was written since.
                made.raise_generation(truncation.first_generation, shard.shard_count());
                made.set_truncation(truncation);
                engine.add_table(made.clone(), &table.settings);
                made.set_caching(table.settings.caches_rows());
            }
        }
    }
    Ok(())
}

/// Makes the directories of tables, so that a power failure does not take them away.
pub async fn make_dirs<'a>(
    shard: &Shard,
    data_dir: &Path,
    schemas: impl IntoIterator<Item = &'a TableSchema>,
) -> Result<(), EngineError> {
    let files = shard.files();
    let mut above = BTreeSet::new();
    for schema in schemas {
        let dir = table_dir(data_dir, schema);
        files.create_dir_all(&dir).await?;
        above.extend(dir.ancestors().skip(1).take(3).map(Path::to_path_buf));
    }
    for dir in above {
        files.sync_dir(&dir).await?;
    }
    Ok(())
}

/// The directory beside a table's SSTables that has its snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// So long a change of the schema waits for the system tables to be flushed.
const SCHEMA_FLUSH_US: u64 = 2_000_000;
/// So long a stop waits for a disk that does not take the history of compactions.
const HISTORY_SAVE_US: u64 = 10_000_000;

/// Empties a table: what was written before is gone when it ends, also after a crash at any point of it.
pub async fn truncate(shard: &Shard, table: TableId) -> Result<(), EngineError> {
    let call = shard.call(0, CpuGroup::Statement, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = truncate_locked(&shard, &node, table).await;
        node.unlock();
        result
    });
    call.await?
}

async fn truncate_locked(shard: &Shard, node: &Rc<NodeShard>, id: TableId) -> Result<(), EngineError> {
    let schema = match node.catalog.borrow().table_by_id(id) {
        Some(table) => table.schema.clone(),
        None => return Err(EngineError::UnknownTable(id)),
    };
    if is_system_keyspace(&schema.keyspace) {
        let what = format!("{} is a system table; it cannot be truncated", schema.full_name());
        return Err(EngineError::Invalid(what));
    }
    node.engine.table(id)?.check_writable()?;
    // 1. No new SSTable appears, and none after this has a number of before.
    let block = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let table = engine.table(id)?;
        engine.compactions().block(id).await;
        engine.flushes().block(&table).await;
        Ok(table.next_generation())
    };
    let result = match on_all(shard, CpuGroup::Statement, block).await {
        Ok(next) => truncate_blocked(shard, node, &schema, next.into_iter().max().unwrap_or(1)).await,
        Err(error) => Err(error),
    };
    let allow = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        engine.flushes().allow(&*engine.table(id)?);
        engine.compactions().allow(id);
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, allow).await?;
    result
}

async fn truncate_blocked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    schema: &TableSchema,
    first_generation: u64,
) -> Result<(), EngineError> {
    let id = schema.id;
    // 2. Every shard forgets its memtables, and says up to where its log is forgotten with them.
    let forget = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let table = engine.table(id)?;
        let position = table.log.position();
        table.forget_memtables();
        table.raise_generation(first_generation, shard.shard_count());
        Ok(position)
    };
    let positions = on_all(shard, CpuGroup::Statement, forget).await?;
    // 3. The record. Without it nothing has happened.
    let record = Truncation { first_generation, positions };
    let dir = node.table_dir(schema);
    if let Err(error) = truncation::store(shard.files(), &dir, &record).await {
        let take_back = move |shard: Shard| async move {
            let engine = EngineShard::of(&shard)?;
            engine.flushes().take_back_forgotten(&engine.table(id)?);
            Ok(())
        };
        on_all(shard, CpuGroup::Statement, take_back).await?;
        return Err(error.into());
    }
    let synced = shard.files().sync_dir(&dir).await;
    // 4. What it covers is taken out of the table, and then removed. If nobody knows whether the record will be there
    // after a loss of power, files and log keep what they have.
    let is_certain = synced.is_ok();
    let covered = record.clone();
    let take_out = move |shard: Shard| {
        let record = covered.clone();
        async move {
            let table = EngineShard::of(&shard)?.table(id)?;
            if is_certain {
                table.release_forgotten()
            } else {
                table.pin_forgotten()
            }
            table.take_sstables_below(record.first_generation);
            table.set_truncation(record);
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Maintenance, take_out).await?;
    synced?;
    files::remove_below(shard.files(), &dir, record.first_generation).await?;
    lost::forget(shard.files(), &dir).await?;
    Ok(())
}

/// Flushes a table and links its SSTables into `snapshots/<tag>` of its directory. Gives the number of files.
pub async fn snapshot(shard: &Shard, table: TableId, tag: String) -> Result<u64, EngineError> {
    if tag.is_empty()
        || !tag.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        || tag.starts_with('.')
    {
        let what = format!("{tag:?} cannot name a snapshot; use letters, digits, - _ and .");
        return Err(EngineError::Invalid(what));
    }
    // A truncate or a change of the schema would remove what is being linked.
    let call = shard.call(0, CpuGroup::Maintenance, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = snapshot_locked(&shard, &node, table, tag).await;
        node.unlock();
        result
    });
    call.await?
}

async fn snapshot_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: TableId,
    tag: String,
) -> Result<u64, EngineError> {
    let schema = node.catalog.borrow().table_by_id(table).map(|table| table.schema.clone());
    let schema = schema.ok_or(EngineError::UnknownTable(table))?;
    node.engine.table(table)?.check_writable()?;
    let dir = node.table_dir(&schema);
    let to = dir.join(SNAPSHOTS).join(&tag);
    if shard.files().exists(&to).await? {
        return Err(EngineError::Invalid(format!("{} has a snapshot {tag} already", schema.full_name())));
    }
    flush(shard, vec![table]).await?;
    let linked = link_all(shard, &schema, &dir, &to).await;
    if linked.is_err() {
        // Half of one would be taken for a whole one.
        let _ = shard.files().remove_dir_all(&to).await;
    }
    linked
}

/// A snapshot of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    pub keyspace: String,
    pub table: String,
    pub tag: String,
    /// What its files would take if nobody else had them.
    pub disk_bytes: u64,
}

/// The snapshots of all tables there are, by keyspace, table and tag.
pub async fn snapshots(shard: &Shard) -> Result<Vec<SnapshotReport>, EngineError> {
    let node = NodeShard::of(shard)?;
    let schemas: Vec<_> = node.catalog.borrow().all_tables().map(|table| table.schema.clone()).collect();
    let mut found = vec![];
    for schema in schemas {
        let dir = node.table_dir(&schema).join(SNAPSHOTS);
        let tags = match shard.files().read_dir(&dir).await {
            Ok(tags) => tags,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        for tag in tags.into_iter().filter(|tag| tag.is_dir) {
            let files = shard.files().read_dir(&dir.join(&tag.name)).await?;
            found.push(SnapshotReport {
                keyspace: schema.keyspace.clone(),
                table: schema.name.clone(),
                tag: tag.name,
                disk_bytes: files.iter().map(|file| file.len_bytes).sum(),
            });
        }
    }
    found.sort_by(|a, b| (&a.keyspace, &a.table, &a.tag).cmp(&(&b.keyspace, &b.table, &b.tag)));
    Ok(found)
}

/// Makes the directory `to` and links all SSTables of the table into it.
async fn link_all(shard: &Shard, schema: &TableSchema, dir: &Path, to: &Path) -> Result<u64, EngineError> {
    let (table, to) = (schema.id, to.to_owned());
    shard.files().create_dir_all(&to).await?;
    shard.files().sync_dir(dir).await?;
    shard.files().sync_dir(&dir.join(SNAPSHOTS)).await?;
    let is_system = is_system_keyspace(&schema.keyspace);
    let link = move |shard: Shard| {
        let to = to.clone();
        async move {
            if is_system && shard.id() != 0 {
                return Ok(0);
            }
            Ok(EngineShard::of(&shard)?.table(table)?.link_sstables(shard.files(), &to).await?)
        }
    };
    Ok(on_all(shard, CpuGroup::Maintenance, link).await?.into_iter().sum())
}

/// What `of` says of every table on any shard, each thing once: [`Table::unreadable`], [`Table::rebuilt`].
pub async fn told(shard: &Shard, of: fn(&Table) -> Vec<String>) -> Result<Vec<String>, EngineError> {
    let ask = move |shard: Shard| async move {
        let tables = EngineShard::of(&shard)?.tables();
        Ok(tables.iter().flat_map(|table| of(table)).collect::<Vec<String>>())
    };
    let mut all = on_all(shard, CpuGroup::Maintenance, ask).await?.concat();
    all.sort();
    all.dedup();
    Ok(all)
}

/// The catalog as this shard knows it.
pub fn catalog(shard: &Shard) -> Result<Catalog, EngineError> {
    Ok(NodeShard::of(shard)?.catalog.borrow().clone())
}

/// What every shard has and does.
pub async fn report(shard: &Shard) -> Result<Vec<ShardReport>, EngineError> {
    on_all(shard, CpuGroup::Maintenance, |shard| async move { Ok(EngineShard::of(&shard)?.report()) }).await
}

/// What the reads of every shard are doing, for people: a text for each semaphore of each shard.
pub async fn read_diagnostics(shard: &Shard) -> Result<Vec<Vec<String>>, EngineError> {
    let ask = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.admissions().dump()) };
    on_all(shard, CpuGroup::Maintenance, ask).await
}

/// What is large in the SSTables of all tables, in no order; of an SSTable that several shards read, once for each.
pub async fn large_data(shard: &Shard) -> Result<Vec<LargeItem>, EngineError> {
    let ask = |shard: Shard| async move {
        let tables = EngineShard::of(&shard)?.tables();
        Ok(tables.iter().flat_map(|table| large_data::of_table(table)).collect::<Vec<_>>())
    };
    Ok(on_all(shard, CpuGroup::Maintenance, ask).await?.concat())
}

/// What reads of every shard run and wait, for each semaphore.
pub async fn read_semaphores(shard: &Shard) -> Result<Vec<Vec<SemaphoreReport>>, EngineError> {
    let ask = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.admissions().reports()) };
    on_all(shard, CpuGroup::Maintenance, ask).await
}

/// What every table has and does: a list for each shard, in the order of the tables' names.
pub async fn table_reports(shard: &Shard) -> Result<Vec<Vec<TableReport>>, EngineError> {
    let ask = |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let report =
            |table: &Rc<Table>| TableReport::of(table, engine.compactions().table_state(table.schema().id));
        Ok(engine.tables().iter().map(report).collect())
    };
    on_all(shard, CpuGroup::Maintenance, ask).await
}

/// The Data.db files that have something of the partition, in the order of their names.
pub async fn sstables_of_key(
    shard: &Shard,
    table: TableId,
    key: PartitionKey,
) -> Result<Vec<PathBuf>, EngineError> {
    let node = NodeShard::of(shard)?;
    let schema = node.catalog.borrow().table_by_id(table).map(|table| table.schema.clone());
    let schema = schema.ok_or(EngineError::UnknownTable(table))?;
    let call =
        shard.call(owner(&node, &schema, key.token()), CpuGroup::Maintenance, move |shard| async move {
            let table = EngineShard::of(&shard)?.table(table)?;
            table.check_readable()?;
            let mut found = vec![];
            for sstable in table.sstables_with(&key).await? {
                let data = sstable.name().file_name(&Component::Data);
                found.push(sstable.dir().join(data));
            }
            found.sort();
            Ok(found)
        });
    call.await?
}

/// Flushes what can be flushed, makes the rest durable in the log, and stops. What is asked afterwards is refused.
pub async fn close(shard: &Shard) -> Result<(), EngineError> {
    // Jobs end first: no flush waits for one, and all that they did is known.
    let end_jobs = |shard: Shard| async move {
        EngineShard::of(&shard)?.compactions().stop().await;
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, end_jobs).await?;
    // It is written as all else, so it comes in front of the flush.
    let saved = shard.call(0, CpuGroup::Maintenance, |shard| async move {
        let deadline = Deadline(Some(shard.now_us() + HISTORY_SAVE_US));
        let save = async {
            history_table::save(&shard).await;
            Ok(())
        };
        deadline.limit(&shard, pin!(save)).await
    });
    // Nothing but the history depends on it.
    let _ = saved.await;
    // What a full disk keeps from being flushed is in the log.
    let flushed = flush(shard, vec![]).await;
    let stop = |shard: Shard| async move {
        let node = NodeShard::of(&shard)?;
        node.engine.stop().await;
        node.engine.log().close().await?;
        if let Some(schema_log) = &node.schema_log {
            schema_log.close().await?;
        }
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, stop).await?;
    match flushed {
        Err(EngineError::NoSpace(_)) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}
