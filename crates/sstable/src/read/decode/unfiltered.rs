//! The encoded units of a partition in Data.db: its header, rows, and markers of range tombstones.
//!
//! ```text
//! header := str16 key, deletion time
//! row    := flags [extended flags] clustering values, vint size, vint size of the unit before, body
//! marker := flags, kind, u16 n, n clustering values, vint size, vint size of the unit before,
//!           1 or 2 deletions
//! ```
//! Parsing has two steps. [`parse_head`] determines the kind of a row or marker, its clustering values, its
//! end, and the start of the one before it. The body is decoded only if it is wanted (`row`,
//! [`Bases::deletion`]). A head that extends beyond the window is not an error but [`Stop::Short`]; a body
//! must fit into its stored size. Source: Cassandra's `UnfilteredSerializer`, `ClusteringPrefix`.

use std::cmp::Ordering;

use base::bytes::{Take, Truncated};
use model::clustering::PrefixBuilder;
use model::{ClusteringKey, NO_DELETION_TIME_S, NO_TIMESTAMP_US, Position, Side, TableSchema, Tombstone};

use crate::component::clustering::{FixedLengths, PrefixKind, ValueReader, skip_values};
use crate::component::deletion_time::{self, DeletionTime};
use crate::component::statistics::DeltaBases;
use crate::component::{FormatError, Named};
use crate::version::Version;

pub(in crate::read) const END_OF_PARTITION: u8 = 0x01;
const IS_MARKER: u8 = 0x02;
pub(in crate::read) const HAS_TIMESTAMP: u8 = 0x04;
pub(in crate::read) const HAS_TTL: u8 = 0x08;
pub(in crate::read) const HAS_DELETION: u8 = 0x10;
pub(in crate::read) const HAS_ALL_COLUMNS: u8 = 0x20;
pub(in crate::read) const HAS_COMPLEX_DELETION: u8 = 0x40;
const EXTENSION: u8 = 0x80;

const EXTENDED_IS_STATIC: u8 = 0x01;

/// The longest clustering value in bytes, as in Cassandra and ScyllaDB.
const VALUE_BYTES_MAX: usize = 65_535;

/// Why a row, marker or header could not be parsed.
#[derive(Debug)]
pub(in crate::read) enum Stop {
    /// The window ends before the end of the row or marker. At least this number of bytes, counted from its
    /// start, is needed.
    Short(u64),
    Bad(FormatError),
}

impl From<FormatError> for Stop {
    fn from(error: FormatError) -> Self {
        Self::Bad(error)
    }
}

fn short(bytes: &[u8], truncated: Truncated) -> Stop {
    if truncated.missing_bytes > VALUE_BYTES_MAX {
        let expected = format!("at most {VALUE_BYTES_MAX} bytes");
        return Stop::Bad(FormatError::new("clustering value", truncated.offset_bytes, expected, "more"));
    }
    Stop::Short((bytes.len() + truncated.missing_bytes) as u64)
}

/// The start of a partition.
pub(in crate::read) struct PartitionHeader<'a> {
    pub(in crate::read) key: &'a [u8],
    pub(in crate::read) deletion: DeletionTime,
    /// Length in bytes.
    pub(in crate::read) bytes: usize,
}

impl<'a> PartitionHeader<'a> {
    pub(in crate::read) fn parse(bytes: &'a [u8], version: Version) -> Result<Self, Stop> {
        let mut take = Take::new(bytes);
        let key = take.u16_bytes().map_err(|truncated| short(bytes, truncated))?;
        let missing_bytes = DeletionTime::SIZE_BYTES_MAX.saturating_sub(take.remaining());
        let deletion = DeletionTime::decode(&mut take, version, "partition deletion");
        let deletion = deletion.map_err(|error| match missing_bytes {
            0 => Stop::Bad(error),
            _ => Stop::Short((bytes.len() + missing_bytes) as u64),
        })?;
        Ok(Self { key, deletion, bytes: take.offset() })
    }
}

/// What stands at a position within a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Kind {
    EndOfPartition,
    StaticRow,
    Row,
    Marker(PrefixKind),
}

/// A row or marker up to its body.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Head<'a> {
    pub(in crate::read) kind: Kind,
    pub(in crate::read) flags: u8,
    /// Number of clustering values.
    pub(in crate::read) count: usize,
    /// The encoded clustering values.
    pub(in crate::read) values: &'a [u8],
    /// Start of the body, counted from the start of the row or marker.
    pub(in crate::read) body_at: usize,
    /// Length of the whole row or marker in bytes; the next one starts there.
    pub(in crate::read) bytes: u64,
    /// Distance in bytes to the start of the row or marker before; for the first one, to the start of the
    /// partition.
    pub(in crate::read) previous_bytes: u64,
}

