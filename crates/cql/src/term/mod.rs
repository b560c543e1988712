//! Typed terms: expressions, bind markers and constants of a wanted type.
//!
//! | question | file |
//! |---|---|
//! | prepared terms and their evaluation | `expr.rs` |
//! | the state of preparing a statement | `planner.rs`; terms of the text: `function/prepare.rs` |
//! | types that may stand for each other | `assignable.rs` |
//! | constants that a type accepts | `literal.rs` |
//! | bind markers: their types and bound values | `markers.rs` |
//! | terms and relations in errors | `raw_text.rs` |
//! | user-defined functions that a statement calls | `user_call.rs` |
//!
//! **Guarantee:** an evaluated value is valid for the term's type, including values from clients.

mod assignable;
mod expr;
mod literal;
mod markers;
mod planner;
mod raw_text;
mod user_call;

pub use assignable::is_assignable;
pub use expr::{Call, Env, Expr, ScalarFunction, Value};
pub use literal::literal_bytes;
pub(crate) use literal::{fits as literal_fits, natural_type as literal_type};
pub use markers::{Bound, InList, Markers, bind};
pub use planner::{Planner, SELECTION};
pub use raw_text::{of_relation, of_term};
pub use user_call::UserCall;

#[cfg(test)]
mod tests;
