//! The compaction part of Statistics.db: a sketch of the partition keys, as u32 length and bytes.
//!
//! From the sketches, the number of different keys in several SSTables is estimated. The sketch is optional:
//! other writers store other sketches here, so unreadable bytes are kept and are not an error.

use base::bytes::Take;
use base::hyperloglog::{HyperLogLog, SketchError};

use crate::component::{FormatError, Named};

/// The key sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionMetadata {
    /// The sketch's bytes in the format of stream-lib's HyperLogLogPlus.
    pub cardinality_bytes: Vec<u8>,
}

impl CompactionMetadata {
    /// Encodes a sketch.
    pub fn new(keys: &HyperLogLog) -> Self {
        Self { cardinality_bytes: keys.encode() }
    }

    /// The decoded sketch, or the reason why this build cannot read the bytes.
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
