//! The library that a Cassandra node loads (see docs/code-map.md, section "ring").
//!
//! `cassandra/` has the Java classes. They describe a table's SSTables as bytes ([`wire`]), this crate makes
//! a view of them and asks the strategy of the crate `compaction` ([`decisions`]), and the plan goes back as
//! bytes. The functions that Java calls are in [`jni_calls`]; no panic and no error passes them but as a
//! Java exception.

#![warn(missing_docs)]

pub mod decisions;
#[cfg(test)]
mod java_tests;
pub mod jni_calls;
pub mod merge;
pub mod option_check;
pub mod wire;

/// The version of the calls between the Java classes and this library. Java refuses a library with another
/// one. Raised with each change of a signature or of an encoding.
pub const CALLS_VERSION: i32 = 1;
