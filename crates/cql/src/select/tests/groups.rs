//! GROUP BY: the groups are the same for all page sizes of clients and of storage, and invalid statements are
//! refused.

use super::statements::{check_refused, storage};
use super::*;

/// Checks the groups with pages of different sizes.
#[track_caller]
fn check(storage: &MemoryCoordinator, text: &str, expected: &[&str]) {
    let plan = plan(storage, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for (page_rows_max, one_in) in [(1, 0), (2, 0), (3, 0), (u64::MAX, 0), (u64::MAX, 1), (u64::MAX, 3)] {
        storage.set_page_rows_max(page_rows_max);
        storage.set_early_ends(7, one_in);
        for page_rows in [None, Some(1), Some(2), Some(3), Some(100)] {
            let rows =
                pages(storage, &plan, &[], page_rows).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(table_text(&plan, &rows), expected, "{text}, pages of {page_rows:?}, {page_rows_max}");
        }
    }
    storage.set_page_rows_max(u64::MAX);
    storage.set_early_ends(0, 0);
}

/// A table whose partitions come in the order of their keys' tokens.
fn times() -> MemoryCoordinator {
    let table = TableSchema::builder("ks", "times")
        .partition_key("k", CqlType::Int)
        .clustering("a", CqlType::Int)
        .clustering("b", CqlType::Varint)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
        .expect("a table");
    let storage = MemoryCoordinator::new(std::slice::from_ref(&table));
    for k in 1..=3i32 {
        let key = PartitionKey::new(&k.to_be_bytes()[..]);
        write_row(&storage, &table, &key, None, &[("s", "5")]);
        // Partition 2 has only static content.
        for (a, b, v) in [(1i32, 1u8, "1"), (1, 2, "2"), (2, 1, "3"), (2, 2, "4"), (2, 3, "5"), (3, 1, "6")] {
            if k != 2 {
                write_row(&storage, &table, &key, Some(&[&a.to_be_bytes(), &[b]]), &[("v", v)]);
            }
        }
    }
    storage
}

#[test]
fn rows_with_the_same_first_columns_are_one() {
    let storage = times();
    let check = |text: &str, expected: &[&str]| check(&storage, text, expected);
    check(
        "SELECT k, a, count(*), sum(v) FROM ks.times WHERE k = 1 GROUP BY k, a",
        &["1|1|2|3", "1|2|3|12", "1|3|1|6"],
    );
    check("SELECT a, b, v FROM ks.times WHERE k = 1 GROUP BY a", &["1|1|1", "2|1|3", "3|1|6"]);
    check(
        "SELECT a, b, v FROM ks.times WHERE k = 1 GROUP BY k, a ORDER BY a DESC",
        &["3|1|6", "2|3|5", "1|2|2"],
    );
    check("SELECT k, max(v), count(v), count(*) FROM ks.times GROUP BY k", &["1|6|6|6", "2||0|1", "3|6|6|6"]);
    check(
        "SELECT k, a, max(v) FROM ks.times GROUP BY k, a LIMIT 5",
        &["1|1|2", "1|2|5", "1|3|6", "2||", "3|1|2"],
    );
    check(
        "SELECT k, a, max(v) FROM ks.times GROUP BY k, a PER PARTITION LIMIT 2",
        &["1|1|2", "1|2|5", "2||", "3|1|2", "3|2|5"],
    );
    check(
        "SELECT k, a, max(v) FROM ks.times GROUP BY k, a PER PARTITION LIMIT 2 LIMIT 4",
        &["1|1|2", "1|2|5", "2||", "3|1|2"],
    );
    check("SELECT DISTINCT k, s, count(s) FROM ks.times GROUP BY k", &["1|5|1", "2|5|1", "3|5|1"]);
    check(
        "SELECT a, count(*) FROM ks.times WHERE b = 1 GROUP BY k, a ALLOW FILTERING",
        &["1|1", "2|1", "3|1", "1|1", "2|1", "3|1"],
    );
    check("SELECT b, count(*) FROM ks.times WHERE k = 3 AND a = 2 GROUP BY b", &["1|1", "2|1", "3|1"]);
    check("SELECT b, count(*) FROM ks.times WHERE k IN (3, 1) AND a = 2 GROUP BY k, a LIMIT 1", &["1|3"]);
    check("SELECT a FROM ks.times WHERE k = 7 GROUP BY a", &[]);
    check("SELECT count(*) FROM ks.times WHERE k = 7 GROUP BY a", &[]);
    check("SELECT count(*) FROM ks.times WHERE k = 1 AND a IN () GROUP BY a", &[]);
    check("SELECT a, sum(v) FROM ks.times WHERE k = 1 AND a IN (1, 3) GROUP BY a", &["1|3", "3|6"]);
}

#[test]
fn a_function_makes_groups_of_the_last_column() {
    let storage = times();
    check(
        &storage,
        "SELECT a, b, sum(v) FROM ks.times WHERE k = 1 GROUP BY k, a, blobAsBigint(bigintAsBlob(CAST(b AS bigint)))",
        &["1|1|1", "1|2|2", "2|1|3", "2|2|4", "2|3|5", "3|1|6"],
    );
    check(&storage, "SELECT a, sum(v) FROM ks.times WHERE k = 1 GROUP BY k, log10(a)", &["1|21"]);
}

#[test]
fn groups_of_several_partitions_are_sorted_as_rows_are() {
    let storage = times();
    let text = "SELECT k, a, sum(v) FROM ks.times WHERE k IN (1, 3) GROUP BY k, a ORDER BY a DESC";
    let plan = plan(&storage, text).expect(text);
    let rows = pages(&storage, &plan, &[], None).expect(text);
    assert_eq!(table_text(&plan, &rows), ["1|3|6", "3|3|6", "1|2|12", "3|2|12", "1|1|3", "3|1|3"]);
    let text = "SELECT k, a, sum(v) FROM ks.times WHERE k IN (1, 3) GROUP BY k, a ORDER BY a PER PARTITION LIMIT 2 LIMIT 3";
    let plan = super::plan(&storage, text).expect(text);
    let rows = pages(&storage, &plan, &[], None).expect(text);
    assert_eq!(table_text(&plan, &rows), ["1|1|3", "3|1|3", "1|2|12"]);
}

#[test]
fn rows_of_many_partitions_put_together_are_a_warning() {
    let storage = times();
    for (text, warning) in [
        ("SELECT count(*) FROM ks.times", Some("Aggregation query used without partition key")),
        ("SELECT k FROM ks.times GROUP BY k", Some("Aggregation query used without partition key")),
        (
            "SELECT max(v) FROM ks.times WHERE k IN (1, 2)",
            Some("Aggregation query used on multiple partition keys (IN restriction)"),
        ),
        ("SELECT max(v) FROM ks.times WHERE k = 1", None),
        ("SELECT v FROM ks.times", None),
    ] {
        assert_eq!(plan(&storage, text).expect(text).warning(), warning, "{text}");
    }
}

#[test]
fn groups_follow_the_primary_key() {
    let storage = storage();
    let refused = |text: &str, expected: &str| check_refused(&storage, text, &[], expected);
    let order =
        "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";
    refused("SELECT c FROM ks.wide GROUP BY c", order);
    refused("SELECT c FROM ks.wide GROUP BY k, d", order);
    refused("SELECT c FROM ks.wide GROUP BY k, c, c", order);
    refused("SELECT c FROM ks.wide WHERE k IN (1, 2) GROUP BY c", order);
    refused(
        "SELECT a FROM ks.pair GROUP BY a",
        "Group by is not supported on only a part of the partition key",
    );
    refused(
        "SELECT v FROM ks.wide GROUP BY k, v",
        "Group by is currently only supported on the columns of the PRIMARY KEY, got v",
    );
    refused(
        "SELECT DISTINCT k FROM ks.wide GROUP BY k, c",
        "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
    );
    refused(
        "SELECT c FROM ks.wide GROUP BY k, max(c)",
        "Aggregate functions are not supported within the GROUP BY clause, got: max",
    );
    refused(
        "SELECT c FROM ks.wide GROUP BY k, abs(c), d",
        "Functions are only supported on the last element of the GROUP BY clause",
    );
    refused(
        "SELECT c FROM ks.wide GROUP BY abs(k)",
        "Group by functions are only supported on clustering columns, got k",
    );
    refused("SELECT c FROM ks.wide GROUP BY nope", "Undefined column name nope in table ks.wide");
}

/// The types that Cassandra 5.0 reports to clients. Some functions keep the type counter, others do not.
#[test]
fn functions_of_counters_are_typed() {
    let table = TableSchema::builder("ks", "hits")
        .partition_key("k", CqlType::Int)
        .regular("n", CqlType::Counter)
        .build()
        .expect("a table");
    let storage = MemoryCoordinator::new(&[table]);
    for (selector, ty) in [
        ("n", CqlType::Counter),
        ("sum(n)", CqlType::Counter),
        ("min(n)", CqlType::Counter),
        ("max(n)", CqlType::Counter),
        ("avg(n)", CqlType::Counter),
        ("count(n)", CqlType::BigInt),
        ("count(*)", CqlType::BigInt),
        ("-n", CqlType::Counter),
        ("abs(n)", CqlType::Counter),
        ("round(n)", CqlType::Counter),
        ("log10(n)", CqlType::Counter),
        ("n + 1", CqlType::BigInt),
        ("n / 2.5", CqlType::Double),
        ("CAST(n AS int)", CqlType::Int),
        ("CAST(sum(n) AS text)", CqlType::Text),
    ] {
        let plan = plan(&storage, &format!("SELECT {selector} FROM ks.hits")).expect(selector);
        assert_eq!(plan.columns()[0].column_type, ty, "{selector}");
    }
    // Without rows, the results are zero, zero and null.
    let plan = plan(&storage, "SELECT JSON sum(n), avg(n), min(n) FROM ks.hits").expect("a plan");
    let rows = pages(&storage, &plan, &[], None).expect("rows");
    let json = r#"{"system.sum(n)": 0, "system.avg(n)": 0, "system.min(n)": null}"#;
    assert_eq!(table_text(&plan, &rows), [json]);
}
