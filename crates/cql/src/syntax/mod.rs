//! CQL text: lexer, syntax tree, parser.
//!
//! Knows words, not tables: that a column exists, that a literal fits its type, is the planner's to say.

pub mod ast;
mod naming;
mod print;

pub use ast::*;
