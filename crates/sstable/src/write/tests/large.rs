//! Large partitions, rows and cells are found with their sizes in Data.db, and nothing else is reported.

use model::types::CqlType;
use model::{Cell, ClusteringPrefix, ClusteringRange, Liveness, PartitionKey, Position, Tombstone};

use super::*;
use crate::component::large_data::{LargeData, RowPlace};
use crate::component::messina::MessinaInfo;

fn schema() -> Arc<TableSchema> {
    TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Blob)
        .regular("m", CqlType::from_cql("map<int, blob>", &|_| None).unwrap())
        .regular("v", CqlType::Blob)
        .build()
        .unwrap()
}

fn int(value: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&value.to_be_bytes()[..]])
}

fn key(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn limits() -> LargeDataLimits {
    LargeDataLimits {
        partition_bytes: 5000,
        partition_rows: 50,
        row_bytes: 2000,
        cell_bytes: 1000,
        collection_elements: 20,
        records_max: 3,
    }
}

fn found(limits: LargeDataLimits, mutations: Vec<Mutation>) -> Option<LargeData> {
    let schema = schema();
    let options = WriteOptions { large_data: limits, now_ms: 77, compression: None, ..options(&schema) };
    let files = write(Version::Me, options, mutations);
    let messina = MessinaInfo::decode(&files[Component::Messina]).unwrap();
    assert_eq!(messina.large_data, files.written.as_ref().unwrap().large_data);
    messina.large_data
}

/// Partition `p` with rows of these numbers and lengths of `v`.
fn partition(p: i32, rows: impl IntoIterator<Item = (i32, usize)>) -> Mutation {
    let schema = schema();
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(key(p)));
    for (c, bytes) in rows {
        let row = mutation.row_mut(int(c));
        row.liveness = Liveness::new(2000);
        row.set(schema.column_named("v").unwrap(), Cell::live(2000, vec![1; bytes]));
    }
    mutation
}

#[test]
fn a_cell_at_the_limit_is_not_large_and_one_beyond_is() {
    let place = RowPlace { key: key(1), clustering: Some(vec![key(7)]) };
    assert_eq!(found(limits(), vec![partition(1, [(7, 1000)])]), None);
    let data = found(limits(), vec![partition(1, [(6, 1000), (7, 1001)])]).unwrap();
    assert_eq!((data.written_ms, data.partitions.len(), data.rows.len(), data.cells.len()), (77, 0, 0, 1));
    let cell = &data.cells[0];
    assert_eq!((&cell.place, &*cell.column, cell.bytes, cell.elements), (&place, "v", 1001, None));
}

#[test]
fn sizes_of_partitions_and_rows_are_those_in_the_file() {
    // Two partitions are written; all figures are of the second.
    let mut large = partition(1, (0..60).map(|c| (c, 10)));
    large.delete_range(
        ClusteringRange { start: Position::before(int(70)), end: Position::after(int(80)) },
        Tombstone::new(1000, 200),
    );
    large.row_mut(int(90)).deletion = Tombstone::new(1000, 200);
    let schema = schema();
    let options = WriteOptions { large_data: limits(), compression: None, ..options(&schema) };
    let files = write(Version::Me, options.clone(), vec![large.clone()]);
    let data = files.written.as_ref().unwrap().large_data.clone().unwrap();
    let [only] = &data.partitions[..] else { panic!("{data:?}") };
    assert_eq!((&only.key, only.bytes), (&key(1), files[Component::Data].len() as u64));
    assert_eq!((only.rows, only.dead_rows, only.range_tombstones), (61, 1, 2));
    // The row's own bytes: the partition without its header and end.
    let alone = vec![partition(2, [(1, 3000)])];
    let files = write(Version::Me, options.clone(), alone);
    let row = files.written.as_ref().unwrap().large_data.clone().unwrap().rows[0].clone();
    let small = write(Version::Me, options, vec![partition(2, [(1, 10)])]);
    let grown = files[Component::Data].len() - small[Component::Data].len();
    assert_eq!(row.place.clustering, Some(vec![key(1)]));
    assert!((3000..3040).contains(&row.bytes) && grown as u64 > row.bytes - 60, "{row:?} {grown}");
}

#[test]
fn collections_are_large_by_elements_too_and_static_rows_are_named_so() {
    let schema = schema();
    let mut mutation = partition(1, [(5, 10)]);
    let map = schema.column_named("m").unwrap();
    for element in 0..21i32 {
        let cell = Cell::live(2000, vec![2; 3]);
        mutation.row_mut(int(5)).set_element(&schema, map, element.to_be_bytes().to_vec(), cell);
    }
    mutation.partition.static_row.set(schema.column_named("s").unwrap(), Cell::live(2000, vec![3; 2500]));
    let data = found(limits(), vec![mutation]).unwrap();
    assert_eq!(data.rows.iter().map(|row| row.place.clustering.is_none()).collect::<Vec<_>>(), [true]);
    let cells: Vec<_> = data.cells.iter().map(|it| (&*it.column, it.bytes, it.elements)).collect();
    assert_eq!(cells, [("s", 2500, None), ("m", 21 * 7, Some(21))]);
}

#[test]
fn the_largest_few_are_kept_the_largest_first() {
    let rows = (0..20).map(|c| (c, 2100 + (c as usize * 7) % 20 * 10));
    let data = found(limits(), vec![partition(1, rows)]).unwrap();
    let cells: Vec<u64> = data.cells.iter().map(|it| it.bytes).collect();
    assert_eq!(cells, [2290, 2280, 2270]);
    assert_eq!(data.rows.len(), 3);
    let none = LargeDataLimits {
        partition_bytes: u64::MAX,
        partition_rows: u64::MAX,
        row_bytes: u64::MAX,
        cell_bytes: u64::MAX,
        collection_elements: u64::MAX,
        records_max: 3,
    };
    assert_eq!(found(none, vec![partition(1, (0..200).map(|c| (c, 5000)))]), None);
}
