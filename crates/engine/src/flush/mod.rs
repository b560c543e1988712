//! From memtable to SSTable.
//!
//! 1. Sealing a memtable puts an empty one in its place and the sealed one at the end of the shard's queue.
//! 2. One flush writes at a time on a shard, in the order of sealing, as a task of the `Memtable` group. A table that
//!    is being truncated or snapshotted holds its flushes back; other tables do not wait for it.
//! 3. When the SSTable is sealed on disk, it comes into the table in one step. The row cache takes over what is new in
//!    it, out of the memtable, which is read meanwhile; then the memtable goes, and only then the commit log gives up
//!    its entries.
//! 4. A flush that fails is tried again, behind the others and ever more seldom, as long as it takes: the data is in
//!    the log and in memory, and reads see it. Whoever asked for the flush learns of the failure; of a full disk
//!    all learn who wait for any flush.

mod job;
mod queue;

pub use queue::{FlushQueue, FlushStats, FlushTicket};
