//! Order of serialized values: Cassandra's `AbstractType.compare`, type by type.
//!
//! If a type allows empty values, they sort first. Bytes that are not a value of the type have a position
//! too: for each type the order is total over all byte strings (reflexive, antisymmetric up to equality,
//! transitive), so that sorting and binary search work on corrupt data. For valid values the order is exactly
//! Cassandra's. Counters and durations have no order in Cassandra; here they compare as bytes.
//!
//! No comparison allocates, except for two decimals of different scale beyond 128 bits.
//!
//! Source: Cassandra 4.1 `db/marshal/*Type.java` (`compareCustom`), vectors 5.0.

use std::cmp::Ordering;

use super::collection::{CollectionIter, CompositeIter, Element, MapIter, TupleIter, VectorIter};
use super::{CqlType, TypeError, decimal, varint};

impl CqlType {
    /// Compares two serialized values. Never panics.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Int => int32(a, b),
            Self::BigInt | Self::Timestamp => int64(a, b),
            Self::Ascii
            | Self::Text
            | Self::Blob
            | Self::Date
            | Self::Time
            | Self::LegacyTimestamp
            | Self::Inet
            | Self::Duration
            | Self::Counter => a.cmp(b),
            Self::TimeUuid => fixed::<16>(a, b, time_uuid),
            Self::Uuid => fixed::<16>(a, b, uuid),
            Self::Reversed(base) => base.compare(b, a),
            other => other.compare_slow(a, b),
        }
    }

    fn compare_slow(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::TinyInt | Self::SmallInt => signed_bytes(a, b),
            Self::Boolean => boolean_rank(a).cmp(&boolean_rank(b)),
            Self::Float => fixed::<4>(a, b, |a, b| float_key(a).cmp(&float_key(b))),
            Self::Double => fixed::<8>(a, b, |a, b| double_key(a).cmp(&double_key(b))),
            Self::LexicalUuid => fixed::<16>(a, b, |a, b| signed_halves(a).cmp(&signed_halves(b))),
            Self::Varint => varint::compare(a, b),
            Self::Decimal => decimals(a, b),
            Self::Empty => Ordering::Equal,
            Self::List { element, .. } | Self::Set { element, .. } => {
                nonempty(a, b, |a, b| rows(Row::list(a), Row::list(b), |_| element))
            }
            Self::Map { entry, .. } => {
                let element = |i: usize| if i.is_multiple_of(2) { &entry.0 } else { &entry.1 };
                nonempty(a, b, |a, b| rows(Row::map(a), Row::map(b), element))
            }
            Self::Tuple(components) => {
                nonempty(a, b, |a, b| tuples(a, b, components.len(), |i| &components[i]))
            }
            Self::Udt { user, .. } => {
                nonempty(a, b, |a, b| tuples(a, b, user.fields.len(), |i| &user.fields[i].field_type))
            }
            Self::Vector { element, dimension } => nonempty(a, b, |a, b| {
                rows(Row::vector(a, element, *dimension), Row::vector(b, element, *dimension), |_| element)
            }),
            Self::Composite(components) => nonempty(a, b, |a, b| composites(a, b, components)),
            simple => simple.compare(a, b),
        }
    }
}

/// Empty values sort first; `order` compares two values of at least one byte.
#[inline]
fn nonempty(a: &[u8], b: &[u8], order: impl FnOnce(&[u8], &[u8]) -> Ordering) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (false, false) => order(a, b),
        (empty_a, empty_b) => empty_b.cmp(&empty_a),
    }
}

