//! Clustering values and prefixes as Data.db and Index.db write them.
//!
//! ```text
//! values := for each group of up to 32: vint header, 2 bits a value (low bit: empty, high bit: null),
//!           then each value that is neither, raw if its type has a fixed length, else with a vint length
//! prefix := u8 kind, [u16 number of values, unless kind is a row's], values
//! ```
//! A row has a value for every clustering column and no count. A bound or boundary has as many as it names.
//!
//! Types are not known here: callers pass the fixed length of each clustering column's type, or `None` where
//! values carry a length. A value is `Option<&[u8]>`: `None` is null, `Some(&[])` is empty. Decoding borrows
//! and allocates nothing.

use base::bytes::{Take, Truncated};
use base::vint;

use crate::component::{FormatError, Named};

/// Values that share one header.
const GROUP: usize = 32;

/// The fixed length of each clustering column's type, in bytes; `None` if values carry their length.
pub type FixedLengths<'f> = &'f [Option<usize>];

/// Appends `values`, which belong to the first columns of `fixed`.
///
/// Asserts that there are no more values than columns and that a fixed-length value has its length.
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

/// How many bytes [`encode_values`] will append.
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

/// Reads the values of one clustering in order. After the last, [`Self::into_take`] stands behind them.
#[derive(Clone, Debug)]
pub struct ValueReader<'a, 'f> {
    take: Take<'a>,
    fixed: FixedLengths<'f>,
    next: usize,
    header: u64,
}

impl<'a, 'f> ValueReader<'a, 'f> {
    /// For `fixed.len()` values that start where `take` stands.
    pub fn new(take: Take<'a>, fixed: FixedLengths<'f>) -> Self {
        Self { take, fixed, next: 0, header: 0 }
    }

    /// The next value, or `None` after the last. After an error, the reader must not be used further.
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
            // Null, whatever the other bit says.
            _ => Ok(None),
        }
    }

    /// The cursor behind what was read.
    pub fn into_take(self) -> Take<'a> {
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

/// Moves `take` behind `fixed.len()` values.
#[inline]
pub fn skip_values(take: &mut Take<'_>, fixed: FixedLengths<'_>) -> Result<(), Truncated> {
    let mut reader = ValueReader::new(*take, fixed);
    while let Some(value) = reader.next_value() {
        value?;
    }
    *take = reader.into_take();
    Ok(())
}

/// What a prefix is: a row, or an end of a range tombstone. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PrefixKind {
    ExclEnd = 0,
    InclStart = 1,
    /// One range ends before the prefix and another starts with it.
    ExclEndInclStart = 2,
    Row = 4,
    /// One range ends with the prefix and another starts after it.
    InclEndExclStart = 5,
    InclEnd = 6,
    ExclStart = 7,
}

impl PrefixKind {
    /// The kind of this number; `None` of 3 (a static row, which has no prefix) and of anything above 7.
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

    /// A boundary ends one range and starts another; its marker has two deletion times.
    pub fn is_boundary(self) -> bool {
        matches!(self, Self::ExclEndInclStart | Self::InclEndExclStart)
    }

    /// A range starts here (a boundary both ends and starts).
    pub fn is_start(self) -> bool {
        self.is_boundary() || matches!(self, Self::InclStart | Self::ExclStart)
    }

    /// A range ends here.
    pub fn is_end(self) -> bool {
        self.is_boundary() || matches!(self, Self::ExclEnd | Self::InclEnd)
    }

    /// Where it sorts against a clustering that begins with its values: before it (-1), as it (0, rows only),
    /// or after it (1). Kinds with the same weight are equal.
    pub fn weight(self) -> i8 {
        match self {
            Self::ExclEnd | Self::InclStart | Self::ExclEndInclStart => -1,
            Self::Row => 0,
            Self::InclEnd | Self::ExclStart | Self::InclEndExclStart => 1,
        }
    }
}

/// A prefix whose values are still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPrefix<'a> {
    pub kind: PrefixKind,
    /// How many values it has; all columns' if it is a row.
    pub count: usize,
    /// The encoded values.
    pub values: &'a [u8],
}

impl<'a> RawPrefix<'a> {
    /// Reads the prefix at `take` and moves behind it. An error leaves `take` somewhere within it.
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

    /// Its values in column order; `fixed` as it was decoded with.
    pub fn values<'f>(&self, fixed: FixedLengths<'f>) -> ValueReader<'a, 'f> {
        ValueReader::new(Take::new(self.values), &fixed[..self.count])
    }
}

/// Appends a prefix. A row must have a value (perhaps null) for every column.
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
        assert!(reader.into_take().is_empty(), "no bytes are left");
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
        // The text empty (bit 2), the last null (bit 5).
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
