//! Value of a counter cell: one (clock, count) pair for each node that ever added to it.
//!
//! Layout: i16 n, n times i16 index (the i-th shard is global: 0x8000 + i), then n times { 16-byte counter
//! id, i64 clock, i64 count }, ids in unsigned byte order. Only the node that owns an id increments its
//! clock. Of two versions of a shard, the one with the higher clock therefore includes the other, and merging
//! is idempotent. Clients read the sum of the counts. Source: Cassandra's `db/context/CounterContext.java`.
//!
//! Legacy local and remote shards (before Cassandra 2.1) are refused.

use std::cmp::Ordering;
use std::fmt;

use base::bytes::Take;

use crate::SmallBytes;

/// A node's part of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterShard {
    /// Id of the node.
    pub id: [u8; 16],
    /// Version of the node's part. Only the node increments it.
    pub clock: i64,
    /// Sum of the node's increments.
    pub count: i64,
}

const SHARD_BYTES: usize = 32;
const GLOBAL_SHARD: u16 = 0x8000;

/// The bytes are not a counter value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterError {
    /// The error, for people.
    pub detail: String,
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a counter value: {}", self.detail)
    }
}

impl std::error::Error for CounterError {}

/// Encodes `shards`, whose ids must rise; at most 32,767.
pub fn encode(shards: &[CounterShard]) -> SmallBytes {
    assert!(shards.len() <= usize::from(i16::MAX as u16), "counter ids are node ids; there are few");
    assert!(shards.is_sorted_by(|a, b| a.id < b.id), "counter shards rise by id");
    let mut out = Vec::with_capacity(2 + shards.len() * (2 + SHARD_BYTES));
    out.extend_from_slice(&(shards.len() as u16).to_be_bytes());
    for i in 0..shards.len() {
        out.extend_from_slice(&(GLOBAL_SHARD + i as u16).to_be_bytes());
    }
    for shard in shards {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out.into()
}

/// The shards of an encoded value, with rising ids.
pub fn decode(value: &[u8]) -> Result<Vec<CounterShard>, CounterError> {
    let error = |detail: String| CounterError { detail };
    let mut take = Take::new(value);
    let n = take.u16().map_err(|e| error(e.to_string()))? as i16;
    let n = u16::try_from(n).map_err(|_| error(format!("{n} shards")))?;
    for i in 0..n {
        let index = take.u16().map_err(|e| error(e.to_string()))?;
        if index != GLOBAL_SHARD + i {
            return Err(error(format!(
                "shard index {index:#06x} where {:#06x} is expected",
                GLOBAL_SHARD + i
            )));
        }
    }
    if take.remaining() != usize::from(n) * SHARD_BYTES {
        return Err(error(format!("{} bytes for {n} shards", take.remaining())));
    }
    let mut shards = Vec::with_capacity(usize::from(n));
    for _ in 0..n {
        let mut next = || -> Result<CounterShard, base::bytes::Truncated> {
            Ok(CounterShard { id: take.array()?, clock: take.i64()?, count: take.i64()? })
        };
        shards.push(next().map_err(|e| error(e.to_string()))?);
    }
    if !shards.is_sorted_by(|a: &CounterShard, b| a.id < b.id) {
        return Err(error("shard ids do not rise".to_string()));
    }
    Ok(shards)
}

/// The number that clients read: the sum of the counts, wrapping as in Cassandra and ScyllaDB.
pub fn total(value: &[u8]) -> Result<i64, CounterError> {
    Ok(decode(value)?.iter().fold(0i64, |sum, shard| sum.wrapping_add(shard.count)))
}

/// Merges two values: for each node, the shard with the higher clock is kept (at a tie, with the higher
/// count).
///
/// Values were validated before this point. If one is malformed nevertheless, the other wins; if both are,
/// the greater bytes win, so that merging remains commutative and associative.
pub fn merge(left: &SmallBytes, right: &SmallBytes) -> SmallBytes {
    if left == right {
        return left.clone();
    }
    let (a, b) = match (decode(left), decode(right)) {
        (Ok(a), Ok(b)) => (a, b),
        (Ok(_), Err(_)) => return left.clone(),
        (Err(_), Ok(_)) => return right.clone(),
        (Err(_), Err(_)) => return left.max(right).clone(),
    };
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match x.id.cmp(&y.id) {
            Ordering::Less => merged.extend(a.next()),
            Ordering::Greater => merged.extend(b.next()),
            Ordering::Equal => {
                let newer = if (x.clock, x.count) >= (y.clock, y.count) { *x } else { *y };
                merged.push(newer);
                a.next();
                b.next();
            }
        }
    }
    merged.extend(a);
    merged.extend(b);
    encode(&merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u8, clock: i64, count: i64) -> CounterShard {
        CounterShard { id: [id; 16], clock, count }
    }

    #[test]
    fn the_higher_clock_of_each_node_wins() {
        let a = encode(&[shard(1, 5, 50), shard(2, 1, 10)]);
        let b = encode(&[shard(2, 2, 20), shard(3, 1, 1)]);
        let merged = merge(&a, &b);
        assert_eq!(decode(&merged).unwrap(), [shard(1, 5, 50), shard(2, 2, 20), shard(3, 1, 1)]);
        assert_eq!(merged, merge(&b, &a));
        assert_eq!(total(&merged), Ok(71));
    }

    #[test]
    fn malformed_values_are_errors() {
        assert!(decode(&[]).is_err());
        assert!(decode(&[0xff, 0xff]).is_err());
        assert!(decode(&[0, 1, 0, 0]).is_err());
        let good = encode(&[shard(1, 5, 50)]);
        assert!(decode(&good[..good.len() - 1]).is_err());
        assert_eq!(merge(&SmallBytes::from("junk"), &good), good);
    }
}
