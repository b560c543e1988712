//! The system tables that are computed when they are read: the description of this node, and tables that
//! Cassandra's tools need.
//!
//! [`read_virtual`] answers reads of these tables, including those of `system_schema`: the catalog that
//! clients see contains tables that are not stored. Column names and values are Cassandra's, because drivers
//! derive the topology of the cluster from them.
//!
//! | question | file |
//! |---|---|
//! | description of a node | `node_info.rs` |
//! | rows of each table | `tables.rs` |
//! | values to rows | `rows.rs` |
//! | large partitions, rows and cells of SSTables | `large_data.rs` |
//! | running reads, and memory by class | `introspection.rs` |
//! | tables, caches, tasks, prepared statements | `views.rs` |
//! | further tables of ScyllaDB | `scylla.rs` |
//! | traces | `traces.rs` |
//! | rows to pages | `read.rs` |

mod introspection;
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
    ClientInfo, GroupInfo, NodeInfo, PreparedInfo, SSTableTask, SettingInfo, ShardInside, TableEstimate,
    TableInfo, ViewBuildInfo,
};
pub use read::{is_virtual, read_virtual};
pub use tables::virtual_partitions;
pub use traces::{Trace, TraceEvent};
