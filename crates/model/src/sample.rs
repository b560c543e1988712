//! Random tables and writes from a seed, for tests and simulation.
//!
//! The writes are designed to collide: few keys, few timestamps, ranges that touch, overlap and share ends.

use std::sync::Arc;

use base::rng::Rng;

use crate::cell::Cell;
use crate::clustering::{ClusteringKey, ClusteringPrefix, ClusteringRange, Position};
use crate::counter::{self, CounterShard};
use crate::key::PartitionKey;
use crate::partition::Mutation;
use crate::row::{Liveness, Row};
use crate::schema::{Column, ColumnKind, CompactStorage, TableSchema};
use crate::tombstone::Tombstone;
use crate::types::CqlType;

/// Variety of the random data. The defaults suit unit tests: small, with many collisions.
#[derive(Clone, Copy, Debug)]
pub struct Variety {
    /// Number of partition keys.
    pub partitions: u64,
    /// Number of values of the first clustering column; further columns have three.
    pub rows: u64,
    /// Number of different timestamps.
    pub timestamps: u64,
    /// The smallest timestamp.
    pub first_timestamp_us: i64,
    /// Base time of deletions and TTLs.
    pub now_s: u32,
    /// The longest text value, in bytes.
    pub value_bytes: u64,
}

impl Default for Variety {
    fn default() -> Self {
        Self {
            partitions: 4,
            rows: 6,
            timestamps: 5,
            first_timestamp_us: 1_700_000_000_000_000,
            now_s: 1_700_000_000,
            value_bytes: 40,
        }
    }
}

/// Tables of different shapes: without clustering columns, with one and with two (one of them descending),
/// with static columns and collections, with counters.
pub fn tables() -> Vec<Arc<TableSchema>> {
    let table = |name: &str| TableSchema::builder("sample", name).partition_key("p", CqlType::Text);
    [
        table("plain").regular("v", CqlType::Text).regular("i", CqlType::Int),
        table("wide")
            .clustering("c", CqlType::Int)
            .static_column("s", CqlType::Text)
            .static_column("ss", CqlType::set(CqlType::Int))
            .regular("i", CqlType::Int)
            .regular("m", CqlType::map(CqlType::Int, CqlType::Text))
            .regular("t", CqlType::Text),
        table("deep")
            .clustering("c", CqlType::reversed(CqlType::Int))
            .clustering("d", CqlType::Text)
            .regular("a", CqlType::BigInt)
            .regular("l", CqlType::list(CqlType::Text))
            .regular("v", CqlType::Blob),
        table("counts").clustering("c", CqlType::Int).regular("n", CqlType::Counter),
    ]
    .map(|builder| builder.build().expect("these are tables"))
    .to_vec()
}

/// [`tables`], and a dense table WITH COMPACT STORAGE, whose clustering keys may end in nulls.
pub fn all_tables() -> Vec<Arc<TableSchema>> {
    let dense = TableSchema::builder("sample", "dense")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .clustering("d", CqlType::reversed(CqlType::Text))
        .clustering("e", CqlType::Int)
        .regular("v", CqlType::Text)
        .compact(CompactStorage::Dense);
    let mut all = tables();
    all.push(dense.build().expect("this is a table"));
    all
}

/// The key of partition number `number`; every table here has one key column of type text.
pub fn partition_key(number: u64) -> PartitionKey {
    PartitionKey::new(format!("key{number}").as_str())
}

