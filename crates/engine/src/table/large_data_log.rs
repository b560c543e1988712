//! Logs large partitions, rows and cells when an SSTable with some is written.
//!
//! Writers find them (`sstable::write`), and each SSTable stores its own.

use std::cell::Cell;

use model::TableSchema;
use runtime::Shard;
use sstable::component::large_data::{LargeData, RowPlace};
use sstable::name::{Component, SSTableName};
use sstable::write::{WriteOptions, Written};

use crate::options::LargeDataOptions;

/// The log hears of one SSTable in so long; of the others only how many there were.
const TOLD_PAUSE_US: u64 = 1_000_000;

/// What a shard's writers are told, and what they have to say.
pub struct LargeDataLog {
    shard: Shard,
    options: LargeDataOptions,
    told_us: Cell<Option<u64>>,
    /// SSTables that the log did not hear of since.
    untold: Cell<u64>,
}

impl LargeDataLog {
    pub fn new(shard: &Shard, options: LargeDataOptions) -> Self {
        Self { shard: shard.clone(), options, told_us: Cell::new(None), untold: Cell::new(0) }
    }

    /// What is large in an SSTable that is written with `options`.
    pub fn apply_to(&self, options: &mut WriteOptions) {
        options.large_data = self.options.limits;
        options.now_ms = self.shard.wall_us() / 1000;
    }

    /// Tells the log what is large in an SSTable, unless it has just heard of another one.
    pub fn written(&self, schema: &TableSchema, written: &Written) {
        let Some(found) = &written.large_data else { return };
        let now_us = self.shard.now_us();
        if self.told_us.get().is_some_and(|told_us| now_us < told_us + TOLD_PAUSE_US) {
            self.untold.set(self.untold.get() + 1);
            return;
        }
        self.told_us.set(Some(now_us));
        let tell = |text: &str| (self.options.tell)(self.shard.id(), text);
        match self.untold.take() {
            0 => (),
            untold => {
                tell(&format!("{untold} more SSTables with large partitions, rows or cells were written"))
            }
        }
        lines(schema, written.name, found).iter().for_each(|line| tell(line));
    }
}

/// One line for each kind of large item of an SSTable (partition, row, static row, cell, …), about its
/// largest one; the texts are ScyllaDB's. Keys are left out, because more people read logs than data.
fn lines(schema: &TableSchema, name: SSTableName, found: &LargeData) -> Vec<String> {
    let place = format!("{}/{}", schema.keyspace, schema.name);
    let file = name.file_name(&Component::Data);
    let of = |place: &RowPlace| if place.clustering.is_none() { "static " } else { "" };
    let mut told: Vec<String> = vec![];
    let mut lines = vec![];
    let mut line = |kind: String, text: String| {
        if !told.contains(&kind) {
            lines.push(format!("Writing large {kind} {place}: {text} to {file}"));
            told.push(kind);
        }
    };
    for partition in &found.partitions {
        line("partition".to_string(), format!("({} bytes/{} rows)", partition.bytes, partition.rows));
    }
    for row in &found.rows {
        line(format!("{}row", of(&row.place)), format!("({} bytes)", row.bytes));
    }
    for cell in &found.cells {
        let kind = if cell.elements.is_some() { "collection" } else { "cell" };
        let elements = cell.elements.map_or(String::new(), |elements| format!("/{elements} elements"));
        line(
            format!("{}{kind}", of(&cell.place)),
            format!("{} ({} bytes{elements})", cell.column, cell.bytes),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use model::CqlType;
    use sstable::component::large_data::{LargeCell, LargePartition};
    use sstable::name::Generation;
    use sstable::version::Version;

    use super::*;

    #[test]
    fn the_log_has_a_line_for_each_kind() {
        let schema = TableSchema::builder("ks", "t").partition_key("p", CqlType::Int).build().unwrap();
        let name = SSTableName::big(Version::Me, Generation::Number(7));
        let place = |clustering| RowPlace { key: vec![], clustering };
        let partition = LargePartition { key: vec![], bytes: 9, rows: 3, dead_rows: 0, range_tombstones: 0 };
        let cell = |clustering, elements| LargeCell {
            place: place(clustering),
            column: "v".to_string(),
            bytes: 5,
            elements,
        };
        let found = LargeData {
            partitions: vec![partition.clone(), partition],
            cells: vec![cell(Some(vec![]), Some(4)), cell(None, None)],
            ..LargeData::default()
        };
        assert_eq!(
            lines(&schema, name, &found),
            [
                "Writing large partition ks/t: (9 bytes/3 rows) to me-7-big-Data.db",
                "Writing large collection ks/t: v (5 bytes/4 elements) to me-7-big-Data.db",
                "Writing large static cell ks/t: v (5 bytes) to me-7-big-Data.db",
            ]
        );
    }
}
