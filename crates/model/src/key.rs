//! Partition keys, their tokens, and ranges of keys.
//!
//! Partitions are always ordered by token and then by the unsigned bytes of the key: in memtables, SSTables
//! and scans.

use std::cmp::Ordering;

use base::bytes::{Take, Truncated, put_u16_bytes};

use crate::SmallBytes;

/// A serialized partition key with its Murmur3 token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    token: i64,
    bytes: SmallBytes,
}

impl PartitionKey {
    /// From the serialized key: the value itself for a single key column, otherwise the composite form (see
    /// [`composite_key`]).
    pub fn new(bytes: impl Into<SmallBytes>) -> Self {
        let bytes = bytes.into();
        Self { token: base::murmur3::token(&bytes), bytes }
    }

    /// The Murmur3 token, computed once when the key was made.
    pub fn token(&self) -> i64 {
        self.token
    }

    /// The serialized key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Heap memory of this value in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

impl PartialOrd for PartitionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PartitionKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

/// Serializes the values of several key columns: for each a u16 length, the bytes, and a 0 byte. A value must
/// have at most 65,535 bytes; the caller has validated that.
pub fn composite_key<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        put_u16_bytes(&mut out, value);
        out.push(0);
    }
    out
}

/// The values of a composite key. Errors: a length that exceeds the bytes.
pub fn split_composite_key(bytes: &[u8]) -> Result<Vec<&[u8]>, Truncated> {
    let mut take = Take::new(bytes);
    let mut values = Vec::new();
    while !take.is_empty() {
        values.push(take.u16_bytes()?);
        take.u8()?;
    }
    Ok(values)
}

/// A point between partitions: before or after all keys of a token, or before or after one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingPosition {
    /// Before all keys of the token.
    BeforeToken(i64),
    /// After all keys of the token.
    AfterToken(i64),
    /// Directly before the key.
    BeforeKey(PartitionKey),
    /// Directly after the key.
    AfterKey(PartitionKey),
}

impl RingPosition {
    /// The token of the position's keys.
    pub fn token(&self) -> i64 {
        match self {
            Self::BeforeToken(token) | Self::AfterToken(token) => *token,
            Self::BeforeKey(key) | Self::AfterKey(key) => key.token,
        }
    }

    /// Whether `key` is after (`Greater`) or before (`Less`) this point; never `Equal`.
    #[inline]
    pub fn side_of(&self, key: &PartitionKey) -> Ordering {
        match self {
            Self::BeforeToken(token) => key.token.cmp(token).then(Ordering::Greater),
            Self::AfterToken(token) => key.token.cmp(token).then(Ordering::Less),
            Self::BeforeKey(at) => key.cmp(at).then(Ordering::Greater),
            Self::AfterKey(at) => key.cmp(at).then(Ordering::Less),
        }
    }
}

/// The values of the partition key's columns, of which there are `count`.
pub(crate) fn column_values(count: usize, key: &PartitionKey) -> Vec<Vec<u8>> {
    let one = || vec![key.bytes().to_vec()];
    if count == 1 {
        return one();
    }
    let parts = split_composite_key(key.bytes());
    parts.map_or_else(|_| one(), |parts| parts.into_iter().map(<[u8]>::to_vec).collect())
}

/// The partitions of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionRange {
    /// One partition.
    Key(PartitionKey),
    /// All partitions after `start` and before `end`. Does not wrap around the ring.
    Between {
        /// Before the first partition.
        start: RingPosition,
        /// After the last partition.
        end: RingPosition,
    },
}

impl PartitionRange {
    /// The whole ring.
    pub fn all() -> Self {
        Self::Between { start: RingPosition::BeforeToken(i64::MIN), end: RingPosition::AfterToken(i64::MAX) }
    }

    /// Whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: &PartitionKey) -> bool {
        match self {
            Self::Key(only) => only == key,
            Self::Between { start, end } => start.side_of(key).is_gt() && end.side_of(key).is_lt(),
        }
    }

    /// The start of the range: a point before all its keys.
    pub fn start(&self) -> RingPosition {
        match self {
            Self::Key(key) => RingPosition::BeforeKey(key.clone()),
            Self::Between { start, .. } => start.clone(),
        }
    }

    /// The end of the range: a point after all its keys.
    pub fn end(&self) -> RingPosition {
        match self {
            Self::Key(key) => RingPosition::AfterKey(key.clone()),
            Self::Between { end, .. } => end.clone(),
        }
    }

    /// Whether a key from `first` to `last` (inclusive) may be in the range. False is certain.
    pub fn may_overlap(&self, first: &PartitionKey, last: &PartitionKey) -> bool {
        match self {
            Self::Key(key) => first <= key && key <= last,
            Self::Between { start, end } => start.side_of(last).is_gt() && end.side_of(first).is_lt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_know_their_ends() {
        let mut keys: Vec<PartitionKey> = ["a", "b", "c", "d"].map(PartitionKey::new).to_vec();
        keys.sort();
        let range = PartitionRange::Between {
            start: RingPosition::AfterKey(keys[0].clone()),
            end: RingPosition::BeforeToken(keys[3].token()),
        };
        assert_eq!(
            keys.iter().map(|key| range.contains(key)).collect::<Vec<_>>(),
            [false, true, true, false]
        );
        assert!(!range.may_overlap(&keys[0], &keys[0]) && !range.may_overlap(&keys[3], &keys[3]));
        assert!(range.may_overlap(&keys[0], &keys[1]));
        assert!(keys.iter().all(|key| PartitionRange::all().contains(key)));
    }

    #[test]
    fn composite_keys_split_into_what_they_were_made_of() {
        let key = composite_key([&b"ab"[..], b"", b"c"]);
        assert_eq!(key, b"\x00\x02ab\x00\x00\x00\x00\x00\x01c\x00");
        assert_eq!(split_composite_key(&key).unwrap(), [&b"ab"[..], b"", b"c"]);
        assert!(split_composite_key(&key[..7]).is_err());
    }
}
