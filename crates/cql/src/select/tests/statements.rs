//! Single statements: their results, and the error messages of refused statements.

use model::types::{UdtField, UserType};
use protocol::Value as Sent;

use super::*;
use crate::coordinator::ClientState;
use crate::limits::ResultLimits;

fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

fn point() -> CqlType {
    let field = |name: &str| UdtField { name: name.to_string(), field_type: CqlType::Int };
    CqlType::udt(UserType {
        keyspace: "ks".into(),
        name: "point".into(),
        fields: vec![field("x"), field("y")],
    })
}

fn tables() -> Vec<Arc<TableSchema>> {
    let of = |name: &str| TableSchema::builder("ks", name);
    [
        of("wide")
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int)
            .clustering("d", CqlType::reversed(CqlType::Int))
            .static_column("s", CqlType::Text)
            .regular("v", CqlType::Int)
            .regular("m", CqlType::map(CqlType::Text, CqlType::Int))
            .regular("l", CqlType::list(CqlType::Int))
            .regular("e", CqlType::set(CqlType::Int))
            .regular("u", point()),
        of("pair")
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .regular("v", CqlType::Int),
        of("one")
            .partition_key("k", CqlType::Text)
            .regular("v", CqlType::Double)
            .regular("t", CqlType::Timestamp),
    ]
    .map(|builder| builder.build().expect("a table"))
    .to_vec()
}

pub(super) fn storage() -> MemoryCoordinator {
    let tables = tables();
    // The schemas of the tables contain the types of their columns; the catalog needs the UDT as well.
    let storage = MemoryCoordinator::new(&tables[1..]);
    let wide = &tables[0];
    let catalog = {
        use crate::Storage;
        let CqlType::Udt { user, .. } = point() else { unreachable!("a UDT") };
        let catalog = storage.catalog().create_type((*user).clone()).expect("a type").0;
        catalog.create_table(wide.clone(), catalog::TableSettings::default()).expect("a table").0
    };
    storage.set_catalog(catalog);
    let key = |k: i32| PartitionKey::new(&int(k)[..]);
    for k in 1..=3 {
        for (c, d) in [(1, 1), (1, 2), (2, 1), (3, 5)] {
            let v = (100 * k + 10 * c + d).to_string();
            let row = [("v", v.as_str())];
            write_row(&storage, wide, &key(k), Some(&[&int(c), &int(d)]), &row);
        }
    }
    write_row(&storage, wide, &key(1), None, &[("s", "'one'")]);
    write_row(&storage, wide, &key(4), None, &[("s", "'four'")]);
    let rich = [("m", "{'a': 1, 'b': 2}"), ("l", "[3, 1, 3]"), ("e", "{5, 4}"), ("u", "{x: 7}")];
    write_row(&storage, wide, &key(5), Some(&[&int(1), &int(1)]), &rich);
    let pair = model::key::composite_key([&int(1)[..], b"x"]);
    write_row(&storage, &tables[1], &PartitionKey::new(pair.as_slice()), Some(&[]), &[("v", "9")]);
    for (k, v) in [("a", "1.5"), ("b", "2.5"), ("c", "-1")] {
        let row = [("v", v), ("t", "'2024-02-29 12:00:00+0000'")];
        write_row(&storage, &tables[2], &PartitionKey::new(k), Some(&[]), &row);
    }
    storage
}

