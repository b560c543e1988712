//! User-defined functions and aggregates, with bodies in Lua: definition, calls, errors, permissions.

use std::sync::Arc;

use catalog::Scripts;
use protocol::CqlError;
use udf::{Limits, LuaEngine};

use super::*;

fn session() -> Session {
    let session = Session::new();
    session.storage.set_scripts(Some(Scripts(Arc::new(LuaEngine::new(Limits::default())))));
    session.all(&[
        "CREATE TYPE pair (a int, b text)",
        "CREATE TABLE t (k int PRIMARY KEY, v int, s text, l list<int>, u pair, w tuple<int, text>)",
        "INSERT INTO t (k, v, s, l, u, w) VALUES (1, 10, 'one', [1, 2], {a: 1, b: 'x'}, (1, 'a'))",
        "INSERT INTO t (k, v) VALUES (2, 20)",
        "INSERT INTO t (k) VALUES (3)",
    ]);
    session
}

#[test]
fn functions_are_off_by_default() {
    let session = Session::new();
    let create = "CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'";
    let disabled = "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable";
    session.refused(create, disabled);
    // Functions that exist cannot be called while they are off.
    session.storage.set_scripts(Some(Scripts(Arc::new(LuaEngine::new(Limits::default())))));
    session.all(&["CREATE TABLE t (k int PRIMARY KEY)", "INSERT INTO t (k) VALUES (1)", create]);
    session.storage.set_scripts(None);
    session.refused("SELECT f(k) FROM t", disabled);
    session.all(&["DROP FUNCTION f"]);
}

#[test]
fn functions_are_called_everywhere() {
    let session = session();
    session.all(&[
        "CREATE FUNCTION plus (a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a + b'",
        "CREATE FUNCTION or_zero (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE LUA AS $$ return a or 0 $$",
        "CREATE FUNCTION sum_of (l list<int>) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS \
         'local n = 0 for _, v in ipairs(l) do n = n + v end return n'",
        "CREATE FUNCTION swap (w tuple<int, text>) RETURNS NULL ON NULL INPUT RETURNS tuple<text, int> LANGUAGE lua AS \
         'return {w[2], w[1]}'",
        "CREATE FUNCTION grow (u pair) RETURNS NULL ON NULL INPUT RETURNS pair LANGUAGE lua AS \
         'u.a = u.a + 1 return u'",
        "CREATE FUNCTION one () CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
    ]);
    session.check("SELECT plus(v, 1) FROM t WHERE k = 1", &["11"]);
    session.check("SELECT ks.plus(k, v) FROM t", &["11", "22", ""]);
    session.check("SELECT or_zero(v) FROM t", &["10", "20", "0"]);
    session.check("SELECT plus(plus(k, or_zero(v)), sum_of([1, 2])) FROM t", &["14", "25", "6"]);
    session.check("SELECT sum_of(l), swap(w), grow(u) FROM t WHERE k = 1", &["3|(a, 1)|{a: 2, b: x}"]);
    session.check("SELECT k FROM t WHERE k = plus(1, 1)", &["2"]);
    session.check("SELECT k FROM t WHERE v = plus(10, 10) ALLOW FILTERING", &["2"]);
    session.check("SELECT max(plus(v, 1)), count(or_zero(v)) FROM t", &["21|3"]);
    session.all(&[
        "INSERT INTO t (k, v) VALUES (plus(3, 1), plus(1, one()))",
        "UPDATE t SET v = plus(2, 3), l = [one(), plus(1, 1)] WHERE k = one()",
        "DELETE FROM t WHERE k = plus(1, 1)",
    ]);
    session.check("SELECT k, v, l FROM t", &["1|5|[1, 2]", "4|2|", "3||"]);
    let bound = session.bound(
        "SELECT plus(?, k) FROM t WHERE k = plus(?, 1)",
        &[Value::Bytes(&5i32.to_be_bytes()), Value::Bytes(&0i32.to_be_bytes())],
    );
    assert_eq!(bound, Ok(vec!["6".to_string()]));
}

