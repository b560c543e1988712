//! Modifications: INSERT, UPDATE, DELETE and BATCH, with conditions, counters and collections.
//!
//! [`prepare`] and [`prepare_batch`] build a [`ModifyPlan`] from a syntax tree. [`execute`] and
//! [`execute_batch`] execute plans with bound values.
//!
//! | question | file |
//! |---|---|
//! | the plan, and its metadata for clients | `plan.rs` |
//! | rules of INSERT, UPDATE and DELETE | `change.rs` |
//! | partitions and rows of a write | `target.rs` |
//! | SET and DELETE of a column | `operation.rs` |
//! | INSERT JSON | `json.rs` |
//! | USING | `using.rs` |
//! | from values to a mutation | `write.rs`, paths of list elements: `list_path.rs` |
//! | writes that depend on stored data | `edit.rs` |
//! | IF, and the rows that it returns | `condition.rs`, `reply.rs`, `existing.rs` |
//! | rules and limits of batches | `batch.rs` |
//! | limits of indexed values | `index_limits.rs` |
//! | order of reads and writes | `execute.rs` |
//!
//! **Guarantee:** a mutation built here has valid values for the types of its columns, and keys within the
//! storage's limits.

mod batch;
mod change;
mod condition;
mod edit;
mod execute;
mod existing;
mod index_limits;
mod json;
mod list_path;
mod operation;
mod plan;
mod reply;
mod target;
mod using;
mod write;

pub use execute::{execute, execute_batch};
pub use plan::{ModifyPlan, prepare, prepare_batch};
pub use using::TTL_MAX_S;

#[cfg(test)]
mod tests;
