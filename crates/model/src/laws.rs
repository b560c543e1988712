//! Laws of merging, purging and encoding, tested with random writes. The order and the grouping of writes do
//! not affect the merged result; a purge does not change the result of a later read; encoding is lossless.

use std::sync::Arc;

use base::rng::Rng;

use crate::sample::{self, Variety};
use crate::{Mutation, NO_DELETION_TIME_S, Partition, Purge, TableSchema, codec};

fn writes(rng: &mut Rng, schema: &Arc<TableSchema>, variety: &Variety) -> Vec<Mutation> {
    (0..2 + rng.below(6)).map(|_| sample::mutation(rng, schema, variety)).collect()
}

fn one_partition() -> Variety {
    Variety { partitions: 1, ..Variety::default() }
}

fn for_each_case(cases: u64, mut check: impl FnMut(u64, &mut Rng, &Arc<TableSchema>)) {
    for schema in sample::all_tables() {
        for seed in 0..cases {
            check(seed, &mut Rng::new(seed), &schema);
        }
    }
}

fn merged<'a>(parts: impl IntoIterator<Item = &'a Partition>, schema: &TableSchema) -> Partition {
    let mut sum = Partition::default();
    parts.into_iter().for_each(|part| sum.merge(part, schema));
    sum
}

fn canonical(mut partition: Partition, schema: &TableSchema) -> Partition {
    partition.shadow(schema);
    partition
}

#[test]
fn merging_is_commutative_associative_and_idempotent() {
    for_each_case(500, |seed, rng, schema| {
        let writes = writes(rng, schema, &one_partition());
        let parts: Vec<&Partition> = writes.iter().map(|write| &write.partition).collect();
        let forward = canonical(merged(parts.iter().copied(), schema), schema);
        let backward = canonical(merged(parts.iter().rev().copied(), schema), schema);
        assert_eq!(forward, backward, "commutative: seed {seed} of {}", schema.name);
        let (left, right) = parts.split_at(rng.index(parts.len()));
        let (left, right) = (merged(left.iter().copied(), schema), merged(right.iter().copied(), schema));
        let grouped = canonical(merged([&left, &right], schema), schema);
        assert_eq!(forward, grouped, "associative: seed {seed} of {}", schema.name);
        let twice = canonical(merged([&forward, &forward, parts[0]], schema), schema);
        assert_eq!(forward, twice, "idempotent: seed {seed} of {}", schema.name);
    });
}

#[test]
fn shadowing_early_changes_nothing() {
    for_each_case(300, |seed, rng, schema| {
        let writes = writes(rng, schema, &one_partition());
        let parts: Vec<Partition> = writes.iter().map(|write| write.partition.clone()).collect();
        let plain = canonical(merged(&parts, schema), schema);
        let shadowed: Vec<Partition> = parts.into_iter().map(|part| canonical(part, schema)).collect();
        assert_eq!(plain, canonical(merged(&shadowed, schema), schema), "seed {seed} of {}", schema.name);
    });
}

/// The data that a client sees at `now_s`.
fn seen(mut partition: Partition, schema: &TableSchema, now_s: u32) -> Partition {
    partition.compact(schema, &Purge::everything(now_s));
    let rows: Vec<_> = partition.take_rows().into_iter().filter(|row| row.row.is_live_at(now_s)).collect();
    rows.into_iter().for_each(|row| partition.push_row(schema, row));
    partition
}

#[test]
fn a_purge_never_changes_what_a_later_read_may_see() {
    for_each_case(600, |seed, rng, schema| {
        let variety = one_partition();
        // The only exception from this law: a deleted counter stays deleted even if values are added later,
        // until its tombstone is purged. This is the rule of Cassandra and ScyllaDB.
        if schema.has_counters() {
            return;
        }
        let inside = merged(writes(rng, schema, &variety).iter().map(|w| &w.partition), schema);
        // Data outside the merge is not older than `max_purgeable_us`.
        let max_purgeable_us = 1_700_000_000_000_000 + rng.below(6) as i64;
        let outside: Vec<Mutation> = writes(rng, schema, &variety)
            .into_iter()
            .filter(|write| oldest_timestamp(&write.partition) >= max_purgeable_us)
            .collect();
        let outside = merged(outside.iter().map(|w| &w.partition), schema);
        let now_s = variety.now_s + rng.below(4) as u32;
        let purge = Purge { now_s, gc_before_s: variety.now_s + 10 - rng.below(13) as u32, max_purgeable_us };
        let mut purged = inside.clone();
        purged.compact(schema, &purge);
        for later_s in [now_s, now_s + 1, now_s + 100] {
            assert_eq!(
                seen(merged([&inside, &outside], schema), schema, later_s),
                seen(merged([&purged, &outside], schema), schema, later_s),
                "seed {seed} of {}: {purge:?}",
                schema.name
            );
        }
    });
}

