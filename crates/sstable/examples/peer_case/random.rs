//! Random tables with random data, determined by the seed.
//!
//! Each table has one SSTable, so that no other SSTable shadows its data. Tables alternate between few
//! partitions with overlapping writes, partitions with many rows (and so a promoted index), and many small
//! partitions (and so a summary of several entries).

use std::sync::Arc;

use base::rng::Rng;
use model::types::{CqlType, UdtField, UserType};
use model::{Codec, Compression, TableSchema};
use sstable::component::index;
use sstable::component::statistics::DeltaBases;
use sstable::version::Version;

use crate::case::{Case, NOW_S, NOW_US};
use crate::cql;
use crate::random_data::{DataShape, Writer};

const TABLES: u64 = 18;

/// Features of the release that will read the SSTables.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Cassandra 5.0 has vectors.
    pub has_vectors: bool,
}

/// All SSTables of a seed, and the content of `schema.cql`.
pub fn cases(seed: u64, limits: Limits) -> (Vec<Case>, String) {
    let mut rng = Rng::new(seed);
    let keyspace = format!("seed_{seed}");
    let mut schemas = Schemas { rng: rng.fork(), limits, keyspace: keyspace.clone(), user_types: vec![] };
    for number in 0..3 {
        schemas.user_type(number);
    }
    let mut statements = cql::create_keyspace(&keyspace);
    schemas.user_types.iter().for_each(|user| statements.push_str(&cql::create_type(user)));
    let mut cases = vec![];
    for number in 0..TABLES {
        let shape = [DataShape::Meeting, DataShape::Wide, DataShape::Many][number as usize % 3];
        let schema = schemas.table(number, shape);
        statements.push_str(&cql::create_table(&schema));
        cases.push(case(&mut rng, schema, shape));
    }
    (cases, statements)
}

fn case(rng: &mut Rng, schema: Arc<TableSchema>, shape: DataShape) -> Case {
    let near =
        DeltaBases { min_timestamp_us: NOW_US, min_local_deletion_time_s: NOW_S as i32 - 10, min_ttl_s: 1 };
    let compression = match rng.below(3) {
        0 => None,
        _ => Some(compression(rng)),
    };
    Case {
        generation: 1,
        version: *rng.pick(&[Version::Me, Version::Nb]),
        compression,
        bases: *rng.pick(&[near, DeltaBases::NONE]),
        column_index_bytes: *rng.pick(&[512, 4096, 4096, index::BLOCK_BYTES_DEFAULT]),
        mutations: Writer::new(rng.fork(), schema.clone(), shape).mutations(),
        schema,
    }
}

/// Any codec, any chunk length, possibly with chunks that are stored uncompressed.
fn compression(rng: &mut Rng) -> Compression {
    let codec = match rng.below(6) {
        0 => Codec::Noop,
        1 => Codec::Snappy,
        2 => Codec::Deflate,
        3 => Codec::Zstd { level: *rng.pick(&[-5, 1, 3, 19]) },
        4 => Codec::Lz4High { level: 9 },
        _ => Codec::Lz4,
    };
    let compression = Compression::new(codec, 1024 << rng.below(9));
    let max_compressed_bytes = match rng.below(3) {
        0 => compression.chunk_bytes / 2,
        1 => compression.chunk_bytes,
        _ => Compression::ALWAYS,
    };
    Compression { max_compressed_bytes, ..compression }
}

struct Schemas {
    rng: Rng,
    limits: Limits,
    keyspace: String,
    user_types: Vec<UserType>,
}

/// The place where a type is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a key, a set, or the keys of a map: no duration.
    Key,
    /// In another type, or in a cell.
    Value,
}

impl Schemas {
    /// Adds a type whose fields may have the types added before. Fields are frozen, because Cassandra does
    /// not split them.
    fn user_type(&mut self, number: usize) {
        let fields = (0..1 + self.rng.below(4)).map(|field| UdtField {
            name: self.name("f", field),
            field_type: self.ty(Place::Key, 1).freeze(),
        });
        let fields = fields.collect();
        let user = UserType { keyspace: self.keyspace.clone(), name: format!("u{number}"), fields };
        self.user_types.push(user);
    }

