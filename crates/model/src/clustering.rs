//! Positions inside a partition: clustering keys, the points between them, and ranges.
//!
//! A [`ClusteringPrefix`] contains the values of the first clustering columns; of a row it has all of them. A
//! [`Position`] adds a side: before all rows that begin with the prefix, at the row itself, or after them.
//! Bounds of slices and range tombstones are positions, so inclusive and exclusive bounds need no
//! distinction: `>= x` starts before x, `> x` starts after it.
//!
//! The order is the table's: that of the column types, with `ReversedType` for `CLUSTERING ORDER BY … DESC`.
//! Only the schema knows it, so comparisons go through `TableSchema::compare_positions`. A reverse read
//! visits the same positions in falling order.

use std::cmp::Ordering;

use base::bytes::{Take, Truncated, put_u16_bytes};

use crate::SmallBytes;

/// The values of the first `len()` clustering columns.
///
/// Serialized as one string, in which each value follows its length as a u16. A value has at most 65,535
/// bytes, as in Cassandra and ScyllaDB.
///
/// In a dense table ([`crate::CompactStorage`]) the last values may be null. Nulls are counted and not
/// stored, and sort before all values, in descending columns too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusteringPrefix {
    bytes: SmallBytes,
    len: u16,
    nulls: u16,
}

/// A prefix with a value for every clustering column of its table: the key of a row.
pub type ClusteringKey = ClusteringPrefix;

impl ClusteringPrefix {
    /// The prefix of no columns: all rows have it.
    pub const EMPTY: Self = Self { bytes: SmallBytes::new(), len: 0, nulls: 0 };

    /// Each value must have at most 65,535 bytes, and there are at most 65,535 values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut builder = PrefixBuilder::default();
        for value in values {
            builder.push(value);
        }
        builder.finish()
    }

    /// The number of values, with nulls.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether it has no values, as the key of a row in a table without clustering columns.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the last values are null.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        self.nulls > 0
    }

    /// The same values, followed by nulls up to `len` values.
    #[must_use]
    pub fn padded(mut self, len: usize) -> Self {
        let len = u16::try_from(len).unwrap_or(u16::MAX).max(self.len);
        self.nulls += len - self.len;
        self.len = len;
        self
    }

    /// Compares two prefixes whose values are equal as far as both have some: null is less than a value.
    pub(crate) fn compare_nulls(&self, other: &Self) -> Ordering {
        let values = |prefix: &Self| prefix.len - prefix.nulls;
        let (mine, theirs) = (values(self), values(other));
        if mine < theirs && mine < self.len {
            Ordering::Less
        } else if theirs < mine && theirs < other.len {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }

    /// The values that are not null, first column first.
    #[inline]
    pub fn values(&self) -> PrefixValues<'_> {
        PrefixValues { rest: &self.bytes }
    }

    /// The serialized form of the values; with `len()` it determines the prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The inverse of [`Self::as_bytes`], without nulls; see [`Self::padded`]. Errors: a length that exceeds
    /// the bytes, or more than 65,535 values.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Truncated> {
        let mut take = Take::new(bytes);
        let mut len = 0u16;
        while !take.is_empty() {
            take.u16_bytes()?;
            len = len.checked_add(1).ok_or(Truncated { offset_bytes: take.offset(), missing_bytes: 0 })?;
        }
        Ok(Self { bytes: bytes.into(), len, nulls: 0 })
    }

    /// The first `len` values.
    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        Self::new(self.values().take(len)).padded(len.min(self.len()))
    }

    /// Heap memory of this value in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// Builds prefixes from values. It keeps its buffer, so a reader that builds many prefixes allocates once.
#[derive(Default)]
pub struct PrefixBuilder {
    bytes: Vec<u8>,
    len: u16,
    nulls: u16,
}

impl PrefixBuilder {
    /// Appends a value of at most 65,535 bytes.
    pub fn push(&mut self, value: &[u8]) {
        // Only the last values can be null.
        for _ in 0..std::mem::take(&mut self.nulls) {
            put_u16_bytes(&mut self.bytes, &[]);
        }
        put_u16_bytes(&mut self.bytes, value);
        self.len += 1;
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        self.nulls += 1;
        self.len += 1;
    }

    /// The prefix of the values pushed since the last call.
    pub fn finish(&mut self) -> ClusteringPrefix {
        let prefix =
            ClusteringPrefix { bytes: self.bytes.as_slice().into(), len: self.len, nulls: self.nulls };
        self.bytes.clear();
        (self.len, self.nulls) = (0, 0);
        prefix
    }
}

/// Iterator over the values of a prefix.
#[derive(Clone)]
pub struct PrefixValues<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PrefixValues<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        self.rest = rest;
        Some(value)
    }
}

/// The side of its prefix on which a position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Before all rows that begin with the prefix.
    Before,
    /// At the row whose key is the prefix.
    At,
    /// After all rows that begin with the prefix.
    After,
}

impl Side {
    /// The same side in falling order.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::At => Self::At,
            Self::After => Self::Before,
        }
    }
}

/// A point in a partition: a row, or a gap between rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The values of the first clustering columns. Fewer than all stand for all rows that begin with them.
    pub prefix: ClusteringPrefix,
    /// Whether the position is before, at or after these rows.
    pub side: Side,
}

impl Position {
    /// Before all rows.
    pub const START: Self = Self { prefix: ClusteringPrefix::EMPTY, side: Side::Before };
    /// After all rows.
    pub const END: Self = Self { prefix: ClusteringPrefix::EMPTY, side: Side::After };

    /// Before all rows that begin with `prefix`.
    pub fn before(prefix: ClusteringPrefix) -> Self {
        Self { prefix, side: Side::Before }
    }

    /// The position of the row `key`.
    pub fn at(key: ClusteringKey) -> Self {
        Self { prefix: key, side: Side::At }
    }

    /// After all rows that begin with `prefix`.
    pub fn after(prefix: ClusteringPrefix) -> Self {
        Self { prefix, side: Side::After }
    }

    /// Heap memory of this value in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.prefix.heap_bytes()
    }
}

/// The rows after `start` and before `end`, in the table's order; neither is `Side::At`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringRange {
    /// The first position of the range.
    pub start: Position,
    /// The last position of the range.
    pub end: Position,
}

impl ClusteringRange {
    /// All rows of a partition.
    pub fn all() -> Self {
        Self { start: Position::START, end: Position::END }
    }

    /// All rows that begin with `prefix`; one row if the prefix is a whole key.
    pub fn of_prefix(prefix: ClusteringPrefix) -> Self {
        Self { start: Position::before(prefix.clone()), end: Position::after(prefix) }
    }

    /// Whether the range has all rows.
    pub fn is_all(&self) -> bool {
        self.start == Position::START && self.end == Position::END
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in() {
        let prefix = ClusteringPrefix::new([&b"a"[..], b"", &[7; 100]]);
        assert_eq!(prefix.len(), 3);
        assert_eq!(prefix.values().collect::<Vec<_>>(), [&b"a"[..], b"", &[7; 100]]);
        assert_eq!(ClusteringPrefix::from_bytes(prefix.as_bytes()).unwrap(), prefix);
        assert_eq!(prefix.truncated(1), ClusteringPrefix::new([&b"a"[..]]));
        assert!(ClusteringPrefix::from_bytes(&[0, 9, 1]).is_err());
    }
}
