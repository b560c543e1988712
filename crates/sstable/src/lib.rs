//! SSTables: sorted, immutable files in Cassandra's "big" format (see ARCHITECTURE.md, "sstable").

pub mod codec;
pub mod component;
pub mod dump;
pub mod name;
pub mod pool;
pub mod read;
pub mod tools;
pub mod version;
pub mod write;
