//! SSTables that Cassandra 4.1 wrote, held against what its `sstabledump` says of them.

use std::collections::BTreeSet;
use std::fs;

use model::{Partition, PartitionKey};
use reader::collect_partitions;
use runtime::{BackendChoice, CpuGroup, Runtime, RuntimeOptions};

use super::*;
use crate::component::statistics::Statistics;
use crate::dump::{DumpOptions, JsonDump, dump_reader, schema_of_header};
use crate::name::Component;
use crate::tools::metadata_text;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cassandra-4.1")
}

/// Every sample SSTable: its directory, name, and sstabledump's text.
fn all() -> Vec<(PathBuf, SstableName, String)> {
    let sorted = |dir: &Path| {
        let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let file_name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut found = vec![];
    for sample in sorted(&samples()).iter().filter(|path| path.is_dir()) {
        for keyspace in sorted(&sample.join("data")) {
            for table in sorted(&keyspace) {
                for file in sorted(&table) {
                    let (name, component) = SstableName::parse_file_name(&file_name(&file)).unwrap();
                    if component != Component::Data {
                        continue;
                    }
                    let directory = file_name(&table);
                    let table_name = directory.rsplit_once('-').unwrap().0;
                    let dump =
                        format!("expected/{}.{table_name}/{}.json", file_name(&keyspace), name.generation);
                    let dump = fs::read_to_string(sample.join(dump)).unwrap();
                    found.push((table.clone(), name, dump));
                }
            }
        }
    }
    assert!(found.len() > 20, "the samples are there");
    found
}

/// The dump without the places in Data.db, which fragments do not know.
fn without_positions(dump: &str) -> String {
    let mut out = String::new();
    for line in dump.split_inclusive('\n') {
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

/// Columns in the order of their names; the peer prints them in that of a hash map.
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

/// About when sstablemetadata ran: the share of tombstones that could be dropped is of that second.
const METADATA_S: u32 = 1_795_256_497;

/// The text without that share, and the share.
fn take_droppable(metadata: &str) -> (String, f64) {
    const NAME: &str = "Estimated droppable tombstones: ";
    let line = metadata.lines().find(|line| line.starts_with(NAME)).unwrap();
    (metadata.replacen(line, "", 1), line[NAME.len()..].parse().unwrap())
}

/// What sstablemetadata says of it.
fn metadata(dir: &Path, name: SstableName) -> String {
    let directory = dir.file_name().unwrap().to_str().unwrap();
    let table = directory.rsplit_once('-').unwrap().0;
    let keyspace = dir.parent().unwrap();
    let sample = keyspace.parent().unwrap().parent().unwrap();
    let keyspace = keyspace.file_name().unwrap().to_str().unwrap();
    let text = sample.join(format!("expected/{keyspace}.{table}/{}.metadata.txt", name.generation));
    fs::read_to_string(text).unwrap()
}

/// The day of the samples' dumps: what was to expire in 2023 had expired, what in 2033 had not.
const DUMPED_S: u32 = 1_760_000_000;

#[track_caller]
fn check_same_text(found: &str, expected: &str, context: &Path) {
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{context:?}, line {} without positions", number + 1);
    }
    assert_eq!(found.len(), expected.len(), "{context:?}");
}

fn on_disk<T: Send + 'static, Fut>(f: impl FnOnce(Shard) -> Fut + Send + 'static) -> T
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
    table: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    reversed: bool,
) -> Vec<(PartitionKey, Partition)> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);
    let source = SSTableSource::new(Rc::clone(table), IoClass::Statement);
    collect_partitions(&mut *source.reader(&spec), schema, reversed).await.unwrap()
}

#[test]
fn everything_is_read_as_cassandra_reads_it() {
    on_disk(|shard| async move {
        let cache = ChunkCache::new(1 << 20);
        let mut read = 0;
        let mut compressors = BTreeSet::new();
        for (dir, name, dump) in all() {
            let context = dir.join(name.to_string());
            let table = open(&shard, &dir, name, &cache).await;
            let table = table.unwrap_or_else(|error| panic!("{context:?}: {error}"));
            compressors.extend(table.compression().map(|info| info.compressor.clone()));
            assert!(table.rebuilt().is_empty(), "{:?}", table.rebuilt());
            let schema = schema_of_header(&table.statistics().header).unwrap();
            let source = SSTableSource::new(Rc::clone(&table), IoClass::Statement);
            let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
            let options = DumpOptions { raw_times: true, now_s: DUMPED_S };
            let mut text = String::new();
            let reader = &mut *source.reader(&spec);
            dump_reader(reader, schema.clone(), options, |part| text.push_str(part)).await.unwrap();
            check_same_text(&text, &without_positions(&dump), &context);

            let mut with_places = JsonDump::new(schema.clone(), options);
            let mut scan = table.positioned_scan(&schema, IoClass::Statement).unwrap();
            while let Some((fragment, position)) = scan.next().await.unwrap() {
                with_places.push_at(&fragment, Some(position));
            }
            check_same_text(&with_places.finish(), &dump, &context);

            let expected = metadata(&dir, name);
            let found = metadata_text(&table, METADATA_S);
            let found = found.replacen(&format!("{}/", dir.display()), "", 1);
            let (found, found_ratio) = take_droppable(&sorted_columns(&found));
            let (expected, ratio) = take_droppable(&sorted_columns(&expected));
            check_same_text(&found, &expected, &context);
            assert!((found_ratio - ratio).abs() < 1e-4, "{context:?}: {found_ratio} droppable, not {ratio}");

            let forward = whole(&table, &schema, false).await;
            let report = table.check(IoClass::Maintenance).await.unwrap();
            assert!(report.has_digest && report.partitions == forward.len() as u64);
            assert_eq!(table.partition_count(), forward.len() as u64, "{context:?}");
            assert_eq!(whole(&table, &schema, true).await, forward, "{context:?}");
            assert_eq!(forward.first().map(|(key, _)| key), Some(table.first_key()));
            assert_eq!(forward.last().map(|(key, _)| key), Some(table.last_key()));
            for (key, partition) in &forward {
                assert!(table.may_contain(key));
                for reversed in [false, true] {
                    let one = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
                    let one = one.reversed(reversed);
                    let one = collect_partitions(&mut *source.reader(&one), &schema, reversed).await;
                    assert_eq!(one.unwrap(), [(key.clone(), partition.clone())], "{context:?}");
                }
            }
            read += 1;
        }
        assert!(read > 20, "{read} were read");
        let expected = ["Deflate", "LZ4", "Noop", "Snappy", "Zstd"].map(|name| format!("{name}Compressor"));
        assert!(compressors.iter().eq(&expected), "{compressors:?}");
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
    let (class, _) = super::super::columns::DiskColumns::new(&header).unwrap_err();
    assert_eq!(class, "org.example.MyType");
}
