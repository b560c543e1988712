//! Vector indexes: `ORDER BY column ANN OF vector LIMIT n` against a sort of all rows, and its rules.

use base::rng::Rng;

use super::*;

const INDEX: &str = "CREATE CUSTOM INDEX near ON t (v) USING 'StorageAttachedIndex'";

fn session(options: &str) -> Session {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (p int, c int, v vector<float, 3>, w int, x int, PRIMARY KEY (p, c))",
        &format!("{INDEX}{options}"),
        "CREATE INDEX ON t (w) USING 'sai'",
    ]);
    session
}

/// A vector of small whole numbers, of which no two sums are equal by chance only.
fn vector(rng: &mut Rng) -> [f32; 3] {
    [0; 3].map(|_| rng.below(2001) as f32 - 1000.0)
}

fn similarity(name: &str, a: [f32; 3], b: [f32; 3]) -> f32 {
    let dot = |a: [f32; 3], b: [f32; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    match name {
        "cosine" => (1.0 + dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()) / 2.0,
        "euclidean" => 1.0 / (1.0 + a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()),
        _ => (1.0 + dot(a, b)) / 2.0,
    }
}

#[test]
fn the_nearest_rows_are_those_of_a_sort() {
    for name in ["cosine", "euclidean", "dot_product"] {
        let session = session(&format!(" WITH OPTIONS = {{'similarity_function': '{name}'}}"));
        session.storage.set_page_rows_max(7);
        let mut rng = Rng::new(7);
        let mut live = vec![];
        for at in 0..200 {
            let (p, c, w, v) = (at % 11, at / 11, rng.below(3), vector(&mut rng));
            session.all(&[&format!("INSERT INTO t (p, c, v, w) VALUES ({p}, {c}, {v:?}, {w})")]);
            live.push((p, c, w, v));
        }
        // Overwritten, removed and expired vectors are not found.
        for (at, row) in live.iter_mut().enumerate().take(80) {
            let (p, c, ..) = *row;
            let v = vector(&mut rng);
            session.all(&[&match at % 4 {
                0 => format!("UPDATE t SET v = {v:?} WHERE p = {p} AND c = {c}"),
                1 => format!("DELETE v FROM t WHERE p = {p} AND c = {c}"),
                2 => format!("UPDATE t USING TTL 10 SET v = {v:?} WHERE p = {p} AND c = {c}"),
                _ => format!("DELETE FROM t WHERE p = {p} AND c = {c}"),
            }]);
            row.3 = if at % 4 == 0 { v } else { [f32::NAN; 3] };
        }
        session.storage.set_now_us(session.storage.wall_us() + 11_000_000);
        live.retain(|(.., v)| !v[0].is_nan());
        let clauses =
            ["", "WHERE w = 1", "WHERE p = 3", "WHERE p = 3 AND c > 4", "WHERE p = 3 AND c > 4 AND w = 1"];
        for clause in clauses {
            let to = vector(&mut rng);
            let is_selected = |row: &&(i32, i32, u64, [f32; 3])| match clause {
                "WHERE w = 1" => row.2 == 1,
                "WHERE p = 3" => row.0 == 3,
                "WHERE p = 3 AND c > 4 AND w = 1" => row.0 == 3 && row.1 > 4 && row.2 == 1,
                "WHERE p = 3 AND c > 4" => row.0 == 3 && row.1 > 4,
                _ => true,
            };
            let mut expected: Vec<_> = live.iter().filter(is_selected).collect();
            expected.sort_by(|a, b| similarity(name, b.3, to).total_cmp(&similarity(name, a.3, to)));
            let expected: Vec<String> =
                expected.iter().take(10).map(|(p, c, ..)| format!("{p}|{c}")).collect();
            assert!(!expected.is_empty(), "{name} {clause}");
            let text = format!("SELECT p, c FROM t {clause} ORDER BY v ANN OF {to:?} LIMIT 10");
            assert_eq!(session.try_run(&text), Ok(expected), "{name}: {text}");
        }
    }
}

#[test]
fn rules_of_the_order_are_cassandras() {
    let session = session("");
    let in_key = "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported";
    let indexed = "ANN ordering by vector requires all restricted column(s) to be indexed";
    for (text, expected) in [
        ("SELECT * FROM t ORDER BY v ANN OF [1, 2, 3]", "Top-K queries must have a limit specified"),
        (
            "SELECT * FROM t ORDER BY v ANN OF [1, 2, 3] LIMIT 1001",
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than 1000. LIMIT was 1001",
        ),
        (
            "SELECT * FROM t ORDER BY v ANN OF [1, 2, 3] PER PARTITION LIMIT 1 LIMIT 2",
            "Top-K queries do not support per-partition limits",
        ),
        (
            "SELECT count(*) FROM t ORDER BY v ANN OF [1, 2, 3] LIMIT 2",
            "Top-K queries can not be run with aggregation",
        ),
        ("SELECT * FROM t WHERE x = 1 ORDER BY v ANN OF [1, 2, 3] LIMIT 2 ALLOW FILTERING", indexed),
        ("SELECT * FROM t WHERE p = 1 AND x = 1 ORDER BY v ANN OF [1, 2, 3] LIMIT 2", indexed),
        (
            "SELECT DISTINCT p FROM t ORDER BY v ANN OF [1, 2, 3] LIMIT 2",
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        ),
        ("INSERT INTO t (p, c, v) VALUES (1, 1, [0, NaN, 0])", "non-finite value at vector[1]=NaN"),
        ("INSERT INTO t (p, c, v) VALUES (1, 1, [0, 2e17, 0])", "Out-of-bounds value at vector[1]=2.0E17"),
        (
            "SELECT * FROM t ORDER BY v ANN OF [Infinity, 0, 0] LIMIT 2",
            "non-finite value at vector[0]=Infinity",
        ),
        ("SELECT * FROM t WHERE c = 1 ORDER BY v ANN OF [1, 2, 3] LIMIT 2 ALLOW FILTERING", indexed),
        ("SELECT * FROM t WHERE p IN (1, 2) ORDER BY v ANN OF [1, 2, 3] LIMIT 2", in_key),
        ("SELECT * FROM t WHERE v = [1, 2, 3]", "Vector indexes only support ANN queries"),
        (
            "SELECT * FROM t ORDER BY w ANN OF [1, 2, 3] LIMIT 2",
            "ANN ordering is only supported on float vector indexes",
        ),
        (
            "SELECT * FROM t ORDER BY v ANN OF [0, 0, 0] LIMIT 2",
            "Zero vectors cannot be indexed or queried with cosine similarity",
        ),
        (
            "INSERT INTO t (p, c, v) VALUES (1, 1, [0, -0.0, 0])",
            "Zero vectors cannot be indexed or queried with cosine similarity",
        ),
        ("SELECT * FROM t ORDER BY v ANN OF [1, 2] LIMIT 2", "Invalid vector literal for v"),
    ] {
        session.refused(text, expected);
    }
    session.all(&[
        "INSERT INTO t (p, c, v) VALUES (1, 1, null)",
        "INSERT INTO t (p, c, v) VALUES (1, 2, [1, 0, 0])",
    ]);
    session.check("SELECT c FROM t ORDER BY v ANN OF [1, 2, 3] LIMIT 5", &["2"]);
}

#[test]
fn rules_of_the_index_are_cassandras() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (p int PRIMARY KEY, v vector<float, 3>, one vector<float, 1>, i vector<int, 3>, n int)"]);
    let with = |column: &str, option: &str, value: &str| {
        format!("CREATE INDEX ON t ({column}) USING 'sai' WITH OPTIONS = {{'{option}': '{value}'}}")
    };
    for (text, expected) in [
        (
            "CREATE INDEX ON t (i) USING 'sai'".to_string(),
            "SAI ANN indexes are only allowed on vector columns with float elements",
        ),
        (
            "CREATE INDEX ON t (one) USING 'sai'".to_string(),
            "Cosine similarity is not supported for single-dimension vectors",
        ),
        (
            with("v", "similarity_function", "near"),
            "Similarity function NEAR was not recognized for index t_v_idx. Valid values are: EUCLIDEAN, DOT_PRODUCT, COSINE",
        ),
        (
            with("v", "maximum_node_connections", "4"),
            "Maximum node connections cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS",
        ),
        (with("v", "optimize_for", "price"), "optimize_for 'PRICE' was not recognized"),
        (with("n", "similarity_function", "cosine"), "CQL type int cannot have vector options"),
        ("CREATE INDEX ON t (v)".to_string(), "has to be storage-attached"),
    ] {
        session.refused(&text, expected);
    }
    let prepared =
        Prepared::new(&session.storage.catalog(), Some("ks"), &with("v", "optimize_for", "recall"));
    let mut warnings = vec![];
    let (values, now_us) = (ValueBuffer::default(), session.storage.wall_us());
    let values = values.values();
    let execution =
        Execution { now_us, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
    let prepared = prepared.expect("a statement");
    let outcome = prepared.execute(&session.storage, &values, &execution, &mut warnings);
    assert!(block_on_ready(outcome).is_ok());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("The option optimize_for has no effect"), "{warnings:?}");
    session.all(&["DROP INDEX t_v_idx"]);
    session.all(&[
        &with("one", "similarity_function", "euclidean"),
        &with("v", "similarity_function", "DOT_PRODUCT"),
    ]);
}