fn oldest_timestamp(partition: &Partition) -> i64 {
    use crate::ColumnData::{Complex, Simple};
    let mut oldest = i64::MAX;
    let mut see = |timestamp_us: i64| {
        if timestamp_us != crate::NO_TIMESTAMP_US {
            oldest = oldest.min(timestamp_us);
        }
    };
    see(partition.tombstone.timestamp_us);
    partition.range_tombstones().ranges().for_each(|deletion| see(deletion.tombstone.timestamp_us));
    for row in partition.rows().iter().map(|row| &row.row).chain([&partition.static_row]) {
        see(row.deletion.timestamp_us);
        see(row.liveness.timestamp_us);
        for (_, data) in row.cells() {
            match data {
                Simple(cell) => see(cell.timestamp_us),
                Complex(complex) => {
                    see(complex.deletion.timestamp_us);
                    complex.cells.iter().for_each(|element| see(element.cell.timestamp_us));
                }
            }
        }
    }
    oldest
}

#[test]
fn encoding_loses_nothing_and_decoding_is_total() {
    for_each_case(300, |seed, rng, schema| {
        let write = sample::mutation(rng, schema, &Variety::default());
        let mut bytes = vec![];
        codec::encode(&write, &mut bytes);
        assert_eq!(codec::table_of(&bytes), Ok(schema.id));
        assert_eq!(codec::key_of(&bytes).as_ref(), Ok(&write.key));
        assert_eq!(codec::decode(&bytes, schema).as_ref(), Ok(&write), "seed {seed}");
        let mut expired = write.clone();
        for mut row in expired.partition.take_rows() {
            // A time after the expiry of all expiring cells.
            Purge::nothing(NO_DELETION_TIME_S - 1).row(&mut row.row);
            expired.partition.push_row(schema, row);
        }
        let mut bytes_of_expired = vec![];
        codec::encode(&expired, &mut bytes_of_expired);
        assert_eq!(codec::decode(&bytes_of_expired, schema).as_ref(), Ok(&expired), "seed {seed}");
        for cut in 0..bytes.len() {
            let cut = &bytes[..cut];
            assert!(codec::table_of(cut).is_err() || codec::decode(cut, schema).is_err());
        }
        for _ in 0..20 {
            let mut flipped = bytes.clone();
            let at = 17 + rng.index(bytes.len() - 17);
            flipped[at] ^= 1 << rng.below(8);
            // Refused, or decoded to a mutation that encodes and decodes again without loss.
            if let Ok(read) = codec::decode(&flipped, schema) {
                let mut again = vec![];
                codec::encode(&read, &mut again);
                assert_eq!(codec::decode(&again, schema), Ok(read), "seed {seed}");
            }
        }
    });
}

