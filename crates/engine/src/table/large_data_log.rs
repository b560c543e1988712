//! Logs large partitions, rows and cells when an SSTable with some is written.
//!
//! Writers find them (`sstable::write`), and each SSTable stores its own.

use base::LogThrottle;
use log::warn;
use model::TableSchema;
use runtime::Shard;
use sstable::component::large_data::{LargeData, RowPlace};
use sstable::name::{Component, SSTableName};
use sstable::write::{LargeDataLimits, WriteOptions, Written};

/// Pause between the lines of two SSTables; of the SSTables in between, the log has the number.
const PAUSE_US: u64 = 1_000_000;

/// The thresholds from which data of a shard is large, and the log lines about such data.
pub struct LargeDataLog {
    shard: Shard,
    limits: LargeDataLimits,
    throttle: LogThrottle,
}

impl LargeDataLog {
    pub fn new(shard: &Shard, limits: LargeDataLimits) -> Self {
        Self { shard: shard.clone(), limits, throttle: LogThrottle::default() }
    }

    /// Sets the thresholds of an SSTable that is written with `options`.
    pub fn apply_to(&self, options: &mut WriteOptions) {
        options.large_data = self.limits;
        options.now_ms = self.shard.wall_us() / 1000;
    }

    /// Logs the large data of an SSTable, unless those of another one were logged just before.
    pub fn written(&self, schema: &TableSchema, written: &Written) {
        let Some(found) = &written.large_data else { return };
        let Some(left_out) = self.throttle.admit(self.shard.now_us(), PAUSE_US) else { return };
        if left_out > 0 {
            warn!(
                target: "large_data",
                "{left_out} more SSTables with large partitions, rows or cells were written"
            );
        }
        for line in lines(schema, written.name, found) {
            warn!(target: "large_data", "{line}");
        }
    }
}

/// One line for each kind of large item of an SSTable (partition, row, static row, cell, …), about its
/// largest one; the texts are ScyllaDB's. Keys are left out, because more people read logs than data.
fn lines(schema: &TableSchema, name: SSTableName, found: &LargeData) -> Vec<String> {
    let place = format!("{}/{}", schema.keyspace, schema.name);
    let file = name.file_name(&Component::Data);
    let of = |place: &RowPlace| if place.clustering.is_none() { "static " } else { "" };
    let mut kinds: Vec<String> = vec![];
    let mut lines = vec![];
    let mut line = |kind: String, text: String| {
        if !kinds.contains(&kind) {
            lines.push(format!("Writing large {kind} {place}: {text} to {file}"));
            kinds.push(kind);
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
