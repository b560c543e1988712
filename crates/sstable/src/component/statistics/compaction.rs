//! The compaction part of Statistics.db: a sketch of the partition keys, as u32 length and bytes.
//!
//! It estimates how many keys several SSTables have together. It is advice: other writers put other sketches
//! here, so bytes that are none we can read are kept and not an error.

use base::bytes::Take;
use base::hyperloglog::{HyperLogLog, SketchError};

use crate::component::{FormatError, Named};

/// The key sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionMetadata {
    /// The sketch's bytes, as stream-lib's HyperLogLogPlus reads them.
    pub cardinality_bytes: Vec<u8>,
}

impl CompactionMetadata {
    pub fn new(keys: &HyperLogLog) -> Self {
        Self { cardinality_bytes: keys.encode() }
    }

    /// The sketch, or why the bytes are not one that this build reads.
    pub fn cardinality(&self) -> Result<HyperLogLog, SketchError> {
        HyperLogLog::decode(&self.cardinality_bytes)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.cardinality_bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.cardinality_bytes);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, FormatError> {
        Ok(Self { cardinality_bytes: take.u32_bytes().named("key sketch")?.to_vec() })
    }
}
