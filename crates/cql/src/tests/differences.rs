//! Behaviour of Cassandra 5.0 that was once different here.

use model::types::{CollectionBuilder, build_tuple};

use super::*;

fn ints(values: &[i32]) -> Vec<u8> {
    let mut out = CollectionBuilder::new();
    values.iter().for_each(|value| out.push(&value.to_be_bytes()));
    out.finish()
}

#[test]
fn long_elements_and_map_keys_are_stored() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, s set<text>, m map<text, int>, fs frozen<set<text>>, fm frozen<map<text, int>>)",
    ]);
    let long = "x".repeat(70_000);
    session.all(&[
        &format!("INSERT INTO t (k, s, m, fs, fm) VALUES (1, {{'{long}'}}, {{'{long}': 1}}, {{'{long}'}}, {{'{long}': 2}})"),
        &format!("UPDATE t SET s = s + {{'{long}y'}}, m['{long}y'] = 3 WHERE k = 1"),
    ]);
    session.check(
        "SELECT s, m, fs, fm FROM t",
        &[&format!("{{{long}, {long}y}}|{{{long}: 1, {long}y: 3}}|{{{long}}}|{{{long}: 2}}")],
    );
    session.all(&[&format!("DELETE s['{long}'], m['{long}'] FROM t WHERE k = 1")]);
    session.check("SELECT s, m FROM t", &[&format!("{{{long}y}}|{{{long}y: 3}}")]);
}

#[test]
fn bound_sets_and_maps_are_stored_in_order() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, s frozen<set<int>>, n frozen<map<frozen<set<int>>, int>>, \
         u tuple<int, set<int>>)",
    ]);
    let mut map = CollectionBuilder::new();
    for (key, value) in [(&[4, 3][..], 1i32), (&[2, 1], 2)] {
        map.push(&ints(key));
        map.push(&value.to_be_bytes());
    }
    let tuple = build_tuple([Some(&1i32.to_be_bytes()[..]), Some(&ints(&[9, 8]))]);
    session
        .bound(
            "INSERT INTO t (k, s, n, u) VALUES (1, ?, ?, ?)",
            &[Value::Bytes(&ints(&[3, 1, 2, 1])), Value::Bytes(&map.finish_map()), Value::Bytes(&tuple)],
        )
        .unwrap();
    session.check("SELECT s, n, u FROM t", &["{1, 2, 3}|{{1, 2}: 2, {3, 4}: 1}|(1, {8, 9})"]);
    session.check("SELECT k FROM t WHERE s = {3, 2, 1} ALLOW FILTERING", &["1"]);
    let found = session.bound(
        "SELECT k FROM t WHERE s = ? AND u = ? ALLOW FILTERING",
        &[Value::Bytes(&ints(&[2, 3, 1])), Value::Bytes(&tuple)],
    );
    assert_eq!(found, Ok(vec!["1".to_string()]));
}

#[test]
fn keys_are_long_up_to_64_kib_in_total() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (a blob, b blob, c blob, PRIMARY KEY (a, b, c))"]);
    let insert = |b: usize, c: usize| {
        session.bound(
            "INSERT INTO t (a, b, c) VALUES (0x01, ?, ?)",
            &[Value::Bytes(&vec![1; b]), Value::Bytes(&vec![2; c])],
        )
    };
    assert!(insert(32_777, 32_758).is_ok());
    let refused = |found: Result<Vec<String>, String>, len: usize| {
        assert_eq!(found, Err(format!("Key length of {len} is longer than maximum of 65535")));
    };
    refused(insert(32_777, 32_777), 65_554);
    refused(insert(1, 65_536), 65_537);
    session.all(&["CREATE TABLE p (a blob, b blob, PRIMARY KEY ((a, b)))"]);
    let insert = |a: usize, b: usize| {
        session.bound(
            "INSERT INTO p (a, b) VALUES (?, ?)",
            &[Value::Bytes(&vec![1; a]), Value::Bytes(&vec![2; b])],
        )
    };
    refused(insert(32_777, 32_777), 65_560);
    refused(insert(32_777, 65_536), 65_536);
}

