//! Random writes to a table: rows with and without marker, TTLs, and deletions of every kind.

use std::sync::Arc;

use base::rng::Rng;
use model::counter::{self, CounterShard};
use model::key::composite_key;
use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, ClusteringRange, Column, ColumnKind, Liveness, Mutation, PartitionKey, Position,
    Row, TableSchema, Tombstone,
};

use crate::case::{NOW_S, NOW_US};
use crate::values::{value, value_or_empty};

/// The distribution of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DataShape {
    /// Few partitions of few rows: writes overlap.
    Meeting,
    /// Few partitions of many rows.
    Wide,
    /// Many partitions of few rows.
    Many,
}

pub struct Writer {
    rng: Rng,
    schema: Arc<TableSchema>,
    shape: DataShape,
    /// Seed of the keys among which writes choose.
    key_seed: u64,
}

impl Writer {
    pub fn new(mut rng: Rng, schema: Arc<TableSchema>, shape: DataShape) -> Self {
        Self { key_seed: rng.next_u64(), rng, schema, shape }
    }

    /// At least one mutation; none is empty.
    pub fn mutations(mut self) -> Vec<Mutation> {
        let count = match self.shape {
            DataShape::Meeting => 80,
            DataShape::Wide => 300,
            DataShape::Many => 1000,
        };
        let mut mutations: Vec<Mutation> = (0..count).map(|_| self.mutation()).collect();
        mutations.retain(|mutation| !mutation.partition.is_empty());
        if mutations.is_empty() {
            let mut mutation = Mutation::new(self.schema.clone(), self.partition_key(0));
            mutation.partition.tombstone = self.tombstone();
            mutations.push(mutation);
        }
        mutations
    }

    fn mutation(&mut self) -> Mutation {
        let partitions = match self.shape {
            DataShape::Meeting => 12,
            DataShape::Wide => 2,
            DataShape::Many => 700,
        };
        let number = self.rng.below(partitions);
        let mut mutation = Mutation::new(self.schema.clone(), self.partition_key(number));
        if self.rng.chance(1, 25) {
            mutation.partition.tombstone = self.tombstone();
        }
        if self.schema.has_static() && self.rng.chance(1, 3) {
            mutation.partition.static_row = self.row(ColumnKind::Static);
        }
        for _ in 0..self.rng.below(4) {
            let key = self.prefix(self.schema.clustering.len());
            let row = self.row(ColumnKind::Regular);
            if !row.is_empty() {
                let schema = self.schema.clone();
                mutation.row_mut(key).merge(&row, &schema);
            }
        }
        if !self.schema.clustering.is_empty() && self.rng.chance(1, 4) {
            let range =
                ClusteringRange { start: self.bound(Position::START), end: self.bound(Position::END) };
            let tombstone = self.tombstone();
            // If the ends are in the wrong order, they are exchanged.
            let turned = self.schema.compare_positions(&range.start, &range.end).is_gt();
            let range = match turned {
                true => ClusteringRange { start: range.end, end: range.start },
                false => range,
            };
            mutation.delete_range(range, tombstone);
        }
        mutation
    }

    fn partition_key(&self, number: u64) -> PartitionKey {
        let mut rng = Rng::new(self.key_seed ^ number);
        let columns = &self.schema.partition_key;
        if let [only] = &columns[..] {
            return PartitionKey::new(value(&mut rng, &only.ty, true));
        }
        let values: Vec<Vec<u8>> =
            columns.iter().map(|column| value_or_empty(&mut rng, &column.ty)).collect();
        PartitionKey::new(composite_key(values.iter().map(Vec::as_slice)))
    }

    /// The first `len` values of a clustering key, chosen among as many as the shape has.
    fn prefix(&mut self, len: usize) -> ClusteringPrefix {
        let mut values = vec![];
        for (number, column) in self.schema.clustering[..len].iter().enumerate() {
            let many = match (self.shape, number) {
                (DataShape::Wide, 0) => 200,
                _ => 4,
            };
            let choice = self.rng.below(many);
            let mut rng = Rng::new(self.key_seed ^ (number as u64 + 1) << 32 ^ choice);
            values.push(value_or_empty(&mut rng, &column.ty));
        }
        ClusteringPrefix::new(values.iter().map(Vec::as_slice))
    }

    fn bound(&mut self, open: Position) -> Position {
        if self.rng.chance(1, 12) {
            return open;
        }
        let len = 1 + self.rng.index(self.schema.clustering.len());
        let prefix = self.prefix(len);
        if self.rng.chance(1, 2) { Position::before(prefix) } else { Position::after(prefix) }
    }

