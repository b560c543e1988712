//! Options of writing an SSTable, and the result of a write.

use model::{Compression, PartitionKey, TableSchema};
use runtime::IoClass;

use crate::component::index;
use crate::component::large_data::LargeData;
use crate::component::statistics::{CommitLogPosition, DeltaBases, Statistics};
use crate::component::summary::{SUMMARY_RATIO_DEFAULT, Spacing};
use crate::name::{Component, SSTableName};
use crate::write::large::LargeDataLimits;

/// Options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `None`: Data.db is not compressed.
    pub compression: Option<Compression>,
    /// The table option of this name; 1.0 or more means no Filter.db.
    pub bloom_filter_fp_chance: f64,
    /// Which partitions are sampled in Summary.db.
    pub summary: Spacing,
    /// A block of the row index ends once it has this number of bytes.
    pub column_index_bytes: u32,
    /// Approximate number of partitions. Used only to reserve memory.
    pub expected_partitions: u64,
    /// Lower bounds, at least approximate, of the times in the data; see [`DeltaBases`].
    pub delta_bases: DeltaBases,
    /// The kind of job that writes the SSTable: "memtable", "compaction", …
    pub origin: String,
    /// Number of shards of this node.
    pub shard_count: u32,
    /// The shard that owns the tokens of the SSTable.
    pub shard_id: u32,
    /// UUID of this node.
    pub host_id: Option<[u8; 16]>,
    /// UUID of the run of which the SSTable is a fragment.
    pub run_id: Option<[u8; 16]>,
    /// The level in leveled compaction; 0 otherwise.
    pub level: u32,
    /// Time of the repair in milliseconds since 1970; 0 if not repaired.
    pub repaired_at_ms: i64,
    /// The intervals of the commit log whose writes the data contain.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// I/O class of the writes.
    pub io_class: IoClass,
    /// Partitions, rows and cells above these limits are recorded in Messina.db.
    pub large_data: LargeDataLimits,
    /// Current time in milliseconds since 1970, recorded with large data.
    pub now_ms: i64,
    /// Memory in which the entries of each secondary index are sorted; more entries are sorted in parts.
    pub index_run_bytes: usize,
    /// Whether the SSTable has Messina.db. A Cassandra node does not delete this file with the SSTable.
    pub has_messina_component: bool,
}

impl WriteOptions {
    /// The options that follow from the table, for shard 0 of 1. The caller sets the others.
    pub fn for_table(schema: &TableSchema, origin: &str, io_class: IoClass) -> Self {
        let options = &schema.options;
        Self {
            compression: options.compression.clone(),
            bloom_filter_fp_chance: options.bloom_filter_fp_chance,
            summary: Spacing {
                min_index_interval: options.min_index_interval,
                max_index_interval: options.max_index_interval,
                ratio: SUMMARY_RATIO_DEFAULT,
            },
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
            index_run_bytes: super::secondary::RUN_BYTES,
            has_messina_component: true,
        }
    }

    pub(super) fn has_filter(&self) -> bool {
        self.bloom_filter_fp_chance < 1.0
    }

    /// The components of the SSTable, in the order in which TOC.txt lists them.
    pub(super) fn components(&self) -> Vec<Component> {
        let checksums = match self.compression {
            None => Component::Crc,
            Some(_) => Component::CompressionInfo,
        };
        let mut components = vec![Component::Data, Component::Index, Component::Summary];
        components.extend(self.has_filter().then_some(Component::Filter));
        components.extend([Component::Statistics, checksums, Component::Digest]);
        components.extend(self.has_messina_component.then_some(Component::Messina));
        components.push(Component::Toc);
        components
    }
}

/// A sealed SSTable.
#[derive(Clone, Debug)]
pub struct Written {
    pub name: SSTableName,
    /// Length of Data.db on disk.
    pub data_bytes: u64,
    /// Length of the data before compression.
    pub uncompressed_bytes: u64,
    /// Length of Index.db.
    pub index_bytes: u64,
    /// Total length of all components.
    pub total_bytes: u64,
    pub partitions: u64,
    /// Rows, including static rows.
    pub rows: u64,
    /// The smallest partition key.
    pub first_key: PartitionKey,
    /// The largest partition key.
    pub last_key: PartitionKey,
    /// The content of Statistics.db.
    pub statistics: Statistics,
    /// The partitions, rows and cells above the limits; `None` if there are none.
    pub large_data: Option<LargeData>,
}
