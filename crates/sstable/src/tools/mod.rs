//! The offline tools (`messina sstable …`) as functions, without arguments, terminal and exit codes.
//!
//! ```text
//! sstable_path the SSTables at a path
//! advice     tries codecs and chunk lengths on sampled data, and chooses
//! metadata   Statistics.db in the format of sstablemetadata, and as JSON; histogram, java
//! listing    Index.db, Summary.db and CompressionInfo.db as text and JSON
//! finding    an error found by a verification, as a line
//! headers    the table of several SSTables; fit: whether an SSTable fits a given table
//! rewrite    rewrites an SSTable: whole (export) or in pieces (split)
//! tombstones counts tombstones, by kind and age, and those that another SSTable keeps
//! scrub      rewrites the readable part of a damaged SSTable
//! ```
//! **Guarantees:** no tool changes existing files. Every tool is a stream: its memory is some windows and
//! buffers, and for tools that write also the writer's state of each partition (16 bytes for the filter, and
//! the key of one partition in 128). All files of an SSTable are opened before any is read, so a server may
//! delete the SSTable meanwhile.

pub mod advice;
mod finding;
mod fit;
mod headers;
mod histogram;
mod java;
mod listing;
mod metadata;
mod rewrite;
mod scrub;
mod sstable_path;
#[cfg(test)]
mod tests;
mod tombstones;

pub use finding::{Finding, Findings};
pub use fit::{Misfit, check_fit};
pub use headers::{HeaderConflict, merged_header, read_statistics};
pub use listing::{
    compression_info_json, compression_info_text, index_json, index_text, summary_json, summary_text,
};
pub use metadata::{metadata_json, metadata_text, partition_key_text};
pub use rewrite::{CompressionChoice, RewriteError, RewritePlan, next_generation, rewrite};
pub use scrub::{ScrubReport, ScrubRounds, scrub};
pub use sstable_path::{SSTablePath, SSTablePathError, find, find_damaged};
pub use tombstones::{TombstoneCount, TombstoneCounter, TombstoneKinds};