/// Empty values sort first, then bytes of a wrong length (as bytes), then values by `order`.
#[inline]
fn fixed<const N: usize>(a: &[u8], b: &[u8], order: impl FnOnce(&[u8; N], &[u8; N]) -> Ordering) -> Ordering {
    match (<&[u8; N]>::try_from(a), <&[u8; N]>::try_from(b)) {
        (Ok(a), Ok(b)) => order(a, b),
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// Compares big-endian two's complement numbers of equal length: the first byte signed, the others unsigned.
/// Cassandra compares other lengths in the same way.
fn signed_bytes(a: &[u8], b: &[u8]) -> Ordering {
    match (a.split_first(), b.split_first()) {
        (Some((first_a, rest_a)), Some((first_b, rest_b))) => {
            (*first_a as i8).cmp(&(*first_b as i8)).then_with(|| rest_a.cmp(rest_b))
        }
        _ => a.len().cmp(&b.len()),
    }
}

#[inline]
fn int32(a: &[u8], b: &[u8]) -> Ordering {
    match (<[u8; 4]>::try_from(a), <[u8; 4]>::try_from(b)) {
        (Ok(a), Ok(b)) => i32::from_be_bytes(a).cmp(&i32::from_be_bytes(b)),
        _ => signed_bytes(a, b),
    }
}

#[inline]
fn int64(a: &[u8], b: &[u8]) -> Ordering {
    match (<[u8; 8]>::try_from(a), <[u8; 8]>::try_from(b)) {
        (Ok(a), Ok(b)) => i64::from_be_bytes(a).cmp(&i64::from_be_bytes(b)),
        _ => signed_bytes(a, b),
    }
}

/// Only the first byte is relevant; any byte other than 0 is true.
fn boolean_rank(bytes: &[u8]) -> u8 {
    match bytes.first() {
        None => 0,
        Some(0) => 1,
        Some(_) => 2,
    }
}

/// Order of Java's `Float.compareTo`: -0.0 before 0.0; all NaNs are equal and after infinity.
pub(crate) fn float_key(bytes: &[u8; 4]) -> i32 {
    let bits = i32::from_be_bytes(*bytes);
    if f32::from_be_bytes(*bytes).is_nan() { i32::MAX } else { bits ^ (((bits >> 31) as u32) >> 1) as i32 }
}

pub(crate) fn double_key(bytes: &[u8; 8]) -> i64 {
    let bits = i64::from_be_bytes(*bytes);
    if f64::from_be_bytes(*bytes).is_nan() { i64::MAX } else { bits ^ (((bits >> 63) as u64) >> 1) as i64 }
}

#[inline]
pub(crate) fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_be_bytes(*bytes);
    ((both >> 64) as u64, both as u64)
}

fn signed_halves(bytes: &[u8; 16]) -> (i64, i64) {
    let (high, low) = halves(bytes);
    (high as i64, low as i64)
}

/// Rearranges `time_low-time_mid-version+time_high` so that it compares by time.
#[inline]
pub(crate) fn time_first(high: u64) -> u64 {
    (high << 48) | ((high << 16) & 0xffff_0000_0000) | (high >> 32)
}

/// Compares by timestamp, then by the last eight bytes, each of them signed.
#[inline]
fn time_uuid(a: &[u8; 16], b: &[u8; 16]) -> Ordering {
    let ((high_a, low_a), (high_b, low_b)) = (halves(a), halves(b));
    // The sign bit of the first byte is kept, because the eight bytes compare as one signed number.
    let signed = |low: u64| (low ^ 0x0080_8080_8080_8080) as i64;
    (time_first(high_a) as i64)
        .cmp(&(time_first(high_b) as i64))
        .then_with(|| signed(low_a).cmp(&signed(low_b)))
}

/// Compares by version; version 1 by timestamp, others by the first half unsigned; then by the second half
/// unsigned.
#[inline]
fn uuid(a: &[u8; 16], b: &[u8; 16]) -> Ordering {
    let ((high_a, low_a), (high_b, low_b)) = (halves(a), halves(b));
    let version = |high: u64| (high >> 12) & 0xf;
    let by_first_half = || {
        if version(high_a) == 1 { time_first(high_a).cmp(&time_first(high_b)) } else { high_a.cmp(&high_b) }
    };
    version(high_a).cmp(&version(high_b)).then_with(by_first_half).then_with(|| low_a.cmp(&low_b))
}

fn decimals(a: &[u8], b: &[u8]) -> Ordering {
    match (decimal::split(a), decimal::split(b)) {
        (Some(a), Some(b)) => decimal::compare(a, b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => a.cmp(b),
    }
}

/// A nested value as a sequence of elements that compares element by element. At the same place, the end
/// sorts before an invalid element, an invalid element (compared by all bytes of the value) before null, and
/// null before a valid element. Each sequence depends only on the value's own bytes, so the order is total.
struct Row<'a> {
    whole: &'a [u8],
    elements: Elements<'a>,
}

enum Elements<'a> {
    /// The count is invalid.
    Damaged,
    Counted(CollectionIter<'a>),
    Vector(VectorIter<'a>),
}

impl<'a> Row<'a> {
    fn list(whole: &'a [u8]) -> Self {
        Self { whole, elements: CollectionIter::new(whole).map_or(Elements::Damaged, Elements::Counted) }
    }

    fn map(whole: &'a [u8]) -> Self {
        let elements = MapIter::new(whole).map(MapIter::into_elements);
        Self { whole, elements: elements.map_or(Elements::Damaged, Elements::Counted) }
    }

    fn vector(whole: &'a [u8], element: &CqlType, dimension: u32) -> Self {
        Self { whole, elements: Elements::Vector(VectorIter::new(whole, element, dimension)) }
    }

    fn next(&mut self) -> Option<Result<Element<'a>, Damage>> {
        let element = match &mut self.elements {
            Elements::Damaged => return Some(Err(Damage)),
            // Bytes after the last element are ignored, as in Cassandra.
            Elements::Counted(elements) if elements.claimed_len() == 0 => return None,
            Elements::Counted(elements) => elements.next()?,
            Elements::Vector(elements) => elements.next()?.map(Some),
        };
        Some(element.map_err(|_| Damage))
    }
}

struct Damage;

fn rows<'t>(mut a: Row<'_>, mut b: Row<'_>, element_type: impl Fn(usize) -> &'t CqlType) -> Ordering {
    for i in 0.. {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(Err(Damage)), Some(Err(Damage))) => return a.whole.cmp(b.whole),
            (Some(Err(Damage)), Some(Ok(_))) => Ordering::Less,
            (Some(Ok(_)), Some(Err(Damage))) => Ordering::Greater,
            (Some(Ok(a)), Some(Ok(b))) => nulls_first(a, b, element_type(i)),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn nulls_first(a: Element<'_>, b: Element<'_>, element_type: &CqlType) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => element_type.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Compares field by field; a missing field is null. Fields beyond those of the type (from a newer version of
/// it) compare as bytes, unless all are null, which is the same as absent.
fn tuples<'t>(a: &[u8], b: &[u8], len: usize, field_type: impl Fn(usize) -> &'t CqlType) -> Ordering {
    let (mut fields_a, mut fields_b) = (TupleIter::new(a), TupleIter::new(b));
    for i in 0..len {
        let order = match (fields_a.next(), fields_b.next()) {
            (None, None) => return Ordering::Equal,
            (Some(Err(_)), Some(Err(_))) => return a.cmp(b),
            (Some(Err(_)), _) => Ordering::Less,
            (_, Some(Err(_))) => Ordering::Greater,
            (field_a, field_b) => nulls_first(or_null(field_a), or_null(field_b), field_type(i)),
        };
        if order.is_ne() {
            return order;
        }
    }
    extra_fields(&fields_a).cmp(extra_fields(&fields_b))
}

fn or_null<'a>(field: Option<Result<Element<'a>, TypeError>>) -> Element<'a> {
    field.and_then(Result::ok).flatten()
}

