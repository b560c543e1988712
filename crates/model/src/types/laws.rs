//! Laws for all types and values: the order is total; text, JSON and values can be parsed back; encoded
//! values are valid; no input causes a panic.

use std::cmp::Ordering;

use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn scalar_type() -> impl Strategy<Value = CqlType> {
    proptest::sample::select(vec![
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Counter,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Empty,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::LegacyTimestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::LexicalUuid,
        CqlType::Varint,
    ])
}

fn user_type(fields: Vec<CqlType>) -> CqlType {
    let names = ["street", "City", "with \"quotes\"", "select"];
    let fields = fields
        .into_iter()
        .zip(names)
        .map(|(field_type, name)| UdtField { name: name.to_owned(), field_type })
        .collect();
    CqlType::udt(UserType { keyspace: "ks".into(), name: "Address".into(), fields })
}

/// Any type; nested types are frozen, as CQL requires.
fn any_type() -> impl Strategy<Value = CqlType> {
    scalar_type().prop_recursive(3, 12, 4, |inner| {
        let frozen = inner.prop_map(|inner| inner.freeze());
        let shape = prop_oneof![
            frozen.clone().prop_map(CqlType::list),
            frozen.clone().prop_map(CqlType::set),
            (frozen.clone(), frozen.clone()).prop_map(|(key, value)| CqlType::map(key, value)),
            vec(frozen.clone(), 1..4).prop_map(CqlType::tuple),
            vec(frozen.clone(), 1..4).prop_map(user_type),
            (frozen, 1u32..4).prop_map(|(element, dimension)| {
                CqlType::vector(element, dimension).unwrap_or(CqlType::Blob)
            }),
        ];
        (shape, any::<bool>()).prop_map(|(shape, freeze)| if freeze { shape.freeze() } else { shape })
    })
}

/// An integer, often small or with few bits set, so that equal and neighbouring values are common.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-2i64..3, any::<i64>(), (0u32..64).prop_map(|shift| 1i64 << shift)]
}

fn big() -> impl Strategy<Value = BigInt> {
    prop_oneof![
        number().prop_map(BigInt::from),
        vec(any::<u8>(), 0..40).prop_map(|bytes| BigInt::from_signed_bytes_be(&bytes)),
    ]
}

fn value_of(cql_type: &CqlType) -> BoxedStrategy<CqlValue> {
    let small = |scalar: fn(i64) -> CqlValue| number().prop_map(scalar).boxed();
    match cql_type {
        CqlType::Reversed(base) => value_of(base),
        CqlType::Ascii => "[ -~]{0,6}".prop_map(CqlValue::Text).boxed(),
        CqlType::Text => "\\PC{0,6}|['\\\\\"\n\u{0}-\u{1f}]{0,3}".prop_map(CqlValue::Text).boxed(),
        CqlType::Blob | CqlType::Composite(_) => vec(any::<u8>(), 0..6).prop_map(CqlValue::Blob).boxed(),
        CqlType::Boolean => any::<bool>().prop_map(CqlValue::Boolean).boxed(),
        CqlType::TinyInt => small(|value| CqlValue::TinyInt(value as i8)),
        CqlType::SmallInt => small(|value| CqlValue::SmallInt(value as i16)),
        CqlType::Int => small(|value| CqlValue::Int(value as i32)),
        CqlType::BigInt | CqlType::Counter => small(CqlValue::BigInt),
        CqlType::Timestamp | CqlType::LegacyTimestamp => small(CqlValue::Timestamp),
        CqlType::Date => small(|value| CqlValue::Date(value as u32 ^ (1 << 31))),
        CqlType::Time => small(|value| CqlValue::Time(value.rem_euclid(super::civil::NS_PER_DAY))),
        CqlType::Float => prop_oneof![
            any::<f32>(),
            proptest::sample::select(vec![0.0f32, -0.0, f32::INFINITY, f32::NAN, 1e7])
        ]
        .prop_map(CqlValue::Float)
        .boxed(),
        CqlType::Double => prop_oneof![
            any::<f64>(),
            proptest::sample::select(vec![0.0, -0.0, f64::NEG_INFINITY, f64::NAN, 1e-5])
        ]
        .prop_map(CqlValue::Double)
        .boxed(),
        CqlType::Varint => big().prop_map(CqlValue::Varint).boxed(),
        CqlType::Decimal => {
            let scale = prop_oneof![-3i32..4, any::<i32>(), -60i32..60];
            (big(), scale).prop_map(|(unscaled, scale)| CqlValue::Decimal { unscaled, scale }).boxed()
        }
        CqlType::Duration => (any::<i32>(), any::<i32>(), any::<i64>(), 0u8..8)
            .prop_map(|(months, days, nanoseconds, zeros)| {
                let sign = |value: i64| if months < 0 { value.min(!value) } else { value.max(!value) };
                CqlValue::Duration(Duration {
                    months: if zeros & 1 == 0 { months } else { 0 },
                    days: if zeros & 2 == 0 { sign(days.into()) as i32 } else { 0 },
                    nanoseconds: if zeros & 4 == 0 { sign(nanoseconds) } else { 0 },
                })
            })
            .boxed(),
        CqlType::Uuid | CqlType::LexicalUuid => prop_oneof![
            any::<[u8; 16]>(),
            (0u8..3, 0u8..3).prop_map(|(a, b)| [a, 0, 0, 0, 0, 0, 0x10, 0, b, 0, 0, 0, 0, 0, 0, 0])
        ]
        .prop_map(CqlValue::Uuid)
        .boxed(),
        CqlType::TimeUuid => any::<[u8; 16]>()
            .prop_map(|mut bytes| {
                bytes[6] = 0x10 | (bytes[6] & 0xf);
                CqlValue::Uuid(bytes)
            })
            .boxed(),
        CqlType::Inet => {
            any::<std::net::IpAddr>().prop_map(|address| CqlValue::Inet(address.to_canonical())).boxed()
        }
        CqlType::Empty => Just(CqlValue::Empty).boxed(),
        CqlType::List { element, .. } => vec(value_of(element), 0..4).prop_map(CqlValue::List).boxed(),
        CqlType::Set { element, .. } => vec(value_of(element), 0..4).prop_map(CqlValue::Set).boxed(),
        CqlType::Vector { element, dimension } => {
            vec(value_of(element), *dimension as usize).prop_map(CqlValue::List).boxed()
        }
        CqlType::Map { entry, .. } => {
            vec((value_of(&entry.0), value_of(&entry.1)), 0..4).prop_map(CqlValue::Map).boxed()
        }
        CqlType::Tuple(components) => fields_of(components.iter()),
        CqlType::Udt { user, .. } => fields_of(user.fields.iter().map(|field| &field.field_type)),
    }
}