/// A random write to one partition.
pub fn mutation(rng: &mut Rng, schema: &Arc<TableSchema>, variety: &Variety) -> Mutation {
    let key = partition_key(rng.below(variety.partitions));
    let mut mutation = Mutation::new(schema.clone(), key);
    if rng.chance(1, 20) {
        mutation.partition.tombstone = tombstone(rng, schema, variety);
    }
    if schema.has_static() && rng.chance(1, 3) {
        mutation.partition.static_row = row(rng, schema, ColumnKind::Static, variety);
    }
    for _ in 0..rng.below(4) {
        let key = clustering_key(rng, schema, variety);
        let new = row(rng, schema, ColumnKind::Regular, variety);
        mutation.row_mut(key).merge(&new, schema);
    }
    if !schema.clustering.is_empty() && rng.chance(1, 3) {
        for _ in 0..1 + rng.below(2) {
            let range = range(rng, schema, variety);
            let tombstone = tombstone(rng, schema, variety);
            mutation.delete_range(range, tombstone);
        }
    }
    mutation
}

fn timestamp(rng: &mut Rng, variety: &Variety) -> i64 {
    variety.first_timestamp_us + rng.below(variety.timestamps) as i64
}

/// A random tombstone. A merged counter has the later of its timestamps, so the effect of a deletion between
/// two increments depends on the data merged before it arrived, here as in Cassandra and ScyllaDB. Deletions
/// of counters are therefore younger than every increment.
fn tombstone(rng: &mut Rng, schema: &TableSchema, variety: &Variety) -> Tombstone {
    let timestamp_us = timestamp(rng, variety);
    let timestamp_us =
        if schema.has_counters() { timestamp_us + variety.timestamps as i64 } else { timestamp_us };
    Tombstone::new(timestamp_us, variety.now_s - 3 + rng.below(3) as u32)
}

fn clustering_value(rng: &mut Rng, schema: &TableSchema, column: usize, variety: &Variety) -> Vec<u8> {
    let values = if column == 0 { variety.rows } else { 3 };
    match schema.clustering[column].ty.without_reversed() {
        CqlType::Int => (rng.below(values) as i32).to_be_bytes().to_vec(),
        _ => format!("c{}", rng.below(values)).into_bytes(),
    }
}

fn prefix(rng: &mut Rng, schema: &TableSchema, len: usize, variety: &Variety) -> ClusteringPrefix {
    let values: Vec<Vec<u8>> =
        (0..len).map(|column| clustering_value(rng, schema, column, variety)).collect();
    ClusteringPrefix::new(values.iter().map(Vec::as_slice))
}

/// A random row key.
pub fn clustering_key(rng: &mut Rng, schema: &TableSchema, variety: &Variety) -> ClusteringKey {
    let columns = schema.clustering.len();
    if schema.is_dense() && rng.chance(1, 3) {
        let len = 1 + rng.index(columns - 1);
        return prefix(rng, schema, len, variety).padded(columns);
    }
    prefix(rng, schema, columns, variety)
}

/// A random range that contains at least one position.
pub fn range(rng: &mut Rng, schema: &TableSchema, variety: &Variety) -> ClusteringRange {
    loop {
        let mut bound = |open: Position| {
            if rng.chance(1, 6) {
                return open;
            }
            let len = 1 + rng.index(schema.clustering.len());
            let prefix = prefix(rng, schema, len, variety);
            if rng.chance(1, 2) { Position::before(prefix) } else { Position::after(prefix) }
        };
        let (start, end) = (bound(Position::START), bound(Position::END));
        if schema.compare_positions(&start, &end).is_lt() {
            return ClusteringRange { start, end };
        }
    }
}

/// Disjoint rising ranges; occasionally none, for a read without rows.
pub fn ranges(rng: &mut Rng, schema: &TableSchema, variety: &Variety) -> Vec<ClusteringRange> {
    if schema.clustering.is_empty() || rng.chance(1, 4) {
        return vec![ClusteringRange::all()];
    }
    let mut ranges: Vec<ClusteringRange> = vec![];
    if rng.chance(1, 12) {
        return ranges;
    }
    for _ in 0..1 + rng.below(3) {
        let new = range(rng, schema, variety);
        let apart = |old: &ClusteringRange| {
            schema.compare_positions(&old.end, &new.start).is_lt()
                || schema.compare_positions(&new.end, &old.start).is_lt()
        };
        if ranges.iter().all(apart) {
            ranges.push(new);
        }
    }
    ranges.sort_by(|a, b| schema.compare_positions(&a.start, &b.start));
    ranges
}

