//! Byte-comparable keys: encodes keys as byte strings whose unsigned lexicographic order is the order of the
//! keys. Tries are searched by these strings.
//!
//! ```text
//! partition key := 40, token with its sign flipped, 40, escaped key bytes, 38
//! clustering    := for each value: 40 and its encoding, 3f if it has no bytes where its type needs some (41
//!                  in a descending column), 3e if it is null; then 38 of a row, 20 before a prefix, 60 after
//! ```
//! | values | encoding |
//! |---|---|
//! | strings, blobs, inet | escaped: a run of n zeros is 00, n-1 times fe, ff; fe in place of ff at the end; then 00 |
//! | tinyint, smallint, int, timestamp | the sign flipped |
//! | bigint | sign, ones for each further byte, a zero, the rest; the bits of negatives inverted; at most 9 bytes |
//! | varint | below 7 bytes as bigint; else ff or 00, the length less 7, the bytes |
//! | decimal | sign and length of the exponent, exponent, and digits to the base of 100 |
//! | float, double | the sign flipped; of negatives all bits |
//! | uuid, timeuuid | version, then (version 1) time from its highest bytes, then the rest |
//! | date, time | as they are |
//! | collections, tuples, vectors | 40 and its encoding for each element, 3e if that has none; then 38 |
//! | of a descending column | all bits inverted |
//!
//! A value that is invalid for its type has no encoding ([`NotComparable`]). A seek to such a value starts at
//! the first block. Source: Cassandra's `ByteComparable.md` and the output of Cassandra 5.0
//! (`testdata/byte_comparable`).

use model::types::{CollectionIter, MapIter, TupleIter, VectorIter};
use model::{CqlType, Position, Side};
use num_bigint::{BigInt, Sign};

const NEXT: u8 = 0x40;
const EMPTY: u8 = 0x3f;
const EMPTY_REVERSED: u8 = 0x41;
const NULL: u8 = 0x3e;
const END: u8 = 0x38;
const BEFORE: u8 = 0x20;
const AFTER: u8 = 0x60;

const ESCAPE: u8 = 0x00;
const ESCAPED_MORE: u8 = 0xfe;
const ESCAPED_LAST: u8 = 0xff;

/// From this number of bytes on, the encoding of a varint contains its length.
const LONG_VARINT_BYTES: usize = 7;

/// The value is invalid for its type, or the type has no byte-comparable form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotComparable;

/// The encoding of a partition key, in the order of (token, key).
pub(super) fn partition_key(token: i64, key: &[u8]) -> Vec<u8> {
    let mut out = token_position(token, NEXT);
    push_escaped(&mut out, key);
    out.push(END);
    out
}

/// Sorts before all keys with this token.
pub(super) fn before_token(token: i64) -> Vec<u8> {
    token_position(token, BEFORE)
}

/// Sorts after all keys with this token.
pub(super) fn after_token(token: i64) -> Vec<u8> {
    token_position(token, AFTER)
}

fn token_position(token: i64, behind: u8) -> Vec<u8> {
    let mut out = vec![NEXT];
    out.extend((token ^ i64::MIN).to_be_bytes());
    out.push(behind);
    out
}

/// The encoding of a position among rows whose clustering columns have these types.
pub(super) fn clustering(types: &[CqlType], position: &Position) -> Result<Vec<u8>, NotComparable> {
    let mut out = vec![];
    for (value, ty) in position.prefix.values().zip(types) {
        let at = out.len();
        out.push(NEXT);
        if !push_value(&mut out, ty, value)? {
            out[at] = if ty.is_reversed() { EMPTY_REVERSED } else { EMPTY };
        }
    }
    let nulls = position.prefix.len() - position.prefix.values().count();
    out.resize(out.len() + nulls, NULL);
    out.push(match position.side {
        Side::Before => BEFORE,
        Side::At => END,
        Side::After => AFTER,
    });
    Ok(out)
}

