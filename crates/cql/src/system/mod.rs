//! The system tables that are computed when they are read: who this node is, and what Cassandra's tools look for.
//!
//! [`read_virtual`] answers a read of any of them, `system_schema` included: the catalog that clients see has tables
//! which are not stored. Column names and values are Cassandra's, since drivers make their picture of the cluster of
//! them.
//!
//! | question | file |
//! |---|---|
//! | what a node tells of itself | `node_info.rs` |
//! | which rows a table has | `tables.rs` |
//! | values to rows | `rows.rs` |
//! | what is large in SSTables | `large_data.rs` |
//! | which reads run, and where memory is | `inside.rs` |
//! | tables, caches, tasks, prepared statements | `views.rs` |
//! | what ScyllaDB tells of a node besides | `scylla.rs` |
//! | what was traced | `traces.rs` |
//! | rows to pages | `read.rs` |

mod inside;
mod large_data;
mod node_info;
mod read;
mod rows;
mod scylla;
mod tables;
#[cfg(test)]
mod tests;
mod traces;
mod views;

pub use node_info::{
    CacheInfo, ClientInfo, GroupInfo, LargeItem, LargeKind, LatencyInfo, NodeInfo, PermitInfo, PreparedInfo,
    SSTableTask, SemaphoreInfo, SettingInfo, ShardInside, SnapshotInfo, TableEstimate, TableInfo,
};
pub use read::{is_virtual, read_virtual};
pub use tables::virtual_partitions;
pub use traces::{Trace, TraceEvent};
