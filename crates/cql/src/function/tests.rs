//! Functions as terms: evaluation of constants when a statement is prepared.

use catalog::{Catalog, Keyspace};
use syntax::{InsertValues, Statement, parse};

use super::*;

fn evaluate(text: &str, ty: &CqlType) -> Result<Option<String>, String> {
    let statement = format!("INSERT INTO ks.t (a) VALUES ({text})");
    let parsed = parse(&statement).map_err(|error| error.to_string())?;
    let Statement::Insert(insert) = parsed.statement else { panic!("an INSERT") };
    let InsertValues::Columns { values, .. } = &insert.values else { panic!("with values") };
    let keyspace = Keyspace::simple("ks").expect("a name");
    let catalog = Catalog::empty().create_keyspace(keyspace).expect("the first").0;
    let mut planner = Planner::new(&catalog, "ks", "t", parsed.markers.len());
    let expr = planner.term(&values[0], "a", ty).map_err(|error| error.to_string())?;
    let env = Env { bound: &[], inputs: &[], now_us: 1_700_000_000_123_456, random: &|| 7 };
    match expr.evaluate(&env).map_err(|error| error.to_string())? {
        Value::Bytes(bytes) => {
            ty.validate(&bytes).map_err(|error| error.to_string())?;
            Ok(Some(ty.text_of(&bytes).replace('\'', "")))
        }
        Value::Null | Value::Unset => Ok(None),
    }
}

/// The clock of [`evaluate`], as text.
fn moment() -> String {
    CqlType::Timestamp.text_of(&1_700_000_000_123i64.to_be_bytes()).replace('\'', "")
}

#[track_caller]
fn check(text: &str, ty: &CqlType, expected: &str) {
    assert_eq!(evaluate(text, ty), Ok(Some(expected.to_string())), "{text}");
}

#[test]
fn an_error_of_a_function_of_one_kind_names_the_argument() {
    assert_eq!(
        evaluate("textAsBlob(1)", &CqlType::Blob),
        Err("Type error: 1 cannot be passed as argument 0 of function system.textasblob of type text".into())
    );
    assert_eq!(
        evaluate("uuid(1)", &CqlType::Uuid),
        Err("Invalid number of arguments in call to function system.uuid: 0 required but 1 provided".into())
    );
    assert_eq!(
        evaluate("uuid()", &CqlType::Int),
        Err("Type error: cannot assign result of function system.uuid (type uuid) to a (type int)".into())
    );
}

#[test]
fn strings_are_joined() {
    check("'a' + 'b' + 'c'", &CqlType::Text, "abc");
    check("(ascii) 'a' + (ascii) 'b'", &CqlType::Ascii, "ab");
    assert!(evaluate("'a' - 'b'", &CqlType::Text).is_err());
}

#[test]
fn numbers_are_calculated_in_the_type_that_is_wanted() {
    check("1 + 2 * 3", &CqlType::TinyInt, "7");
    check("7 / 2", &CqlType::Int, "3");
    check("7 / 2", &CqlType::Decimal, "3.5");
    check("1.5 + 1", &CqlType::Double, "2.5");
    check("(int) 7 % 4", &CqlType::Int, "3");
    check("(int) 2147483647 + 1", &CqlType::Int, "-2147483648");
    check("1.0 / 3", &CqlType::Decimal, "0.33333333333333333333333333333333");
    check("-(5 + 1)", &CqlType::BigInt, "-6");
    let refused = evaluate("1 + 1e20000", &CqlType::Decimal).expect_err("a number of 20,000 digits");
    assert!(refused.contains("too long to calculate with"), "{refused}");
}

/// Expected values are those of Java's `Math.round` and `BigDecimal.setScale(0, HALF_UP)`.
#[test]
fn numbers_are_rounded_as_java_does() {
    for (value, expect) in [
        ("0.49999999999999994", "0.0"),
        ("0.5", "1.0"),
        ("1.5", "2.0"),
        ("2.5", "3.0"),
        ("-0.5", "0.0"),
        ("-0.3", "0.0"),
        ("-0.5000000000000001", "-1.0"),
        ("-1.5", "-1.0"),
        ("-2.5", "-2.0"),
        // Odd integers whose sum with 0.5 is not a double.
        ("4503599627370497.0", "4.503599627370497E15"),
        ("9007199254740991.0", "9.007199254740991E15"),
        ("-4503599627370497.0", "-4.503599627370497E15"),
        ("1e300", "9.223372036854776E18"),
        ("-1e300", "-9.223372036854776E18"),
        ("Infinity", "9.223372036854776E18"),
        ("-Infinity", "-9.223372036854776E18"),
        ("NaN", "0.0"),
    ] {
        check(&format!("round((double) {value})"), &CqlType::Double, expect);
    }
    for (value, expect) in [
        ("0.49999997", "0.0"),
        ("0.5", "1.0"),
        ("-0.5", "0.0"),
        ("-2.5", "-2.0"),
        ("8388609.0", "8388609.0"),
        ("1e20", "2.1474836E9"),
        ("-Infinity", "-2.1474836E9"),
        ("NaN", "0.0"),
    ] {
        check(&format!("round((float) {value})"), &CqlType::Float, expect);
    }
    for (value, expect) in [("0.5", "1"), ("-0.5", "-1"), ("2.5", "3"), ("-2.5", "-3"), ("1e3", "1000")] {
        check(&format!("round((decimal) {value})"), &CqlType::Decimal, expect);
    }
    check(
        "round((varint) 123456789012345678901234567890)",
        &CqlType::Varint,
        "123456789012345678901234567890",
    );
}

