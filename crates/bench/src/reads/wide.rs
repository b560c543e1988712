//! Tables of large partitions, and a fast way to make them: rows are written directly into an SSTable, as by
//! a compaction.
//!
//! Partition `n` has the key `n`. Its row `r` has the clustering key `r` and a value of [`VALUE_BYTES`] that
//! depends on both.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, Page, ReadCommand};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ClusteringRange, ColumnData, ColumnId, CqlType, Liveness,
    PartitionKey, PartitionRange, Position, Row, TableSchema, Tombstone,
};
use reader::{Fragment, LocalFuture, ReadError, Reader, RowFragment, Step};
use runtime::IoClass;
use sstable::name::{Generation, SSTableName};
use sstable::pool::PoolStats;
use sstable::version::Version;
use sstable::write::{WriteOptions, write_reader};

use super::Bench;
use crate::BenchError;
use crate::stopwatch::Spent;
use crate::workload::Workload;
use crate::world::{self, World};

/// With key, lengths, flags and times a row has 1 KB.
pub(super) const VALUE_BYTES: usize = 1000;
/// Approximate size of a row in Data.db, in bytes.
pub(super) const ROW_BYTES: u64 = 1018;
const TIMESTAMP_US: i64 = 1_700_000_000_000_000;
const SEED: u64 = 23;

/// `CREATE TABLE bench.wide (partition int, at bigint, value blob, PRIMARY KEY (partition, at))`
pub(super) fn table() -> Arc<TableSchema> {
    TableSchema::builder("bench", "wide")
        .partition_key("partition", CqlType::Int)
        .clustering("at", CqlType::BigInt)
        .regular("value", CqlType::Blob)
        .build()
        .expect("two keys and a column")
}

pub(super) fn workload() -> Arc<Workload> {
    Arc::new(Workload::new(1, VALUE_BYTES, SEED))
}

/// The workload's row number whose value this row has.
pub(super) fn value_number(partition: u64, row: u64) -> u64 {
    partition.wrapping_mul(1_000_003).wrapping_add(row)
}

pub(super) fn key_of(partition: u64) -> PartitionKey {
    PartitionKey::new(&(partition as i32).to_be_bytes()[..])
}

fn row_key(row: u64) -> ClusteringPrefix {
    ClusteringPrefix::new([&(row as i64).to_be_bytes()[..]])
}

/// A read of one row.
pub(super) fn one_row(table: &TableSchema, partition: u64, row: u64) -> ReadCommand {
    let range = ClusteringRange { start: Position::before(row_key(row)), end: Position::after(row_key(row)) };
    ReadCommand {
        ranges: [range].into(),
        ..ReadCommand::new(table.id, PartitionRange::Key(key_of(partition)))
    }
}

/// Whether the page contains exactly this row.
pub(super) fn is_row(page: &Page, workload: &Workload, partition: u64, row: u64) -> bool {
    let [found] = &page.partitions[..] else { return false };
    let [found] = &found.rows[..] else { return false };
    let [(_, ColumnData::Simple(cell))] = found.row.cells() else { return false };
    found.key == row_key(row) && *cell.value == *workload.value(value_number(partition, row))
}

/// Generates whole partitions, one after another, while they are read.
struct MadeReader {
    /// Sorted by token.
    partitions: VecDeque<(u64, PartitionKey, u64)>,
    next_row: Option<u64>,
    column: ColumnId,
    workload: Arc<Workload>,
}

impl Reader for MadeReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        let Some((partition, key, rows)) = self.partitions.front() else { return Ok(Step::End) };
        let fragment = match self.next_row {
            None => {
                self.next_row = Some(0);
                Fragment::PartitionStart { key: key.clone(), tombstone: Tombstone::LIVE }
            }
            Some(at) if at < *rows => {
                self.next_row = Some(at + 1);
                let mut row = Row::new();
                row.liveness = Liveness::new(TIMESTAMP_US);
                let value = self.workload.value(value_number(*partition, at));
                row.push(self.column, ColumnData::Simple(ColumnCell::live(TIMESTAMP_US, value)));
                Fragment::Row(RowFragment { key: row_key(at), row: Rc::new(row) })
            }
            Some(_) => {
                self.next_row = None;
                self.partitions.pop_front();
                Fragment::PartitionEnd
            }
        };
        Ok(Step::Ready(fragment))
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Ok(()) })
    }

    fn skip_partition(&mut self) {
        if self.next_row.take().is_some() {
            self.partitions.pop_front();
        }
    }
}

