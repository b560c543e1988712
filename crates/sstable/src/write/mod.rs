//! Writes an SSTable: from fragments to sealed files.
//!
//! ```text
//! Fragment -> partition (order, headers, markers, promoted index) -> row (cells)
//!          -> data_file (chunks, checksums) -> output_file (aligned buffers, direct writes)
//! ```
//! 1. [`SSTableWriter::create`] writes `TOC.txt.tmp` first. From then on [`clean_up`] recognizes the files
//!    that a crash leaves as unfinished.
//! 2. [`SSTableWriter::push`] is synchronous: it encodes and compresses into buffers. When
//!    [`SSTableWriter::wants_write`] returns true, [`SSTableWriter::write_out`] hands full buffers to the
//!    device and returns while the writes are in flight.
//! 3. [`SSTableWriter::finish`] writes the other components, syncs all files and the directory together, then
//!    renames `TOC.txt.tmp` to `TOC.txt` and syncs the directory again. Only then does the SSTable exist.
//!
//! **Guarantees:** a sealed SSTable is complete on the device; after an error nothing is sealed; partitions
//! and positions rise (asserted). **Not done here:** choosing names, adding the new SSTable to its table,
//! reading it.

mod adopt;
mod columns;
mod data_file;
mod error;
mod from_reader;
mod large;
mod options;
mod output_file;
mod partition;
mod row;
mod seal;
mod secondary;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::component::summary::{SUMMARY_RATIO_DEFAULT, Spacing};
pub use adopt::{Adoption, adopt};
pub use error::WriteError;
pub use from_reader::write_reader;
pub use large::LargeDataLimits;
pub use options::{WriteOptions, Written};
pub use seal::{CleanedUp, clean_up, remove_sstable, remove_sstables, seal_all};
pub use secondary::{build_index, publish_index, remove_index};
pub(crate) use writer::INDEX_PAGE_BYTES;
pub use writer::SSTableWriter;
