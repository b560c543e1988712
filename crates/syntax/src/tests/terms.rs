//! Tests of terms, selectors and types.

use crate::ast::{InsertValues, Literal, LiteralKind, SelectItem, Selection, Selector, Statement, Term};

use super::{check, parsed, same, statement};

/// The terms of `VALUES (…)`.
#[track_caller]
fn terms(values: &str) -> Vec<Term> {
    let Statement::Insert(insert) = statement(&format!("INSERT INTO t (a) VALUES ({values})")) else {
        panic!("{values}")
    };
    let InsertValues::Columns { values, .. } = insert.values else { panic!() };
    values
}

#[track_caller]
fn selectors(selection: &str) -> Vec<Selector> {
    let Statement::Select(select) = statement(&format!("SELECT {selection} FROM t")) else {
        panic!("{selection}")
    };
    let Selection::Items(items) = select.selection else { panic!("{selection}") };
    items.into_iter().map(|SelectItem { selector, .. }| selector).collect()
}

#[test]
fn literals_keep_text_and_kind() {
    use LiteralKind::*;
    let text = "'it''s', $$a'b$$, 12345678901234567890123, -1, - 2, 1.5, -1e5, TRUE, 0xAB, \
                550e8400-e29b-41d4-a716-446655440000, 1y2mo, -3h, P1Y, -PT5S, nan, -NAN, infinity, -Infinity, ''";
    let expect = [
        (String, "it's"),
        (String, "a'b"),
        (Integer, "12345678901234567890123"),
        (Integer, "-1"),
        (Integer, "-2"),
        (Float, "1.5"),
        (Float, "-1e5"),
        (Boolean, "TRUE"),
        (Blob, "0xAB"),
        (Uuid, "550e8400-e29b-41d4-a716-446655440000"),
        (Duration, "1y2mo"),
        (Duration, "-3h"),
        (Duration, "P1Y"),
        (Duration, "-PT5S"),
        (Float, "NaN"),
        (Float, "NaN"),
        (Float, "Infinity"),
        (Float, "-Infinity"),
        (String, ""),
    ];
    let found = terms(text);
    assert_eq!(found.len(), expect.len());
    for (term, (kind, text)) in found.iter().zip(expect) {
        let Term::Literal(literal) = term else { panic!("{term:?}") };
        assert_eq!((literal.kind, literal.text.as_str()), (kind, text));
    }
}

#[test]
fn braces_are_sets_maps_and_udts() {
    let found = terms("{}, {1}, {1: 2}, {a: 1}, {f(): 1}, {:a: 1}, {'a'::b}, {ks.f(1), 2}, {\"A\": null}");
    let kind = |term: &Term| match term {
        Term::Set { elements, .. } => format!("set {}", elements.len()),
        Term::Map { entries, .. } => format!("map {}", entries.len()),
        Term::Udt { fields, .. } => format!("udt {}", fields[0].0.text),
        _ => panic!("{term:?}"),
    };
    let kinds: Vec<String> = found.iter().map(kind).collect();
    assert_eq!(kinds, ["set 0", "set 1", "map 1", "udt a", "map 1", "map 1", "map 1", "set 2", "udt A"]);
}

#[test]
fn parentheses_are_hints_and_tuples() {
    assert!(matches!(&terms("(int)?")[0], Term::Hint { .. }));
    assert!(matches!(&terms("(int)-1")[0], Term::Hint { .. }));
    assert!(matches!(&terms("(u)(1, 2)")[0], Term::Hint { .. }));
    assert!(matches!(&terms("('org.x')'a'")[0], Term::Hint { .. }));
    assert!(matches!(&terms("('a')")[0], Term::Tuple { .. }));
    assert!(matches!(&terms("(1)")[0], Term::Tuple { .. }));
    assert!(matches!(&terms("((1, 2), 3)")[0], Term::Tuple { .. }));
    assert!(matches!(&terms("(f(1))")[0], Term::Tuple { .. }));
    assert!(matches!(&selectors("(a)")[0], Selector::Tuple { .. }));
    assert!(matches!(&selectors("(a) AS x")[0], Selector::Tuple { .. }));
    assert!(matches!(&selectors("(a) + 1")[0], Selector::Arithmetic { .. }));
    assert!(matches!(&selectors("(a) - 1")[0], Selector::Arithmetic { .. }));
    assert!(matches!(&selectors("(count(a) + 1) * 2")[0], Selector::Arithmetic { .. }));
    assert!(matches!(&selectors("(text)a.b")[0], Selector::Field { .. }));
}

