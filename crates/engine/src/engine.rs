//! The engine as a program embeds it: a directory, opened by any thread.
//!
//! [`Engine`] starts its own shards, one thread each, and forwards every request to the shard that has the
//! data. The caller may be any thread, or a task of any other runtime ([`runtime::Reply`] is a future and can
//! also be waited for).

#![warn(missing_docs)]

use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, Changed, SchemaChange};
use model::{Mutation, TableId, TableSchema};
use reports::LoadedSSTables;
use runtime::{
    BackendChoice, CpuGroup, DiskOptions, IoClass, Remote, Reply, Runtime, RuntimeOptions, Shard,
    StallOptions,
};

use crate::error::EngineError;
use crate::node::upload;
use crate::node::{self, Deadline};
use crate::options::EngineOptions;
use crate::read::{Page, ReadCommand};
use crate::recover::{self, OpenReport};
use crate::report::ShardReport;
use crate::sharder::Sharder;

/// Options of the engine's shards.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// The number of shards, each a thread.
    pub shards: u32,
    /// The kernel interface for I/O.
    pub backend: BackendChoice,
    /// Pin shard `n` to core `n`.
    pub pin: bool,
    /// The performance of the directory's disk.
    pub disk: DiskOptions,
    /// Rate limits of I/O classes, in bytes per second.
    pub io_caps: Vec<(IoClass, u64)>,
    /// When a task counts as a stall, and how many stalls are logged.
    pub stalls: StallOptions,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            backend: BackendChoice::Auto,
            pin: false,
            disk: DiskOptions::default(),
            io_caps: vec![],
            stalls: StallOptions::default(),
        }
    }
}

/// An open directory. Dropping it stops the shards without flushing, which loses no acknowledged write;
/// [`Engine::close`] makes the next start faster.
pub struct Engine {
    runtime: Runtime,
    remote: Remote,
    sharder: Sharder,
    report: OpenReport,
}

/// A request to a shard, to be waited for or awaited.
pub struct Pending<T>(Reply<Result<T, EngineError>>);

impl<T> Pending<T> {
    /// Blocks the thread until the result is available. Not to be called on a shard.
    pub fn wait(self) -> Result<T, EngineError> {
        self.0.wait()?
    }

    /// The result as a future for any runtime.
    pub async fn get(self) -> Result<T, EngineError> {
        self.0.await?
    }
}

impl Engine {
    /// Opens a directory, which is created if it does not exist, and recovers the data of earlier runs.
    pub fn open(options: EngineOptions) -> Result<Self, EngineError> {
        Self::open_with(options, ShardOptions::default())
    }

    /// Opens the directory with these shards: recovers what an earlier run left, and returns when writes and
    /// reads may begin. Errors: another process has the directory, a file cannot be read or written, or
    /// durable writes are lost ([`EngineOptions::on_damaged_log`]).
    pub fn open_with(options: EngineOptions, shards: ShardOptions) -> Result<Self, EngineError> {
        let runtime_options = RuntimeOptions {
            shards: shards.shards,
            backend: shards.backend,
            pin: shards.pin,
            disk: shards.disk,
            stalls: shards.stalls,
            ..Default::default()
        };
        let caps = shards.io_caps;
        let cap = move |shard: Shard| {
            caps.iter().for_each(|(class, bytes_s)| shard.set_io_cap(*class, Some(*bytes_s)));
            std::future::ready(())
        };
        let runtime =
            Runtime::start(runtime_options, cap).map_err(|error| EngineError::Start(error.to_string()))?;
        let remote = runtime.remote();
        let open = remote
            .call(0, CpuGroup::Maintenance, |shard| async move { recover::open(&shard, options).await });
        let report = open.wait()??;
        let sharder = Sharder { shard_count: remote.shard_count() };
        Ok(Self { runtime, remote, sharder, report })
    }

    /// Result of the start.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// The I/O backend in use, and why another is not; for the log.
    pub fn backend(&self) -> String {
        self.runtime.backend_in_use().to_string()
    }

