//! Statements that write: INSERT, UPDATE, DELETE and BATCH, with conditions, counters and collections.
//!
//! [`prepare`] and [`prepare_batch`] make a [`ModifyPlan`] of a syntax tree; [`execute`] and [`execute_batch`] carry
//! it out with bound values.
//!
//! | question | file |
//! |---|---|
//! | what a plan is, what clients are told of it | `plan.rs` |
//! | INSERT, UPDATE, DELETE: what they may say | `change.rs` |
//! | which partitions and rows are named | `target.rs` |
//! | SET and DELETE of a column | `operation.rs` |
//! | INSERT JSON | `json.rs` |
//! | USING | `using.rs` |
//! | from values to a mutation | `write.rs`, list elements' places: `list_path.rs` |
//! | what depends on what is there | `edit.rs` |
//! | IF, and the rows that answer it | `condition.rs`, `reply.rs`, `existing.rs` |
//! | what may stand together in a batch | `batch.rs` |
//! | who is asked in which order | `execute.rs` |
//!
//! **Guarantee:** a mutation that leaves here has values of their columns' types, and keys within the storage's
//! limits.

mod batch;
mod change;
mod condition;
mod edit;
mod execute;
mod existing;
mod json;
mod list_path;
mod operation;
mod plan;
mod reply;
mod target;
mod using;
mod write;

pub use batch::{BatchLimits, BatchSeverity};
pub use execute::{execute, execute_batch};
pub use plan::{ModifyPlan, prepare, prepare_batch};
pub use using::TTL_MAX_S;

#[cfg(test)]
mod tests;