#[test]
fn operations_bind_as_in_arithmetic() {
    fn nested(term: &Term) -> String {
        match term {
            Term::Arithmetic { op, left, right } => format!("({} {op} {})", nested(left), nested(right)),
            Term::Tuple { elements, .. } => format!("[{}]", nested(&elements[0])),
            term => term.to_string(),
        }
    }
    let found: Vec<String> =
        terms("1 + 2 * 3, 1 - 2 - 3, 1*2/3%4 + 5, (1 + 2) * 3, 1 - -2, 1-2").iter().map(nested).collect();
    let expect = [
        "(1 + (2 * 3))",
        "((1 - 2) - 3)",
        "((((1 * 2) / 3) % 4) + 5)",
        "([(1 + 2)] * 3)",
        "(1 - -2)",
        "(1 - 2)",
    ];
    assert_eq!(found, expect);
}

#[test]
fn markers_are_numbered_in_the_order_of_the_text() {
    let parsed = parsed("UPDATE t USING TTL ? SET a = :x, m[?] = :\"X\" WHERE k = :x AND c IN ? IF v = ?");
    let names: Vec<Option<&str>> = parsed.markers.iter().map(|marker| marker.name.as_deref()).collect();
    assert_eq!(names, [None, Some("x"), None, Some("X"), Some("x"), None, None]);
    assert!(parsed.markers.iter().enumerate().all(|(i, marker)| marker.index == i));
}

#[test]
fn types_read_and_print() {
    let types = "a ascii, b frozen<map<text, list<int>>>, c tuple<int, frozen<set<uuid>>>, d vector<float, 3>, \
                 e u, f ks.u, g \"U\", h frozen<u>, i 'org.x.Y', j \"int\", k ks.\"text\", l map, m \"byte\"";
    same(&format!("CREATE TYPE u ({types})"));
    check(
        "CREATE TYPE u (a INT, b VARCHAR, c Frozen < List<Key> >)",
        "CREATE TYPE u (a int, b varchar, c frozen<list<key>>)",
    );
}

#[test]
fn names_print_in_quotes_where_they_need_them() {
    same("SELECT \"A\", \"select\", \"a b\", \"a\"\"b\", \"1a\", \"true\", key, \"\" FROM \"Ks\".\"table\"");
    check("SELECT ABC, \"abc\", Ttl, Values FROM KS.T", "SELECT abc, abc, ttl, values FROM ks.t");
}

#[test]
fn spans_are_where_names_and_terms_stand() {
    let text = "INSERT INTO t (\"Aé\", b) VALUES ('é', [1, 2])";
    let Statement::Insert(insert) = statement(text) else { panic!() };
    let InsertValues::Columns { columns, values } = insert.values else { panic!() };
    let cut = |span: crate::ast::Span| &text[span.start as usize..span.end as usize];
    assert_eq!([cut(columns[0].span), cut(columns[1].span)], ["\"Aé\"", "b"]);
    assert_eq!([cut(values[0].span()), cut(values[1].span())], ["'é'", "[1, 2]"]);
    assert_eq!(cut(insert.table.span()), "t");
    let Term::Literal(Literal { text, .. }) = &values[0] else { panic!() };
    assert_eq!(text, "é");
}