/// Appends the value's encoding. Returns false and appends nothing if the value is empty and its type has no
/// empty value.
fn push_value(out: &mut Vec<u8>, ty: &CqlType, value: &[u8]) -> Result<bool, NotComparable> {
    match ty {
        CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet => {
            push_escaped(out, value);
            return Ok(true);
        }
        CqlType::Reversed(base) => {
            let from = out.len();
            let pushed = push_value(out, base, value)?;
            out[from..].iter_mut().for_each(|byte| *byte = !*byte);
            return Ok(pushed);
        }
        _ if value.is_empty() => return Ok(false),
        CqlType::Boolean => out.push(u8::from(value[0] != 0)),
        CqlType::TinyInt => push_signed(out, value, 1)?,
        CqlType::SmallInt => push_signed(out, value, 2)?,
        CqlType::Int => push_signed(out, value, 4)?,
        CqlType::Timestamp => push_signed(out, value, 8)?,
        CqlType::BigInt => push_long(out, i64::from_be_bytes(fixed(value)?)),
        CqlType::Varint => push_varint(out, value),
        CqlType::Decimal => push_decimal(out, value)?,
        CqlType::Float => push_float(out, &fixed::<4>(value)?),
        CqlType::Double => push_float(out, &fixed::<8>(value)?),
        CqlType::Date => out.extend(fixed::<4>(value)?),
        CqlType::Time | CqlType::LegacyTimestamp => out.extend(fixed::<8>(value)?),
        CqlType::Uuid => push_uuid(out, fixed(value)?),
        CqlType::TimeUuid => {
            let from = out.len();
            push_time(out, fixed(value)?);
            // Independent of the UUID's version. The low half is in the order of signed bytes.
            out[from + 8..].iter_mut().for_each(|byte| *byte ^= 0x80);
        }
        CqlType::LexicalUuid => {
            let mut bytes = fixed::<16>(value)?;
            bytes[0] ^= 0x80;
            bytes[8] ^= 0x80;
            out.extend(bytes);
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let elements = CollectionIter::new(value).map_err(|_| NotComparable)?;
            push_elements(out, elements.map(|item| item.map(|bytes| (&**element, bytes))))?;
        }
        CqlType::Map { entry, .. } => {
            let both = MapIter::new(value).map_err(|_| NotComparable)?.into_elements();
            let types = [&entry.0, &entry.1].into_iter().cycle();
            push_elements(out, both.zip(types).map(|(item, ty)| item.map(|bytes| (ty, bytes))))?;
        }
        CqlType::Tuple(types) => push_tuple(out, value, types.iter())?,
        CqlType::Udt { user, .. } => {
            push_tuple(out, value, user.fields.iter().map(|field| &field.field_type))?;
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorIter::new(value, element, *dimension);
            push_elements(out, elements.map(|item| item.map(|bytes| (&**element, Some(bytes)))))?;
        }
        CqlType::Empty | CqlType::Counter | CqlType::Duration | CqlType::Composite(_) => {
            return Err(NotComparable);
        }
    }
    Ok(true)
}

fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N], NotComparable> {
    value.try_into().map_err(|_| NotComparable)
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut after_zero = false;
    for byte in bytes {
        match (after_zero, *byte == ESCAPE) {
            (false, _) => out.push(*byte),
            (true, true) => out.push(ESCAPED_MORE),
            (true, false) => out.extend([ESCAPED_LAST, *byte]),
        }
        after_zero = *byte == ESCAPE;
    }
    out.push(if after_zero { ESCAPED_MORE } else { ESCAPE });
}

fn push_signed(out: &mut Vec<u8>, value: &[u8], len: usize) -> Result<(), NotComparable> {
    if value.len() != len {
        return Err(NotComparable);
    }
    out.push(value[0] ^ 0x80);
    out.extend_from_slice(&value[1..]);
    Ok(())
}

fn push_float(out: &mut Vec<u8>, value: &[u8]) {
    if value[0] & 0x80 == 0 {
        out.push(value[0] ^ 0x80);
        out.extend_from_slice(&value[1..]);
    } else {
        out.extend(value.iter().map(|byte| !byte));
    }
}

