//! Small SSTables whose bytes were derived from the format by hand.

use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, ClusteringRange, ColumnData, ColumnId, ComplexCells, Liveness, PartitionKey,
    PathCell, Position, Row, SmallBytes, Tombstone,
};

use super::*;
use crate::component::compression_info::CompressionInfo;
use crate::component::{digest, toc};

fn int(value: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&value.to_be_bytes()[..]])
}

fn row_of(cells: Vec<(u32, ColumnData)>) -> Row {
    let mut row = Row::new();
    cells.into_iter().for_each(|(id, data)| row.push(ColumnId(id), data));
    row
}

fn simple(id: u32, cell: Cell) -> (u32, ColumnData) {
    (id, ColumnData::Simple(cell))
}

/// One partition with a static row, a row and adjacent range tombstones.
fn wide() -> Mutation {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int)
        .build()
        .unwrap();
    let id = |name: &str| schema.column_named(name).unwrap().id.0;
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new("a"));
    mutation.partition.static_row = row_of(vec![simple(id("s"), Cell::live(1000, "x"))]);
    let mut row =
        row_of(vec![simple(id("v"), Cell::live(1005, "hi")), simple(id("w"), Cell::tombstone(1006, 130))]);
    row.liveness = Liveness::new(1005);
    *mutation.row_mut(int(1)) = row;
    let range = |start, end| ClusteringRange { start, end };
    mutation
        .delete_range(range(Position::before(int(2)), Position::after(int(3))), Tombstone::new(1010, 200));
    mutation
        .delete_range(range(Position::after(int(3)), Position::before(int(5))), Tombstone::new(1011, 201));
    mutation
}

#[rustfmt::skip]
const WIDE_DATA: &[u8] = &[
    0, 1, b'a', 0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0,  // key, live
    0xa0, 0x01, 5, 0, 0x00, 0, 1, b'x',                             // static row: all columns
    0x24, 0x00, 0, 0, 0, 1, 9, 23,                                  // row 1: timestamp, all columns
    5,                                                              //   timestamp 1005
    0x08, 2, b'h', b'i',                                            //   v, with the row's timestamp
    0x05, 6, 30,                                                    //   w, deleted, without value
    0x02, 1, 0, 1, 0x00, 0, 0, 0, 2, 3, 16, 10, 100,                // inclusive start at 2
    0x02, 5, 0, 1, 0x00, 0, 0, 0, 3, 5, 13, 10, 100, 11, 101,       // inclusive end, exclusive start at 3
    0x02, 0, 0, 1, 0x00, 0, 0, 0, 5, 3, 15, 11, 101,                // exclusive end at 5
    0x01,
];

#[test]
fn rows_static_rows_and_range_tombstones() {
    let options = WriteOptions { compression: None, ..options(&wide().schema) };
    let files = write(Version::Me, options, vec![wide()]);
    assert_eq!(&files[Component::Data], WIDE_DATA);
    assert_eq!(&files[Component::Index], [0, 1, b'a', 0, 0]);
    assert_eq!(digest::decode(&files[Component::Digest]), Ok(base::crc::crc32(WIDE_DATA)));
    let crc = base::crc::crc32(WIDE_DATA).to_be_bytes();
    assert_eq!(&files[Component::Crc], [&[0, 0, 64, 0], &crc[..]].concat());
    let listed = toc::decode(&files[Component::Toc]).unwrap();
    assert_eq!(listed.len(), files.bytes.len());
    assert!(listed.iter().all(|component| files.bytes.contains_key(component)), "{listed:?}");
    let written = files.written.unwrap();
    assert_eq!((written.partitions, written.rows), (1, 2));
    assert_eq!((written.data_bytes, written.uncompressed_bytes), (81, 81));
    assert_eq!(written.first_key, PartitionKey::new("a"));
    let stats = &written.statistics.stats;
    assert_eq!((stats.min_timestamp_us, stats.max_timestamp_us), (1000, 1011));
    assert_eq!((stats.min_local_deletion_time_s, stats.max_local_deletion_time_s), (130, i32::MAX));
    assert_eq!((stats.min_ttl_s, stats.max_ttl_s), (0, 0));
    assert_eq!(
        (&stats.min_clustering[..], &stats.max_clustering[..]),
        (&[1i32.to_be_bytes().to_vec()][..], &[5i32.to_be_bytes().to_vec()][..])
    );
    assert_eq!((stats.total_columns_set, stats.total_rows), (3, 2));
}

