//! What carrying out a statement gives, before it is an answer in some version of the protocol.

use std::sync::Arc;

use crate::ResultCharge;
use crate::protocol::{ResultMetadata, SchemaChange};

/// What a statement was carried out with, besides its bound values.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// The clock of the request: microseconds since the Unix epoch.
    pub now_us: i64,
    /// The client's timestamp, for writes without USING TIMESTAMP.
    pub timestamp_us: Option<i64>,
    /// "Now" for expiry and new tombstones if the client sent one: seconds since the epoch.
    pub now_s: Option<u32>,
    /// Rows of a page; `None`: the client wants no paging.
    pub page_rows: Option<u32>,
    /// What the last page ended with.
    pub paging_state: Option<&'a [u8]>,
}

impl Execution<'_> {
    /// Seconds since the epoch: what has expired by then is not there.
    pub fn now_s(&self) -> u32 {
        self.now_s.unwrap_or_else(|| u32::try_from(self.now_us / 1_000_000).unwrap_or(0))
    }
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Void,
    Rows(ResultRows),
    SetKeyspace(String),
    SchemaChange(SchemaChange),
}

/// Rows as the protocol has them: of each row its cells, each a length and that many bytes, or -1 for null.
#[derive(Clone, Debug)]
pub struct ResultRows {
    pub columns: Arc<ResultMetadata>,
    cells: Vec<u8>,
    count: u32,
    /// There are more pages, and the next one begins here.
    pub paging_state: Option<Vec<u8>>,
    /// What it is charged, as long as it lives.
    pub charge: ResultCharge,
}

impl ResultRows {
    pub fn new(columns: Arc<ResultMetadata>) -> Self {
        Self { columns, cells: Vec::new(), count: 0, paging_state: None, charge: ResultCharge::default() }
    }

    /// Appends a cell; `None` is null.
    #[inline]
    pub fn cell(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.cells.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                self.cells.extend_from_slice(bytes);
            }
            None => self.cells.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }

    /// Appends a cell whose bytes `write` appends; for values that are built and not copied.
    #[inline]
    pub fn cell_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.cells.len();
        self.cells.extend_from_slice(&[0; 4]);
        write(&mut self.cells);
        let len = (self.cells.len() - at - 4) as i32;
        self.cells[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// The row is complete: it has as many cells as there are columns.
    #[inline]
    pub fn end_row(&mut self) {
        self.count += 1;
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// What the cells take in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.cells.capacity() as u64
    }

    /// Bytes of all cells.
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }
}
