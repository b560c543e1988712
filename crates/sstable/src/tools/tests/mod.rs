//! The tools on sound, damaged, unordered and removed SSTables, in a simulated world where a seed determines
//! a run.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Compression, Mutation, Partition, PartitionKey, PartitionRange, TableSchema};
use reader::{MemorySource, ReadSpec, Source, collect_partitions};
use runtime::{IoClass, Shard, sim};

use super::*;
use crate::component::crc::ChunkCrcsBuilder;
use crate::name::{Component, Generation, SSTableName};
use crate::read::{CheckReport, ChunkCache, Depth, SSTable, SSTableError, SSTableSource};
use crate::version::Version;
use crate::write::{Spacing, WriteOptions, write_reader};

fn source_dir() -> PathBuf {
    PathBuf::from("/data/ks/t")
}

fn output_dir() -> PathBuf {
    PathBuf::from("/output")
}

const LZ4: Option<Compression> = Some(Compression::lz4(4096));

/// Large and small partitions with every kind of content.
fn mutations(schema: &Arc<TableSchema>) -> Vec<Mutation> {
    let variety = Variety { rows: 60, value_bytes: 300, ..Variety::default() };
    let mut rng = Rng::new(11);
    (0..150).map(|_| sample::mutation(&mut rng, schema, &variety)).collect()
}

fn options(schema: &TableSchema, compression: Option<Compression>) -> WriteOptions {
    WriteOptions {
        compression,
        column_index_bytes: 2000,
        summary: Spacing { min_index_interval: 2, max_index_interval: 2, ratio: 0.0 },
        ..WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush)
    }
}

async fn intact(shard: &Shard, compression: Option<Compression>) -> (Arc<TableSchema>, SSTableName) {
    let schema = sample::tables()[1].clone();
    let (files, dir) = (shard.files(), source_dir());
    files.create_dir_all(&dir).await.unwrap();
    files.create_dir_all(&output_dir()).await.unwrap();
    let source = MemorySource::new(&mutations(&schema));
    let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
    let name = SSTableName::big(Version::Me, Generation::Number(1));
    let options = options(&schema, compression);
    let written = write_reader(files, &dir, name, schema.clone(), options, &mut *reader, shard);
    Box::pin(written).await.unwrap().unwrap();
    (schema, name)
}

async fn open(shard: &Shard, dir: &Path, name: SSTableName) -> Result<Rc<SSTable>, SSTableError> {
    SSTable::open(shard.files(), dir, name, &ChunkCache::new(1 << 16), IoClass::Maintenance).await
}

async fn contents(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>) -> Vec<(PartitionKey, Partition)> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Maintenance);
    collect_partitions(&mut *source.reader(&spec), schema, false).await.unwrap()
}

fn plan(version: Version, compression: CompressionChoice, split_bytes: Option<u64>) -> RewritePlan {
    RewritePlan { version, compression, split_bytes, origin: "test" }
}

async fn verify(sstable: &Rc<SSTable>, depth: Depth) -> (CheckReport, Vec<Finding>) {
    let mut found = vec![];
    let mut findings = Findings::new(|finding: &Finding| found.push(finding.clone()), |_, _| {});
    let report = sstable.verify(depth, IoClass::Maintenance, &mut findings).await.unwrap();
    drop(findings);
    (report, found)
}

async fn bytes_of(shard: &Shard, name: SSTableName, component: &Component) -> Vec<u8> {
    let path = source_dir().join(name.file_name(component));
    shard.files().read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap()
}

async fn replace(shard: &Shard, name: SSTableName, component: &Component, bytes: &[u8]) {
    let path = source_dir().join(name.file_name(component));
    shard.files().write_all(&path, bytes, IoClass::Maintenance).await.unwrap();
}

fn crcs_of(data: &[u8]) -> Vec<u8> {
    let mut crcs = ChunkCrcsBuilder::new(65_536);
    crcs.update(data);
    crcs.finish().encode()
}

/// The position of each partition according to Index.db.
async fn places(sstable: &Rc<SSTable>) -> Vec<(PartitionKey, u64)> {
    let mut walk = sstable.walk_index(IoClass::Maintenance);
    let mut places = vec![];
    while let Some(partition) = walk.next().await.unwrap() {
        places.push((partition.key, partition.position));
    }
    places
}