fn row(rng: &mut Rng, schema: &TableSchema, kind: ColumnKind, variety: &Variety) -> Row {
    let mut row = Row::new();
    if kind == ColumnKind::Regular {
        if rng.chance(1, 8) {
            row.deletion = tombstone(rng, schema, variety);
        }
        // The marker is optional. A row that would be empty without one gets a cell or a marker below.
        row.liveness = match rng.below(4) {
            0 => Liveness::NONE,
            1 => Liveness::expiring(timestamp(rng, variety), 1 + rng.below(5) as u32, variety.now_s),
            _ => Liveness::new(timestamp(rng, variety)),
        };
        if schema.has_counters() {
            row.liveness = Liveness::NONE;
        }
    }
    for column in schema.columns_of(kind) {
        if rng.chance(1, 4) {
            continue;
        }
        if column.is_complex() {
            complex(rng, schema, column, &mut row, variety);
        } else {
            let cell = cell(rng, &column.ty, variety);
            row.set(column, cell);
        }
    }
    if row.is_empty() {
        let column = schema.columns_of(kind).next();
        match column {
            Some(column) if !column.is_complex() => {
                let cell = cell(rng, &column.ty, variety);
                row.set(column, cell);
            }
            _ => row.liveness = Liveness::new(timestamp(rng, variety)),
        }
    }
    row.shadow(Tombstone::LIVE);
    row
}

fn complex(rng: &mut Rng, schema: &TableSchema, column: &Column, row: &mut Row, variety: &Variety) {
    if rng.chance(1, 4) {
        row.delete_elements(column, tombstone(rng, schema, variety));
    }
    for _ in 0..1 + rng.below(3) {
        let path = match column.ty.cell_path_type() {
            Some(ty) if *ty == CqlType::TimeUuid => {
                let mut path = [0u8; 16];
                path[6] = 0x10;
                path[8] = 0x80;
                path[3] = rng.below(4) as u8;
                path.to_vec()
            }
            _ => (rng.below(4) as i32).to_be_bytes().to_vec(),
        };
        let value_type = column.ty.cell_value_type(&path).expect("a collection has elements");
        let mut cell = cell(rng, value_type, variety);
        if *value_type == CqlType::Empty {
            cell.value = crate::SmallBytes::new();
        }
        row.set_element(schema, column, path, cell);
    }
}

/// A random cell: mostly live, sometimes expiring, sometimes a tombstone.
fn cell(rng: &mut Rng, ty: &CqlType, variety: &Variety) -> Cell {
    let timestamp_us = timestamp(rng, variety);
    if ty.is_counter() {
        if rng.chance(1, 10) {
            return Cell::tombstone(timestamp_us, variety.now_s);
        }
        let node = 1 + rng.below(3) as u8;
        let clock = 1 + rng.below(4) as i64;
        let shard = CounterShard { id: [node; 16], clock, count: clock * 10 + i64::from(node) };
        return Cell::live(timestamp_us, counter::encode(&[shard]));
    }
    let value = match ty {
        CqlType::Int => (rng.below(5) as i32).to_be_bytes().to_vec(),
        CqlType::BigInt => (rng.next_u64() as i64).to_be_bytes().to_vec(),
        _ => {
            let len = rng.below(variety.value_bytes + 1) as usize;
            (0..len).map(|_| b'a' + rng.below(26) as u8).collect()
        }
    };
    match rng.below(8) {
        0 => Cell::tombstone(timestamp_us, variety.now_s - rng.below(3) as u32),
        1 => Cell::expiring(timestamp_us, 1 + rng.below(5) as u32, variety.now_s, value),
        _ => Cell::live(timestamp_us, value),
    }
}