#[test]
fn a_type_may_be_named_with_its_keyspace() {
    let session = Session::new();
    session.all(&[
        "CREATE TYPE ty (a int)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, u frozen<ks.ty>, v ks.ty, l list<frozen<ks.ty>>)",
        "INSERT INTO t (k, u, v, l) VALUES (1, {a: 1}, {a: 2}, [{a: 3}])",
    ]);
    session.check("SELECT u, v, l FROM t", &["{a: 1}|{a: 2}|[{a: 3}]"]);
    session.refused(
        "CREATE TABLE x (k int PRIMARY KEY, u frozen<other.ty>)",
        "cannot refer to a user type in keyspace other",
    );
}

#[test]
fn a_tuple_may_be_written_as_a_string() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, t frozen<tuple<int, text, double>>)",
        "INSERT INTO t (k, t) VALUES (1, '0:\"a\":2.5')",
        "INSERT INTO t (k, t) VALUES (2, '3:@:1')",
        "INSERT INTO t (k, t) VALUES (3, '4:x\\:y')",
    ]);
    session.check("SELECT t FROM t WHERE k IN (1, 2, 3)", &["(0, \"a\", 2.5)", "(3, null, 1.0)", "(4, x:y)"]);
    session.refused(
        "INSERT INTO t (k, t) VALUES (1, '1:1:1:1')",
        "Invalid tuple literal: too many elements. Type frozen<tuple<int, text, double>> expects 3 but got 4",
    );
}

#[test]
fn null_sorts_first_and_in_reverse_last() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (a int, b int, c int, s int static, d int, PRIMARY KEY (a, b, c))",
        "INSERT INTO t (a, b, c, d) VALUES (1, 1, 1, 1)",
        "INSERT INTO t (a, b, c, d) VALUES (1, 1, 2, 1)",
        "INSERT INTO t (a, b, c, d) VALUES (2, 1, 1, 1)",
        "INSERT INTO t (a, b, c, d) VALUES (2, 2, 2, 1)",
        "UPDATE t SET s = 1 WHERE a = 1",
        "UPDATE t SET s = 2 WHERE a = 2",
        "UPDATE t SET s = 3 WHERE a = 3",
    ]);
    session.check(
        "SELECT a, b, c, s FROM t WHERE a IN (1, 2, 3) ORDER BY b DESC",
        &["2|2|2|2", "1|1|2|1", "1|1|1|1", "2|1|1|2", "3|||3"],
    );
    session.check(
        "SELECT a, b, c, s FROM t WHERE a IN (1, 2, 3) ORDER BY b ASC",
        &["3|||3", "1|1|1|1", "1|1|2|1", "2|1|1|2", "2|2|2|2"],
    );
    session
        .check("SELECT a, c FROM t WHERE a IN (1, 2, 3) ORDER BY b, c", &["3|", "1|1", "2|1", "1|2", "2|2"]);
}

#[test]
fn operations_on_one_list_see_each_other() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, l list<int>)",
        "INSERT INTO t (k, l) VALUES (1, [1, 2, 3, 4])",
    ]);
    for (statement, expected) in [
        ("UPDATE t SET l[2] = 7, l[2] = 8 WHERE k = 1", "[1, 2, 8, 4]"),
        ("UPDATE t SET l[2] = 9, l[2] = 6 WHERE k = 1", "[1, 2, 9, 4]"),
        ("DELETE l[2], l[2] FROM t WHERE k = 1", "[1, 2]"),
        ("UPDATE t SET l = l + [3, 4], l[3] = 7 WHERE k = 1", "[1, 2, 3, 7]"),
        ("UPDATE t SET l = l + [6, 8], l[4] = 5 WHERE k = 1", "[1, 2, 3, 7, 6, 8]"),
        ("UPDATE t SET l = l - [1], l = l + [1], l = [0] + l WHERE k = 1", "[0, 2, 3, 7, 6, 8, 1]"),
    ] {
        session.all(&[statement]);
        session.check("SELECT l FROM t", &[expected]);
    }
    session.refused(
        "UPDATE t SET l[9] = 1, l = l + [1, 2, 3] WHERE k = 1",
        "List index 9 out of bound, list has size 7",
    );
}

