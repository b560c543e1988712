//! SELECT, DESCRIBE, TRUNCATE, USE.

use crate::ast::{
    CompareOp, DescribeTarget, InValues, Ordering, Relation, RelationTarget, Select, Selection, Selector,
    Statement, Term,
};

use super::{check, same, statement};

#[track_caller]
fn select(text: &str) -> Select {
    let Statement::Select(select) = statement(text) else { panic!("{text}") };
    *select
}

#[test]
fn every_clause_in_its_place() {
    let all = "SELECT DISTINCT a AS b, COUNT(*) FROM ks.t WHERE k = ? AND c IN (1, 2) GROUP BY k, floor(c, 1h) \
               ORDER BY c DESC, d PER PARTITION LIMIT 2 LIMIT :n ALLOW FILTERING BYPASS CACHE USING TIMEOUT 1s";
    same(all);
    let found = select(all);
    assert!(found.distinct && !found.json && found.allow_filtering && found.bypass_cache);
    assert_eq!(found.table.keyspace.unwrap().text, "ks");
    assert_eq!((found.relations.len(), found.group_by.len()), (2, 2));
    assert_eq!(found.order_by[0].ordering, Ordering::Descending);
    assert_eq!(found.order_by[1].ordering, Ordering::Ascending);
    assert!(matches!(found.limit, Some(Term::Marker(marker)) if marker.index == 1));
    assert!(found.using.timeout.is_some());
}

#[test]
fn json_and_distinct_are_words_and_names() {
    let words = |text: &str| {
        let found = select(&format!("SELECT {text} FROM t"));
        (found.json, found.distinct)
    };
    assert_eq!(words("JSON a"), (true, false));
    assert_eq!(words("JSON *"), (true, false));
    assert_eq!(words("DISTINCT a, b"), (false, true));
    assert_eq!(words("JSON DISTINCT a"), (true, true));
    assert_eq!(words("DISTINCT json"), (false, true));
    assert_eq!(words("DISTINCT token(a)"), (false, true));
    assert_eq!(words("DISTINCT (a)"), (false, true));
    // If the next token can begin a selector, the word is a modifier, as in Cassandra.
    for selector in
        ["-v", "- 5", "-(v)", "['a']", "{'a'}", "(int) v", "'a'", "?", "count(*)", "null", "ttl(v)"]
    {
        assert_eq!(words(&format!("JSON {selector}")), (true, false), "{selector}");
        assert_eq!(words(&format!("DISTINCT {selector}")), (false, true), "{selector}");
        assert_eq!(words(&format!("JSON DISTINCT {selector}")), (true, true), "{selector}");
    }
    for name in
        ["json", "json, a", "json AS x", "json + 1", "json * 2", "json.f", "distinct.f", "distinct, json"]
    {
        assert_eq!(words(name), (false, false), "{name}");
    }
    assert_eq!(select("SELECT * FROM t").selection, Selection::All);
}

#[test]
fn relations_know_their_targets() {
    let found = select(
        "SELECT * FROM t WHERE a = 1 AND token(a, b) > ? AND (a, b) <= (1, 2) AND (a, b) IN ((1, 2), (3, 4)) \
         AND m['k'] = 'v' AND l CONTAINS 1 AND m CONTAINS KEY 2 AND s LIKE 'x' AND v IS NOT NULL AND c IN ? \
         AND ((d) = (1)) AND (e > 5)",
    );
    let ops: Vec<String> = found
        .relations
        .iter()
        .map(|relation| match relation {
            Relation::Compare { target, op, .. } => format!(
                "{} {op}",
                match target {
                    RelationTarget::Column(_) => "column",
                    RelationTarget::Element { .. } => "element",
                    RelationTarget::Field { .. } => "field",
                    RelationTarget::Token { .. } => "token",
                    RelationTarget::Tuple { .. } => "tuple",
                }
            ),
            Relation::In { values: InValues::List(values), .. } => format!("in {}", values.len()),
            Relation::In { values: InValues::Marker(_), .. } => "in ?".to_string(),
            Relation::IsNotNull { .. } => "is not null".to_string(),
            Relation::IndexExpression { .. } => "expr".to_string(),
        })
        .collect();
    let expect = [
        "column =",
        "token >",
        "tuple <=",
        "in 2",
        "element =",
        "column CONTAINS",
        "column CONTAINS KEY",
        "column LIKE",
        "is not null",
        "in ?",
        "tuple =",
        "column >",
    ];
    assert_eq!(ops, expect);
    assert!(matches!(found.relations[0], Relation::Compare { op: CompareOp::Eq, .. }));
}

#[test]
fn counting_rows() {
    let selector = |text: &str| match select(&format!("SELECT {text} FROM t")).selection {
        Selection::Items(mut items) => items.remove(0).selector,
        Selection::All => panic!(),
    };
    assert!(matches!(selector("COUNT(*)"), Selector::CountRows(_)));
    assert!(matches!(selector("count( 1 )"), Selector::CountRows(_)));
    assert!(matches!(selector("count('x')"), Selector::CountRows(_)));
    assert!(matches!(selector("count(a)"), Selector::Call { .. }));
    assert!(matches!(selector("count(null)"), Selector::Call { .. }));
    assert!(matches!(selector("count"), Selector::Column(_)));
    check("SELECT count(1) FROM t", "SELECT COUNT(*) FROM t");
}

