//! CQL text: lexer, syntax tree, parser.
//!
//! This crate does not know the schema: the planner checks that columns exist and that literals fit their
//! types.
//!
//! - [`parse`] returns the tree ([`ast`]) of one statement, or an error with the position of the wrong
//!   character.
//! - [`split_statements`] splits a script; [`tokens`] and [`Keyword`] are used for highlighting and
//!   completion.
//! - Trees print as CQL by `Display`; `Selector::column_name` returns the names of result columns.

pub mod ast;
mod keyword;
mod lexer;
mod naming;
mod parser;
mod print;
mod print_access;
mod print_data;
mod print_function;
mod print_index;
mod print_schema;
mod print_term;
mod print_view;
mod split;
mod syntax_error;

pub use ast::*;
pub use keyword::Keyword;
pub use lexer::{Token, TokenKind, tokens};
pub use parser::{MAX_DEPTH, parse};
pub use print_view::relations_text;
pub use split::{StatementText, split_statements, statements};

#[cfg(test)]
mod tests;
