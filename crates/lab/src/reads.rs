//! The cost of reads: SSTables opened, and bytes read from disk.
//!
//! A read of a row opens the SSTables whose filter does not rule out its partition: those that contain it,
//! and by mistake `bloom_filter_fp_chance` of those whose key range contains it. A read of the latest rows of
//! a partition also skips the SSTables whose clustering range, which follows the time, does not meet the
//! span. Of an opened SSTable the read fetches the chunks that contain its bytes and a page of the index.

use crate::sketch::{RowId, has_partition};
use crate::store::Store;
use crate::workload::Table;

/// Bytes of the index that a read without cached index fetches from an SSTable
/// (`bench/results/chunks.ndjson`).
pub const INDEX_BYTES: f64 = 5600.0;

/// What one read costs, on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCost {
    pub sstables: f64,
    /// Bytes from disk of a read without any cache.
    pub bytes: f64,
    /// The fraction of the reads that open at most one SSTable.
    pub single: f64,
}

/// Bytes of Data.db on disk that are fetched for `bytes` of rows: whole chunks, of which a piece of data at a
/// random position touches `1 + bytes / chunk`.
pub fn chunk_bytes(table: &Table, bytes: f64) -> f64 {
    let chunk = table.chunk_length.0;
    table.disk_ratio.min(1.0) * chunk * (1.0 + (bytes - 1.0).max(0.0) / chunk)
}

/// The mean cost of reading `picks`. `since_us`: only rows written since then are read.
pub fn cost(store: &Store, table: &Table, picks: &[RowId], since_us: Option<i64>) -> ReadCost {
    let (mut sstables, mut single) = (0.0, 0.0);
    let sstable_bytes = chunk_bytes(table, table.row_bytes.0) + INDEX_BYTES;
    for pick in picks {
        let partition = pick.partition();
        let mut opened = 0.0;
        for (view, content) in store.iter() {
            if content.first().partition() > partition || content.last().partition() < partition {
                continue;
            }
            if since_us.is_some_and(|since_us| view.max_timestamp_us < since_us) {
                continue;
            }
            let holds = has_partition(&content.entries, partition);
            opened += if holds { 1.0 } else { table.bloom_filter_fp_chance };
        }
        sstables += opened;
        if opened < 1.5 {
            single += 1.0;
        }
    }
    let count = picks.len().max(1) as f64;
    ReadCost { sstables: sstables / count, bytes: sstables / count * sstable_bytes, single: single / count }
}