    /// Most timestamps are close together, so that some are equal; some are far away.
    fn timestamp(&mut self) -> i64 {
        match self.rng.below(40) {
            0 => self.rng.next_u64() as i64 >> 8,
            1 => self.rng.below(1000) as i64 - 500,
            _ => NOW_US + self.rng.below(8) as i64,
        }
    }

    /// Counters merge to the later of their timestamps, so a deletion of counters needs a later timestamp
    /// than all of them.
    fn tombstone(&mut self) -> Tombstone {
        let timestamp_us = match self.schema.has_counters() {
            true => (1 << 60) + self.rng.below(8) as i64,
            false => self.timestamp(),
        };
        Tombstone::new(timestamp_us, self.deletion_time())
    }

    fn deletion_time(&mut self) -> u32 {
        if self.rng.chance(1, 20) {
            self.rng.below(1 << 31) as u32 - 1
        } else {
            NOW_S - self.rng.below(5) as u32
        }
    }

    /// The TTL ends before 2038, because Cassandra 4.1 refuses later expiry times.
    fn ttl(&mut self) -> u32 {
        match self.rng.below(4) {
            0 => 1 + self.rng.below(400_000_000) as u32,
            1 => 1 + self.rng.below(1000) as u32,
            _ => 100,
        }
    }

    fn row(&mut self, kind: ColumnKind) -> Row {
        let mut row = Row::new();
        if kind == ColumnKind::Regular {
            if self.rng.chance(1, 12) {
                row.deletion = self.tombstone();
            }
            row.liveness = match self.rng.below(4) {
                _ if self.schema.has_counters() => Liveness::NONE,
                0 => Liveness::NONE,
                1 => Liveness::expiring(self.timestamp(), self.ttl(), NOW_S),
                _ => Liveness::new(self.timestamp()),
            };
        }
        // The probability of a column varies from row to row: sometimes few columns, sometimes most.
        let of_ten = self.rng.below(11);
        let schema = self.schema.clone();
        for column in schema.columns_of(kind) {
            if self.rng.below(10) >= of_ten {
                continue;
            }
            if column.is_complex() {
                self.complex(column, &mut row);
            } else {
                let cell = self.cell(&column.ty, row.liveness);
                row.set(column, cell);
            }
        }
        row.shadow(Tombstone::LIVE);
        row
    }

    fn complex(&mut self, column: &Column, row: &mut Row) {
        if self.rng.chance(1, 3) {
            let tombstone = self.tombstone();
            row.delete_elements(column, tombstone);
        }
        let schema = self.schema.clone();
        for _ in 0..self.rng.below(5) {
            let path = match (&column.ty, column.ty.cell_path_type()) {
                (CqlType::Udt { user, .. }, _) => {
                    (self.rng.index(user.fields.len()) as u16).to_be_bytes().to_vec()
                }
                (_, Some(ty)) => value(&mut self.rng, ty, false),
                (_, None) => unreachable!("a complex column has paths"),
            };
            let ty = column.ty.cell_value_type(&path).expect("the path is one of the type");
            let cell = self.cell(ty, row.liveness);
            row.set_element(&schema, column, path, cell);
        }
    }

    /// Often has the timestamp and TTL of the row marker.
    fn cell(&mut self, ty: &CqlType, row: Liveness) -> Cell {
        let with_row = !row.is_none() && self.rng.chance(1, 2);
        let timestamp_us = if with_row { row.timestamp_us } else { self.timestamp() };
        if ty.is_counter() {
            return self.counter();
        }
        match self.rng.below(8) {
            0 => Cell::tombstone(timestamp_us, self.deletion_time()),
            _ if with_row && row.is_expiring() => {
                Cell::expiring(timestamp_us, row.ttl_s, NOW_S, value_or_empty(&mut self.rng, ty))
            }
            1 => {
                let ttl_s = self.ttl();
                Cell::expiring(timestamp_us, ttl_s, NOW_S, value_or_empty(&mut self.rng, ty))
            }
            _ => Cell::live(timestamp_us, value_or_empty(&mut self.rng, ty)),
        }
    }

    fn counter(&mut self) -> Cell {
        let timestamp_us = NOW_US + self.rng.below(8) as i64;
        if self.rng.chance(1, 12) {
            return Cell::tombstone(timestamp_us, self.deletion_time());
        }
        let nodes = 1 + self.rng.below(3) as u8;
        let shards: Vec<_> = (1..=nodes)
            .map(|node| {
                let clock = 1 + self.rng.below(6) as i64;
                CounterShard { id: [node * 60; 16], clock, count: clock * 1000 - i64::from(node) }
            })
            .collect();
        Cell::live(timestamp_us, counter::encode(&shards))
    }
}
