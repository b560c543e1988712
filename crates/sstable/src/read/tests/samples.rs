//! SSTables that Cassandra 4.1 wrote, held against what its `sstabledump` says of them.

use std::fs;

use model::types::CqlType;
use model::{ColumnData, Partition, PartitionKey};
use reader::{Fragment, collect, collect_partitions};
use runtime::{BackendChoice, CpuGroup, Runtime, RuntimeOptions};

use super::*;
use crate::component::statistics::{SerializationHeader, Statistics};
use crate::name::Component;

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

/// The table as the SSTable itself describes it. Key columns have no names there.
pub(super) fn schema_of(header: &SerializationHeader) -> Arc<TableSchema> {
    let parse = |name: &String| CqlType::from_java_name(name).unwrap();
    let mut builder = TableSchema::builder("sample", "t").partition_key("the key", parse(&header.key_type));
    for (number, name) in header.clustering_types.iter().enumerate() {
        builder = builder.clustering(format!("clustering {number}"), parse(name));
    }
    for column in &header.static_columns {
        let name = String::from_utf8(column.name.clone()).unwrap();
        builder = builder.static_column(name, parse(&column.type_name));
    }
    for column in &header.regular_columns {
        let name = String::from_utf8(column.name.clone()).unwrap();
        builder = builder.regular(name, parse(&column.type_name));
    }
    builder.build().unwrap()
}

/// What can be counted in a dump without understanding it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    partitions: usize,
    partition_deletions: usize,
    static_rows: usize,
    rows: usize,
    markers: usize,
    /// Cells, elements and deletions of complex columns.
    cells: usize,
    paths: usize,
}

fn counts_of_dump(dump: &str) -> Counts {
    let count = |text: &str| dump.matches(text).count();
    Counts {
        partitions: count("\"partition\" : {"),
        partition_deletions: dump
            .split("\"partition\" : {")
            .skip(1)
            .filter(|rest| rest.split('}').next().unwrap().contains("deletion_info"))
            .count(),
        static_rows: count("\"type\" : \"static_block\""),
        rows: count("\"type\" : \"row\""),
        markers: count("\"type\" : \"range_tombstone_bound"),
        cells: count("{ \"name\" : "),
        paths: count("\"path\" : ["),
    }
}

fn counts_of(fragments: &[Fragment]) -> Counts {
    let mut counts = Counts::default();
    let mut cells = |row: &model::Row| {
        for (_, data) in row.cells() {
            match data {
                ColumnData::Simple(_) => counts.cells += 1,
                ColumnData::Complex(complex) => {
                    counts.cells += usize::from(!complex.deletion.is_live()) + complex.cells.len();
                    counts.paths += complex.cells.len();
                }
            }
        }
    };
    for fragment in fragments {
        match fragment {
            Fragment::Static(row) => cells(row),
            Fragment::Row(row) => cells(&row.row),
            _ => {}
        }
    }
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { tombstone, .. } => {
                counts.partitions += 1;
                counts.partition_deletions += usize::from(!tombstone.is_live());
            }
            Fragment::Static(_) => counts.static_rows += 1,
            Fragment::Row(_) => counts.rows += 1,
            Fragment::Change(_) => counts.markers += 1,
            Fragment::PartitionEnd => {}
        }
    }
    counts
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
        for (dir, name, dump) in all() {
            let context = dir.join(name.to_string());
            let table = match open(&shard, &dir, name, &cache).await {
                Ok(table) => table,
                Err(SSTableError::Unsupported { detail, .. }) => {
                    assert!(detail.contains("compressed with"), "{context:?}: {detail}");
                    continue;
                }
                Err(error) => panic!("{context:?}: {error}"),
            };
            assert!(table.rebuilt().is_empty(), "{:?}", table.rebuilt());
            let schema = schema_of(&table.statistics().header);
            let source = SSTableSource::new(Rc::clone(&table), IoClass::Statement);
            let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
            let fragments = collect(&mut *source.reader(&spec)).await.unwrap();
            assert_eq!(counts_of(&fragments), counts_of_dump(&dump), "{context:?}");
            let report = table.check(IoClass::Maintenance).await.unwrap();
            assert!(report.has_digest && report.partitions == counts_of(&fragments).partitions as u64);
            assert_eq!(table.partition_count(), counts_of(&fragments).partitions as u64, "{context:?}");

            let forward = whole(&table, &schema, false).await;
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
