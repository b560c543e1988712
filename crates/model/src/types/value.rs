//! Values as a Rust enum, for programs that embed the engine and for tests. The engine itself uses bytes.

use std::cmp::Ordering;
use std::net::IpAddr;

use num_bigint::BigInt;

use super::collection::{
    CollectionBuilder, CollectionIter, MapIter, TupleIter, VectorIter, build_tuple, build_vector,
};
use super::duration::Duration;
use super::error::type_err;
use super::{CqlType, TypeError, decimal};

/// A value. The CQL type determines its encoding. Except for `text` and `ascii`, each variant belongs to one
/// type or one group of similar types.
#[derive(Clone, Debug, PartialEq)]
pub enum CqlValue {
    /// ascii and text.
    Text(String),
    /// Any bytes.
    Blob(Vec<u8>),
    /// A boolean.
    Boolean(bool),
    /// A tinyint.
    TinyInt(i8),
    /// A smallint.
    SmallInt(i16),
    /// An int.
    Int(i32),
    /// bigint, and the protocol's form of a counter.
    BigInt(i64),
    /// A varint, of any size.
    Varint(BigInt),
    /// `unscaled × 10^-scale`
    Decimal {
        /// The digits, as an integer.
        unscaled: BigInt,
        /// The number of digits after the decimal point; negative for trailing zeros.
        scale: i32,
    },
    /// A float.
    Float(f32),
    /// A double.
    Double(f64),
    /// Days since the epoch plus 2^31.
    Date(u32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Milliseconds since the epoch.
    Timestamp(i64),
    /// A duration: months, days and nanoseconds.
    Duration(Duration),
    /// All kinds of UUIDs.
    Uuid([u8; 16]),
    /// An IPv4 or IPv6 address.
    Inet(IpAddr),
    /// The elements of a list or vector, in order.
    List(Vec<CqlValue>),
    /// The elements of a set; encoding sorts them and drops duplicates.
    Set(Vec<CqlValue>),
    /// The entries of a map; encoding sorts them, and of equal keys keeps the last.
    Map(Vec<(CqlValue, CqlValue)>),
    /// The fields of a tuple or UDT; there may be fewer than the type has.
    Tuple(Vec<Option<CqlValue>>),
    /// The empty value, which numbers and other types have besides null.
    Empty,
}

impl CqlValue {
    /// The serialized value.
    ///
    /// # Errors
    /// The value has another structure than the type, or is not valid for it.
    pub fn encode(&self, cql_type: &CqlType) -> Result<Vec<u8>, TypeError> {
        let bytes = match (cql_type.without_reversed(), self) {
            (CqlType::Ascii | CqlType::Text, Self::Text(text)) => text.as_bytes().to_vec(),
            (CqlType::Blob, Self::Blob(bytes)) => bytes.clone(),
            (CqlType::Boolean, Self::Boolean(value)) => vec![u8::from(*value)],
            (CqlType::TinyInt, Self::TinyInt(value)) => value.to_be_bytes().to_vec(),
            (CqlType::SmallInt, Self::SmallInt(value)) => value.to_be_bytes().to_vec(),
            (CqlType::Int, Self::Int(value)) => value.to_be_bytes().to_vec(),
            (CqlType::BigInt | CqlType::Counter, Self::BigInt(value)) => value.to_be_bytes().to_vec(),
            (CqlType::Varint, Self::Varint(value)) => value.to_signed_bytes_be(),
            (CqlType::Decimal, Self::Decimal { unscaled, scale }) => decimal::join(*scale, unscaled),
            (CqlType::Float, Self::Float(value)) => value.to_be_bytes().to_vec(),
            (CqlType::Double, Self::Double(value)) => value.to_be_bytes().to_vec(),
            (CqlType::Date, Self::Date(value)) => value.to_be_bytes().to_vec(),
            (CqlType::Time, Self::Time(value))
            | (CqlType::Timestamp | CqlType::LegacyTimestamp, Self::Timestamp(value)) => {
                value.to_be_bytes().to_vec()
            }
            (CqlType::Duration, Self::Duration(value)) => value.to_bytes(),
            (CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid, Self::Uuid(value)) => value.to_vec(),
            (CqlType::Inet, Self::Inet(IpAddr::V4(v4))) => v4.octets().to_vec(),
            (CqlType::Inet, Self::Inet(IpAddr::V6(v6))) => v6.octets().to_vec(),
            (CqlType::List { element, .. }, Self::List(values)) => {
                let mut list = CollectionBuilder::new();
                for value in values {
                    list.push(&value.encode(element)?);
                }
                list.finish()
            }
            (CqlType::Vector { element, dimension }, Self::List(values)) => {
                if values.len() != *dimension as usize {
                    return type_err!("expected a vector of {dimension} elements, found {}", values.len());
                }
                if element.sstable_fixed_len().is_some() && values.contains(&Self::Empty) {
                    return type_err!("a vector of {} has no empty elements", element.to_cql());
                }
                let encoded: Vec<_> =
                    values.iter().map(|value| value.encode(element)).collect::<Result<_, _>>()?;
                build_vector(element, encoded.iter().map(Vec::as_slice))
            }
            (CqlType::Set { element, .. }, Self::Set(values)) => {
                let mut encoded: Vec<_> =
                    values.iter().map(|value| value.encode(element)).collect::<Result<_, _>>()?;
                encoded.sort_by(|a, b| element.compare(a, b));
                encoded.dedup_by(|a, b| element.compare(a, b) == Ordering::Equal);
                let mut set = CollectionBuilder::new();
                for value in &encoded {
                    set.push(value);
                }
                set.finish()
            }
            (CqlType::Map { entry, .. }, Self::Map(entries)) => {
                let (key_type, value_type) = &**entry;
                let encode =
                    |(key, value): &(Self, Self)| Ok((key.encode(key_type)?, value.encode(value_type)?));
                let mut encoded: Vec<_> = entries.iter().map(encode).collect::<Result<_, TypeError>>()?;
                // The sort is stable, so of equal keys the last one given is the last of its group.
                encoded.sort_by(|(a, _), (b, _)| key_type.compare(a, b));
                let mut map = CollectionBuilder::new();
                for (i, (key, value)) in encoded.iter().enumerate() {
                    if encoded.get(i + 1).is_none_or(|(next, _)| key_type.compare(key, next).is_ne()) {
                        map.push(key);
                        map.push(value);
                    }
                }
                map.finish_map()
            }
            (CqlType::Tuple(components), Self::Tuple(values)) => {
                encode_fields(&components.iter().collect::<Vec<_>>(), values)?
            }
            (CqlType::Udt { user, .. }, Self::Tuple(values)) => {
                encode_fields(&user.fields.iter().map(|field| &field.field_type).collect::<Vec<_>>(), values)?
            }
            (_, Self::Empty) => vec![],
            (other, value) => {
                return type_err!("expected a value of type {}, found {value:?}", other.to_cql());
            }
        };
        cql_type.validate(&bytes)?;
        Ok(bytes)
    }

