//! Codecs of an SSTable's files: one module for each component, which decodes and encodes bytes without I/O.
//!
//! Decoding is total: any bytes give a value or a [`FormatError`], and the memory is proportional to the
//! number of bytes. Rows and cells of Data.db are not decoded here, because they need the data model. The
//! parts that Data.db shares with Index.db and Statistics.db are here: clustering values ([`clustering`]) and
//! deletion times ([`deletion_time`]). Layouts: facts `sstable-format.md`; `docs/formats/` for Messina.db.

pub mod clustering;
pub mod compression_info;
pub mod crc;
pub mod deletion_time;
pub mod digest;
mod error;
pub mod filter;
pub mod index;
pub mod large_data;
pub mod messina;
pub mod partitions_db;
pub mod rows_db;
pub mod secondary_index;
pub mod statistics;
pub mod summary;
pub mod toc;
pub mod trie;

pub(crate) use error::check_count;
pub use error::{FormatError, Named};
