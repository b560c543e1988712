//! SSTables written by Cassandra 4.1 and 5.0, compared with the output of Cassandra's `sstabledump`.
//!
//! Messina's dump must be the same text. Messina does not write tries, so these samples are the only test of
//! reading them: every kind of read (forward, reverse, by key, by slices, by ranges of the ring, for absent
//! keys) must return the same as the scan, restricted in memory. Big tables come from a run of
//! `tests/peers/read.py`, which calls the ignored test.

use std::collections::BTreeSet;
use std::fs;

use base::rng::Rng;
use model::{ClusteringRange, Partition, PartitionKey, Position, RingPosition};
use reader::collect_partitions;
use runtime::{BackendChoice, CpuGroup, Runtime, RuntimeOptions};

use super::*;
use crate::component::statistics::Statistics;
use crate::dump::{DumpOptions, JsonDump, dump_reader, schema_of_header};
use crate::name::Component;
use crate::tools::metadata_text;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Every sample SSTable in a folder of samples of one version: its directory, its name, and the text of
/// sstabledump.
fn all_in(samples: &Path) -> Vec<(PathBuf, SSTableName, String)> {
    let sorted = |dir: &Path| {
        let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let file_name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut found = vec![];
    for sample in sorted(samples).iter().filter(|path| path.is_dir()) {
        for keyspace in sorted(&sample.join("data")) {
            for sstable in sorted(&keyspace) {
                for file in sorted(&sstable) {
                    let (name, component) = SSTableName::parse_file_name(&file_name(&file)).unwrap();
                    if component != Component::Data {
                        continue;
                    }
                    let directory = file_name(&sstable);
                    let table_name = directory.rsplit_once('-').unwrap().0;
                    let dump =
                        format!("expected/{}.{table_name}/{}.json", file_name(&keyspace), name.generation);
                    let dump = fs::read_to_string(sample.join(dump)).unwrap();
                    found.push((sstable.clone(), name, dump));
                }
            }
        }
    }
    found
}

/// The committed samples of every version.
pub(super) fn all() -> Vec<(PathBuf, SSTableName, String)> {
    let found: Vec<_> = ["cassandra-4.1", "cassandra-5.0-oa", "cassandra-5.0-da"]
        .iter()
        .flat_map(|version| all_in(&testdata().join(version)))
        .collect();
    for version in [Version::Nb, Version::Oa, Version::Da] {
        let count = found.iter().filter(|(_, name, _)| name.version == version).count();
        assert!(count > 10, "the samples of version {version} are there");
    }
    found
}

/// The dump without positions in Data.db, which fragments do not contain, and without the kind of table,
/// which only 5.0 prints.
fn without_positions(dump: &str) -> String {
    let mut out = String::new();
    for line in dump.split_inclusive('\n') {
        if line.trim_start().starts_with("\"table kind\" : ") {
            continue;
        }
        let Some(rest) = line.trim_start().strip_prefix("\"position\" : ") else {
            out.push_str(line);
            continue;
        };
        if !rest.trim_end().ends_with(',') {
            assert!(out.ends_with(",\n"), "there is no object of a position alone");
            out.truncate(out.len() - 2);
            out.push('\n');
        }
    }
    out
}

/// Sorts columns by name. Cassandra prints them in the order of a hash map.
fn sorted_columns(metadata: &str) -> String {
    let line = |line: &str| match line.split_once("Columns: ") {
        Some((kind, columns)) => {
            let mut columns: Vec<&str> = columns.split(", ").collect();
            columns.sort_unstable();
            format!("{kind}Columns: {}\n", columns.join(", "))
        }
        None => format!("{line}\n"),
    };
    metadata.lines().map(line).collect()
}

/// About the time at which sstablemetadata ran. The fraction of droppable tombstones is of that second.
const METADATA_S: u32 = 1_795_256_497;

/// The text without the fraction of droppable tombstones, and the fraction.
fn take_droppable(metadata: &str) -> (String, f64) {
    take_number(metadata, "Estimated droppable tombstones: ")
}

/// The text without the line `name`, and the number in that line.
fn take_number(metadata: &str, name: &str) -> (String, f64) {
    let line = metadata.lines().find(|line| line.starts_with(name)).unwrap();
    (metadata.replacen(line, "", 1), line[name.len()..].parse().unwrap())
}

/// The output of sstablemetadata for this SSTable, if there is one.
fn metadata(dir: &Path, name: SSTableName) -> Option<String> {
    let directory = dir.file_name().unwrap().to_str().unwrap();
    let sstable = directory.rsplit_once('-').unwrap().0;
    let keyspace = dir.parent().unwrap();
    let sample = keyspace.parent().unwrap().parent().unwrap();
    let keyspace = keyspace.file_name().unwrap().to_str().unwrap();
    let text = sample.join(format!("expected/{keyspace}.{sstable}/{}.metadata.txt", name.generation));
    text.exists().then(|| fs::read_to_string(text).unwrap())
}

/// Converts the text of 5.0's sstablemetadata to that of 4.1: the number precedes the date, and lines that
/// only one of them prints are removed.
fn as_of_4_1(metadata: &str) -> String {
    let mut out = String::new();
    for line in metadata.lines() {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let own = [
            "Duration",
            "Local token space coverage",
            "Covered clusterings",
            "minClusteringValues",
            "maxClusteringValues",
        ];
        if own.contains(&name) {
            continue;
        }
        let is_time = name.to_lowercase().ends_with("timestamp") || name.to_lowercase().ends_with("time");
        match value.strip_suffix(')').and_then(|value| value.rsplit_once(" (")) {
            Some((text, number)) if is_time && number.parse::<i64>().is_ok() => {
                let number = if number.parse() == Ok(i64::MAX) { "2147483647" } else { number };
                out += &format!("{name}: {number} ({text})\n");
            }
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

/// Messina's text of the metadata is Cassandra's.
fn check_metadata(sstable: &SSTable, context: &Path) {
    let (dir, name) = (sstable.dir(), sstable.name());
    let Some(expected) = metadata(dir, name) else { return };
    let found = metadata_text(sstable, METADATA_S);
    let found = found.replacen(&format!("{}/", dir.display()), "", 1);
    let same = |text: &str| {
        if name.version.has_improved_min_max() { as_of_4_1(text) } else { text.to_owned() }
    };
    let (found, expected) = (same(&found), same(&expected));
    // For some SSTables Cassandra's tool prints neither token.
    let has_tokens = expected.contains("\nFirst token: ");
    let is_printed =
        |line: &&str| has_tokens || !(line.starts_with("First token: ") || line.starts_with("Last token: "));
    let found: String = found.split_inclusive('\n').filter(is_printed).collect();
    let (found, found_ratio) = take_droppable(&sorted_columns(&found));
    let (expected, ratio) = take_droppable(&sorted_columns(&expected));
    // A small number of keys is counted exactly. For a large number Messina's estimator returns another
    // estimate.
    let (found, found_keys) = take_number(&found, "Estimated cardinality: ");
    let (expected, keys) = take_number(&expected, "Estimated cardinality: ");
    let is_near = if keys < 5000.0 { found_keys == keys } else { (found_keys / keys - 1.0).abs() < 0.01 };
    assert!(is_near, "{context:?}: {found_keys} keys, not {keys}");
    check_same_text(&found, &expected, context);
    assert!((found_ratio - ratio).abs() < 1e-4, "{context:?}: {found_ratio} droppable, not {ratio}");
}

/// The time of the samples' dumps: data with an expiry in 2023 had expired, data with an expiry in 2033 had
/// not.
const DUMPED_S: u32 = 1_760_000_000;

#[track_caller]
fn check_same_text(found: &str, expected: &str, context: &Path) {
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{context:?}, line {} without positions", number + 1);
    }
    assert_eq!(found.len(), expected.len(), "{context:?}");
}

pub(super) fn on_disk<T: Send + 'static, Fut>(f: impl FnOnce(Shard) -> Fut + Send + 'static) -> T
where
    Fut: Future<Output = T> + 'static,
{
    let options = RuntimeOptions { backend: BackendChoice::Auto, ..RuntimeOptions::default() };
    let runtime = Runtime::start(options, |_| async {}).unwrap();
    let result = runtime.remote().call(0, CpuGroup::Statement, f).wait();
    runtime.shutdown().unwrap();
    result.unwrap()
}

async fn whole(
    sstable: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    reversed: bool,
) -> Vec<(PartitionKey, Partition)> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    collect_partitions(&mut *source.reader(&spec), schema, reversed).await.unwrap()
}

/// Reads random slices of random partitions, and ranges of the ring, in both directions.
async fn ask_for_parts(
    sstable: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    all: &[(PartitionKey, Partition)],
    questions: usize,
) {
    let mut memory = MemorySource::default();
    memory.partitions_mut().extend(all.iter().cloned());
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let mut rng = Rng::new(all.len() as u64);
    // In most tables one partition is by far the largest. Seeks occur only there.
    let largest = all.iter().max_by_key(|(_, partition)| partition.rows().len()).unwrap();
    for number in 0..questions {
        let (key, partition) = if rng.chance(1, 2) { largest } else { rng.pick(all) };
        let point = |rng: &mut Rng| {
            let (key, _) = rng.pick(all);
            match rng.below(4) {
                0 => RingPosition::BeforeToken(key.token()),
                1 => RingPosition::AfterToken(key.token().wrapping_add(rng.below(3) as i64 - 1)),
                2 => RingPosition::BeforeKey(key.clone()),
                _ => RingPosition::AfterKey(key.clone()),
            }
        };
        let place = |rng: &mut Rng| {
            let prefix = match partition.rows() {
                [] => return Position::START,
                rows => rng.pick(rows).key.truncated(rng.index(schema.clustering.len() + 1)),
            };
            if rng.chance(1, 2) { Position::before(prefix) } else { Position::after(prefix) }
        };
        let mut places: Vec<Position> = (0..2 + 2 * rng.index(3)).map(|_| place(&mut rng)).collect();
        if rng.chance(1, 4) {
            // A single row, as in most reads.
            let row = place(&mut rng);
            places = vec![Position::before(row.prefix.clone()), Position::after(row.prefix)];
        }
        places.sort_by(|a, b| schema.compare_positions(a, b));
        places.dedup_by(|b, a| schema.compare_positions(a, b).is_eq());
        let ranges: Vec<ClusteringRange> = places
            .chunks_exact(2)
            .map(|pair| ClusteringRange { start: pair[0].clone(), end: pair[1].clone() })
            .collect();
        let partitions = if number % 4 == 0 {
            let mut ends = [point(&mut rng), point(&mut rng)];
            ends.sort_by_key(RingPosition::token);
            let [start, end] = ends;
            PartitionRange::Between { start, end }
        } else {
            PartitionRange::Key(key.clone())
        };
        for reversed in [false, true] {
            let mut spec = ReadSpec::new(schema.clone(), partitions.clone()).reversed(reversed);
            if rng.chance(3, 4) && !schema.clustering.is_empty() {
                spec = spec.ranges(ranges.clone());
            }
            let found = collect_partitions(&mut *source.reader(&spec), schema, reversed).await.unwrap();
            let expect = collect_partitions(&mut *memory.reader(&spec), schema, reversed).await.unwrap();
            let found: Vec<_> =
                found.into_iter().filter(|(_, partition)| *partition != Partition::default()).collect();
            let expect: Vec<_> =
                expect.into_iter().filter(|(_, partition)| *partition != Partition::default()).collect();
            assert!(found == expect, "{sstable:?}: {spec:?}\nfound {found:#?}\nexpected {expect:#?}");
        }
    }
}

/// Absent keys, some of them next to existing ones, are not found.
async fn ask_for_absent(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>, all: &[(PartitionKey, Partition)]) {
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let mut rng = Rng::new(7);
    for number in 0..60u64 {
        let mut bytes = rng.pick(all).0.bytes().to_vec();
        match rng.below(3) {
            0 => bytes.push(rng.below(256) as u8),
            1 => drop(bytes.pop()),
            _ => bytes = number.to_be_bytes().to_vec(),
        }
        let key = PartitionKey::new(&bytes[..]);
        if all.iter().any(|(there, _)| *there == key) {
            continue;
        }
        let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
        let found = collect_partitions(&mut *source.reader(&spec), schema, false).await.unwrap();
        assert!(found.is_empty(), "{sstable:?} {key:?}");
        // The read above may have been answered by the filter alone, so the index is searched too.
        let mut cursor = crate::read::index::partition_index::PartitionCursor::new(
            sstable,
            crate::read::data::window::Fetch::Cached,
            IoClass::Statement,
        );
        assert!(cursor.find(sstable, &key).await.unwrap().is_none(), "{sstable:?} {key:?}");
    }
}

/// Reads an SSTable in every way; `keys` is the number of partitions that are read one by one.
async fn read_in_every_way(sstable: &Rc<SSTable>, dump: &str, context: &Path, keys: usize, questions: usize) {
    assert!(sstable.rebuilt().is_empty(), "{:?}", sstable.rebuilt());
    let schema = schema_of_header(&sstable.statistics().header).unwrap();
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let options = DumpOptions { raw_times: true, now_s: DUMPED_S };
    let mut text = String::new();
    let reader = &mut *source.reader(&spec);
    dump_reader(reader, schema.clone(), options, |part| text.push_str(part)).await.unwrap();
    check_same_text(&text, &without_positions(dump), context);
    drop(text);
    // For a partition, 5.0 prints the position of its rows.
    if !sstable.name().version.has_improved_min_max() {
        let mut with_places = JsonDump::new(schema.clone(), options);
        let mut scan = sstable.positioned_scan(&schema, IoClass::Statement).unwrap();
        while let Some((fragment, position)) = scan.next().await.unwrap() {
            with_places.push_at(&fragment, Some(position));
        }
        check_same_text(&with_places.finish(), dump, context);
    }
    check_metadata(sstable, context);

    let forward = whole(sstable, &schema, false).await;
    let report = sstable.check(IoClass::Maintenance).await.unwrap();
    assert!(report.has_digest && report.partitions == forward.len() as u64);
    assert_eq!(sstable.partition_count(), forward.len() as u64, "{context:?}");
    assert!(whole(sstable, &schema, true).await == forward, "{context:?}");
    assert_eq!(forward.first().map(|(key, _)| key), Some(sstable.first_key()));
    assert_eq!(forward.last().map(|(key, _)| key), Some(sstable.last_key()));
    check_statistics(sstable, &forward);
    let step = forward.len().div_ceil(keys).max(1);
    for (key, partition) in forward.iter().step_by(step) {
        assert!(sstable.may_contain(key));
        for reversed in [false, true] {
            let one = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
            let one = one.reversed(reversed);
            let one = collect_partitions(&mut *source.reader(&one), &schema, reversed).await;
            assert!(one.unwrap() == [(key.clone(), partition.clone())], "{context:?} {key:?}");
        }
    }
    ask_for_absent(sstable, &schema, &forward).await;
    ask_for_parts(sstable, &schema, &forward, questions).await;
}

/// The statistics are true of the data.
fn check_statistics(sstable: &SSTable, all: &[(PartitionKey, Partition)]) {
    let stats = sstable.stats();
    let rows: usize = all.iter().map(|(_, partition)| partition.rows().len()).sum();
    let statics = all.iter().filter(|(_, partition)| !partition.static_row.is_empty()).count();
    assert_eq!(stats.total_rows, (rows + statics) as u64, "{sstable:?}");
    assert_eq!(stats.partition_bytes.count(), all.len() as u64);
    let sketch = sstable.statistics().compaction.cardinality().unwrap();
    let estimate = sketch.cardinality() as f64;
    assert!(
        (estimate - all.len() as f64).abs() <= 1.0 + all.len() as f64 * 0.05,
        "{estimate} of {}",
        all.len()
    );
    let timestamps = all.iter().flat_map(|(_, partition)| {
        let liveness = partition.rows().iter().map(|row| row.row.liveness.timestamp_us);
        let deletions = partition.rows().iter().map(|row| row.row.deletion.timestamp_us);
        liveness.chain(deletions).chain([partition.tombstone.timestamp_us])
    });
    for timestamp_us in timestamps.filter(|timestamp_us| *timestamp_us != i64::MIN) {
        assert!((stats.min_timestamp_us..=stats.max_timestamp_us).contains(&timestamp_us));
    }
    let version = sstable.name().version;
    assert!(version.has_originating_host_id() || stats.originating_host_id.is_none());
    assert_eq!(stats.coverage.is_some(), version.has_improved_min_max());
    if let Some(coverage) = &stats.coverage {
        assert_eq!(coverage.first_key, sstable.first_key().bytes());
        assert_eq!(coverage.last_key, sstable.last_key().bytes());
        assert_eq!(coverage.clustering_types, sstable.statistics().header.clustering_types);
        let deletes_partitions = all.iter().any(|(_, partition)| !partition.tombstone.is_live());
        assert_eq!(coverage.has_partition_deletions, deletes_partitions);
    }
}

async fn read_all(
    shard: &Shard,
    samples: Vec<(PathBuf, SSTableName, String)>,
    keys: usize,
    questions: usize,
) -> usize {
    let cache = ChunkCache::new(1 << 20);
    let mut read = 0;
    let mut compressors = BTreeSet::new();
    for (dir, name, dump) in samples {
        let context = dir.join(name.to_string());
        let sstable = open(shard, &dir, name, &cache).await;
        let sstable = sstable.unwrap_or_else(|error| panic!("{context:?}: {error}"));
        compressors.extend(sstable.compression().map(|info| info.compressor.clone()));
        read_in_every_way(&sstable, &dump, &context, keys, questions).await;
        read += 1;
    }
    let expected = ["Deflate", "LZ4", "Snappy", "Zstd"].map(|name| format!("{name}Compressor"));
    assert!(expected.iter().all(|name| compressors.contains(name)), "{compressors:?}");
    read
}

#[test]
fn everything_is_read_as_cassandra_reads_it() {
    on_disk(|shard| async move {
        let read = read_all(&shard, all(), usize::MAX, 40).await;
        assert!(read > 100, "{read} were read");
    });
}

/// The folders that `tests/peers/read.py` creates.
#[test]
#[ignore = "tests/peers/read.py makes the big tables first"]
fn big_tables_are_read_as_cassandra_reads_them() {
    on_disk(|shard| async move {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/corpus");
        let mut read = 0;
        for version in fs::read_dir(&corpus).expect("run tests/peers/read.py") {
            let version = version.unwrap().path();
            // A folder that is not complete yet has no such file.
            if !version.join("complete").exists() {
                continue;
            }
            read += read_all(&shard, all_in(&version), 2000, 200).await;
        }
        assert!(read > 20, "{read} were read");
    });
}

#[test]
fn a_type_that_is_not_known_is_an_error_that_names_it() {
    let (dir, name, _) =
        all().into_iter().find(|(dir, ..)| dir.ends_with("t-f5800a09f8465bb9bd7735f4848e8320")).unwrap();
    let bytes = fs::read(dir.join(name.file_name(&Component::Statistics))).unwrap();
    let statistics = Statistics::decode(&bytes, name.version).unwrap();
    let mut header = statistics.header.clone();
    header.regular_columns[0].type_name = "org.example.MyType".into();
    let (class, _) = crate::read::decode::columns::DiskColumns::new(&header).unwrap_err();
    assert_eq!(class, "org.example.MyType");
}
