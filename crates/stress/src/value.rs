//! Values of every CQL type from a number: the same number gives the same value, so that a read can be
//! checked without a note of what was written.
//!
//! A number, date or time is the drawn number itself, so a `population` bounds it. A text or blob has random
//! bytes and a length that the caller chooses. A collection has that number of elements. cassandra-stress
//! does the same.

use base::rng::Rng;
use base::vint;
use model::types::CqlType;

/// Elements of collections, fields and tuples have this many bytes, as cassandra-stress's default.
const ELEMENT_BYTES: (u64, u64) = (4, 8);
const TEXT: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// 1582-10-15 to 1970-01-01, in units of 100 ns.
const UUID_EPOCH: u64 = 0x01b2_1dd2_1381_4000;

/// Mixes two numbers to one, as unlike both as a random number.
pub fn mix(a: u64, b: u64) -> u64 {
    Rng::new(a ^ b.wrapping_mul(0xff51_afd7_ed55_8ccd)).next_u64()
}

/// Appends the value of `cql_type` for `number`, with `size` bytes or elements where the type has no fixed
/// size.
///
/// # Errors
/// The type, if it has no values that a client can send.
pub fn push_value(out: &mut Vec<u8>, cql_type: &CqlType, number: u64, size: usize) -> Result<(), String> {
    let mut rng = Rng::new(number ^ 0x6d65_7373_696e_6121);
    let signed = number as i64;
    match cql_type {
        CqlType::Ascii | CqlType::Text => out.extend((0..size).map(|_| *rng.pick(TEXT))),
        CqlType::Blob => {
            let start = out.len();
            out.resize(start + size, 0);
            rng.fill(&mut out[start..]);
        }
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => out.extend(signed.to_be_bytes()),
        CqlType::Time => out.extend((number % 86_400_000_000_000).to_be_bytes()),
        CqlType::Int => out.extend((signed as i32).to_be_bytes()),
        CqlType::Date => out.extend((1u32 << 31).wrapping_add(signed as u32).to_be_bytes()),
        CqlType::SmallInt => out.extend((signed as i16).to_be_bytes()),
        CqlType::TinyInt => out.push(number as u8),
        CqlType::Boolean => out.push((number & 1) as u8),
        CqlType::Double => out.extend((signed as f64).to_be_bytes()),
        CqlType::Float => out.extend((signed as f32).to_be_bytes()),
        CqlType::Varint => out.extend(shortest(signed)),
        CqlType::Decimal => {
            out.extend(2i32.to_be_bytes());
            out.extend(shortest(signed));
        }
        CqlType::Duration => {
            vint::write_signed(out, 0);
            vint::write_signed(out, signed.rem_euclid(10_000));
            vint::write_signed(out, 0);
        }
        CqlType::Inet => out.extend((number as u32).to_be_bytes()),
        CqlType::Uuid => {
            let mut bytes = [0; 16];
            rng.fill(&mut bytes);
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            out.extend(bytes);
        }
        CqlType::TimeUuid => {
            // The number is the time in milliseconds since 1970, within the 60 bits that there are.
            let time = (number % 100_000_000_000_000) * 10_000 + UUID_EPOCH;
            out.extend((time as u32).to_be_bytes());
            out.extend(((time >> 32) as u16).to_be_bytes());
            out.extend((((time >> 48) as u16) & 0x0fff | 0x1000).to_be_bytes());
            let node = rng.next_u64() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
            out.extend(node.to_be_bytes());
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            out.extend((size as i32).to_be_bytes());
            for _ in 0..size {
                push_element(out, element, &mut rng)?;
            }
        }
        CqlType::Map { entry, .. } => {
            out.extend((size as i32).to_be_bytes());
            for _ in 0..size {
                push_element(out, &entry.0, &mut rng)?;
                push_element(out, &entry.1, &mut rng)?;
            }
        }
        CqlType::Tuple(types) => {
            types.iter().try_for_each(|of_field| push_element(out, of_field, &mut rng))?;
        }
        CqlType::Udt { user, .. } => {
            user.fields.iter().try_for_each(|field| push_element(out, &field.field_type, &mut rng))?;
        }
        CqlType::Vector { element, dimension } => {
            for _ in 0..*dimension {
                match **element {
                    // Components from -1 to 1, as embeddings have them.
                    CqlType::Float => out.extend((rng.below(2_000_001) as f32 / 1e6 - 1.0).to_be_bytes()),
                    _ => {
                        return Err("a vector whose elements are no floats".to_string());
                    }
                }
            }
        }
        CqlType::Reversed(inner) => return push_value(out, inner, number, size),
        CqlType::Empty | CqlType::Composite(_) | CqlType::LegacyTimestamp | CqlType::LexicalUuid => {
            return Err(format!("the type {}", cql_type.to_cql()));
        }
    }
    Ok(())
}

fn push_element(out: &mut Vec<u8>, cql_type: &CqlType, rng: &mut Rng) -> Result<(), String> {
    let at = out.len();
    out.extend([0; 4]);
    let size = ELEMENT_BYTES.0 + rng.below(ELEMENT_BYTES.1 - ELEMENT_BYTES.0 + 1);
    push_value(out, cql_type, rng.next_u64(), size as usize)?;
    let bytes = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
    Ok(())
}

/// Big-endian two's complement without bytes that only repeat the sign.
fn shortest(number: i64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let is_repeated = |pair: &[u8]| (pair[0] == 0 && pair[1] < 0x80) || (pair[0] == 0xff && pair[1] >= 0x80);
    let skipped = bytes.windows(2).take_while(|pair| is_repeated(pair)).count();
    bytes[skipped..].to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Each value is one that the type accepts, and depends on the number alone.
    #[test]
    fn values_are_valid_and_repeatable() {
        let text = Arc::new(CqlType::Text);
        let types = [
            CqlType::Ascii,
            CqlType::BigInt,
            CqlType::Blob,
            CqlType::Boolean,
            CqlType::Date,
            CqlType::Decimal,
            CqlType::Double,
            CqlType::Duration,
            CqlType::Float,
            CqlType::Inet,
            CqlType::Int,
            CqlType::SmallInt,
            CqlType::Text,
            CqlType::Time,
            CqlType::Timestamp,
            CqlType::TimeUuid,
            CqlType::TinyInt,
            CqlType::Uuid,
            CqlType::Varint,
            CqlType::List { element: text.clone(), multi_cell: true },
            CqlType::Tuple([CqlType::Int, CqlType::Text].into()),
            CqlType::vector(CqlType::Float, 5).unwrap(),
            CqlType::Reversed(text),
        ];
        for cql_type in types {
            for number in [0, 1, 255, 1 << 31, 1 << 40, u64::MAX] {
                let made = || {
                    let mut out = vec![];
                    push_value(&mut out, &cql_type, number, 3).unwrap();
                    out
                };
                cql_type.without_reversed().validate(&made()).unwrap_or_else(|error| {
                    panic!("{cql_type:?}, {number}: {error}: {:?}", made());
                });
                assert_eq!(made(), made());
            }
        }
        assert_eq!(shortest(-129), [0xff, 0x7f]);
        assert_eq!(shortest(127), [0x7f]);
        assert_eq!(shortest(0), [0]);
    }
}
