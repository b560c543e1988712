//! A directory for each test, and a table to write to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Keyspace, TableSettings};
use engine::commitlog::SyncMode;
use engine::{Engine, EngineError, EngineOptions, ReadCommand, ShardOptions, node};
use model::{
    Cell, ClusteringPrefix, ColumnData, CqlType, Liveness, Mutation, PartitionKey, PartitionRange,
    TableSchema,
};
use runtime::Shard;

/// An empty directory for the test of this name.
pub fn dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.is_file() {
        std::fs::remove_file(&dir).unwrap();
    } else if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    dir
}

/// Options that keep files small.
pub fn options(dir: &Path) -> EngineOptions {
    EngineOptions {
        commitlog_segment_bytes: 1 << 20,
        commitlog_total_bytes: 16 << 20,
        commitlog_sync: SyncMode::Batch,
        memory_bytes: 64 << 20,
        ..EngineOptions::new(dir)
    }
}

pub fn open(options: EngineOptions, shards: u32) -> Engine {
    Engine::open_with(options, ShardOptions { shards, ..ShardOptions::default() })
        .unwrap_or_else(|error| panic!("{error}"))
}

/// `ks.t`: text key, int clustering, text value.
pub fn test_table() -> Arc<TableSchema> {
    let table =
        TableSchema::builder("ks", "t").partition_key("p", CqlType::Text).clustering("c", CqlType::Int);
    table.regular("v", CqlType::Text).build().unwrap()
}

/// [`test_table`] in the engine, created if it does not exist.
pub fn table(engine: &Engine) -> Arc<TableSchema> {
    if let Ok(table) = engine.table("ks", "t") {
        return table;
    }
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("ks")?)).unwrap();
    engine.change_schema(|catalog| catalog.create_table(test_table(), TableSettings::default())).unwrap();
    engine.table("ks", "t").unwrap()
}

pub fn clustering(c: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&c.to_be_bytes()[..]])
}

/// A row `(p, c)` with value `v`, written at `timestamp_us`.
pub fn insert(table: &Arc<TableSchema>, p: &str, c: i32, v: &str, timestamp_us: i64) -> Mutation {
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new(p));
    let row = mutation.row_mut(clustering(c));
    row.liveness = Liveness::new(timestamp_us);
    row.set(table.column_named("v").unwrap(), Cell::live(timestamp_us, v));
    mutation
}

/// All pages of a read, as (key, clustering, value).
pub fn all(engine: &Engine, mut command: ReadCommand) -> Vec<(String, i32, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut rows = vec![];
    loop {
        let page = engine.read(command.clone()).wait().unwrap_or_else(|error| panic!("{error}"));
        for partition in &page.partitions {
            for row in &partition.rows {
                let c = row.key.values().next().unwrap().try_into().unwrap();
                let Some((_, ColumnData::Simple(v))) = row.row.cells().first() else {
                    panic!("no value: {row:?}")
                };
                rows.push((text(partition.key.bytes()), i32::from_be_bytes(c), text(&v.value)));
            }
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return rows,
        }
    }
}

pub fn everything(engine: &Engine, table: &TableSchema) -> Vec<(String, i32, String)> {
    all(engine, ReadCommand::new(table.id, PartitionRange::all()))
}

/// The directory of `ks.t`.
pub fn table_dir(dir: &Path, table: &TableSchema) -> PathBuf {
    dir.join("data/ks").join(format!("t-{}", table.id.simple()))
}

/// The files of a directory whose names have this ending, in order.
pub fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.is_file() && path.to_str().unwrap().ends_with(ending)).collect();
    files.sort();
    files
}

/// The number of a table's rows, read from its memtables and SSTables without the row cache.
pub async fn count(shard: &Shard, table: &TableSchema) -> Result<usize, EngineError> {
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    command.bypass_cache = true;
    let mut rows = 0;
    loop {
        let page = node::read(shard, command.clone(), node::Deadline::NONE).await?;
        rows += page.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return Ok(rows),
        }
    }
}
