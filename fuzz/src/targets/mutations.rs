//! Any bytes are a mutation in the format of the commit log, or are refused. A decoded mutation is encoded
//! again, and decodes to the same mutation.
//!
//! The first byte selects the table; the table's id is inserted before the other bytes.

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Partition, codec};

pub fn examine(data: &[u8]) {
    let [table, rest @ ..] = data else { return };
    let _ = (codec::table_of(rest), codec::key_of(rest));
    let tables = sample::tables();
    let schema = &tables[usize::from(*table) % tables.len()];
    let mut bytes = vec![1];
    bytes.extend_from_slice(schema.id.as_bytes());
    bytes.extend_from_slice(rest);
    assert_eq!(codec::table_of(&bytes), Ok(schema.id), "the version of docs/formats/mutation.md has changed");
    let Ok(mutation) = codec::decode(&bytes, schema) else { return };
    let mut again = vec![];
    codec::encode(&mutation, &mut again);
    assert_eq!(codec::decode(&again, schema).as_ref(), Ok(&mutation));
    let same = |mut partition: Partition| {
        partition.shadow(schema);
        partition
    };
    let merge = |one: &Partition, other: &Partition| {
        let mut merged = one.clone();
        merged.merge(other, schema);
        same(merged)
    };
    let partition = &mutation.partition;
    assert_eq!(merge(partition, partition), same(partition.clone()), "merging with itself changes nothing");
    let other = sample::mutation(&mut Rng::new(rest.len() as u64), schema, &Variety::default()).partition;
    assert_eq!(merge(partition, &other), merge(&other, partition), "merging has no order");
}
