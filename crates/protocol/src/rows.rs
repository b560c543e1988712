//! RESULT rows: cells that are written directly into the output.
//!
//! [`RowsWriter`] appends cells as they are read. It fills in the number of rows, the paging state and the
//! length of the body at the end, when they are known.

use super::metadata::flag;
use super::reply::kind;
use super::wire::{put_bytes, put_i32, put_short_bytes};
use super::{Opcode, ProtocolVersion, Reply, ResultMetadata, SendMetadata};

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
        put_i32(out, metadata.columns_count() as i32);
        if changed {
            put_short_bytes(out, metadata.id());
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

    /// Ends a row, after one call of a cell method for each column.
    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// The number of ended rows.
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