#[test]
fn columns_and_markers_have_the_functions_names() {
    let session = session();
    session.all(&[
        "CREATE FUNCTION plus (a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a + b'",
    ]);
    let catalog = session.storage.catalog();
    let text = "SELECT plus(k, ks.plus(v, 1)), plus(k, k) AS p FROM t WHERE k = plus(?, 1)";
    let prepared = Prepared::new(&catalog, Some("ks"), text).unwrap();
    let names: Vec<&str> = prepared.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["ks.plus(k, ks.plus(v, 1))", "p"]);
    // A statement is valid as long as its functions are the same.
    assert!(prepared.is_current(&catalog));
    session.all(&[
        "CREATE FUNCTION plus (a text) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
    ]);
    assert!(prepared.is_current(&session.storage.catalog()), "another overload");
    session.all(&[
        "CREATE OR REPLACE FUNCTION plus (a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a - b'",
    ]);
    assert!(!prepared.is_current(&session.storage.catalog()));
    session.check("SELECT plus(v, 1) FROM t WHERE k = 1", &["9"]);
}

#[test]
fn overloads_are_chosen_by_types() {
    let session = session();
    session.all(&[
        "CREATE FUNCTION kind (a int) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return ''int'''",
        "CREATE FUNCTION kind (a text) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return ''text'''",
        "CREATE FUNCTION kind (a int, b int) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return ''two'''",
    ]);
    session.check("SELECT kind(v), kind(s), kind(v, k) FROM t WHERE k = 1", &["int|text|two"]);
    session.refused("SELECT kind(null) FROM t", "Ambiguous call to function kind (can be matched by following signatures: ks.kind : (int) -> text, ks.kind : (text) -> text): use type casts to disambiguate");
    session.refused("SELECT kind(l) FROM t", "Invalid call to function kind, none of its type signatures match (known type signatures: ks.kind : (int) -> text, ks.kind : (int, int) -> text, ks.kind : (text) -> text)");
    session.refused("DROP FUNCTION kind", "'DROP FUNCTION kind' matches multiple function definitions; specify the argument types by issuing a statement like 'DROP FUNCTION kind (type, type, ...)'. You can use cqlsh 'DESCRIBE FUNCTION kind' command to find all overloads");
    session.all(&["DROP FUNCTION kind (int, int)", "DROP FUNCTION ks.kind (text)"]);
    session.refused(
        "SELECT kind(s) FROM t",
        "Type error: s cannot be passed as argument 0 of function ks.kind of type int",
    );
    session.refused(
        "SELECT kind(v, v) FROM t",
        "Invalid number of arguments in call to function ks.kind: 1 required but 2 provided",
    );
    session.all(&[
        "DROP FUNCTION kind",
        "DROP FUNCTION IF EXISTS kind",
        "DROP FUNCTION IF EXISTS missing.f (int)",
    ]);
    session.refused("DROP FUNCTION kind", "Function 'ks.kind' doesn't exist");
    session.refused("DROP FUNCTION kind (int, text)", "Function 'ks.kind(int, text)' doesn't exist");
    session.refused("SELECT kind(v) FROM t", "Unknown function 'kind'");
}

