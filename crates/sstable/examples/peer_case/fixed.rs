//! The fixed cases: random data in tables of fixed shapes (the model's own tables, all types, composite keys,
//! many columns).

use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::types::{CqlType, UdtField, UserType, build_composite};
use model::{
    Cell, ClusteringPrefix, ClusteringRange, Column, ColumnKind, Compression, Liveness, Mutation,
    PartitionKey, Position, Row, TableSchema, Tombstone,
};
use sstable::component::index;
use sstable::component::statistics::DeltaBases;
use sstable::version::Version;

use crate::case::{Case, NOW_S, NOW_US};
use crate::codecs;
use crate::cql;
use crate::values::value;

const KEYSPACE: &str = "sample";

/// All SSTables of a seed.
pub fn cases(seed: u64) -> Vec<Case> {
    let near =
        DeltaBases { min_timestamp_us: NOW_US, min_local_deletion_time_s: NOW_S as i32 - 10, min_ttl_s: 1 };
    let lz4 = |chunk_bytes| Some(Compression::lz4(chunk_bytes));
    let forms = [
        (Version::Me, None, near),
        (Version::Me, lz4(4096), near),
        (Version::Nb, lz4(16384), DeltaBases::NONE),
        (Version::Nb, None, near),
    ];
    let mut cases = vec![];
    for schema in tables() {
        for ((version, compression, bases), generation) in forms.clone().into_iter().zip(1..) {
            let name = schema.name.bytes().fold(seed, |hash, byte| hash * 31 + u64::from(byte));
            let mut rng = Rng::new(name.wrapping_mul(64) + generation);
            let mutations = mutations(&mut rng, &schema, generation);
            let column_index_bytes = index::BLOCK_BYTES_DEFAULT;
            cases.push(Case {
                schema: schema.clone(),
                generation,
                version,
                compression,
                bases,
                column_index_bytes,
                mutations,
            });
        }
    }
    cases.extend(codecs::cases(seed, &codecs::table(KEYSPACE)));
    cases
}

/// The tables of the model's own tests, and further ones.
fn tables() -> Vec<Arc<TableSchema>> {
    let mut tables = sample::tables();
    let table = |name: &str| TableSchema::builder(KEYSPACE, name);
    tables.extend(
        [types_table(), keys_table(), {
            let many = table("many").partition_key("p", CqlType::Int).clustering("c", CqlType::Int);
            let many = (0..70).fold(many, |many, i| many.regular(format!("r{i}"), CqlType::Int));
            (0..65).fold(many, |many, i| many.static_column(format!("s{i}"), CqlType::Text))
        }]
        .map(|builder| builder.build().expect("these are tables")),
    );
    tables
}

/// The content of `schema.cql` for [`tables`].
pub fn schema_cql() -> String {
    let mut out = cql::create_keyspace(KEYSPACE) + &cql::create_type(&point_type());
    tables().iter().for_each(|table| out.push_str(&cql::create_table(table)));
    out.push_str(&cql::create_table(&codecs::table(KEYSPACE)));
    out
}

fn point() -> CqlType {
    CqlType::udt(point_type())
}

fn point_type() -> UserType {
    let fields = [("x", CqlType::Int), ("y", CqlType::Text), ("Z", CqlType::SmallInt)];
    let fields = fields.map(|(name, field_type)| UdtField { name: name.to_owned(), field_type });
    UserType { keyspace: KEYSPACE.to_owned(), name: "point".to_owned(), fields: fields.to_vec() }
}

fn types_table() -> model::schema::TableBuilder {
    let simple = [
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
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
    ];
    let mut table = TableSchema::builder(KEYSPACE, "types")
        .partition_key("p", CqlType::Uuid)
        .clustering("c", CqlType::BigInt)
        .static_column("st", CqlType::Double)
        .static_column("sl", CqlType::list(CqlType::Inet))
        .regular("tuple", CqlType::tuple([CqlType::Int, CqlType::Text, CqlType::BigInt]))
        .regular("fl", CqlType::list(CqlType::Int).freeze())
        .regular("fs", CqlType::set(CqlType::Text).freeze())
        .regular("fm", CqlType::map(CqlType::Int, CqlType::list(CqlType::Text)).freeze())
        .regular("fu", point().freeze())
        .regular("l", CqlType::list(CqlType::BigInt))
        .regular("s", CqlType::set(CqlType::TinyInt))
        .regular("sm", CqlType::set(CqlType::map(CqlType::Int, CqlType::Int).freeze()))
        .regular("m", CqlType::map(CqlType::TimeUuid, CqlType::Date))
        .regular("u", point());
    for ty in simple {
        table = table.regular(format!("c_{}", ty.to_cql()), ty);
    }
    table
}

fn keys_table() -> model::schema::TableBuilder {
    TableSchema::builder(KEYSPACE, "keys")
        .partition_key("a", CqlType::Int)
        .partition_key("B", CqlType::Text)
        .partition_key("c", CqlType::list(CqlType::Int).freeze())
        .clustering("d", CqlType::reversed(CqlType::TimeUuid))
        .clustering("e", CqlType::Varint)
        .clustering("f", CqlType::reversed(CqlType::Text))
        .clustering("g", CqlType::Date)
        .regular("v", CqlType::Boolean)
}

