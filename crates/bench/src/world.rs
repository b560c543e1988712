//! An engine with one table on one shard, and operations on this shard. All benchmarks of the engine use it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Keyspace, TableSettings};
use engine::shard::EngineShard;
use engine::{Engine, EngineError, EngineOptions, ReadCommand, ShardOptions};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, Liveness, Mutation, PartitionKey, PartitionRange,
    TableSchema,
};
use reader::{Fragment, MergeReader, ReadSpec, Reader, Step};
use runtime::{BackendChoice, CpuGroup, DiskOptions, IoClass, IoCounters, Shard, StallOptions};

use super::BenchError;
use super::stopwatch::{Spent, Stopwatch};
use super::workload::Workload;

/// A poll that takes longer is a stall.
const STALL_US: u64 = 1000;

/// An open engine with the benchmark's table; see the head of this file.
pub struct World {
    pub engine: Engine,
    pub table: Arc<TableSchema>,
    pub dir: PathBuf,
}

/// Settings of a table without compaction, so that SSTables stay as they were written.
pub fn uncompacted() -> TableSettings {
    let mut settings = TableSettings::default();
    settings.compaction.insert("enabled".to_string(), "false".to_string());
    settings
}

impl World {
    /// Opens the directory of `options` and creates the table if it does not exist.
    pub fn open(
        options: EngineOptions,
        backend: BackendChoice,
        table: &TableSchema,
        settings: &TableSettings,
    ) -> Result<Self, BenchError> {
        Self::open_on(DiskOptions::default(), options, backend, table, settings)
    }

    /// The same with the measured limits of a disk.
    pub fn open_on(
        disk: DiskOptions,
        options: EngineOptions,
        backend: BackendChoice,
        table: &TableSchema,
        settings: &TableSettings,
    ) -> Result<Self, BenchError> {
        let dir = options.data_dir.clone();
        let stalls = StallOptions { threshold_us: STALL_US, ..StallOptions::default() };
        let engine =
            Engine::open_with(options, ShardOptions { backend, stalls, disk, ..ShardOptions::default() })?;
        let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
        if engine.table(&keyspace, &name).is_err() {
            if engine.catalog()?.keyspace(&keyspace).is_none() {
                let keyspace = keyspace.clone();
                engine.change_schema(move |catalog| catalog.create_keyspace(Keyspace::simple(&keyspace)?))?;
            }
            let (table, settings) = (Arc::new(table.clone()), settings.clone());
            engine.change_schema(move |catalog| catalog.create_table(table, settings))?;
        }
        let table = engine.table(&keyspace, &name)?;
        Ok(Self { engine, table, dir })
    }

    /// Closes the engine and keeps the directory.
    pub fn close(self) -> Result<PathBuf, BenchError> {
        self.engine.close()?;
        Ok(self.dir)
    }

    /// Lets the shard run for this time, in microseconds.
    pub fn sleep_us(&self, us: u64) -> Result<(), EngineError> {
        let slept = self.engine.ask(0, move |shard| async move {
            shard.sleep_us(us).await;
            Ok(())
        });
        slept.wait()
    }

    /// The current time in seconds since 1970.
    pub fn now_s(&self) -> Result<u64, EngineError> {
        let now = self.engine.ask(0, |shard| async move { Ok(shard.wall_us() as u64 / 1_000_000) });
        now.wait()
    }

    pub fn flushed(&self) -> Result<engine::flush::FlushStats, EngineError> {
        Ok(self.engine.report()?[0].flushes.clone())
    }

    /// Number of polls of 1 ms or more since the start.
    pub fn stalls(&self) -> Result<u64, EngineError> {
        let groups = &self.engine.report()?[0].groups;
        Ok(groups.iter().map(|group| group.stalls_us.count()).sum())
    }

    /// Counters of an I/O class since the start.
    pub fn io_of(&self, class: IoClass) -> Result<IoCounters, EngineError> {
        Ok(self.engine.report()?[0].runtime.io_of(class))
    }

    /// Runs `work` on the shard for each number below `count`, by `concurrency` tasks.
    pub fn on_shard<W, F>(&self, concurrency: usize, count: u64, work: W) -> Result<Spent, BenchError>
    where
        W: Fn(Rc<EngineShard>, u64) -> F + Send + 'static,
        F: Future<Output = Result<(), EngineError>> + 'static,
    {
        self.on_shard_made(concurrency, count, move || work)
    }

