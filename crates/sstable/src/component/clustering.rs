//! The encoding of clustering values and prefixes in Data.db and Index.db.
//!
//! ```text
//! values := for each group of up to 32: vint header, 2 bits a value (low bit: empty, high bit: null),
//!           then each value that is neither, raw if its type has a fixed length, else with a vint length
//! prefix := u8 kind, [u16 number of values, unless kind is a row's], values
//! ```
//! A row has a value for every clustering column, and no count. A bound or boundary has a count and that
//! number of values.
//!
//! This module does not know types: callers pass the fixed length of each clustering column's type, or `None`
//! if values store their length. A value is `Option<&[u8]>`: `None` is null, `Some(&[])` is empty. Decoding
//! borrows from the input and does not allocate.

use base::bytes::{Take, Truncated};
use base::vint;

use crate::component::{FormatError, Named};

/// Number of values that share one header.
const GROUP: usize = 32;

/// The fixed length in bytes of each clustering column's type; `None` if values store their length.
pub type FixedLengths<'f> = &'f [Option<usize>];

/// Appends `values`, which belong to the first columns of `fixed`.
///
/// Panics if there are more values than columns, or if the length of a fixed-length value is wrong.
pub fn encode_values(out: &mut Vec<u8>, values: &[Option<&[u8]>], fixed: FixedLengths<'_>) {
    assert!(values.len() <= fixed.len(), "{} values for {} columns", values.len(), fixed.len());
    for (values, fixed) in values.chunks(GROUP).zip(fixed.chunks(GROUP)) {
        vint::write_unsigned(out, header_of(values));
        for (value, fixed) in values.iter().zip(fixed) {
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            match fixed {
                Some(len) => assert_eq!(value.len(), *len, "a value has its type's length"),
                None => vint::write_unsigned(out, value.len() as u64),
            }
            out.extend_from_slice(value);
        }
    }
}

/// Number of bytes that [`encode_values`] appends.
pub fn values_len(values: &[Option<&[u8]>], fixed: FixedLengths<'_>) -> usize {
    let headers = values.chunks(GROUP).map(|values| vint::unsigned_len(header_of(values))).sum::<usize>();
    let value_len = |(value, fixed): (&Option<&[u8]>, &Option<usize>)| match value {
        None | Some([]) => 0,
        Some(value) if fixed.is_some() => value.len(),
        Some(value) => vint::unsigned_len(value.len() as u64) + value.len(),
    };
    headers + values.iter().zip(fixed).map(value_len).sum::<usize>()
}

fn header_of(values: &[Option<&[u8]>]) -> u64 {
    values.iter().enumerate().fold(0, |header, (i, value)| match value {
        None => header | 2 << (2 * i),
        Some([]) => header | 1 << (2 * i),
        Some(_) => header,
    })
}

/// Reads the values of a clustering in order. [`Self::into_rest`] returns the position after the last value
/// read.
#[derive(Clone, Debug)]
pub struct ValueReader<'a, 'f> {
    take: Take<'a>,
    fixed: FixedLengths<'f>,
    next: usize,
    header: u64,
}

impl<'a, 'f> ValueReader<'a, 'f> {
    /// Reads `fixed.len()` values from the position of `take` on.
    pub fn new(take: Take<'a>, fixed: FixedLengths<'f>) -> Self {
        Self { take, fixed, next: 0, header: 0 }
    }

    /// The next value; `None` after the last. After an error the reader must not be used any more.
    #[inline]
    pub fn next_value(&mut self) -> Option<Result<Option<&'a [u8]>, Truncated>> {
        let fixed = *self.fixed.get(self.next)?;
        Some(self.read(fixed))
    }

    #[inline]
    fn read(&mut self, fixed: Option<usize>) -> Result<Option<&'a [u8]>, Truncated> {
        let in_group = self.next % GROUP;
        if in_group == 0 {
            self.header = self.take.vint()?;
        }
        self.next += 1;
        match (self.header >> (2 * in_group)) & 3 {
            0 => match fixed {
                Some(len) => self.take.bytes(len).map(Some),
                None => self.take.vint_bytes().map(Some),
            },
            1 => Ok(Some(&[])),
            // Null, whatever the other bit is.
            _ => Ok(None),
        }
    }

    /// The position after the values that were read.
    pub fn into_rest(self) -> Take<'a> {
        self.take
    }
}

impl<'a> Iterator for ValueReader<'a, '_> {
    type Item = Result<Option<&'a [u8]>, Truncated>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_value()
    }
}

