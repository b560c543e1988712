//! Options of a table that storage does not use, in the spellings of Cassandra and ScyllaDB.

pub(crate) mod change_log;
pub(crate) mod column_mask;
pub(crate) mod compaction;
pub(crate) mod compression;
pub(crate) mod other_options;
pub(crate) mod retry;
pub(crate) mod settings;
pub(crate) mod text_map;
pub(crate) mod tombstone_gc;