#[test]
fn a_time_to_live_that_no_cell_has_is_refused() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", crate::CqlType::Int)
        .regular("v", crate::CqlType::Text)
        .build()
        .unwrap();
    let mut write = Mutation::new(schema.clone(), crate::PartitionKey::new([0, 0, 0, 1]));
    let row = write.row_mut(crate::ClusteringPrefix::default());
    row.liveness = crate::Liveness::expiring(7, 60, 1000);
    row.set(schema.column_named("v").unwrap(), crate::Cell::expiring(7, 60, 1000, "x"));
    let mut bytes = vec![];
    codec::encode(&write, &mut bytes);
    assert_eq!(codec::decode(&bytes, &schema).as_ref(), Ok(&write));
    // The positions of the marker's TTL and of the cell's TTL.
    let ttls: Vec<usize> = (17..bytes.len()).filter(|at| bytes[*at] == 60).collect();
    let [marker, cell] = ttls[..] else { panic!("{ttls:?} in {bytes:?}") };
    for at in [marker, cell] {
        let mut zero = bytes.clone();
        zero[at] = 0;
        let error = codec::decode(&zero, &schema).unwrap_err();
        assert_eq!(error.detail, "a TTL of 0 s");
        // 0xf0: four bytes follow.
        let highest = [&bytes[..at], &[0xf0, 0x80, 0, 0, 0], &bytes[at + 1..]].concat();
        let error = codec::decode(&highest, &schema).unwrap_err();
        assert_eq!(error.detail, "a TTL of 2147483648 s");
    }
    let flags = marker - 2;
    assert_eq!(bytes[flags], 2 | 4, "{bytes:?}");
    let unmarked = [&bytes[..flags], &[4], &bytes[flags + 2..]].concat();
    let error = codec::decode(&unmarked, &schema).unwrap_err();
    assert_eq!(error.detail, "an expiry without a marker");
}

#[test]
fn an_old_mutation_is_read_with_the_schema_of_today() {
    let old = sample::tables().remove(1);
    let new = old.to_builder().drop_column("m", 1).regular("n", crate::CqlType::Int);
    let new = new.build_with_ids_from(old.column_id_bound()).unwrap();
    let dropped = old.column_named("m").unwrap().id;
    for seed in 0..50 {
        let write = sample::mutation(&mut Rng::new(seed), &old, &Variety::default());
        let mut bytes = vec![];
        codec::encode(&write, &mut bytes);
        let read = codec::decode(&bytes, &new).unwrap();
        for (old, new) in write.partition.rows().iter().zip(read.partition.rows()) {
            let kept: Vec<_> = old.row.cells().iter().filter(|(id, _)| *id != dropped).collect();
            assert_eq!(kept, new.row.cells().iter().collect::<Vec<_>>());
        }
    }
}

/// The hexadecimal digits of the worked example in `docs/formats/mutation.md`, without its comments.
fn documented_bytes() -> Vec<u8> {
    let page = include_str!("../../../docs/formats/mutation.md");
    let (_, example) = page.split_once("```hex\n").expect("the page has an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect()
}

#[test]
fn the_worked_example_of_the_format_page() {
    use crate::{
        Cell, ClusteringPrefix, ClusteringRange, CqlType, Liveness, PartitionKey, Position, Tombstone,
    };
    let (base_us, now_s) = (1_700_000_000_000_000, 1_700_000_000);
    let schema = TableSchema::builder("ks", "t")
        .id(uuid::uuid!("00112233-4455-6677-8899-aabbccddeeff"))
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Text)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text))
        .build()
        .unwrap();
    let column = |name: &str| schema.column_named(name).unwrap();
    let key = |number: i32| ClusteringPrefix::new([&number.to_be_bytes()[..]]);
    let mut write = Mutation::new(schema.clone(), PartitionKey::new("ada"));
    write.partition.static_row.set(column("s"), Cell::live(base_us, &7i32.to_be_bytes()[..]));
    let behind = ClusteringRange { start: Position::after(key(5)), end: ClusteringRange::all().end };
    write.delete_range(behind, Tombstone::new(base_us - 2, now_s));
    let row = write.row_mut(key(1));
    row.liveness = Liveness::expiring(base_us, 3600, now_s);
    row.set(column("v"), Cell::expiring(base_us, 3600, now_s, "lamp"));
    row.delete_elements(column("m"), Tombstone::new(base_us - 1, now_s));
    row.set_element(&schema, column("m"), &1i32.to_be_bytes()[..], Cell::live(base_us, "a"));
    row.set_element(&schema, column("m"), &2i32.to_be_bytes()[..], Cell::tombstone(base_us + 3, now_s));

    let mut bytes = vec![];
    codec::encode(&write, &mut bytes);
    assert_eq!(bytes, documented_bytes());
    assert_eq!(codec::decode(&documented_bytes(), &schema), Ok(write));
}
