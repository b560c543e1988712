//! Converts fragments to the JSON of `sstabledump`, with the same fields in the same order.
//!
//! A range deletion changes at a position. On disk the change is a bound, or a boundary if one deletion ends
//! where the next begins. So the dump remembers the deletion in force from one change to the next. Source:
//! Cassandra 4.1 `tools/JsonTransformer.java`; `tests/peers/README.md` describes the document.

use std::sync::Arc;

use model::types::{CqlType, push_identifier};
use model::{
    Cell, ClusteringPrefix, Column, ColumnData, Liveness, PartitionKey, Position, RangeTombstoneChange, Row,
    Side, TableSchema, Tombstone, key,
};
use reader::{Fragment, ReadError, Reader, Step};

use super::layout::Layout;
use super::times::{seconds_text, timestamp_text};

/// Options of `sstabledump`, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// `-t`: prints times as numbers (in strings), not as ISO 8601.
    pub raw_times: bool,
    /// Time in seconds since 1970. Cells that have expired by then are printed as expired.
    pub now_s: u32,
}

/// The layout of the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonShape {
    /// One array of all partitions, over many lines.
    #[default]
    Array,
    /// `-l`: one object for each partition, on one line.
    Lines,
}

/// Prints the fragments of a forward read.
pub struct JsonDump {
    schema: Arc<TableSchema>,
    options: DumpOptions,
    layout: Layout,
    in_force: Tombstone,
    /// Whether the array of the partition's rows has begun, after the fields of the partition.
    in_rows: bool,
    shape: JsonShape,
}

/// Number of bytes of text that [`dump_reader`] collects before it writes them.
const TEXT_BYTES: usize = 64 << 10;

/// Prints all fragments of a forward reader. `write` gets the text in pieces.
pub async fn dump_reader(
    reader: &mut dyn Reader,
    schema: Arc<TableSchema>,
    options: DumpOptions,
    mut write: impl FnMut(&str),
) -> Result<(), ReadError> {
    let mut dump = JsonDump::new(schema, options);
    let mut text = String::new();
    loop {
        match reader.next()? {
            Step::Ready(fragment) => dump.push(&fragment),
            Step::Load => reader.load().await?,
            Step::End => break,
        }
        text.push_str(&dump.take());
        if text.len() >= TEXT_BYTES {
            write(&text);
            text.clear();
        }
    }
    text.push_str(&dump.finish());
    write(&text);
    Ok(())
}

impl JsonDump {
    /// Prints values with the types of `schema`, which must be the schema of the read.
    pub fn new(schema: Arc<TableSchema>, options: DumpOptions) -> Self {
        Self::shaped(schema, options, JsonShape::Array)
    }

    /// As [`Self::new`], with another layout of the partitions.
    pub fn shaped(schema: Arc<TableSchema>, options: DumpOptions, shape: JsonShape) -> Self {
        let mut layout = Layout::new();
        match shape {
            JsonShape::Array => layout.begin_array(),
            JsonShape::Lines => layout.minimal = true,
        }
        Self { schema, options, layout, in_force: Tombstone::LIVE, in_rows: false, shape }
    }

    /// The text printed since the last call.
    pub fn take(&mut self) -> String {
        self.layout.take()
    }

    /// Ends the document and returns the remaining text. The last partition must have ended.
    pub fn finish(mut self) -> String {
        assert!(!self.in_rows, "a dump ends between partitions");
        if self.shape == JsonShape::Array {
            self.layout.end_array();
        }
        self.layout.take()
    }

    /// Prints only a key, as `-e` does.
    pub fn push_key(&mut self, partition_key: &PartitionKey) {
        let texts = key_texts(&self.schema, partition_key);
        self.strings(texts.iter().map(String::as_str));
        if self.shape == JsonShape::Lines {
            self.layout.end_line();
        }
    }

    /// Prints a fragment without its position in Data.db.
    pub fn push(&mut self, fragment: &Fragment) {
        self.push_at(fragment, None);
    }