/// The shortest form: n ones after the sign announce n further bytes, and a zero ends them.
fn push_long(out: &mut Vec<u8>, value: i64) {
    let flip = if value < 0 { 0xff } else { 0 };
    let magnitude = (value ^ (value >> 63)) as u64;
    let bits = 64 - magnitude.leading_zeros() as usize;
    // The first byte has 6 bits for the number, each further byte 7.
    let more = bits.saturating_sub(6).div_ceil(7);
    let mut bytes = [0u8; 9];
    if more >= 8 {
        bytes[0] = 0xff;
        bytes[1..].copy_from_slice(&(magnitude | 1 << 63).to_be_bytes());
        out.extend(bytes.map(|byte| byte ^ flip));
        return;
    }
    // The sign and the ones, from the top of 72 bits down.
    let ones = ((1u128 << (more + 1)) - 1) << (8 * (more + 1) - (more + 1));
    let number = ones | u128::from(magnitude);
    let all = number.to_be_bytes();
    out.extend(all[15 - more..].iter().map(|byte| byte ^ flip));
}

fn push_varint(out: &mut Vec<u8>, value: &[u8]) {
    let sign = if value[0] & 0x80 != 0 { 0xff } else { 0 };
    let start = value.iter().position(|byte| *byte != sign).unwrap_or(value.len() - 1);
    let digits = &value[start..];
    if digits.len() < LONG_VARINT_BYTES {
        let start = if sign != 0 { -1 } else { 0 };
        push_long(out, digits.iter().fold(start, |number, byte| number << 8 | i64::from(*byte)));
        return;
    }
    out.push(!sign);
    let from = out.len();
    base::vint::write_unsigned(out, (digits.len() - LONG_VARINT_BYTES) as u64);
    out[from..].iter_mut().for_each(|byte| *byte ^= sign);
    out.extend_from_slice(digits);
}

fn push_decimal(out: &mut Vec<u8>, value: &[u8]) -> Result<(), NotComparable> {
    let (scale, unscaled) = value.split_first_chunk::<4>().ok_or(NotComparable)?;
    let mut scale = i64::from(i32::from_be_bytes(*scale));
    let mut number = BigInt::from_signed_bytes_be(unscaled);
    if number.sign() == Sign::NoSign {
        out.push(0x80);
        return Ok(());
    }
    // Make the exponent an even power of ten, which is a power of 100.
    if scale.rem_euclid(2) == 1 {
        number *= 10;
        scale += 1;
    }
    let is_negative = number.sign() == Sign::Minus;
    let digits = number.magnitude().to_radix_be(100);
    let exponent = digits.len() as i64 - scale / 2;
    let digits = match digits.iter().rposition(|digit| *digit != 0) {
        Some(last) => &digits[..=last],
        None => unreachable!("zero was sorted out"),
    };
    let exponent = if is_negative { -exponent } else { exponent };
    let exponent_bytes = (64 - exponent.unsigned_abs().leading_zeros() as usize).div_ceil(8);
    let sign = if is_negative { 0 } else { 0x80 };
    let signed_len = exponent_bytes as u8;
    out.push(sign + if exponent < 0 { 0x40 - signed_len } else { 0x40 + signed_len });
    out.extend_from_slice(&exponent.to_be_bytes()[8 - exponent_bytes..]);
    if !is_negative {
        out.extend(digits.iter().map(|digit| 0x80 + digit));
    } else {
        // The digits after the first are added to the next lower first digit: -1.1 is -2 and 0.9.
        let last = digits.len() - 1;
        out.extend(digits.iter().enumerate().map(|(at, digit)| match at {
            0 if last == 0 => 0x80 - digit,
            0 => 0x80 - digit - 1,
            _ if at == last => 0x80 + (100 - digit),
            _ => 0x80 + (99 - digit),
        }));
    }
    out.push(0);
    Ok(())
}

/// The time of a version 1 UUID from its highest bytes down, beginning with the version; then the low half.
fn push_time(out: &mut Vec<u8>, uuid: [u8; 16]) {
    out.extend_from_slice(&uuid[6..8]);
    out.extend_from_slice(&uuid[4..6]);
    out.extend_from_slice(&uuid[0..4]);
    out.extend_from_slice(&uuid[8..]);
}

fn push_uuid(out: &mut Vec<u8>, uuid: [u8; 16]) {
    let version = uuid[6] >> 4;
    if version == 1 {
        push_time(out, uuid);
        return;
    }
    let high = u64::from_be_bytes(uuid[..8].try_into().expect("8 of 16 bytes"));
    let without_version = high >> 4 & 0x0fff_ffff_ffff_f000 | high & 0xfff;
    out.extend((u64::from(version) << 60 | without_version).to_be_bytes());
    out.extend_from_slice(&uuid[8..]);
}