/// Parses the head of the row or marker that starts with `bytes`. `left_bytes` is the length of the data from
/// here on; no row or marker can be longer.
#[inline]
pub(in crate::read) fn parse_head<'a>(
    bytes: &'a [u8],
    fixed: FixedLengths<'_>,
    left_bytes: u64,
) -> Result<Head<'a>, Stop> {
    let mut take = Take::new(bytes);
    let short = |truncated| short(bytes, truncated);
    let flags = take.u8().map_err(short)?;
    if flags & END_OF_PARTITION != 0 {
        let head = Head {
            kind: Kind::EndOfPartition,
            flags,
            count: 0,
            values: &[],
            body_at: 1,
            bytes: 1,
            previous_bytes: 0,
        };
        if flags != END_OF_PARTITION {
            return Err(Stop::Bad(FormatError::new("flags", 0, "01 at the end", format!("{flags:02x}"))));
        }
        return Ok(head);
    }
    let (kind, count) = if flags & IS_MARKER != 0 {
        if flags != IS_MARKER {
            return Err(Stop::Bad(FormatError::new(
                "flags",
                0,
                "02 of a range tombstone's marker",
                format!("{flags:02x}"),
            )));
        }
        let number = take.u8().map_err(short)?;
        let kind = PrefixKind::from_u8(number).filter(|kind| *kind != PrefixKind::Row).ok_or_else(|| {
            FormatError::new("kind of a marker", 1, "0, 1, 2, 5, 6 or 7", number.to_string())
        })?;
        let count = usize::from(take.u16().map_err(short)?);
        if count > fixed.len() {
            let expected = format!("at most {}", fixed.len());
            return Err(Stop::Bad(FormatError::new("clustering values", 2, expected, count.to_string())));
        }
        (Kind::Marker(kind), count)
    } else if flags & EXTENSION != 0 {
        let extended = take.u8().map_err(short)?;
        match extended {
            0 => (Kind::Row, fixed.len()),
            EXTENDED_IS_STATIC => (Kind::StaticRow, 0),
            _ => {
                let expected = "00 or 01 (others are shadowable deletions of views, which are not read)";
                let found = format!("{extended:02x}");
                return Err(Stop::Bad(FormatError::new("extended flags", 1, expected, found)));
            }
        }
    } else {
        (Kind::Row, fixed.len())
    };
    let values_at = take.offset();
    skip_values(&mut take, &fixed[..count]).map_err(short)?;
    let values = &bytes[values_at..take.offset()];
    let size_at = take.offset();
    let size = take.vint().map_err(short)?;
    let counted_from = take.offset() as u64;
    let end = counted_from.checked_add(size).filter(|end| *end <= left_bytes).ok_or_else(|| {
        let expected =
            format!("at most {}, the bytes that are left", left_bytes.saturating_sub(counted_from));
        FormatError::new("size of a row or marker", size_at, expected, size.to_string())
    })?;
    let previous_bytes = take.vint().map_err(short)?;
    if take.offset() as u64 > end {
        let expected = format!("at least {}", take.offset() as u64 - counted_from);
        return Err(Stop::Bad(FormatError::new(
            "size of a row or marker",
            size_at,
            expected,
            size.to_string(),
        )));
    }
    Ok(Head { kind, flags, count, values, body_at: take.offset(), bytes: end, previous_bytes })
}

impl Head<'_> {
    /// The decoded clustering values. A null (of compact tables) becomes an empty value.
    #[inline]
    pub(in crate::read) fn prefix(
        &self,
        fixed: FixedLengths<'_>,
        builder: &mut PrefixBuilder,
    ) -> Result<ClusteringKey, FormatError> {
        prefix_of(self.values, &fixed[..self.count], builder)
    }

    /// The order of this position relative to `target`, without decoding its values.
    #[inline]
    pub(in crate::read) fn compare(
        &self,
        fixed: FixedLengths<'_>,
        schema: &TableSchema,
        target: &Position,
    ) -> Result<Ordering, FormatError> {
        let mut values = ValueReader::new(Take::new(self.values), &fixed[..self.count]);
        let mut targets = target.prefix.values();
        for column in &schema.clustering[..target.prefix.len()] {
            let Some(mine) = values.next_value() else { break };
            let order = match (mine.named("clustering value")?, targets.next()) {
                (Some(mine), Some(theirs)) => column.ty.compare(mine, theirs),
                // Null is less than all values.
                (mine, theirs) => mine.is_some().cmp(&theirs.is_some()),
            };
            if order.is_ne() {
                return Ok(order);
            }
        }
        // As for positions: a prefix sorts before or after everything that extends it.
        Ok(match self.count.cmp(&target.prefix.len()) {
            Ordering::Equal => self.side().cmp(&target.side),
            Ordering::Less if self.side() == Side::After => Ordering::Greater,
            Ordering::Less => Ordering::Less,
            Ordering::Greater if target.side == Side::After => Ordering::Less,
            Ordering::Greater => Ordering::Greater,
        })
    }

    /// The side of its prefix on which this position lies.
    #[inline]
    pub(in crate::read) fn side(&self) -> Side {
        match self.kind {
            Kind::Marker(kind) => side_of(kind),
            Kind::Row | Kind::StaticRow | Kind::EndOfPartition => Side::At,
        }
    }
}