#[test]
fn markers_in_operations_get_the_only_type_that_fits() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (pk int, c tinyint, v text, PRIMARY KEY (pk, c))",
        "INSERT INTO t (pk, c, v) VALUES (2, 2, 'x')",
        "CREATE TABLE times (pk int, time timestamp, v int, PRIMARY KEY (pk, time))",
        "INSERT INTO times (pk, time, v) VALUES (1, '2016-09-27 16:00:00+0000', 1)",
    ]);
    let one = session.bound("SELECT v FROM t WHERE pk = 2 AND c = 1 + ?", &[Value::Bytes(&[1])]);
    assert_eq!(one, Ok(vec!["x".to_string()]));
    for (text, args) in [
        ("SELECT * FROM t WHERE pk = ? + 1 AND c = 2", "? and 1"),
        ("SELECT 1 + ?, v FROM t WHERE pk = 2 AND c = 2", "1 and ?"),
    ] {
        session.refused(
            text,
            &format!(
                "Ambiguous '+' operation with args {args}: use type hint to disambiguate, example '(int) ?'"
            ),
        );
    }
    session.refused("SELECT time + ? FROM times", "Ambiguous '+' operation with args time and ?");
    let time_ms: i64 = 1_474_993_200_000;
    // 2016-09-27 16:20
    let found = session.bound(
        "SELECT v FROM times WHERE pk = 1 AND time = ? - 20m",
        &[Value::Bytes(&time_ms.to_be_bytes())],
    );
    assert_eq!(found, Ok(vec!["1".to_string()]));
    let found = session.bound(
        "SELECT v FROM times WHERE pk = 1 AND time <= ? - 5m",
        &[Value::Bytes(&time_ms.to_be_bytes())],
    );
    assert_eq!(found, Ok(vec!["1".to_string()]));
}

#[test]
fn arithmetic_follows_java() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (a int PRIMARY KEY, b double, c decimal)",
        "INSERT INTO t (a, b, c) VALUES (1, NaN, 1)",
        "INSERT INTO t (a, b, c) VALUES (2, Infinity, 200)",
    ]);
    session.check("SELECT a + NAN, b + 1 FROM t WHERE a = 1", &["NaN|NaN"]);
    session.check("SELECT b + 1, -b, b - b FROM t WHERE a = 2", &["Infinity|-Infinity|NaN"]);
    session.refused(
        "SELECT c + NAN FROM t",
        "the operation 'decimal + double' failed: A NaN cannot be converted into a decimal",
    );
    session.refused(
        "SELECT c + b FROM t WHERE a = 2",
        "the operation 'decimal + double' failed: An infinite number cannot be converted into a decimal",
    );
    session.check("SELECT c / (decimal) 3 FROM t WHERE a = 1", &["0.33333333333333333333333333333333"]);
    session.check("SELECT c / (decimal) 2 FROM t WHERE a = 2", &["1E+2"]);
    session.check("SELECT c / (decimal) 3e20 FROM t WHERE a = 1", &["3.3333333333333333333333333333333E-21"]);
}