    /// Writes all rows of the workload into the column `value`, one row in each partition.
    pub fn write_all(&self, concurrency: usize, workload: &Arc<Workload>) -> Result<(), BenchError> {
        let (table, workload) = (self.table.clone(), workload.clone());
        let column = table.column_named("value").expect("tables of point reads have it").id;
        self.on_shard(concurrency, workload.rows, move |engine, row| {
            let timestamp_us = 1 + row as i64;
            let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&workload.key(row)[..]));
            let written = mutation.row_mut(ClusteringPrefix::new([]));
            written.liveness = Liveness::new(timestamp_us);
            written.push(column, ColumnData::Simple(ColumnCell::live(timestamp_us, workload.value(row))));
            async move { engine.apply(mutation).await }
        })?;
        Ok(())
    }

    /// The same as [`Self::on_shard`] with work that is created on the shard, so that it may contain values
    /// that cannot be sent between threads.
    pub fn on_shard_made<M, W, F>(&self, concurrency: usize, count: u64, make: M) -> Result<Spent, BenchError>
    where
        M: FnOnce() -> W + Send + 'static,
        W: Fn(Rc<EngineShard>, u64) -> F + 'static,
        F: Future<Output = Result<(), EngineError>> + 'static,
    {
        let watch = Stopwatch::start();
        let done =
            self.engine.ask(0, move |shard| async move { clients(&shard, concurrency, count, make()).await });
        done.wait()?;
        Ok(watch.spent())
    }

    /// Reads all rows in pages, like a client, bypassing the cache; returns the number of rows.
    pub fn scan(&self) -> Result<(u64, Spent), BenchError> {
        let table = self.table.id;
        let watch = Stopwatch::start();
        let scanned = self.engine.ask(0, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            let mut command = ReadCommand::new(table, PartitionRange::all());
            command.bypass_cache = true;
            let mut rows = 0;
            loop {
                let page = engine.read(&command).await?;
                rows += page.row_count();
                command.paging = page.next;
                if command.paging.is_none() {
                    return Ok(rows);
                }
            }
        });
        Ok((scanned.wait()?, watch.spent()))
    }

    /// Merges the whole table, like a compaction, and discards the output; returns the number of rows.
    pub fn merge(&self) -> Result<(u64, Spent), BenchError> {
        let table = self.table.id;
        let watch = Stopwatch::start();
        let merged = self.engine.ask(0, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            let table = engine.table(table)?;
            let spec = ReadSpec::new(table.schema(), PartitionRange::all());
            let mut reader = MergeReader::of(&spec, table.readers(&spec, true, IoClass::Statement));
            let (mut rows, mut fragments) = (0, 0u64);
            loop {
                match reader.next()? {
                    Step::Ready(Fragment::Row(_)) => rows += 1,
                    Step::Ready(_) => {}
                    Step::Load => reader.load().await?,
                    Step::End => return Ok(rows),
                }
                fragments += 1;
                if fragments.is_multiple_of(16) && shard.need_preempt() {
                    shard.yield_now().await;
                }
            }
        });
        Ok((merged.wait()?, watch.spent()))
    }
}

/// Runs `concurrency` tasks that take numbers below `count` until none is left.
async fn clients<W, F>(shard: &Shard, concurrency: usize, count: u64, work: W) -> Result<(), EngineError>
where
    W: Fn(Rc<EngineShard>, u64) -> F + 'static,
    F: Future<Output = Result<(), EngineError>> + 'static,
{
    let engine = EngineShard::of(shard)?;
    let next = Rc::new(Cell::new(0));
    let work = Rc::new(work);
    let client = || {
        let (engine, next, work) = (engine.clone(), next.clone(), work.clone());
        shard.spawn(CpuGroup::Statement, async move {
            while next.get() < count {
                let number = next.replace(next.get() + 1);
                work(engine.clone(), number).await?;
            }
            Ok::<(), EngineError>(())
        })
    };
    let clients: Vec<_> = (0..concurrency).map(|_| client()).collect();
    for client in clients {
        client.await?;
    }
    Ok(())
}

/// Bytes that the process has read from disks, counted by the kernel; 0 if the kernel does not report it.
pub fn kernel_read_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Bytes of all files below a directory.
pub fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { disk_bytes(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}