#[test]
fn a_search_has_one_page_and_warns_of_smaller_pages() {
    let session = session("");
    for c in 0..30 {
        session.all(&[&format!("INSERT INTO t (p, c, v) VALUES (1, {c}, [1, {c}, 1])")]);
    }
    let catalog = session.storage.catalog();
    for (page_rows, expected) in [
        (None, vec![]),
        (Some(20), vec![]),
        (
            Some(5),
            vec![
                "Top-K queries do not support paging and the page size is set to 5, which is less than LIMIT 20. \
                 The page size has been set to 20 to match the LIMIT.",
            ],
        ),
    ] {
        let text = "SELECT c FROM t ORDER BY v ANN OF [1, 0, 1] LIMIT 20";
        let prepared = Prepared::new(&catalog, Some("ks"), text).expect(text);
        let now_us = session.storage.wall_us();
        let execution = Execution { now_us, timestamp_us: None, now_s: None, page_rows, paging_state: None };
        let (values, mut warnings) = (ValueBuffer::default(), vec![]);
        let values = values.values();
        let outcome = prepared.execute(&session.storage, &values, &execution, &mut warnings);
        match block_on_ready(outcome) {
            Ok(Outcome::Rows(rows)) => assert_eq!((rows.count(), &rows.paging_state), (20, &None)),
            _ => panic!("no rows for {page_rows:?}"),
        }
        assert_eq!(warnings, expected, "{page_rows:?}");
    }
}

