//! Computes the rows of a change log (CDC) that follow from a write to its base table.
//!
//! A change log is an ordinary table in the form of ScyllaDB's CDC log: the partition key `cdc$stream_id`,
//! the clustering key `cdc$time`, `cdc$batch_seq_no`, the columns of the base table, and for each column that
//! has cells `cdc$deleted_` and, if it is a collection or UDT that is not frozen, `cdc$deleted_elements_`. So
//! its readers and their libraries work. [`ChangeLog::mutation`] is a pure function of the write, the stored
//! rows before it, the time and random numbers.
//!
//! A write is divided into **groups** of one timestamp and one TTL. The groups of one timestamp share a
//! `cdc$time`, a timeuuid of that timestamp; their rows are numbered by `cdc$batch_seq_no`, and the last one
//! has `cdc$end_of_batch`. In a group come the static row, the rows in the table's order, the deleted ranges,
//! and the deletion of the partition. Each changed row may have a row with its values before the group
//! (preimage) and one after it (postimage).
//!
//! | `cdc$operation` | row of the log |
//! |---|---|
//! | 0 | preimage |
//! | 1, 2 | UPDATE; INSERT, which also writes the row marker |
//! | 3, 4 | deletion of a row; of the partition |
//! | 5, 6 | start of a deleted range, including the bound; excluding it |
//! | 7, 8 | end of a deleted range, including the bound; excluding it |
//! | 9 | postimage |
//!
//! Everything written to the log has the timestamp of the group and the TTL of the option `ttl`.
//!
//! **Streams:** [`STREAM_COUNT`] equal parts of the ring, each with one stream, independent of the number of
//! shards. Within a stream the log is in the order of the timestamps of the writes.
//!
//! **Limits:** expiry is not a write and is not logged. Writes that are identical in every timestamp are
//! logged as often as they are made.
//!
//! Source: ScyllaDB's documentation of CDC ("The CDC Log Table", "Basic operations", "Advanced column types",
//! "Preimages and postimages").

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::cell::Cell;
use crate::clustering::{ClusteringKey, ClusteringPrefix, Position, Side};
use crate::key::{PartitionKey, column_values};
use crate::partition::{Mutation, Partition};
use crate::row::{ClusteringRow, ColumnData, ComplexCells, Liveness, PathCell, Row};
use crate::schema::{Column, ColumnId, TableSchema};
use crate::tombstone::Tombstone;
use crate::types::{CollectionBuilder, CqlType, build_tuple};

/// What is appended to the name of the base table.
pub const SUFFIX: &str = "_scylla_cdc_log";
/// The partition key of a log.
pub const STREAM_ID: &str = "cdc$stream_id";
/// The first clustering column.
pub const TIME: &str = "cdc$time";
/// The second clustering column.
pub const BATCH_SEQ_NO: &str = "cdc$batch_seq_no";
/// The kind of the row; see the head of the file.
pub const OPERATION: &str = "cdc$operation";
/// The TTL of the write in seconds; null: none.
pub const TTL: &str = "cdc$ttl";
/// True in the last row of a `cdc$time`.
pub const END_OF_BATCH: &str = "cdc$end_of_batch";
/// Precedes a column's name: the column was deleted, or a whole collection replaced.
pub const DELETED: &str = "cdc$deleted_";
/// Precedes a column's name: the deleted elements of a collection or UDT.
pub const DELETED_ELEMENTS: &str = "cdc$deleted_elements_";

/// Number of streams of the node.
pub const STREAM_COUNT: u64 = 64;
/// 100-nanosecond intervals from 1582-10-15, where the time of UUIDs begins, to the Unix epoch.
const UUID_EPOCH: i64 = 0x01B2_1DD2_1381_4000;

/// Which values of a row before a write are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preimage {
    /// None.
    #[default]
    Off,
    /// Those of the columns that the write changes; all for a deletion of the row.
    Changed,
    /// Those of all columns.
    Full,
}

/// The sub-options of the table option `cdc`, with ScyllaDB's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLogOptions {
    /// `preimage`.
    pub preimage: Preimage,
    /// `postimage`: whether all values of a row after a write are logged.
    pub postimage: bool,
    /// `delta: 'keys'`: rows of changes have only the keys and no values.
    pub keys_only: bool,
    /// `ttl`: the time after which entries expire, in seconds; 0: never.
    pub ttl_s: u32,
}

impl Default for ChangeLogOptions {
    fn default() -> Self {
        Self { preimage: Preimage::Off, postimage: false, keys_only: false, ttl_s: 24 * 3600 }
    }
}

