//! SELECT with secondary indexes: which statements need ALLOW FILTERING, their rows, and a law: the rows are
//! those of the same statement with ALLOW FILTERING on a table without indexes.

use base::rng::Rng;

use super::*;
use crate::restriction::NEEDS_FILTERING;
use crate::{Prepared, Storage};

/// Two equal tables of two keyspaces, `ix` with indexes and `no` without.
struct Db {
    node: MemoryCoordinator,
}

const COLUMNS: &str = "p int, q int, c int, d int, s int STATIC, v int, w text, l list<int>, e set<text>, \
                       m map<text, int>, f frozen<list<int>>, PRIMARY KEY ((p, q), c, d)";

impl Db {
    fn new(indexes: &[&str]) -> Self {
        let db = Self { node: MemoryCoordinator::new(&[]) };
        for keyspace in ["ix", "no"] {
            db.run(&format!(
                "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ));
            db.run(&format!("CREATE TABLE {keyspace}.t ({COLUMNS})"));
        }
        for index in indexes {
            db.run(&format!("CREATE INDEX {index}"));
        }
        db
    }

    /// Executes a statement and returns its warnings.
    fn try_run(&self, text: &str) -> Result<Vec<String>, CqlError> {
        let prepared = Prepared::new(&self.node.catalog(), Some("ix"), text)?;
        let (values, execution, mut warnings) = (Default::default(), execution(None, None), vec![]);
        block_on_ready(prepared.execute(&self.node, &values, &execution, &mut warnings))?;
        Ok(warnings)
    }

    #[track_caller]
    fn run(&self, text: &str) {
        self.try_run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Writes to both tables.
    #[track_caller]
    fn write(&self, text: &str) {
        self.run(text);
        self.run(&text.replace(" t ", " no.t "));
    }

    /// The rows of a SELECT from `ix.t`, in pages of this size.
    fn rows(&self, text: &str, page_rows: Option<u32>) -> Result<Vec<String>, CqlError> {
        let plan = plan(&self.node, text)?;
        Ok(table_text(&plan, &pages(&self.node, &plan, &[], page_rows)?))
    }

    #[track_caller]
    fn gives(&self, text: &str, expect: &[&str]) {
        for page_rows in [None, Some(1), Some(2), Some(100)] {
            let rows = self.rows(text, page_rows).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(rows, expect, "{text}, pages of {page_rows:?}");
        }
    }

    #[track_caller]
    fn refused(&self, text: &str, expect: &str) {
        match self.rows(text, None) {
            Ok(rows) => panic!("{text} gives {rows:?}"),
            Err(error) => assert_eq!(error, CqlError::Invalid(expect.to_string()), "{text}"),
        }
    }
}

const IN_KEY: &str = "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported";

/// Without ALLOW FILTERING: whether each WHERE is served, with these indexes.
#[track_caller]
fn served(indexes: &[&str], cases: &[(&str, bool)]) {
    let db = Db::new(indexes);
    for (relations, is_served) in cases {
        let text = format!("SELECT * FROM ix.t WHERE {relations}");
        match (db.rows(&text, None), is_served) {
            (Ok(_), true) => {
                assert!(plan(&db.node, &text).unwrap().restrictions.uses_index(), "{text} uses no index");
            }
            (Err(error), false) => {
                assert_eq!(error, CqlError::Invalid(NEEDS_FILTERING.to_string()), "{text}");
            }
            (found, _) => panic!("{text} with {indexes:?}: {found:?}"),
        }
        db.rows(&format!("{text} ALLOW FILTERING"), None).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn the_first_kind_of_index_serves_one_equality() {
    served(
        &["ON t (v)", "ON t (w)"],
        &[
            ("v = 1", true),
            ("v = 1 AND w = 'a'", false),
            ("v > 1", false),
            ("v IN (1, 2)", false),
            ("v IN (1)", true),
            ("v = 1 AND s = 1", false),
            ("v = 1 AND p = 1", false),
            ("v = 1 AND c = 1", false),
            ("v = 1 AND token(p, q) > 0", true),
            ("p = 1 AND q = 1 AND v = 1", true),
            ("p = 1 AND q = 1 AND c = 1 AND v = 1", true),
            ("p = 1 AND q = 1 AND c > 1 AND v = 1", true),
            ("p = 1 AND q = 1 AND d = 1 AND v = 1", false),
            ("p = 1 AND q = 1 AND v = 1 AND w = 'a'", false),
        ],
    );
    served(
        &["ON t (p)", "ON t (d)", "ON t (s)"],
        &[
            ("p = 1", true),
            ("p = 1 AND d = 1", false),
            ("d = 1", true),
            ("s = 1", true),
            ("token(p, q) > 0 AND d = 1", true),
            ("p = 1 AND q = 1 AND d = 1", true),
            ("p = 1 AND q = 1 AND c = 1 AND s = 1", true),
            ("p > 1", false),
        ],
    );
    served(
        &["ON t (l)", "ON t (e)", "ON t (keys(m))", "ON t (full(f))"],
        &[
            ("l CONTAINS 1", true),
            ("e CONTAINS 'a'", true),
            ("m CONTAINS KEY 'a'", true),
            ("m CONTAINS 1", false),
            ("m['a'] = 1", false),
            ("l CONTAINS 1 AND l CONTAINS 2", false),
            ("l CONTAINS 1 AND e CONTAINS 'a'", false),
            ("f = [1]", true),
            ("f > [1]", false),
            ("f CONTAINS 1", false),
        ],
    );
    served(
        &["ON t (values(m))", "ON t (entries(m))"],
        &[("m CONTAINS 1", true), ("m['a'] = 1", true), ("m CONTAINS KEY 'a'", false)],
    );
}

#[test]
fn attached_indexes_serve_ranges_and_several_columns() {
    served(
        &["ON t (v) USING 'sai'", "ON t (w) USING 'sai'", "ON t (s) USING 'sai'", "ON t (c) USING 'sai'"],
        &[
            ("v = 1", true),
            ("v > 1 AND v <= 3", true),
            ("v = 1 AND w = 'a'", true),
            ("v > 1 AND w = 'a' AND s < 3", true),
            ("w > 'a'", false),
            ("v IN (1, 2)", false),
            ("v = 1 AND w IN ('a', 'b')", false),
            ("c > 1", true),
            ("c = 1 AND v = 1", true),
            ("c = 1 AND d = 1 AND v = 1", false),
            ("p = 1 AND v = 1", false),
            ("p = 1 AND q = 1 AND d = 1 AND v = 1", false),
            ("p = 1 AND q = 1 AND c = 2 AND d > 1 AND v = 1", true),
        ],
    );
    served(
        &[
            "ON t (l) USING 'sai'",
            "ON t (entries(m)) USING 'sai'",
            "ON t (p) USING 'sai'",
            "ON t (q) USING 'sai'",
        ],
        &[
            ("l CONTAINS 1 AND l CONTAINS 2", true),
            ("m['a'] = 1 AND m['b'] = 2", true),
            ("m CONTAINS 1", false),
            ("p = 1 AND l CONTAINS 1", true),
            ("p > 1 AND q < 3", true),
        ],
    );
    // Two kinds of indexes do not work together.
    served(
        &["ON t (v)", "ON t (w) USING 'sai'"],
        &[("v = 1", true), ("w = 'a'", true), ("v = 1 AND w = 'a'", false)],
    );
}

#[test]
fn local_indexes_serve_one_partition() {
    served(
        &["ON t ((p, q), v)"],
        &[("v = 1", false), ("p = 1 AND v = 1", false), ("p = 1 AND q = 2 AND v = 1", true)],
    );
}

#[test]
fn what_indexes_do_not_serve_is_refused_in_cassandras_words() {
    let db = Db::new(&["i ON t (v)", "a ON t (w) USING 'sai'"]);
    for filtering in ["", " ALLOW FILTERING"] {
        db.refused(&format!("SELECT * FROM ix.t WHERE p IN (1, 2) AND q = 1 AND v = 1{filtering}"), IN_KEY);
        db.refused(
            &format!("SELECT * FROM ix.t WHERE p = 1 AND q = 1 AND v = 1 ORDER BY c{filtering}"),
            "ORDER BY with 2ndary indexes is not supported, except for ANN queries.",
        );
        db.refused(
            &format!("SELECT * FROM ix.t WHERE v != 1{filtering}"),
            "Unsupported \"!=\" relation: v != 1",
        );
        db.refused(
            &format!("SELECT * FROM ix.t WHERE v = null{filtering}"),
            "Unsupported null value for column v",
        );
    }
    db.refused(
        "SELECT * FROM ix.t WHERE w LIKE 'a%'",
        "LIKE restriction is only supported on properly indexed columns. w LIKE 'a%' is not valid.",
    );
    db.refused(
        "SELECT * FROM ix.t WHERE p = 1 AND q = 1 AND c > 1 AND d = 1 AND v = 1",
        "Clustering column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
    );
    db.refused(
        "SELECT DISTINCT p, q FROM ix.t WHERE v = 1",
        "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
    );
    for (name, expect) in [
        ("nope", "Invalid index expression, index nope not found for ix.t"),
        ("a", "Index a does not support custom expressions"),
        ("i", "Only CUSTOM indexes may be used in custom index expressions, i is not valid"),
    ] {
        db.refused(&format!("SELECT * FROM ix.t WHERE expr({name}, 'x')"), expect);
    }
    let several = "SELECT * FROM ix.t WHERE v = 1 AND";
    db.refused(
        &format!("{several} (c, d) > (1, 1) ALLOW FILTERING"),
        "Multi-column slice restrictions cannot be used for filtering.",
    );
    db.refused(
        &format!("{several} (c, d) IN ((1, 1), (2, 2)) ALLOW FILTERING"),
        "IN restrictions are not supported on indexed columns",
    );
    db.gives(&format!("{several} p = 1 AND q = 1 AND (c, d) > (1, 1)"), &[]);
    let long = "x".repeat(65_536);
    db.refused(
        &format!("SELECT * FROM ix.t WHERE w = '{long}'"),
        "Index expression values may not be larger than 64K",
    );
}

#[test]
fn the_order_of_nearest_neighbours_needs_a_vector_index() {
    let db = Db::new(&[]);
    db.run("CREATE TABLE near (k int PRIMARY KEY, v vector<float, 2>, i vector<int, 2>, w int)");
    for (order, expect) in [
        ("v ANN OF [1, 2]", "ANN ordering by vector requires the column to be indexed"),
        ("i ANN OF [1, 2]", "ANN ordering is only supported on float vector indexes"),
        ("w ANN OF [1, 2]", "ANN ordering is only supported on float vector indexes"),
        ("v ANN OF [1, 2] DESC", "Descending ANN ordering is not supported"),
        ("v ANN OF [1, 2], k", "ANN ordering does not support any other ordering"),
        ("v ANN OF [1, 2], i ANN OF [1, 2]", "Cannot specify more than one ANN ordering"),
    ] {
        db.refused(&format!("SELECT * FROM ix.near ORDER BY {order} LIMIT 2"), expect);
    }
}

#[test]
fn rows_are_found_by_every_part_of_a_value() {
    let db = Db::new(&[
        "ON t (v)",
        "ON t (s)",
        "ON t (d)",
        "ON t (q)",
        "ON t (l)",
        "ON t (e)",
        "ON t (keys(m))",
        "ON t (values(m))",
        "ON t (entries(m))",
        "ON t (full(f))",
    ]);
    db.write(
        "INSERT INTO t (p, q, c, d, v, l, e, m, f) VALUES (1, 1, 1, 1, 7, [1, 2], {'a'}, {'k': 1}, [1])",
    );
    db.write(
        "INSERT INTO t (p, q, c, d, v, l, e, m, f) VALUES (1, 1, 2, 1, 7, [2, 3], {'b'}, {'k': 2}, [2])",
    );
    db.write("INSERT INTO t (p, q, c, d, v) VALUES (2, 1, 1, 2, 8)");
    db.write("INSERT INTO t (p, q, s) VALUES (3, 2, 5)");
    db.write("INSERT INTO t (p, q, s) VALUES (1, 1, 6)");
    let key = "SELECT p, q, c, d FROM ix.t WHERE";
    db.gives(&format!("{key} v = 7"), &["1|1|1|1", "1|1|2|1"]);
    db.gives(&format!("{key} v = 9"), &[]);
    db.gives(&format!("{key} p = 1 AND q = 1 AND c = 2 AND v = 7"), &["1|1|2|1"]);
    db.gives(&format!("{key} d = 2"), &["2|1|1|2"]);
    db.gives(&format!("{key} q = 2"), &["3|2||"]);
    db.gives(&format!("{key} s = 5"), &["3|2||"]);
    db.gives(&format!("{key} s = 6"), &["1|1|1|1", "1|1|2|1"]);
    db.gives("SELECT DISTINCT p, q, s FROM ix.t WHERE s = 6", &["1|1|6"]);
    db.gives(&format!("{key} l CONTAINS 2"), &["1|1|1|1", "1|1|2|1"]);
    db.gives(&format!("{key} l CONTAINS 3"), &["1|1|2|1"]);
    db.gives(&format!("{key} e CONTAINS 'a'"), &["1|1|1|1"]);
    db.gives(&format!("{key} m CONTAINS KEY 'k'"), &["1|1|1|1", "1|1|2|1"]);
    db.gives(&format!("{key} m CONTAINS 2"), &["1|1|2|1"]);
    db.gives(&format!("{key} m['k'] = 1"), &["1|1|1|1"]);
    db.gives(&format!("{key} f = [2]"), &["1|1|2|1"]);
    db.gives(&format!("{key} v = 7 LIMIT 1"), &["1|1|1|1"]);
    db.gives("SELECT count(*) FROM ix.t WHERE v = 7", &["2"]);
    db.gives("SELECT p, q, c, sum(v) FROM ix.t WHERE v = 7 GROUP BY p, q, c", &["1|1|1|7", "1|1|2|7"]);
    db.gives("SELECT JSON p, v FROM ix.t WHERE v = 8", &["{\"p\": 2, \"v\": 8}"]);
    db.gives(&format!("{key} v = 7 PER PARTITION LIMIT 1"), &["1|1|1|1"]);
    // Overwritten and deleted values are not found.
    db.write("UPDATE t SET v = 9 WHERE p = 1 AND q = 1 AND c = 1 AND d = 1");
    db.write("DELETE FROM t WHERE p = 1 AND q = 1 AND c = 2 AND d = 1");
    db.gives(&format!("{key} v = 7"), &[]);
    db.gives(&format!("{key} v = 9"), &["1|1|1|1"]);
}

#[test]
fn texts_are_compared_as_the_index_analyses_them() {
    let db = Db::new(&[]);
    db.run("CREATE CUSTOM INDEX ON t (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false', 'ascii': 'true'}");
    db.run("CREATE CUSTOM INDEX ON t (e) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}");
    db.run("CREATE CUSTOM INDEX ON t (keys(m)) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}");
    for (number, word) in ["Quick", "QUICK", "quíck", "slow"].iter().enumerate() {
        db.run(&format!(
            "INSERT INTO t (p, q, c, d, w, e, m) VALUES (1, 1, {number}, 0, '{word}', {{'{word}'}}, {{'{word}': 1}})"
        ));
    }
    db.gives("SELECT w FROM ix.t WHERE w = 'qUICK'", &["Quick", "QUICK", "quíck"]);
    db.gives("SELECT w FROM ix.t WHERE w = 'quick' AND v = 1 ALLOW FILTERING", &[]);
    db.gives("SELECT w FROM ix.t WHERE e CONTAINS 'QuIcK'", &["Quick", "QUICK"]);
    db.gives("SELECT w FROM ix.t WHERE m CONTAINS KEY 'SLOW'", &["slow"]);
    db.gives("SELECT w FROM ix.t WHERE p = 1 AND q = 1 AND c = 1 AND w = 'quick'", &["QUICK"]);
}

#[test]
fn values_that_no_index_takes_are_refused() {
    let db = Db::new(&["i ON t (w)", "ON t (e)", "ON t (keys(m))"]);
    let text = |len: usize| "x".repeat(len);
    let row = |column: &str, value: String| {
        format!("INSERT INTO t (p, q, c, d, {column}) VALUES (1, 1, 1, 1, {value})")
    };
    let refused = |statement: String, expect: &str| {
        assert_eq!(db.try_run(&statement), Err(CqlError::Invalid(expect.to_string())));
    };
    let expect = "Cannot index value of size 65535 for index i on ix.t(w) (maximum allowed size=65535)";
    refused(row("w", format!("'{}'", text(65_535))), expect);
    refused(format!("UPDATE t SET w = '{}' WHERE p = 1 AND q = 1 AND c = 1 AND d = 1", text(65_535)), expect);
    refused(format!("BEGIN BATCH {}; APPLY BATCH", row("w", format!("'{}'", text(65_535)))), expect);
    refused(row("w", format!("'{}'", text(65_535))) + " IF NOT EXISTS", expect);
    db.run(&row("w", format!("'{}'", text(65_534))));
    let db = Db::new(&["ON t (w) USING 'sai'", "ON t (full(f)) USING 'sai'", "ON t (values(m)) USING 'sai'"]);
    assert_eq!(db.try_run(&row("w", format!("'{}'", text(1024)))), Ok(vec![]));
    let warning = "Guardrail sai_string_term_size violated: Value of column 'w' has size 1025, this exceeds the \
                   warning threshold of 1024.";
    assert_eq!(db.try_run(&row("w", format!("'{}'", text(1025)))), Ok(vec![warning.to_string()]));
    let error = "Guardrail sai_string_term_size violated: Value of column 'w' has size 8193, this exceeds the \
                 failure threshold of 8192.";
    assert_eq!(db.try_run(&row("w", format!("'{}'", text(8193)))), Err(CqlError::Invalid(error.to_string())));
}

const INDEXES: [&str; 20] = [
    "ON t (v)",
    "ON t (w)",
    "ON t (s)",
    "ON t (p)",
    "ON t (c)",
    "ON t (d)",
    "ON t (l)",
    "ON t (e)",
    "ON t (keys(m))",
    "ON t (entries(m))",
    "ON t (v) USING 'sai'",
    "ON t (w) USING 'sai'",
    "ON t (s) USING 'sai'",
    "ON t (q) USING 'sai'",
    "ON t (c) USING 'sai'",
    "ON t (d) USING 'sai'",
    "ON t (l) USING 'sai'",
    "ON t (values(m)) USING 'sai'",
    "ON t (full(f))",
    "ON t ((p, q), v)",
];

fn random_write(rng: &mut Rng) -> String {
    let mut small = |below: u64| rng.below(below).to_string();
    let (p, q, c, d) = (small(3), small(2), small(4), small(3));
    let (v, w, x, y) = (small(4), small(3), small(3), small(3));
    match rng.below(10) {
        0 => format!("DELETE FROM t WHERE p = {p} AND q = {q} AND c = {c}"),
        1 => format!("DELETE v, w FROM t WHERE p = {p} AND q = {q} AND c = {c} AND d = {d}"),
        2 => format!("INSERT INTO t (p, q, s) VALUES ({p}, {q}, {v})"),
        3 => format!(
            "UPDATE t SET l = [{x}], m = {{'{y}': {x}}} WHERE p = {p} AND q = {q} AND c = {c} AND d = {d}"
        ),
        4 => format!(
            "UPDATE t SET e = e + {{'{x}'}}, m['{x}'] = {y} WHERE p = {p} AND q = {q} AND c = {c} AND d = {d}"
        ),
        5 => format!("UPDATE t SET v = {v} WHERE p = {p} AND q = {q} AND c = {c} AND d = {d}"),
        _ => format!(
            "INSERT INTO t (p, q, c, d, s, v, w, l, e, m, f) VALUES \
             ({p}, {q}, {c}, {d}, {x}, {v}, '{w}', [{x}, {y}], {{'{w}'}}, {{'{x}': {y}, 'k': {v}}}, [{x}])"
        ),
    }
}

fn random_select(rng: &mut Rng) -> String {
    let number = rng.below(4);
    let op = *rng.pick(&["=", "=", "=", ">", "<="]);
    let mut relations = vec![];
    if rng.chance(1, 4) {
        relations.push(format!("p = {} AND q = {}", rng.below(3), rng.below(2)));
        if rng.chance(1, 2) {
            relations.push(format!("c {op} {number}"));
        }
    } else if rng.chance(1, 6) {
        relations.push("token(p, q) > 0".to_string());
    }
    for _ in 0..1 + rng.below(3) {
        let column = *rng.pick(&["v", "s", "w", "l", "e", "k", "m", "x", "f", "q", "c", "d"]);
        if relations.iter().any(|other| other.split_whitespace().any(|word| word == column)) {
            continue;
        }
        relations.push(match column {
            "w" => format!("w = '{number}'"),
            "l" => format!("l CONTAINS {number}"),
            "e" => format!("e CONTAINS '{number}'"),
            "k" => format!("m CONTAINS KEY '{number}'"),
            "m" => format!("m CONTAINS {number}"),
            "x" => format!("m['k'] = {number}"),
            "f" => format!("f = [{number}]"),
            column => format!("{column} {op} {number}"),
        });
    }
    let columns = *rng.pick(&["*", "*", "p, q, c, d, v", "JSON p, c, s", "count(*), max(c)"]);
    let mut text = format!("SELECT {columns} FROM ix.t WHERE {}", relations.join(" AND "));
    if rng.chance(1, 5) && !columns.starts_with("count") {
        text += &format!(" PER PARTITION LIMIT {}", 1 + rng.below(3));
    }
    if rng.chance(1, 4) {
        text += &format!(" LIMIT {}", 1 + rng.below(6));
    }
    text
}

#[test]
fn rows_are_those_of_a_table_without_indexes() {
    let (mut with_index, mut without_filtering, mut rows_seen) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut indexes: Vec<&str> = vec![];
        for _ in 0..1 + rng.below(4) {
            let index = *rng.pick(&INDEXES);
            if !indexes.contains(&index) {
                indexes.push(index);
            }
        }
        let db = Db::new(&indexes);
        db.node.set_exact_indexes(rng.chance(1, 2));
        if rng.chance(1, 3) {
            db.node.set_page_rows_max(1 + rng.below(3));
        }
        db.node.set_early_ends(seed, seed % 4);
        for _ in 0..rng.below(50) {
            db.write(&random_write(&mut rng));
        }
        for _ in 0..12 {
            let text = random_select(&mut rng);
            let whole = format!("{text} ALLOW FILTERING").replace("ix.t", "no.t");
            let expect = match db.rows(&whole, None) {
                Ok(rows) => rows,
                Err(_) => continue,
            };
            let is_served = match plan(&db.node, &text) {
                Ok(_) => true,
                Err(CqlError::Invalid(error)) if error == NEEDS_FILTERING => false,
                Err(CqlError::Invalid(error)) if error.contains("annot be restricted") => false,
                Err(error) => panic!("seed {seed}: {text}: {error}"),
            };
            let text = if is_served { text } else { format!("{text} ALLOW FILTERING") };
            let uses = plan(&db.node, &text).unwrap().restrictions.uses_index();
            with_index += usize::from(uses);
            without_filtering += usize::from(uses && is_served);
            rows_seen += expect.len();
            for page_rows in [None, Some(1), Some(2), Some(3), Some(7), Some(1000)] {
                let found = db.rows(&text, page_rows);
                let found = found.unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
                assert_eq!(found, expect, "seed {seed}, {indexes:?}, pages of {page_rows:?}: {text}");
            }
        }
    }
    assert!(with_index > 400, "statements with an index: {with_index}");
    assert!(without_filtering > 100, "of them without ALLOW FILTERING: {without_filtering}");
    assert!(rows_seen > 1_000, "rows: {rows_seen}");
}