#[test]
fn wrong_definitions_are_refused() {
    let session = session();
    let returns = "CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'";
    for (text, expected) in [
        (
            format!("CREATE OR REPLACE FUNCTION IF NOT EXISTS f () {returns}"),
            "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives",
        ),
        (format!("CREATE FUNCTION \"f/x\" () {returns}"), "Function name 'f/x' is invalid"),
        (
            format!("CREATE FUNCTION f (a int, b int, a text) {returns}"),
            "Duplicate argument names for given function f with argument names [a, b, a]",
        ),
        (
            format!("CREATE FUNCTION f (a frozen<list<int>>) {returns}"),
            "Argument 'frozen<list<int>>' cannot be frozen; remove frozen<> modifier from 'frozen<list<int>>'",
        ),
        (
            "CREATE FUNCTION f () CALLED ON NULL INPUT RETURNS frozen<pair> LANGUAGE lua AS 'return nil'"
                .to_string(),
            "Return type 'frozen<pair>' cannot be frozen; remove frozen<> modifier from 'frozen<pair>'",
        ),
        (format!("CREATE FUNCTION missing.f () {returns}"), "Keyspace 'missing' doesn't exist"),
        (format!("CREATE FUNCTION f (a missing) {returns}"), "Unknown type ks.missing"),
        (
            "CREATE FUNCTION f () CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return 1;'".to_string(),
            "Currently only Lua user-defined functions are available, not functions in 'java'",
        ),
        (
            "CREATE FUNCTION f () CALLED ON NULL INPUT RETURNS int LANGUAGE wasm AS ''".to_string(),
            "not functions in 'wasm'",
        ),
        (
            "CREATE FUNCTION f () CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return return'"
                .to_string(),
            "Could not compile function 'ks.f' from Lua source: f:1:",
        ),
        (format!("CREATE FUNCTION system.f () {returns}"), "system keyspace is not user-modifiable."),
    ] {
        session.refused(&text, expected);
    }
    session.all(&[
        &format!("CREATE FUNCTION f () {returns}"),
        &format!("CREATE FUNCTION IF NOT EXISTS f () {returns}"),
        &format!("CREATE OR REPLACE FUNCTION f () {returns}"),
        "CREATE FUNCTION g (a frozen<tuple<int, int>>) CALLED ON NULL INPUT RETURNS frozen<tuple<int, int>> LANGUAGE lua AS 'return a'",
    ]);
    session.refused(&format!("CREATE FUNCTION f () {returns}"), "Function 'f' already exists");
    session.refused(
        "CREATE OR REPLACE FUNCTION f () RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
        "Function 'f' must have RETURNS NULL ON NULL INPUT directive",
    );
    session.refused(
        "CREATE OR REPLACE FUNCTION f () CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return 1'",
        "Cannot replace function 'f', the new return type text is not compatible with the return type int of existing function",
    );
    session.refused(
        "SELECT f() FROM t WHERE s = f() ALLOW FILTERING",
        "Type error: cannot assign result of function ks.f (type int) to s (type text)",
    );
}

