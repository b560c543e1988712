//! Measures the speed of each codec alone and in an SSTable, on one core:
//! `cargo run --release -p sstable --example codec_speed -- DIR TEXT_FILE [MB] [ROW_BYTES]`.
//!
//! The text is divided into rows of ROW_BYTES (1000) in partitions of 1 MB, up to MB (100). Columns: size
//! relative to the uncompressed size; MB/s of uncompressed data for compressing the chunks alone, for writing
//! the SSTable including its seal, for decompressing the chunks alone, and for scanning the SSTable row by
//! row, each with checksums; the best of three runs.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::crc::crc32;
use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, Codec, ColumnData, ColumnId, Compression, Liveness, PartitionKey, PartitionRange,
    Row, TableSchema, Tombstone,
};
use reader::{Fragment, ReadSpec, RowFragment, Source, Step};
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::codec::{Compressor, Decompressor, Method, class_and_options, train};
use sstable::component::statistics::DeltaBases;
use sstable::name::{Component, Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::version::Version;
use sstable::write::{SSTableWriter, WriteOptions, Written, remove_sstable};

const NOW_US: i64 = 1_700_000_000_000_000;
const ROUNDS: usize = 3;

type Partitions = Vec<(PartitionKey, Vec<RowFragment>)>;

fn checked<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn table() -> Arc<TableSchema> {
    let table = TableSchema::builder("speed", "t").partition_key("p", CqlType::Int);
    checked(table.clustering("c", CqlType::Int).regular("v", CqlType::Blob).build())
}

fn partitions(text: &[u8], row_bytes: usize) -> Partitions {
    let row = |(number, value): (usize, &[u8])| {
        let mut row = Row::with_capacity(1);
        row.liveness = Liveness::new(NOW_US);
        row.push(ColumnId(0), ColumnData::Simple(Cell::live(NOW_US, value.to_vec())));
        let key = ClusteringPrefix::new([&(number as i32).to_be_bytes()[..]]);
        RowFragment { key, row: Rc::new(row) }
    };
    let partition = |(number, text): (usize, &[u8])| {
        let key = PartitionKey::new((number as i32).to_be_bytes());
        (key, text.chunks(row_bytes).enumerate().map(row).collect())
    };
    let mut partitions: Partitions = text.chunks(1_000_000).enumerate().map(partition).collect();
    partitions.sort_by(|(a, _), (b, _)| a.cmp(b));
    partitions
}

struct Bench {
    shard: Shard,
    dir: PathBuf,
    partitions: Partitions,
    name: SSTableName,
    cache: Rc<ChunkCache>,
}

impl Bench {
    async fn write(&self, compression: Option<Compression>) -> (Written, u64) {
        let schema = table();
        let options = WriteOptions {
            compression,
            delta_bases: DeltaBases { min_timestamp_us: NOW_US, ..DeltaBases::NONE },
            ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
        };
        let started_us = self.shard.now_us();
        let writer = SSTableWriter::create(self.shard.files(), &self.dir, self.name, schema, options).await;
        let mut writer = checked(writer);
        for (key, rows) in &self.partitions {
            checked(writer.push(Fragment::PartitionStart { key: key.clone(), tombstone: Tombstone::LIVE }));
            for row in rows {
                checked(writer.push(Fragment::Row(row.clone())));
                if writer.wants_write() {
                    checked(writer.write_out().await);
                }
            }
            checked(writer.push(Fragment::PartitionEnd));
        }
        let written = checked(writer.finish().await).expect("there are rows");
        (written, self.shard.now_us() - started_us)
    }

    async fn scan(&self) -> u64 {
        let files = self.shard.files();
        let opened = SSTable::open(files, &self.dir, self.name, &self.cache, IoClass::Statement).await;
        let source = SSTableSource::new(checked(opened), IoClass::Statement);
        let started_us = self.shard.now_us();
        let mut reader = source.reader(&ReadSpec::new(table(), PartitionRange::all()));
        let mut rows = 0;
        loop {
            match checked(reader.next()) {
                Step::Ready(Fragment::Row(_)) => rows += 1,
                Step::Ready(_) => (),
                Step::Load => checked(reader.load().await),
                Step::End => break,
            }
        }
        assert_eq!(rows, self.partitions.iter().map(|(_, rows)| rows.len()).sum::<usize>());
        self.shard.now_us() - started_us
    }

    async fn remove(&self) {
        checked(remove_sstable(self.shard.files(), &self.dir, &self.name).await);
    }

    /// Microseconds for compressing and for decompressing the chunks of `plain`, with checksums.
    fn codec_alone(&self, compression: &Compression, plain: &[u8]) -> (u64, u64) {
        let sample = &plain[..plain.len().min(1 << 20)];
        let dictionary = train(compression, sample);
        let mut compressor = Compressor::new(compression.codec, dictionary.as_deref());
        let (class, _) = class_and_options(compression.codec, false);
        let (method, _) = Method::named(class).expect("it has a name");
        let decompressor = match dictionary {
            None => Decompressor::new(method),
            Some(bytes) => Decompressor::with_dictionary(method, bytes).expect("it was trained"),
        };
        let chunk_bytes = compression.chunk_bytes as usize;
        let mut out = vec![0; compressor.bound(chunk_bytes)];
        let mut stored: Vec<Vec<u8>> = plain.chunks(chunk_bytes).map(|_| vec![]).collect();
        let (mut packing_us, mut unpacking_us) = (u64::MAX, u64::MAX);
        for round in 0..ROUNDS {
            let mut crcs = 0;
            let started_us = self.shard.now_us();
            for (chunk, stored) in plain.chunks(chunk_bytes).zip(&mut stored) {
                let len = compressor.compress(chunk, &mut out);
                crcs ^= crc32(&out[..len]);
                if round == 0 {
                    *stored = out[..len].to_vec();
                }
            }
            packing_us = packing_us.min(self.shard.now_us() - started_us);
            let mut out = vec![0; chunk_bytes];
            let started_us = self.shard.now_us();
            for (chunk, stored) in plain.chunks(chunk_bytes).zip(&stored) {
                crcs ^= crc32(stored);
                checked(decompressor.decompress(stored, &mut out[..chunk.len()]));
            }
            unpacking_us = unpacking_us.min(self.shard.now_us() - started_us);
            assert_eq!(crcs, 0, "the same chunks both times");
        }
        (packing_us, unpacking_us)
    }

    async fn measure(&self, name: &str, compression: Option<Compression>, plain: &[u8]) {
        let (mut write_us, mut scan_us, mut stored_bytes) = (u64::MAX, u64::MAX, 0);
        for _ in 0..ROUNDS {
            let (written, us) = self.write(compression.clone()).await;
            write_us = write_us.min(us);
            stored_bytes = written.data_bytes;
            scan_us = scan_us.min(self.scan().await);
            self.remove().await;
        }
        let rate = |us: u64| format!("{:.0}", plain.len() as f64 / us as f64);
        let ratio = stored_bytes as f64 / plain.len() as f64;
        let alone = compression.as_ref().map(|compression| self.codec_alone(compression, plain));
        let (packing, unpacking) =
            alone.map_or(("-".into(), "-".into()), |(packing, unpacking)| (rate(packing), rate(unpacking)));
        println!(
            "{name:<12} {ratio:>6.3} {packing:>9} {:>7} {unpacking:>11} {:>6}",
            rate(write_us),
            rate(scan_us)
        );
    }
}

async fn run(shard: Shard, dir: PathBuf, text: Vec<u8>, row_bytes: usize) {
    checked(shard.files().create_dir_all(&dir).await);
    let partitions = partitions(&text, row_bytes);
    let name = SSTableName::big(Version::Me, Generation::Number(1));
    let bench = Bench { shard, dir, partitions, name, cache: ChunkCache::new(0) };
    bench.write(None).await;
    let data = bench.dir.join(name.file_name(&Component::Data));
    let plain = checked(bench.shard.files().read_all(&data, IoClass::Statement, 1 << 40).await);
    bench.remove().await;
    println!("{:.0} MB in rows of {row_bytes} B; MB/s", plain.len() as f64 / 1e6);
    println!("codec         size  compress   write  decompress   scan");
    bench.measure("none", None, &plain).await;
    for kib in [4, 16, 64] {
        println!("{kib} KiB");
        for (name, codec, dictionary) in [
            ("noop", Codec::Noop, false),
            ("lz4", Codec::Lz4, false),
            ("lz4 dict", Codec::Lz4, true),
            ("lz4 high 9", Codec::Lz4High { level: 9 }, false),
            ("snappy", Codec::Snappy, false),
            ("deflate", Codec::Deflate, false),
            ("zstd 1", Codec::Zstd { level: 1 }, false),
            ("zstd 1 dict", Codec::Zstd { level: 1 }, true),
            ("zstd 3", Codec::Zstd { level: 3 }, false),
            ("zstd 9", Codec::Zstd { level: 9 }, false),
        ] {
            let compression = Compression { dictionary, ..Compression::new(codec, kib * 1024) };
            bench.measure(name, Some(compression), &plain).await;
        }
    }
    let compression = Compression { dictionary: true, ..Compression::new(Codec::Zstd { level: 3 }, 4096) };
    let started_us = bench.shard.now_us();
    let dictionary = train(&compression, &plain[..plain.len().min(1 << 20)]);
    let trained_us = bench.shard.now_us() - started_us;
    println!("training took {trained_us} us and gave {} bytes", dictionary.map_or(0, |bytes| bytes.len()));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")))
    };
    let [dir, file, ..] = &arguments[..] else {
        panic!("usage: codec_speed DIR TEXT_FILE [MB] [ROW_BYTES]; DIR is made");
    };
    let mut text = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(!text.is_empty(), "{file} is empty");
    let bytes = number(2, 100) * 1_000_000;
    while text.len() < bytes {
        text.extend_from_within(..text.len().min(bytes - text.len()));
    }
    text.truncate(bytes);
    let (dir, row_bytes) = (Path::new(dir).to_owned(), number(3, 1000));
    let runtime = checked(Runtime::start(RuntimeOptions::default(), |_shard| async {}));
    println!("I/O by {}", runtime.backend_in_use());
    let call = move |shard: Shard| run(shard, dir, text, row_bytes);
    let done = runtime.remote().call(0, CpuGroup::Memtable, call).wait();
    done.unwrap_or_else(|error| panic!("{error:?}"));
    checked(runtime.shutdown());
}
