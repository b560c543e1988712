//! Measures the speed of reads: `cargo run --release -p sstable --example read_speed -- DIR [ROWS]`.
//!
//! It measures scans, reads of single small partitions from the chunk cache and from disk, and reads of
//! single rows and pages of a partition with many blocks, forward and reverse; each compressed and
//! uncompressed.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, ClusteringRange, ColumnData, ColumnId, Compression, Liveness, PartitionKey,
    PartitionRange, Position, Row, TableSchema, Tombstone,
};
use reader::{Fragment, ReadSpec, RowFragment, Source, Step};
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::component::statistics::DeltaBases;
use sstable::name::{Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::version::Version;
use sstable::write::{SSTableWriter, WriteOptions, remove_sstable};

const NOW_US: i64 = 1_700_000_000_000_000;

fn table() -> Arc<TableSchema> {
    let table = TableSchema::builder("speed", "t")
        .partition_key("p", CqlType::BigInt)
        .clustering("c", CqlType::Int)
        .regular("a", CqlType::Text)
        .regular("b", CqlType::BigInt)
        .regular("c1", CqlType::Text)
        .regular("d", CqlType::Int);
    table.build().expect("this is a table")
}

fn clustering(number: usize) -> ClusteringPrefix {
    ClusteringPrefix::new([&(number as i32).to_be_bytes()[..]])
}

/// Rows of about 60 bytes; half of each row consists of few different words.
fn rows(count: usize) -> Vec<RowFragment> {
    let mut rng = Rng::new(1);
    let words: Vec<String> = (0..500).map(|n| format!("word{}", n * 7919)).collect();
    let row = |number: usize| {
        let timestamp_us = NOW_US + number as i64;
        let mut row = Row::with_capacity(4);
        row.liveness = Liveness::new(timestamp_us);
        let mut push = |id, value: Vec<u8>| {
            row.push(ColumnId(id), ColumnData::Simple(Cell::live(timestamp_us, value)));
        };
        push(0, rng.pick(&words).clone().into_bytes());
        push(1, rng.next_u64().to_be_bytes().to_vec());
        push(2, [rng.pick(&words).as_bytes(), b" ", rng.pick(&words).as_bytes()].concat());
        push(3, (number as i32).to_be_bytes().to_vec());
        RowFragment { key: clustering(number), row: Rc::new(row) }
    };
    (0..count).map(row).collect()
}

fn key(number: usize) -> PartitionKey {
    PartitionKey::new((number as u64).to_be_bytes())
}

fn checked<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

async fn write(
    shard: &Shard,
    dir: &Path,
    name: SSTableName,
    compression: Option<Compression>,
    partitions: usize,
    rows: &[RowFragment],
) {
    let schema = table();
    let mut keys: Vec<PartitionKey> = (0..partitions).map(key).collect();
    keys.sort();
    let options = WriteOptions {
        compression,
        expected_partitions: partitions as u64,
        delta_bases: DeltaBases { min_timestamp_us: NOW_US, ..DeltaBases::NONE },
        ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
    };
    let mut writer = checked(SSTableWriter::create(shard.files(), dir, name, schema, options).await);
    for key in keys {
        checked(writer.push(Fragment::PartitionStart { key, tombstone: Tombstone::LIVE }));
        for row in rows {
            checked(writer.push(Fragment::Row(row.clone())));
            if writer.wants_write() {
                checked(writer.write_out().await);
            }
        }
        checked(writer.push(Fragment::PartitionEnd));
    }
    checked(writer.finish().await);
}

/// Reads all rows of `spec`, up to `limit`. Returns the number of rows.
async fn drain(source: &SSTableSource, spec: &ReadSpec, limit: usize) -> usize {
    let mut reader = source.reader(spec);
    let mut rows = 0;
    while rows < limit {
        match checked(reader.next()) {
            Step::Ready(Fragment::Row(_)) => rows += 1,
            Step::Ready(_) => {}
            Step::Load => checked(reader.load().await),
            Step::End => break,
        }
    }
    rows
}

/// Measures `count` reads, each with its own `spec`, and prints the microseconds of one read.
async fn time(
    shard: &Shard,
    what: &str,
    source: &SSTableSource,
    count: usize,
    limit: usize,
    mut spec: impl FnMut() -> ReadSpec,
) {
    let mut rows = 0;
    let started_us = shard.now_us();
    for _ in 0..count {
        rows += drain(source, &spec(), limit).await;
    }
    let us = (shard.now_us() - started_us) as f64;
    println!("  {what}: {:.2} us a read, {:.1} rows each", us / count as f64, rows as f64 / count as f64);
}

async fn measure(shard: &Shard, dir: &Path, compression: Option<Compression>, count: usize) {
    let (files, schema) = (shard.files(), table());
    let cache = ChunkCache::new(1 << 30);
    println!("{compression:?}");
    for (generation, per_partition) in [(1, 1), (2, 100), (3, count)] {
        let name = SSTableName::big(Version::Me, Generation::Number(generation));
        let partitions = count / per_partition;
        write(shard, dir, name, compression.clone(), partitions, &rows(per_partition)).await;
        let table = checked(SSTable::open(files, dir, name, &cache, IoClass::Statement).await);
        let source = SSTableSource::new(Rc::clone(&table), IoClass::Statement);
        let all = ReadSpec::new(schema.clone(), PartitionRange::all());
        for _ in 0..2 {
            let started_us = shard.now_us();
            let rows = drain(&source, &all, usize::MAX).await;
            let us = (shard.now_us() - started_us) as f64;
            println!(
                "  scan of {partitions} partitions: {:.0} MB/s uncompressed, {:.2} million rows/s",
                table.uncompressed_bytes() as f64 / us,
                rows as f64 / us
            );
        }
        let mut rng = Rng::new(5);
        let one = |number| ReadSpec::new(schema.clone(), PartitionRange::Key(key(number)));
        if per_partition == 1 {
            let cold = source.clone().bypass_cache(true);
            time(shard, "row of a small partition, from disk", &cold, 2000, 9, || one(rng.index(partitions)))
                .await;
            for number in 0..partitions {
                drain(&source, &one(number), usize::MAX).await;
            }
            time(shard, "row of a small partition, cached", &source, 200_000, 9, || {
                one(rng.index(partitions))
            })
            .await;
        }
        if per_partition == count {
            drain(&source, &one(0), usize::MAX).await;
            let mut rng = Rng::new(6);
            for reversed in [false, true] {
                let word = if reversed { "reverse" } else { "forward" };
                time(shard, &format!("row of a large partition, cached, {word}"), &source, 20_000, 9, || {
                    let row = ClusteringRange::of_prefix(clustering(rng.index(count)));
                    one(0).ranges([row]).reversed(reversed)
                })
                .await;
                time(shard, &format!("page of 100 rows, cached, {word}"), &source, 2000, 100, || {
                    let at = Position::before(clustering(rng.index(count)));
                    let range = match reversed {
                        false => ClusteringRange { start: at, end: Position::END },
                        true => ClusteringRange { start: Position::START, end: at },
                    };
                    one(0).ranges([range]).reversed(reversed)
                })
                .await;
                let started_us = shard.now_us();
                drain(&source, &one(0).reversed(reversed), usize::MAX).await;
                let us = (shard.now_us() - started_us) as f64;
                println!("  all of it, {word}: {:.0} MB/s", table.uncompressed_bytes() as f64 / us);
            }
        }
        drop((source, table));
        checked(remove_sstable(files, dir, &name).await);
    }
}

async fn run(shard: Shard, dir: PathBuf, count: usize) {
    checked(shard.files().create_dir_all(&dir).await);
    for compression in [None, Some(Compression::lz4(4096))] {
        measure(&shard, &dir, compression, count).await;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, count) = match &arguments[..] {
        [dir] => (dir, 1_000_000),
        [dir, count] => (dir, count.parse().unwrap_or_else(|_| panic!("{count:?} is no number"))),
        _ => panic!("usage: read_speed DIR [ROWS]; DIR is made"),
    };
    let dir = PathBuf::from(dir);
    let runtime = checked(Runtime::start(RuntimeOptions::default(), |_| async {}));
    println!("I/O: {}", runtime.backend_in_use());
    checked(runtime.remote().call(0, CpuGroup::Statement, move |shard| run(shard, dir, count)).wait());
    if let Err(panicked) = runtime.shutdown() {
        panic!("{panicked}");
    }
}
