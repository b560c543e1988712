//! Secondary indexes of the simulated tables: what an index finds is what a scan finds and a filter leaves.
//!
//! The tables of most seeds get indexes of some of their columns below the catalog, whenever everything is compared. So
//! indexes come to tables with data, are flushed and compacted with them, meet every crash, and are removed again by
//! changes of the schema and by restarts, which know nothing of them.

use std::ops::Bound;
use std::sync::Arc;

use base::rng::Rng;
use engine::node;
use engine::shard::EngineShard;
use engine::{EngineError, PartitionPage, ReadCommand};
use model::index::{IndexDefinition, IndexId, IndexKind, IndexPart};
use model::{ClusteringRow, CqlType, IndexTerms, PartitionKey, Row, TableSchema};
use reader::{IndexClause, IndexQuery};
use runtime::{CpuGroup, Shard};

use crate::ops::{self, SharedClient};

/// Reads by index after each comparison of a table.
const READS: u32 = 3;

/// A row of an answer; without a row it is the static row of a partition that has no others.
type Found = (PartitionKey, Row, Option<ClusteringRow>);

/// The table with indexes of its columns; the same ones each time.
fn indexed(schema: &Arc<TableSchema>) -> Option<Arc<TableSchema>> {
    if schema.has_counters() {
        return None;
    }
    let part = |ty: &CqlType| match ty {
        CqlType::Map { multi_cell: true, .. } => IndexPart::Entries,
        ty if ty.is_multi_cell() => IndexPart::Values,
        _ => IndexPart::Value,
    };
    let keys = schema.partition_key.iter().chain(&schema.clustering);
    let keys = keys.enumerate().map(|(at, key)| (1_000_000 + at as u128, &key.name, part(&key.ty)));
    let columns = schema.columns().iter();
    let columns = columns.map(|column| (u128::from(column.id.0), &column.name, part(&column.ty)));
    let mut builder = schema.to_builder();
    for (number, name, part) in keys.chain(columns) {
        let id = IndexId::from_u128(schema.id.as_u128() ^ number);
        let index = IndexDefinition::new(id, format!("by_{name}"), IndexKind::StorageAttached, name.as_str());
        builder = builder.index(Arc::new(index.of_part(part)));
    }
    builder.build_with_ids_from(schema.column_id_bound()).ok()
}

/// Every shard knows the table with these indexes; what is in memory is flushed, so that they can be built.
async fn set(shard: &Shard, schema: &Arc<TableSchema>, flushes: bool) -> Result<(), EngineError> {
    let schema = schema.clone();
    let set = move |shard: Shard| {
        let schema = schema.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            let table = engine.table(schema.id)?;
            if table.schema() != schema {
                table.set_schema(schema);
            }
            if flushes {
                drop(engine.flushes().seal(&table));
            }
            engine.compactions().nudge(&table);
            Ok(())
        }
    };
    node::on_all(shard, CpuGroup::Statement, set).await.map(drop)
}

fn rows_of(pages: Vec<PartitionPage>) -> Vec<Found> {
    let rows = |partition: PartitionPage| {
        let PartitionPage { key, static_row, rows } = partition;
        let alone = rows.is_empty().then(|| (key.clone(), static_row.clone(), None));
        let rows = rows.into_iter().map(move |row| (key.clone(), static_row.clone(), Some(row)));
        alone.into_iter().chain(rows)
    };
    pages.into_iter().flat_map(rows).collect()
}

fn terms_of(terms: &IndexTerms, (key, statics, row): &Found) -> Vec<Vec<u8>> {
    let mut found = vec![];
    let each = &mut |term: Vec<u8>| found.push(term);
    terms.of_partition_key(key, each);
    terms.of_static_row(statics, each);
    if let Some(row) = row {
        terms.of_row(&row.key, &row.row, each);
    }
    found
}

fn filtered(schema: &TableSchema, query: &IndexQuery, pages: Vec<PartitionPage>) -> Vec<Found> {
    let matches = |row: &Found| {
        query.clauses.iter().all(|clause| {
            let index = schema.indexes.iter().find(|index| index.id == clause.index);
            let terms = index.and_then(|index| IndexTerms::new(schema, index).ok());
            let terms = terms.map_or(vec![], |terms| terms_of(&terms, row));
            terms.iter().any(|term| clause.contains(term))
        })
    };
    rows_of(pages).into_iter().filter(matches).collect()
}

/// One or two clauses on terms that rows have.
fn random_query(rng: &mut Rng, schema: &TableSchema, rows: &[Found]) -> IndexQuery {
    let clause = |rng: &mut Rng| {
        let index = rng.pick(&schema.indexes).clone();
        let terms = IndexTerms::new(schema, &index).expect("a schema has only indexes that fit it");
        let mut all: Vec<Vec<u8>> = rows.iter().flat_map(|row| terms_of(&terms, row)).collect();
        all.push(vec![]);
        let (a, b) = (rng.pick(&all).clone(), rng.pick(&all).clone());
        match rng.below(4) {
            0 => IndexClause {
                index: index.id,
                lower: Bound::Included(a.clone().min(b.clone())),
                upper: Bound::Included(a.max(b)),
            },
            _ => IndexClause::equal(index.id, a),
        }
    };
    IndexQuery { clauses: (0..1 + rng.below(2)).map(|_| clause(rng)).collect() }
}

/// Compares reads by index with scans that are filtered. `whole`: all that the table shows.
pub async fn compare(
    shard: &Shard,
    client: &SharedClient,
    schema: &Arc<TableSchema>,
    whole: Vec<PartitionPage>,
) -> Result<(), String> {
    let Some(schema) = indexed(schema) else { return Ok(()) };
    let flushes = client.borrow_mut().rng.chance(1, 3);
    set(shard, &schema, flushes).await.map_err(|error| format!("setting indexes: {error}"))?;
    let rows = rows_of(whole);
    for _ in 0..READS {
        let (query, command) = {
            let client = &mut *client.borrow_mut();
            let query = random_query(&mut client.rng, &schema, &rows);
            let mut command = ops::random_read(client, &schema, shard.wall_us());
            command.limit_rows = u64::MAX;
            command.partition_limit_rows = u64::MAX;
            (query, command)
        };
        let expected = ops::read_pages(shard, client, &command).await?;
        let by_index = ReadCommand { index: Some(Arc::new(query.clone())), ..command.clone() };
        let found = ops::read_pages(shard, client, &by_index).await?;
        let (expected, found) = (filtered(&schema, &query, expected), filtered(&schema, &query, found));
        if expected != found {
            let missing: Vec<_> = expected.iter().filter(|row| !found.contains(row)).collect();
            return Err(format!(
                "{} by index: {} rows, a scan has {}; missing {missing:?}; {query:?} {command:?}",
                schema.full_name(),
                found.len(),
                expected.len()
            ));
        }
    }
    Ok(())
}