#[test]
fn errors_of_functions_are_cassandras() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k1 uuid, k2 text, v counter, PRIMARY KEY ((k1, k2)))",
        "CREATE TABLE u (k int PRIMARY KEY, a ascii, b text)",
    ]);
    for (text, expected) in [
        (
            "SELECT token(k2, k1) FROM t",
            "Type error: k2 cannot be passed as argument 0 of function system.token of type uuid",
        ),
        (
            "SELECT token(k1) FROM t",
            "Invalid number of arguments in call to function system.token: 2 required but 1 provided",
        ),
        (
            "SELECT * FROM u WHERE token(k) > token('a')",
            "Type error: 'a' cannot be passed as argument 0 of function system.token of type int",
        ),
        (
            "SELECT * FROM u WHERE token(k) > 'a'",
            "Invalid STRING constant (a) for \"partition key token\" of type bigint",
        ),
        ("SELECT * FROM u WHERE k = max(1)", "Aggregation function are not supported in the where clause"),
        ("INSERT INTO u (k) VALUES (count(1))", "Aggregation function are not supported in the where clause"),
        ("SELECT counterAsBlob(v) FROM t", "Unknown function 'counterasblob'"),
        ("SELECT blobAsCounter(0x01) FROM t", "Unknown function 'blobascounter'"),
        ("INSERT INTO u (k, a) VALUES (1, 'é')", "Invalid ASCII character in string literal"),
        (
            "SELECT * FROM u WHERE b LIKE 'x%'",
            "LIKE restriction is only supported on properly indexed columns. b LIKE 'x%' is not valid.",
        ),
        (
            "SELECT * FROM u WHERE b LIKE ?",
            "LIKE restriction is only supported on properly indexed columns. b LIKE ? is not valid.",
        ),
    ] {
        session.refused(text, expected);
    }
    session.all(&["INSERT INTO u (k, b) VALUES (1, 'xyz')"]);
    let found = session.bound("SELECT k FROM u WHERE b LIKE ? ALLOW FILTERING", &[Value::Bytes(b"x%")]);
    assert_eq!(found, Ok(vec!["1".to_string()]));
    session.check(
        "SELECT minTimeuuid((timestamp) 9223372036854775807) FROM u",
        &["138118f0-1dd2-11b2-8080-808080808080"],
    );
}

#[test]
fn filters_on_counters_and_durations() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE c (k int PRIMARY KEY, a counter, b counter)",
        "UPDATE c SET a = a + 1 WHERE k = 1",
        "CREATE TYPE ud (d duration)",
        "CREATE TABLE d (k int PRIMARY KEY, d duration, l frozen<list<duration>>, t tuple<int, duration>, u frozen<ud>)",
    ]);
    session.check("SELECT * FROM c WHERE a > 0 ALLOW FILTERING", &["1|1|"]);
    for op in [">", ">=", "<", "<=", "="] {
        session.check(&format!("SELECT * FROM c WHERE b {op} 1 ALLOW FILTERING"), &[]);
    }
    session.refused(
        "SELECT * FROM c WHERE b = null ALLOW FILTERING",
        "Invalid null value for counter increment/decrement",
    );
    for (column, value, expected) in [
        ("d", "1s", "duration columns"),
        ("l", "[1s]", "collections containing durations"),
        ("t", "(1, 1s)", "tuples containing durations"),
        ("u", "{d: 1s}", "UDTs containing durations"),
    ] {
        let text = format!("SELECT * FROM d WHERE {column} > {value} ALLOW FILTERING");
        match session.try_run(&text) {
            Err(error) => assert_eq!(error, format!("Slice restrictions are not supported on {expected}")),
            Ok(_) => panic!("{text}"),
        }
    }
}

