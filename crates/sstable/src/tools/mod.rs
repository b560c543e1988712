//! What the offline tools (`messina sstable …`) do, for programs: no arguments, no terminal, no exit codes.
//!
//! ```text
//! place      which SSTables a path names
//! metadata   Statistics.db as sstablemetadata prints it, and as JSON; histogram, java
//! listing    Index.db, Summary.db and CompressionInfo.db as text and JSON
//! finding    what a verify finds, as a line
//! headers    the table that several SSTables are of; fit: whether they are of a given one
//! rewrite    an SSTable written anew: whole (export) or in pieces (split)
//! scrub      what can be read of a damaged SSTable, written anew
//! ```
//! **Guarantees:** nothing that is there is changed. Every tool streams: its memory is some windows and buffers, and
//! for those that write also what a writer keeps of each partition until the end (16 bytes for the filter, and of one
//! in 128 its key). All files of an SSTable are opened before anything is read, so that a server may delete it meanwhile.

mod finding;
mod fit;
mod headers;
mod histogram;
mod java;
mod listing;
mod metadata;
mod place;
mod rewrite;
mod scrub;
#[cfg(test)]
mod tests;

pub use finding::{Finding, Findings};
pub use fit::{Misfit, check_fit};
pub use headers::{HeaderConflict, merged_header, read_statistics};
pub use listing::{
    compression_info_json, compression_info_text, index_json, index_text, summary_json, summary_text,
};
pub use metadata::{metadata_json, metadata_text};
pub use place::{Place, PlaceError, find, find_damaged};
pub use rewrite::{CompressionChoice, RewriteError, RewritePlan, next_generation, rewrite};
pub use scrub::{ScrubReport, ScrubRounds, scrub};