    /// Prints a fragment, with its position in Data.db if it is known.
    pub fn push_at(&mut self, fragment: &Fragment, position: Option<u64>) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => self.begin_partition(key, *tombstone, position),
            Fragment::Static(row) => self.row(None, row, position),
            Fragment::Row(row) => self.row(Some(&row.key), &row.row, position),
            Fragment::Change(change) => self.change(change),
            Fragment::PartitionEnd => {
                assert!(self.in_force.is_live(), "a range deletion is ended before its partition");
                self.in_rows = false;
                self.layout.end_array();
                self.layout.end_object();
                if self.shape == JsonShape::Lines {
                    self.layout.end_line();
                }
            }
        }
    }

    fn position(&mut self, position: Option<u64>) {
        if let Some(position) = position {
            self.layout.raw_field("position", position);
        }
    }

    fn begin_partition(&mut self, partition_key: &PartitionKey, tombstone: Tombstone, position: Option<u64>) {
        assert!(!self.in_rows, "a partition ends before the next begins");
        self.in_rows = true;
        self.layout.begin_object();
        self.layout.name("partition");
        self.layout.begin_object();
        self.layout.name("key");
        let texts = key_texts(&self.schema, partition_key);
        self.strings(texts.iter().map(String::as_str));
        self.position(position);
        if !tombstone.is_live() {
            self.deletion(tombstone);
        }
        self.layout.end_object();
        self.layout.name("rows");
        self.layout.begin_array();
    }

    /// Prints an array of strings on one line.
    fn strings<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let layout = &mut self.layout;
        layout.compact_arrays = true;
        layout.begin_array();
        texts.for_each(|text| layout.string(text));
        layout.end_array();
        layout.compact_arrays = false;
    }

    /// Prints a row; a static row has no key.
    fn row(&mut self, key: Option<&ClusteringPrefix>, row: &Row, position: Option<u64>) {
        self.layout.begin_object();
        self.text("type", if key.is_some() { "row" } else { "static_block" });
        self.position(position);
        if let Some(key) = key {
            self.clustering(key);
        }
        if !row.liveness.is_none() {
            self.liveness(row.liveness);
        }
        if !row.deletion.is_live() {
            self.deletion(row.deletion);
        }
        self.layout.name("cells");
        self.layout.begin_array();
        let schema = Arc::clone(&self.schema);
        let column_of = |id| schema.column(id).expect("fragments are read for this schema");
        let mut columns: Vec<(&Column, &ColumnData)> =
            row.cells().iter().map(|(id, data)| (column_of(*id), data)).collect();
        // Sort into disk order. A row has the order of column ids, which differs for added columns.
        columns.sort_by_key(|(column, _)| (column.is_complex(), column.name.as_bytes()));
        for (column, data) in columns {
            match data {
                ColumnData::Simple(cell) => self.cell(column, None, cell, row.liveness),
                ColumnData::Complex(complex) => {
                    if !complex.deletion.is_live() {
                        self.complex_deletion(column, complex.deletion);
                    }
                    for element in &complex.cells {
                        self.cell(column, Some(&element.path), &element.cell, row.liveness);
                    }
                }
            }
        }
        self.layout.end_array();
        self.layout.end_object();
    }

    /// Prints one value for each clustering column of the table: `"*"` for the columns after the end of the
    /// prefix.
    fn clustering(&mut self, prefix: &ClusteringPrefix) {
        if prefix.is_empty() {
            return;
        }
        let layout = &mut self.layout;
        layout.name("clustering");
        layout.compact_arrays = true;
        layout.begin_array();
        let mut values = prefix.values();
        for column in &self.schema.clustering {
            match values.next() {
                Some(value) => layout.raw(&column.ty.json_of(value)),
                None => layout.string("*"),
            }
        }
        layout.end_array();
        layout.compact_arrays = false;
    }

    fn liveness(&mut self, liveness: Liveness) {
        self.layout.name("liveness_info");
        self.layout.compact_objects = true;
        self.layout.begin_object();
        self.timestamp("tstamp", liveness.timestamp_us);
        if liveness.is_expiring() {
            let expired = liveness.local_expiration_s < self.options.now_s;
            self.expiry(liveness.ttl_s, liveness.local_expiration_s, expired);
        }
        self.layout.end_object();
        self.layout.compact_objects = false;
    }

    fn expiry(&mut self, ttl_s: u32, expires_at_s: u32, expired: bool) {
        self.layout.name("ttl");
        self.layout.raw(&ttl_s.to_string());
        self.seconds("expires_at", expires_at_s);
        self.layout.name("expired");
        self.layout.raw(if expired { "true" } else { "false" });
    }

    fn deletion(&mut self, tombstone: Tombstone) {
        self.layout.name("deletion_info");
        self.layout.compact_objects = true;
        self.layout.begin_object();
        self.timestamp("marked_deleted", tombstone.timestamp_us);
        self.seconds("local_delete_time", tombstone.deletion_time_s);
        self.layout.end_object();
        self.layout.compact_objects = false;
    }

    fn complex_deletion(&mut self, column: &Column, tombstone: Tombstone) {
        self.layout.compact_objects = true;
        self.layout.begin_object();
        self.column_name(column);
        self.deletion(tombstone);
        self.layout.compact_objects = true;
        self.layout.end_object();
        self.layout.compact_objects = false;
    }

    fn cell(&mut self, column: &Column, path: Option<&[u8]>, cell: &Cell, row: Liveness) {
        self.layout.begin_object();
        self.layout.compact_objects = true;
        self.column_name(column);
        if let Some(path) = path {
            self.layout.name("path");
            self.strings([path_text(&column.ty, path).as_str()].into_iter());
        }
        if cell.is_tombstone() {
            self.layout.name("deletion_info");
            self.layout.begin_object();
            self.seconds("local_delete_time", cell.local_deletion_time_s);
            self.layout.end_object();
            // Here Cassandra's printer switches back to one entry per line, inside the cell.
            self.layout.compact_objects = false;
        } else {
            self.layout.name("value");
            self.layout.raw(&value_json(&column.ty, path.unwrap_or_default(), &cell.value));
        }
        if row.is_none() || cell.timestamp_us != row.timestamp_us {
            self.timestamp("tstamp", cell.timestamp_us);
        }
        if cell.is_expiring() && (row.is_none() || cell.ttl() != row.ttl_s) {
            let expired = !cell.is_live_at(self.options.now_s);
            self.expiry(cell.ttl(), cell.local_deletion_time_s, expired);
        }
        self.layout.end_object();
        self.layout.compact_objects = false;
    }

    fn change(&mut self, change: &RangeTombstoneChange) {
        let closed = std::mem::replace(&mut self.in_force, change.tombstone);
        let opened = change.tombstone;
        self.layout.begin_object();
        let is_boundary = !closed.is_live() && !opened.is_live();
        self.text("type", if is_boundary { "range_tombstone_boundary" } else { "range_tombstone_bound" });
        if !opened.is_live() {
            self.bound("start", &change.position, Side::Before, opened);
        }
        if !closed.is_live() {
            self.bound("end", &change.position, Side::After, closed);
        }
        self.layout.end_object();
    }

    /// Prints a bound. `inclusive` is the side on which a position includes the rows of its prefix.
    fn bound(&mut self, which: &str, position: &Position, inclusive: Side, tombstone: Tombstone) {
        self.layout.name(which);
        self.layout.begin_object();
        self.text("type", if position.side == inclusive { "inclusive" } else { "exclusive" });
        self.clustering(&position.prefix);
        self.deletion(tombstone);
        self.layout.end_object();
    }

    fn column_name(&mut self, column: &Column) {
        let mut name = String::new();
        push_identifier(&mut name, &column.name);
        self.text("name", &name);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.layout.name(name);
        self.layout.string(value);
    }

    fn timestamp(&mut self, name: &str, timestamp_us: i64) {
        let text = timestamp_text(timestamp_us, self.options.raw_times);
        self.text(name, &text);
    }

    fn seconds(&mut self, name: &str, time_s: u32) {
        let text = seconds_text(time_s, self.options.raw_times);
        self.text(name, &text);
    }
}

