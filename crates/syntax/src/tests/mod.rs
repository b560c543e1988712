//! Parser tests: valid and invalid statements, written by hand and random.

mod access;
mod errors;
mod laws;
mod limits;
mod schema;
mod select;
mod speed;
mod terms;
mod write;

use super::ast::{Parsed, Statement};
use super::parse;

/// Statements of every kind, one per line; lines that begin with `#` are remarks.
pub const CORPUS: &str = include_str!("corpus.cql");

pub fn corpus() -> impl Iterator<Item = &'static str> {
    CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[track_caller]
pub fn parsed(text: &str) -> Parsed {
    match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => panic!("{text}\n{error}"),
    }
}

#[track_caller]
pub fn statement(text: &str) -> Statement {
    parsed(text).statement
}

/// Checks that the text is a statement and prints as `expect`, and that `expect` parses as the same
/// statement.
#[track_caller]
pub fn check(text: &str, expect: &str) {
    let first = parsed(text);
    assert_eq!(first.statement.to_string(), expect);
    assert_eq!(parsed(expect), first, "{expect}");
}

/// Checks that the statement prints exactly as written.
#[track_caller]
pub fn same(text: &str) {
    check(text, text);
}