fn push_tuple<'t>(
    out: &mut Vec<u8>,
    value: &[u8],
    types: impl Iterator<Item = &'t CqlType>,
) -> Result<(), NotComparable> {
    let mut fields = TupleIter::new(value).collect::<Result<Vec<_>, _>>().map_err(|_| NotComparable)?;
    // Trailing nulls are equivalent to missing fields.
    while matches!(fields.last(), Some(None)) {
        fields.pop();
    }
    let mut types = types;
    push_elements(
        out,
        fields.into_iter().map(|field| match types.next() {
            Some(ty) => Ok((ty, field)),
            None => Err(NotComparable),
        }),
    )
}

fn push_elements<'e, E>(
    out: &mut Vec<u8>,
    elements: impl Iterator<Item = Result<(&'e CqlType, Option<&'e [u8]>), E>>,
) -> Result<(), NotComparable> {
    for element in elements {
        let (ty, value) = element.map_err(|_| NotComparable)?;
        let at = out.len();
        out.push(NEXT);
        let has_bytes = match value {
            Some(value) => push_value(out, ty, value)?,
            None => false,
        };
        if !has_bytes {
            out[at] = NULL;
        }
    }
    out.push(END);
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::ClusteringPrefix;

    use super::*;

    fn bytes_of_hex(hex: &str) -> Vec<u8> {
        let digits = if hex == "-" { "" } else { hex };
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// The type of a clustering column; frozen, like the types of all clustering columns.
    fn type_of(name: &str) -> CqlType {
        let mut qualified = String::new();
        let mut word = String::new();
        for c in name.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if word.ends_with("Type") {
                qualified += "org.apache.cassandra.db.marshal.";
            }
            qualified += &std::mem::take(&mut word);
            qualified.extend((c != ' ').then_some(c));
        }
        CqlType::from_java_name(&qualified).unwrap_or_else(|error| panic!("{qualified}: {error}"))
    }

    #[test]
    fn every_value_is_encoded_as_cassandra_encodes_it() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/byte_comparable/cassandra-5.0.txt");
        let mut checked = 0;
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let [name, value, expect] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let (ty, value) = (type_of(name), bytes_of_hex(value));
            if matches!(ty, CqlType::Empty | CqlType::Composite(_)) {
                continue;
            }
            let position = Position::at(ClusteringPrefix::new([&value[..]]));
            let found = clustering(std::slice::from_ref(&ty), &position);
            assert_eq!(found, Ok(bytes_of_hex(expect)), "{line}");
            checked += 1;
        }
        assert!(checked > 400, "{checked} values were checked");
    }

    #[test]
    fn places_between_rows_are_in_order() {
        let types = [CqlType::Int, CqlType::reversed(CqlType::Text)];
        let at = |values: &[&[u8]], side| {
            let prefix = ClusteringPrefix::new(values.iter().copied());
            clustering(&types, &Position { prefix, side }).unwrap()
        };
        let (one, two): (&[u8], &[u8]) = (&[0, 0, 0, 1], &[0, 0, 0, 2]);
        let rising = [
            at(&[], Side::Before),
            at(&[b""], Side::At),
            at(&[one], Side::Before),
            at(&[one, b"z"], Side::Before),
            at(&[one, b"z"], Side::At),
            at(&[one, b"z"], Side::After),
            at(&[one, b"a"], Side::At),
            at(&[one, b""], Side::At),
            at(&[one], Side::After),
            at(&[two], Side::Before),
            at(&[], Side::After),
        ];
        assert!(rising.is_sorted_by(|a, b| a < b), "{rising:x?}");
        let wrong = Position::at(ClusteringPrefix::new([&[1, 2, 3][..]]));
        assert_eq!(clustering(&types, &wrong), Err(NotComparable));
    }

    #[test]
    fn keys_are_in_the_order_of_the_ring() {
        let golden = [0x40, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x40, b'a', 0, 0xfe, 0x38];
        assert_eq!(partition_key(-1, b"a\0"), golden);
        let rising = [
            before_token(-1),
            partition_key(-1, b""),
            partition_key(-1, b"a"),
            after_token(-1),
            before_token(0),
        ];
        assert!(rising.is_sorted_by(|a, b| a < b));
    }
}
