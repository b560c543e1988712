//! What a run executes: a table, how its values are made, and statements with their shares.
//!
//! | question | file |
//! |---|---|
//! | what does a profile's text contain | `document.rs` |
//! | which rows does a partition have, which values does a row have | `table.rs` |
//! | which statements does an operation send | `operation.rs` |
//!
//! `write`, `read`, `mixed`, `counter_write` and `counter_read` are documents made of options
//! (`standard.rs`); `user profile=…` reads a document from a file, or takes a shipped one by name.

mod document;
mod operation;
mod standard;
mod table;

pub use document::{Document, shipped};
pub use operation::{Checks, Operation, Operations, Request, shares};
pub use standard::{Columns, column_count, counter, standard};
pub use table::{Column, Role, Table};