#[track_caller]
fn check(storage: &MemoryCoordinator, text: &str, bound: &[Sent<'_>], expected: &[&str]) {
    let plan = plan(storage, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = pages(storage, &plan, bound, None).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(table_text(&plan, &rows), expected, "{text}");
}

#[track_caller]
pub(super) fn check_refused(storage: &MemoryCoordinator, text: &str, bound: &[Sent<'_>], expected: &str) {
    let found = plan(storage, text).and_then(|plan| pages(storage, &plan, bound, None));
    let error = found.expect_err(text);
    assert!(matches!(error, CqlError::Invalid(_)), "{text}: {error:?}");
    assert_eq!(error.to_string(), expected, "{text}");
}

#[test]
fn keys_slices_and_orders() {
    let storage = storage();
    let check = |text: &str, expected: &[&str]| check(&storage, text, &[], expected);
    check("SELECT c, d, v FROM ks.wide WHERE k = 1", &["1|2|112", "1|1|111", "2|1|121", "3|5|135"]);
    check("SELECT v FROM ks.wide WHERE k = 1 ORDER BY c DESC", &["135", "121", "111", "112"]);
    check("SELECT v FROM ks.wide WHERE k = 1 ORDER BY c ASC, d DESC LIMIT 2", &["112", "111"]);
    check("SELECT v FROM ks.wide WHERE k = 1 AND c = 1 ORDER BY d", &["111", "112"]);
    check("SELECT v FROM ks.wide WHERE k = 1 AND (c, d) > (1, 1)", &["112", "121", "135"]);
    check("SELECT v FROM ks.wide WHERE k = 1 AND (c, d) IN ((3, 5), (1, 1), (3, 5))", &["111", "135"]);
    check("SELECT v FROM ks.wide WHERE k = 1 AND c IN (3, 1) AND d < 2", &["111"]);
    check("SELECT v FROM ks.wide WHERE k IN (3, 1, 3) AND c = 2", &["121", "321"]);
    check("SELECT v FROM ks.wide WHERE k IN (3, 1) AND c = 2 ORDER BY c DESC LIMIT 1", &["121"]);
    check("SELECT v FROM ks.wide WHERE k IN (1, 2) PER PARTITION LIMIT 1", &["112", "212"]);
    check("SELECT v FROM ks.wide WHERE k = 1 AND c IN ()", &[]);
    // If a column is named twice, the last direction applies.
    check("SELECT v FROM ks.wide WHERE k = 1 ORDER BY c ASC, c DESC", &["135", "121", "111", "112"]);
    check("SELECT v FROM ks.wide WHERE k = 1 ORDER BY c, d DESC, c", &["112", "111", "121", "135"]);
    check("SELECT v FROM ks.wide WHERE k IN ()", &[]);
    check("SELECT v FROM ks.wide WHERE k IN (1, 2) AND c > 1 AND c < 3", &["121", "221"]);
    check("SELECT a, b, v FROM ks.pair WHERE a = 1 AND b IN ('y', 'x')", &["1|x|9"]);
    check("SELECT v FROM ks.pair WHERE token(a, b) = token(1, 'x')", &["9"]);
    check("SELECT v FROM ks.wide WHERE v = 221 ALLOW FILTERING", &["221"]);
    check("SELECT v FROM ks.wide WHERE k = 2 AND d = 1 ALLOW FILTERING", &["211", "221"]);
}

#[test]
fn static_content_without_rows_is_a_row_where_whole_partitions_are_wanted() {
    let storage = storage();
    let check = |text: &str, expected: &[&str]| check(&storage, text, &[], expected);
    check("SELECT k, c, s, v FROM ks.wide WHERE k = 4", &["4||four|"]);
    check("SELECT k, c, s, v FROM ks.wide WHERE k = 4 AND c = 1", &[]);
    check("SELECT DISTINCT k, s FROM ks.wide WHERE k IN (1, 2, 4)", &["1|one", "2|", "4|four"]);
    check("SELECT s FROM ks.wide WHERE k = 1 LIMIT 1", &["one"]);
    check("SELECT count(*) FROM ks.wide WHERE k = 4", &["1"]);
}

#[test]
fn collections_and_their_parts() {
    let storage = storage();
    let check = |text: &str, expected: &[&str]| check(&storage, text, &[], expected);
    check(
        "SELECT m, l, e, u FROM ks.wide WHERE k = 5",
        &["{'a': 1, 'b': 2}|[3, 1, 3]|{4, 5}|{x: 7, y: null}"],
    );
    check("SELECT m['b'], m['z'], u.x, u.y, e[4], e[6] FROM ks.wide WHERE k = 5", &["2||7||4|"]);
    check("SELECT m['b'..], e[..4] FROM ks.wide WHERE k = 5", &["{'b': 2}|{4}"]);
    check(
        "SELECT writetime(m['a']), ttl(m['a']), maxwritetime(e) FROM ks.wide WHERE k = 5",
        &["1700000000000000||1700000000000000"],
    );
    check(
        "SELECT map_keys(m), collection_sum(l), collection_count(e) FROM ks.wide WHERE k = 5",
        &["{'a', 'b'}|7|2"],
    );
    check(
        "SELECT k FROM ks.wide WHERE m CONTAINS 2 AND m CONTAINS KEY 'a' AND m['a'] = 1 ALLOW FILTERING",
        &["5"],
    );
    check("SELECT k FROM ks.wide WHERE l CONTAINS 9 ALLOW FILTERING", &[]);
    check("SELECT k FROM ks.wide WHERE s LIKE 'f_u%' ALLOW FILTERING", &["4"]);
    check("SELECT v FROM ks.one WHERE k LIKE '%b' ALLOW FILTERING", &["2.5"]);
    check("SELECT v FROM ks.one WHERE k LIKE '_' AND k LIKE 'c' ALLOW FILTERING", &["-1.0"]);
}

#[test]
fn a_cast_that_changes_nothing_has_no_name_of_its_own() {
    let storage = storage();
    let names = |text: &str| {
        let plan = plan(&storage, text).expect(text);
        plan.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        names("SELECT CAST(v AS int), CAST(v AS text), CAST(v AS int) AS w FROM ks.wide"),
        ["v", "cast(v as text)", "w"]
    );
    let text = "SELECT (int) ?, token(?), (list<int>) [?] FROM ks.wide WHERE token(k) > token(?)";
    let plan = plan(&storage, text).expect(text);
    let markers: Vec<&str> = plan.markers().iter().map(|marker| marker.name.as_str()).collect();
    assert_eq!(markers, ["[selection]", "[selection]", "[selection]", "arg0(system.token)"]);
}

#[test]
fn nulls_that_choose_are_refused() {
    let storage = storage();
    let list = |elements: &[&[u8]]| {
        let mut builder = model::types::CollectionBuilder::new();
        elements.iter().for_each(|element| builder.push(element));
        builder.finish()
    };
    // Some drivers encode a null in a list as an int without bytes.
    let with_empty = list(&[&int(1), b""]);
    for (text, column) in
        [("SELECT v FROM ks.wide WHERE k = 1 AND c IN ?", "c"), ("SELECT v FROM ks.wide WHERE k IN ?", "k")]
    {
        let text_of_error = format!("Invalid null value in condition for column {column}");
        check_refused(&storage, text, &[Sent::Bytes(&with_empty)], &text_of_error);
    }
    let text = "SELECT k FROM ks.wide WHERE k = 1 AND (c) IN ?";
    let plan = plan(&storage, text).unwrap();
    assert_eq!(plan.markers()[0].column_type, CqlType::list(CqlType::tuple([CqlType::Int])));
    check_refused(
        &storage,
        text,
        &[Sent::Bytes(&list(&[&(-1i32).to_be_bytes()]))],
        "Invalid null value in condition for columns: [c]",
    );
    check_refused(
        &storage,
        "SELECT m[?] FROM ks.wide",
        &[Sent::Null],
        "Invalid null value for element selection on m",
    );
    check_refused(
        &storage,
        "SELECT m[..?] FROM ks.wide",
        &[Sent::Null],
        "Invalid null value for slice selection on m",
    );
    // No row matches a null in a filter.
    check(&storage, "SELECT k FROM ks.wide WHERE s IN ('four', null) ALLOW FILTERING", &[], &["4"]);
}

#[test]
fn functions_and_aggregates() {
    let storage = storage();
    let check = |text: &str, expected: &[&str]| check(&storage, text, &[], expected);
    check(
        "SELECT count(*), min(v), max(v), sum(v), avg(v), count(s) FROM ks.wide WHERE k = 1",
        &["4|111|135|479|119|4"],
    );
    check("SELECT count(*), max(v), sum(v), avg(v) FROM ks.wide WHERE k = 99", &["0||0|0"]);
    check(
        "SELECT v + 1, v * 2.5, -v, v / 2 AS half FROM ks.wide WHERE k = 1 LIMIT 1",
        &["113|280.0|-112|56"],
    );
    check(
        "SELECT CAST(v AS text), intasblob(v), blobasint(0x00000007) FROM ks.wide WHERE k = 1 LIMIT 1",
        &["112|0x00000070|7"],
    );
    check(
        "SELECT to_date(t), to_unix_timestamp(t), todate(t + 1mo) FROM ks.one WHERE k = 'a'",
        &["2024-02-29|1709208000000|2024-03-29"],
    );
    let token = PartitionKey::new("a").token().to_string();
    check("SELECT token(k) FROM ks.one WHERE k = 'a'", &[&token]);
    check("SELECT (int) 5, abs(v), round(v) FROM ks.one WHERE k = 'c'", &["5|1.0|-1.0"]);
    check("SELECT v FROM ks.wide WHERE k = (1 + 1) * 1 AND c = 3", &["235"]);
    check("SELECT CAST((v + 1) * 2 AS text) FROM ks.wide WHERE k = 2 AND c = 3", &["472"]);
    check("SELECT sum(v), avg(v) FROM ks.one", &["3.0|1.0"]);
    check(
        "SELECT (vector<int, 2>) [v, c], (point) {y: v}, (map<int, int>) {c: v}, (tuple<int, text>) (v, 'a') \
         FROM ks.wide WHERE k = 2 AND c = 3",
        &["[235, 3]|{x: null, y: 235}|{3: 235}|(235, 'a')"],
    );
    check("SELECT (point) {x: 1} FROM ks.wide WHERE k = 2 AND c = 3", &["{x: 1, y: null}"]);
    check(
        "SELECT similarity_euclidean([1, 2], [3, 4]), similarity_cosine([1], null) FROM ks.wide LIMIT 1",
        &["0.11111111|"],
    );
    check(
        "SELECT to_json(blob_as_int(0x)), to_json(intasblob(v)) FROM ks.wide WHERE k = 1 AND c = 3",
        &["null|\"0x00000087\""],
    );
}

#[test]
fn markers_are_described_and_bound() {
    let storage = storage();
    let text = "SELECT v FROM ks.wide WHERE k = ? AND c IN ? AND d > :low PER PARTITION LIMIT ? LIMIT ?";
    let plan = plan(&storage, text).expect("a statement");
    fn shared_by_shards<T: Send + Sync>(_: &T) {}
    shared_by_shards(&plan);
    let names: Vec<&str> = plan.markers().iter().map(|marker| marker.name.as_str()).collect();
    assert_eq!(names, ["k", "in(c)", "low", "[per_partition_limit]", "[limit]"]);
    assert_eq!(plan.partition_key_markers(), [0]);
    assert!(plan.is_single_partition());
    let list = CqlType::list(CqlType::Int).bytes_of("[1, 3]").expect("a list");
    let (one, two) = (int(1), int(2));
    let bound = [Sent::Bytes(&one), Sent::Bytes(&list), Sent::Bytes(&one), Sent::Unset, Sent::Bytes(&two)];
    check(&storage, text, &bound, &["112", "135"]);
    assert_eq!(plan.partition_key(&bound), Ok(Some(PartitionKey::new(&one[..]))));
    check_refused(
        &storage,
        "SELECT v FROM ks.wide WHERE k = ?",
        &[Sent::Null],
        "Invalid null value in condition for column k",
    );
    check_refused(
        &storage,
        "SELECT v FROM ks.wide WHERE k = 1 AND c = ?",
        &[Sent::Unset],
        "Invalid unset value for column c",
    );
    check_refused(
        &storage,
        "SELECT v FROM ks.wide LIMIT ?",
        &[Sent::Bytes(&int(0))],
        "LIMIT must be strictly positive",
    );
    check_refused(&storage, "SELECT v FROM ks.one WHERE k = ?", &[Sent::Bytes(b"")], "Key may not be empty");
    let long = [b'x'; 65_536];
    check_refused(
        &storage,
        "SELECT v FROM ks.one WHERE k = ?",
        &[Sent::Bytes(&long)],
        "Key length of 65536 is longer than maximum of 65535",
    );
}

#[test]
fn what_cassandra_refuses_is_refused_with_its_text() {
    let storage = storage();
    let filtering = crate::restriction::NEEDS_FILTERING;
    for (rest, expected) in [
        ("SELECT x FROM ks.wide", "Undefined column name x in table ks.wide"),
        ("SELECT v FROM ks.nothing", "table nothing does not exist"),
        ("SELECT v FROM other.wide", "keyspace other does not exist"),
        ("SELECT v FROM ks.wide WHERE v = 1", filtering),
        ("SELECT v FROM ks.wide WHERE c = 1", filtering),
        ("SELECT v FROM ks.wide WHERE k > 1", filtering),
        ("SELECT v FROM ks.pair WHERE a = 1", filtering),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND d = 1",
            "PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND c > 1 AND d = 1",
            "Clustering column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND k = 2",
            "k cannot be restricted by more than one relation if it includes an Equal",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND c > 1 AND c >= 2",
            "More than one restriction was found for the start bound on c",
        ),
        (
            "SELECT v FROM ks.wide WHERE token(k) > 1 AND token(k, c) < 2",
            "The token() function must contains only partition key components",
        ),
        (
            "SELECT v FROM ks.pair WHERE token(a) > 1",
            "The token() function must be applied to all partition key components or none of them",
        ),
        (
            "SELECT v FROM ks.wide ORDER BY c",
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ),
        ("SELECT v FROM ks.wide WHERE k = 1 ORDER BY c, d", "Unsupported order by relation"),
        (
            "SELECT s FROM ks.wide WHERE k = 1 AND c = 1",
            "Cannot restrict clustering columns when selecting only static columns",
        ),
        (
            "SELECT DISTINCT v FROM ks.wide",
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not v)",
        ),
        ("SELECT nix(v) FROM ks.wide", "Unknown function 'nix'"),
        ("SELECT writetime(k) FROM ks.wide", "Cannot use selection function writetime on PRIMARY KEY part k"),
        ("SELECT v FROM ks.wide LIMIT 0", "LIMIT must be strictly positive"),
        ("SELECT v FROM ks.wide WHERE k = 1 AND c != 2", "Unsupported \"!=\" relation: c != 2"),
        ("SELECT v FROM ks.wide WHERE v != 2 ALLOW FILTERING", "Unsupported \"!=\" relation: v != 2"),
        (
            "SELECT v FROM ks.wide WHERE token(k) != 2 ALLOW FILTERING",
            "Unsupported \"!=\" relation: token(k) != 2",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND l = [?] ALLOW FILTERING",
            "Collection column 'l' (list<int>) cannot be restricted by a '=' relation",
        ),
        (
            "SELECT 5 FROM ks.wide",
            "Cannot infer type for term 5 in selection clause (try using a cast to force a type)",
        ),
        (
            "SELECT v, [1, 2] FROM ks.wide",
            "Cannot infer type for term [1, 2] in selection clause (try using a cast to force a type)",
        ),
        ("SELECT v FROM ks.wide WHERE k IN (1, null)", "Invalid null value in condition for column k"),
        ("SELECT l[0] FROM ks.wide", "Element selection is only allowed on sets and maps, but l is a list"),
        ("SELECT CAST(v AS uuid) FROM ks.wide", "v cannot be cast to uuid"),
        ("SELECT l[0..1] FROM ks.wide", "Slice selection is only allowed on sets and maps, but l is a list"),
        (
            "SELECT CAST(1 AS text) FROM ks.wide",
            "Cannot infer type for term 1 in selection clause (try using a cast to force a type)",
        ),
        (
            "SELECT (v, 'a') FROM ks.wide",
            "Cannot infer type for term (v, 'a') in selection clause (try using a cast to force a type)",
        ),
        (
            "SELECT {v: v} FROM ks.wide",
            "Cannot infer type for term {v: v} in selection clause (try using a cast to force a type)",
        ),
        (
            "SELECT v + ? FROM ks.wide",
            "Ambiguous '+' operation with args v and ?: use type hint to disambiguate, example '(int) ?'",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 + ?",
            "Ambiguous '+' operation with args 1 and ?: use type hint to disambiguate, example '(int) ?'",
        ),
        ("SELECT m + m FROM ks.wide", "the '+' operation is not supported between m and m"),
        ("SELECT s * s FROM ks.wide", "the '*' operation is not supported between s and s"),
        ("SELECT (point) {x: v, z: 1} FROM ks.wide", "Unknown field 'z' in value of user defined type point"),
        (
            "SELECT (vector<int, 3>) [v, c] FROM ks.wide",
            "Invalid vector literal for [v, c] of type vector<int, 3>; expected 3 elements, but given 2",
        ),
        (
            "SELECT similarity_cosine([1, 2], [3]) FROM ks.wide",
            "All arguments must have the same vector dimensions",
        ),
        (
            "SELECT similarity_cosine(?, ?) FROM ks.wide",
            "Cannot infer type of argument ? in call to function system.similarity_cosine(vector<float, n>, \
             vector<float, n>): use type casts to disambiguate",
        ),
        (
            "SELECT similarity_cosine([1]) FROM ks.wide",
            "Invalid number of arguments for function system.similarity_cosine(vector<float, n>, vector<float, n>)",
        ),
        (
            "SELECT similarity_cosine(1, 2) FROM ks.wide",
            "Function system.similarity_cosine requires a float vector argument, but found argument 1 of type int",
        ),
        (
            "SELECT v FROM ks.wide WHERE k = 1 AND s LIKE 'o%'",
            "LIKE restriction is only supported on properly indexed columns. s LIKE 'o%' is not valid.",
        ),
        (
            "SELECT v FROM ks.wide WHERE v LIKE 'o%' ALLOW FILTERING",
            "Invalid STRING constant (o%) for \"v\" of type int",
        ),
    ] {
        check_refused(&storage, rest, &[], expected);
    }
    let division =
        plan(&storage, "SELECT v / 0 FROM ks.wide").and_then(|plan| pages(&storage, &plan, &[], None));
    let error = division.expect_err("nothing is divided by zero");
    assert!(matches!(error, CqlError::FunctionFailure { .. }));
    assert_eq!(error.to_string(), "the operation 'int / int' failed: / by zero");
}

#[test]
fn a_paging_state_that_is_none_of_the_statement_is_refused() {
    let storage = storage();
    let plan_of = |text: &str| plan(&storage, text).expect("a statement");
    let first = plan_of("SELECT v FROM ks.wide WHERE k IN (1, 2)");
    let page = block_on_ready(execute(&first, &storage, &[], &execution(Some(1), None))).expect("a page");
    let state = page.paging_state.expect("there is more");
    let other = plan_of("SELECT v FROM ks.wide WHERE k = 3");
    for (plan, state) in
        [(&other, state.as_slice()), (&first, b"garbage"), (&first, b""), (&first, &state[..5])]
    {
        let refused = block_on_ready(execute(plan, &storage, &[], &execution(Some(1), Some(state))));
        assert_eq!(refused.expect_err("refused").to_string(), "Invalid value for the paging state");
    }
}

#[test]
fn order_by_beside_in_has_no_pages_however_few_rows_are_wanted() {
    let storage = storage();
    let list = |keys: &[i32]| {
        let mut builder = model::types::CollectionBuilder::new();
        keys.iter().for_each(|key| builder.push(&int(*key)));
        builder.finish()
    };
    let run = |text: &str, bound: &[Sent<'_>], page_rows| {
        let plan = plan(&storage, text).expect(text);
        let rows = block_on_ready(execute(&plan, &storage, bound, &execution(page_rows, None)));
        rows.map(|rows| rows.count()).map_err(|error| error.to_string())
    };
    let refused = "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query";
    for (text, rows) in [
        ("SELECT v FROM ks.wide WHERE k IN (1, 2) ORDER BY c", 8),
        ("SELECT v FROM ks.wide WHERE k IN (1, 2) ORDER BY c LIMIT 3", 3),
        ("SELECT count(*) FROM ks.wide WHERE k IN (1, 2) ORDER BY c", 1),
        ("SELECT k, count(*) FROM ks.wide WHERE k IN (1, 2) GROUP BY k ORDER BY c LIMIT 1", 1),
    ] {
        assert_eq!(run(text, &[], Some(5000)), Err(refused.to_string()), "{text}");
        assert_eq!(run(text, &[], None), Ok(rows), "{text}");
    }
    // A single key in the text is an equality; a bound list is not.
    assert_eq!(run("SELECT v FROM ks.wide WHERE k IN (1) ORDER BY c", &[], Some(2)), Ok(2));
    let text = "SELECT v FROM ks.wide WHERE k IN ? ORDER BY c";
    let (one, none) = (list(&[1]), list(&[]));
    assert_eq!(run(text, &[Sent::Bytes(&one)], Some(5000)), Err(refused.to_string()));
    assert_eq!(run(text, &[Sent::Bytes(&none)], Some(5000)), Ok(0));
}

/// The task yields while rows are read, merged and returned.
#[test]
fn sorted_rows_yield_at_every_step() {
    let storage = storage();
    let tables = tables();
    for k in 50..60 {
        for c in 0..100 {
            let key = PartitionKey::new(&int(k)[..]);
            let (v, c) = ((c * 100 + k).to_string(), int(c));
            write_row(&storage, &tables[0], &key, Some(&[&c, &int(1)]), &[("v", &v)]);
        }
    }
    for (text, fewest) in [
        ("SELECT v FROM ks.wide WHERE k IN (50, 51, 52, 53, 54, 55, 56, 57, 58, 59) ORDER BY c", 4000),
        (
            "SELECT v FROM ks.wide WHERE k IN (50, 51, 52, 53, 54, 55, 56, 57, 58, 59) ORDER BY c DESC LIMIT 5",
            100,
        ),
        (
            "SELECT max(v) FROM ks.wide WHERE k IN (50, 51, 52, 53, 54, 55, 56, 57, 58, 59) GROUP BY k, c ORDER BY c",
            4000,
        ),
    ] {
        let before = storage.yields();
        let plan = plan(&storage, text).expect(text);
        let rows = pages(&storage, &plan, &[], None).expect(text);
        let values: Vec<i32> =
            table_text(&plan, &rows).iter().map(|v| v.parse::<i32>().expect("an int") / 100).collect();
        let is_falling = text.contains("DESC");
        assert!(values.is_sorted_by(|a, b| if is_falling { a >= b } else { a <= b }), "{text}: {values:?}");
        assert_eq!(values.len(), if is_falling { 5 } else { 1000 }, "{text}");
        let yields = storage.yields() - before;
        assert!(yields >= fewest / 64 - 1, "{text}: {yields}");
    }
}

#[test]
fn a_point_read_is_one_read_and_a_filter_without_matches_yields() {
    let storage = storage();
    let point = plan(&storage, "SELECT v FROM ks.one WHERE k = 'a'").expect("a statement");
    let before = storage.reads();
    let page = block_on_ready(execute(&point, &storage, &[], &execution(Some(5000), None))).expect("a page");
    assert_eq!((page.count(), page.paging_state, storage.reads() - before), (1, None, 1));
    storage.set_page_rows_max(1);
    let filter = plan(&storage, "SELECT v FROM ks.wide WHERE v = -1 ALLOW FILTERING").expect("a statement");
    let tables = tables();
    for k in 10..40 {
        write_row(
            &storage,
            &tables[0],
            &PartitionKey::new(&int(k)[..]),
            Some(&[&int(1), &int(1)]),
            &[("v", "0")],
        );
    }
    let page = block_on_ready(execute(&filter, &storage, &[], &execution(Some(10), None))).expect("a page");
    assert!(page.count() == 0 && page.paging_state.is_some(), "an empty page that goes on");
    assert_eq!(pages(&storage, &filter, &[], Some(10)), Ok(vec![]));
}

/// A page of storage may have thousands of rows; other tasks must run before all of them are taken.
#[test]
fn others_run_between_the_rows_of_a_page() {
    let storage = storage();
    let tables = tables();
    let key = PartitionKey::new(&int(50)[..]);
    for c in 0..1000 {
        write_row(&storage, &tables[0], &key, Some(&[&int(c), &int(1)]), &[("v", "0")]);
    }
    for statement in [
        "SELECT count(v) FROM ks.wide WHERE k = 50",
        "SELECT c FROM ks.wide WHERE k = 50",
        "SELECT c FROM ks.wide WHERE k = 50 AND v = 7 ALLOW FILTERING",
        "SELECT c, count(v) FROM ks.wide WHERE k = 50 GROUP BY c",
        "SELECT c FROM ks.wide WHERE k IN (50, 51) ORDER BY c",
    ] {
        let (reads, yields) = (storage.reads(), storage.yields());
        let plan = plan(&storage, statement).expect("a statement");
        block_on_ready(execute(&plan, &storage, &[], &execution(None, None))).expect("rows");
        assert!(storage.reads() - reads <= 2, "{statement}: one page for each key");
        assert!(storage.yields() - yields >= 1000 / 64, "{statement}: {}", storage.yields() - yields);
    }
}

/// A large unpaged result is logged once, and refused if it grows further. Paged results are never logged or
/// refused.
#[test]
fn an_unpaged_result_has_a_soft_and_a_hard_limit() {
    let storage = storage();
    storage.set_page_rows_max(1);
    let tables = tables();
    for k in 10..40 {
        let key = PartitionKey::new(&int(k)[..]);
        write_row(&storage, &tables[0], &key, Some(&[&int(1), &int(1)]), &[("v", "0")]);
    }
    let all = plan(&storage, "SELECT v FROM ks.wide").expect("a statement");
    let limits = |soft, hard| {
        let limits = storage.result_limits();
        storage.set_result_limits(ResultLimits {
            unpaged_soft_bytes: soft,
            unpaged_hard_bytes: hard,
            ..limits
        });
        block_on_ready(execute(&all, &storage, &[], &execution(None, None)))
    };
    let rows = limits(1000, 1000).expect("it is small").count();
    assert_eq!(storage.warnings(), Vec::<String>::new());
    assert_eq!(limits(50, 1000).expect("a warning").count(), rows);
    let logged = storage.warnings();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0]
            .ends_with("exceeds soft limit of 50 (configured via max_memory_for_unlimited_query_soft_limit)")
    );
    let refused = limits(50, 100).expect_err("a refusal").to_string();
    assert_eq!(
        refused,
        "Memory usage of unpaged query exceeds hard limit of 100 (configured via max_memory_for_unlimited_query_hard_limit)"
    );
    assert_eq!(pages(&storage, &all, &[], Some(3)).expect("pages").len() as u32, rows);
}

