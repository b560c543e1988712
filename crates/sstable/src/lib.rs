//! SSTables: sorted, immutable tables on disk in Cassandra's `big` and `bti` formats (see docs/code-map.md,
//! section "sstable").

pub mod codec;
pub mod component;
pub mod dump;
pub mod name;
pub mod pool;
pub mod read;
pub mod tools;
pub mod version;
pub mod write;
