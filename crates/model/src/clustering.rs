//! Where something stands inside a partition: clustering keys, the points between them, ranges of them.
//!
//! A [`ClusteringPrefix`] is the values of the first clustering columns, all of them for a row. A
//! [`Position`] adds a side: before every row that begins with the prefix, at the row itself, or after
//! them. Bounds of slices and of range tombstones are positions, so inclusive and exclusive need no cases:
//! `>= x` starts before x, `> x` starts after it.
//!
//! Order is the table's (types, with `ReversedType` where `CLUSTERING ORDER BY … DESC` asked for it), which
//! only the schema knows: comparing goes through `TableSchema::compare_positions`. A reverse read walks the
//! same positions downwards.

use base::bytes::{Take, Truncated, put_u16_bytes};

use crate::SmallBytes;

/// The values of the first `len()` clustering columns.
///
/// Serialized as one string, each value with a u16 length before it; the length of a value is at most
/// 65,535 bytes, as in the peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusteringPrefix {
    bytes: SmallBytes,
    len: u16,
}

/// A prefix with a value for every clustering column of its table: a row's key.
pub type ClusteringKey = ClusteringPrefix;

impl ClusteringPrefix {
    pub const EMPTY: Self = Self { bytes: SmallBytes::new(), len: 0 };

    /// Each value must be at most 65,535 bytes, and there are at most 65,535 of them.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut builder = PrefixBuilder::default();
        for value in values {
            builder.push(value);
        }
        builder.finish()
    }

    /// How many values.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, first column first.
    #[inline]
    pub fn values(&self) -> PrefixValues<'_> {
        PrefixValues { rest: &self.bytes }
    }

    /// The serialized form; together with `len()` it is the whole prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The inverse of [`Self::as_bytes`], checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Truncated> {
        let mut take = Take::new(bytes);
        let mut len = 0u16;
        while !take.is_empty() {
            take.u16_bytes()?;
            len = len.checked_add(1).ok_or(Truncated { offset_bytes: take.offset(), missing_bytes: 0 })?;
        }
        Ok(Self { bytes: bytes.into(), len })
    }

    /// The first `len` values.
    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        Self::new(self.values().take(len))
    }

    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// Gathers values into a prefix; keeps its buffer, so a reader that makes many prefixes allocates once.
#[derive(Default)]
pub struct PrefixBuilder {
    bytes: Vec<u8>,
    len: u16,
}

impl PrefixBuilder {
    pub fn push(&mut self, value: &[u8]) {
        put_u16_bytes(&mut self.bytes, value);
        self.len += 1;
    }

    pub fn finish(&mut self) -> ClusteringPrefix {
        let prefix = ClusteringPrefix { bytes: self.bytes.as_slice().into(), len: self.len };
        self.bytes.clear();
        self.len = 0;
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

/// On which side of its prefix a position stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// In front of every row that begins with the prefix.
    Before,
    /// At the row whose key the prefix is.
    At,
    /// Behind every row that begins with the prefix.
    After,
}

impl Side {
    /// The same side, seen by somebody who walks downwards.
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
    pub prefix: ClusteringPrefix,
    pub side: Side,
}

impl Position {
    /// In front of every row.
    pub const START: Self = Self { prefix: ClusteringPrefix::EMPTY, side: Side::Before };
    /// Behind every row.
    pub const END: Self = Self { prefix: ClusteringPrefix::EMPTY, side: Side::After };

    pub fn before(prefix: ClusteringPrefix) -> Self {
        Self { prefix, side: Side::Before }
    }

    pub fn at(key: ClusteringKey) -> Self {
        Self { prefix: key, side: Side::At }
    }

    pub fn after(prefix: ClusteringPrefix) -> Self {
        Self { prefix, side: Side::After }
    }

    pub fn heap_bytes(&self) -> usize {
        self.prefix.heap_bytes()
    }
}

/// The rows behind `start` and in front of `end`, in the table's order; neither is `Side::At`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringRange {
    pub start: Position,
    pub end: Position,
}

impl ClusteringRange {
    pub fn all() -> Self {
        Self { start: Position::START, end: Position::END }
    }

    /// Every row that begins with `prefix`; one row if the prefix is a whole key.
    pub fn of_prefix(prefix: ClusteringPrefix) -> Self {
        Self { start: Position::before(prefix.clone()), end: Position::after(prefix) }
    }

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