#[test]
fn conditions_on_elements_and_fields() {
    let session = Session::new();
    session.all(&[
        "CREATE TYPE ud (f int, g text)",
        "CREATE TABLE t (k int PRIMARY KEY, l list<text>, m map<text, text>, s set<int>, u ud, fu frozen<ud>, fl frozen<list<text>>, fm frozen<map<text, text>>, v int)",
        "INSERT INTO t (k, l, m, u, fu, fl, fm, s, v) VALUES (1, ['foo', 'bar'], {'k': 'foo'}, {f: 1}, {f: 1}, ['foo', 'bar'], {'k': 'foo'}, {1}, 0)",
    ]);
    let holds = |condition: &str| {
        let answer = session.try_run(&format!("UPDATE t SET v = 0 WHERE k = 1 IF {condition}"));
        answer.unwrap_or_else(|error| panic!("{condition}: {error}"))[0].starts_with("true")
    };
    for part in ["l[0]", "m['k']", "fl[0]", "fm['k']"] {
        for (test, expected) in [
            ("= 'foo'", true),
            ("= 'bar'", false),
            ("!= 'foo'", false),
            ("!= 'x'", true),
            ("> 'a'", true),
            (">= 'foo'", true),
            ("< 'foo'", false),
            ("<= 'foo'", true),
            ("IN ('x', 'foo')", true),
            ("IN ('x')", false),
            ("IN ()", false),
            ("= null", false),
            ("!= null", true),
            ("IN (null, 'x')", false),
        ] {
            assert_eq!(holds(&format!("{part} {test}")), expected, "{part} {test}");
        }
    }
    for part in ["l[5]", "m['z']", "fl[5]", "fm['z']", "u.g", "fu.g"] {
        for (test, expected) in [
            ("= 'x'", false),
            ("!= 'x'", true),
            ("> 'x'", false),
            ("< 'x'", false),
            ("<= 'x'", false),
            ("IN ('x')", false),
            ("IN (null)", true),
            ("= null", true),
            ("!= null", false),
        ] {
            assert_eq!(holds(&format!("{part} {test}")), expected, "{part} {test}");
        }
    }
    for part in ["u.f", "fu.f"] {
        for (test, expected) in
            [("= 1", true), ("> 1", false), (">= 1", true), ("IN (1, 2)", true), ("!= 1", false)]
        {
            assert_eq!(holds(&format!("{part} {test}")), expected, "{part} {test}");
        }
    }
    for (condition, expected) in [
        ("l[null] = 'foo'", "Invalid null value for list element access"),
        ("l[-2] = 'foo'", "Invalid negative list index -2"),
        ("m[null] = 'foo'", "Invalid null value for map element access"),
        ("s[0] = 1", "Invalid element access syntax for set column s"),
        ("v[0] = 1", "Invalid element access syntax for non-collection column v"),
        ("l[0] < null", "Invalid comparison with null for operator \"<\""),
        ("m['k'] >= null", "Invalid comparison with null for operator \">=\""),
        ("u.f > null", "Invalid comparison with null for operator \">\""),
        ("u.nope = 1", "Unknown field nope for column u"),
    ] {
        session.refused(&format!("UPDATE t SET v = 0 WHERE k = 1 IF {condition}"), expected);
    }
}

