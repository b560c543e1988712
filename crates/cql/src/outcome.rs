//! Outcome of executing a statement, independent of the version of the protocol.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{Blocks, ResultMetadata, SchemaChange};

use crate::ResultCharge;

/// Parameters of an execution, besides the bound values.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Clock of the request: microseconds since the Unix epoch.
    pub now_us: i64,
    /// The client's timestamp in microseconds, for writes without USING TIMESTAMP.
    pub timestamp_us: Option<i64>,
    /// Time for expiry and for new tombstones, if the client sent one: seconds since the Unix epoch.
    pub now_s: Option<u32>,
    /// Page size in rows; `None` if the client does not page.
    pub page_rows: Option<u32>,
    /// The paging state at which the last page ended.
    pub paging_state: Option<&'a [u8]>,
}

impl Execution<'_> {
    /// Returns the time in seconds since the Unix epoch. Data that has expired by then is not read.
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

/// Approximate size of the blocks that hold a result's cells, so that a large result is never copied as a
/// whole.
const BLOCK_BYTES: usize = 256 << 10;
/// From this size on, a cell of unknown size starts a new block, so that a block seldom has to grow.
const BEGIN_BLOCK_BYTES: usize = BLOCK_BYTES / 8 * 7;

/// Rows in the encoding of the protocol: each cell is a length followed by that number of bytes, or -1 for
/// null.
#[derive(Clone, Debug)]
pub struct ResultRows {
    pub columns: Arc<ResultMetadata>,
    /// Full blocks. A cell never spans two blocks.
    full: Vec<Vec<u8>>,
    /// Length of the full blocks.
    full_bytes: usize,
    /// Capacity of the full blocks.
    full_memory_bytes: usize,
    /// The block that is being filled.
    cells: Vec<u8>,
    count: u32,
    /// Position at which the next page starts; `None` if this page is the last.
    pub paging_state: Option<Vec<u8>>,
    /// Memory charged for the result while it lives.
    pub charge: ResultCharge,
}

impl ResultRows {
    pub fn new(columns: Arc<ResultMetadata>) -> Self {
        Self {
            columns,
            full: Vec::new(),
            full_bytes: 0,
            full_memory_bytes: 0,
            cells: Vec::new(),
            count: 0,
            paging_state: None,
            charge: ResultCharge::default(),
        }
    }

