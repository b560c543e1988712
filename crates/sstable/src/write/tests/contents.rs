//! Decisions of the writer beyond single bytes: promoted indexes, filters, dropped columns, empty tables.

use base::bytes::Take;
use base::murmur3;
use base::rng::Rng;
use model::sample::{self, Variety};
use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, ClusteringRange, ColumnData, ColumnId, PartitionKey, Position, Row, Tombstone,
};

use super::*;
use crate::component::filter::Filter;
use crate::component::index::{IndexEntry, PromotedIndex};
use crate::component::messina::MessinaInfo;
use crate::component::statistics::Statistics;
use crate::component::summary::{Spacing, Summary};

fn int(value: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&value.to_be_bytes()[..]])
}

#[test]
fn blocks_of_a_large_partition_have_the_tombstone_that_is_open_after_them() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Blob)
        .build()
        .unwrap();
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(7i32.to_be_bytes()));
    let value = ColumnId(0);
    for number in 0..105 {
        let cell = Cell::live(2000, vec![1; 1000]);
        mutation.row_mut(int(number)).push(value, ColumnData::Simple(cell));
    }
    let range = ClusteringRange { start: Position::before(int(15)), end: Position::after(int(42)) };
    mutation.delete_range(range, Tombstone::new(1000, 200));
    let options = WriteOptions { column_index_bytes: 10_000, compression: None, ..options(&schema) };
    let files = write(Version::Me, options, vec![mutation]);
    let mut take = Take::new(&files[Component::Index]);
    let entry = IndexEntry::decode(&mut take).unwrap();
    assert!(take.is_empty() && entry.data_position == 0);
    let fixed = [Some(4)];
    let index = PromotedIndex::decode(entry.promoted, &fixed, Version::Me).unwrap();
    let data_bytes = files[Component::Data].len() as u64;
    let mut end = index.head().header_bytes;
    assert_eq!(end, 2 + 4 + 12);
    let mut open = vec![];
    for number in 0..index.block_count() {
        let block = index.block(number).unwrap();
        assert_eq!(block.offset, end);
        end += block.width;
        assert!(block.width >= 10_000 || number + 1 == index.block_count());
        open.push(block.open.map(|open| open.marked_for_delete_at_us));
        // Each block starts at a row or marker.
        let first_byte = files[Component::Data][block.offset as usize];
        assert!(matches!(first_byte, 0x02 | 0x20), "{first_byte:#x}");
    }
    assert_eq!(end, data_bytes, "the last block ends with the partition");
    let (o, none) = (Some(1000), None);
    assert_eq!(open, [none, o, o, o, none, none, none, none, none, none, none][..open.len()]);
}

#[test]
fn components_agree_about_every_partition() {
    let schema = sample::tables()[1].clone();
    let variety = Variety { partitions: 500, ..Variety::default() };
    let mut rng = Rng::new(5);
    let mutations: Vec<_> = (0..2000).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let options = WriteOptions {
        shard_count: 2,
        shard_id: 1,
        host_id: Some([9; 16]),
        summary: Spacing { ratio: 1.0, ..Spacing::default() },
        ..options(&schema)
    };
    let files = write(Version::Me, options, mutations);
    let written = files.written.clone().unwrap();
    let filter = Filter::decode(&files[Component::Filter], Version::Me).unwrap();
    let summary = Summary::decode(&files[Component::Summary]).unwrap();
    let mut take = Take::new(&files[Component::Index]);
    let mut keys = vec![];
    while !take.is_empty() {
        let at = take.offset() as u64;
        let entry = IndexEntry::decode(&mut take).unwrap();
        let key = PartitionKey::new(entry.key);
        let range = summary.search(key.token(), key.bytes());
        assert!(range.start <= at && range.end.is_none_or(|end| at < end));
        assert!(filter.may_contain(murmur3::hash128(key.bytes())));
        keys.push(key);
    }
    assert!(keys.is_sorted() && keys.len() as u64 == written.partitions && written.partitions > 400);
    assert_eq!((&keys[0], keys.last().unwrap()), (&written.first_key, &written.last_key));
    assert_eq!(summary.first_key(), written.first_key.bytes());
    assert_eq!(summary.len() as u64, written.partitions.div_ceil(128));
    // Sized by the actual number of partitions, not by the expected one.
    assert_eq!(filter.bits(), (written.partitions * 10 + 20).next_multiple_of(64));
    let statistics = Statistics::decode(&files[Component::Statistics], Version::Me).unwrap();
    assert_eq!(statistics, written.statistics);
    assert_eq!(statistics.stats.originating_host_id, Some([9; 16]));
    assert_eq!(statistics.stats.partition_bytes.count(), written.partitions);
    let ratio = written.data_bytes as f64 / written.uncompressed_bytes as f64;
    assert_eq!(statistics.stats.compression_ratio, ratio);
    let messina = MessinaInfo::decode(&files[Component::Messina]).unwrap();
    assert_eq!((messina.shard_id, messina.origin.as_deref()), (Some(1), Some("memtable")));
    assert_eq!((messina.partition_count, messina.row_count), (Some(written.partitions), Some(written.rows)));
    let all: usize = files
        .bytes
        .iter()
        .filter(|(component, _)| **component != Component::Toc)
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert_eq!(written.total_bytes, all as u64);
}

