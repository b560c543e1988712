//! CQL: converts the statements of clients to operations on storage, and their results to rows.
//!
//! The crate has no access to clock, sockets or disk: storage is an interface that the server implements.

mod access;
mod consistency;
mod coordinator;
pub mod describe;
mod error;
pub mod function;
pub mod modify;
mod outcome;
pub mod restriction;
mod result_memory;
mod result_queue;
mod row_set;
pub mod schema;
pub mod select;
mod statement;
pub mod system;
pub mod term;
pub mod testing;

pub use consistency::{ConsistencyLevels, Replicas};
pub use coordinator::{ChangeSchema, Coordinator, Decide, ResultLimits};
pub use error::from_catalog;
pub use outcome::{CellBlocks, Execution, Outcome, ResultRows};
pub use result_memory::{Growth, ResultCharge, ResultMemory, SMALL_RESULT_BYTES};
pub use row_set::RowSet;
pub use statement::{Prepared, StatementKind, check_batch_consistency, execute_batch, is_control_statement};
