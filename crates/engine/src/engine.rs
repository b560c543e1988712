//! The engine as a program embeds it: a directory, opened by any thread.
//!
//! [`Engine`] starts its own shards, one thread each, and hands every request to the shard that answers it; the
//! caller may be any thread, or a task of any other runtime ([`runtime::Reply`] is a future and can be waited for).

use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, Changed, SchemaChange};
use model::{Mutation, TableId, TableSchema};
use runtime::{
    BackendChoice, CpuGroup, DiskOptions, IoClass, Remote, Reply, Runtime, RuntimeOptions, Shard,
    StallOptions,
};

use crate::error::EngineError;
use crate::node::upload::{self, LoadReport};
use crate::node::{self, Deadline};
use crate::options::EngineOptions;
use crate::read::{Page, ReadCommand};
use crate::recover::{self, OpenReport};
use crate::report::ShardReport;
use crate::sharder::Sharder;

/// How the engine's shards run.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    pub shards: u32,
    pub backend: BackendChoice,
    /// Tie shard `n` to core `n`.
    pub pin: bool,
    /// What the disk of the directory can do.
    pub disk: DiskOptions,
    /// What classes may use of it, in bytes per second.
    pub io_caps: Vec<(IoClass, u64)>,
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

/// An open directory. Dropping it stops the shards without flushing, which loses nothing that was acknowledged;
/// [`Engine::close`] makes the next start faster.
pub struct Engine {
    runtime: Runtime,
    remote: Remote,
    sharder: Sharder,
    report: OpenReport,
}

/// What is asked of a shard; wait for it, or await it.
pub struct Pending<T>(Reply<Result<T, EngineError>>);

impl<T> Pending<T> {
    /// Blocks the thread until the answer is there. Not to be called on a shard.
    pub fn wait(self) -> Result<T, EngineError> {
        self.0.wait()?
    }

    /// The answer as a future of any runtime.
    pub async fn get(self) -> Result<T, EngineError> {
        self.0.await?
    }
}

impl Engine {
    /// Opens a directory, which is made if it is not there, and recovers what the last run left.
    pub fn open(options: EngineOptions) -> Result<Self, EngineError> {
        Self::open_with(options, ShardOptions::default())
    }

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

    /// What the start found and did.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Which way of doing I/O is in use, and why not another; for the log.
    pub fn backend(&self) -> String {
        self.runtime.backend_in_use().to_string()
    }

    /// The shards, for callers that bring their own tasks to the data.
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

    /// Changes the schema; see [`Catalog`] for what can be done to it.
    pub fn change_schema<F>(&self, change: F) -> Result<Vec<SchemaChange>, EngineError>
    where
        F: FnOnce(&Catalog) -> Changed + Send + 'static,
    {
        self.ask(0, |shard| async move { node::change_schema(&shard, change).await }).wait()
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Result<Catalog, EngineError> {
        self.ask(0, |shard| async move { node::catalog(&shard) }).wait()
    }

    /// A table's schema as it is now.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<Arc<TableSchema>, EngineError> {
        let catalog = self.catalog()?;
        let found = catalog.schema(keyspace, name).cloned();
        found.ok_or_else(|| EngineError::Invalid(format!("there is no table {keyspace}.{name}")))
    }

    /// Writes; the answer comes when the write is durable, as `commitlog_sync` defines it.
    pub fn apply(&self, mutation: Mutation) -> Pending<()> {
        let target = self.sharder.shard_of(mutation.key.token());
        self.ask(target, |shard| async move { node::apply(&shard, mutation, Deadline::NONE).await })
    }

    /// Reads the next page.
    pub fn read(&self, command: ReadCommand) -> Pending<Page> {
        let target = match &command.partitions {
            model::PartitionRange::Key(key) => self.sharder.shard_of(key.token()),
            model::PartitionRange::Between { .. } => 0,
        };
        self.ask(target, |shard| async move { node::read(&shard, command, Deadline::NONE).await })
    }

    /// Flushes the tables, all if none is named.
    pub fn flush(&self, tables: Vec<TableId>) -> Result<(), EngineError> {
        self.ask(0, |shard| async move { node::flush(&shard, tables).await }).wait()
    }

    /// Makes everything acknowledged so far survive a power failure.
    pub fn sync(&self) -> Result<(), EngineError> {
        self.ask(0, |shard| async move { node::sync(&shard).await }).wait()
    }

    /// Flushes a table and links its files into `snapshots/<tag>`; gives the number of files.
    pub fn snapshot(&self, table: TableId, tag: &str) -> Result<u64, EngineError> {
        let tag = tag.to_string();
        self.ask(0, move |shard| async move { node::snapshot(&shard, table, tag).await }).wait()
    }

    /// Takes the SSTables in the table's `upload/` directory into the table.
    pub fn refresh(&self, table: TableId) -> Result<LoadReport, EngineError> {
        self.ask(0, move |shard| async move { upload::refresh(&shard, table).await }).wait()
    }

    /// Takes copies of the SSTables in `dir` into the table.
    pub fn import(&self, table: TableId, dir: &Path) -> Result<LoadReport, EngineError> {
        let dir = dir.to_owned();
        self.ask(0, move |shard| async move { upload::import(&shard, table, dir).await }).wait()
    }

    /// Empties a table.
    pub fn truncate(&self, table: TableId) -> Result<(), EngineError> {
        self.ask(0, move |shard| async move { node::truncate(&shard, table).await }).wait()
    }

    /// What every shard has and does.
    pub fn report(&self) -> Result<Vec<ShardReport>, EngineError> {
        self.ask(0, |shard| async move { node::report(&shard).await }).wait()
    }

    /// Flushes, makes the rest durable in the log, and refuses writes from then on. The shards run on until the
    /// engine is dropped; not to be followed by [`Self::close`], which does both.
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
