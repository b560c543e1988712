//! Measures the speed of writing small rows:
//! `cargo run --release -p sstable --example write_speed -- DIR [MILLION_ROWS]`.
//!
//! Prints uncompressed MB/s on one core and the device's part of the time, for wide partitions and for
//! partitions of one row, compressed and uncompressed.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, ColumnData, ColumnId, Compression, Liveness, PartitionKey, Row, TableSchema,
    Tombstone,
};
use reader::{Fragment, RowFragment};
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::component::statistics::DeltaBases;
use sstable::name::{Generation, SSTableName};
use sstable::version::Version;
use sstable::write::{SSTableWriter, WriteOptions, remove_sstable};

const NOW_US: i64 = 1_700_000_000_000_000;
const ROWS_MADE: usize = 10_000;

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

/// Rows of about 60 bytes; half of each row consists of few different words.
fn rows() -> Vec<RowFragment> {
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
        let key = ClusteringPrefix::new([&(number as i32).to_be_bytes()[..]]);
        RowFragment { key, row: Rc::new(row) }
    };
    (0..ROWS_MADE).map(row).collect()
}

async fn measure(shard: &Shard, dir: &Path, rows: &[RowFragment], count: usize, per_partition: usize) {
    for compression in [None, Some(Compression::lz4(16 * 1024))] {
        let schema = table();
        let mut keys: Vec<PartitionKey> =
            (0..count / per_partition).map(|n| PartitionKey::new((n as u64).to_be_bytes())).collect();
        keys.sort();
        let options = WriteOptions {
            compression: compression.clone(),
            expected_partitions: keys.len() as u64,
            delta_bases: DeltaBases { min_timestamp_us: NOW_US, ..DeltaBases::NONE },
            ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
        };
        let files = shard.files();
        let name = SSTableName::big(Version::Me, Generation::Number(1));
        let writer = SSTableWriter::create(files, dir, name, schema, options).await;
        let mut writer = writer.unwrap_or_else(|error| panic!("{error}"));
        let started_us = shard.now_us();
        let mut row = 0;
        for key in keys {
            let mut push = |fragment| writer.push(fragment).unwrap_or_else(|error| panic!("{error}"));
            push(Fragment::PartitionStart { key, tombstone: Tombstone::LIVE });
            row = if row + per_partition > rows.len() { 0 } else { row };
            for fragment in &rows[row..row + per_partition] {
                push(Fragment::Row(fragment.clone()));
            }
            row += per_partition;
            push(Fragment::PartitionEnd);
            if writer.wants_write() {
                writer.write_out().await.unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let pushed_us = shard.now_us() - started_us;
        let written = writer.finish().await.unwrap_or_else(|error| panic!("{error}"));
        let written = written.expect("there were partitions");
        let all_us = shard.now_us() - started_us;
        let rate = |us: u64| written.uncompressed_bytes as f64 / us as f64;
        println!(
            "{per_partition} rows a partition, {compression:?}: {:.1} MB in rows of {} B, {:.1} MB stored, \
             {:.0} MB/s until pushed, {:.0} MB/s until sealed",
            written.uncompressed_bytes as f64 / 1e6,
            written.uncompressed_bytes / written.rows,
            written.data_bytes as f64 / 1e6,
            rate(pushed_us),
            rate(all_us)
        );
        remove_sstable(files, dir, &name).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

async fn run(shard: Shard, dir: PathBuf, count: usize) {
    shard.files().create_dir_all(&dir).await.unwrap_or_else(|error| panic!("{error}"));
    let rows = rows();
    for per_partition in [ROWS_MADE, 100, 1] {
        measure(&shard, &dir, &rows, count, per_partition).await;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, millions) = match &arguments[..] {
        [dir] => (dir, 3),
        [dir, millions] => (dir, millions.parse().unwrap_or_else(|_| panic!("{millions:?} is no number"))),
        _ => panic!("usage: write_speed DIR [MILLION_ROWS]; DIR is made"),
    };
    let dir = Path::new(dir).to_owned();
    let runtime = Runtime::start(RuntimeOptions::default(), |_shard| async {});
    let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
    println!("I/O by {}", runtime.backend_in_use());
    let call = move |shard: Shard| run(shard, dir, millions * 1_000_000);
    let done = runtime.remote().call(0, CpuGroup::Memtable, call).wait();
    done.unwrap_or_else(|error| panic!("{error:?}"));
    runtime.shutdown().unwrap_or_else(|error| panic!("{error}"));
}
