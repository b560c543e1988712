//! Ids of SSTables and runs.

/// Identifies an SSTable within its table and shard: its generation. An id is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SSTableId(pub u64);

/// Identifies a run: SSTables with consecutive ranges of partitions that together count as one. An SSTable
/// without a run is a run of its own, with a unique `RunId` assigned by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u128);
