//! Laws of terms: their order is the order of values, and equal values have equal terms.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::index_definition::{
    IndexDefinition, IndexKind, IndexPart, TermAnalysis, encode_entry, encode_term, entry_bounds,
    term_is_ordered,
};
use crate::types::{CollectionBuilder, CqlType, build_tuple};
use crate::{
    Cell, ClusteringKey, ColumnData, ComplexCells, Liveness, PartitionKey, PathCell, Row, TableSchema,
    Tombstone,
};

fn decimal(unscaled: i128, scale: i32) -> Vec<u8> {
    let bytes = num_bigint::BigInt::from(unscaled).to_signed_bytes_be();
    [&scale.to_be_bytes()[..], &bytes].concat()
}

fn varint() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|number| num_bigint::BigInt::from(number).to_signed_bytes_be()),
        (-300i64..300).prop_map(|number| number.to_be_bytes().to_vec()),
        proptest::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 1..300),
    ]
}

fn float_bits() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::NEG_INFINITY), -2.0..2.0]
}

/// Values of each ordered type; few distinct ones, so that equal and adjacent values are met.
fn pair() -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>)> {
    fn two<S: Strategy<Value = Vec<u8>>>(
        ty: CqlType,
        value: impl Fn() -> S,
    ) -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>)> {
        let or_empty = |value: S| prop_oneof![1 => Just(vec![]), 20 => value];
        (or_empty(value()), or_empty(value())).prop_map(move |(a, b)| (ty.clone(), a, b))
    }
    let bytes = || proptest::collection::vec(0u8..3, 0..4);
    let uuid = || {
        (any::<u64>(), 0u64..8, any::<u64>()).prop_map(|(high, version, low)| {
            let high = high & !0xf000 | version << 12;
            [high.to_be_bytes(), low.to_be_bytes()].concat()
        })
    };
    let time_uuid = || {
        let part = || prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()];
        (part(), part())
            .prop_map(|(high, low)| [(high & !0xf000 | 0x1000).to_be_bytes(), low.to_be_bytes()].concat())
    };
    let number = || {
        let exponent = prop_oneof![-4i32..4, -400i32..400, Just(i32::MIN), Just(i32::MAX)];
        (prop_oneof![-200i128..200, any::<i64>().prop_map(i128::from)], exponent)
            .prop_map(|(unscaled, scale)| decimal(unscaled, scale))
    };
    prop_oneof![
        two(CqlType::TinyInt, || any::<i8>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::SmallInt, || any::<i16>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Int, || any::<i32>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::BigInt, || any::<i64>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Timestamp, || any::<i64>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Time, || (0i64..86_400).prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Date, || any::<u32>().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Varint, varint),
        two(CqlType::Decimal, number),
        two(CqlType::Float, || float_bits().prop_map(|n| (n as f32).to_be_bytes().to_vec())),
        two(CqlType::Double, || float_bits().prop_map(|n| n.to_be_bytes().to_vec())),
        two(CqlType::Boolean, || (0u8..2).prop_map(|b| vec![b])),
        two(CqlType::Uuid, uuid),
        two(CqlType::TimeUuid, time_uuid),
        two(CqlType::LexicalUuid, uuid),
        two(CqlType::Inet, || any::<[u8; 4]>().prop_map(|ip| ip.to_vec())),
        two(CqlType::Text, bytes),
        two(CqlType::Ascii, bytes),
        two(CqlType::Blob, bytes),
    ]
}

