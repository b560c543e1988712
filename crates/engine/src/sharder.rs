//! Maps tokens to shards.
//!
//! The same function as in the shard-aware drivers ("biased-token-round-robin" with 12 ignored bits): the
//! ring is divided into 4,096 ranges, and each range into equal parts for the shards.

/// Number of upper bits of a token that are ignored.
pub const IGNORE_MSB: u32 = 12;

/// Maps tokens to `shard_count` shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharder {
    pub shard_count: u32,
}

impl Sharder {
    pub fn shard_of(self, token: i64) -> u32 {
        let biased = (token as u64) ^ (1 << 63);
        ((u128::from(biased << IGNORE_MSB) * u128::from(self.shard_count)) >> 64) as u32
    }
}

/// The partitions of a table that a shard owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedTokens {
    /// The mapping and the number of the shard; `None`: all partitions.
    part: Option<(Sharder, u32)>,
}

impl OwnedTokens {
    pub const ALL: Self = Self { part: None };

    pub fn of(sharder: Sharder, shard_id: u32) -> Self {
        Self { part: Some((sharder, shard_id)) }
    }

    #[inline]
    pub fn has(self, token: i64) -> bool {
        self.part.is_none_or(|(sharder, shard_id)| sharder.shard_of(token) == shard_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_drivers_compute_it() {
        // The values of the ScyllaDB drivers' own tests: 4 shards, 12 bits.
        let sharder = Sharder { shard_count: 4 };
        let check = |token: i64, shard: u32| assert_eq!(sharder.shard_of(token), shard, "{token}");
        check(-9219783007514621794, 3);
        check(9222582454147032830, 3);
        check(i64::MIN, 0);
        check(0, 0);
        assert!((0..10_000).all(|i| Sharder { shard_count: 1 }.shard_of(i * 7_777_777_777) == 0));
    }
}