/// A stream: a part of the ring, and a partition of each log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The last token of its part of the ring.
    pub range_end: i64,
    /// The partition key: the token, 38 bits that tell streams apart, the stream's number in 22 bits, and the
    /// version of the form in four bits.
    pub id: [u8; 16],
}

impl Stream {
    /// The stream with this number, below [`STREAM_COUNT`].
    fn numbered(number: u64) -> Self {
        let last = (number << STREAM_SHIFT) | ((1 << STREAM_SHIFT) - 1);
        let range_end = (last ^ (1 << 63)) as i64;
        // Any fixed bits: there is one node.
        let distinct = last.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 26;
        let low = distinct << 26 | number << 4 | 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&range_end.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        Self { range_end, id }
    }

    /// The stream of the partitions with this token.
    pub fn of(token: i64) -> Self {
        Self::numbered(((token as u64) ^ (1 << 63)) >> STREAM_SHIFT)
    }

    /// All streams, in the order of the ring.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..STREAM_COUNT).map(Self::numbered)
    }
}

const STREAM_SHIFT: u32 = 64 - STREAM_COUNT.ilog2();

/// The name and the type of each regular column that the log of a table has.
pub fn log_columns(base: &TableSchema) -> Vec<(String, CqlType)> {
    let mut columns = vec![
        (OPERATION.to_string(), CqlType::TinyInt),
        (TTL.to_string(), CqlType::BigInt),
        (END_OF_BATCH.to_string(), CqlType::Boolean),
    ];
    let keys = base.partition_key.iter().chain(&base.clustering);
    columns.extend(keys.map(|key| (key.name.clone(), key.ty.without_reversed().clone())));
    for column in base.columns() {
        columns.push((column.name.clone(), value_type(&column.ty)));
        columns.push((format!("{DELETED}{}", column.name), CqlType::Boolean));
        if let Some(path) = column.ty.cell_path_type().filter(|_| column.is_complex()) {
            let elements = CqlType::set(path.clone()).freeze();
            columns.push((format!("{DELETED_ELEMENTS}{}", column.name), elements));
        }
    }
    columns
}

/// The type of a column's values in the log. Elements of a list keep the timeuuids that order them.
fn value_type(ty: &CqlType) -> CqlType {
    match ty {
        CqlType::List { element, multi_cell: true } => {
            CqlType::map(CqlType::TimeUuid, CqlType::clone(element)).freeze()
        }
        other => other.freeze(),
    }
}

/// Why a table cannot be the log of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeLogError(String);

impl fmt::Display for ChangeLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A base table and its change log. See the head of the file.
#[derive(Clone, Debug)]
pub struct ChangeLog {
    base: Arc<TableSchema>,
    /// The schema of the log.
    pub log: Arc<TableSchema>,
    options: ChangeLogOptions,
    operation: ColumnId,
    ttl: ColumnId,
    end_of_batch: ColumnId,
    /// Columns of the log for those of the base table's key.
    partition_key: Vec<ColumnId>,
    clustering: Vec<ColumnId>,
    columns: Vec<LogColumn>,
}

/// A column of the base table that has cells, and its columns of the log.
#[derive(Clone, Debug)]
struct LogColumn {
    base: Column,
    value: ColumnId,
    deleted: ColumnId,
    deleted_elements: Option<ColumnId>,
}

/// Timestamp and TTL of a part of a write.
type Group = (i64, u32);

impl ChangeLog {
    /// # Errors
    /// The log lacks a column.
    pub fn new(
        base: &Arc<TableSchema>,
        log: &Arc<TableSchema>,
        options: ChangeLogOptions,
    ) -> Result<Self, ChangeLogError> {
        let column = |name: &str| {
            let missing = || ChangeLogError(format!("change log {}: no column {name}", log.full_name()));
            log.column_named(name).map(|column| column.id).ok_or_else(missing)
        };
        let keys = |keys: &[crate::KeyColumn]| {
            keys.iter().map(|key| column(&key.name)).collect::<Result<Vec<_>, _>>()
        };
        let of_cells = |base: &Column| {
            let elements = base.is_complex().then(|| column(&format!("{DELETED_ELEMENTS}{}", base.name)));
            Ok(LogColumn {
                base: base.clone(),
                value: column(&base.name)?,
                deleted: column(&format!("{DELETED}{}", base.name))?,
                deleted_elements: elements.transpose()?,
            })
        };
        Ok(Self {
            operation: column(OPERATION)?,
            ttl: column(TTL)?,
            end_of_batch: column(END_OF_BATCH)?,
            partition_key: keys(&base.partition_key)?,
            clustering: keys(&base.clustering)?,
            columns: base.columns().iter().map(of_cells).collect::<Result<_, _>>()?,
            base: base.clone(),
            log: log.clone(),
            options,
        })
    }

