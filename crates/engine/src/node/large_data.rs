//! Large partitions, rows and cells: those above the thresholds in the current SSTables.
//!
//! Each SSTable stores its own (`sstable::component::large_data`), so they are known after a restart, and
//! disappear with the SSTable.

use model::key::split_composite_key;
use model::{CqlType, KeyColumn};
use reports::{LargeItem, LargeKind};
use runtime::Shard;
use sstable::component::large_data::RowPlace;
use sstable::name::Component;

use super::of_all;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::Table;

/// The large items in the SSTables of all tables, in no order. Those of an SSTable that several shards read
/// are listed once for each.
pub async fn large_data(shard: &Shard) -> Result<Vec<LargeItem>, EngineError> {
    let ask = |engine: &EngineShard| {
        Ok(engine.tables().iter().flat_map(|table| of_table(table)).collect::<Vec<_>>())
    };
    Ok(of_all(shard, ask).await?.concat())
}

/// What is large in the SSTables of a table.
fn of_table(table: &Table) -> Vec<LargeItem> {
    let schema = table.schema();
    let mut items = vec![];
    for sstable in table.sstables().iter() {
        let Some(found) = sstable.messina().and_then(|info| info.large_data.as_ref()) else { continue };
        let item = |key: &[u8], bytes: u64, kind: LargeKind| LargeItem {
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            sstable: sstable.name().file_name(&Component::Data),
            written_ms: found.written_ms,
            partition_key: key_text(&schema.partition_key, key),
            bytes,
            kind,
        };
        let clustering =
            |place: &RowPlace| values_text(&schema.clustering, place.clustering.iter().flatten());
        items.extend(found.partitions.iter().map(|it| {
            let (rows, dead_rows, range_tombstones) = (it.rows, it.dead_rows, it.range_tombstones);
            item(&it.key, it.bytes, LargeKind::Partition { rows, dead_rows, range_tombstones })
        }));
        items.extend(found.rows.iter().map(|it| {
            item(&it.place.key, it.bytes, LargeKind::Row { clustering_key: clustering(&it.place) })
        }));
        items.extend(found.cells.iter().map(|it| {
            let (column, elements) = (it.column.clone(), it.elements);
            let kind = LargeKind::Cell { clustering_key: clustering(&it.place), column, elements };
            item(&it.place.key, it.bytes, kind)
        }));
    }
    items
}

/// A partition key for people: its values with `:` between.
pub fn key_text(columns: &[KeyColumn], key: &[u8]) -> String {
    match (columns, split_composite_key(key)) {
        (_, Ok(values)) if columns.len() == values.len() && columns.len() > 1 => {
            values_text(columns, values.iter())
        }
        _ => values_text(columns, [key]),
    }
}

fn values_text<V: AsRef<[u8]>>(columns: &[KeyColumn], values: impl IntoIterator<Item = V>) -> String {
    let text = |(column, value): (&KeyColumn, V)| match column.ty.without_reversed() {
        CqlType::Text | CqlType::Ascii => String::from_utf8_lossy(value.as_ref()).into_owned(),
        ty => ty.text_of(value.as_ref()),
    };
    columns.iter().zip(values).map(text).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_for_people() {
        let columns = |types: &[CqlType]| -> Vec<KeyColumn> {
            types.iter().map(|ty| KeyColumn { name: "k".to_string(), ty: ty.clone() }).collect()
        };
        let one = columns(&[CqlType::Text]);
        assert_eq!(key_text(&one, b"ada"), "ada");
        let two = columns(&[CqlType::Int, CqlType::Text]);
        let key = model::key::composite_key([&7i32.to_be_bytes()[..], b"x"]);
        assert_eq!(key_text(&two, &key), "7:x");
    }
}
