//! Random values of every type: ordinary values, the smallest and largest ones, and empty ones where
//! Cassandra accepts them.
//!
//! Floats are limited to those for which Java prints the shortest form; before version 19 Java does not
//! always do so.

use std::net::Ipv6Addr;

use base::rng::Rng;
use model::types::{CollectionBuilder, CqlType, CqlValue, Duration, build_tuple, build_vector};

/// A value of a cell or of a clustering column, sometimes empty.
pub fn value_or_empty(rng: &mut Rng, ty: &CqlType) -> Vec<u8> {
    let ty = ty.without_reversed();
    // Cassandra stores an empty boolean but cannot print it.
    let may_be_empty = !matches!(ty, CqlType::Boolean) && ty.validate(&[]).is_ok();
    if may_be_empty && ty.is_empty_value_meaningless() && rng.chance(1, 15) {
        return vec![];
    }
    value(rng, ty, false)
}

/// A random value. With `in_key` it can be used in a key: it is not empty, and it is finite. Maps are printed
/// as objects whose names are the keys, and all values that are not finite are printed as null.
pub fn value(rng: &mut Rng, ty: &CqlType, in_key: bool) -> Vec<u8> {
    let bits = bits(rng);
    let simple = |value: CqlValue| value.encode(ty.without_reversed()).expect("a value of the type");
    match ty.without_reversed() {
        CqlType::Empty => vec![],
        CqlType::Ascii => {
            let len = u64::from(in_key) + rng.below(30);
            (0..len).map(|_| rng.below(128) as u8).collect()
        }
        CqlType::Text => text(rng, in_key).into_bytes(),
        CqlType::Blob => (0..u64::from(in_key) + rng.below(60)).map(|_| rng.below(256) as u8).collect(),
        CqlType::Boolean => vec![(bits & 1) as u8],
        CqlType::TinyInt => vec![bits as u8],
        CqlType::SmallInt => (bits as u16).to_be_bytes().to_vec(),
        CqlType::Int | CqlType::Date => (bits as u32).to_be_bytes().to_vec(),
        CqlType::BigInt => bits.to_be_bytes().to_vec(),
        CqlType::Timestamp => (bits as i64 >> rng.below(40)).to_be_bytes().to_vec(),
        CqlType::Time => ((bits % 86_400_000_000_000) as i64).to_be_bytes().to_vec(),
        CqlType::Float => {
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-3, 1e7, -0.0];
            let usual = (bits % 100_000) as f32 / 8.0 - 1000.0;
            let float = if rng.chance(1, 8) { *rng.pick(&special) } else { usual };
            simple(CqlValue::Float(if in_key && !float.is_finite() { usual } else { float }))
        }
        CqlType::Double => {
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e-3, 1e7, -0.0];
            let usual = (bits % 10_000_000) as f64 / 8.0 - 1000.0;
            let double = if rng.chance(1, 8) { *rng.pick(&special) } else { usual };
            simple(CqlValue::Double(if in_key && !double.is_finite() { usual } else { double }))
        }
        CqlType::Varint => integer(rng),
        CqlType::Decimal => {
            let scale = rng.below(60) as i32 - 20;
            [&scale.to_be_bytes()[..], &integer(rng)].concat()
        }
        CqlType::Duration => duration(rng).to_bytes(),
        CqlType::Inet if bits & 1 == 0 => ((bits >> 1) as u32).to_be_bytes().to_vec(),
        CqlType::Inet => {
            let high = if rng.chance(1, 2) { u128::from(rng.next_u64()) << 64 } else { 0 };
            simple(CqlValue::Inet(Ipv6Addr::from_bits(high | u128::from(bits)).into()))
        }
        CqlType::Uuid => {
            let version = 1 + rng.below(8) as u8;
            uuid(rng, version)
        }
        CqlType::TimeUuid => uuid(rng, 1),
        CqlType::List { element, .. } => {
            let mut list = CollectionBuilder::new();
            (0..rng.below(4)).for_each(|_| list.push(&value(rng, element, in_key)));
            list.finish()
        }
        CqlType::Set { element, .. } => {
            let mut set = CollectionBuilder::new();
            keys(rng, element).iter().for_each(|element| set.push(element));
            set.finish()
        }
        CqlType::Map { entry, .. } => {
            let mut map = CollectionBuilder::new();
            for key in keys(rng, &entry.0) {
                map.push(&key);
                map.push(&value(rng, &entry.1, true));
            }
            map.finish_map()
        }
        CqlType::Tuple(fields) => fields_of(rng, fields.iter()),
        CqlType::Udt { user, .. } => fields_of(rng, user.fields.iter().map(|field| &field.field_type)),
        CqlType::Vector { element, dimension } => {
            let elements: Vec<_> = (0..*dimension).map(|_| value(rng, element, true)).collect();
            build_vector(element, elements.iter().map(Vec::as_slice))
        }
        other => panic!("no table here has {other:?}"),
    }
}

