//! Table options that the storage engine acts on.
//!
//! Options that only the CQL layer cares about are kept by it; this is what decides how data are stored.

/// What turns a chunk into fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Chunks and their checksums, but the bytes as they are.
    Noop,
    Lz4,
    /// LZ4's slow search, which decompresses as fast; `level` from 1 to 17, of which those above 12 are 12.
    Lz4High {
        level: i32,
    },
    Snappy,
    Deflate,
    /// `level` as zstd has them, from -131072 to 22.
    Zstd {
        level: i32,
    },
}

/// How `Data.db` is to be compressed: in chunks, each for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    pub codec: Codec,
    /// Uncompressed bytes of a chunk; a power of two.
    pub chunk_bytes: u32,
    /// A chunk that would not become shorter than this is stored as it is, where the SSTable's version can say so.
    pub max_compressed_bytes: u32,
    /// Each SSTable gets a dictionary, trained from its own data, if that makes it smaller. For LZ4 and zstd.
    pub dictionary: bool,
}

impl Compression {
    /// Every chunk is stored compressed, however little it shrinks.
    pub const ALWAYS: u32 = i32::MAX as u32;

    /// Compresses every chunk, without a dictionary.
    pub const fn new(codec: Codec, chunk_bytes: u32) -> Self {
        Self { codec, chunk_bytes, max_compressed_bytes: Self::ALWAYS, dictionary: false }
    }

    /// LZ4, as most tables have it.
    pub const fn lz4(chunk_bytes: u32) -> Self {
        Self::new(Codec::Lz4, chunk_bytes)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub comment: String,
    /// `None`: Data.db is stored as it is.
    pub compression: Option<Compression>,
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
    /// The chance, from 0.0 to 1.0, that a read verifies the checksum of a chunk of Data.db.
    pub crc_check_chance: f64,
}

// Options are set, compared and stored; NaN is refused where they are parsed.
impl Eq for TableOptions {}

impl Default for TableOptions {
    /// Cassandra's defaults, with its 16 KiB chunks.
    fn default() -> Self {
        Self {
            comment: String::new(),
            compression: Some(Compression::lz4(16 * 1024)),
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
