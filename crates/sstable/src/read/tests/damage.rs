//! Damaged SSTables: no damage leads to a panic; where checksums or comparisons reach, a read returns an
//! error or the right answer.

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Codec, Compression, PartitionKey, RingPosition};
use reader::{Fragment, ReadError, collect};
use runtime::sim;

use super::*;
use crate::name::Component;
use crate::write::Spacing;

/// An SSTable with large and small partitions, static rows, deletions and collections.
async fn intact(
    shard: &Shard,
    compression: Option<Compression>,
    version: Version,
) -> (Arc<TableSchema>, SSTableName, Vec<Component>) {
    let schema = sample::tables()[1].clone();
    let variety = Variety { rows: 60, value_bytes: 300, ..Variety::default() };
    let mut rng = Rng::new(11);
    let mutations: Vec<Mutation> = (0..150).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let options = WriteOptions {
        compression,
        column_index_bytes: 2000,
        summary: Spacing { min_index_interval: 2, max_index_interval: 2, ratio: 0.0 },
        ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
    };
    let name = name_of(version, 1);
    write(shard, &dir(), name, &schema, options, &mutations).await.unwrap();
    let cache = ChunkCache::new(1 << 20);
    let components = open(shard, &dir(), name, &cache).await.unwrap().components().to_vec();
    (schema, name, components)
}

/// All content of the SSTable, read in every way: scans, ranges of partitions, reversed reads, single
/// partitions, slices in both directions.
async fn ask(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>) -> Vec<Result<Vec<Fragment>, ReadError>> {
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let mut rng = Rng::new(3);
    let variety = Variety { rows: 60, ..Variety::default() };
    let mut answers = vec![];
    for reversed in [false, true] {
        let all = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);
        answers.push(collect(&mut *source.reader(&all)).await);
        let ranges = sample::ranges(&mut rng, schema, &variety);
        answers.push(collect(&mut *source.reader(&all.ranges(ranges))).await);
        for number in 0..4 {
            let key: PartitionKey = sample::partition_key(number);
            let (start, end) = (RingPosition::AfterKey(key.clone()), PartitionRange::all().end());
            let after = ReadSpec::new(schema.clone(), PartitionRange::Between { start, end });
            answers.push(collect(&mut *source.reader(&after.reversed(reversed))).await);
            let one = ReadSpec::new(schema.clone(), PartitionRange::Key(key)).reversed(reversed);
            answers.push(collect(&mut *source.reader(&one)).await);
            let ranges = sample::ranges(&mut rng, schema, &variety);
            answers.push(collect(&mut *source.reader(&one.ranges(ranges))).await);
        }
    }
    answers
}

async fn replace(shard: &Shard, path: &Path, bytes: &[u8]) {
    shard.files().write_all(path, bytes, IoClass::Maintenance).await.unwrap();
}

/// Damages each component in many ways. `damage` returns the changed bytes, or `None` to stop.
async fn damage_all(
    shard: &Shard,
    compression: Option<Compression>,
    version: Version,
    mut damage: impl FnMut(u64, &[u8]) -> Option<Vec<u8>>,
) {
    let (schema, name, components) = intact(shard, compression.clone(), version).await;
    let cache = ChunkCache::new(1 << 16);
    let sstable = open(shard, &dir(), name, &cache).await.unwrap();
    let right = ask(&sstable, &schema).await;
    assert!(right.iter().all(Result::is_ok));
    drop(sstable);
    let (mut noticed, mut all) = (0, 0);
    for component in &components {
        let path = dir().join(name.file_name(component));
        let bytes = shard.files().read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap();
        for round in 0.. {
            let Some(changed) = damage(round, &bytes) else { break };
            replace(shard, &path, &changed).await;
            all += 1;
            let sstable = match open(shard, &dir(), name, &cache).await {
                Ok(sstable) => sstable,
                Err(error) => {
                    assert!(error.to_string().contains("-big"), "{error}");
                    noticed += 1;
                    continue;
                }
            };
            let check = sstable.check(IoClass::Maintenance).await;
            noticed += usize::from(check.is_err() || !sstable.rebuilt().is_empty());
            let answers = ask(&sstable, &schema).await;
            // Every component has checksums, of its own or in Messina.db, or is compared with others: no
            // wrong answer goes unnoticed.
            for (answer, right) in answers.iter().zip(&right) {
                let right = right.as_ref().unwrap();
                assert!(answer.as_ref().map_or(true, |answer| answer == right), "{component} round {round}");
            }
            if matches!(component, Component::Data | Component::CompressionInfo | Component::Crc)
                && check.is_ok()
            {
                let same = answers.iter().zip(&right).all(|(a, b)| a.as_ref().ok() == b.as_ref().ok());
                assert!(same, "{component} round {round}: the check is content, the answers differ");
            }
        }
        replace(shard, &path, &bytes).await;
    }
    // Most damage is noticed. Damage without effect (in the digest, at the end of TOC.txt) need not be.
    assert!(noticed * 2 > all, "{noticed} of {all} were noticed");
    let sstable = open(shard, &dir(), name, &cache).await.unwrap();
    sstable.check(IoClass::Maintenance).await.unwrap();
}