/// Numbers of all magnitudes and both signs, and the limits.
fn bits(rng: &mut Rng) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => *rng.pick(&[i64::MIN as u64, i64::MAX as u64, u64::MAX, 0x8000_0000, 0x7fff_ffff]),
        2..=4 => (rng.next_u64() as i64 >> rng.below(64)) as u64,
        _ => rng.next_u64(),
    }
}

fn text(rng: &mut Rng, in_key: bool) -> String {
    let len = u64::from(in_key) + rng.below(30);
    let letter = |rng: &mut Rng| match rng.below(12) {
        0 => *rng.pick(&['"', '\\', '\n', '\t', '\u{1}', '\u{1f}', '\u{7f}', ':', '@', '*', '\'', '/']),
        1 => *rng.pick(&['ä', 'ß', '\u{2028}', '€', '水', '\u{fffd}', '🌊', '\u{10ffff}', '\u{a0}']),
        _ => char::from(b'a' + rng.below(26) as u8),
    };
    (0..len).map(|_| letter(rng)).collect()
}

fn duration(rng: &mut Rng) -> Duration {
    // All parts have the same sign.
    let sign = if rng.chance(1, 3) { -1 } else { 1 };
    let mut part = |most: u64| if rng.chance(1, 4) { 0 } else { rng.below(most) as i64 };
    Duration {
        months: (sign * part(1 << 12)) as i32,
        days: (sign * part(1 << 20)) as i32,
        nanoseconds: sign * part(1 << 60),
    }
}

fn fields_of<'a>(rng: &mut Rng, types: impl Iterator<Item = &'a CqlType>) -> Vec<u8> {
    let fields: Vec<_> = types.map(|ty| (!rng.chance(1, 4)).then(|| value(rng, ty, true))).collect();
    build_tuple(fields.iter().map(Option::as_deref))
}

/// Rising keys without duplicates.
fn keys(rng: &mut Rng, ty: &CqlType) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..rng.below(4)).map(|_| value(rng, ty, true)).collect();
    keys.sort_by(|a, b| ty.compare(a, b));
    keys.dedup_by(|a, b| ty.compare(a, b).is_eq());
    keys
}

/// A two's complement number without redundant bytes, as Java writes a `BigInteger`; up to 24 bytes.
fn integer(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bits(rng).to_be_bytes().to_vec();
    if rng.chance(1, 6) {
        bytes.extend((0..rng.below(17)).map(|_| rng.below(256) as u8));
    }
    let sign = if bytes[0] >= 0x80 { 0xff } else { 0 };
    let is_surplus = |pair: &&[u8]| pair[0] == sign && (pair[1] ^ sign) & 0x80 == 0;
    let surplus = bytes.windows(2).take_while(is_surplus).count();
    bytes[surplus..].to_vec()
}

fn uuid(rng: &mut Rng, version: u8) -> Vec<u8> {
    let mut uuid = [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
