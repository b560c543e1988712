//! Every codec in whole SSTables: compressible and incompressible chunks, dictionaries, and checksums that
//! are verified with a probability.

use base::rng::Rng;
use model::types::CqlType;
use model::{Cell, ClusteringPrefix, Codec, Column, Compression, Liveness, PartitionKey, TableOptions};
use reader::{Fragment, ReadError, collect};
use runtime::sim;

use super::*;
use crate::component::compression_info::CompressionInfo;
use crate::name::Component;
use crate::tools::{compression_info_json, compression_info_text};

const NOW_US: i64 = 1_700_000_000_000_000;

fn schema(crc_check_chance: f64) -> Arc<TableSchema> {
    let sstable = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Blob)
        .options(TableOptions { crc_check_chance, ..TableOptions::default() });
    sstable.build().unwrap()
}

/// Rows with an odd number have random bytes, the others words.
fn mutations(schema: &Arc<TableSchema>, partitions: i32, value_bytes: usize) -> Vec<Mutation> {
    let mut rng = Rng::new(9);
    let column: &Column = schema.column_named("v").unwrap();
    let partition = |p: i32| {
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(p.to_be_bytes()));
        for c in 0..40i32 {
            let mut value = vec![0; value_bytes];
            if c % 2 == 1 {
                rng.fill(&mut value);
            } else {
                let word =
                    |rng: &mut Rng| format!("\"value_of_column\": {:05}, ", rng.below(99999)).into_bytes();
                value = (0..).flat_map(|_| word(&mut rng)).take(value_bytes).collect();
            }
            let row = mutation.row_mut(ClusteringPrefix::new([&c.to_be_bytes()[..]]));
            row.liveness = Liveness::new(NOW_US);
            row.set(column, Cell::live(NOW_US, value));
        }
        mutation
    };
    (0..partitions).map(partition).collect()
}

async fn all_of(source: &dyn Source, schema: &Arc<TableSchema>) -> Result<Vec<Fragment>, ReadError> {
    collect(&mut *source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()))).await
}

async fn written(
    shard: &Shard,
    version: Version,
    compression: Option<Compression>,
    mutations: &[Mutation],
) -> SSTableName {
    let schema = &mutations[0].schema;
    let options =
        WriteOptions { compression, ..WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush) };
    let mut name = name_of(version, 1);
    for generation in 2.. {
        if !shard.files().exists(&path(name, Component::Toc)).await.unwrap() {
            break;
        }
        name = name_of(version, generation);
    }
    write(shard, &dir(), name, schema, options, mutations).await.unwrap();
    name
}

fn path(name: SSTableName, component: Component) -> PathBuf {
    dir().join(name.file_name(&component))
}

async fn bytes_of(shard: &Shard, name: SSTableName, component: Component) -> Vec<u8> {
    shard.files().read_all(&path(name, component), IoClass::Statement, 1 << 30).await.unwrap()
}

async fn replace(shard: &Shard, name: SSTableName, component: Component, bytes: &[u8]) {
    let path = path(name, component);
    shard.files().write_all(&path, bytes, IoClass::Maintenance).await.unwrap();
}

/// Writes and opens an SSTable, and reads everything in several ways. Returns the open SSTable.
async fn round_trip(
    shard: &Shard,
    version: Version,
    compression: Compression,
    value_bytes: usize,
) -> Rc<SSTable> {
    let schema = schema(1.0);
    let mutations = mutations(&schema, 10, value_bytes);
    let name = written(shard, version, Some(compression.clone()), &mutations).await;
    let context = format!("{version}, {compression:?}");
    let cache = ChunkCache::new(1 << 16);
    let sstable = open(shard, &dir(), name, &cache).await.unwrap();
    sstable.check(IoClass::Maintenance).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let source = SSTableSource::new(Rc::clone(&sstable), IoClass::Statement);
    let expected = all_of(&MemorySource::new(&mutations), &schema).await.unwrap();
    assert!(all_of(&source, &schema).await.unwrap() == expected, "{context}: a scan");
    for p in 0..10i32 {
        let key = PartitionKey::new(p.to_be_bytes());
        for reversed in [false, true] {
            let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone())).reversed(reversed);
            let found = collect(&mut *source.reader(&spec)).await.unwrap();
            let expected = collect(&mut *MemorySource::new(&mutations).reader(&spec)).await.unwrap();
            assert!(found == expected, "{context}: partition {p}, reversed {reversed}");
        }
    }
    sstable
}