/// Values of all fields, some of them null.
fn fields_of<'t>(types: impl Iterator<Item = &'t CqlType>) -> BoxedStrategy<CqlValue> {
    let fields: Vec<_> =
        types.map(|field_type| proptest::option::weighted(0.8, value_of(field_type))).collect();
    fields.prop_map(CqlValue::Tuple).boxed()
}

fn encoded(cql_type: &CqlType) -> BoxedStrategy<Vec<u8>> {
    let owned = cql_type.clone();
    value_of(cql_type).prop_map(move |value| value.encode(&owned).unwrap()).boxed()
}

fn type_and_value() -> impl Strategy<Value = (CqlType, Vec<u8>)> {
    any_type().prop_flat_map(|cql_type| {
        let values = encoded(&cql_type);
        (Just(cql_type), values)
    })
}

/// Valid values; values with a byte changed, cut off or appended; and random bytes.
fn damaged(cql_type: &CqlType) -> impl Strategy<Value = Vec<u8>> + use<> {
    let damage = (encoded(cql_type), 0u8..5, any::<prop::sample::Index>(), any::<u8>());
    let damaged = damage.prop_map(|(mut bytes, kind, at, byte)| {
        match kind {
            0 if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
            1 if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            2 => bytes.push(byte),
            _ => {}
        }
        bytes
    });
    prop_oneof![4 => damaged, 1 => vec(any::<u8>(), 0..24)]
}

fn type_and_three_damaged() -> impl Strategy<Value = (CqlType, [Vec<u8>; 3])> {
    any_type().prop_flat_map(|cql_type| {
        let values = [damaged(&cql_type), damaged(&cql_type), damaged(&cql_type)];
        (Just(cql_type), values)
    })
}