#[test]
fn texts_and_their_order_are_those_of_5_0() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, d int, v int, x text, l list<int>, m map<text, int>, s set<int>, ve vector<int, 2>, \
         PRIMARY KEY (k, c, d))",
        "CREATE TABLE n (k int PRIMARY KEY, n counter)",
        "INSERT INTO t (k, c, d, l) VALUES (1, 1, 1, [1])",
    ]);
    for (text, expected) in [
        ("SELECT \"K\" FROM t", "Undefined column name \"K\" in table ks.t"),
        ("SELECT * FROM t WHERE k = 1 AND (c, d) = (1, null)", "Invalid null value for column d"),
        ("SELECT * FROM t WHERE k = 1 AND (c, d) IN ((1, null))", "Invalid null value for column d"),
        (
            "SELECT * FROM t WHERE k = 1 AND (c, d) IN ((1, 1), (1, null))",
            "Invalid null value in condition for columns: [c, d]",
        ),
        (
            "SELECT * FROM t WHERE k = 1 AND (c, d) > (1, 1) AND (c, d) > (1, 2)",
            "More than one restriction was found for the start bound on c ,d",
        ),
        ("SELECT * FROM t WHERE token(k) = null", "Invalid null token value"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND d = 1", "Some clustering keys are missing: c"),
        (
            "UPDATE t SET m = {'a': 1} + m WHERE k = 1 AND c = 1 AND d = 1",
            "Invalid operation (m = {'a': 1} - m) for non list column m",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND d = 1 IF l > []",
            "Invalid comparison with an empty list for operator \">\"",
        ),
        (
            "INSERT INTO t (k, c, d) VALUES (1, 1, [1])",
            "Unexpected receiver type 'int'; only list and vector are expected",
        ),
        (
            "INSERT INTO t (k, c, d, ve) VALUES (1, 1, 1, (1, 2))",
            "Invalid tuple type literal for ve of type vector<int, 2>",
        ),
        (
            "INSERT INTO t (k, c, d, v) VALUES (1, 1, 1, (text) 'a')",
            "Cannot assign value (text)'a' to v of type int",
        ),
        ("INSERT INTO t (k, c, d, v) VALUES (1, 1, 1, (int) 3.5)", "Cannot cast value 3.5 to type int"),
        ("INSERT INTO t JSON '{\"k\": 1, \"c\": 1}' DEFAULT UNSET", "Invalid unset value for column d"),
        (
            "SELECT * FROM t WHERE x = ('a') PER PARTITION LIMIT 1",
            "Cannot execute this query as it might involve data filtering",
        ),
        (
            "SELECT * FROM t WHERE token(c) > 0",
            "The token() function must be applied to all partition key components",
        ),
        ("INSERT INTO t JSON '{\"k\": 1, \"c\": 1, \"d\": 1, \"x\": 5}'", "Error decoding JSON value for x"),
        ("UPDATE n SET n = n - null WHERE k = 1", "Invalid null value for counter increment/decrement"),
        (
            "SELECT CAST(x AS timestamp) FROM t",
            "Invalid call to function system.cast_as_timestamp, none of its type signatures match (known type signatures: \
             system.cast_as_timestamp : (date) -> timestamp, system.cast_as_timestamp : (timeuuid) -> timestamp)",
        ),
        ("SELECT sum(x) FROM t", "system.sum : (smallint) -> smallint, system.sum : (varint) -> varint"),
        // WHERE is checked before the selection.
        ("SELECT sum(x) FROM t WHERE v = 1", "Cannot execute this query as it might involve data filtering"),
        ("SELECT nope FROM t WHERE v = 1", "Cannot execute this query as it might involve data filtering"),
        ("CREATE TYPE a (b nope)", "A user type cannot contain non-frozen UDTs"),
        (
            "CREATE TABLE a (k int PRIMARY KEY, v list<nope>)",
            "Non-frozen UDTs are not allowed inside collections: list<nope>",
        ),
        (
            "CREATE TABLE a (k int PRIMARY KEY, v vector<int, -1>)",
            "vectors may only have positive dimensions; given -1",
        ),
        ("CREATE TABLE a (k int PRIMARY KEY) WITH memtable = 'b'", "Memtable configuration \"b\" not found."),
    ] {
        session.refused(text, expected);
    }
    // A list without elements is null: it is neither less nor more than another.
    session.all(&[
        "CREATE TABLE e (k int PRIMARY KEY, v int, l list<int>)",
        "INSERT INTO e (k, v) VALUES (1, 1)",
    ]);
    session.check("UPDATE e SET v = 2 WHERE k = 1 IF l < [1]", &["false|"]);
    // A tuple may be the argument of a function.
    session.all(&["CREATE TABLE u (k tuple<int, text> PRIMARY KEY)", "INSERT INTO u (k) VALUES ((1, 'a'))"]);
    session.check("SELECT k FROM u WHERE token(k) >= token((1, 'a'))", &["(1, a)"]);
}

#[test]
fn a_wrong_number_of_values_has_the_words_of_its_request() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    let text = "INSERT INTO t (k, v) VALUES (?, ?)";
    let error = session.bound(text, &[Value::Bytes(&[0, 0, 0, 1])]).unwrap_err();
    assert!(error.starts_with("Invalid amount of bind variables"), "{error}");
    let prepared = Prepared::new(&session.storage.catalog(), Some("ks"), text).unwrap();
    let mut buffer = ValueBuffer::default();
    buffer.push(Value::Null);
    let error = prepared.check_bound(&buffer.values()).unwrap_err();
    assert_eq!(error.to_string(), "there were 2 markers(?) in CQL but 1 bound variables");
    buffer.push(Value::Null);
    assert!(prepared.check_bound(&buffer.values()).is_ok());
}