#[test]
fn functions_of_integers_keep_their_type_and_varints_all_digits() {
    check("abs((tinyint) -128)", &CqlType::TinyInt, "-128");
    check("abs((int) -5)", &CqlType::Int, "5");
    check("exp((int) 100)", &CqlType::Int, "2147483647");
    check("log((int) 0)", &CqlType::Int, "-2147483648");
    check("log((int) -1)", &CqlType::Int, "0");
    check("log10((bigint) 1000)", &CqlType::BigInt, "3");
    check("exp((varint) 100)", &CqlType::Varint, "26881171418161354484126255515800000000000000");
    check("log10((varint) 100000000000000000000)", &CqlType::Varint, "20");
    assert!(evaluate("log((varint) 0)", &CqlType::Varint).unwrap_err().contains("zero or less"));
    check("abs((double) -Infinity)", &CqlType::Double, "Infinity");
    check("abs((decimal) -1.50)", &CqlType::Decimal, "1.50");
}

#[test]
fn casts_narrow_as_java_does() {
    check("CAST(300 AS tinyint)", &CqlType::TinyInt, "44");
    check("CAST(1e20 AS int)", &CqlType::Int, "2147483647");
    check("CAST(-1.9 AS bigint)", &CqlType::BigInt, "-1");
    check("CAST(1.5 AS decimal)", &CqlType::Decimal, "1.5");
    check("CAST(true AS text)", &CqlType::Text, "true");
}

#[test]
fn times_and_uuids() {
    check("currenttimestamp()", &CqlType::Timestamp, &moment());
    check("to_timestamp(now())", &CqlType::Timestamp, &moment());
    check("unixtimestampof(mintimeuuid('1970-01-01 00:00:01+0000'))", &CqlType::BigInt, "1000");
    check("unixtimestampof(max_timeuuid('1970-01-01 00:00:01+0000'))", &CqlType::BigInt, "1000");
    let uuid = evaluate("uuid()", &CqlType::Uuid).expect("a UUID").expect("not null");
    assert_eq!(&uuid[14..15], "4", "a random UUID: {uuid}");
    check("(date) '2024-03-31' - 1mo", &CqlType::Date, "2024-02-29");
}

#[test]
fn overloads_and_errors() {
    assert!(
        evaluate("to_date(?)", &CqlType::Date)
            .expect_err("two fit")
            .starts_with("Ambiguous call to function to_date")
    );
    assert_eq!(evaluate("foo(1)", &CqlType::Int), Err("Unknown function foo called".to_string()));
    let refused = evaluate("blobasint(0x01)", &CqlType::Int).expect_err("one byte");
    assert!(refused.contains("is not a valid binary representation for type int"), "{refused}");
    assert_eq!(evaluate("intasblob(null)", &CqlType::Blob), Ok(None));
}

#[test]
fn masks_hide_values_and_nulls() {
    let text = &CqlType::Text;
    for (call, expect) in [
        ("mask_default((text) 'text')", "****"),
        ("mask_replace((text) 'text', 'q')", "q"),
        ("mask_inner((text) 'text', 1, 1)", "t**t"),
        ("mask_inner((text) 'text', 1, null)", "t***"),
        ("mask_inner('text', null, 1, '#')", "###t"),
        ("mask_outer('text', 1, 1)", "*ex*"),
        ("mask_inner('text', 10, 10)", "text"),
        ("mask_outer('text', 0, 0)", "text"),
        ("mask_inner('text', -1, 1)", "***t"),
    ] {
        check(call, text, expect);
    }
    check("mask_default((int) 7)", &CqlType::Int, "0");
    check("mask_default((int) null)", &CqlType::Int, "0");
    check(
        "mask_default((timeuuid) 50554d6e-29bb-11e5-b345-feff819cdc9f)",
        &CqlType::TimeUuid,
        "13814000-1dd2-11b2-8080-808080808080",
    );
    let vector = CqlType::vector(CqlType::Float, 2).unwrap();
    check("mask_default((vector<float, 2>) [1, 2])", &vector, "[0.0, 0.0]");
    for null in ["mask_null((text) 'a')", "mask_replace((text) 'a', null)", "mask_inner(null, 1, 1)"] {
        assert_eq!(evaluate(null, text), Ok(None), "{null}");
    }
    // Hashes of `text` computed with coreutils.
    check("mask_hash((text) 'text', 'MD5')", &CqlType::Blob, "0x1cb251ec0d568de6a929b520c4aed8d1");
    let sha256 = "0x982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1";
    check("mask_hash((text) 'text')", &CqlType::Blob, sha256);
    check("mask_hash((text) 'text', 'sha-256')", &CqlType::Blob, sha256);
    let refused = |call: &str, expect: &str| {
        let error = evaluate(call, text).unwrap_err();
        assert!(error.contains(expect), "{call}: {error}");
    };
    refused("mask_inner('text', 1, 1, '##')", "should be single-character, but '##' has 2 characters");
    refused("mask_replace((int) 1, 'x')", "cannot be passed as argument 1");
    assert!(
        evaluate("mask_hash((text) 'a', 'NOPE')", &CqlType::Blob).unwrap_err().contains("not found: NOPE")
    );
}

#[test]
fn a_string_is_a_time_where_one_is_wanted() {
    check("'2020-01-01' + 1d", &CqlType::Date, "2020-01-02");
    check("'Now'", &CqlType::Timestamp, &moment());
    assert!(evaluate("'now'", &CqlType::Date).is_err());
    check("'2020-01-01' - 1d", &CqlType::Date, "2019-12-31");
    assert!(evaluate("'2020-01-01' + 1d", &CqlType::Text).is_err());
    let error = evaluate("(date) '2020-01-01' + 1h", &CqlType::Date).unwrap_err();
    assert!(
        error.contains("'date + duration' failed: The duration must have a day precision. Was: 1h"),
        "{error}"
    );
}
