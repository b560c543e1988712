//! Typed terms: terms of a statement's text, prepared for a wanted type.
//!
//! | question | file |
//! |---|---|
//! | prepared terms and their evaluation | `expr.rs` |
//! | from text to a prepared term | `prepare.rs` |
//! | constants that a type accepts | `literal.rs` |
//! | bind markers: their types and bound values | `markers.rs` |
//!
//! **Guarantee:** an evaluated value is valid for the term's type, including values from clients.

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
