//! Writes a case for `tests/peers/verify.py`: random tables in Cassandra's directory layout, and their schema.
//!
//! `cargo run -p sstable --example peer_case -- DIR [SEED]` makes
//! ```text
//! DIR/schema.cql
//! DIR/data/<keyspace>/<table>-<table id>/{me,nb}-<generation>-big-*.db
//! ```
//! [`cases`] says which tables there are and what is in each SSTable, as a function of the seed alone, so that
//! whoever compares what Cassandra reads can draw the same mutations again.

use std::fmt::Write as _;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::types::{CollectionBuilder, CqlType, CqlValue, Duration, UdtField, UserType, build_composite};
use model::types::{build_tuple, push_identifier};
use model::{
    Cell, ClusteringPrefix, ClusteringRange, Column, ColumnKind, Compression, Liveness, Mutation,
    PartitionKey, PartitionRange, Position, Row, TableSchema, Tombstone,
};
use reader::{MemorySource, ReadSpec, Source};
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::component::statistics::DeltaBases;
use sstable::name::{Generation, SstableName, TableDirectory};
use sstable::version::Version;
use sstable::write::{WriteOptions, write_reader};

const KEYSPACE: &str = "sample";
const NOW_S: u32 = 1_700_000_000;
const NOW_US: i64 = NOW_S as i64 * 1_000_000;

/// One SSTable.
struct Case {
    schema: Arc<TableSchema>,
    generation: u64,
    version: Version,
    compression: Compression,
    bases: DeltaBases,
    mutations: Vec<Mutation>,
}

/// All SSTables of a seed.
fn cases(seed: u64) -> Vec<Case> {
    let near =
        DeltaBases { min_timestamp_us: NOW_US, min_local_deletion_time_s: NOW_S as i32 - 10, min_ttl_s: 1 };
    let lz4 = |chunk_bytes| Compression::Lz4 { chunk_bytes };
    let forms = [
        (Version::Me, Compression::None, near),
        (Version::Me, lz4(4096), near),
        (Version::Nb, lz4(16384), DeltaBases::NONE),
        (Version::Nb, Compression::None, near),
    ];
    let mut cases = vec![];
    for schema in tables() {
        for ((version, compression, bases), generation) in forms.clone().into_iter().zip(1..) {
            let name = schema.name.bytes().fold(seed, |hash, byte| hash * 31 + u64::from(byte));
            let mut rng = Rng::new(name.wrapping_mul(64) + generation);
            let mutations = mutations(&mut rng, &schema, generation);
            cases.push(Case { schema: schema.clone(), generation, version, compression, bases, mutations });
        }
    }
    cases
}

/// The tables of the model's own tests, and those that they do not have.
fn tables() -> Vec<Arc<TableSchema>> {
    let mut tables = sample::tables();
    let table = |name: &str| TableSchema::builder(KEYSPACE, name);
    tables.extend(
        [types_table(), keys_table(), {
            let many = table("many").partition_key("p", CqlType::Int).clustering("c", CqlType::Int);
            let many = (0..70).fold(many, |many, i| many.regular(format!("r{i}"), CqlType::Int));
            (0..65).fold(many, |many, i| many.static_column(format!("s{i}"), CqlType::Text))
        }]
        .map(|builder| builder.build().expect("these are tables")),
    );
    tables
}

fn point() -> CqlType {
    let fields = [("x", CqlType::Int), ("y", CqlType::Text), ("Z", CqlType::SmallInt)];
    let fields = fields.map(|(name, field_type)| UdtField { name: name.to_owned(), field_type });
    CqlType::udt(UserType {
        keyspace: KEYSPACE.to_owned(),
        name: "point".to_owned(),
        fields: fields.to_vec(),
    })
}

fn types_table() -> model::schema::TableBuilder {
    let simple = [
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::Varint,
    ];
    let mut table = TableSchema::builder(KEYSPACE, "types")
        .partition_key("p", CqlType::Uuid)
        .clustering("c", CqlType::BigInt)
        .static_column("st", CqlType::Double)
        .static_column("sl", CqlType::list(CqlType::Inet))
        .regular("tuple", CqlType::tuple([CqlType::Int, CqlType::Text, CqlType::BigInt]))
        .regular("fl", CqlType::list(CqlType::Int).freeze())
        .regular("fs", CqlType::set(CqlType::Text).freeze())
        .regular("fm", CqlType::map(CqlType::Int, CqlType::list(CqlType::Text)).freeze())
        .regular("fu", point().freeze())
        .regular("l", CqlType::list(CqlType::BigInt))
        .regular("s", CqlType::set(CqlType::TinyInt))
        .regular("sm", CqlType::set(CqlType::map(CqlType::Int, CqlType::Int).freeze()))
        .regular("m", CqlType::map(CqlType::TimeUuid, CqlType::Date))
        .regular("u", point());
    for ty in simple {
        table = table.regular(format!("c_{}", ty.to_cql()), ty);
    }
    table
}