    /// Appends a cell. `None` is null.
    #[inline]
    pub fn cell(&mut self, value: Option<&[u8]>) {
        let bytes = value.map_or(4, |bytes| bytes.len() + 4);
        if self.cells.len() + bytes > BLOCK_BYTES {
            self.close_block(bytes);
        }
        match value {
            Some(bytes) => {
                self.cells.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                self.cells.extend_from_slice(bytes);
            }
            None => self.cells.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }

    /// Appends a cell whose bytes `write` appends, for values that are built rather than copied.
    #[inline]
    pub fn cell_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.cells.len() >= BEGIN_BLOCK_BYTES {
            self.close_block(0);
        }
        let at = self.cells.len();
        self.cells.extend_from_slice(&[0; 4]);
        write(&mut self.cells);
        let len = (self.cells.len() - at - 4) as i32;
        self.cells[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Starts a new block with a capacity of at least `bytes`.
    #[cold]
    fn close_block(&mut self, bytes: usize) {
        let block = Vec::with_capacity(bytes.max(BLOCK_BYTES));
        let full = std::mem::replace(&mut self.cells, block);
        if !full.is_empty() {
            self.full_bytes += full.len();
            self.full_memory_bytes += full.capacity();
            self.full.push(full);
        }
    }

    /// Ends a row. The row must have one cell for each column.
    #[inline]
    pub fn end_row(&mut self) {
        self.count += 1;
    }

    /// Number of rows.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Memory of the cells in bytes, including unused capacity.
    pub fn memory_bytes(&self) -> u64 {
        (self.full_memory_bytes + self.cells.capacity()) as u64
    }

    /// Length of all cells in bytes.
    pub fn cells_bytes(&self) -> usize {
        self.full_bytes + self.cells.len()
    }

    /// The bytes of all cells, block by block.
    pub fn cells(&self) -> impl Iterator<Item = &[u8]> {
        self.full.iter().map(Vec::as_slice).chain([self.cells.as_slice()])
    }

    /// The bytes of all cells in one slice, for small results.
    pub fn joined_cells(&self) -> Cow<'_, [u8]> {
        match self.full.is_empty() {
            true => Cow::Borrowed(&self.cells),
            false => Cow::Owned(self.cells().collect::<Vec<_>>().concat()),
        }
    }

    /// Converts the cells to blocks for sending. The memory of each block is released once the block is sent.
    pub fn into_blocks(self) -> CellBlocks {
        let left_bytes = self.cells_bytes();
        let memory_bytes = self.memory_bytes();
        let Self { full, cells, charge, .. } = self;
        let blocks = full.into_iter().chain((!cells.is_empty()).then_some(cells)).collect();
        CellBlocks { blocks, left_bytes, memory_bytes, given_bytes: 0, charge }
    }
}

/// The cells of a large result that is being sent to the client.
#[derive(Debug)]
pub struct CellBlocks {
    blocks: VecDeque<Vec<u8>>,
    left_bytes: usize,
    /// Memory in bytes of the remaining blocks and of the block that was returned last.
    memory_bytes: u64,
    given_bytes: u64,
    charge: ResultCharge,
}

impl Blocks for CellBlocks {
    fn next_block(&mut self) -> Option<Vec<u8>> {
        self.memory_bytes -= std::mem::take(&mut self.given_bytes);
        self.charge.shrink_to(self.memory_bytes);
        let block = self.blocks.pop_front()?;
        self.given_bytes = block.capacity() as u64;
        self.left_bytes -= block.len();
        Some(block)
    }

    fn left_bytes(&self) -> usize {
        self.left_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Growth, ResultMemory};

    #[test]
    fn cells_lie_in_blocks_and_leave_block_by_block() {
        let memory = ResultMemory::new(8 << 20);
        let mut rows = ResultRows::new(Arc::new(ResultMetadata::none()));
        rows.charge = ResultCharge::new(Some(memory.clone()));
        let mut expected = vec![];
        for number in 0..3000u32 {
            let value = vec![number as u8; number as usize];
            match number % 3 {
                0 => rows.cell(None),
                1 => rows.cell(Some(&value)),
                _ => rows.cell_with(|out| out.extend_from_slice(&value)),
            }
            match number % 3 {
                0 => expected.extend_from_slice(&(-1i32).to_be_bytes()),
                _ => {
                    expected.extend_from_slice(&number.to_be_bytes());
                    expected.extend_from_slice(&value);
                }
            }
        }
        let large = vec![9; 3 * BLOCK_BYTES];
        rows.cell(Some(&large));
        expected.extend_from_slice(&(large.len() as i32).to_be_bytes());
        expected.extend_from_slice(&large);
        rows.cell(Some(b"last"));
        expected.extend_from_slice(b"\0\0\0\x04last");
        assert_eq!(rows.cells_bytes(), expected.len());
        assert!(rows.joined_cells() == expected, "the same bytes");
        assert!(rows.memory_bytes() < expected.len() as u64 * 5 / 4 + BLOCK_BYTES as u64);
        assert_eq!(rows.charge.grow_unpaged(rows.memory_bytes()), Growth::Fits);
        rows.charge.settle(rows.memory_bytes());
        assert_eq!(memory.large_bytes(), rows.memory_bytes());
        let mut blocks = rows.into_blocks();
        let (mut sent, mut reserved) = (vec![], memory.large_bytes());
        while let Some(block) = blocks.next_block() {
            sent.extend_from_slice(&block);
            assert_eq!(blocks.left_bytes(), expected.len() - sent.len());
            assert!(memory.large_bytes() <= reserved);
            reserved = memory.large_bytes();
        }
        assert!(sent == expected, "the same bytes");
        assert_eq!(memory.large_bytes(), 0);
    }
}