    /// Whether [`Self::mutation`] needs the stored rows that the write affects.
    pub fn reads_before(&self) -> bool {
        self.options.preimage != Preimage::Off || self.options.postimage
    }

    /// The rows of the log that follow from `change`, a write to the partition `key` of the base table.
    /// `before` has the stored static row and the stored rows that `change` affects, with the tombstones in
    /// force there; it may be empty unless [`Self::reads_before`]. `random`: a number for each timestamp.
    pub fn mutation(
        &self,
        key: &PartitionKey,
        before: &Partition,
        change: &Partition,
        now_s: u32,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Mutation> {
        let groups = self.groups(change);
        let stream = Stream::of(key.token());
        let mut mutation = Mutation::new(self.log.clone(), PartitionKey::new(stream.id.to_vec()));
        let mut state = before.clone();
        let mut groups = groups.into_iter().peekable();
        let keys = column_values(self.base.partition_key.len(), key);
        while let Some(((timestamp_us, ttl_s), part)) = groups.next() {
            let mut rows = vec![];
            let mut writer = Writer { log: self, keys: &keys, now_s, rows: &mut rows };
            writer.group(&mut state, &part, ttl_s);
            while let Some(((_, ttl_s), part)) = groups.next_if(|((next, _), _)| *next == timestamp_us) {
                writer.group(&mut state, &part, ttl_s);
            }
            if let Some(last) = rows.last_mut() {
                last.values.insert(self.end_of_batch, vec![1]);
            }
            let time = time_uuid(timestamp_us, random());
            for (number, row) in rows.into_iter().enumerate() {
                let number = i32::try_from(number).unwrap_or(i32::MAX).to_be_bytes();
                let row_key = ClusteringPrefix::new([&time[..], &number[..]]);
                *mutation.row_mut(row_key) = self.stored(row, timestamp_us, now_s);
            }
        }
        (!mutation.partition.is_empty()).then_some(mutation)
    }

    /// A row of the log with its timestamp and TTL.
    fn stored(&self, row: LogRow, timestamp_us: i64, now_s: u32) -> Row {
        let ttl_s = self.options.ttl_s;
        let mut out = Row::with_capacity(row.values.len());
        out.liveness = match ttl_s {
            0 => Liveness::new(timestamp_us),
            _ => Liveness::expiring(timestamp_us, ttl_s, now_s),
        };
        for (id, value) in row.values {
            let cell = match ttl_s {
                0 => Cell::live(timestamp_us, value),
                _ => Cell::expiring(timestamp_us, ttl_s, now_s, value),
            };
            out.push(id, ColumnData::Simple(cell));
        }
        out
    }

    /// Divides a write by timestamp and TTL. Deleted cells have no TTL; they are in the group of their
    /// timestamp without TTL.
    fn groups(&self, change: &Partition) -> BTreeMap<Group, Partition> {
        let schema = &*self.base;
        let mut groups: BTreeMap<Group, Partition> = BTreeMap::new();
        for (group, row) in split(&change.static_row) {
            groups.entry(group).or_default().static_row = row;
        }
        for row in change.rows() {
            for (group, part) in split(&row.row) {
                *groups.entry(group).or_default().row_mut(schema, row.key.clone()) = part;
            }
        }
        for deletion in change.range_tombstones().ranges() {
            let group = (deletion.tombstone.timestamp_us, 0);
            groups.entry(group).or_default().delete_range(schema, &deletion);
        }
        if !change.tombstone.is_live() {
            groups.entry((change.tombstone.timestamp_us, 0)).or_default().tombstone = change.tombstone;
        }
        groups
    }
}

/// A row of the log without its key: values by column.
struct LogRow {
    values: BTreeMap<ColumnId, Vec<u8>>,
}

/// Collects the rows of one timestamp.
struct Writer<'a> {
    log: &'a ChangeLog,
    /// The values of the base table's partition key.
    keys: &'a [Vec<u8>],
    now_s: u32,
    rows: &'a mut Vec<LogRow>,
}