fn keys_table() -> model::schema::TableBuilder {
    TableSchema::builder(KEYSPACE, "keys")
        .partition_key("a", CqlType::Int)
        .partition_key("B", CqlType::Text)
        .partition_key("c", CqlType::list(CqlType::Int).freeze())
        .clustering("d", CqlType::reversed(CqlType::TimeUuid))
        .clustering("e", CqlType::Varint)
        .clustering("f", CqlType::reversed(CqlType::Text))
        .clustering("g", CqlType::Date)
        .regular("v", CqlType::Boolean)
}

fn mutations(rng: &mut Rng, schema: &Arc<TableSchema>, generation: u64) -> Vec<Mutation> {
    let is_models = sample::tables().iter().any(|table| table.name == schema.name);
    if !is_models {
        return (0..60).map(|_| mutation(rng, schema)).collect();
    }
    // The second is wide enough to have promoted indexes.
    let variety = match generation {
        2 => Variety { rows: 400, value_bytes: 2000, partitions: 3, ..Variety::default() },
        _ => Variety { partitions: 300, ..Variety::default() },
    };
    (0..800).map(|_| sample::mutation(rng, schema, &variety)).collect()
}

fn mutation(rng: &mut Rng, schema: &Arc<TableSchema>) -> Mutation {
    // Few partitions, so that mutations meet.
    let mut keys = Rng::new(rng.below(12));
    let values: Vec<Vec<u8>> = schema.partition_key.iter().map(|c| value(&mut keys, &c.ty, true)).collect();
    let key = match &values[..] {
        [only] => only.clone(),
        all => build_composite(all.iter().map(Vec::as_slice)),
    };
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(key));
    if rng.chance(1, 20) {
        mutation.partition.tombstone = tombstone(rng);
    }
    if schema.has_static() && rng.chance(1, 2) {
        mutation.partition.static_row = row(rng, schema, ColumnKind::Static);
    }
    for _ in 0..rng.below(4) {
        let key = prefix(rng, schema, schema.clustering.len());
        let new = row(rng, schema, ColumnKind::Regular);
        mutation.row_mut(key).merge(&new, schema);
    }
    if rng.chance(1, 3) {
        let len = 1 + rng.index(schema.clustering.len());
        let (from, to) = (prefix(rng, schema, len), prefix(rng, schema, len));
        let mut bound = |prefix| match rng.below(2) {
            0 => Position::before(prefix),
            _ => Position::after(prefix),
        };
        let (start, end) = (bound(from), bound(to));
        mutation.delete_range(ClusteringRange { start, end }, tombstone(rng));
    }
    mutation
}

fn prefix(rng: &mut Rng, schema: &TableSchema, len: usize) -> ClusteringPrefix {
    let mut few = Rng::new(rng.below(8));
    let values: Vec<Vec<u8>> =
        schema.clustering[..len].iter().map(|column| value(&mut few, &column.ty, true)).collect();
    ClusteringPrefix::new(values.iter().map(Vec::as_slice))
}

fn timestamp(rng: &mut Rng) -> i64 {
    NOW_US + rng.below(5) as i64
}

fn tombstone(rng: &mut Rng) -> Tombstone {
    Tombstone::new(timestamp(rng), NOW_S - rng.below(3) as u32)
}

fn row(rng: &mut Rng, schema: &TableSchema, kind: ColumnKind) -> Row {
    let mut row = Row::new();
    if kind == ColumnKind::Regular {
        if rng.chance(1, 10) {
            row.deletion = tombstone(rng);
        }
        row.liveness = match rng.below(4) {
            0 => Liveness::NONE,
            1 => Liveness::expiring(timestamp(rng), 100, NOW_S),
            _ => Liveness::new(timestamp(rng)),
        };
    }
    // Sometimes few columns, sometimes most.
    let of_ten = rng.below(11);
    for column in schema.columns_of(kind) {
        if rng.below(10) >= of_ten {
            continue;
        }
        if column.is_complex() {
            complex(rng, schema, column, &mut row);
        } else {
            let cell = cell(rng, &column.ty);
            row.set(column, cell);
        }
    }
    row.shadow(Tombstone::LIVE);
    row
}

