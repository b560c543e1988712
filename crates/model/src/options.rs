//! Table options that the storage engine acts on.
//!
//! Options that only the CQL layer cares about are kept by it; this is what decides how data are stored.

/// How `Data.db` is to be compressed: in chunks of `chunk_bytes` uncompressed bytes, a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4 {
        chunk_bytes: u32,
    },
    Snappy {
        chunk_bytes: u32,
    },
    Deflate {
        chunk_bytes: u32,
    },
    /// `level` as zstd has them, from -131072 to 22.
    Zstd {
        chunk_bytes: u32,
        level: i32,
    },
}

impl Compression {
    /// `None`: Data.db is not compressed.
    pub fn chunk_bytes(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Lz4 { chunk_bytes }
            | Self::Snappy { chunk_bytes }
            | Self::Deflate { chunk_bytes }
            | Self::Zstd { chunk_bytes, .. } => Some(*chunk_bytes),
        }
    }

    /// What SSTables are written with. Of the codecs there is LZ4: a table that wants another one gets LZ4 in
    /// chunks of the same size, and keeps its setting.
    #[must_use]
    pub fn written(&self) -> Self {
        self.chunk_bytes().map_or(Self::None, |chunk_bytes| Self::Lz4 { chunk_bytes })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub comment: String,
    pub compression: Compression,
    /// The chance that a read of an absent partition looks into an SSTable. 1.0: no filter.
    pub bloom_filter_fp_chance: f64,
    /// How long a tombstone is kept.
    pub gc_grace_s: u32,
    /// 0: none.
    pub default_ttl_s: u32,
    /// One of so many partitions has its key in memory.
    pub min_index_interval: u32,
    pub max_index_interval: u32,
    /// 0: no periodic flush.
    pub memtable_flush_period_ms: u32,
    /// Whether Data.db checksums are verified on read: the chance from 0.0 to 1.0.
    pub crc_check_chance: f64,
}

// Options are set, compared and stored; NaN is refused where they are parsed.
impl Eq for TableOptions {}

impl Default for TableOptions {
    /// Cassandra's defaults, with its 16 KiB chunks.
    fn default() -> Self {
        Self {
            comment: String::new(),
            compression: Compression::Lz4 { chunk_bytes: 16 * 1024 },
            bloom_filter_fp_chance: 0.01,
            gc_grace_s: 864_000,
            default_ttl_s: 0,
            min_index_interval: 128,
            max_index_interval: 2048,
            memtable_flush_period_ms: 0,
            crc_check_chance: 1.0,
        }
    }
}