fn check_order(cql_type: &CqlType, [a, b, c]: &[Vec<u8>; 3]) -> Result<(), TestCaseError> {
    prop_assert_eq!(cql_type.compare(a, a), Ordering::Equal);
    prop_assert_eq!(cql_type.compare(a, b), cql_type.compare(b, a).reverse());
    if cql_type.compare(a, b).is_le() && cql_type.compare(b, c).is_le() {
        prop_assert!(cql_type.compare(a, c).is_le());
        if cql_type.compare(a, b).is_lt() || cql_type.compare(b, c).is_lt() {
            prop_assert!(cql_type.compare(a, c).is_lt());
        }
    }
    let reversed = CqlType::reversed(cql_type.clone());
    prop_assert_eq!(reversed.compare(a, b), cql_type.compare(b, a));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_is_total_even_over_damage((cql_type, values) in type_and_three_damaged()) {
        check_order(&cql_type, &values)?;
    }

    #[test]
    fn order_of_scalars_is_total(
        (cql_type, values) in scalar_type().prop_flat_map(|cql_type| {
            let values = [damaged(&cql_type), damaged(&cql_type), damaged(&cql_type)];
            (Just(cql_type), values)
        })
    ) {
        check_order(&cql_type, &values)?;
    }

    #[test]
    fn names_read_back(cql_type in any_type(), reverse: bool) {
        let cql_type = if reverse { CqlType::reversed(cql_type) } else { cql_type };
        prop_assert_eq!(CqlType::from_java_name(&cql_type.to_java_name()), Ok(cql_type.clone()));
        let hidden = |inner: &CqlType| matches!(inner, CqlType::LegacyTimestamp | CqlType::Udt { .. } | CqlType::Reversed(_));
        // A UDT needs a schema, and the other types are printed as another type.
        if !cql_type.any(&hidden) && !cql_type.any(&|inner| matches!(inner, CqlType::Counter | CqlType::Duration)) {
            prop_assert_eq!(CqlType::from_cql(&cql_type.to_cql(), &|_| None), Ok(cql_type));
        }
    }

    #[test]
    fn values_are_valid_and_read_back((cql_type, bytes) in type_and_value()) {
        prop_assert_eq!(cql_type.validate(&bytes), Ok(()));
        let value = CqlValue::decode(&cql_type, &bytes).unwrap();
        prop_assert_eq!(value.encode(&cql_type), Ok(bytes.clone()));

        let text = cql_type.text_of(&bytes);
        let read = cql_type.bytes_of(&text);
        prop_assert!(read.is_ok(), "{}: {:?}", text, read);
        let read = read.unwrap();
        prop_assert_eq!(cql_type.compare(&read, &bytes), Ordering::Equal, "{}", text);
        // The bytes are identical, including signs of zero; only the payload of a NaN is lost.
        if !text.contains("NaN") {
            prop_assert_eq!(&read, &bytes, "{}", text);
        }
    }

    #[test]
    fn nothing_panics_on_any_bytes((cql_type, values) in type_and_three_damaged()) {
        for bytes in &values {
            let valid = cql_type.validate(bytes).is_ok();
            let decoded = CqlValue::decode(&cql_type, bytes);
            prop_assert!(valid || decoded.is_err());
            let (text, raw, json) = (cql_type.text_of(bytes), cql_type.raw_text_of(bytes), cql_type.json_of(bytes));
            // The longest text per byte is a control character in JSON, inside a key that is a string of
            // JSON.
            let bound = 1_000 + 200 * (bytes.len() + 1) * 8;
            prop_assert!(text.len() + raw.len() + json.len() <= bound, "{} {} {}", text, raw, json);
        }
    }

    #[test]
    fn text_of_nested_map_keys_stays_small(depth in 1usize..90, text in "[\"\\\\a]{0,8}") {
        // Each level would escape the quotes of the level below again.
        let (mut cql_type, mut bytes) = (CqlType::Text, text.into_bytes());
        for _ in 0..depth {
            cql_type = CqlType::map(cql_type, CqlType::Int).freeze();
            let mut map = CollectionBuilder::new();
            map.push(&bytes);
            map.push(&[0; 4]);
            bytes = map.finish_map();
        }
        prop_assert!(cql_type.json_of(&bytes).len() <= 4_096 + 200 * bytes.len());
        prop_assert!(cql_type.text_of(&bytes).len() <= 100 + 3 * bytes.len());
    }

    #[test]
    fn nothing_panics_on_any_text(cql_type in any_type(), text in "\\PC{0,40}|[-0-9a-zA-Z:.,'\"\\[\\]{}()<>$ µ]{0,24}") {
        if let Ok(bytes) = cql_type.bytes_of(&text) {
            prop_assert_eq!(cql_type.validate(&bytes), Ok(()), "{}", text);
        }
        if let Ok(bytes) = cql_type.bytes_of_raw_text(&text) {
            prop_assert!(bytes.len() <= 100 + text.len() * 16);
        }
        let _any_answer = (CqlType::from_java_name(&text), CqlType::from_cql(&text, &|_| None));
    }

    #[test]
    fn raw_text_of_scalars_reads_back(
        (cql_type, bytes) in scalar_type().prop_flat_map(|cql_type| {
            let values = encoded(&cql_type);
            (Just(cql_type), values)
        })
    ) {
        let raw = cql_type.raw_text_of(&bytes);
        // Java's text of a year of an era, and of a duration of zero, cannot be parsed back.
        let lossy = matches!(cql_type, CqlType::Timestamp | CqlType::LegacyTimestamp | CqlType::Counter)
            || raw.is_empty() || raw == "NaN";
        if !lossy && !matches!(cql_type, CqlType::Blob) {
            prop_assert_eq!(cql_type.bytes_of_raw_text(&raw), Ok(bytes));
        }
    }
}
