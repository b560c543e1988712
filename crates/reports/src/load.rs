//! SSTables loaded into a table by refresh or import.

use serde::{Deserialize, Serialize};

/// The loaded SSTables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedSSTables {
    /// The directory that they were in.
    pub dir: String,
    /// For each SSTable: its name there, and its name in the table's directory.
    pub sstables: Vec<(String, String)>,
    /// Bytes of all Data.db files.
    pub data_bytes: u64,
}