#[test]
fn every_codec_and_version() {
    let codecs = [
        Codec::Noop,
        Codec::Lz4,
        Codec::Lz4High { level: 9 },
        Codec::Snappy,
        Codec::Deflate,
        Codec::Zstd { level: -5 },
        Codec::Zstd { level: 3 },
    ];
    for version in [Version::Me, Version::Nb] {
        for codec in codecs {
            for kib in [1, 16, 256] {
                sim::run(1, 1, move |shard| async move {
                    let compression = Compression::new(codec, kib * 1024);
                    let sstable = round_trip(&shard, version, compression, 700).await;
                    assert!(!sstable.needs_dictionary());
                    let info = sstable.compression().unwrap();
                    assert_eq!(info.chunk_bytes, kib * 1024);
                    let chunks = info.offsets.len();
                    assert!(sstable.compression_bytes() <= 5 * chunks + 300, "{chunks} chunks");
                });
            }
        }
    }
}

#[test]
fn chunks_that_do_not_shrink_enough_are_stored_as_they_are() {
    for codec in [Codec::Noop, Codec::Lz4, Codec::Snappy, Codec::Deflate, Codec::Zstd { level: 1 }] {
        for max_compressed_bytes in [1, 700, 1000, 1024] {
            sim::run(2, 1, move |shard| async move {
                let compression = Compression { max_compressed_bytes, ..Compression::new(codec, 1024) };
                // Values of 1000 bytes: some chunks are nearly all random bytes, others all words.
                let sstable = round_trip(&shard, Version::Nb, compression.clone(), 1000).await;
                let info = sstable.compression().unwrap();
                assert_eq!(info.max_compressed_bytes, max_compressed_bytes);
                let file_bytes = sstable.data_bytes();
                let (mut raw, mut shrunk) = (0, 0);
                for index in 0..info.offsets.len() {
                    let chunk = info.chunk(index, file_bytes).unwrap();
                    let longest = u64::from(chunk.data_bytes.max(max_compressed_bytes));
                    assert!(chunk.stored_bytes <= longest, "{chunk:?}");
                    if chunk.stored_bytes >= u64::from(max_compressed_bytes) {
                        assert_eq!(chunk.stored_bytes, longest, "{chunk:?}");
                        raw += 1;
                    } else if chunk.data_bytes == 1024 {
                        shrunk += 1;
                    }
                }
                assert!(raw > 0, "{compression:?}");
                assert_eq!(shrunk > 0, max_compressed_bytes > 1 && codec != Codec::Noop, "{compression:?}");

                // Versions before na cannot store the threshold, so every chunk is compressed.
                let sstable = round_trip(&shard, Version::Me, compression, 1000).await;
                assert_eq!(sstable.compression().unwrap().max_compressed_bytes, Compression::ALWAYS);
            });
        }
    }
}

const WITH_DICTIONARY: Compression =
    Compression { dictionary: true, ..Compression::new(Codec::Zstd { level: 3 }, 1024) };

#[test]
fn dictionaries_are_stored_with_the_sstable() {
    for codec in [Codec::Lz4, Codec::Lz4High { level: 9 }, Codec::Zstd { level: 3 }] {
        for version in [Version::Me, Version::Nb] {
            sim::run(3, 1, move |shard| async move {
                let plain = round_trip(&shard, version, Compression::new(codec, 1024), 700).await;
                let plain_bytes = plain.data_bytes();
                let sstable =
                    round_trip(&shard, version, Compression { codec, ..WITH_DICTIONARY }, 700).await;
                assert!(sstable.needs_dictionary());
                let info = sstable.compression().unwrap();
                assert!(info.compressor.ends_with("WithDictsCompressor") && info.dictionary().is_none());
                assert!(sstable.messina().unwrap().dictionary_crc.is_some());
                let bytes = sstable.dictionary_bytes();
                assert!(bytes.is_some_and(|bytes| bytes > 1000), "{bytes:?}");
                let (mut text, mut json) = (String::new(), String::new());
                compression_info_text(info, bytes, sstable.data_bytes(), false, |part| text += part);
                compression_info_json(info, bytes, sstable.data_bytes(), false, |part| json += part);
                let bytes = bytes.unwrap_or_default();
                assert!(text.contains(&format!("Dictionary: {bytes} bytes\n")), "{text}");
                assert!(json.contains(&format!("\"dictionary_bytes\" : {bytes}")), "{json}");
                assert!(sstable.data_bytes() < plain_bytes, "{} < {plain_bytes}", sstable.data_bytes());
                // Too few data for a training: the result is the same as without the option.
                let small = round_trip(&shard, version, Compression { codec, ..WITH_DICTIONARY }, 50).await;
                assert!(!small.needs_dictionary());
                assert!(!small.compression().unwrap().compressor.contains("Dicts"));
            });
        }
    }
}