/// Writes partitions, given by number and number of rows, into one SSTable of the table. Returns bytes of
/// data before compression.
pub(super) fn fill(world: &World, partitions: &[(u64, u64)]) -> Result<u64, BenchError> {
    let mut made: Vec<(u64, PartitionKey, u64)> =
        partitions.iter().map(|(number, rows)| (*number, key_of(*number), *rows)).collect();
    made.sort_by(|a, b| a.1.cmp(&b.1));
    let id = world.table.id;
    let filled = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let table = engine.table(id)?;
        let schema = table.schema();
        let column = schema.column_named("value").expect("the table has it").id;
        let mut options = WriteOptions::for_table(&schema, "bench", IoClass::Compaction);
        options.expected_partitions = made.len() as u64;
        options.delta_bases.min_timestamp_us = TIMESTAMP_US;
        let number = table.sstables.take_generation(shard.shard_count());
        let name = SSTableName::big(Version::DEFAULT, Generation::Number(number));
        let mut reader = MadeReader { partitions: made.into(), next_row: None, column, workload: workload() };
        let written =
            write_reader(shard.files(), &table.dir, name, schema, options, &mut reader, &shard).await;
        let written = written.map_err(|error| EngineError::SSTable(error.to_string()))?;
        let bytes = written.map_or(0, |written| written.uncompressed_bytes);
        table.open_loading(shard.files(), engine.cache(), &[name], shard.shard_count()).await?;
        table.take_loading();
        Ok(bytes)
    });
    Ok(filled.wait()?)
}

/// Engine options with this amount of memory.
pub(super) fn options(bench: &Bench, memory_bytes: u64) -> EngineOptions {
    let mut options = EngineOptions::new(&bench.dir);
    options.memory_bytes = memory_bytes;
    options
}

pub(super) fn open(bench: &Bench, options: EngineOptions) -> Result<World, BenchError> {
    World::open(options, bench.arguments.backend.into(), &table(), &world::uncompacted())
}

/// The cost of a single read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneRead {
    pub(super) requests: f64,
    pub(super) bytes: f64,
    /// Pages of the index that were not in memory.
    pub(super) index_pages: f64,
    pub(super) us: f64,
}

/// Reads rows one after another and records the engine's counters for each. The value of each row is checked.
pub(super) fn measured(
    world: &World,
    rows: Vec<(u64, u64)>,
    bypass_cache: bool,
) -> Result<Vec<OneRead>, BenchError> {
    let table = world.table.clone();
    let measured = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let workload = workload();
        let mut reads = vec![];
        for (partition, row) in rows {
            let mut command = one_row(&table, partition, row);
            command.bypass_cache = bypass_cache;
            let (io, pool, began_us) =
                (shard.stats().io_of(IoClass::Statement), engine.cache().stats(), shard.now_us());
            let page = engine.read(&command).await?;
            let us = (shard.now_us() - began_us) as f64;
            if !is_row(&page, &workload, partition, row) {
                return Err(EngineError::Invalid(format!(
                    "row {row} of {partition} is not what was written"
                )));
            }
            let io_after = shard.stats().io_of(IoClass::Statement);
            reads.push(OneRead {
                requests: (io_after.reads - io.reads) as f64,
                bytes: (io_after.read_bytes - io.read_bytes) as f64,
                index_pages: (engine.cache().stats().index_pages.misses - pool.index_pages.misses) as f64,
                us,
            });
        }
        Ok(reads)
    });
    Ok(measured.wait()?)
}

/// Reads `count` rows `row_of(n)`, `concurrency` at a time, and checks each. Returns the time, and the
/// requests and bytes read from disk.
pub(super) fn read_many(
    world: &World,
    concurrency: usize,
    count: u64,
    row_of: impl Fn(u64) -> (u64, u64) + Send + 'static,
) -> Result<(Spent, u64, u64), BenchError> {
    let before = world.io_of(IoClass::Statement)?;
    let table = world.table.clone();
    let workload = workload();
    let spent = world.on_shard(concurrency, count, move |engine, number| {
        let (partition, row) = row_of(number);
        let command = one_row(&table, partition, row);
        let workload = workload.clone();
        async move {
            let page = engine.read(&command).await?;
            if is_row(&page, &workload, partition, row) {
                return Ok(());
            }
            Err(EngineError::Invalid(format!("row {row} of {partition} is not what was written")))
        }
    })?;
    let after = world.io_of(IoClass::Statement)?;
    Ok((spent, after.reads - before.reads, after.read_bytes - before.read_bytes))
}

/// Counters of the shard's caches.
pub(super) fn pool(world: &World) -> Result<PoolStats, BenchError> {
    Ok(world.engine.report()?[0].cache)
}