fn extra_fields<'a>(fields: &TupleIter<'a>) -> &'a [u8] {
    let all_null = fields.clone().all(|field| field == Ok(None));
    if all_null { &[] } else { fields.rest() }
}

/// Compares component by component, by value and then by the end-of-component byte (signed). A value that
/// starts with the static marker 0xffff sorts before one without it.
fn composites(a: &[u8], b: &[u8], components: &[CqlType]) -> Ordering {
    let (not_static_a, rest_a) = split_static(a);
    let (not_static_b, rest_b) = split_static(b);
    if not_static_a != not_static_b {
        return not_static_a.cmp(&not_static_b);
    }
    let (mut iter_a, mut iter_b) = (CompositeIter::new(rest_a), CompositeIter::new(rest_b));
    for i in 0.. {
        let order = match (iter_a.next(), iter_b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(Err(_)), Some(Err(_))) => return iter_a.rest().cmp(iter_b.rest()),
            (Some(Err(_)), Some(Ok(_))) => Ordering::Less,
            (Some(Ok(_)), Some(Err(_))) => Ordering::Greater,
            (Some(Ok((value_a, end_a))), Some(Ok((value_b, end_b)))) => {
                let component = components.get(i).unwrap_or(&CqlType::Blob);
                component.compare(value_a, value_b).then_with(|| (end_a as i8).cmp(&(end_b as i8)))
            }
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn split_static(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes.strip_prefix(&[0xff, 0xff]) {
        Some(rest) => (false, rest),
        None => (true, bytes),
    }
}