/// Skips `fixed.len()` values.
#[inline]
pub fn skip_values(take: &mut Take<'_>, fixed: FixedLengths<'_>) -> Result<(), Truncated> {
    let mut reader = ValueReader::new(*take, fixed);
    while let Some(value) = reader.next_value() {
        value?;
    }
    *take = reader.into_rest();
    Ok(())
}

/// The kind of a prefix: a row, or a bound of a range tombstone. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PrefixKind {
    ExclEnd = 0,
    InclStart = 1,
    /// A boundary: one range ends before the prefix and another starts with it.
    ExclEndInclStart = 2,
    Row = 4,
    /// A boundary: one range ends with the prefix and another starts after it.
    InclEndExclStart = 5,
    InclEnd = 6,
    ExclStart = 7,
}

impl PrefixKind {
    /// The kind with this number; `None` for 3 (a static row, which has no prefix) and for numbers above 7.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::ExclEnd,
            1 => Self::InclStart,
            2 => Self::ExclEndInclStart,
            4 => Self::Row,
            5 => Self::InclEndExclStart,
            6 => Self::InclEnd,
            7 => Self::ExclStart,
            _ => return None,
        })
    }

    /// Whether the prefix is a boundary: it ends one range and starts another, and its marker has two
    /// deletion times.
    pub fn is_boundary(self) -> bool {
        matches!(self, Self::ExclEndInclStart | Self::InclEndExclStart)
    }

    /// Whether a range starts here. A boundary is both a start and an end.
    pub fn is_start(self) -> bool {
        self.is_boundary() || matches!(self, Self::InclStart | Self::ExclStart)
    }

    /// Whether a range ends here.
    pub fn is_end(self) -> bool {
        self.is_boundary() || matches!(self, Self::ExclEnd | Self::InclEnd)
    }

    /// The order relative to a clustering that begins with the prefix's values: before it (-1), equal (0,
    /// rows only) or after it (1). Kinds of the same weight are equal.
    pub fn weight(self) -> i8 {
        match self {
            Self::ExclEnd | Self::InclStart | Self::ExclEndInclStart => -1,
            Self::Row => 0,
            Self::InclEnd | Self::ExclStart | Self::InclEndExclStart => 1,
        }
    }
}

/// A prefix with encoded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPrefix<'a> {
    /// The kind of position that the prefix describes.
    pub kind: PrefixKind,
    /// Number of values; for a row the number of all clustering columns.
    pub count: usize,
    /// The encoded values.
    pub values: &'a [u8],
}

impl<'a> RawPrefix<'a> {
    /// Reads the prefix at `take` and moves after it. After an error the position of `take` is unspecified.
    pub fn decode(take: &mut Take<'a>, fixed: FixedLengths<'_>) -> Result<Self, FormatError> {
        let at = take.offset();
        let number = take.u8().named("prefix kind")?;
        let kind = PrefixKind::from_u8(number)
            .ok_or_else(|| FormatError::new("prefix kind", at, "0 to 7, but 3", number.to_string()))?;
        let count = if kind == PrefixKind::Row {
            fixed.len()
        } else {
            let at = take.offset();
            let count = usize::from(take.u16().named("number of clustering values")?);
            if count > fixed.len() {
                let expected = format!("at most {}", fixed.len());
                return Err(FormatError::new("number of clustering values", at, expected, count.to_string()));
            }
            count
        };
        let from = *take;
        skip_values(take, &fixed[..count]).named("clustering values")?;
        let values = &from.rest()[..take.offset() - from.offset()];
        Ok(Self { kind, count, values })
    }

    /// The values in column order. `fixed` must be the same as for decoding.
    pub fn values<'f>(&self, fixed: FixedLengths<'f>) -> ValueReader<'a, 'f> {
        ValueReader::new(Take::new(self.values), &fixed[..self.count])
    }
}

