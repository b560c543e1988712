//! Validation of serialized values, with Cassandra's error texts.
//!
//! It accepts the same values as Cassandra, including empty ones, and is stricter in three cases in which
//! Cassandra stores data that it cannot read later: text must be UTF-8 (without surrogates), the count of a
//! list, set or map must not be negative, and no bytes may follow a duration.
//!
//! Source: Cassandra 4.1 `serializers/*.java`, `utils/TimeUUID.java`, `AbstractCompositeType.java`.

use base::bytes::Take;

use super::collection::{CollectionIter, CompositeIter, MapIter, TupleIter, VectorIter};
use super::error::type_err;
use super::java_name::push_hex;
use super::{CqlType, TypeError};

impl CqlType {
    /// Checks that bytes are a value of this type.
    ///
    /// # Errors
    /// The bytes are not a value of this type. For a counter this checks the protocol's 8 bytes, not the
    /// context in a cell.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), TypeError> {
        let len = bytes.len();
        match self {
            Self::Blob | Self::Varint => Ok(()),
            Self::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
                Some(byte) => type_err!("Invalid byte for ascii: {}", *byte as i8),
                None => Ok(()),
            },
            Self::Text => match std::str::from_utf8(bytes) {
                Ok(_) => Ok(()),
                Err(error) => type_err!("String didn't validate. Not UTF-8 at byte {}", error.valid_up_to()),
            },
            Self::Boolean if len > 1 => type_err!("Expected 1 or 0 byte value ({len})"),
            Self::TinyInt if len != 1 => type_err!("Expected 1 byte for a tinyint ({len})"),
            Self::SmallInt if len != 2 => type_err!("Expected 2 bytes for a smallint ({len})"),
            Self::Int if !matches!(len, 0 | 4) => type_err!("Expected 4 or 0 byte int ({len})"),
            Self::BigInt | Self::Counter if !matches!(len, 0 | 8) => {
                type_err!("Expected 8 or 0 byte long ({len})")
            }
            Self::Timestamp | Self::LegacyTimestamp if !matches!(len, 0 | 8) => {
                type_err!("Expected 8 or 0 byte long for date ({len})")
            }
            Self::Date if len != 4 => type_err!("Expected 4 byte long for date ({len})"),
            Self::Time if len != 8 => type_err!("Expected 8 byte long for time ({len})"),
            Self::Float if !matches!(len, 0 | 4) => {
                type_err!("Expected 4 or 0 byte value for a float ({len})")
            }
            Self::Double if !matches!(len, 0 | 8) => {
                type_err!("Expected 8 or 0 byte value for a double ({len})")
            }
            Self::Decimal if (1..4).contains(&len) => type_err!("Expected 0 or at least 4 bytes ({len})"),
            Self::Inet if !matches!(len, 0 | 4 | 16) => {
                let mut hex = String::new();
                push_hex(&mut hex, &bytes[..len.min(32)]);
                type_err!("Expected 4 or 16 byte inetaddress; got {hex} ({len} bytes)")
            }
            Self::Uuid | Self::TimeUuid | Self::LexicalUuid if !matches!(len, 0 | 16) => {
                type_err!("UUID should be 16 or 0 bytes ({len})")
            }
            Self::TimeUuid if len == 16 && bytes[6] >> 4 != 1 => {
                type_err!("Invalid version for TimeUUID type: 0x{:x}", bytes[6] >> 4)
            }
            Self::Empty if len != 0 => type_err!("EmptyType only accept empty values"),
            Self::Duration => duration(bytes),
            Self::List { element, .. } => elements("list", CollectionIter::new(bytes), &[element]),
            Self::Set { .. } | Self::Map { .. } if bytes.is_empty() => Ok(()),
            Self::Set { element, .. } => elements("set", CollectionIter::new(bytes), &[element]),
            Self::Map { entry, .. } => {
                elements("map", MapIter::new(bytes).map(MapIter::into_elements), &[&entry.0, &entry.1])
            }
            Self::Tuple(components) => {
                let mut fields = TupleIter::new(bytes);
                for (i, component) in components.iter().enumerate() {
                    let missing = if fields.rest().len() < 4 { "size of " } else { "" };
                    match fields.next() {
                        None => return Ok(()),
                        Some(Err(_)) => {
                            return type_err!("Not enough bytes to read {missing}{i}th component");
                        }
                        Some(Ok(None)) => {}
                        Some(Ok(Some(field))) => component.validate(field)?,
                    }
                }
                end_of("tuple", &fields)
            }
            Self::Udt { user, .. } => {
                let mut fields = TupleIter::new(bytes);
                for (i, field) in user.fields.iter().enumerate() {
                    match fields.next() {
                        None => return Ok(()),
                        Some(Err(_)) => {
                            return type_err!("Not enough bytes to read {i}th field {}", field.name);
                        }
                        Some(Ok(None)) => {}
                        Some(Ok(Some(value))) => {
                            if let Err(error) = field.field_type.validate(value) {
                                return type_err!(
                                    "Failure validating the {i}th field {}; {error}",
                                    field.name
                                );
                            }
                        }
                    }
                }
                end_of("UDT", &fields)
            }
            Self::Vector { .. } if bytes.is_empty() => type_err!("Invalid empty vector value"),
            Self::Vector { element, dimension } => {
                let mut elements = VectorIter::new(bytes, element, *dimension);
                for _ in 0..*dimension {
                    match elements.next() {
                        Some(Ok(value)) => element.validate(value)?,
                        _ => return type_err!("Not enough bytes to read a {} ({len})", self.to_cql()),
                    }
                }
                match elements.rest().len() {
                    0 => Ok(()),
                    left => type_err!("Unexpected {left} extraneous bytes after {} value", self.to_cql()),
                }
            }
            Self::Composite(components) => composite(bytes, components),
            Self::Reversed(base) => base.validate(bytes),
            // The checks above have found no error.
            _ => Ok(()),
        }
    }
}

