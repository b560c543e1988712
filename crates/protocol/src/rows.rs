//! RESULT rows: metadata that is encoded once, and cells that are written directly into the output.
//!
//! [`ResultMetadata`] holds the encoded column specifications of each version, ready to be copied to the
//! start of every page. [`RowsWriter`] appends cells as they are read. It fills in the number of rows, the
//! paging state and the length of the body at the end, when they are known.

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

/// Encoded columns of a result or bind markers of a statement; cheap to clone.
#[derive(Clone, Debug)]
pub struct ResultMetadata {
    columns_count: u32,
    of_one_table: bool,
    id: [u8; 16],
    /// For v3, v4 and v5. Versions in which the types have the same numbers share their bytes.
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

    /// Metadata of a statement that returns no rows.
    pub fn none() -> Self {
        Self::new(&[])
    }

    pub fn columns_count(&self) -> usize {
        self.columns_count as usize
    }

    /// v5's result metadata id. Equal columns have the same id on every node and after every restart.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    pub(super) fn encoded(&self, version: ProtocolVersion) -> &[u8] {
        &self.encoded[usize::from(version.number() - ProtocolVersion::V3.number())]
    }

    pub(super) fn full_flags(&self) -> u32 {
        if self.of_one_table { flag::GLOBAL_TABLE } else { 0 }
    }

    /// The flags of the result metadata in PREPARE's answer: NO_METADATA for statements that return no rows.
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

/// The amount of metadata that a page of rows carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMetadata {
    Full,
    /// NO_METADATA: the client asked to skip the metadata and knows the current columns.
    Skip,
    /// v5: the client's result metadata id differs from this result's. Before v5 the same as `Full`.
    Changed,
}

impl SendMetadata {
    /// The metadata to send in answer to EXECUTE, by Cassandra's rule: in v5 the ids decide. Before v5,
    /// `skip_metadata` is honoured if the columns are still those returned by PREPARE (`prepared`).
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

/// Writes a page of rows. Dropping the writer without [`Self::finish`] leaves an incomplete message in the
/// output; [`Self::abandon`] removes it.
#[must_use = "finish() completes the message"]
#[derive(Debug)]
pub struct RowsWriter<'o, 'r> {
    out: &'o mut Vec<u8>,
    reply: Reply<'r>,
    start: usize,
    /// Offset of the metadata's flags. The paging state begins eight bytes after it.
    flags_at: usize,
    count_at: usize,
    rows: i32,
}

impl<'a> Reply<'a> {
    /// Begins a page. Write `metadata.columns_count()` cells for each row, then call [`RowsWriter::end_row`].
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

    /// Appends a cell whose bytes `write` appends. For values that are built rather than copied.
    #[inline]
    pub fn cell_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        put_i32(self.out, 0);
        write(self.out);
        let len = (self.out.len() - at - 4) as i32;
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Appends `count` rows whose cells were encoded earlier, in the format of [`Self::cell`].
    pub fn encoded_rows<'c>(&mut self, cells: impl Iterator<Item = &'c [u8]>, count: u32) {
        cells.for_each(|block| self.out.extend_from_slice(block));
        self.rows += count as i32;
    }

    /// Completes the beginning of a streamed message, up to the cells. `count` rows with `cells_bytes` bytes
    /// of cells follow; see [`super::Outbound::streamed`].
    pub fn finish_head(mut self, cells_bytes: usize, count: u32) {
        self.rows += count as i32;
        let (reply, start) = (self.reply, self.start);
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&self.rows.to_be_bytes());
        reply.end_before(self.out, start, cells_bytes);
    }

    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    pub fn rows_count(&self) -> i32 {
        self.rows
    }

    /// Bytes of the message written so far.
    pub fn len_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Removes the message: the output is as it was before the page began.
    pub fn abandon(self) {
        self.out.truncate(self.start);
    }

    /// Completes the message. `paging_state` is the position of the next page; `None` on the last page.
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
