//! SSTables pass the examination (`reader::examination`) with different versions, compressions and index
//! densities.

use model::{Codec, Compression};
use reader::examination::{Build, examine};
use reader::{LocalFuture, MemorySource, Source};
use runtime::sim;

use super::*;
use crate::write::Spacing;

#[derive(Clone, Debug)]
struct Case {
    version: Version,
    compression: Option<Compression>,
    column_index_bytes: u32,
    min_index_interval: u32,
    cache_bytes: usize,
    bypass_cache: bool,
    caches_index: bool,
}

struct BuildTables {
    shard: Shard,
    case: Case,
    cache: Rc<ChunkCache>,
    generation: u64,
}

impl Build for BuildTables {
    fn build<'a>(
        &'a mut self,
        schema: &'a Arc<TableSchema>,
        mutations: Vec<Mutation>,
    ) -> LocalFuture<'a, Box<dyn Source>> {
        Box::pin(async move {
            self.generation += 1;
            let Case { version, compression, column_index_bytes, min_index_interval, .. } = self.case.clone();
            let options = WriteOptions {
                compression,
                column_index_bytes,
                summary: Spacing { min_index_interval, max_index_interval: min_index_interval, ratio: 0.0 },
                ..WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush)
            };
            let name = name_of(version, self.generation);
            let written = write(&self.shard, &dir(), name, schema, options, &mutations).await;
            if written.is_none() {
                return Box::new(MemorySource::new(&[])) as Box<dyn Source>;
            }
            let sstable = open(&self.shard, &dir(), name, &self.cache).await.unwrap();
            let report = sstable.check(IoClass::Maintenance).await.unwrap();
            let written = written.unwrap();
            assert_eq!(
                (report.partitions, report.rows + report.static_rows),
                (written.partitions, written.rows)
            );
            let source = SSTableSource::new(sstable, IoClass::Statement);
            Box::new(source.bypass_cache(self.case.bypass_cache))
        })
    }
}

fn check(case: Case, seeds: std::ops::Range<u64>) {
    sim::run(seeds.start, 1, move |shard| async move {
        let cache = ChunkCache::new(case.cache_bytes);
        cache.set_caches_index(case.caches_index);
        let mut build = BuildTables { shard, case, cache, generation: 0 };
        examine(&mut build, seeds).await;
    });
}

fn case() -> Case {
    Case {
        version: Version::Me,
        compression: Some(Compression::lz4(4096)),
        column_index_bytes: 64 * 1024,
        min_index_interval: 128,
        cache_bytes: 1 << 20,
        bypass_cache: false,
        caches_index: true,
    }
}

#[test]
fn compressed() {
    check(case(), 0..48);
}

#[test]
fn uncompressed() {
    check(Case { compression: None, ..case() }, 100..148);
}

#[test]
fn many_blocks_a_partition() {
    check(Case { column_index_bytes: 200, min_index_interval: 1, ..case() }, 200..264);
    let compression = None;
    check(Case { column_index_bytes: 1, version: Version::Nb, compression, ..case() }, 300..348);
}

#[test]
fn every_version_that_is_written() {
    for (number, version) in (0..).zip(Version::ALL.into_iter().filter(|version| version.is_writable())) {
        let seeds = 600 + number * 16..600 + (number + 1) * 16;
        check(Case { version, column_index_bytes: 400, min_index_interval: 4, ..case() }, seeds);
    }
}

#[test]
fn without_a_cache() {
    check(Case { bypass_cache: true, cache_bytes: 0, column_index_bytes: 3000, ..case() }, 400..448);
}

#[test]
fn with_a_cache_that_is_too_small() {
    check(Case { cache_bytes: 20_000, column_index_bytes: 500, version: Version::Mc, ..case() }, 500..548);
}

/// The cache holds one index page, and at most one chunk or parsed page.
#[test]
fn with_a_cache_of_one_page() {
    let cache_bytes = 4096 + ChunkCache::ENTRY_OVERHEAD_BYTES;
    check(Case { cache_bytes, column_index_bytes: 200, min_index_interval: 1, ..case() }, 600..632);
    check(Case { cache_bytes: 0, column_index_bytes: 500, ..case() }, 632..664);
}

#[test]
fn without_cached_indexes() {
    check(Case { caches_index: false, column_index_bytes: 300, min_index_interval: 2, ..case() }, 700..732);
}

#[test]
fn every_codec() {
    let with = |codec, chunk_bytes| Some(Compression::new(codec, chunk_bytes));
    for (number, compression) in (0..).zip([
        with(Codec::Snappy, 1024),
        with(Codec::Deflate, 2048),
        with(Codec::Zstd { level: 1 }, 4096),
        with(Codec::Lz4High { level: 3 }, 1024),
        with(Codec::Noop, 4096),
        Some(Compression { max_compressed_bytes: 512, ..Compression::lz4(1024) }),
    ]) {
        let seed = 600 + number * 10;
        check(Case { compression, column_index_bytes: 500, version: Version::Nb, ..case() }, seed..seed + 8);
    }
}
