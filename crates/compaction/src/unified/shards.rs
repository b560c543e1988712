//! Decides into how many parts of the ring SSTables are split, by their density.
//!
//! Density is bytes scaled to the whole ring: an SSTable's bytes on disk divided by the fraction of the ring
//! from its first to its last token. A shard's tokens are assumed to be spread over the whole ring, so
//! densities describe the shard's data.

use model::PartitionKey;

use crate::plan::{Layout, Split};
use crate::view::SSTableView;

/// Maximum number of parts.
const SHARDS_MAX: u64 = 1 << 16;
/// SSTables with a smaller fraction of the ring contain few partitions; they count as covering the whole
/// ring.
const SHARE_MIN: f64 = 1.0 / (1u64 << 48) as f64;

/// Parameters of the number of parts (Cassandra: shards) into which the ring is cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharding {
    /// The number of parts of a small table.
    pub base_shards: u64,
    /// The size of an SSTable that the number of parts aims at.
    pub target_sstable_bytes: u64,
    /// The size below which SSTables are not cut further.
    pub min_sstable_bytes: u64,
    /// 0: the target size is kept and the number of SSTables grows; 1: the number is kept and SSTables grow.
    pub growth: f64,
}

impl Default for Sharding {
    fn default() -> Self {
        Self { base_shards: 4, target_sstable_bytes: 1 << 30, min_sstable_bytes: 100 << 20, growth: 0.333 }
    }
}

/// The fraction of the ring between two tokens.
fn share(first: i64, last: i64) -> f64 {
    let share = last.abs_diff(first) as f64 / 2f64.powi(64);
    if share < SHARE_MIN { 1.0 } else { share }
}

/// Bytes on disk, scaled to the whole ring.
pub fn density(sstable: &SSTableView) -> f64 {
    sstable.disk_bytes as f64 / share(sstable.first.token(), sstable.last.token())
}

fn power_of_two_below(count: f64) -> u64 {
    let count = (count as u64).clamp(1, SHARDS_MAX);
    1 << count.ilog2()
}

impl Sharding {
    /// The number of parts of the ring for data of this density.
    pub fn shards(&self, density: f64) -> u64 {
        let base = self.base_shards.max(1);
        if self.min_sstable_bytes > 0 {
            let count = density / self.min_sstable_bytes as f64;
            if count < base as f64 {
                // A divisor of the base count, so that its boundaries are a subset of the others.
                return power_of_two_below(count).min(base & base.wrapping_neg());
            }
        }
        let count = density / (self.target_sstable_bytes.max(1) as f64 * base as f64);
        let factor = if self.growth >= 1.0 {
            1
        } else if self.growth <= 0.0 {
            power_of_two_below(count / std::f64::consts::FRAC_1_SQRT_2)
        } else {
            let power = (count.log2() * (1.0 - self.growth) + 0.5).floor();
            1 << power.clamp(0.0, 20.0) as u32
        };
        base.saturating_mul(factor).min(SHARDS_MAX.max(base))
    }

    /// The layout for `bytes` bytes of data from one key to another.
    pub fn layout(&self, bytes: u64, first: &PartitionKey, last: &PartitionKey) -> Layout {
        let (first, last) = (first.token(), last.token());
        self.cut(bytes as f64 / share(first, last), first, last)
    }

    /// The layout for `bytes` bytes over the whole ring.
    pub fn layout_of_all(&self, bytes: u64) -> Layout {
        self.cut(bytes as f64, i64::MIN, i64::MAX)
    }

    fn cut(&self, density: f64, first: i64, last: i64) -> Layout {
        let shards = i128::from(self.shards(density));
        let boundary = |shard: i128| (i128::from(i64::MIN) + (shard << 64) / shards) as i64;
        // The index of the shard that contains a token.
        let shard_of = |token: i64| ((i128::from(token) - i128::from(i64::MIN)) * shards) >> 64;
        let tokens: Vec<i64> = (shard_of(first) + 1..=shard_of(last))
            .map(boundary)
            .filter(|token| (first..last).contains(token))
            .collect();
        if tokens.is_empty() {
            return Layout::whole();
        }
        Layout { split: Split::Tokens(tokens), is_run: true, ..Layout::whole() }
    }
}
