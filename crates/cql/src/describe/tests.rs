//! DESCRIBE: its answers, and that executing them creates the same schema.

use std::net::{IpAddr, Ipv4Addr};

use base::rng::Rng;
use catalog::{Catalog, Keyspace, Table};
use model::{ColumnKind, CqlType};
use protocol::CqlError;
use syntax::ast::Statement;
use syntax::{parse, split_statements};
use uuid::Uuid;

use super::describe;
use crate::RowSet;
use crate::schema::tests::{OPTIONS, Session};
use crate::system::NodeInfo;

fn info() -> NodeInfo {
    NodeInfo::new(Uuid::from_u128(7), IpAddr::V4(Ipv4Addr::LOCALHOST), 9042)
}

fn try_describe(catalog: &Catalog, in_use: Option<&str>, text: &str) -> Result<RowSet, CqlError> {
    match parse(text)?.statement {
        Statement::Describe(statement) => describe(&statement, in_use, catalog, &info()),
        other => panic!("{other:?}"),
    }
}

/// Returns the rows as text, with columns separated by `|`.
#[track_caller]
fn rows(catalog: &Catalog, in_use: Option<&str>, text: &str) -> Vec<String> {
    let set = try_describe(catalog, in_use, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let cell = |cell: &Option<Vec<u8>>| String::from_utf8(cell.clone().unwrap()).unwrap();
    set.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn session() -> Session {
    let mut session = Session::new();
    session.run("CREATE TYPE b (f int)");
    session.run("CREATE TYPE a (f frozen<b>)");
    session.run("CREATE TABLE \"T\" (p int PRIMARY KEY, v frozen<a>)");
    session
}

#[test]
fn names_are_listed() {
    let catalog = session().catalog;
    assert_eq!(
        rows(&catalog, None, "DESCRIBE KEYSPACES"),
        [
            "ks|keyspace|ks",
            "system|keyspace|system",
            "system_auth|keyspace|system_auth",
            "system_distributed|keyspace|system_distributed",
            "system_schema|keyspace|system_schema"
        ]
    );
    assert_eq!(rows(&catalog, Some("ks"), "DESCRIBE TABLES"), ["ks|table|\"T\""]);
    assert_eq!(rows(&catalog, Some("ks"), "DESC TYPES"), ["ks|type|a", "ks|type|b"]);
    assert!(rows(&catalog, None, "DESCRIBE TABLES").contains(&"system_schema|table|tables".to_string()));
    assert!(rows(&catalog, None, "DESCRIBE FUNCTIONS").is_empty());
    let set = try_describe(&catalog, None, "DESCRIBE KEYSPACES").unwrap();
    let names: Vec<_> = set.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["keyspace_name", "type", "name"]);
}

#[test]
fn a_keyspace_is_described_in_an_order_that_can_be_run() {
    let catalog = session().catalog;
    let all = rows(&catalog, None, "DESCRIBE KEYSPACE ks");
    let begins = |row: &String, text: &str| assert!(row.starts_with(text), "{row}");
    assert_eq!(all.len(), 4);
    begins(&all[0], "ks|keyspace|ks|CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'");
    begins(&all[1], "ks|type|b|CREATE TYPE ks.b (");
    begins(&all[2], "ks|type|a|CREATE TYPE ks.a (");
    begins(
        &all[3],
        "ks|table|\"T\"|CREATE TABLE ks.\"T\" (\n    p int PRIMARY KEY,\n    v frozen<a>\n) WITH additional",
    );
    for same in ["DESCRIBE ks", "DESCRIBE SCHEMA", "DESCRIBE KEYSPACE"] {
        assert_eq!(rows(&catalog, Some("ks"), same), all, "{same}");
    }
    assert_eq!(rows(&catalog, None, "DESCRIBE ONLY KEYSPACE ks"), all[..1]);
    assert_eq!(rows(&catalog, Some("ks"), "DESCRIBE TABLE \"T\""), all[3..]);
    assert_eq!(rows(&catalog, None, "DESCRIBE ks.\"T\""), all[3..]);
    assert_eq!(rows(&catalog, None, "DESCRIBE TYPE ks.a"), all[2..3]);
    let with_id = rows(&catalog, None, "DESCRIBE TABLE ks.\"T\" WITH INTERNALS");
    assert!(with_id[0].contains(") WITH ID = 00000000-0000-0000-0000-000000000003\n"), "{with_id:?}");
    assert!(rows(&catalog, None, "DESCRIBE FULL SCHEMA").len() > all.len() + 10);
}

#[test]
fn a_cluster_is_described() {
    let catalog = session().catalog;
    assert_eq!(rows(&catalog, None, "DESCRIBE CLUSTER"), ["Messina Cluster|Murmur3Partitioner|SimpleSnitch"]);
    let set = try_describe(&catalog, Some("ks"), "DESCRIBE CLUSTER").unwrap();
    let ownership = set.columns.last().unwrap();
    assert_eq!(ownership.name, "range_ownership");
    let value = set.rows[0][3].as_deref().unwrap();
    assert_eq!(ownership.column_type.text_of(value), "{'0': ['127.0.0.1:7000']}");
    assert_eq!(try_describe(&catalog, Some("system"), "DESCRIBE CLUSTER").unwrap().columns.len(), 3);
    assert_eq!(set.result_rows().count(), 1);
}

#[test]
fn missing_names_have_cassandras_errors() {
    let catalog = session().catalog;
    for (in_use, text, expect) in [
        (None, "DESCRIBE KEYSPACE no", "'no' not found in keyspaces"),
        (None, "DESCRIBE KEYSPACE", "No keyspace specified and no current keyspace"),
        (None, "DESCRIBE TABLE t", "No keyspace specified and no current keyspace"),
        (Some("ks"), "DESCRIBE TABLE t", "Table 't' not found in keyspace 'ks'"),
        (Some("ks"), "DESCRIBE TYPE t", "User defined type 't' not found in 'ks'"),
        (Some("ks"), "DESCRIBE t", "'t' not found in keyspace 'ks'"),
        (None, "DESCRIBE t", "'t' not found in keyspaces"),
        (Some("no"), "DESCRIBE TABLES", "'no' not found in keyspaces"),
        (Some("ks"), "DESCRIBE INDEX i", "Table for existing index 'i' not found in 'ks'"),
        (Some("ks"), "DESCRIBE MATERIALIZED VIEW v", "Materialized view 'v' not found in 'ks'"),
        (Some("ks"), "DESCRIBE FUNCTION f", "User defined function 'f' not found in 'ks'"),
    ] {
        let error = try_describe(&catalog, in_use, text).unwrap_err();
        assert_eq!(error, CqlError::Invalid(expect.to_string()), "{text}");
    }
}

const TYPES: [&str; 12] = [
    "int",
    "text",
    "list<int>",
    "set<frozen<t1>>",
    "map<text, frozen<list<int>>>",
    "frozen<map<text, list<frozen<\"T 2\">>>>",
    "frozen<t1>",
    "\"T 2\"",
    "frozen<tuple<int, t1>>",
    "vector<float, 3>",
    "duration",
    "timeuuid",
];
const KEY_TYPES: [&str; 5] = ["int", "text", "frozen<list<int>>", "frozen<t1>", "timeuuid"];
const COLUMNS: [&str; 5] = ["c", "d", "\"Mixed\"", "\"it's\"", "\"select\""];

fn create_table(rng: &mut Rng) -> String {
    let clustering: Vec<String> = (0..rng.below(3)).map(|i| format!("k{i}")).collect();
    let mut columns = vec![format!("p0 {}", rng.pick(&KEY_TYPES)), format!("p1 {}", rng.pick(&KEY_TYPES))];
    columns.extend(clustering.iter().map(|name| format!("{name} {}", rng.pick(&KEY_TYPES))));
    let is_counter = rng.chance(1, 6);
    for name in COLUMNS {
        if rng.chance(1, 2) {
            continue;
        }
        let ty = if is_counter { "counter" } else { rng.pick(&TYPES) };
        let suffix = if !clustering.is_empty() && rng.chance(1, 4) { " STATIC" } else { "" };
        columns.push(format!("{name} {ty}{suffix}"));
    }
    let key = ["(p0, p1)".to_string()].into_iter().chain(clustering.clone()).collect::<Vec<_>>().join(", ");
    let mut text = format!("CREATE TABLE t{} ({}, PRIMARY KEY ({key}))", rng.below(4), columns.join(", "));
    let mut with = vec![rng.pick(OPTIONS).0.to_string()];
    if !clustering.is_empty() && rng.chance(1, 2) {
        let orders: Vec<_> =
            clustering.iter().map(|name| format!("{name} {}", rng.pick(&["ASC", "DESC"]))).collect();
        with.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    text.push_str(&format!(" WITH {}", with.join(" AND ")));
    text
}

fn statement(rng: &mut Rng) -> String {
    let table = format!("t{}", rng.below(4));
    match rng.below(10) {
        0..=3 => create_table(rng),
        4 => format!("ALTER TABLE {table} ADD {} {}", rng.pick(&COLUMNS), rng.pick(&TYPES)),
        5 | 6 => {
            let timestamp = rng.below(1000);
            format!("ALTER TABLE {table} DROP {} USING TIMESTAMP {timestamp}", rng.pick(&COLUMNS))
        }
        7 => format!("ALTER TABLE {table} WITH {}", rng.pick(OPTIONS).0),
        8 => format!("ALTER TYPE t1 ADD f{} {}", rng.below(3), rng.pick(&["int", "frozen<list<text>>"])),
        _ => format!("DROP TABLE {table}"),
    }
}

/// Returns the definition that must be restored: everything except column ids.
fn definition(table: &Table) -> impl PartialEq + std::fmt::Debug + use<> {
    let schema = &table.schema;
    let columns: Vec<(String, CqlType, ColumnKind)> =
        schema.columns().iter().map(|c| (c.name.clone(), c.ty.clone(), c.kind)).collect();
    let keys = (schema.partition_key.clone(), schema.clustering.clone());
    let mut dropped = schema.dropped.clone();
    dropped.iter_mut().for_each(|column| column.id = None);
    (schema.id, keys, columns, dropped, schema.options.clone(), table.settings.clone())
}

#[test]
fn a_schema_makes_itself_again() {
    let (mut tables, mut dropped, mut refused) = (0, 0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut session = Session::new();
        session.run("CREATE TYPE \"T 2\" (\"A b\" int, g text)");
        session.run("CREATE TYPE t1 (n frozen<\"T 2\">, l frozen<list<int>>)");
        for _ in 0..30 {
            // Statements that are refused are skipped. The others create schemas of all kinds.
            refused += u32::from(session.try_run(&statement(&mut rng)).is_err());
        }
        let script = rows(&session.catalog, None, "DESCRIBE SCHEMA WITH INTERNALS");
        let script: Vec<&str> = script.iter().map(|row| row.splitn(4, '|').last().unwrap()).collect();
        let script = script.join("\n");
        let mut again = Session { catalog: Catalog::empty().with_system_tables(), tables: 1 << 20 };
        for statement in split_statements(&script) {
            assert!(statement.is_terminated);
            if let Err(error) = again.try_run(statement.text) {
                panic!("seed {seed}: {}\n{error}", statement.text);
            }
        }
        let tables_of = |session: &Session| {
            session.catalog.tables("ks").map(|table| definition(table)).collect::<Vec<_>>()
        };
        assert_eq!(tables_of(&again), tables_of(&session), "seed {seed}\n{script}");
        let types = |session: &Session| session.catalog.types("ks").cloned().collect::<Vec<_>>();
        assert_eq!(types(&again), types(&session));
        let keyspace = |session: &Session| session.catalog.keyspace("ks").cloned();
        assert_eq!(keyspace(&again), keyspace(&session));
        // Each table is created alone, in a catalog without the others, as with the `schema.cql` of a
        // snapshot.
        for table in session.catalog.tables("ks") {
            let text = catalog::recreate_table(&session.catalog, table);
            let mut alone = Session { catalog: Catalog::empty().with_system_tables(), tables: 1 << 20 };
            for statement in split_statements(&text) {
                assert!(statement.is_terminated);
                if let Err(error) = alone.try_run(statement.text) {
                    panic!("seed {seed}: {}\n{error}", statement.text);
                }
            }
            let made = alone.catalog.table_by_id(table.schema.id).expect("it has its id again");
            assert_eq!(definition(made), definition(table), "seed {seed}\n{text}");
        }
        tables += session.catalog.tables("ks").count();
        dropped += session.catalog.tables("ks").filter(|table| !table.schema.dropped.is_empty()).count();
    }
    assert!(tables > 300 && dropped > 50 && refused < 5000, "{tables} {dropped} {refused}");
}

#[test]
fn a_keyspace_keeps_its_options() {
    let keyspace = Keyspace::simple("x").unwrap();
    let others = [("tablets".to_string(), "{'enabled': 'false'}".to_string())].into();
    let (catalog, _) = Catalog::empty().create_keyspace(Keyspace { others, ..keyspace }).unwrap();
    let row = rows(&catalog, None, "DESCRIBE KEYSPACE x");
    assert!(row[0].ends_with("  AND durable_writes = true AND tablets = {'enabled': 'false'};"), "{row:?}");
    let mut again = Session::new();
    again.run(row[0].splitn(4, '|').last().unwrap());
    assert_eq!(again.catalog.keyspace("x"), catalog.keyspace("x"));
}
