//! CQL: from a client's bytes to what is asked of the storage, and from its answer to bytes.
//!
//! `protocol` knows frames and no statement; `syntax` knows statements as text and no table. Neither clock nor
//! socket nor disk is here: the storage is behind a port that the server implements.

mod coordinator;
mod error;
pub mod function;
mod outcome;
pub mod protocol;
pub mod restriction;
pub mod select;
pub mod syntax;
pub mod term;
pub mod testing;

pub use coordinator::{ChangeSchema, Coordinator, Decide};
pub use error::{CqlError, WriteKind};
pub use outcome::{Execution, Outcome, ResultRows};
