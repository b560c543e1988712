//! How an SSTable is to be written, and what came out.

use model::{Compression, PartitionKey, TableSchema};
use runtime::IoClass;

use crate::component::index;
use crate::component::large_data::LargeData;
use crate::component::statistics::{CommitLogPosition, DeltaBases, Statistics};
use crate::name::{Component, SstableName};
use crate::write::large::LargeDataLimits;

/// What the writer is told beside the fragments.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `None`: Data.db is stored as it is.
    pub compression: Option<Compression>,
    /// As the table's option: 1.0 or more means no Filter.db.
    pub bloom_filter_fp_chance: f64,
    /// As the table's option, at least 1.
    pub min_index_interval: u32,
    /// A block of a partition is closed once it has this many bytes.
    pub column_index_bytes: u32,
    /// About how many partitions will come; memory is reserved by it and nothing depends on it.
    pub expected_partitions: u64,
    /// At most the least times in the data, or nearly; see [`DeltaBases`].
    pub delta_bases: DeltaBases,
    /// What makes it: "memtable", "compaction", …
    pub origin: String,
    pub shard_count: u32,
    pub shard_id: u32,
    /// This node's UUID.
    pub host_id: Option<[u8; 16]>,
    /// The run of which this is a fragment: a UUID.
    pub run_id: Option<[u8; 16]>,
    /// The level of leveled compaction; 0 otherwise.
    pub level: u32,
    /// Milliseconds since 1970; 0 if not repaired.
    pub repaired_at_ms: i64,
    /// The parts of the commit log whose writes are in the data.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    pub io_class: IoClass,
    /// What is larger is named in Messina.db.
    pub large_data: LargeDataLimits,
    /// The clock, for those who want to know since when something is large: milliseconds since 1970.
    pub now_ms: i64,
}

impl WriteOptions {
    /// What the table's options say, for shard 0 of 1; the rest is to be filled in.
    pub fn for_table(schema: &TableSchema, origin: &str, io_class: IoClass) -> Self {
        let options = &schema.options;
        Self {
            compression: options.compression.clone(),
            bloom_filter_fp_chance: options.bloom_filter_fp_chance,
            min_index_interval: options.min_index_interval,
            column_index_bytes: index::BLOCK_BYTES_DEFAULT,
            expected_partitions: 0,
            delta_bases: DeltaBases::NONE,
            origin: origin.to_owned(),
            shard_count: 1,
            shard_id: 0,
            host_id: None,
            run_id: None,
            level: 0,
            repaired_at_ms: 0,
            commit_log_intervals: vec![],
            io_class,
            large_data: LargeDataLimits::default(),
            now_ms: 0,
        }
    }

    pub(super) fn has_filter(&self) -> bool {
        self.bloom_filter_fp_chance < 1.0
    }

    /// The components an SSTable written so has, in the order in which TOC.txt lists them.
    pub(super) fn components(&self) -> Vec<Component> {
        let checksums = match self.compression {
            None => Component::Crc,
            Some(_) => Component::CompressionInfo,
        };
        let mut components = vec![Component::Data, Component::Index, Component::Summary];
        components.extend(self.has_filter().then_some(Component::Filter));
        components.extend([Component::Statistics, checksums, Component::Digest]);
        components.extend([Component::Messina, Component::Toc]);
        components
    }
}

/// A sealed SSTable.
#[derive(Clone, Debug)]
pub struct Written {
    pub name: SstableName,
    /// Length of Data.db.
    pub data_bytes: u64,
    /// What Data.db holds before compression.
    pub uncompressed_bytes: u64,
    /// Length of Index.db.
    pub index_bytes: u64,
    /// All components together.
    pub total_bytes: u64,
    pub partitions: u64,
    /// Rows, static ones among them.
    pub rows: u64,
    /// The smallest and the largest partition key.
    pub first_key: PartitionKey,
    pub last_key: PartitionKey,
    /// Statistics.db.
    pub statistics: Statistics,
    /// What was found to be large.
    pub large_data: Option<LargeData>,
}
