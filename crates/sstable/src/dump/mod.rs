//! What is in an SSTable as JSON text, character for character as Cassandra's `sstabledump` prints it.
//!
//! ```text
//! fragments -> json (partitions, rows, cells, markers) -> layout (lines, indents)
//!              times (microseconds and seconds as text)
//! schema       the table as an SSTable describes itself, when no other schema is at hand
//! ```
//! It prints fragments, whoever yields them: an SSTable's reader, or partitions in memory whose dump is to be
//! compared. **Left to others:** opening SSTables, and where in Data.db something stands: fragments do not
//! know, so `"position"` is the one field of `sstabledump` that is not printed.

mod json;
mod layout;
mod schema;
#[cfg(test)]
mod tests;
mod times;

pub use json::{DumpOptions, JsonDump, dump_reader};
pub use schema::{HeaderError, schema_of_header};