    /// Decodes serialized bytes.
    ///
    /// # Errors
    /// As [`CqlType::validate`]; a composite key cannot be decoded.
    pub fn decode(cql_type: &CqlType, bytes: &[u8]) -> Result<CqlValue, TypeError> {
        cql_type.validate(bytes)?;
        decode_valid(cql_type, bytes).ok_or_else(|| {
            TypeError::new(format!("{} bytes are no value of type {}", bytes.len(), cql_type.to_cql()))
        })
    }
}

fn encode_fields(types: &[&CqlType], values: &[Option<CqlValue>]) -> Result<Vec<u8>, TypeError> {
    if values.len() > types.len() {
        return type_err!("expected at most {} fields, found {}", types.len(), values.len());
    }
    let encode = |(value, field_type): (&Option<CqlValue>, &&CqlType)| {
        value.as_ref().map(|value| value.encode(field_type)).transpose()
    };
    let encoded: Vec<_> = values.iter().zip(types).map(encode).collect::<Result<_, _>>()?;
    Ok(build_tuple(encoded.iter().map(Option::as_deref)))
}

fn decode_valid(cql_type: &CqlType, bytes: &[u8]) -> Option<CqlValue> {
    Some(match cql_type {
        CqlType::Reversed(base) => return decode_valid(base, bytes),
        CqlType::Ascii | CqlType::Text => CqlValue::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        CqlType::Blob => CqlValue::Blob(bytes.to_vec()),
        CqlType::Composite(_) => return None,
        _ if bytes.is_empty() => CqlValue::Empty,
        CqlType::Empty => return None,
        CqlType::Boolean => CqlValue::Boolean(bytes != [0]),
        CqlType::TinyInt => CqlValue::TinyInt(i8::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::SmallInt => CqlValue::SmallInt(i16::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Int => CqlValue::Int(i32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::BigInt | CqlType::Counter => CqlValue::BigInt(i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Varint => CqlValue::Varint(BigInt::from_signed_bytes_be(bytes)),
        CqlType::Decimal => {
            let (scale, unscaled) = decimal::split(bytes)?;
            CqlValue::Decimal { unscaled: BigInt::from_signed_bytes_be(unscaled), scale }
        }
        CqlType::Float => CqlValue::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Double => CqlValue::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Date => CqlValue::Date(u32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Time => CqlValue::Time(i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Timestamp | CqlType::LegacyTimestamp => {
            CqlValue::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?))
        }
        CqlType::Duration => CqlValue::Duration(Duration::from_bytes(bytes)?),
        CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid => CqlValue::Uuid(bytes.try_into().ok()?),
        CqlType::Inet => CqlValue::Inet(match <[u8; 4]>::try_from(bytes) {
            Ok(v4) => IpAddr::from(v4),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        }),
        CqlType::List { element, .. } => CqlValue::List(decode_elements(element, bytes)?),
        CqlType::Set { element, .. } => CqlValue::Set(decode_elements(element, bytes)?),
        CqlType::Map { entry, .. } => {
            let mut entries = vec![];
            for pair in MapIter::new(bytes).ok()? {
                let (key, value) = pair.ok()?;
                entries.push((decode_valid(&entry.0, key?)?, decode_valid(&entry.1, value?)?));
            }
            CqlValue::Map(entries)
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorIter::new(bytes, element, *dimension);
            CqlValue::List(elements.map(|value| decode_valid(element, value.ok()?)).collect::<Option<_>>()?)
        }
        CqlType::Tuple(components) => decode_fields(&mut components.iter(), bytes)?,
        CqlType::Udt { user, .. } => {
            decode_fields(&mut user.fields.iter().map(|field| &field.field_type), bytes)?
        }
    })
}

fn decode_elements(element: &CqlType, bytes: &[u8]) -> Option<Vec<CqlValue>> {
    CollectionIter::new(bytes).ok()?.map(|value| decode_valid(element, value.ok()??)).collect()
}

fn decode_fields(types: &mut dyn Iterator<Item = &CqlType>, bytes: &[u8]) -> Option<CqlValue> {
    let mut fields = vec![];
    for field in TupleIter::new(bytes) {
        let field_type = types.next()?;
        fields.push(match field.ok()? {
            Some(value) => Some(decode_valid(field_type, value)?),
            None => None,
        });
    }
    Some(CqlValue::Tuple(fields))
}