/// The rows that ORDER BY over several partitions reads are measured before the result is built.
#[test]
fn sorted_partitions_have_the_limits_of_unpaged_results() {
    let storage = storage();
    let tables = tables();
    for k in [60, 61] {
        for c in 0..200 {
            let key = PartitionKey::new(&int(k)[..]);
            write_row(&storage, &tables[0], &key, Some(&[&int(c), &int(1)]), &[("v", "0")]);
        }
    }
    let sorted =
        plan(&storage, "SELECT c FROM ks.wide WHERE k IN (60, 61) ORDER BY c LIMIT 1").expect("a statement");
    let all = plan(&storage, "SELECT c FROM ks.wide WHERE k IN (60, 61) ORDER BY c").expect("a statement");
    let with = |plan: &SelectPlan, soft, hard| {
        let limits = storage.result_limits();
        storage.set_result_limits(ResultLimits {
            unpaged_soft_bytes: soft,
            unpaged_hard_bytes: hard,
            ..limits
        });
        block_on_ready(execute(plan, &storage, &[], &execution(None, None)))
    };
    assert_eq!(with(&all, 1 << 20, 1 << 20).expect("it fits").count(), 400);
    assert_eq!(storage.warnings(), Vec::<String>::new());
    // The result alone takes 3,200 bytes.
    assert_eq!(with(&all, 5000, 1 << 20).expect("it fits").count(), 400);
    assert_eq!(storage.warnings().len(), 1);
    let refused = with(&all, 5000, 10_000).expect_err("a refusal").to_string();
    assert!(refused.starts_with("Memory usage of unpaged query exceeds hard limit of 10000"), "{refused}");
    // A limit is part of the read, so only two rows are held in memory.
    assert_eq!(with(&sorted, 5000, 10_000).expect("it fits").count(), 1);
}