#[test]
fn a_wrong_or_missing_dictionary_is_an_error() {
    sim::run(4, 1, |shard| async move {
        let schema = schema(1.0);
        let mutations = mutations(&schema, 10, 700);
        let cache = ChunkCache::new(1 << 16);
        for codec in [Codec::Lz4, Codec::Zstd { level: 3 }] {
            let compression = Compression { codec, ..WITH_DICTIONARY };
            let name = written(&shard, Version::Me, Some(compression), &mutations).await;
            let intact = bytes_of(&shard, name, Component::CompressionInfo).await;
            let info = CompressionInfo::decode(&intact, Version::Me).unwrap();
            let dictionary = info.dictionary().unwrap();
            let with = |bytes: Option<&[u8]>| {
                let mut info = info.clone();
                info.set_dictionary(bytes);
                info.encode(Version::Me)
            };
            assert!(with(Some(&dictionary)) == intact);
            let mut wrong = dictionary.clone();
            *wrong.last_mut().unwrap() ^= 1;
            for (bytes, expect) in [
                (with(Some(&wrong)), "its dictionary has checksum"),
                (with(None), "it has no dictionary, but Messina.db has a checksum of one"),
            ] {
                replace(&shard, name, Component::CompressionInfo, &bytes).await;
                let error = open(&shard, &dir(), name, &cache).await.unwrap_err().to_string();
                assert!(error.contains(expect) && error.contains("CompressionInfo.db"), "{error}");
            }
            let mut other = info.clone();
            other.compressor = "SnappyCompressor".into();
            replace(&shard, name, Component::CompressionInfo, &other.encode(Version::Me)).await;
            let error = open(&shard, &dir(), name, &cache).await.unwrap_err().to_string();
            assert!(error.contains("it has a dictionary, but SnappyCompressor has none"), "{error}");
            // Without Messina.db: ScyllaDB writes the same classes, and its SSTables have no Messina.db.
            replace(&shard, name, Component::CompressionInfo, &intact).await;
            let toc = String::from_utf8(bytes_of(&shard, name, Component::Toc).await).unwrap();
            replace(&shard, name, Component::Toc, toc.replace("Messina.db\n", "").as_bytes()).await;
            shard.files().remove(&dir().join(name.file_name(&Component::Messina))).await.unwrap();
            let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
            assert!(sstable.needs_dictionary() && sstable.messina().is_none());
            sstable.check(IoClass::Maintenance).await.unwrap();
        }
    });
}

#[test]
fn checksums_are_verified_with_the_chance_of_the_table() {
    sim::run(5, 1, |shard| async move {
        let mutations = mutations(&schema(1.0), 10, 700);
        for compression in [Some(Compression::lz4(1024)), None] {
            let name = written(&shard, Version::Me, compression.clone(), &mutations).await;
            // Change the stored checksum of the first chunk and leave its data.
            match compression {
                Some(_) => {
                    let info = bytes_of(&shard, name, Component::CompressionInfo).await;
                    let info = CompressionInfo::decode(&info, Version::Me).unwrap();
                    let mut data = bytes_of(&shard, name, Component::Data).await;
                    data[info.offsets.get(1) as usize - 1] ^= 1;
                    replace(&shard, name, Component::Data, &data).await;
                }
                None => {
                    let mut crcs = bytes_of(&shard, name, Component::Crc).await;
                    crcs[4] ^= 1;
                    replace(&shard, name, Component::Crc, &crcs).await;
                }
            }
            let cache = ChunkCache::new(0);
            cache.seed(77);
            let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
            let source = SSTableSource::new(Rc::clone(&sstable), IoClass::Statement);
            for (chance, least, most) in [(1.0, 200, 200), (0.0, 0, 0), (0.5, 70, 130), (0.05, 1, 30)] {
                let schema = schema(chance);
                let mut found = 0;
                for _ in 0..200 {
                    let key = sstable.first_key().clone();
                    let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key));
                    match collect(&mut *source.reader(&spec)).await {
                        Ok(fragments) => assert!(fragments.len() > 40),
                        Err(error) => {
                            assert!(error.to_string().contains("checksum"), "{error}");
                            found += 1;
                        }
                    }
                }
                assert!((least..=most).contains(&found), "chance {chance}: {found} of 200");
            }
            assert!(sstable.check(IoClass::Maintenance).await.is_err(), "a check verifies everything");
        }
    });
}
