//! Flushes: memtables become SSTables.
//!
//! 1. Sealing a memtable replaces it by an empty one and appends it to the shard's queue.
//! 2. One flush at a time writes on a shard, in the order of sealing, as a task of the `Memtable` group. A
//!    table that is being truncated or snapshotted holds its flushes back; other tables do not wait for it.
//! 3. When the SSTable is sealed on disk, it is added to the table in one step. Its new data is merged into
//!    the row cache from the memtable, which is read meanwhile. Then the memtable is removed, and only then
//!    the commit log releases its entries.
//! 4. A failed flush is retried after the other queued ones, with exponential backoff and without limit: the
//!    data is in the log and in memory, and reads see it. The callers that wait for this flush get the error;
//!    when the disk is full, all callers that wait for any flush get it.

mod job;
mod queue;

pub use queue::{FlushQueue, FlushStats, FlushTicket};