#[test]
fn rows_as_json() {
    let storage = storage();
    let check = |text: &str, expected: &[&str]| check(&storage, text, &[], expected);
    check("SELECT JSON * FROM ks.pair", &[r#"{"a": 1, "b": "x", "v": 9}"#]);
    check(
        "SELECT JSON k, m, l, u AS \"U\", s FROM ks.wide WHERE k = 5",
        &[r#"{"k": 5, "m": {"a": 1, "b": 2}, "l": [3, 1, 3], "\"U\"": {"x": 7, "y": null}, "s": null}"#],
    );
    check("SELECT JSON count(*), max(v) AS m FROM ks.wide WHERE k = 1", &[r#"{"count": 4, "m": 135}"#]);
    check("SELECT JSON DISTINCT k FROM ks.wide WHERE k = 1", &[r#"{"k": 1}"#]);
    check(
        "SELECT JSON c, writetime(v) AS w, v + 1 FROM ks.wide WHERE k = 1 LIMIT 1",
        &[r#"{"c": 1, "w": 1700000000000000, "v + 1": 113}"#],
    );
    check(
        "SELECT toJson(m), to_json(u), toJson(s), toJson(k) FROM ks.wide WHERE k = 5",
        &[r#"{"a": 1, "b": 2}|{"x": 7, "y": null}|null|5"#],
    );
    check("SELECT v FROM ks.wide WHERE k = fromJson('1') AND c = 2", &["121"]);
    let plan = plan(&storage, "SELECT JSON k, c FROM ks.wide").expect("a plan");
    assert_eq!((plan.columns()[0].name.as_str(), &plan.columns()[0].column_type), ("[json]", &CqlType::Text));
    check_refused(
        &storage,
        "SELECT fromJson('1') FROM ks.wide",
        &[],
        "fromjson() cannot be used in the selection clause of a SELECT statement",
    );
}
