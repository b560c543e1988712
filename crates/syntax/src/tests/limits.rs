//! Deep and long statements give an error or a tree, in linear time and on a small stack.

use std::fmt::Write;

use crate::{MAX_DEPTH, parse, split_statements};

/// A statement that repeats `open` `n` times, then has `middle`, then repeats `close` `n` times.
fn nested(before: &str, (open, middle, close): (&str, &str, &str), after: &str, n: usize) -> String {
    format!("{before}{}{middle}{}{after}", open.repeat(n), close.repeat(n))
}

const SHAPES: &[(&str, (&str, &str, &str), &str)] = &[
    ("INSERT INTO t (a) VALUES (", ("[", "1", "]"), ")"),
    ("INSERT INTO t (a) VALUES (", ("(", "1", ")"), ")"),
    ("INSERT INTO t (a) VALUES (", ("{", "1", "}"), ")"),
    ("INSERT INTO t (a) VALUES (", ("{1:", "1", "}"), ")"),
    ("INSERT INTO t (a) VALUES (", ("{a:", "1", "}"), ")"),
    ("INSERT INTO t (a) VALUES (", ("f(", "1", ")"), ")"),
    ("INSERT INTO t (a) VALUES (", ("CAST(", "1", " AS int)"), ")"),
    ("INSERT INTO t (a) VALUES (", ("(int)", "?", ""), ")"),
    ("INSERT INTO t (a) VALUES (", ("- ", "?", ""), ")"),
    ("INSERT INTO t (a) VALUES (", ("1 + ", "1", ""), ")"),
    ("INSERT INTO t (a) VALUES (", ("1 * ", "1", ""), ")"),
    ("INSERT INTO t (a) VALUES (", ("(1 + ", "1", ") * 2"), ")"),
    ("SELECT ", ("[", "1", "]"), " FROM t"),
    ("SELECT ", ("(", "1", ")"), " FROM t"),
    ("SELECT ", ("{", "1", "}"), " FROM t"),
    ("SELECT ", ("{1:", "1", "}"), " FROM t"),
    ("SELECT ", ("f(", "a", ")"), " FROM t"),
    ("SELECT ", ("CAST(", "a", " AS int)"), " FROM t"),
    ("SELECT ", ("(int)", "a", ""), " FROM t"),
    ("SELECT ", ("- ", "a", ""), " FROM t"),
    ("SELECT a", (" + a", "", ""), " FROM t"),
    ("SELECT a", (".b", "", ""), " FROM t"),
    ("SELECT a", ("[1]", "", ""), " FROM t"),
    ("SELECT * FROM t WHERE ", ("(", "a = 1", ")"), ""),
    ("CREATE TYPE u (a ", ("list<", "int", ">"), ")"),
    ("CREATE TYPE u (a ", ("frozen<tuple<", "int", ">>"), ")"),
    ("SELECT (", ("map<int,", "int", ">"), ")a FROM t"),
];

/// Runs on a thread with 1 MiB of stack, half of the default.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn nesting_is_bounded() {
    on_a_small_stack(|| {
        for &(before, shape, after) in SHAPES {
            let fine = nested(before, shape, after, MAX_DEPTH / 4);
            assert!(parse(&fine).is_ok(), "{fine}: {:?}", parse(&fine));
            for n in [MAX_DEPTH + 1, 100_000] {
                let deep = nested(before, shape, after, n);
                let Err(error) = parse(&deep) else { panic!("{before}{shape:?} {n} times is no error") };
                assert!(error.to_string().contains("levels of nesting"), "{shape:?}: {error}");
            }
        }
    });
}

#[test]
fn a_hundred_collections_within_each_other() {
    let lists = nested("INSERT INTO t (a) VALUES (", ("[", "1", "]"), ")", 100);
    on_a_small_stack(move || assert!(parse(&lists).is_ok()));
}

/// Parses ten megabytes of each statement. A quadratic algorithm would exceed the time limit of the tests.
#[test]
fn long_statements_take_linear_time() {
    const BYTES: usize = 10 << 20;
    let long = |before: &str, piece: &str, after: &str| {
        format!("{before}{}{after}", piece.repeat(BYTES / piece.len()))
    };
    for text in [
        long("INSERT INTO t (a) VALUES ('", "x", "')"),
        long("INSERT INTO t (a) VALUES ([", "1,", "1])"),
        long("INSERT INTO t (a) VALUES ({", "(int)?, ", "1})"),
        long("INSERT INTO t (a) VALUES ({a:1", ",b:'x'", "})"),
        long("SELECT ", "(ttl(a)+1), ", "a FROM t"),
        long("SELECT ", "(text.a), (a.b), (json), ", "a FROM t"),
        long("SELECT * FROM t WHERE a IN (", "'abc', ", "'')"),
        long("SELECT * FROM t WHERE a = 1", " AND (a) IN ()", ""),
        long("BEGIN BATCH ", "UPDATE t SET a = a + 1 WHERE k = 1; ", "APPLY BATCH"),
        long("SELECT * FROM t ", "/* */ ", ""),
        long("USE a", ";", ""),
    ] {
        assert!(parse(&text).is_ok(), "{}", parse(&text).unwrap_err());
    }
    for text in [long("", "(", ""), long("SELECT ", "'", ""), long("SELECT ", "a.", ""), long("", "a ", "")] {
        assert!(parse(&text).is_err());
    }
    let mut options = String::from("ALTER TABLE t WITH a = 1");
    (0..500_000).for_each(|i| write!(options, " AND a{i} = 1").unwrap());
    assert!(parse(&options).is_ok());
    assert_eq!(split_statements(&long("", "USE a;", "")).len(), BYTES / 6);
}
