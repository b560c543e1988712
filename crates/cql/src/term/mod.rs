//! Typed terms: what a term of the statement's text becomes once it is known which type is wanted.
//!
//! | question | file |
//! |---|---|
//! | what a prepared term is, what it evaluates to | `expr.rs` |
//! | from text to a prepared term | `prepare.rs` |
//! | which constants a type takes | `literal.rs` |
//! | bind markers: what they stand for, what a client bound | `markers.rs` |
//!
//! **Guarantee:** a value that comes out of an evaluation is valid for the term's type, whoever sent it.

mod expr;
mod literal;
mod markers;
mod prepare;

pub use expr::{Call, Env, Expr, ScalarFunction, Value};
pub(crate) use literal::fits as literal_fits;
pub use literal::literal_bytes;
pub use markers::{Bound, Markers, bind};
pub use prepare::{Planner, SELECTION, is_assignable};

#[cfg(test)]
mod tests;
