//! CQL: converts the statements of clients to operations on storage, and their results to rows.
//!
//! The crate has no access to clock, sockets or disk: storage is an interface that the server implements.

mod access;
mod audit;
mod consistency;
mod coordinator;
pub mod describe;
mod error;
pub mod function;
pub mod key;
mod limits;
pub mod modify;
mod outcome;
pub mod restriction;
mod result_memory;
mod result_queue;
mod row_set;
pub mod schema;
pub mod select;
mod statement;
mod statement_kind;
pub mod system;
pub mod term;
pub mod testing;
#[cfg(test)]
mod tests;

pub use audit::{AuditCategory, AuditSubject, without_passwords};
pub use consistency::{ConsistencyLevels, Replicas};
pub use coordinator::{ChangeSchema, ClientState, Coordinator, Decide, Host, SchemaRules, Storage};
pub use error::from_catalog;
pub use limits::{BatchLimits, BatchSeverity, ResultLimits};
pub use outcome::{CellBlocks, Execution, Outcome, ResultRows};
pub use result_memory::{Growth, ResultCharge, ResultMemory, SMALL_RESULT_BYTES};
pub use row_set::RowSet;
pub use statement::{Prepared, check_batch_consistency, execute_batch, is_control_statement};
pub use statement_kind::{StatementKind, Verb};