#[test]
fn a_compressed_chunk_is_a_length_an_lz4_block_and_a_checksum() {
    let files = write(Version::Me, options(&wide().schema), vec![wide()]);
    let data = &files[Component::Data];
    let (payload, crc) = data.split_at(data.len() - 4);
    assert_eq!(crc, base::crc::crc32(payload).to_be_bytes());
    assert_eq!(payload[..4], 81u32.to_le_bytes());
    assert_eq!(lz4_flex::block::decompress(&payload[4..], 81).unwrap(), WIDE_DATA);
    let info = CompressionInfo::decode(&files[Component::CompressionInfo], Version::Me).unwrap();
    assert_eq!((&info.compressor[..], info.chunk_bytes, info.data_bytes), ("LZ4Compressor", 16384, 81));
    assert_eq!(info.offsets.iter().collect::<Vec<_>>(), [0]);
    assert_eq!(digest::decode(&files[Component::Digest]), Ok(base::crc::crc32(data)));
    assert!(!files.bytes.contains_key(&Component::Crc));
}

#[test]
fn ttls_collections_and_their_deletions() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .regular("a", CqlType::BigInt)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text))
        .build()
        .unwrap();
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(7i32.to_be_bytes()));
    let element = |key: i32, cell| PathCell { path: SmallBytes::from(key.to_be_bytes()), cell };
    let map = ComplexCells {
        deletion: Tombstone::new(999, 101),
        cells: vec![element(1, Cell::expiring(1001, 61, 109, "z")), element(2, Cell::tombstone(1000, 100))],
    };
    let mut row = row_of(vec![
        simple(0, Cell::expiring(1000, 60, 100, 7i64.to_be_bytes())),
        (1, ColumnData::Complex(Box::new(map))),
    ]);
    row.liveness = Liveness::expiring(1000, 60, 100);
    *mutation.row_mut(ClusteringPrefix::EMPTY) = row;
    let options = WriteOptions { compression: None, ..options(&schema) };
    let files = write(Version::Nb, options, vec![mutation]);
    #[rustfmt::skip]
    let golden: &[u8] = &[
        0, 4, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0,
        0x6c, 48, 18,                                       // timestamp, ttl, all columns, complex deletion
        0, 0, 60,                                           //   timestamp 1000, ttl 60, expiry 160
        0x1a, 0, 0, 0, 0, 0, 0, 0, 7,                       //   a, with the row's timestamp and ttl
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,  //   m: deleted at 999, below the base
        2,
        0x02, 1, 70, 1, 4, 0, 0, 0, 1, 1, b'z',             //   m[1]: timestamp, expiry, ttl
        0x0d, 0, 4, 0, 0, 0, 2,                             //   m[2]: deleted, the row's timestamp
        0x01,
    ];
    // The size covers the distance (one byte) and everything after it, except the end of the partition.
    let size = golden.len() - 18 - 2 - 1;
    let golden = [&golden[..19], &[size as u8], &golden[20..]].concat();
    assert_eq!(&files[Component::Data], golden);
    let stats = files.written.unwrap().statistics.stats;
    assert_eq!((stats.min_timestamp_us, stats.max_timestamp_us), (999, 1001));
    assert_eq!((stats.min_local_deletion_time_s, stats.max_local_deletion_time_s), (100, 170));
    assert_eq!((stats.min_ttl_s, stats.max_ttl_s), (0, 61));
}

#[test]
fn times_beyond_31_bits_are_capped() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .regular("a", CqlType::Int)
        .build()
        .unwrap();
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(7i32.to_be_bytes()));
    mutation.partition.tombstone = Tombstone::new(-1, 0x8000_0000);
    *mutation.row_mut(ClusteringPrefix::EMPTY) = row_of(vec![simple(0, Cell::tombstone(1000, u32::MAX - 1))]);
    let options = WriteOptions { compression: None, ..options(&schema) };
    let files = write(Version::Me, options, vec![mutation]);
    #[rustfmt::skip]
    let golden: &[u8] = &[
        0, 4, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0x20, 8, 18, 0x05, 0, 0xf0, 0x7f, 0xff, 0xff, 0x9a,     // 0x7ffffffe - 100
        0x01,
    ];
    assert_eq!(&files[Component::Data], golden);
}
