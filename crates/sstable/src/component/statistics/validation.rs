//! The validation part of Statistics.db: str16 partitioner class, f64 bloom filter false-positive
//! probability.
//!
//! An SSTable of a different partitioner is refused, because its partitions are in a different order.

use base::bytes::{Take, put_u16_bytes};

use super::text;
use crate::component::{FormatError, Named};

/// The only partitioner that Messina supports.
pub const MURMUR3_PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Properties that must agree with the table before the SSTable is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationMetadata {
    /// Java class name of the partitioner.
    pub partitioner: String,
    /// The false-positive probability for which the filter was built; 1.0 if there is no Filter.db.
    pub bloom_filter_fp_chance: f64,
}

impl ValidationMetadata {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_u16_bytes(out, self.partitioner.as_bytes());
        out.extend_from_slice(&self.bloom_filter_fp_chance.to_be_bytes());
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, FormatError> {
        let at = take.offset();
        let partitioner = text(take.u16_bytes().named("partitioner")?, "partitioner", at)?;
        let bloom_filter_fp_chance = take.f64().named("bloom filter chance")?;
        Ok(Self { partitioner, bloom_filter_fp_chance })
    }
}
