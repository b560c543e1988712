//! Encoding of mutations, for the commit log and for messages between shards.
//!
//! `docs/formats/mutation.md` describes the layout. Columns are identified by id, so an old mutation is read
//! with the current schema; cells of dropped columns are omitted. Decoding is total: any bytes give a
//! mutation or a [`CodecError`], and memory is bounded by the input.

use std::fmt;
use std::sync::Arc;

use base::bytes::{Take, Truncated, put_vint_bytes};
use base::vint::{write_signed, write_unsigned};
use uuid::Uuid;

use crate::SmallBytes;
use crate::cell::Cell;
use crate::clustering::{ClusteringPrefix, ClusteringRange, Position, Side};
use crate::key::PartitionKey;
use crate::partition::Mutation;
use crate::range_tombstone::RangeTombstone;
use crate::row::{ClusteringRow, ColumnData, ComplexCells, Liveness, PathCell, Row};
use crate::schema::{ColumnId, ColumnKind, TableId, TableSchema};
use crate::tombstone::{NO_DELETION_TIME_S, Tombstone};

const VERSION: u8 = 1;

const PARTITION_TOMBSTONE: u8 = 0x01;
const STATIC_ROW: u8 = 0x02;
const RANGE_TOMBSTONES: u8 = 0x04;

const ROW_DELETION: u8 = 0x01;
const ROW_LIVENESS: u8 = 0x02;
const ROW_LIVENESS_EXPIRES: u8 = 0x04;

const CELL_TOMBSTONE: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;

/// The bytes are not a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError {
    /// Offset in the mutation.
    pub offset_bytes: usize,
    /// The error, for people.
    pub detail: String,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a mutation: at byte {}: {}", self.offset_bytes, self.detail)
    }
}

impl std::error::Error for CodecError {}

impl From<Truncated> for CodecError {
    fn from(error: Truncated) -> Self {
        Self { offset_bytes: error.offset_bytes, detail: error.to_string() }
    }
}

/// Appends `mutation` to `out`.
pub fn encode(mutation: &Mutation, out: &mut Vec<u8>) {
    let partition = &mutation.partition;
    out.push(VERSION);
    out.extend_from_slice(mutation.schema.id.as_bytes());
    put_vint_bytes(out, mutation.key.bytes());
    let mut flags = 0;
    if !partition.tombstone.is_live() {
        flags |= PARTITION_TOMBSTONE;
    }
    if !partition.static_row.is_empty() {
        flags |= STATIC_ROW;
    }
    if !partition.range_tombstones().is_empty() {
        flags |= RANGE_TOMBSTONES;
    }
    out.push(flags);
    // Most timestamps of a mutation are equal, so they are written as differences from one of them.
    let base_us = any_timestamp(mutation);
    out.extend_from_slice(&base_us.to_be_bytes());
    let mut writer = Writer { out, base_us };
    if flags & PARTITION_TOMBSTONE != 0 {
        writer.tombstone(partition.tombstone);
    }
    if flags & STATIC_ROW != 0 {
        writer.row(&partition.static_row);
    }
    if flags & RANGE_TOMBSTONES != 0 {
        write_unsigned(writer.out, partition.range_tombstones().ranges().count() as u64);
        for deletion in partition.range_tombstones().ranges() {
            writer.position(&deletion.range.start);
            writer.position(&deletion.range.end);
            writer.tombstone(deletion.tombstone);
        }
    }
    write_unsigned(writer.out, partition.rows().len() as u64);
    for row in partition.rows() {
        put_vint_bytes(writer.out, row.key.as_bytes());
        writer.row(&row.row);
    }
}