    fn table(&mut self, number: u64, shape: DataShape) -> Arc<TableSchema> {
        let mut table = TableSchema::builder(&self.keyspace, format!("t{number}"));
        for key in 0..1 + self.rng.below(6).saturating_sub(3) {
            let ty = self.ty(Place::Key, 2).freeze();
            table = table.partition_key(self.name("p", key), ty);
        }
        let clustering = match shape {
            DataShape::Wide => 1 + self.rng.below(3),
            DataShape::Meeting | DataShape::Many => self.rng.below(5),
        };
        for key in 0..clustering {
            let ty = match key {
                // A type with enough values for many rows.
                0 if shape == DataShape::Wide => {
                    self.rng.pick(&[CqlType::Int, CqlType::Text, CqlType::TimeUuid]).clone()
                }
                _ => self.ty(Place::Key, 2).freeze(),
            };
            let ty = if self.rng.chance(1, 3) { CqlType::reversed(ty) } else { ty };
            table = table.clustering(self.name("k", key), ty);
        }
        let counters = self.rng.chance(1, 6);
        let column = |schemas: &mut Self| match counters {
            true => CqlType::Counter,
            false => schemas.ty(Place::Value, 3),
        };
        let statics = if clustering > 0 { self.rng.below(6).saturating_sub(2) } else { 0 };
        for number in 0..statics {
            let ty = column(self);
            table = table.static_column(self.name("s", number), ty);
        }
        // Cassandra reads a table without columns as one with a column of no bytes. A counter table has at
        // least one column.
        let least = u64::from(counters);
        for number in 0..least + self.rng.below(9) {
            let ty = column(self);
            table = table.regular(self.name("v", number), ty);
        }
        table.build().expect("this is a table")
    }

    /// Different names for different numbers: most plain, some that must be quoted in CQL.
    fn name(&mut self, plain: &str, number: u64) -> String {
        match self.rng.below(12) {
            0 => format!("{}Mixed{number}", plain.to_uppercase()),
            1 => format!("{plain} \"{number}\" ä"),
            2 if plain == "v" => ["select", "from", "where", "and", "order", "table", "null", "set", "in"]
                [number as usize]
                .to_owned(),
            _ => format!("{plain}{number}"),
        }
    }

    fn ty(&mut self, place: Place, depth: u64) -> CqlType {
        let simple = [
            CqlType::Ascii,
            CqlType::BigInt,
            CqlType::Blob,
            CqlType::Boolean,
            CqlType::Date,
            CqlType::Decimal,
            CqlType::Double,
            CqlType::Float,
            CqlType::Inet,
            CqlType::Int,
            CqlType::SmallInt,
            CqlType::Text,
            CqlType::Time,
            CqlType::Timestamp,
            CqlType::TimeUuid,
            CqlType::TinyInt,
            CqlType::Uuid,
            CqlType::Varint,
            CqlType::Duration,
        ];
        let kinds = if self.limits.has_vectors { 6 } else { 5 };
        if depth == 0 || self.rng.chance(1, 2) {
            let count = if place == Place::Key { simple.len() - 1 } else { simple.len() };
            return simple[self.rng.index(count)].clone();
        }
        let nested = match self.rng.below(kinds) {
            0 => CqlType::list(self.ty(place, depth - 1).freeze()),
            1 => CqlType::set(self.ty(Place::Key, depth - 1).freeze()),
            2 => {
                let key = self.ty(Place::Key, depth - 1).freeze();
                CqlType::map(key, self.ty(place, depth - 1).freeze())
            }
            3 => {
                let fields: Vec<_> = (0..1 + self.rng.below(4)).map(|_| self.ty(place, depth - 1)).collect();
                CqlType::tuple(fields)
            }
            4 if !self.user_types.is_empty() => CqlType::udt(self.rng.pick(&self.user_types).clone()),
            5 => {
                let dimension = 1 + self.rng.below(5) as u32;
                CqlType::vector(self.ty(place, depth - 1), dimension).expect("a vector may be that long")
            }
            _ => CqlType::list(CqlType::Int),
        };
        if self.rng.chance(1, 2) { nested.freeze() } else { nested }
    }
}