#[test]
fn failures_name_the_function() {
    let session = session();
    session.all(&[
        "CREATE FUNCTION bad (a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'error(\"no\")'",
        "CREATE FUNCTION endless (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'while true do end'",
        "CREATE FUNCTION wrong (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return {}'",
    ]);
    let execution =
        Execution { now_us: 0, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
    let error = |text: &str| {
        let prepared = Prepared::new(&session.storage.catalog(), Some("ks"), text).unwrap();
        let mut warnings = vec![];
        let values = Default::default();
        block_on_ready(prepared.execute(&session.storage, &values, &execution, &mut warnings)).unwrap_err()
    };
    let CqlError::FunctionFailure { keyspace, function, arguments, text } = error("SELECT bad(v, s) FROM t")
    else {
        panic!("another error");
    };
    assert_eq!((keyspace.as_str(), function.as_str()), ("ks", "bad"));
    assert_eq!(arguments, ["int", "text"]);
    assert_eq!(text, "execution of 'ks.bad[int, text]' failed: bad:1: no");
    for text in [
        "SELECT endless(v) FROM t",
        "INSERT INTO t (k) VALUES (wrong(1))",
        "SELECT k FROM t WHERE k = bad(1, 'x')",
    ] {
        assert!(matches!(error(text), CqlError::FunctionFailure { .. }), "{text}");
    }
    session.check("SELECT v FROM t WHERE k = 1", &["10"]);
}

const SUM: &str = "CREATE FUNCTION accumulate (s bigint, v int) CALLED ON NULL INPUT RETURNS bigint LANGUAGE lua AS 'return s + (v or 0)'";

#[test]
fn aggregates_fold_rows() {
    let session = session();
    session.all(&[
        SUM,
        "CREATE FUNCTION half (s bigint) RETURNS NULL ON NULL INPUT RETURNS double LANGUAGE lua AS 'return s / 2'",
        "CREATE FUNCTION join2 (s text, k int, v text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE lua AS 'return s .. k .. v'",
        "CREATE FUNCTION tally (s map<int, int>, v int) CALLED ON NULL INPUT RETURNS map<int, int> LANGUAGE lua AS \
         'local k = v or -1 s[k] = (s[k] or 0) + 1 return s'",
        "CREATE FUNCTION last (s int, v int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return v or s'",
        "CREATE AGGREGATE total (int) SFUNC accumulate STYPE bigint INITCOND 0",
        "CREATE AGGREGATE half_total (int) SFUNC accumulate STYPE bigint FINALFUNC half INITCOND 100",
        "CREATE AGGREGATE joined (int, text) SFUNC join2 STYPE text INITCOND ''",
        "CREATE AGGREGATE tallied (int) SFUNC tally STYPE map<int, int> INITCOND {7: 1}",
        "CREATE AGGREGATE latest (int) SFUNC last STYPE int",
    ]);
    session.check("SELECT total(v), half_total(v), count(*) FROM t", &["30|65.0|3"]);
    session.check("SELECT ks.total(k) FROM t WHERE k = 9", &["0"]);
    session.check("SELECT joined(k, s), tallied(v) FROM t", &["1one|{-1: 1, 7: 1, 10: 1, 20: 1}"]);
    session.check("SELECT latest(v) FROM t", &["20"]);
    session.check("SELECT latest(v) FROM t WHERE k = 9", &[""]);
    session.check("SELECT k, total(v) FROM t GROUP BY k", &["1|10", "2|20", "3|0"]);
    session.check("SELECT total(v) + 1 FROM t", &["31"]);
    session.refused(
        "SELECT total(max(v)) FROM t",
        "aggregate functions cannot be used as arguments of aggregate functions",
    );
    session.refused(
        "SELECT max(total(v)) FROM t",
        "aggregate functions cannot be used as arguments of aggregate functions",
    );
    session.refused(
        "SELECT k FROM t WHERE k = total(1)",
        "Aggregation function are not supported in the where clause",
    );
    session.refused(
        "SELECT total(s) FROM t",
        "Type error: s cannot be passed as argument 0 of function ks.total of type int",
    );
}

#[test]
fn wrong_aggregates_are_refused() {
    let session = session();
    session.all(&[
        SUM,
        "CREATE FUNCTION strict (s int, v int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return s + v'",
        "CREATE FUNCTION other (s int, v int) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return s'",
    ]);
    for (text, expected) in [
        (
            "CREATE AGGREGATE a (int) SFUNC missing STYPE int",
            "State function ks.missing(int, int) doesn't exist",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC accumulate STYPE int",
            "State function ks.accumulate(int, int) doesn't exist",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC accumulate STYPE bigint FINALFUNC missing",
            "Final function ks.missing(bigint) doesn't exist",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC other STYPE int",
            "State function ks.other(int, int) return type must be the same as the first argument type - check STYPE, argument and return types",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC strict STYPE int",
            "Cannot create aggregate 'a' without INITCOND because state function ks.strict does not accept 'null' arguments",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC accumulate STYPE bigint INITCOND 'x'",
            "Invalid STRING constant (x) for \"--dummy--\" of type bigint",
        ),
        (
            "CREATE OR REPLACE AGGREGATE IF NOT EXISTS a (int) SFUNC accumulate STYPE bigint",
            "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives",
        ),
        (
            "CREATE AGGREGATE a (frozen<set<int>>) SFUNC accumulate STYPE bigint",
            "Argument 'frozen<set<int>>' cannot be frozen",
        ),
        (
            "CREATE AGGREGATE a (int) SFUNC accumulate STYPE frozen<set<int>>",
            "State type 'frozen<set<int>>' cannot be frozen",
        ),
        (
            "CREATE AGGREGATE accumulate (bigint, int) SFUNC strict STYPE int INITCOND 0",
            "State function ks.strict(int, bigint, int) doesn't exist",
        ),
    ] {
        session.refused(text, expected);
    }
    session.all(&[
        "CREATE AGGREGATE a (int) SFUNC strict STYPE int INITCOND 0",
        "CREATE AGGREGATE IF NOT EXISTS a (int) SFUNC strict STYPE int INITCOND 1",
        "CREATE OR REPLACE AGGREGATE a (int) SFUNC strict STYPE int INITCOND 2",
    ]);
    session.refused(
        "CREATE AGGREGATE a (int) SFUNC strict STYPE int INITCOND 0",
        "Aggregate 'a' already exists",
    );
    session.refused("DROP FUNCTION strict", "Function 'ks.strict' is still referenced by aggregates ks.a");
    session.refused("DROP AGGREGATE a (text)", "Aggregate 'ks.a(text)' doesn't exist");
    session.refused(
        "CREATE FUNCTION a (v int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
        "Function 'a' cannot replace an aggregate",
    );
    session.all(&["DROP AGGREGATE a", "DROP AGGREGATE IF EXISTS a", "DROP FUNCTION strict"]);
    session.refused("DROP AGGREGATE a", "Aggregate 'ks.a' doesn't exist");
}

#[test]
fn types_of_functions_are_kept() {
    let session = session();
    session.all(&[
        "CREATE TYPE solo (a int)",
        "CREATE FUNCTION f (a solo) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a.a'",
    ]);
    session
        .refused("DROP TYPE solo", "Cannot drop user type 'ks.solo' as it is still used by functions ks.f");
    session.all(&[
        "ALTER TYPE solo ADD b int",
        "CREATE TABLE s (k int PRIMARY KEY, v solo)",
        "INSERT INTO s (k, v) VALUES (1, {a: 7, b: 8})",
    ]);
    session.check("SELECT f(v) FROM s", &["7"]);
    session.all(&["DROP FUNCTION f", "DROP TABLE s", "DROP TYPE solo"]);
}

#[test]
fn descriptions_create_the_same() {
    let session = session();
    session.all(&[
        SUM,
        "CREATE FUNCTION \"F\" (\"A\" tuple<int, text>, b pair) CALLED ON NULL INPUT RETURNS list<int> LANGUAGE lua AS $$ return {'1'} $$",
        "CREATE AGGREGATE total (int) SFUNC accumulate STYPE bigint INITCOND 3",
    ]);
    session.check(
        "DESCRIBE FUNCTIONS",
        &["ks|function|\"F\"(tuple<int, text>, pair)", "ks|function|accumulate(bigint, int)"],
    );
    session.check("DESCRIBE AGGREGATES", &["ks|aggregate|total(int)"]);
    let described = session.try_run("DESCRIBE FUNCTION \"F\"").unwrap();
    let expected = "CREATE FUNCTION ks.\"F\"(\"A\" tuple<int, text>, b pair)\n    CALLED ON NULL INPUT\n    RETURNS list<int>\n    \
                    LANGUAGE lua\n    AS $$ return {1} $$;";
    assert!(described[0].ends_with(expected), "{described:?}");
    let described = session.try_run("DESCRIBE AGGREGATE total").unwrap();
    let expected = "CREATE AGGREGATE ks.total(int)\n    SFUNC accumulate\n    STYPE bigint\n    INITCOND 3;";
    assert!(described[0].ends_with(expected), "{described:?}");
    session.refused("DESCRIBE FUNCTION missing", "User defined function 'missing' not found in 'ks'");
    let all = session.try_run("DESCRIBE KEYSPACE ks").unwrap();
    let kinds: Vec<&str> = all.iter().map(|row| row.split('|').nth(1).unwrap()).collect();
    // The second is the type, whose kind has as many bytes as an int.
    assert_eq!(kinds[2..], ["function", "function", "aggregate", "table"]);
}
