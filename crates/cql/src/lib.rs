//! CQL: from a client's bytes to what is asked of the storage, and from its answer to bytes.
//!
//! `protocol` knows frames and no statement; `syntax` knows statements as text and no table. Neither clock nor
//! socket nor disk is here: the storage is behind a port that the server implements.

mod access;
mod consistency;
mod coordinator;
pub mod describe;
mod error;
pub mod function;
pub mod modify;
mod outcome;
pub mod protocol;
pub mod restriction;
mod result_memory;
mod row_set;
pub mod schema;
pub mod select;
mod statement;
pub mod syntax;
pub mod system;
pub mod term;
pub mod testing;

pub use consistency::ConsistencyLevels;
pub use coordinator::{ChangeSchema, Coordinator, Decide, ResultLimits};
pub use error::{CqlError, FailureReason, WriteKind};
pub use outcome::{Execution, Outcome, ResultRows};
pub use result_memory::{ResultCharge, ResultMemory};
pub use row_set::RowSet;
pub use statement::{Prepared, StatementKind, check_batch_consistency, execute_batch, is_control_statement};