#[test]
fn slices_and_elements() {
    check(
        "SELECT s[1..3], s[1.5..2], s[..3], s[ 1 .. ] FROM t",
        "SELECT s[1 ..3], s[1.5 ..2], s[..3], s[1 ..] FROM t",
    );
    same("SELECT m['a'].b[1], f(a).b, (a, b).c FROM t");
}

#[test]
fn nearest_neighbours() {
    let found = select("SELECT * FROM t ORDER BY v ANN OF [1.0, ?] LIMIT 3");
    assert!(matches!(found.order_by[0].ann_of, Some(Term::List { .. })));
    assert!(select("SELECT * FROM t ORDER BY ann").order_by[0].ann_of.is_none());
}

#[test]
fn describe() {
    let target = |text: &str| match statement(text) {
        Statement::Describe(describe) => describe.target,
        other => panic!("{other:?}"),
    };
    assert_eq!(target("DESC SCHEMA"), DescribeTarget::Schema { full: false });
    assert_eq!(target("DESC FULL SCHEMA"), DescribeTarget::Schema { full: true });
    assert_eq!(target("DESC KEYSPACE"), DescribeTarget::Keyspace { name: None, only: false });
    assert!(matches!(target("DESC ONLY KEYSPACE a"), DescribeTarget::Keyspace { name: Some(_), only: true }));
    assert!(matches!(target("DESC TABLE ks.t"), DescribeTarget::Table(_)));
    assert!(matches!(target("DESC type u"), DescribeTarget::Type(_)));
    for name in
        ["DESC type", "DESC \"TABLES\"", "DESC tables.t", "DESC ks.tables", "DESC only", "DESC function"]
    {
        assert!(matches!(target(name), DescribeTarget::Any(_)), "{name}");
    }
    same("DESCRIBE TABLE t WITH INTERNALS");
    same("DESCRIBE \"cluster\"");
}

#[test]
fn truncate_and_use() {
    check("truncate ks.t;", "TRUNCATE TABLE ks.t");
    check("TRUNCATE columnfamily t USING TIMEOUT ?", "TRUNCATE TABLE t USING TIMEOUT ?");
    same("USE \"Ks\"");
}

/// Each unreserved keyword can be used without quotes wherever a name of an allowed kind is expected.
#[test]
fn words_that_are_not_reserved_are_names_everywhere() {
    for &keyword in crate::Keyword::ALL.iter().filter(|keyword| !keyword.is_reserved()) {
        let word = keyword.text().to_ascii_lowercase();
        for text in [
            "SELECT ~ FROM ~",
            "SELECT a, ~ AS ~, ~ + 1 FROM ~.~ WHERE ~ = 1 AND ~ > 2 AND (~, b) > (1, 2) AND token(~) > 3",
            "SELECT DISTINCT ~ FROM t",
            "SELECT JSON ~ FROM t",
            "SELECT JSON DISTINCT ~ FROM t",
            "SELECT JSON -~ FROM t",
            "SELECT -~, ttl(~), writetime(~), CAST(~ AS text), count(~), ~.~, f(~) FROM t",
            "SELECT a FROM t GROUP BY ~ ORDER BY ~ DESC PER PARTITION LIMIT 1 LIMIT 2",
            "INSERT INTO ~ (~, b) VALUES (1, 2) IF NOT EXISTS",
            "INSERT INTO ~ JSON '{}'",
            "UPDATE ~ SET ~ = 1, ~ = ~ + 1, ~.~ = 2, ~[3] = 4, ~ += 1 WHERE ~ = 1 IF ~ = 2 AND ~.~ = 3 AND ~[1] = 2",
            "DELETE ~, ~.~, ~[1] FROM ~ WHERE ~ IN (1, 2) IF ~ = 1",
            "TRUNCATE ~",
            "USE ~",
            "CREATE TABLE ~.~ (~ int, b text, PRIMARY KEY (~, b)) WITH CLUSTERING ORDER BY (~ ASC)",
            "CREATE TABLE t (~ int PRIMARY KEY, b int STATIC)",
            "ALTER TABLE ~ ADD ~ int",
            "ALTER TABLE ~ DROP ~",
            "ALTER TABLE ~ RENAME ~ TO b",
            "DROP TABLE ~",
            "CREATE TYPE a (~ int)",
            "ALTER TYPE a RENAME ~ TO b",
            "CREATE KEYSPACE ~ WITH replication = {'class': 'SimpleStrategy'}",
            "DROP KEYSPACE ~",
            "DESCRIBE KEYSPACE ~",
        ] {
            let text = text.replace('~', &word);
            if let Err(error) = crate::parse(&text) {
                panic!("{text}: {error}");
            }
        }
        let is_function = crate::parse(&format!("SELECT {word}(a, b) FROM t")).is_ok();
        assert_eq!(is_function, keyword.names_function() || word == "distinct" || word == "json", "{word}");
    }
}