proptest! {
    #[test]
    fn terms_are_in_the_order_of_the_values((ty, a, b) in pair()) {
        let term = |value: &[u8]| encode_term(&ty, value, TermAnalysis::NONE);
        prop_assert!(term_is_ordered(&ty));
        prop_assert_eq!(term(&a).cmp(&term(&b)), ty.compare(&a, &b), "{:?} {:?} {:?}", ty, a, b);
        // Entries: first by key, then by value.
        let entry = |value: &[u8], other: &[u8]| encode_entry(&term(value), &term(other));
        prop_assert_eq!(entry(&a, &b).cmp(&entry(&b, &a)), ty.compare(&a, &b));
        prop_assert_eq!(entry(&a, &a).cmp(&entry(&a, &b)), ty.compare(&a, &b));
        let (start, end) = entry_bounds(&term(&a));
        prop_assert!(start <= entry(&a, &b) && entry(&a, &b) < end);
        prop_assert_eq!(start <= entry(&b, &a) && entry(&b, &a) < end, ty.compare(&a, &b).is_eq());
    }

    #[test]
    fn nested_values_are_equal_when_their_terms_are((ty, a, b) in pair(), with_field: bool) {
        let list = |value: &[u8]| {
            let mut list = CollectionBuilder::new();
            list.push(value);
            list.finish()
        };
        let list_type = CqlType::list(ty.clone()).freeze();
        let tuple = |value: &[u8], with_field: bool| {
            let fields = [Some(value), None];
            build_tuple(fields.into_iter().take(if with_field { 2 } else { 1 }))
        };
        let tuple_type = CqlType::tuple([ty.clone(), CqlType::Int]);
        let pairs = [
            (&list_type, list(&a), list(&b)),
            (&tuple_type, tuple(&a, with_field), tuple(&b, !with_field)),
        ];
        for (nested, a, b) in pairs {
            let terms_are_equal =
                encode_term(nested, &a, TermAnalysis::NONE) == encode_term(nested, &b, TermAnalysis::NONE);
            prop_assert_eq!(terms_are_equal, nested.compare(&a, &b).is_eq());
        }
    }

    #[test]
    fn any_bytes_have_a_term(value in proptest::collection::vec(any::<u8>(), 0..40)) {
        let columns = crate::sample::tables();
        let types = columns.iter().flat_map(|table| table.columns()).map(|column| column.ty.freeze());
        for ty in types.chain([CqlType::Decimal, CqlType::Varint, CqlType::Uuid, CqlType::TimeUuid]) {
            encode_term(&ty, &value, TermAnalysis { case_sensitive: false, normalize: true, ascii: true });
        }
    }
}

#[test]
fn numbers_that_are_equal_are_one_term() {
    let term = |value: &[u8]| encode_term(&CqlType::Decimal, value, TermAnalysis::NONE);
    assert_eq!(term(&decimal(10, 1)), term(&decimal(100, 2)));
    assert_eq!(term(&decimal(0, 7)), term(&decimal(0, -7)));
    assert_eq!(term(&decimal(-5, -1)), term(&decimal(-50, 0)));
    assert_eq!(term(&decimal(15, 1)).cmp(&term(&decimal(1, 0))), Ordering::Greater);
    let varint = |value: &[u8]| encode_term(&CqlType::Varint, value, TermAnalysis::NONE);
    assert_eq!(varint(&[0, 0, 1]), varint(&[1]));
    let set = |number: Vec<u8>| {
        let mut set = CollectionBuilder::new();
        set.push(&number);
        let ty = CqlType::set(CqlType::Decimal).freeze();
        encode_term(&ty, &set.finish(), TermAnalysis::NONE)
    };
    assert_eq!(set(decimal(10, 1)), set(decimal(100, 2)));
}

fn table() -> Arc<TableSchema> {
    TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .partition_key("q", CqlType::Text)
        .clustering("c", CqlType::reversed(CqlType::Int))
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Int)
        .regular("f", CqlType::map(CqlType::Text, CqlType::Int).freeze())
        .regular("l", CqlType::list(CqlType::Int))
        .regular("m", CqlType::map(CqlType::Text, CqlType::Int))
        .regular("e", CqlType::set(CqlType::Text))
        .build()
        .unwrap()
}

fn of(column: &str, part: IndexPart) -> Result<IndexTerms, crate::schema::SchemaError> {
    let index = IndexDefinition::new(Uuid::from_u128(1), "i", IndexKind::Secondary, column).of_part(part);
    IndexTerms::new(&table(), &Arc::new(index))
}

