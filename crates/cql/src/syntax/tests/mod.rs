//! What the parser makes of statements, whole and broken, hand-written and random.

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

/// Statements of every kind, one a line; `#` begins a remark.
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

/// The text is a statement that prints as `expect`, which is the same statement.
#[track_caller]
pub fn check(text: &str, expect: &str) {
    let first = parsed(text);
    assert_eq!(first.statement.to_string(), expect);
    assert_eq!(parsed(expect), first, "{expect}");
}

/// The text is a statement that prints as it is written.
#[track_caller]
pub fn same(text: &str) {
    check(text, text);
}
