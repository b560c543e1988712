//! Table options of the storage engine.
//!
//! They determine how data is stored. Options that only the CQL layer uses are kept there.

/// Compression algorithm of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// No compression; the chunks and their checksums are written as for the others.
    Noop,
    /// LZ4 with blocks of a chunk, at its fast level. Cassandra's and ScyllaDB's default.
    Lz4,
    /// LZ4 with the slow search of LZ4 HC, which decompresses at the same speed. `level` is 1 to 17; levels
    /// above 12 act as 12.
    Lz4High {
        /// The level, from 1 to 17.
        level: i32,
    },
    /// Snappy.
    Snappy,
    /// Deflate (zlib), at its default level.
    Deflate,
    /// `level` is zstd's, from -131072 to 22.
    Zstd {
        /// zstd's level.
        level: i32,
    },
}

/// Compression of `Data.db`, in independent chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codec of the chunks of Data.db.
    pub codec: Codec,
    /// Uncompressed size of a chunk in bytes; a power of two.
    pub chunk_bytes: u32,
    /// A chunk that would not become shorter than this is stored uncompressed, if the SSTable's version
    /// supports that.
    pub max_compressed_bytes: u32,
    /// Whether each SSTable gets a dictionary, trained from its own data, if that makes it smaller. Only for
    /// LZ4 and zstd.
    pub dictionary: bool,
}

impl Compression {
    /// Value of `max_compressed_bytes` with which every chunk is stored compressed, even if it hardly
    /// shrinks.
    pub const ALWAYS: u32 = i32::MAX as u32;

    /// Compression of every chunk, without a dictionary.
    pub const fn new(codec: Codec, chunk_bytes: u32) -> Self {
        Self { codec, chunk_bytes, max_compressed_bytes: Self::ALWAYS, dictionary: false }
    }

    /// LZ4, the default of tables.
    pub const fn lz4(chunk_bytes: u32) -> Self {
        Self::new(Codec::Lz4, chunk_bytes)
    }
}

/// The storage options of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// Free text. Shown by DESCRIBE; without effect.
    pub comment: String,
    /// `None`: Data.db is not compressed.
    pub compression: Option<Compression>,
    /// The probability that a read of an absent partition reads an SSTable. 1.0: no bloom filter.
    pub bloom_filter_fp_chance: f64,
    /// The time for which a tombstone is kept.
    pub gc_grace_s: u32,
    /// 0: no default TTL.
    pub default_ttl_s: u32,
    /// The partition summary contains the key of one partition in this number; the interval lies between the
    /// minimum and the maximum.
    pub min_index_interval: u32,
    /// See `min_index_interval`.
    pub max_index_interval: u32,
    /// 0: no periodic flush.
    pub memtable_flush_period_ms: u32,
    /// The probability, from 0.0 to 1.0, that a read verifies the checksum of a chunk of Data.db.
    pub crc_check_chance: f64,
}

// Options are set, compared and stored; NaN is refused when they are parsed.
impl Eq for TableOptions {}

impl Default for TableOptions {
    /// Cassandra's defaults, including its 16 KiB chunks.
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
