//! RESULT rows: metadata that are encoded once, and cells that go straight into the output.
//!
//! [`ResultMetadata`] holds the column specifications as bytes, for each version, ready to be copied in front
//! of every page. [`RowsWriter`] appends cells as they are read; the count of rows, the paging state and the
//! length of the body are filled in at the end, when they are known.

use std::sync::Arc;

use base::murmur3::hash128;

use super::data_type::put_type;
use super::reply::kind;
use super::wire::{put_bytes, put_i32, put_short_bytes, put_string};
use super::{ColumnSpec, Opcode, ProtocolVersion, Reply};

pub(super) mod flag {
    pub const GLOBAL_TABLE: u32 = 0x01;
    pub const HAS_MORE_PAGES: u32 = 0x02;
    pub const NO_METADATA: u32 = 0x04;
    pub const METADATA_CHANGED: u32 = 0x08;
}

/// Columns of a result or bind markers of a statement, as bytes; a clone is cheap.
#[derive(Clone, Debug)]
pub struct ResultMetadata {
    columns_count: u32,
    of_one_table: bool,
    id: [u8; 16],
    /// For v3, v4, v5; they share their bytes where types have the same number.
    encoded: [Arc<[u8]>; 3],
}

impl ResultMetadata {
    pub fn new(columns: &[ColumnSpec]) -> Self {
        let of_one_table = ColumnSpec::are_of_one_table(columns);
        let mut encoded: [Arc<[u8]>; 3] =
            ProtocolVersion::ALL.map(|version| encode_columns(columns, of_one_table, version).into());
        for older in 0..2 {
            if encoded[older] == encoded[2] {
                encoded[older] = Arc::clone(&encoded[2]);
            }
        }
        let (high, low) = hash128(&encoded[2]);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        Self { columns_count: columns.len() as u32, of_one_table, id, encoded }
    }

    /// Of a statement that gives no rows.
    pub fn none() -> Self {
        Self::new(&[])
    }

    pub fn columns_count(&self) -> usize {
        self.columns_count as usize
    }

    /// v5's result metadata id: the same for the same columns, on every node and after every start.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    pub(super) fn encoded(&self, version: ProtocolVersion) -> &[u8] {
        &self.encoded[usize::from(version.number() - ProtocolVersion::V3.number())]
    }

    pub(super) fn full_flags(&self) -> u32 {
        if self.of_one_table { flag::GLOBAL_TABLE } else { 0 }
    }

    /// Statements without rows say so.
    pub(super) fn flags_in_prepared(&self) -> u32 {
        if self.columns_count == 0 { flag::NO_METADATA } else { self.full_flags() }
    }
}

fn encode_columns(columns: &[ColumnSpec], of_one_table: bool, version: ProtocolVersion) -> Vec<u8> {
    let mut out = Vec::new();
    if of_one_table {
        put_string(&mut out, &columns[0].keyspace);
        put_string(&mut out, &columns[0].table);
    }
    for column in columns {
        if !of_one_table {
            put_string(&mut out, &column.keyspace);
            put_string(&mut out, &column.table);
        }
        put_string(&mut out, &column.name);
        put_type(&mut out, &column.column_type, version);
    }
    out
}

/// How much of the metadata a page of rows carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMetadata {
    Full,
    /// NO_METADATA: the client asked to skip them and knows the right ones.
    Skip,
    /// v5: the client's result metadata id is not this result's. Before v5 the same as `Full`.
    Changed,
}

impl SendMetadata {
    /// What EXECUTE is answered with, by Cassandra's rule: in v5 the ids decide; before, `skip_metadata` is
    /// honoured if the columns are those that PREPARE told (`prepared`).
    ///
    /// `client_id` is [`super::Execute::result_metadata_id`].
    pub fn for_execute(
        version: ProtocolVersion,
        skip_metadata: bool,
        client_id: Option<&[u8]>,
        prepared: &ResultMetadata,
        current: &ResultMetadata,
    ) -> Self {
        let known = match client_id {
            Some(id) if version >= ProtocolVersion::V5 => id == current.id,
            _ => prepared.id == current.id,
        };
        match (known, skip_metadata) {
            (true, true) => Self::Skip,
            (true, false) => Self::Full,
            (false, _) if version >= ProtocolVersion::V5 => Self::Changed,
            (false, _) => Self::Full,
        }
    }
}

/// A page of rows being written. Dropping it without [`Self::finish`] leaves half a message in the output;
/// [`Self::abandon`] takes it back.
#[must_use = "finish() completes the message"]
#[derive(Debug)]
pub struct RowsWriter<'o, 'r> {
    out: &'o mut Vec<u8>,
    reply: Reply<'r>,
    start: usize,
    /// Where the metadata's flags are; the paging state goes eight bytes further.
    flags_at: usize,
    count_at: usize,
    rows: i32,
}

impl<'a> Reply<'a> {
    /// Begins a page. Write `metadata.columns_count()` cells for each row, then [`RowsWriter::end_row`].
    pub fn rows<'o>(
        &self,
        out: &'o mut Vec<u8>,
        metadata: &ResultMetadata,
        send: SendMetadata,
    ) -> RowsWriter<'o, 'a> {
        let start = self.begin(out, Opcode::Result);
        put_i32(out, kind::ROWS);
        let flags_at = out.len();
        let changed = send == SendMetadata::Changed && self.version >= ProtocolVersion::V5;
        let flags = match send {
            SendMetadata::Skip => flag::NO_METADATA,
            SendMetadata::Full | SendMetadata::Changed => {
                metadata.full_flags() | if changed { flag::METADATA_CHANGED } else { 0 }
            }
        };
        out.extend_from_slice(&flags.to_be_bytes());
        put_i32(out, metadata.columns_count as i32);
        if changed {
            put_short_bytes(out, &metadata.id);
        }
        if send != SendMetadata::Skip {
            out.extend_from_slice(metadata.encoded(self.version));
        }
        let count_at = out.len();
        put_i32(out, 0);
        RowsWriter { out, reply: *self, start, flags_at, count_at, rows: 0 }
    }
}

impl RowsWriter<'_, '_> {
    /// Appends a cell; `None` is null.
    #[inline]
    pub fn cell(&mut self, value: Option<&[u8]>) {
        put_bytes(self.out, value);
    }

    /// Appends a cell whose bytes `write` appends; for values that are built and not copied.
    #[inline]
    pub fn cell_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        put_i32(self.out, 0);
        write(self.out);
        let len = (self.out.len() - at - 4) as i32;
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Appends `count` rows whose cells have been written before, each as [`Self::cell`] does it.
    pub fn encoded_rows(&mut self, cells: &[u8], count: u32) {
        self.out.extend_from_slice(cells);
        self.rows += count as i32;
    }

    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    pub fn rows_count(&self) -> i32 {
        self.rows
    }

    /// Bytes of the message so far.
    pub fn len_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Takes everything back: the output is what it was before the page began.
    pub fn abandon(self) {
        self.out.truncate(self.start);
    }

    /// Completes the message. `paging_state`: there are more pages, and the next one begins there.
    pub fn finish(self, paging_state: Option<&[u8]>) {
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&self.rows.to_be_bytes());
        if let Some(state) = paging_state {
            self.out[self.flags_at + 3] |= flag::HAS_MORE_PAGES as u8;
            let at = self.flags_at + 8;
            let mut bytes = Vec::with_capacity(4 + state.len());
            put_bytes(&mut bytes, Some(state));
            self.out.splice(at..at, bytes);
        }
        self.reply.end(self.out, self.start);
    }
}