#[test]
fn vectors_of_static_columns_and_from_before_the_index_are_searched() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE s (p int, c int, v vector<float, 2> static, PRIMARY KEY (p, c))",
        "INSERT INTO s (p, v) VALUES (1, [1, 0])",
        "INSERT INTO s (p, c, v) VALUES (2, 7, [1, 1])",
        "INSERT INTO s (p, c) VALUES (2, 8)",
        "INSERT INTO s (p, c, v) VALUES (3, 7, [0, 0])",
        "CREATE INDEX ON s (v) USING 'sai'",
    ]);
    session.check("SELECT p, c FROM s ORDER BY v ANN OF [1, 0.1] LIMIT 9", &["1|", "2|7", "2|8"]);
    session.check("SELECT DISTINCT p FROM s ORDER BY v ANN OF [0.1, 1] LIMIT 9", &["2", "1"]);
}

#[test]
fn scylladbs_vector_index_is_a_storage_attached_index() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (p int PRIMARY KEY, v vector<float, 2>, w int)",
        "CREATE CUSTOM INDEX near ON t (v) USING 'vector_index' WITH OPTIONS = {'similarity_function': 'EUCLIDEAN', \
         'maximum_node_connections': '16'}",
        "INSERT INTO t (p, v) VALUES (1, [1, 1])",
        "INSERT INTO t (p, v) VALUES (2, [5, 5])",
    ]);
    session.check("SELECT p FROM t ORDER BY v ANN OF [4, 4] LIMIT 1", &["2"]);
    session.refused(
        "CREATE CUSTOM INDEX ON t (w) USING 'vector_index'",
        "Vector indexes are only supported on columns of vectors of floats",
    );
    session.refused(
        "CREATE CUSTOM INDEX far ON t (v) USING 'vector_index' WITH OPTIONS = {'nope': '1'}",
        "Properties specified [nope] are not understood",
    );
}