fn complex(rng: &mut Rng, schema: &TableSchema, column: &Column, row: &mut Row) {
    if rng.chance(1, 3) {
        row.delete_elements(column, Tombstone::new(NOW_US - 1, NOW_S));
    }
    for _ in 0..rng.below(4) {
        let path = match (&column.ty, column.ty.cell_path_type()) {
            (CqlType::Udt { user, .. }, _) => (rng.index(user.fields.len()) as u16).to_be_bytes().to_vec(),
            (_, Some(ty)) => value(rng, ty, true),
            (_, None) => unreachable!("a complex column has paths"),
        };
        let ty = column.ty.cell_value_type(&path).expect("the path is one of the type");
        let cell = cell(rng, ty);
        row.set_element(schema, column, path, cell);
    }
}

fn cell(rng: &mut Rng, ty: &CqlType) -> Cell {
    let timestamp_us = timestamp(rng);
    match rng.below(8) {
        0 => Cell::tombstone(timestamp_us, NOW_S - rng.below(3) as u32),
        1 => Cell::expiring(timestamp_us, 100, NOW_S, value(rng, ty, false)),
        2 => Cell::expiring(timestamp_us, 1 + rng.below(1000) as u32, NOW_S, value(rng, ty, false)),
        _ => Cell::live(timestamp_us, value(rng, ty, false)),
    }
}

/// A random value. `in_key`: one that may stand in a key, so with bytes.
fn value(rng: &mut Rng, ty: &CqlType, in_key: bool) -> Vec<u8> {
    let bits = rng.next_u64();
    let simple = |value: CqlValue| value.encode(ty.without_reversed()).expect("a value of the type");
    match ty.without_reversed() {
        CqlType::Empty => vec![],
        CqlType::Ascii | CqlType::Text => {
            let len = u64::from(in_key) + rng.below(30);
            (0..len).map(|_| b'a' + rng.below(26) as u8).collect()
        }
        CqlType::Blob => (0..rng.below(60)).map(|_| rng.below(256) as u8).collect(),
        CqlType::Boolean => vec![(bits & 1) as u8],
        CqlType::TinyInt => vec![bits as u8],
        CqlType::SmallInt => (bits as u16).to_be_bytes().to_vec(),
        CqlType::Int | CqlType::Date => (bits as u32).to_be_bytes().to_vec(),
        CqlType::BigInt => bits.to_be_bytes().to_vec(),
        CqlType::Timestamp => ((bits % (1 << 42)) as i64).to_be_bytes().to_vec(),
        CqlType::Time => ((bits % 86_400_000_000_000) as i64).to_be_bytes().to_vec(),
        CqlType::Float => simple(CqlValue::Float((bits % 1000) as f32 / 8.0)),
        CqlType::Double => simple(CqlValue::Double((bits % 1000) as f64 / 8.0)),
        CqlType::Varint => shortest(bits as i64 >> (bits % 64)),
        CqlType::Decimal => {
            let scale = (bits % 7) as i32;
            [&scale.to_be_bytes()[..], &shortest(bits as i64 >> (bits % 64))].concat()
        }
        CqlType::Duration => {
            Duration { months: 3, days: (bits % 50) as i32, nanoseconds: (bits % (1 << 40)) as i64 }
                .to_bytes()
        }
        CqlType::Inet if bits & 1 == 0 => (bits as u32).to_be_bytes().to_vec(),
        CqlType::Inet => simple(CqlValue::Inet(Ipv6Addr::from_bits(u128::from(bits)).into())),
        CqlType::Uuid => uuid(rng, 4),
        CqlType::TimeUuid => uuid(rng, 1),
        CqlType::List { element, .. } => {
            let mut list = CollectionBuilder::new();
            (0..rng.below(4)).for_each(|_| list.push(&value(rng, element, in_key)));
            list.finish()
        }
        CqlType::Set { element, .. } => {
            let mut set = CollectionBuilder::new();
            keys(rng, element).iter().for_each(|element| set.push(element));
            set.finish()
        }
        CqlType::Map { entry, .. } => {
            let mut map = CollectionBuilder::new();
            for key in keys(rng, &entry.0) {
                map.push(&key);
                map.push(&value(rng, &entry.1, true));
            }
            map.finish_map()
        }
        CqlType::Tuple(fields) => fields_of(rng, fields.iter()),
        CqlType::Udt { user, .. } => fields_of(rng, user.fields.iter().map(|field| &field.field_type)),
        other => panic!("no table here has {other:?}"),
    }
}

fn fields_of<'a>(rng: &mut Rng, types: impl Iterator<Item = &'a CqlType>) -> Vec<u8> {
    let fields: Vec<_> = types.map(|ty| (!rng.chance(1, 4)).then(|| value(rng, ty, true))).collect();
    build_tuple(fields.iter().map(Option::as_deref))
}