/// Random mutations. Empty ones are left out, because no SSTable stores them.
fn mutations(rng: &mut Rng, schema: &Arc<TableSchema>, generation: u64) -> Vec<Mutation> {
    let is_models = sample::tables().iter().any(|table| table.name == schema.name);
    if !is_models {
        let mutations = (0..60).map(|_| mutation(rng, schema));
        return mutations.filter(|mutation| !mutation.partition.is_empty()).collect();
    }
    // The second SSTable has partitions that are long enough for promoted indexes.
    let variety = match generation {
        2 => Variety { rows: 400, value_bytes: 2000, partitions: 3, ..Variety::default() },
        _ => Variety { partitions: 300, ..Variety::default() },
    };
    let mutations = (0..800).map(|_| sample::mutation(rng, schema, &variety));
    mutations.filter(|mutation| !mutation.partition.is_empty()).collect()
}

fn mutation(rng: &mut Rng, schema: &Arc<TableSchema>) -> Mutation {
    // Few partitions, so that several mutations hit the same partition.
    let mut keys = Rng::new(rng.below(12));
    let values: Vec<Vec<u8>> = schema.partition_key.iter().map(|c| value(&mut keys, &c.ty, true)).collect();
    let key = match &values[..] {
        [only] => only.clone(),
        all => build_composite(all.iter().map(Vec::as_slice)),
    };
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(key));
    if rng.chance(1, 20) {
        mutation.partition.tombstone = tombstone(rng);
    }
    if schema.has_static() && rng.chance(1, 2) {
        mutation.partition.static_row = row(rng, schema, ColumnKind::Static);
    }
    for _ in 0..rng.below(4) {
        let key = prefix(rng, schema, schema.clustering.len());
        let new = row(rng, schema, ColumnKind::Regular);
        if !new.is_empty() {
            mutation.row_mut(key).merge(&new, schema);
        }
    }
    if rng.chance(1, 3) {
        let len = 1 + rng.index(schema.clustering.len());
        let (from, to) = (prefix(rng, schema, len), prefix(rng, schema, len));
        let mut bound = |prefix| match rng.below(2) {
            0 => Position::before(prefix),
            _ => Position::after(prefix),
        };
        let (start, end) = (bound(from), bound(to));
        mutation.delete_range(ClusteringRange { start, end }, tombstone(rng));
    }
    mutation
}

fn prefix(rng: &mut Rng, schema: &TableSchema, len: usize) -> ClusteringPrefix {
    let mut few = Rng::new(rng.below(8));
    let values: Vec<Vec<u8>> =
        schema.clustering[..len].iter().map(|column| value(&mut few, &column.ty, true)).collect();
    ClusteringPrefix::new(values.iter().map(Vec::as_slice))
}

fn timestamp(rng: &mut Rng) -> i64 {
    NOW_US + rng.below(5) as i64
}

fn tombstone(rng: &mut Rng) -> Tombstone {
    Tombstone::new(timestamp(rng), NOW_S - rng.below(3) as u32)
}

fn row(rng: &mut Rng, schema: &TableSchema, kind: ColumnKind) -> Row {
    let mut row = Row::new();
    if kind == ColumnKind::Regular {
        if rng.chance(1, 10) {
            row.deletion = tombstone(rng);
        }
        row.liveness = match rng.below(4) {
            0 => Liveness::NONE,
            1 => Liveness::expiring(timestamp(rng), 100, NOW_S),
            _ => Liveness::new(timestamp(rng)),
        };
    }
    // The probability of a column varies from row to row: sometimes few columns, sometimes most.
    let of_ten = rng.below(11);
    for column in schema.columns_of(kind) {
        if rng.below(10) >= of_ten {
            continue;
        }
        if column.is_complex() {
            complex(rng, schema, column, &mut row);
        } else {
            let cell = cell(rng, &column.ty);
            row.set(column, cell);
        }
    }
    row.shadow(Tombstone::LIVE);
    row
}

fn complex(rng: &mut Rng, schema: &TableSchema, column: &Column, row: &mut Row) {
    if rng.chance(1, 3) {
        row.delete_elements(column, Tombstone::new(NOW_US - 1, NOW_S));
    }
    for _ in 0..rng.below(4) {
        let path = match (&column.ty, column.ty.cell_path_type()) {
            (CqlType::Udt { user, .. }, _) => (rng.index(user.fields.len()) as u16).to_be_bytes().to_vec(),
            (_, Some(ty)) => value(rng, ty, true),
            (_, None) => unreachable!("a complex column has paths"),
        };
        let ty = column.ty.cell_value_type(&path).expect("the path is one of the type");
        let cell = cell(rng, ty);
        row.set_element(schema, column, path, cell);
    }
}

fn cell(rng: &mut Rng, ty: &CqlType) -> Cell {
    let timestamp_us = timestamp(rng);
    match rng.below(8) {
        0 => Cell::tombstone(timestamp_us, NOW_S - rng.below(3) as u32),
        1 => Cell::expiring(timestamp_us, 100, NOW_S, value(rng, ty, false)),
        2 => Cell::expiring(timestamp_us, 1 + rng.below(1000) as u32, NOW_S, value(rng, ty, false)),
        _ => Cell::live(timestamp_us, value(rng, ty, false)),
    }
}
