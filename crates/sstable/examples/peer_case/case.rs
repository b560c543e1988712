//! A case: one SSTable to be written.

use std::sync::Arc;

use model::{Compression, Mutation, TableSchema};
use sstable::component::statistics::DeltaBases;
use sstable::version::Version;

/// Time at which all data of the cases were written, in seconds since 1970.
pub const NOW_S: u32 = 1_700_000_000;
pub const NOW_US: i64 = NOW_S as i64 * 1_000_000;

pub struct Case {
    pub schema: Arc<TableSchema>,
    pub generation: u64,
    pub version: Version,
    pub compression: Option<Compression>,
    pub bases: DeltaBases,
    /// A block of the row index ends once it has this number of bytes.
    pub column_index_bytes: u32,
    pub mutations: Vec<Mutation>,
}