/// Rising and different.
fn keys(rng: &mut Rng, ty: &CqlType) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..rng.below(4)).map(|_| value(rng, ty, true)).collect();
    keys.sort_by(|a, b| ty.compare(a, b));
    keys.dedup();
    keys
}

/// Two's complement without bytes that say nothing, as Java writes a `BigInteger`.
fn shortest(number: i64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let is_surplus = |at: &usize| {
        let sign = if number < 0 { 0xff } else { 0 };
        bytes[*at] == sign && (bytes[*at + 1] ^ sign) & 0x80 == 0
    };
    let surplus = (0..7).take_while(is_surplus).count();
    bytes[surplus..].to_vec()
}

fn uuid(rng: &mut Rng, version: u8) -> Vec<u8> {
    let mut uuid = [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// What creates the table in Cassandra.
fn create_table(schema: &TableSchema) -> String {
    let quoted = |name: &str| {
        let mut out = String::new();
        push_identifier(&mut out, name);
        out
    };
    let mut columns = vec![];
    for key in schema.partition_key.iter().chain(&schema.clustering) {
        columns.push(format!("{} {}", quoted(&key.name), key.ty.to_cql()));
    }
    for column in schema.columns() {
        let kind = if column.kind == ColumnKind::Static { " static" } else { "" };
        columns.push(format!("{} {}{kind}", quoted(&column.name), column.ty.to_cql()));
    }
    let names = |keys: &[model::KeyColumn]| keys.iter().map(|key| quoted(&key.name)).collect::<Vec<_>>();
    let mut key = vec![format!("({})", names(&schema.partition_key).join(", "))];
    key.extend(names(&schema.clustering));
    columns.push(format!("PRIMARY KEY ({})", key.join(", ")));
    let mut out = format!(
        "CREATE TABLE {}.{} ({})\n  WITH ID = {}",
        quoted(&schema.keyspace),
        quoted(&schema.name),
        columns.join(", "),
        schema.id
    );
    if !schema.clustering.is_empty() {
        let order = schema.clustering.iter().map(|key| {
            let order = if key.ty.is_reversed() { "DESC" } else { "ASC" };
            format!("{} {order}", quoted(&key.name))
        });
        let order = order.collect::<Vec<_>>().join(", ");
        write!(out, " AND CLUSTERING ORDER BY ({order})").expect("a string takes everything");
    }
    out + ";\n"
}

fn schema_cql() -> String {
    let mut out = format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};\n\
         CREATE TYPE {KEYSPACE}.point (x int, y text, \"Z\" smallint);\n"
    );
    tables().iter().for_each(|table| out.push_str(&create_table(table)));
    out
}

async fn write_case(shard: Shard, root: PathBuf, seed: u64) {
    let files = shard.files();
    for Case { schema, generation, version, compression, bases, mutations } in cases(seed) {
        let table = TableDirectory { table: schema.name.clone(), table_id: *schema.id.as_bytes() };
        let dir = root.join("data").join(&schema.keyspace).join(table.to_string());
        files.create_dir_all(&dir).await.unwrap_or_else(|error| panic!("{error}"));
        let source = MemorySource::new(&mutations);
        let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
        let mut reader = source.reader(&spec);
        let options = WriteOptions {
            compression,
            delta_bases: bases,
            host_id: Some([7; 16]),
            ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
        };
        let name = SstableName::big(version, Generation::Number(generation));
        let written = write_reader(files, &dir, name, schema.clone(), options, &mut *reader, &shard).await;
        match written {
            Ok(Some(written)) => println!(
                "{} {name}: {} partitions, {} rows, {} bytes",
                schema.full_name(),
                written.partitions,
                written.rows,
                written.total_bytes
            ),
            Ok(None) => panic!("{} {name}: nothing to write", schema.full_name()),
            Err(error) => panic!("{error}"),
        }
    }
    let path = root.join("schema.cql");
    let written = files.write_all(&path, schema_cql().as_bytes(), IoClass::Maintenance).await;
    written.unwrap_or_else(|error| panic!("{error}"));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (root, seed) = match &arguments[..] {
        [root] => (root, 1),
        [root, seed] => (root, seed.parse().unwrap_or_else(|_| panic!("seed {seed:?} is not a number"))),
        _ => panic!("usage: peer_case DIR [SEED]; DIR is made"),
    };
    let root = Path::new(root).to_owned();
    let runtime = Runtime::start(RuntimeOptions::default(), |_shard| async {});
    let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
    let call = move |shard: Shard| write_case(shard, root, seed);
    let done = runtime.remote().call(0, CpuGroup::Memtable, call).wait();
    done.unwrap_or_else(|error| panic!("{error:?}"));
    runtime.shutdown().unwrap_or_else(|error| panic!("{error}"));
}