impl Writer<'_> {
    /// Adds the rows of one group, and merges it into `state`.
    fn group(&mut self, state: &mut Partition, part: &Partition, ttl_s: u32) {
        let mut after = Partition::default();
        if self.log.reads_before() {
            after = state.clone();
            after.merge(part, &self.log.base);
        }
        if !part.static_row.is_empty() {
            let rows = [state, &after].map(|partition| self.live_static(partition));
            self.row(None, &part.static_row, rows, ttl_s);
        }
        for ClusteringRow { key, row } in part.rows() {
            let rows = [state, &after].map(|partition| self.live_row(partition, key));
            self.row(Some(key), row, rows, ttl_s);
        }
        for deletion in part.range_tombstones().ranges() {
            self.bound(&deletion.range.start, [5, 6], Side::Before);
            self.bound(&deletion.range.end, [7, 8], Side::After);
        }
        if !part.tombstone.is_live() {
            self.begin(4, None);
        }
        *state = after;
    }

    /// Adds the rows for a changed row of the base table.
    fn row(
        &mut self,
        key: Option<&ClusteringKey>,
        change: &Row,
        [before, after]: [Option<Row>; 2],
        ttl_s: u32,
    ) {
        let options = self.log.options;
        let is_deletion = !change.deletion.is_live();
        let all = options.preimage == Preimage::Full || is_deletion;
        if let Some(before) = before.filter(|_| options.preimage != Preimage::Off) {
            self.begin(0, key);
            self.image(&before, |id| all || change.cell(id).is_some());
        }
        if is_deletion {
            self.begin(3, key);
        } else {
            self.begin(if change.liveness.is_none() { 1 } else { 2 }, key);
            if !options.keys_only {
                if ttl_s > 0 {
                    self.put(self.log.ttl, i64::from(ttl_s).to_be_bytes().to_vec());
                }
                self.delta(change);
            }
        }
        if let Some(after) = after.filter(|_| options.postimage && !is_deletion) {
            self.begin(9, key);
            self.image(&after, |_| true);
        }
    }

    /// Begins a row with an operation and the key of a base row. `None`: the partition key only.
    fn begin(&mut self, operation: u8, key: Option<&ClusteringPrefix>) {
        let mut values = BTreeMap::from([(self.log.operation, vec![operation])]);
        values.extend(self.log.partition_key.iter().copied().zip(self.keys.iter().cloned()));
        if let Some(key) = key {
            let clustering = self.log.clustering.iter().copied();
            values.extend(clustering.zip(key.values().map(<[u8]>::to_vec)));
        }
        self.rows.push(LogRow { values });
    }

    fn bound(&mut self, bound: &Position, [including, excluding]: [u8; 2], inclusive: Side) {
        let operation = if bound.side == inclusive { including } else { excluding };
        self.begin(operation, Some(&bound.prefix));
    }

    /// Sets a value of the row that was begun last.
    fn put(&mut self, column: ColumnId, value: Vec<u8>) {
        if let Some(row) = self.rows.last_mut() {
            row.values.insert(column, value);
        }
    }

    /// The written and deleted values of a row.
    fn delta(&mut self, change: &Row) {
        for column in &self.log.columns {
            match change.cell(column.base.id) {
                None => {}
                Some(ColumnData::Simple(cell)) if cell.is_tombstone() => self.put(column.deleted, vec![1]),
                Some(ColumnData::Simple(cell)) => self.put(column.value, cell.value.to_vec()),
                Some(ColumnData::Complex(complex)) => {
                    if !complex.deletion.is_live() {
                        self.put(column.deleted, vec![1]);
                    }
                    let (dead, written): (Vec<_>, Vec<_>) =
                        complex.cells.iter().partition(|one| one.cell.is_tombstone());
                    if !written.is_empty() {
                        self.put(column.value, collected(&column.base.ty, &written));
                    }
                    if let Some(elements) = column.deleted_elements.filter(|_| !dead.is_empty()) {
                        let mut set = CollectionBuilder::new();
                        dead.iter().for_each(|one| set.push(&one.path));
                        self.put(elements, set.finish());
                    }
                }
            }
        }
    }

    /// The values of a row at one time.
    fn image(&mut self, row: &Row, has: impl Fn(ColumnId) -> bool) {
        for column in self.log.columns.iter().filter(|column| has(column.base.id)) {
            match row.cell(column.base.id) {
                None => {}
                Some(ColumnData::Simple(cell)) => self.put(column.value, cell.value.to_vec()),
                Some(ColumnData::Complex(complex)) => {
                    let cells: Vec<&PathCell> = complex.cells.iter().collect();
                    self.put(column.value, collected(&column.base.ty, &cells));
                }
            }
        }
    }

    /// What a read shows of a row; `None` if there is no such row.
    fn live_row(&self, partition: &Partition, key: &ClusteringKey) -> Option<Row> {
        let schema = &*self.log.base;
        let mut row = partition.row(schema, key)?.clone();
        row.deletion = row.deletion.max(partition.tombstone_at(schema, key));
        let exists = {
            row.shadow(Tombstone::LIVE);
            row.is_live_at(self.now_s)
        };
        exists.then(|| self.live(row))
    }

    fn live_static(&self, partition: &Partition) -> Option<Row> {
        let mut row = partition.static_row.clone();
        row.shadow(partition.tombstone);
        row.is_live_at(self.now_s).then(|| self.live(row))
    }

    /// Removes deleted and expired data.
    fn live(&self, mut row: Row) -> Row {
        let now_s = self.now_s;
        row.retain_columns(|_, data| match data {
            ColumnData::Simple(cell) => cell.is_live_at(now_s),
            ColumnData::Complex(complex) => {
                complex.cells.retain(|one| one.cell.is_live_at(now_s));
                !complex.cells.is_empty()
            }
        });
        row
    }
}

