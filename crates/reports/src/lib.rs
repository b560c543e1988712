//! Reports of a node, as values: written by the engine and the server, shown by the system tables, the admin
//! API and nodetool. A fact has one type from the shard that knows it to the tool that prints it.
//!
//! | question | file |
//! |---|---|
//! | caches | `cache.rs` |
//! | running and ended compactions | `compaction.rs` |
//! | SSTables loaded by refresh and import | `load.rs` |
//! | partitions, rows and cells above a threshold | `large_data.rs` |
//! | number and latencies of requests | `latency.rs` |
//! | results of scrub and verify | `maintenance.rs` |
//! | memory of a shard, by class | `memory.rs` |
//! | reads that run and wait | `semaphore.rs` |
//! | snapshots of tables | `snapshot.rs` |

mod cache;
mod compaction;
mod large_data;
mod latency;
mod load;
mod maintenance;
mod memory;
mod semaphore;
mod snapshot;

pub use cache::CacheReport;
pub use compaction::{EndedCompaction, RunningCompaction};
pub use large_data::{LargeItem, LargeKind};
pub use latency::LatencyReport;
pub use load::LoadedSSTables;
pub use maintenance::{Scrubbed, Verified};
pub use memory::{MemoryClass, memory_text};
pub use semaphore::{PermitReport, SemaphoreReport};
pub use snapshot::SnapshotReport;
