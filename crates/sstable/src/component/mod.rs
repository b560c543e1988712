//! The files of an SSTable as values: one module a component, each from bytes and to bytes, without I/O.
//!
//! Decoding is total: any bytes give a value or a [`FormatError`], and memory stays in proportion to the bytes.
//! Rows and cells of Data.db are not here, since they need the data model; what Data.db shares with Index.db
//! and Statistics.db is: clustering values ([`clustering`]) and deletion times ([`deletion_time`]).
//! Layouts: facts `sstable-format.md`; `docs/formats/` for our own Messina.db.

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
pub mod statistics;
pub mod summary;
pub mod toc;
pub mod trie;

pub(crate) use error::check_count;
pub use error::{FormatError, Named};