    /// The shards, for callers that run their own tasks where the data is.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Runs `f` on a shard.
    pub fn ask<T, F, Fut>(&self, target: u32, f: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, EngineError>> + 'static,
    {
        Pending(self.remote.call(target, CpuGroup::Statement, f))
    }

    /// Changes the schema; [`Catalog`] has the possible changes.
    pub fn change_schema<F>(&self, change: F) -> Result<Vec<SchemaChange>, EngineError>
    where
        F: FnOnce(&Catalog) -> Changed + Send + 'static,
    {
        self.ask(0, |shard| async move { node::change_schema(&shard, change).await }).wait()
    }

    /// The current catalog.
    pub fn catalog(&self) -> Result<Catalog, EngineError> {
        self.ask(0, |shard| async move { node::catalog(&shard) }).wait()
    }

    /// The current schema of a table.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<Arc<TableSchema>, EngineError> {
        let catalog = self.catalog()?;
        let found = catalog.schema(keyspace, name).cloned();
        found.ok_or_else(|| EngineError::Invalid(format!("there is no table {keyspace}.{name}")))
    }

    /// Applies a mutation. Completes when the write is durable, as `commitlog_sync` defines it. It has no
    /// time limit: while memtables or the commit log are full, it waits for flushes, and fails only if they
    /// cannot go on.
    pub fn apply(&self, mutation: Mutation) -> Pending<()> {
        let target = self.sharder.shard_of(mutation.key.token());
        self.ask(target, |shard| async move { node::apply(&shard, mutation, Deadline::NONE).await })
    }

    /// Applies mutations of any tables and partitions as a whole: after a crash all of them are there, or
    /// none. Reads may see a part before this completes.
    pub fn apply_batch(&self, mutations: Vec<Mutation>) -> Pending<()> {
        let target = mutations.first().map_or(0, |mutation| self.sharder.shard_of(mutation.key.token()));
        self.ask(target, |shard| async move { node::apply_batch(&shard, mutations, Deadline::NONE).await })
    }

    /// Reads the next page.
    pub fn read(&self, command: ReadCommand) -> Pending<Page> {
        let target = match &command.partitions {
            model::PartitionRange::Key(key) => self.sharder.shard_of(key.token()),
            model::PartitionRange::Between { .. } => 0,
        };
        self.ask(target, |shard| async move { node::read(&shard, command, Deadline::NONE).await })
    }

    /// Flushes the tables, or all if none is given.
    pub fn flush(&self, tables: Vec<TableId>) -> Result<(), EngineError> {
        self.ask(0, |shard| async move { node::flush(&shard, tables).await }).wait()
    }

    /// Makes all acknowledged writes durable against power loss.
    pub fn sync(&self) -> Result<(), EngineError> {
        self.ask(0, |shard| async move { node::sync(&shard).await }).wait()
    }

    /// Flushes a table and links its files into `snapshots/<tag>`. Returns the number of links.
    pub fn snapshot(&self, table: TableId, tag: &str) -> Result<u64, EngineError> {
        let tag = tag.to_string();
        self.ask(0, move |shard| async move { node::snapshot(&shard, table, tag).await }).wait()
    }

    /// Moves the SSTables in the table's `upload/` directory into the table.
    pub fn refresh(&self, table: TableId) -> Result<LoadedSSTables, EngineError> {
        self.ask(0, move |shard| async move { upload::refresh(&shard, table).await }).wait()
    }

    /// Copies the SSTables in `dir` into the table.
    pub fn import(&self, table: TableId, dir: &Path) -> Result<LoadedSSTables, EngineError> {
        let dir = dir.to_owned();
        self.ask(0, move |shard| async move { upload::import(&shard, table, dir).await }).wait()
    }

    /// Truncates a table.
    pub fn truncate(&self, table: TableId) -> Result<(), EngineError> {
        self.ask(0, move |shard| async move { node::truncate(&shard, table).await }).wait()
    }

    /// The report of every shard.
    pub fn report(&self) -> Result<Vec<ShardReport>, EngineError> {
        self.ask(0, |shard| async move { node::report(&shard).await }).wait()
    }

    /// Flushes, makes the rest durable in the log, and refuses later writes. The shards run until the engine
    /// is dropped. Not to be followed by [`Self::close`], which does both.
    pub fn drain(&self) -> Pending<()> {
        self.ask(0, |shard| async move { node::close(&shard).await })
    }

    /// Flushes and stops.
    pub fn close(self) -> Result<(), EngineError> {
        let closed = self.drain().wait();
        let stopped = self.runtime.shutdown().map_err(|panic| EngineError::Start(panic.to_string()));
        closed.and(stopped)
    }
}
