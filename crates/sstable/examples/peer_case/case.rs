//! One SSTable that is to be written.

use std::sync::Arc;

use model::{Compression, Mutation, TableSchema};
use sstable::component::statistics::DeltaBases;
use sstable::version::Version;

/// When everything here was written.
pub const NOW_S: u32 = 1_700_000_000;
pub const NOW_US: i64 = NOW_S as i64 * 1_000_000;

pub struct Case {
    pub schema: Arc<TableSchema>,
    pub generation: u64,
    pub version: Version,
    pub compression: Option<Compression>,
    pub bases: DeltaBases,
    /// A block of a partition is closed once it has this many bytes.
    pub column_index_bytes: u32,
    pub mutations: Vec<Mutation>,
}