/// Decodes the values; there is one for each element of `fixed`.
#[inline]
pub(in crate::read) fn prefix_of(
    values: &[u8],
    fixed: FixedLengths<'_>,
    builder: &mut PrefixBuilder,
) -> Result<ClusteringKey, FormatError> {
    let mut reader = ValueReader::new(Take::new(values), fixed);
    while let Some(value) = reader.next_value() {
        let Some(value) = value.named("clustering value")? else {
            builder.push_null();
            continue;
        };
        if value.len() > VALUE_BYTES_MAX {
            let expected = format!("at most {VALUE_BYTES_MAX} bytes");
            let found = value.len().to_string();
            *builder = PrefixBuilder::default();
            return Err(FormatError::new("clustering value", 0, expected, found));
        }
        builder.push(value);
    }
    Ok(builder.finish())
}

/// The side of a prefix of this kind.
pub(in crate::read) fn side_of(kind: PrefixKind) -> Side {
    match kind.weight() {
        -1 => Side::Before,
        0 => Side::At,
        _ => Side::After,
    }
}

/// The bases to which the time differences in Data.db are added.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Bases {
    bases: DeltaBases,
    /// Whether local deletion times are unsigned ([`Version::has_uint_deletion_time`]).
    is_uint: bool,
}

impl Bases {
    pub(in crate::read) fn new(bases: DeltaBases, version: Version) -> Self {
        Self { bases, is_uint: version.has_uint_deletion_time() }
    }

    #[inline]
    pub(in crate::read) fn timestamp(&self, take: &mut Take<'_>) -> Result<i64, FormatError> {
        let delta = take.vint().named("timestamp")?;
        Ok(self.bases.min_timestamp_us.wrapping_add(delta as i64))
    }

    /// A local deletion time in seconds. Sums are modulo 2^32 in all versions.
    #[inline]
    pub(in crate::read) fn deletion_time(&self, take: &mut Take<'_>) -> Result<u32, FormatError> {
        let delta = take.vint().named("local deletion time")?;
        let stored_s = self.bases.min_local_deletion_time_s.wrapping_add(delta as i32);
        Ok(if self.is_uint { stored_s as u32 } else { deletion_time_s(stored_s) })
    }

    #[inline]
    pub(in crate::read) fn ttl(&self, take: &mut Take<'_>) -> Result<u32, FormatError> {
        let at = take.offset();
        let delta = take.vint().named("TTL")?;
        let ttl_s = self.bases.min_ttl_s.wrapping_add(delta as i32);
        match u32::try_from(ttl_s) {
            Ok(ttl_s) if ttl_s > 0 => Ok(ttl_s),
            _ => Err(FormatError::new("TTL", at, "1 to 2147483647 seconds", ttl_s.to_string())),
        }
    }

    #[inline]
    pub(in crate::read) fn deletion(&self, take: &mut Take<'_>) -> Result<Tombstone, FormatError> {
        let timestamp_us = self.timestamp(take)?;
        let deletion_time_s = self.deletion_time(take)?;
        // Cassandra 5 writes "none" in 32 bits into older versions too, where it reads as a time.
        if timestamp_us == NO_TIMESTAMP_US {
            return Ok(Tombstone::LIVE);
        }
        Ok(Tombstone { timestamp_us, deletion_time_s })
    }

    /// The deletions of a marker, from its body: the one in force before it and the one in force after it.
    pub(in crate::read) fn marker(
        &self,
        kind: PrefixKind,
        body: &[u8],
    ) -> Result<(Tombstone, Tombstone), FormatError> {
        let mut take = Take::new(body);
        let first = self.deletion(&mut take)?;
        let both = if kind.is_boundary() {
            (first, self.deletion(&mut take)?)
        } else if kind.is_end() {
            (first, Tombstone::LIVE)
        } else {
            (Tombstone::LIVE, first)
        };
        match take.is_empty() {
            true => Ok(both),
            false => Err(FormatError::new(
                "marker",
                take.offset(),
                "its end, by its size",
                format!("{} more bytes", take.remaining()),
            )),
        }
    }
}

/// Converts a stored deletion time to seconds. A negative time lies after 2038 and was computed in 31 bits by
/// an older server; as an unsigned number it is correct.
#[inline]
fn deletion_time_s(stored_s: i32) -> u32 {
    if stored_s == deletion_time::NO_DELETION_TIME_S {
        NO_DELETION_TIME_S
    } else {
        (stored_s as u32).min(NO_DELETION_TIME_S - 1)
    }
}

/// Converts the stored deletion of a partition or of an open marker.
pub(in crate::read) fn tombstone_of(deletion: DeletionTime) -> Tombstone {
    Tombstone {
        timestamp_us: deletion.marked_for_delete_at_us,
        deletion_time_s: deletion_time_s(deletion.local_deletion_time_s),
    }
}
