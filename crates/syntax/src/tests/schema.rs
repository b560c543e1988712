//! Tests of statements on keyspaces, tables and types, and of unsupported statements.

use crate::ast::{AlterTableOp, CreateTable, LiteralKind, PropertyValue, Statement};

use super::{check, same, statement};
use crate::parse;

#[test]
fn keyspaces() {
    same(
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = true",
    );
    same("ALTER KEYSPACE IF EXISTS ks WITH replication = {}");
    same("DROP KEYSPACE IF EXISTS \"Ks\"");
    check(
        "create schema ks with REPLICATION = {'a':'b'}",
        "CREATE KEYSPACE ks WITH replication = {'a': 'b'}",
    );
}

#[track_caller]
fn table(text: &str) -> CreateTable {
    let Statement::CreateTable(table) = statement(text) else { panic!("{text}") };
    *table
}

#[test]
fn tables() {
    same(
        "CREATE TABLE IF NOT EXISTS ks.t (a int, b text STATIC, c frozen<u>, PRIMARY KEY ((a, b), c)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'x' AND id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
    );
    check("CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATE TABLE t (k int, v int, PRIMARY KEY ((k)))");
    check("CREATE TABLE t (k int, PRIMARY KEY (k),)", "CREATE TABLE t (k int, PRIMARY KEY ((k)))");
    let found = table(
        "CREATE TABLE t (a int, b int, PRIMARY KEY (a, b)) WITH caching = all AND gc_grace_seconds = -1",
    );
    assert_eq!(found.primary_keys[0].partition[0].text, "a");
    assert_eq!(found.primary_keys[0].clustering[0].text, "b");
    assert!(matches!(&found.with.properties[0].value, PropertyValue::Word(word) if word.text == "all"));
    assert!(
        matches!(&found.with.properties[1].value, PropertyValue::Literal(value) if value.text == "-1" && value.kind == LiteralKind::Integer)
    );
    assert_eq!(
        table("CREATE TABLE t (a int PRIMARY KEY, b int PRIMARY KEY, PRIMARY KEY (a))").primary_keys.len(),
        3
    );
    assert!(table("CREATE TABLE t (a int)").primary_keys.is_empty());
    let masked =
        table("CREATE TABLE t (a int STATIC MASKED WITH f('x', 1) PRIMARY KEY, b int MASKED WITH DEFAULT)");
    let masks: Vec<String> =
        masked.columns.iter().map(|column| column.mask.as_ref().unwrap().to_string()).collect();
    assert_eq!(masks, ["f('x', 1)", "mask_default()"]);
    assert!(masked.columns[0].is_static);
    same("ALTER TABLE t ALTER IF EXISTS a MASKED WITH system.mask_inner(1, null)");
    same("ALTER TABLE t ALTER a DROP MASKED");
    let bound = parse("CREATE TABLE t (k int PRIMARY KEY, v int MASKED WITH mask_replace(?))").unwrap_err();
    assert!(bound.to_string().contains("Bind variables cannot be used in column masks"), "{bound}");
}

#[test]
fn changes_of_tables() {
    let op = |text: &str| match statement(&format!("ALTER TABLE t {text}")) {
        Statement::AlterTable(alter) => alter.op,
        other => panic!("{other:?}"),
    };
    assert!(matches!(op("ADD a int STATIC"), AlterTableOp::Add { columns, .. } if columns[0].is_static));
    assert!(
        matches!(op("ADD IF NOT EXISTS (a int, b text)"), AlterTableOp::Add { columns, if_not_exists: true } if columns.len() == 2)
    );
    assert!(matches!(op("DROP a"), AlterTableOp::Drop { timestamp: None, if_exists: false, .. }));
    assert!(
        matches!(op("DROP IF EXISTS (a, b) USING TIMESTAMP 5"), AlterTableOp::Drop { timestamp: Some(_), if_exists: true, columns } if columns.len() == 2)
    );
    assert!(
        matches!(op("RENAME a TO b AND c TO d"), AlterTableOp::Rename { columns, .. } if columns.len() == 2)
    );
    assert!(matches!(op("ALTER a TYPE blob"), AlterTableOp::AlterType { .. }));
    assert!(matches!(op("DROP COMPACT STORAGE"), AlterTableOp::DropCompactStorage));
    assert!(matches!(op("ALTER a MASKED WITH DEFAULT"), AlterTableOp::Mask { .. }));
    assert!(matches!(op("DROP compact"), AlterTableOp::Drop { .. }));
    same("ALTER TABLE IF EXISTS ks.t WITH comment = '' AND compression = {'sstable_compression': ''}");
    same("DROP TABLE IF EXISTS ks.t");
}