/// Flips every bit of every component, one at a time. Reads then return the right answer, or an error that
/// names a file of the SSTable.
async fn flip_every_bit(shard: &Shard, compression: Option<Compression>, version: Version) {
    let schema = sample::tables()[1].clone();
    let variety = Variety { partitions: 3, rows: 6, value_bytes: 12, ..Variety::default() };
    let mut rng = Rng::new(5);
    let mutations: Vec<Mutation> = (0..12).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let options = WriteOptions {
        compression,
        column_index_bytes: 60,
        summary: Spacing { min_index_interval: 2, max_index_interval: 2, ratio: 0.0 },
        ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
    };
    let name = name_of(version, 1);
    write(shard, &dir(), name, &schema, options, &mutations).await.unwrap();
    let cache = ChunkCache::new(1 << 16);
    let sstable = open(shard, &dir(), name, &cache).await.unwrap();
    let components = sstable.components().to_vec();
    let right: Vec<_> = ask(&sstable, &schema).await.into_iter().map(Result::unwrap).collect();
    drop(sstable);
    for component in &components {
        let path = dir().join(name.file_name(component));
        let mut bytes = shard.files().read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            replace(shard, &path, &bytes).await;
            match open(shard, &dir(), name, &cache).await {
                Err(error) => {
                    assert!(error.to_string().contains("/me-1-big-"), "{component} bit {bit}: {error}")
                }
                Ok(sstable) => {
                    for (answer, right) in ask(&sstable, &schema).await.iter().zip(&right) {
                        match answer {
                            Ok(answer) => assert!(answer == right, "{component} bit {bit}: a wrong answer"),
                            Err(error) => {
                                assert!(
                                    error.to_string().contains("-big-"),
                                    "{component} bit {bit}: {error}"
                                );
                            }
                        }
                    }
                }
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        replace(shard, &path, &bytes).await;
    }
}

#[test]
fn every_bit() {
    for compression in [None, LZ4] {
        sim::run(1, 1, move |shard| async move { flip_every_bit(&shard, compression, Version::Me).await });
    }
}

const LZ4: Option<Compression> = Some(Compression::lz4(4096));

#[test]
fn single_bits() {
    let zstd = Some(Compression::new(Codec::Zstd { level: 1 }, 4096));
    let dictionary = Some(Compression { dictionary: true, ..Compression::lz4(1024) });
    for (seed, compression) in [(1, LZ4), (2, None), (8, zstd), (9, dictionary)] {
        for version in [Version::Me, Version::Nb] {
            let compression = compression.clone();
            sim::run(seed, 1, move |shard| async move {
                let mut rng = Rng::new(seed);
                damage_all(&shard, compression, version, |round, bytes| {
                    let mut bytes = bytes.to_vec();
                    let at = rng.index(bytes.len());
                    bytes[at] ^= 1 << rng.below(8);
                    (round < 60).then_some(bytes)
                })
                .await;
            });
        }
    }
}

#[test]
fn bytes_replaced() {
    for (seed, compression) in [(3, LZ4), (4, None)] {
        sim::run(seed, 1, move |shard| async move {
            let mut rng = Rng::new(seed);
            damage_all(&shard, compression, Version::Me, |round, bytes| {
                let mut bytes = bytes.to_vec();
                for _ in 0..1 + rng.below(8) {
                    let at = rng.index(bytes.len());
                    bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]);
                }
                (round < 60).then_some(bytes)
            })
            .await;
        });
    }
}

#[test]
fn truncations() {
    for (seed, compression) in [(5, LZ4), (6, None)] {
        sim::run(seed, 1, move |shard| async move {
            let mut rng = Rng::new(seed);
            damage_all(&shard, compression, Version::Me, |round, bytes| {
                let len = match round {
                    0 => 0,
                    1 => bytes.len() - 1,
                    _ => rng.index(bytes.len()),
                };
                (round < 40).then(|| bytes[..len].to_vec())
            })
            .await;
        });
    }
}

#[test]
fn what_is_missing_is_named_or_rebuilt() {
    sim::run(7, 1, |shard| async move {
        let (schema, name, components) = intact(&shard, LZ4, Version::Me).await;
        let cache = ChunkCache::new(1 << 20);
        let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
        let right: Vec<_> = ask(&sstable, &schema).await.into_iter().map(Result::unwrap).collect();
        for component in components {
            let path = dir().join(name.file_name(&component));
            let bytes = shard.files().read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap();
            shard.files().remove(&path).await.unwrap();
            let opened = open(&shard, &dir(), name, &cache).await;
            match component {
                Component::Summary | Component::Filter | Component::Messina | Component::Digest => {
                    let sstable = opened.unwrap();
                    assert_eq!(sstable.rebuilt()[0].0, component);
                    let got = ask(&sstable, &schema).await;
                    assert!(got.into_iter().map(Result::unwrap).eq(right.iter().cloned()));
                    sstable.check(IoClass::Maintenance).await.unwrap();
                }
                _ => match opened.unwrap_err() {
                    SSTableError::Missing { file } => assert_eq!(file, path),
                    other => panic!("{component}: {other}"),
                },
            }
            replace(&shard, &path, &bytes).await;
        }
    });
}
