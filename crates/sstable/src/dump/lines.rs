//! Converts fragments to the lines of `sstabledump -d`, which prints rows in Cassandra's internal notation.
//!
//! A line has the form `[key]@position Row[info=[ts=1] ]: clustering | [name=value ts=1], …`. The position on
//! the first line of a partition is that of the partition, on each further line the end of the row before.
//! Source: Cassandra 4.1 `tools/SSTableExport.java`, `db/rows/AbstractRow.java`, `AbstractCell.java`.

use std::fmt::Write;
use std::sync::Arc;

use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, Column, ColumnData, Liveness, RangeTombstoneChange, Row, Side, TableSchema,
    Tombstone,
};
use reader::Fragment;

use super::json::{key_texts, path_text};

/// Prints the fragments of a forward read: one line for each row, marker and partition deletion.
pub struct LineDump {
    schema: Arc<TableSchema>,
    text: String,
    key: String,
    in_force: Tombstone,
}

impl LineDump {
    /// Prints values with the types of `schema`, which must be the schema of the read.
    pub fn new(schema: Arc<TableSchema>) -> Self {
        Self { schema, text: String::new(), key: String::new(), in_force: Tombstone::LIVE }
    }

    /// The text printed since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Prints a fragment with its position in Data.db.
    pub fn push_at(&mut self, fragment: &Fragment, position: u64) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.key = key_texts(&self.schema, key).join(":");
                if !tombstone.is_live() {
                    self.line(position, &deletion(*tombstone));
                }
            }
            Fragment::Static(row) => {
                let text = self.row("STATIC", row);
                self.line(position, &text);
            }
            Fragment::Row(row) => {
                let text = self.row(&self.prefix(&row.key), &row.row);
                self.line(position, &text);
            }
            Fragment::Change(change) => {
                let text = self.marker(change);
                self.line(position, &text);
            }
            Fragment::PartitionEnd => {}
        }
    }

    fn line(&mut self, position: u64, text: &str) {
        self.text.push('[');
        self.text.push_str(&self.key);
        self.text.push_str("]@");
        self.text.push_str(&position.to_string());
        self.text.push(' ');
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn prefix(&self, prefix: &ClusteringPrefix) -> String {
        prefix_texts(&self.schema, prefix).join(", ")
    }

    fn row(&self, clustering: &str, row: &Row) -> String {
        let mut text = format!("Row[info={}", liveness(row.liveness));
        if !row.deletion.is_live() {
            text.push_str(" del=");
            text.push_str(&deletion(row.deletion));
        }
        text.push_str(" ]: ");
        text.push_str(clustering);
        text.push_str(" | ");
        let column_of = |id| self.schema.column(id).expect("fragments are read for this schema");
        let mut columns: Vec<(&Column, &ColumnData)> =
            row.cells().iter().map(|(id, data)| (column_of(*id), data)).collect();
        columns.sort_by_key(|(column, _)| (column.is_complex(), column.name.as_bytes()));
        for (number, (column, data)) in columns.into_iter().enumerate() {
            text.push_str(if number > 0 { ", " } else { "" });
            match data {
                ColumnData::Simple(cell) => text.push_str(&simple(column, None, cell)),
                ColumnData::Complex(complex) => {
                    if !complex.deletion.is_live() {
                        let deletion = deletion(complex.deletion);
                        write!(text, "del({})={deletion}", column.name).expect("a String takes all");
                    }
                    for element in &complex.cells {
                        text.push_str(", ");
                        text.push_str(&simple(column, Some(&element.path), &element.cell));
                    }
                }
            }
        }
        text
    }

    fn marker(&mut self, change: &RangeTombstoneChange) -> String {
        let closed = std::mem::replace(&mut self.in_force, change.tombstone);
        let opened = change.tombstone;
        let is_before = change.position.side == Side::Before;
        let values = self.prefix(&change.position.prefix);
        let times =
            |tombstone: Tombstone| format!("{}/{}", tombstone.timestamp_us, tombstone.deletion_time_s);
        match (closed.is_live(), opened.is_live()) {
            (true, _) => {
                let kind = if is_before { "INCL_START_BOUND" } else { "EXCL_START_BOUND" };
                format!("Marker {kind}({values})@{}", times(opened))
            }
            (false, true) => {
                let kind = if is_before { "EXCL_END_BOUND" } else { "INCL_END_BOUND" };
                format!("Marker {kind}({values})@{}", times(closed))
            }
            (false, false) => {
                let kind =
                    if is_before { "EXCL_END_INCL_START_BOUNDARY" } else { "INCL_END_EXCL_START_BOUNDARY" };
                format!("Marker {kind}({values})@{}-{}", times(closed), times(opened))
            }
        }
    }
}

/// The values of a clustering prefix as text.
pub(crate) fn prefix_texts(schema: &TableSchema, prefix: &ClusteringPrefix) -> Vec<String> {
    let columns = schema.clustering.iter().zip(prefix.values());
    columns.map(|(column, value)| column.ty.raw_text_of(value)).collect()
}

fn liveness(liveness: Liveness) -> String {
    if liveness.is_none() {
        return format!("[ts={}]", i64::MIN);
    }
    match liveness.is_expiring() {
        false => format!("[ts={}]", liveness.timestamp_us),
        true => format!(
            "[ts={} ttl={}, let={}]",
            liveness.timestamp_us, liveness.ttl_s, liveness.local_expiration_s
        ),
    }
}

fn deletion(tombstone: Tombstone) -> String {
    format!("deletedAt={}, localDeletion={}", tombstone.timestamp_us, tombstone.deletion_time_s)
}

fn simple(column: &Column, path: Option<&[u8]>, cell: &Cell) -> String {
    let ty = column.ty.cell_value_type(path.unwrap_or_default()).unwrap_or(&CqlType::Blob);
    let name = match path {
        Some(path) => format!("{}[{}]", column.name, path_text(&column.ty, path)),
        None => column.name.clone(),
    };
    let value = if cell.is_tombstone() { "<tombstone>".to_owned() } else { ty.raw_text_of(&cell.value) };
    let mut times = format!("ts={}", cell.timestamp_us);
    if cell.is_expiring() {
        write!(times, " ttl={} ldt={}", cell.ttl(), cell.local_deletion_time_s).expect("a String takes all");
    } else if cell.is_tombstone() {
        write!(times, " ldt={}", cell.local_deletion_time_s).expect("a String takes all");
    }
    format!("[{name}={value} {times}]")
}
