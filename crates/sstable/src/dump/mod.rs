//! What is in an SSTable as JSON text, character for character as Cassandra's `sstabledump` prints it.
//!
//! ```text
//! fragments -> json (partitions, rows, cells, markers) -> layout (lines, indents)
//!           -> lines (each row as Cassandra writes it for itself: sstabledump -d)
//!              times (microseconds and seconds as text)
//! schema       the table as an SSTable describes itself, when no other schema is at hand
//! ```
//! It prints fragments, whoever yields them: an SSTable's reader, or partitions in memory whose dump is to be
//! compared. Where in Data.db something stands fragments do not know: `"position"` is printed of those that come
//! with one. **Left to others:** opening SSTables.

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
