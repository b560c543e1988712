//! Merges of SSTables for a Cassandra node.
//!
//! Java names the inputs and enough free names for the outputs ([`request`]), which its transaction tracks
//! before the first byte is written. [`merge_run::run`] reads, merges, purges and writes; [`running`] starts
//! a runtime of one shard for each merge, so that merges run in parallel and end with their threads. Java
//! asks for the progress, sets how far the merge may read (its rate limit), and may stop it.
//!
//! **Guarantees:** inputs are only read. After an error the files of the outputs are removed; the node's
//! transaction removes them too, also after a crash. An input that is not sound, or a feature that the writer
//! does not have, is an error, and Cassandra's own merge does the task.

pub mod merge_run;
pub mod outside;
pub mod request;
pub mod running;
#[cfg(test)]
mod tests;
