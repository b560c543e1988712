//! CQL text: lexer, syntax tree, parser.
//!
//! Knows words, not tables: that a column exists, that a literal fits its type, is the planner's to say.
//!
//! - [`parse`] makes a tree ([`ast`]) of one statement, or an error that points at the character.
//! - [`split_statements`] cuts a script; [`tokens`] and [`Keyword`] serve highlighting and completion.
//! - Trees print as CQL by `Display`; `Selector::column_name` names the columns of results.

pub mod ast;
mod keyword;
mod lexer;
mod naming;
mod parser;
mod print;
mod print_access;
mod print_data;
mod print_schema;
mod print_term;
mod split;
mod syntax_error;

pub use ast::*;
pub use keyword::Keyword;
pub use lexer::{Token, TokenKind, tokens};
pub use parser::{MAX_DEPTH, parse};
pub use split::{StatementText, split_statements, statements};

#[cfg(test)]
mod tests;
