//! Writes a case for `tests/peers/verify.py`: SSTables in Cassandra's directory layout, their schema, and the
//! expected output of `sstabledump -t`.
//!
//! `cargo run -p sstable --example peer_case -- DIR fixed [SEED]` or `-- DIR random SEED [--vectors]` creates
//! ```text
//! DIR/schema.cql
//! DIR/data/<keyspace>/<table>-<table id>/{me,nb}-<generation>-big-*.db
//! DIR/written/<keyspace>.<table>/<generation>.json     dump of the writes, without an SSTable
//! DIR/read/<keyspace>.<table>/<generation>.json        dump of the SSTable, read by Messina
//! ```
//! `fixed` creates tables of fixed shapes (fixed.rs) and a table that uses every compression (codecs.rs);
//! `random` creates tables with random columns and types (random.rs), with `--vectors` also of vectors. The
//! seed determines everything. The two dumps must be equal; the calling script compares them with each other
//! and with Cassandra's dump.

mod case;
mod codecs;
mod cql;
mod fixed;
mod random;
mod random_data;
mod values;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionRange, TableSchema};
use reader::{MemorySource, ReadSpec, Reader, Source};
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::dump::{DumpOptions, dump_reader, schema_of_header};
use sstable::name::{Generation, SSTableName, TableDirectory};
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::write::{WriteOptions, write_reader};

use crate::case::{Case, NOW_S};
use crate::random::Limits;

fn checked<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

async fn write_cases(shard: Shard, root: PathBuf, cases: Vec<Case>, statements: String) {
    let cache = ChunkCache::new(16 << 20);
    for case in &cases {
        // Boxed, because the writer's state is large.
        Box::pin(write_case(&shard, &root, case, &cache)).await;
    }
    write_text(&shard, &root.join("schema.cql"), &statements).await;
}

async fn write_text(shard: &Shard, path: &Path, text: &str) {
    let directory = path.parent().expect("a file is in a directory");
    checked(shard.files().create_dir_all(directory).await);
    checked(shard.files().write_all(path, text.as_bytes(), IoClass::Maintenance).await);
}

async fn write_case(shard: &Shard, root: &Path, case: &Case, cache: &Rc<ChunkCache>) {
    let schema = &case.schema;
    let table = TableDirectory { table: schema.name.clone(), table_id: *schema.id.as_bytes() };
    let dir = root.join("data").join(&schema.keyspace).join(table.to_string());
    checked(shard.files().create_dir_all(&dir).await);
    let source = MemorySource::new(&case.mutations);
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let options = WriteOptions {
        compression: case.compression.clone(),
        delta_bases: case.bases,
        column_index_bytes: case.column_index_bytes,
        host_id: Some([7; 16]),
        ..WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush)
    };
    let name = SSTableName::big(case.version, Generation::Number(case.generation));
    let reader = &mut *source.reader(&spec);
    let written =
        checked(write_reader(shard.files(), &dir, name, schema.clone(), options, reader, shard).await);
    let written = written.unwrap_or_else(|| panic!("{} {name}: nothing to write", schema.full_name()));
    println!(
        "{} {name}: {} partitions, {} rows, {} bytes",
        schema.full_name(),
        written.partitions,
        written.rows,
        written.total_bytes
    );
    dump(shard, root, "written", case, &mut *source.reader(&spec), schema).await;

    let table = checked(SSTable::open(shard.files(), &dir, name, cache, IoClass::Maintenance).await);
    checked(table.check(IoClass::Maintenance).await);
    // Use the types in the SSTable's own header, as sstabledump does.
    let described = checked(schema_of_header(&table.statistics().header));
    let spec = ReadSpec::new(described.clone(), PartitionRange::all());
    let source = SSTableSource::new(table, IoClass::Maintenance);
    dump(shard, root, "read", case, &mut *source.reader(&spec), &described).await;
}

async fn dump(
    shard: &Shard,
    root: &Path,
    folder: &str,
    case: &Case,
    reader: &mut dyn Reader,
    schema: &Arc<TableSchema>,
) {
    let options = DumpOptions { raw_times: true, now_s: NOW_S };
    let mut text = String::new();
    checked(dump_reader(reader, schema.clone(), options, |part| text.push_str(part)).await);
    let path = root.join(folder).join(case.schema.full_name()).join(format!("{}.json", case.generation));
    write_text(shard, &path, &text).await;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seed = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("seed {text:?} is not a number"));
    let (root, (cases, statements)) = match &arguments[..] {
        [root, "fixed"] => (root, (fixed::cases(1), fixed::schema_cql())),
        [root, "fixed", text] => (root, (fixed::cases(seed(text)), fixed::schema_cql())),
        [root, "random", text] => (root, random::cases(seed(text), Limits { has_vectors: false })),
        [root, "random", text, "--vectors"] => {
            (root, random::cases(seed(text), Limits { has_vectors: true }))
        }
        _ => panic!("usage: peer_case DIR fixed [SEED] | DIR random SEED [--vectors]; DIR is made"),
    };
    let root = Path::new(root).to_owned();
    let runtime = checked(Runtime::start(RuntimeOptions::default(), |_shard| async {}));
    let call = move |shard: Shard| write_cases(shard, root, cases, statements);
    let done = runtime.remote().call(0, CpuGroup::Memtable, call).wait();
    done.unwrap_or_else(|error| panic!("{error:?}"));
    checked(runtime.shutdown());
}