/// The parts of a row by timestamp and TTL.
fn split(row: &Row) -> BTreeMap<Group, Row> {
    let mut parts: BTreeMap<Group, Row> = BTreeMap::new();
    let part = |parts: &mut BTreeMap<Group, Row>, group: Group, id: ColumnId, data: ColumnData| {
        parts.entry(group).or_default().push(id, data);
    };
    if !row.deletion.is_live() {
        parts.entry((row.deletion.timestamp_us, 0)).or_default().deletion = row.deletion;
    }
    let Liveness { timestamp_us, ttl_s, .. } = row.liveness;
    if !row.liveness.is_none() {
        parts.entry((timestamp_us, ttl_s)).or_default().liveness = row.liveness;
    }
    for (id, data) in row.cells() {
        match data {
            ColumnData::Simple(cell) => part(&mut parts, group_of(cell), *id, data.clone()),
            ColumnData::Complex(complex) => {
                for (group, complex) in split_complex(complex, &row.liveness) {
                    part(&mut parts, group, *id, ColumnData::Complex(Box::new(complex)));
                }
            }
        }
    }
    parts
}

fn group_of(cell: &Cell) -> Group {
    (cell.timestamp_us, cell.ttl())
}

/// The assignment of a whole collection deletes the earlier elements a microsecond before it writes the new
/// ones. The deletion is in the group of these, or of the row marker if there are none.
fn split_complex(complex: &ComplexCells, liveness: &Liveness) -> BTreeMap<Group, ComplexCells> {
    let mut parts: BTreeMap<Group, ComplexCells> = BTreeMap::new();
    for one in &complex.cells {
        parts.entry(group_of(&one.cell)).or_default().cells.push(one.clone());
    }
    if !complex.deletion.is_live() {
        let time_us = complex.deletion.timestamp_us;
        let follows = |(next_us, _): &Group| *next_us == time_us.saturating_add(1);
        let of_cells = parts.keys().copied().find(follows);
        let of_marker = Some((liveness.timestamp_us, liveness.ttl_s)).filter(|_| !liveness.is_none());
        let group = of_cells.or(of_marker.filter(follows)).unwrap_or((time_us, 0));
        parts.entry(group).or_default().deletion = complex.deletion;
    }
    parts
}

/// The value of the log for elements of a collection or UDT: frozen, a list as a map.
fn collected(ty: &CqlType, cells: &[&PathCell]) -> Vec<u8> {
    let mut builder = CollectionBuilder::new();
    match ty {
        CqlType::Set { .. } => {
            cells.iter().for_each(|one| builder.push(&one.path));
            builder.finish()
        }
        CqlType::Udt { user, .. } => {
            let field = |at: usize| {
                let path = i16::try_from(at).unwrap_or(i16::MAX).to_be_bytes();
                cells.iter().find(|one| one.path[..] == path).map(|one| &one.cell.value[..])
            };
            build_tuple((0..user.fields.len()).map(field))
        }
        _ => {
            for one in cells {
                builder.push(&one.path);
                builder.push(&one.cell.value);
            }
            builder.finish_map()
        }
    }
}

/// A UUID of version 1 with this time, distinguished from others of the same time by the random number.
fn time_uuid(timestamp_us: i64, random: u64) -> [u8; 16] {
    let ticks = timestamp_us.saturating_mul(10).saturating_add(UUID_EPOCH).max(0) as u64;
    let time = ticks & ((1 << 60) - 1);
    let high = (time << 32) | ((time >> 32) & 0xFFFF) << 16 | (time >> 48) | 0x1000;
    // The variant of RFC 4122, and the multicast bit which states that the node is not an address.
    let low = random & 0x3FFF_FFFF_FFFF_FFFF | 1 << 63 | 1 << 40;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    id
}

#[cfg(test)]
mod tests;