#[test]
fn types() {
    same("CREATE TYPE IF NOT EXISTS ks.u (a int, b frozen<v>)");
    same("ALTER TYPE ks.u ADD IF NOT EXISTS c int");
    same("ALTER TYPE IF EXISTS u RENAME IF EXISTS a TO b AND c TO d");
    same("ALTER TYPE u ALTER a TYPE text");
    same("DROP TYPE IF EXISTS ks.u");
}

#[test]
fn indexes() {
    same("CREATE INDEX ON t (a)");
    same("CREATE INDEX IF NOT EXISTS ks.i ON ks.t (keys(m))");
    same("CREATE INDEX i ON t (values(m), entries(m), full(l))");
    same("CREATE CUSTOM INDEX ON t (a) USING 'sai' WITH options = {'case_sensitive': 'false'}");
    same("CREATE INDEX ON t ((p, q), c)");
    same("CREATE CUSTOM INDEX ON t () USING 'x'");
    same("DROP INDEX IF EXISTS ks.i");
    // Words of the syntax as names of columns and of the index.
    same("CREATE INDEX keys ON t (keys)");
    check("create custom index ON t (VALUES) using 'a'", "CREATE CUSTOM INDEX ON t (values) USING 'a'");
    let Statement::CreateIndex(found) = statement("CREATE INDEX ON t (keys(keys), \"full\", v)") else {
        panic!("not an index");
    };
    let parts: Vec<_> = found.targets.iter().map(ToString::to_string).collect();
    assert_eq!(parts, ["keys(keys)", "\"full\"", "v"]);
}

#[test]
fn functions_and_aggregates() {
    same("CREATE FUNCTION ks.f () CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'");
    same(
        "CREATE OR REPLACE FUNCTION f (a int, b frozen<list<text>>) RETURNS NULL ON NULL INPUT RETURNS \
         tuple<int, text> LANGUAGE lua AS 'return ''x'''",
    );
    same("CREATE FUNCTION IF NOT EXISTS f (\"A\" int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS ''");
    same("CREATE AGGREGATE IF NOT EXISTS ks.a (int, text) SFUNC f STYPE map<int, text>");
    same("CREATE OR REPLACE AGGREGATE a () SFUNC f STYPE int FINALFUNC \"G\" INITCOND -1");
    same("CREATE AGGREGATE a (int) SFUNC f STYPE tuple<int, int> INITCOND (0, null)");
    same("DROP FUNCTION IF EXISTS ks.f (int, set<text>)");
    same("DROP FUNCTION f");
    same("DROP FUNCTION f ()");
    same("DROP AGGREGATE ks.a (int)");
    let Statement::CreateFunction(found) = statement(
        "create function f (a int) called on null input returns int language LUA as $$ return 'a' $$",
    ) else {
        panic!("not a function");
    };
    assert_eq!((found.language.as_str(), found.body.as_str()), ("lua", " return 'a' "));
}

#[test]
fn what_is_not_supported_is_named() {
    let what = |text: &str| match statement(text) {
        Statement::Unsupported(unsupported) => unsupported.what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what("CREATE TRIGGER t ON u USING 'c';"), "CREATE TRIGGER");
    assert_eq!(what("LIST SUPERUSERS"), "LIST SUPERUSERS");
}