/// Appends a prefix. A row must have a value, possibly null, for every column.
pub fn encode_prefix(out: &mut Vec<u8>, kind: PrefixKind, values: &[Option<&[u8]>], fixed: FixedLengths<'_>) {
    out.push(kind as u8);
    if kind == PrefixKind::Row {
        assert_eq!(values.len(), fixed.len(), "a row has a value for every clustering column");
    } else {
        let count = u16::try_from(values.len()).expect("a table has fewer than 65536 clustering columns");
        out.extend_from_slice(&count.to_be_bytes());
    }
    encode_values(out, values, fixed);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INT_TEXT_INT: FixedLengths<'_> = &[Some(4), None, Some(4)];

    fn decoded<'a>(bytes: &'a [u8], fixed: FixedLengths<'_>) -> Result<Vec<Option<&'a [u8]>>, Truncated> {
        let mut reader = ValueReader::new(Take::new(bytes), fixed);
        let values = reader.by_ref().collect::<Result<_, _>>()?;
        assert!(reader.into_rest().is_empty(), "no bytes are left");
        Ok(values)
    }

    #[track_caller]
    fn check(values: &[Option<&[u8]>], fixed: FixedLengths<'_>, golden: &[u8]) {
        let mut out = vec![];
        encode_values(&mut out, values, fixed);
        assert_eq!(out, golden);
        assert_eq!(values_len(values, fixed), golden.len());
        assert_eq!(decoded(golden, &fixed[..values.len()]).unwrap(), values);
        for cut in 0..golden.len() {
            assert!(decoded(&golden[..cut], &fixed[..values.len()]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn golden_values() {
        check(&[], INT_TEXT_INT, &[]);
        check(&[Some(&[0, 0, 0, 7])], INT_TEXT_INT, &[0, 0, 0, 0, 7]);
        let all: [Option<&[u8]>; 3] = [Some(&[0, 0, 0, 7]), Some(b"ab"), Some(&[1, 2, 3, 4])];
        check(&all, INT_TEXT_INT, &[0, 0, 0, 0, 7, 2, b'a', b'b', 1, 2, 3, 4]);
        // The text is empty (bit 2), the last value is null (bit 5).
        check(&[Some(&[0, 0, 0, 7]), Some(&[]), None], INT_TEXT_INT, &[0b10_0100, 0, 0, 0, 7]);
    }

    #[test]
    fn every_32_values_have_a_header() {
        let fixed = [Some(1); 33];
        let mut values: Vec<Option<&[u8]>> = vec![Some(&[9]); 33];
        values[31] = None;
        values[32] = Some(&[]);
        let mut golden = vec![0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];
        golden.extend([9; 31]);
        golden.push(1);
        check(&values, &fixed, &golden);
    }

    #[test]
    fn golden_prefixes() {
        let check = |kind, values: &[Option<&[u8]>], golden: &[u8]| {
            let mut out = vec![];
            encode_prefix(&mut out, kind, values, INT_TEXT_INT);
            assert_eq!(out, golden);
            let mut take = Take::new(golden);
            let prefix = RawPrefix::decode(&mut take, INT_TEXT_INT).unwrap();
            assert!(take.is_empty());
            assert_eq!((prefix.kind, prefix.count), (kind, values.len()));
            let back: Vec<_> = prefix.values(INT_TEXT_INT).map(Result::unwrap).collect();
            assert_eq!(back, values);
            for cut in 0..golden.len() {
                assert!(RawPrefix::decode(&mut Take::new(&golden[..cut]), INT_TEXT_INT).is_err());
            }
        };
        check(PrefixKind::InclEnd, &[], &[6, 0, 0]);
        check(PrefixKind::ExclEndInclStart, &[Some(&[0, 0, 0, 7])], &[2, 0, 1, 0, 0, 0, 0, 7]);
        let row: [Option<&[u8]>; 3] = [Some(&[0, 0, 0, 7]), Some(b"a"), Some(&[1, 2, 3, 4])];
        check(PrefixKind::Row, &row, &[4, 0, 0, 0, 0, 7, 1, b'a', 1, 2, 3, 4]);
    }

    #[test]
    fn wrong_kinds_and_counts_are_errors() {
        for wrong in [&[3u8, 0, 0][..], &[8, 0, 0], &[255], &[1, 0, 4, 0, 0, 0, 0, 0, 0], &[1, 255, 255]] {
            assert!(RawPrefix::decode(&mut Take::new(wrong), INT_TEXT_INT).is_err(), "{wrong:?}");
        }
        for number in 0..=255u8 {
            assert!(PrefixKind::from_u8(number).is_none_or(|kind| kind as u8 == number));
        }
    }

    proptest! {
        #[test]
        fn values_round_trip(columns in prop::collection::vec(
            (prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), any::<bool>()), 0..70)) {
            let fixed: Vec<_> = columns.iter().map(|(value, is_fixed)| {
                let len = value.as_ref().map_or(4, Vec::len);
                is_fixed.then_some(len)
            }).collect();
            let values: Vec<_> = columns.iter().map(|(value, _)| value.as_deref()).collect();
            let mut out = vec![];
            encode_values(&mut out, &values, &fixed);
            prop_assert_eq!(out.len(), values_len(&values, &fixed));
            prop_assert_eq!(decoded(&out, &fixed).unwrap(), values);
        }

        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>) {
            let _ = RawPrefix::decode(&mut Take::new(&bytes), INT_TEXT_INT);
            let _ = skip_values(&mut Take::new(&bytes), &[None; 40]);
        }
    }
}
