//! Tests that errors contain the position of the wrong character.

use protocol::CqlError;

use crate::parse;

#[track_caller]
fn error(text: &str) -> String {
    match parse(text) {
        Err(CqlError::Syntax(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(error(text), expect, "{text}");
}

#[test]
fn another_word_than_expected() {
    check("SELECT * FORM t", "line 1:9 mismatched input 'FORM' expecting FROM (SELECT * [FORM] t)");
    check(
        "SELECT a FROM t LIMT 5",
        "line 1:16 mismatched input 'LIMT' expecting end of statement (SELECT a FROM t [LIMT] 5)",
    );
    check("UPDATE t SET a = 1", "line 1:18 mismatched input '<EOF>' expecting WHERE (UPDATE t SET a = 1[])");
    check(
        "INSERT INTO t (a, b VALUES (1, 2)",
        "line 1:20 mismatched input 'VALUES' expecting ')' (INSERT INTO t (a, b [VALUES] (1...)",
    );
}

#[test]
fn none_of_several_things() {
    check(
        "SELECT FROM t",
        "line 1:7 no viable alternative at input 'FROM' (SELECT [FROM] t); expected a column, function or value",
    );
    check(
        "SELEC * FROM t",
        "line 1:0 no viable alternative at input 'SELEC' ([SELEC] * FROM...); expected a statement: SELECT, INSERT, \
         UPDATE, DELETE, BEGIN BATCH, CREATE, ALTER, DROP, USE …",
    );
    check(
        "SELECT * FROM t WHERE a = ",
        "line 1:26 no viable alternative at input '<EOF>' (SELECT * FROM t WHERE a = []); expected a value",
    );
    check(
        "SELECT * FROM t WHERE a + 1",
        "line 1:24 no viable alternative at input '+' (SELECT * FROM t WHERE a [+] 1); \
         expected =, <, <=, >, >=, !=, IN, CONTAINS, LIKE or IS NOT NULL",
    );
    check(
        "CREATE TABLE order (a int)",
        "line 1:13 no viable alternative at input 'order' (CREATE TABLE [order] (a...); expected a name (reserved words need \"\" around them)",
    );
    assert!(
        error("").starts_with("line 1:0 no viable alternative at input '<EOF>' ([]); expected a statement")
    );
}

#[test]
fn lines_count_from_one_and_columns_in_characters() {
    check(
        "SELECT *\nFROM t\nWHERE é = 1",
        "line 3:6 no viable alternative at character 'é' (SELECT * FROM t WHERE [é] = 1)",
    );
    check(
        "INSERT INTO t (a) VALUES ('é☃', x)",
        "line 1:32 no viable alternative at input 'x' (INSERT INTO t (a) VALUES ('é☃', [x])); expected a value",
    );
}

#[test]
fn what_is_not_closed() {
    check(
        "SELECT * FROM t WHERE a = 'it''s",
        "line 1:26 the text that begins here is not closed: a string needs a ' at its end (and '' for each ' within) \
         (SELECT * FROM t WHERE a = ['it''s])",
    );
    assert!(
        error("SELECT \"a FROM t")
            .starts_with("line 1:7 the text that begins here is not closed: a quoted name")
    );
    assert!(
        error("SELECT a /* FROM t")
            .starts_with("line 1:9 the text that begins here is not closed: a comment")
    );
    assert!(
        error("SELECT $$a$ FROM t")
            .starts_with("line 1:7 the text that begins here is not closed: a string needs $$")
    );
}

#[test]
fn what_grammar_forbids() {
    check("UPDATE t SET a = b + 1 WHERE k = 1", "Only expressions of the form X = X +<value> are supported.");
    check(
        "UPDATE t SET a = 1 + b WHERE k = 1",
        "Only expressions of the form X = <value> + X are supported.",
    );
    check("CREATE TYPE byte (a int)", "Invalid (reserved) user type name byte");
    check("CREATE TABLE t (a int PRIMARY KEY) WITH a = 1 AND A = 2", "Multiple definitions for property 'a'");
    check("ALTER KEYSPACE k WITH r = {'a': 1, 'a': 2}", "line 1:35 Multiple definition for property a");
    check("USE ?", "line 1:4 Bind variables cannot be used for keyspace names");
    check("INSERT INTO t (a) VALUES (1) USING TTL ? AND TTL 2", "line 1:45 TTL is given twice");
    check(
        "DELETE FROM t USING TIMESTAMP 1 AND TIMESTAMP 2 WHERE a = 1",
        "line 1:36 TIMESTAMP is given twice",
    );
    check("SELECT a FROM t USING TIMEOUT 1s AND TIMEOUT 2s", "line 1:37 TIMEOUT is given twice");
    check("CREATE TABLE \"\" (a int)", "line 1:13 an empty name is no name");
    assert!(error("SELECT * FROM t USING TTL 5").contains("expected TIMEOUT"));
    assert!(error("SELECT * FROM t LIMIT 1.5").contains("expected an integer or a bind marker"));
    assert!(error("DELETE FROM t USING TTL 5 WHERE k = 1").contains("expected TIMESTAMP or TIMEOUT"));
    assert!(error("CREATE KEYSPACE k WITH r = {'a': ?}").contains("not supported in DDL"));
    assert!(error("BEGIN BATCH SELECT * FROM t; APPLY BATCH").contains("expected INSERT, UPDATE, DELETE"));
    assert!(error("CREATE TRIGGER 'open").contains("not closed"));
    check("CREATE INDEX ? ON t (a)", "line 1:13 Bind variables cannot be used for index names");
    assert!(error("CREATE INDEX ON t (keys(m)").contains("expecting ')'"));
    assert!(error("CREATE INDEX ON t (a) USING sai").contains("expecting a string"));
    assert!(error("SELECT s[..] FROM t").contains("expected a value"));
    assert!(error("SELECT (list<int) a FROM t").contains("mismatched input ')' expecting '>'"));
    assert!(error("USE a; USE b").contains("mismatched input 'USE' expecting end of statement"));
}

#[test]
fn messages_are_short_however_long_the_statement() {
    let long = "x".repeat(1_000_000);
    for text in [
        format!("SELECT {long} FORM t"),
        format!("SELECT 1 {long}"),
        format!("SELECT 'a' '{long}'"),
        format!("SELECT a FROM t WHERE a = '{long}' b c d"),
        format!("SELECT '{long}"),
    ] {
        let message = error(&text);
        assert!(
            message.starts_with("line 1:") && message.len() < 500,
            "{} bytes: {}",
            message.len(),
            &message[..200]
        );
    }
}