#[test]
fn a_sound_one_is_written_anew_whole_and_in_pieces() {
    sim::run(1, 1, |shard| async move {
        let (schema, name) = intact(&shard, LZ4).await;
        let sstable = open(&shard, &source_dir(), name).await.unwrap();
        let right = contents(&sstable, &schema).await;
        let exports = [
            (Version::Nb, CompressionChoice::Use(None), None),
            (Version::Me, CompressionChoice::AsSource, None),
            (Version::Me, CompressionChoice::AsSource, Some(4000)),
        ];
        for (version, compression, split_bytes) in exports {
            let plan = plan(version, compression.clone(), split_bytes);
            let rewritten = Box::pin(rewrite(&shard, &sstable, &output_dir(), &plan, |_, _| {})).await;
            let (written, note) = rewritten.unwrap();
            assert_eq!(note, None);
            assert_eq!(written.len() > 1, split_bytes.is_some(), "{} pieces", written.len());
            let mut found = vec![];
            for piece in &written {
                assert_eq!(piece.name.version, version);
                let piece = open(&shard, &output_dir(), piece.name).await.unwrap();
                let report = piece.check(IoClass::Maintenance).await.unwrap();
                assert!(report.partitions > 0);
                let is_plain = compression == CompressionChoice::Use(None);
                assert_eq!(piece.compression_info().is_none(), is_plain);
                assert_eq!(piece.statistics().header.bases, sstable.statistics().header.bases);
                found.extend(contents(&piece, &schema).await);
            }
            assert!(found == right, "the content is the same");
        }
    });
}

#[test]
fn a_verify_of_a_sound_one_finds_nothing() {
    sim::run(1, 1, |shard| async move {
        for compression in [LZ4, None] {
            let (_, name) = intact(&shard, compression).await;
            let sstable = open(&shard, &source_dir(), name).await.unwrap();
            for depth in [Depth::Components, Depth::Rows] {
                let (report, found) = verify(&sstable, depth).await;
                assert_eq!((report.partitions, found), (sstable.partition_count(), vec![]), "{depth:?}");
            }
            crate::write::remove_sstable(shard.files(), &source_dir(), &name).await.unwrap();
        }
    });
}

#[test]
fn a_verify_finds_all_there_is() {
    sim::run(1, 1, |shard| async move {
        let (_, name) = intact(&shard, LZ4).await;
        let sound = open(&shard, &source_dir(), name).await.unwrap();
        let info = sound.compression_info().unwrap();
        assert!(info.offsets.len() > 6, "{} chunks", info.offsets.len());
        let bad: Vec<u64> = [1, 4].iter().map(|chunk| info.offsets.get(*chunk)).collect();
        let mut data = bytes_of(&shard, name, &Component::Data).await;
        bad.iter().for_each(|at| data[*at as usize] ^= 1);
        replace(&shard, name, &Component::Data, &data).await;
        let sstable = open(&shard, &source_dir(), name).await.unwrap();
        for depth in [Depth::Components, Depth::Rows] {
            let (_, found) = verify(&sstable, depth).await;
            let digests = found.iter().filter(|finding| finding.detail.contains("Digest.crc32")).count();
            let chunks: Vec<u64> = found
                .iter()
                .filter(|finding| finding.detail.contains("checksum of a chunk"))
                .filter_map(|finding| finding.offset_bytes)
                .collect();
            assert_eq!((digests, &chunks), (1, &bad), "{depth:?}: {found:?}");
        }
    });
}

#[test]
fn a_scrub_keeps_what_can_be_read_and_counts_the_rest() {
    for compression in [LZ4, None] {
        for seed in 0..12 {
            let compression = compression.clone();
            sim::run(seed, 1, move |shard| async move {
                let (schema, name) = intact(&shard, compression.clone()).await;
                let sound = open(&shard, &source_dir(), name).await.unwrap();
                let right = contents(&sound, &schema).await;
                let rows: usize = right.iter().map(|(_, partition)| partition.rows().len()).sum();
                drop(sound);
                let mut rng = Rng::new(seed);
                let mut data = bytes_of(&shard, name, &Component::Data).await;
                for _ in 0..rng.index(4) {
                    let at = rng.index(data.len());
                    data[at] ^= 1 << rng.below(8);
                }
                replace(&shard, name, &Component::Data, &data).await;
                if compression.is_none() {
                    // Recompute CRC.db, so that the checksums match the damaged data.
                    let crcs = crcs_of(&data);
                    replace(&shard, name, &Component::Crc, &crcs).await;
                }
                let sstable = open(&shard, &source_dir(), name).await.unwrap();
                let plan = plan(Version::Me, CompressionChoice::AsSource, None);
                let report =
                    Box::pin(scrub(&shard, &sstable, &output_dir(), &plan, true, |_, _| {})).await.unwrap();
                let mut kept = 0;
                for written in &report.written {
                    let piece = open(&shard, &output_dir(), written.name).await.unwrap();
                    piece.check(IoClass::Maintenance).await.unwrap();
                    for (key, partition) in contents(&piece, &schema).await {
                        kept += partition.rows().len();
                        let Some((_, was)) = right.iter().find(|(other, _)| *other == key) else {
                            assert!(compression.is_none(), "a key that was never there");
                            continue;
                        };
                        // Data under a checksum are unchanged.
                        let known = |row: &model::ClusteringRow| was.rows().iter().any(|other| other == row);
                        assert!(compression.is_none() || partition.rows().iter().all(known));
                    }
                }
                if report.is_complete() && compression.is_some() {
                    assert_eq!(kept, rows);
                }
                assert!(report.is_complete() || kept < rows || report.losses.error_count > 0);
                // Three flipped bits cost at most three blocks; a partition has about thirty.
                assert!(kept * 2 > rows, "{kept} of {rows}: {:?}", report.losses);
                assert!(
                    shard.files().exists(&source_dir().join(name.file_name(&Component::Data))).await.unwrap()
                );
                assert_eq!(bytes_of(&shard, name, &Component::Data).await, data, "the original is as it was");
            });
        }
    }
}

