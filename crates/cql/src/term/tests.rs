//! Terms: from hand-written syntax trees to serialized values.
use catalog::{Catalog, Keyspace};
use model::CqlType;
use syntax::{Literal, LiteralKind, Marker, Span, Term};

use super::*;

fn catalog() -> Catalog {
    let keyspace = Keyspace::simple("ks").expect("a name");
    Catalog::empty().create_keyspace(keyspace).expect("the first").0
}

fn constant(kind: LiteralKind, text: &str) -> Term {
    Term::Literal(Literal { kind, text: text.to_string(), span: Span::default() })
}

fn int(text: &str) -> Term {
    constant(LiteralKind::Integer, text)
}

fn evaluate(term: &Term, ty: &CqlType) -> Result<Option<Vec<u8>>, String> {
    let catalog = catalog();
    let mut planner = Planner::new(&catalog, "ks", "t", 0);
    let expr = planner.term(term, "v", ty).map_err(|error| error.to_string())?;
    let env = Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 };
    match expr.evaluate(&env).map_err(|error| error.to_string())? {
        Value::Bytes(bytes) => Ok(Some(bytes.into_owned())),
        Value::Null => Ok(None),
        Value::Unset => Err("unset".to_string()),
    }
}

#[test]
fn constants_become_the_bytes_of_the_wanted_type() {
    assert_eq!(evaluate(&int("7"), &CqlType::Int), Ok(Some(vec![0, 0, 0, 7])));
    assert_eq!(evaluate(&int("7"), &CqlType::TinyInt), Ok(Some(vec![7])));
    assert_eq!(evaluate(&int("7"), &CqlType::Double), Ok(Some(7f64.to_be_bytes().to_vec())));
    assert_eq!(evaluate(&Term::Null(Span::default()), &CqlType::Int), Ok(None));
}

#[test]
fn a_constant_of_the_wrong_kind_is_refused_with_the_name_of_the_column() {
    let refused =
        evaluate(&constant(LiteralKind::String, "x"), &CqlType::Int).expect_err("a string is no int");
    assert_eq!(refused, "Invalid STRING constant (x) for \"v\" of type int");
}

#[test]
fn a_constant_that_is_no_value_is_refused_with_the_column_and_a_form() {
    let refused = |kind, text: &str, ty: CqlType| evaluate(&constant(kind, text), &ty).expect_err("no value");
    assert_eq!(
        refused(LiteralKind::String, "yesterday", CqlType::Timestamp),
        "Unable to parse a date/time from 'yesterday'; \"v\" of type timestamp takes a time such as \
         '2024-01-31 13:30:00+0100', or milliseconds since 1970-01-01 UTC"
    );
    assert_eq!(
        refused(LiteralKind::Integer, "300", CqlType::TinyInt),
        "Unable to make byte from '300'; \"v\" of type tinyint takes a whole number from -128 to 127"
    );
    assert_eq!(
        refused(LiteralKind::String, "nowhere", CqlType::Inet),
        "Unable to make inet address from 'nowhere'; \"v\" of type inet takes an address such as '192.0.2.1' or '2001:db8::1'"
    );
}

#[test]
fn sets_are_sorted_and_each_element_is_there_once() {
    let set = Term::Set { elements: vec![int("2"), int("-1"), int("2")], span: Span::default() };
    let bytes = evaluate(&set, &CqlType::set(CqlType::Int)).expect("a set").expect("not null");
    let expected = [&[0, 0, 0, 2][..], &[0, 0, 0, 4, 255, 255, 255, 255], &[0, 0, 0, 4, 0, 0, 0, 2]].concat();
    assert_eq!(bytes, expected);
}

#[test]
fn braces_without_content_are_also_a_map() {
    let empty = Term::Set { elements: vec![], span: Span::default() };
    let map = CqlType::map(CqlType::Int, CqlType::Int);
    assert_eq!(evaluate(&empty, &map), Ok(Some(vec![0, 0, 0, 0])));
}

#[test]
fn of_equal_keys_of_a_map_the_last_one_stays() {
    let entries = vec![(int("1"), int("10")), (int("1"), int("20"))];
    let map = Term::Map { entries, span: Span::default() };
    let bytes =
        evaluate(&map, &CqlType::map(CqlType::TinyInt, CqlType::TinyInt)).expect("a map").expect("not null");
    assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 20]);
}

#[test]
fn markers_get_their_type_and_name() {
    let catalog = catalog();
    let mut planner = Planner::new(&catalog, "ks", "t", 2);
    let marker = |index, name: Option<&str>| {
        Term::Marker(Marker { index, name: name.map(str::to_string), span: Span::default() })
    };
    let tuple = Term::Tuple { elements: vec![marker(0, None), marker(1, Some("x"))], span: Span::default() };
    planner.term(&tuple, "t", &CqlType::tuple([CqlType::Int, CqlType::Int])).expect("a tuple");
    let specs = planner.markers.finish().expect("both are known");
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["t[0]", "x"]);
    assert!(specs.iter().all(|spec| spec.column_type == CqlType::Int));
}