fn any_timestamp(mutation: &Mutation) -> i64 {
    let partition = &mutation.partition;
    let row = partition.rows().first().map_or(&partition.static_row, |row| &row.row);
    if !row.liveness.is_none() {
        return row.liveness.timestamp_us;
    }
    match row.cells().first() {
        Some((_, ColumnData::Simple(cell))) => cell.timestamp_us,
        Some((_, ColumnData::Complex(complex))) => complex.cells.first().map_or(0, |e| e.cell.timestamp_us),
        None => 0,
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    base_us: i64,
}

impl Writer<'_> {
    fn timestamp(&mut self, timestamp_us: i64) {
        write_signed(self.out, timestamp_us.wrapping_sub(self.base_us));
    }

    fn tombstone(&mut self, tombstone: Tombstone) {
        self.timestamp(tombstone.timestamp_us);
        write_unsigned(self.out, u64::from(tombstone.deletion_time_s));
    }

    fn position(&mut self, position: &Position) {
        self.out.push(if position.side == Side::Before { 0 } else { 1 });
        put_vint_bytes(self.out, position.prefix.as_bytes());
    }

    fn row(&mut self, row: &Row) {
        let mut flags = 0;
        if !row.deletion.is_live() {
            flags |= ROW_DELETION;
        }
        if !row.liveness.is_none() {
            flags |= ROW_LIVENESS;
            if row.liveness.is_expiring() {
                flags |= ROW_LIVENESS_EXPIRES;
            }
        }
        self.out.push(flags);
        if flags & ROW_DELETION != 0 {
            self.tombstone(row.deletion);
        }
        if flags & ROW_LIVENESS != 0 {
            self.timestamp(row.liveness.timestamp_us);
        }
        if flags & ROW_LIVENESS_EXPIRES != 0 {
            write_unsigned(self.out, u64::from(row.liveness.ttl_s));
            write_unsigned(self.out, u64::from(row.liveness.local_expiration_s));
        }
        write_unsigned(self.out, row.cells().len() as u64);
        for (id, data) in row.cells() {
            match data {
                ColumnData::Simple(cell) => {
                    write_unsigned(self.out, u64::from(id.0) << 1);
                    self.cell(cell);
                }
                ColumnData::Complex(complex) => {
                    write_unsigned(self.out, u64::from(id.0) << 1 | 1);
                    self.out.push(u8::from(!complex.deletion.is_live()));
                    if !complex.deletion.is_live() {
                        self.tombstone(complex.deletion);
                    }
                    write_unsigned(self.out, complex.cells.len() as u64);
                    for element in &complex.cells {
                        put_vint_bytes(self.out, &element.path);
                        self.cell(&element.cell);
                    }
                }
            }
        }
    }

    fn cell(&mut self, cell: &Cell) {
        if cell.is_tombstone() {
            self.out.push(CELL_TOMBSTONE);
            self.timestamp(cell.timestamp_us);
            write_unsigned(self.out, u64::from(cell.local_deletion_time_s));
            return;
        }
        let expired = if cell.is_expired() { CELL_TOMBSTONE } else { 0 };
        self.out.push(if cell.is_expiring() { CELL_EXPIRING | expired } else { 0 });
        self.timestamp(cell.timestamp_us);
        if cell.is_expiring() {
            write_unsigned(self.out, u64::from(cell.ttl()));
            write_unsigned(self.out, u64::from(cell.local_deletion_time_s));
        }
        if cell.is_expired() {
            return;
        }
        put_vint_bytes(self.out, &cell.value);
    }
}

/// The table of an encoded mutation, from which the caller finds the schema.
pub fn table_of(bytes: &[u8]) -> Result<TableId, CodecError> {
    header(&mut Take::new(bytes))
}

/// The partition key of an encoded mutation.
pub fn key_of(bytes: &[u8]) -> Result<PartitionKey, CodecError> {
    let mut take = Take::new(bytes);
    header(&mut take)?;
    Ok(PartitionKey::new(take.vint_bytes()?))
}

fn header(take: &mut Take<'_>) -> Result<TableId, CodecError> {
    match take.u8()? {
        VERSION => Ok(Uuid::from_bytes(take.array()?)),
        version => {
            let detail = format!("version {version}; this build reads {VERSION}");
            Err(CodecError { offset_bytes: 0, detail })
        }
    }
}

/// Decodes a mutation of [`encode`]. `schema` is the current schema of the table that [`table_of`] returns.
pub fn decode(bytes: &[u8], schema: &Arc<TableSchema>) -> Result<Mutation, CodecError> {
    let mut take = Take::new(bytes);
    let table = header(&mut take)?;
    assert_eq!(table, schema.id, "the caller found the schema by table_of");
    let key = PartitionKey::new(take.vint_bytes()?);
    let flags = take.u8()?;
    let base_us = take.i64()?;
    let mut reader = Reader { take, base_us, schema };
    let mut mutation = Mutation::new(schema.clone(), key);
    let partition = &mut mutation.partition;
    if flags & PARTITION_TOMBSTONE != 0 {
        partition.tombstone = reader.tombstone()?;
    }
    if flags & STATIC_ROW != 0 {
        partition.static_row = reader.row(ColumnKind::Static)?;
    }
    if flags & RANGE_TOMBSTONES != 0 {
        for _ in 0..reader.take.vint()? {
            let range = ClusteringRange { start: reader.position()?, end: reader.position()? };
            let tombstone = reader.tombstone()?;
            partition.delete_range(schema, &RangeTombstone { range, tombstone });
        }
    }
    for _ in 0..reader.take.vint()? {
        let mut key = reader.prefix()?;
        // Missing values are null. A table has such keys also after DROP COMPACT STORAGE.
        if !key.is_empty() {
            key = key.padded(schema.clustering.len());
        }
        if key.len() != schema.clustering.len() {
            return reader.fail(format!(
                "a row key of {} values for {} columns",
                key.len(),
                schema.clustering.len()
            ));
        }
        let row = reader.row(ColumnKind::Regular)?;
        if partition.rows().last().is_some_and(|last| schema.compare_keys(&last.key, &key).is_ge()) {
            return reader.fail("rows do not rise".to_string());
        }
        partition.push_row(schema, ClusteringRow { key, row });
    }
    if !reader.take.is_empty() {
        let extra = reader.take.remaining();
        return reader.fail(format!("{extra} bytes too many"));
    }
    Ok(mutation)
}

struct Reader<'a> {
    take: Take<'a>,
    base_us: i64,
    schema: &'a TableSchema,
}