#[test]
fn partitions_out_of_order_are_written_beside() {
    sim::run(1, 1, |shard| async move {
        let (schema, name) = intact(&shard, None).await;
        let sound = open(&shard, &source_dir(), name).await.unwrap();
        let right = contents(&sound, &schema).await;
        let places = places(&sound).await;
        assert!(places.len() > 3, "{} partitions", places.len());
        drop(sound);
        // Move the second partition to the end of the file. The index does not know the new position.
        let data = bytes_of(&shard, name, &Component::Data).await;
        let (from, to) = (places[1].1 as usize, places[2].1 as usize);
        let moved = [&data[..from], &data[to..], &data[from..to]].concat();
        replace(&shard, name, &Component::Data, &moved).await;
        let crcs = crcs_of(&moved);
        replace(&shard, name, &Component::Crc, &crcs).await;
        let sstable = open(&shard, &source_dir(), name).await.unwrap();
        let plan = plan(Version::Me, CompressionChoice::AsSource, None);
        let report = Box::pin(scrub(&shard, &sstable, &output_dir(), &plan, true, |_, _| {})).await.unwrap();
        assert_eq!((report.written.len(), report.out_of_order), (2, 1), "{:?}", report.losses);
        let mut found = vec![];
        for written in &report.written {
            let piece = open(&shard, &output_dir(), written.name).await.unwrap();
            piece.check(IoClass::Maintenance).await.unwrap();
            found.push(contents(&piece, &schema).await);
        }
        assert!(found[1] == right[1..2]);
        assert_eq!(found[0].len(), right.len() - 1);
        assert!(found[0].iter().all(|partition| right.contains(partition)));
    });
}

#[test]
fn paths_name_sstables() {
    sim::run(1, 1, |shard| async move {
        let (_, name) = intact(&shard, LZ4).await;
        let files = shard.files();
        let place = SSTablePath { dir: source_dir(), name };
        assert_eq!(find(files, &source_dir()).await.unwrap(), std::slice::from_ref(&place));
        let data = place.path(&Component::Data);
        assert_eq!(find(files, &data).await.unwrap(), std::slice::from_ref(&place));
        assert_eq!(find(files, &place.path(&Component::Filter)).await.unwrap(), std::slice::from_ref(&place));
        let missing = find(files, Path::new("/nowhere")).await.unwrap_err().to_string();
        assert_eq!(missing, "/nowhere: there is no such file or directory");
        let empty = find(files, &output_dir()).await.unwrap_err().to_string();
        assert!(empty.starts_with("/output: no SSTable in this directory"), "{empty}");
        // The SSTable is removed after the listing and before it is opened.
        crate::write::remove_sstable(files, &source_dir(), &name).await.unwrap();
        assert!(matches!(open(&shard, &source_dir(), name).await, Err(SSTableError::Missing { .. })));
        // The SSTable is removed after it was opened; it can be read to its end.
        let (_, name) = intact(&shard, LZ4).await;
        let sstable = open(&shard, &source_dir(), name).await.unwrap();
        crate::write::remove_sstable(files, &source_dir(), &name).await.unwrap();
        assert_eq!(verify(&sstable, Depth::Rows).await.1, []);
    });
}

#[test]
fn headers_make_one_table_or_an_error_with_the_reason() {
    sim::run(1, 1, |shard| async move {
        let (_, name) = intact(&shard, LZ4).await;
        let place = SSTablePath { dir: source_dir(), name };
        let header = read_statistics(shard.files(), &place).await.unwrap().header;
        let mut other = header.clone();
        let added = other.regular_columns[0].clone();
        other
            .regular_columns
            .push(crate::component::statistics::HeaderColumn { name: b"zz_added".to_vec(), ..added });
        let merged = merged_header([&header, &other]).unwrap().unwrap();
        assert_eq!(merged.regular_columns.len(), header.regular_columns.len() + 1);
        other.regular_columns[0].type_name = "org.apache.cassandra.db.marshal.InetAddressType".to_owned();
        let conflict = merged_header([&header, &other]).unwrap_err();
        assert_eq!(conflict.index, 1);
        assert!(conflict.to_string().contains("InetAddressType here"), "{conflict}");
        assert_eq!(merged_header([]), Ok(None));
    });
}