#[test]
fn each_part_of_each_column_has_its_terms() {
    let table = table();
    let int = |number: i32| number.to_be_bytes();
    let mut row = Row::new();
    let column = |name: &str| table.column_named(name).unwrap();
    row.set(column("v"), Cell::live(1, int(7)));
    let mut full = CollectionBuilder::new();
    full.push(b"a");
    full.push(&int(1));
    let full = full.finish_map();
    row.set(column("f"), Cell::live(1, full.clone()));
    let element = |path: &[u8], value: &[u8]| PathCell { path: path.into(), cell: Cell::live(1, value) };
    let mut complex = |name: &str, cells| {
        let data = ComplexCells { deletion: Tombstone::LIVE, cells };
        let mut other = Row::new();
        other.push(column(name).id, ColumnData::Complex(Box::new(data)));
        row.merge(&other, &table);
    };
    complex("l", vec![element(&[1; 16], &int(5)), element(&[2; 16], &int(6))]);
    complex("m", vec![element(b"k", &int(3)), PathCell { path: "x".into(), cell: Cell::tombstone(1, 1) }]);
    complex("e", vec![element(b"one", b"")]);

    let key = PartitionKey::new(crate::key::composite_key([&int(1)[..], b"q1"]));
    let clustering = ClusteringKey::new([&int(9)[..]]);
    let mut statics = Row::new();
    statics.set(column("s"), Cell::live(1, "fixed"));
    let check = |name: &str, part: IndexPart, expect: &[Vec<u8>], is_per_partition: bool| {
        let terms = of(name, part).unwrap();
        let mut found = vec![];
        let each = &mut |term: Vec<u8>| found.push(term);
        terms.of_partition_key(&key, each);
        terms.of_static_row(&statics, each);
        terms.of_row(&clustering, &row, each);
        assert_eq!(found, expect, "{name} {part:?}");
        assert_eq!(terms.is_per_partition(), is_per_partition);
    };
    let term = |number: i32| encode_term(&CqlType::Int, &int(number), TermAnalysis::NONE);
    check("p", IndexPart::Value, &[term(1)], true);
    check("q", IndexPart::Value, &[b"q1".to_vec()], true);
    check("c", IndexPart::Value, &[term(9)], false);
    check("s", IndexPart::Value, &[b"fixed".to_vec()], true);
    check("v", IndexPart::Value, &[term(7)], false);
    check("l", IndexPart::Values, &[term(5), term(6)], false);
    check("m", IndexPart::Keys, &[b"k".to_vec()], false);
    check("m", IndexPart::Values, &[term(3)], false);
    let entry = encode_entry(b"k", &term(3));
    check("m", IndexPart::Entries, std::slice::from_ref(&entry), false);
    check("e", IndexPart::Values, &[b"one".to_vec()], false);
    let entries = of("m", IndexPart::Entries).unwrap();
    assert_eq!(entries.term(&build_tuple([Some(&b"k"[..]), Some(&int(3))])), entry);
    let whole = of("f", IndexPart::Full).unwrap();
    check("f", IndexPart::Full, &[whole.term(&full)], false);
    check("f", IndexPart::Keys, &[b"a".to_vec()], false);
    // A row without data has no terms; a marker makes it a row.
    let c = of("c", IndexPart::Value).unwrap();
    let count = |row: &Row| {
        let mut count = 0;
        c.of_row(&clustering, row, &mut |_| count += 1);
        count
    };
    let mut row = Row::new();
    row.deletion = Tombstone::new(1, 1);
    assert_eq!(count(&row), 0);
    row.liveness = Liveness::new(2);
    assert_eq!(count(&row), 1);
}

#[test]
fn an_index_that_does_not_fit_its_table_is_refused_with_a_reason() {
    let check = |column: &str, part: IndexPart, expect: &str| {
        let error = of(column, part).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("none", IndexPart::Value, "index i: the table has no column none");
    check("v", IndexPart::Keys, "has no Keys");
    check("m", IndexPart::Value, "has no Value");
    let index = Arc::new(IndexDefinition::new(Uuid::from_u128(1), "i", IndexKind::Secondary, "none"));
    assert!(table().to_builder().index(index.clone()).build().is_err());
    let good = Arc::new(IndexDefinition { column: "v".into(), ..(*index).clone() });
    let indexed = table().to_builder().index(good.clone()).build().unwrap();
    assert_eq!(indexed.indexes, [good]);
    assert_eq!(indexed.to_builder().build().unwrap().indexes, indexed.indexes);
    let without = indexed.to_builder().remove_index("i").build().unwrap();
    assert!(without.indexes.is_empty());
}