fn duration(bytes: &[u8]) -> Result<(), TypeError> {
    if bytes.len() < 3 {
        return type_err!("Expected at least 3 bytes for a duration ({})", bytes.len());
    }
    let mut take = Take::new(bytes);
    let parts = (|| {
        Ok::<_, base::bytes::Truncated>((take.vint_signed()?, take.vint_signed()?, take.vint_signed()?))
    })();
    let Ok((months, days, nanoseconds)) = parts else {
        return type_err!("Not enough bytes for a duration ({})", bytes.len());
    };
    for (unit, value) in [("months", months), ("days", days)] {
        if i32::try_from(value).is_err() {
            return type_err!("The duration {unit} must be a 32 bits integer but was: {value}");
        }
    }
    let parts = [months, days, nanoseconds];
    if parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0) {
        return type_err!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
        );
    }
    if !take.is_empty() {
        return type_err!("{} bytes left over after a duration", take.remaining());
    }
    Ok(())
}

fn elements(
    kind: &str,
    elements: Result<CollectionIter<'_>, TypeError>,
    types: &[&CqlType],
) -> Result<(), TypeError> {
    let mut elements = match elements {
        Ok(elements) => elements,
        Err(error) => return type_err!("Not enough bytes to read a {kind}: {error}"),
    };
    for element_type in types.iter().cycle() {
        let all_read = elements.claimed_len() == 0;
        match elements.next() {
            None => break,
            Some(Ok(Some(element))) => element_type.validate(element)?,
            Some(Ok(None)) => return type_err!("Null value read when not allowed, in a {kind}"),
            Some(Err(error)) if all_read => {
                return type_err!("Unexpected extraneous bytes after {kind} value: {error}");
            }
            Some(Err(error)) => return type_err!("Not enough bytes to read a {kind}: {error}"),
        }
    }
    Ok(())
}

fn end_of(kind: &str, fields: &TupleIter<'_>) -> Result<(), TypeError> {
    match fields.rest().len() {
        0 => Ok(()),
        left => type_err!("Invalid remaining data after end of {kind} value ({left} bytes)"),
    }
}

fn composite(bytes: &[u8], types: &[CqlType]) -> Result<(), TypeError> {
    let bytes = bytes.strip_prefix(&[0xff, 0xff]).unwrap_or(bytes);
    let mut components = CompositeIter::new(bytes);
    let mut i = 0;
    while let Some(component) = components.next() {
        let Ok((value, end)) = component else {
            return type_err!("Not enough bytes to read value of component {i}");
        };
        let Some(component_type) = types.get(i) else {
            return type_err!("Too many bytes for comparator: component {i} of {}", types.len());
        };
        component_type.validate(value)?;
        if end != 0 && !components.rest().is_empty() {
            return type_err!("Invalid bytes remaining after an end-of-component at component {i}");
        }
        i += 1;
    }
    Ok(())
}