/// The values of a partition key as text.
pub(crate) fn key_texts(schema: &TableSchema, partition_key: &PartitionKey) -> Vec<String> {
    let types: Vec<&CqlType> = schema.partition_key.iter().map(|column| &column.ty).collect();
    match (&types[..], key::split_composite_key(partition_key.bytes())) {
        ([_, _, ..], Ok(values)) if values.len() == types.len() => {
            types.iter().zip(values).map(|(ty, value)| ty.raw_text_of(value)).collect()
        }
        // The key is not a valid composite, so it has no parts to print.
        ([_, _, ..], _) => vec![CqlType::Blob.raw_text_of(partition_key.bytes())],
        ([only], _) => vec![only.raw_text_of(partition_key.bytes())],
        ([], _) => unreachable!("a table has a partition key"),
    }
}

/// The name of a field, or the text of an element's path.
pub(super) fn path_text(ty: &CqlType, path: &[u8]) -> String {
    let field = |fields: &[model::types::UdtField]| {
        let number = u16::from_be_bytes(path.try_into().ok()?);
        Some(fields.get(usize::from(number))?.name.clone())
    };
    let field_name = match ty {
        CqlType::Udt { user, .. } => field(&user.fields),
        _ => None,
    };
    let path_type = ty.cell_path_type().unwrap_or(&CqlType::Blob);
    field_name.unwrap_or_else(|| path_type.raw_text_of(path))
}

fn value_json(ty: &CqlType, path: &[u8], value: &[u8]) -> String {
    match ty.cell_value_type(path) {
        // Cassandra's tool prints the first eight bytes of a counter's shards as its count.
        Some(CqlType::Counter) => CqlType::Counter.json_of(value.get(..8).unwrap_or(value)),
        Some(ty) => ty.json_of(value),
        None => CqlType::Blob.json_of(value),
    }
}
