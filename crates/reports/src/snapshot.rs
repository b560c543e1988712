//! Snapshots of tables.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A snapshot of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotReport {
    pub tag: String,
    pub keyspace: String,
    pub table: String,
    /// Its directory on the node. Tools do not get it.
    #[serde(skip)]
    pub dir: PathBuf,
    /// Bytes of its files, whether or not the table still has them.
    pub disk_bytes: u64,
}
