//! A storage in memory with tables of many shapes and some rows, for statements and paging states.

use catalog::Catalog;
use cql::testing::MemoryCoordinator;
use cql::{Execution, Outcome, Prepared, Storage};
use model::types::{UdtField, UserType};
use model::{CqlType, Mutation, PartitionRange, TableSchema};
use protocol::CqlError;
use protocol::Values;
use reader::collect::collect_partitions;
use reader::{ReadSpec, Source, block_on_ready};

pub const KEYSPACE: &str = "ks";
const NOW_US: i64 = 1_700_000_000_000_000;

/// A statement that takes longer than this has too many rows to be of use here.
pub const RESULT_ROWS_MAX: u32 = 10_000;

const NATIVE: [(&str, CqlType); 20] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::BigInt),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::SmallInt),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::TimeUuid),
    ("tinyint", CqlType::TinyInt),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::Varint),
    ("vector", CqlType::Ascii),
];

fn point() -> CqlType {
    let field = |name: &str| UdtField { name: name.to_string(), field_type: CqlType::Int };
    let fields = vec![field("x"), field("y")];
    CqlType::udt(UserType { keyspace: KEYSPACE.into(), name: "point".into(), fields })
}

thread_local! {
    /// Preparing the rows takes longer than what is done with them.
    static MADE: (Catalog, Vec<Mutation>) = {
        let storage = make();
        let catalog = storage.catalog();
        let mut rows = vec![];
        for table in catalog.all_tables() {
            let schema = &table.schema;
            let source = storage.table(schema.id);
            let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
            let partitions = block_on_ready(collect_partitions(&mut *reader, schema, false)).expect("it is in memory");
            rows.extend(partitions.into_iter().map(|(key, partition)| {
                let mut mutation = Mutation::new(schema.clone(), key);
                mutation.partition = partition;
                mutation
            }));
        }
        (catalog, rows)
    };
}

/// Tables `wide` (two clustering columns, collections, a user type), `types` (a column of each type),
/// `pair`, `counts`.
pub fn storage() -> MemoryCoordinator {
    let storage = MemoryCoordinator::new(&[]);
    MADE.with(|(catalog, rows)| {
        storage.set_catalog(catalog.clone());
        rows.iter().for_each(|row| storage.write(row));
    });
    storage
}

fn make() -> MemoryCoordinator {
    let of = |name: &str| TableSchema::builder(KEYSPACE, name);
    let mut types = of("types").partition_key("k", CqlType::Int);
    for (name, ty) in NATIVE {
        let ty =
            if name == "vector" { CqlType::vector(CqlType::Float, 3).expect("a small vector") } else { ty };
        types = types.regular(name, ty);
    }
    let plain = [
        types,
        of("pair")
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .regular("v", CqlType::Double)
            .regular("t", CqlType::Timestamp),
        of("counts")
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Text)
            .regular("n", CqlType::Counter),
    ];
    let plain = plain.map(|table| table.build().expect("a table"));
    let wide = of("wide")
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int)
        .clustering("d", CqlType::reversed(CqlType::Int))
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Int)
        .regular("m", CqlType::map(CqlType::Text, CqlType::Int))
        .regular("l", CqlType::list(CqlType::Int))
        .regular("e", CqlType::set(CqlType::Int))
        .regular("t", CqlType::tuple([CqlType::Int, CqlType::Text]))
        .regular("u", point());
    let wide = wide.build().expect("a table");
    let storage = MemoryCoordinator::new(&plain);
    let CqlType::Udt { user, .. } = point() else { unreachable!("it is a user type") };
    let (catalog, _) = storage.catalog().create_type((*user).clone()).expect("a type");
    let (catalog, _) = catalog.create_table(wide, catalog::TableSettings::default()).expect("a table");
    storage.set_catalog(catalog);
    for k in 0..3 {
        for c in 0..4 {
            let text = format!(
                "INSERT INTO wide (k, c, d, s, v, m, l, e, t, u) VALUES ({k}, {c}, {}, 's{k}', {c}, {{'a': {c}}}, [1, {c}], \
                 {{{c}}}, ({c}, 't'), {{x: {k}, y: {c}}})",
                c % 2
            );
            run(&storage, &text, &Values::default(), None, None).expect("a row");
        }
        run(
            &storage,
            &format!("INSERT INTO pair (a, b, v) VALUES ({k}, 'b{k}', 1.5)"),
            &Values::default(),
            None,
            None,
        )
        .expect("a row");
    }
    storage
}

/// Prepares a statement and executes it.
///
/// # Errors
/// As the statement's.
pub fn run(
    storage: &MemoryCoordinator,
    text: &str,
    values: &Values<'_>,
    page_rows: Option<u32>,
    paging_state: Option<&[u8]>,
) -> Result<Outcome, CqlError> {
    let prepared = Prepared::new(&storage.catalog(), Some(KEYSPACE), text)?;
    let execution = Execution { now_us: NOW_US, timestamp_us: None, now_s: None, page_rows, paging_state };
    block_on_ready(prepared.execute(storage, values, &execution, &mut vec![]))
}