#[test]
fn a_chance_of_one_means_no_filter() {
    let schema = sample::tables()[0].clone();
    let mutation = sample::mutation(&mut Rng::new(1), &schema, &Variety::default());
    let options = WriteOptions { bloom_filter_fp_chance: 1.0, ..options(&schema) };
    let files = write(Version::Me, options, vec![mutation]);
    assert!(!files.bytes.contains_key(&Component::Filter));
    let toc = String::from_utf8(files[Component::Toc].to_vec()).unwrap();
    assert!(!toc.contains("Filter.db") && toc.contains("CompressionInfo.db"), "{toc}");
}

/// A table whose first column on disk was added last, and mutations from before.
fn altered() -> (Arc<TableSchema>, Vec<Mutation>) {
    let old = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .regular("m", CqlType::Int)
        .regular("z", CqlType::Int)
        .build()
        .unwrap();
    let (m, z) = (old.column_named("m").unwrap().id, old.column_named("z").unwrap().id);
    let new = old.to_builder().drop_column("z", 1).regular("a", CqlType::Int);
    let new = new.build_with_ids_from(old.column_id_bound()).unwrap();
    let a = new.column_named("a").unwrap().id;
    assert!(a > m && a > z);
    let mutation = |key: i32, ids: &[ColumnId]| {
        let mut mutation = Mutation::new(new.clone(), PartitionKey::new(key.to_be_bytes()));
        let row = mutation.row_mut(ClusteringPrefix::EMPTY);
        for id in ids {
            row.push(*id, ColumnData::Simple(Cell::live(1000, (id.0 as i32).to_be_bytes())));
        }
        mutation
    };
    let mutations = vec![mutation(1, &[m, z, a]), mutation(2, &[z])];
    (new, mutations)
}

#[test]
fn cells_stand_in_disk_order_and_those_of_dropped_columns_not_at_all() {
    let (schema, mutations) = altered();
    let options = WriteOptions { compression: None, ..options(&schema) };
    let files = write_as(Version::Me, options.clone(), schema.clone(), mutations.clone());
    #[rustfmt::skip]
    let golden: &[u8] = &[
        0, 4, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0,
        0x20, 13, 18, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
        0x01,
    ];
    assert_eq!(&files[Component::Data], golden);
    assert_eq!(files.written.unwrap().partitions, 1, "of partition 2 nothing is left");
    let files = write_as(Version::Me, options, schema, mutations[1..].to_vec());
    assert!(files.written.is_none() && files.bytes.is_empty());
}

#[test]
fn a_value_of_the_wrong_length_is_an_error_that_leaves_nothing() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
        .unwrap();
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(7i32.to_be_bytes()));
    let mut row = Row::new();
    row.push(ColumnId(0), ColumnData::Simple(Cell::live(1000, [1, 2, 3])));
    *mutation.row_mut(ClusteringPrefix::EMPTY) = row;
    let text = sim::run(1, 1, move |shard| async move {
        shard.files().create_dir_all(&dir()).await.unwrap();
        let options = options(&schema);
        let name = name_of(Version::Me);
        let error = write_mutations(&shard, &dir(), name, schema, options, &[mutation]).await.unwrap_err();
        assert_eq!(shard.files().read_dir(&dir()).await.unwrap(), []);
        error.to_string()
    });
    assert!(text.contains("ks.t: a value of column v has 3 bytes where its type has 4"), "{text}");
}