impl Reader<'_> {
    fn fail<T>(&self, detail: String) -> Result<T, CodecError> {
        Err(CodecError { offset_bytes: self.take.offset(), detail })
    }

    fn timestamp(&mut self) -> Result<i64, CodecError> {
        Ok(self.take.vint_signed()?.wrapping_add(self.base_us))
    }

    fn seconds(&mut self) -> Result<u32, CodecError> {
        let seconds = self.take.vint()?;
        match u32::try_from(seconds) {
            Ok(seconds) => Ok(seconds),
            Err(_) => self.fail(format!("a time of {seconds} s")),
        }
    }

    /// The TTL of a cell that has its value, or of a marker. With 0 it would be a tombstone that has a value,
    /// and the highest bit marks expired cells in memory.
    fn ttl(&mut self) -> Result<u32, CodecError> {
        match self.seconds()? {
            ttl_s @ 1..=0x7fff_ffff => Ok(ttl_s),
            ttl_s => self.fail(format!("a TTL of {ttl_s} s")),
        }
    }

    fn tombstone(&mut self) -> Result<Tombstone, CodecError> {
        Ok(Tombstone::new(self.timestamp()?, self.seconds()?))
    }

    fn prefix(&mut self) -> Result<ClusteringPrefix, CodecError> {
        let bytes = self.take.vint_bytes()?;
        let prefix = ClusteringPrefix::from_bytes(bytes)?;
        if prefix.len() > self.schema.clustering.len() {
            return self.fail(format!("{} clustering values", prefix.len()));
        }
        Ok(prefix)
    }

    fn position(&mut self) -> Result<Position, CodecError> {
        let side = match self.take.u8()? {
            0 => Side::Before,
            1 => Side::After,
            side => return self.fail(format!("side {side}")),
        };
        Ok(Position { prefix: self.prefix()?, side })
    }

    fn row(&mut self, kind: ColumnKind) -> Result<Row, CodecError> {
        let flags = self.take.u8()?;
        let mut row = Row::new();
        if flags & ROW_DELETION != 0 {
            row.deletion = self.tombstone()?;
        }
        if flags & ROW_LIVENESS != 0 {
            row.liveness = Liveness::new(self.timestamp()?);
        }
        if flags & ROW_LIVENESS_EXPIRES != 0 {
            if row.liveness.is_none() {
                return self.fail("an expiry without a marker".to_string());
            }
            row.liveness.ttl_s = self.ttl()?;
            row.liveness.local_expiration_s = self.seconds()?;
        }
        let mut last = None;
        for _ in 0..self.take.vint()? {
            let tag = self.take.vint()?;
            let Ok(id) = u32::try_from(tag >> 1).map(ColumnId) else {
                return self.fail(format!("column id {}", tag >> 1));
            };
            if last.is_some_and(|last| last >= id) {
                return self.fail("column ids do not rise".to_string());
            }
            last = Some(id);
            let is_complex = tag & 1 != 0;
            let data = if is_complex {
                ColumnData::Complex(Box::new(self.complex(id)?))
            } else {
                ColumnData::Simple(self.cell()?)
            };
            match self.schema.column(id) {
                Some(column) if column.is_complex() != is_complex || column.kind != kind => {
                    return self.fail(format!("column {} is of another kind", column.name));
                }
                Some(_) => row.push(id, data),
                // The column was dropped after the write.
                None => {}
            }
        }
        Ok(row)
    }

    fn complex(&mut self, id: ColumnId) -> Result<ComplexCells, CodecError> {
        let mut complex = ComplexCells::default();
        if self.take.u8()? != 0 {
            complex.deletion = self.tombstone()?;
        }
        let column = self.schema.column(id);
        for _ in 0..self.take.vint()? {
            let path = SmallBytes::from(self.take.vint_bytes()?);
            let cell = self.cell()?;
            if let (Some(column), Some(last)) = (column, complex.cells.last()) {
                let last: &PathCell = last;
                if self.schema.compare_paths(column, &last.path, &path).is_ge() {
                    return self.fail("elements do not rise".to_string());
                }
            }
            complex.cells.push(PathCell { path, cell });
        }
        Ok(complex)
    }

    fn cell(&mut self) -> Result<Cell, CodecError> {
        let flags = self.take.u8()?;
        let timestamp_us = self.timestamp()?;
        if flags & CELL_TOMBSTONE != 0 {
            return Ok(if flags & CELL_EXPIRING != 0 {
                Cell::expired(timestamp_us, self.seconds()?, self.seconds()?)
            } else {
                Cell::tombstone(timestamp_us, self.seconds()?)
            });
        }
        let (mut ttl_s, mut local_deletion_time_s) = (0, NO_DELETION_TIME_S);
        if flags & CELL_EXPIRING != 0 {
            ttl_s = self.ttl()?;
            local_deletion_time_s = self.seconds()?;
        }
        let value = self.take.vint_bytes()?.into();
        Ok(Cell { timestamp_us, local_deletion_time_s, ttl_s, value })
    }
}
