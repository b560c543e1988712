//! Dumps the content of an SSTable as JSON, with the same characters as Cassandra's `sstabledump`.
//!
//! ```text
//! fragments -> json (partitions, rows, cells, markers) -> layout (lines, indents)
//!           -> lines (rows in Cassandra's internal notation: sstabledump -d)
//!              times (microseconds and seconds as text)
//! schema       the table that an SSTable's header describes, if no other schema is available
//! ```
//! A dump prints fragments from any source: the reader of an SSTable, or partitions in memory whose dump is
//! to be compared. Fragments do not contain their position in Data.db, so `"position"` is printed only for
//! fragments that are passed with one. **Not done here:** opening SSTables.

mod json;
pub(crate) mod layout;
mod lines;
mod schema;
#[cfg(test)]
mod tests;
pub(crate) mod times;

pub use json::{DumpOptions, JsonDump, JsonShape, dump_reader};
pub use lines::LineDump;
pub use schema::{HeaderError, named_schema, schema_of_header};

pub(crate) use json::key_texts;
pub(crate) use lines::prefix_texts;
