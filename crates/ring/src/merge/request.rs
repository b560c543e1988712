//! What Java asks for: the table, the inputs, the names of the outputs, and the rules of the merge.

use std::path::PathBuf;
use std::sync::Arc;

use model::types::CqlType;
use model::{Codec, ColumnKind, Compression, PartitionKey, TableSchema};
use sstable::name::{Component, SSTableName};
use sstable::version::Version;
use sstable::write::Spacing;

use crate::wire::{Input, WireError};

/// An SSTable that is not merged and whose keys overlap those of the inputs.
#[derive(Clone, Debug)]
pub struct OutsideSSTable {
    /// Its name, for the bloom filter.
    pub name: SSTableName,
    /// Its smallest key.
    pub first: PartitionKey,
    /// Its largest key.
    pub last: PartitionKey,
    /// The smallest timestamp of its data.
    pub min_timestamp_us: i64,
}

/// A merge.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    /// The table.
    pub schema: Arc<TableSchema>,
    /// `None`: Data.db is not compressed.
    pub compression: Option<Compression>,
    /// The table option `bloom_filter_fp_chance`.
    pub bloom_filter_fp_chance: f64,
    /// The table options `min_index_interval` and `max_index_interval`.
    pub summary: Spacing,
    /// A block of the row index ends once it has this number of bytes.
    pub column_index_bytes: u32,
    /// The directory of the inputs and outputs.
    pub dir: PathBuf,
    /// The inputs.
    pub inputs: Vec<SSTableName>,
    /// Free names for the outputs, used in this order.
    pub outputs: Vec<SSTableName>,
    /// SSTables that may contain data which tombstones of the inputs delete.
    pub outside: Vec<OutsideSSTable>,
    /// The smallest timestamp in the memtables; `None`: they are empty.
    pub memtable_min_timestamp_us: Option<i64>,
    /// Tombstones from before this time may be purged; 0: none.
    pub gc_before_s: u32,
    /// The time by which data expire, in seconds since 1970.
    pub now_s: u32,
    /// The level of the outputs.
    pub level: u32,
    /// The time of the repair of the outputs.
    pub repaired_at_ms: i64,
    /// The id of the node.
    pub host_id: [u8; 16],
    /// Size of an output in bytes before compression.
    pub max_bytes: u64,
    /// An output ends after the last partition before each of these positions: a token that belongs to the
    /// output, or a key with whether it belongs.
    pub ends: Vec<End>,
}

/// Where an output ends.
#[derive(Clone, Debug)]
pub enum End {
    /// After all keys of this token.
    AfterToken(i64),
    /// Before all keys of this token.
    BeforeToken(i64),
    /// After this key.
    AfterKey(PartitionKey),
    /// Before this key.
    BeforeKey(PartitionKey),
}

impl End {
    /// Whether the key is after the end.
    pub fn is_before(&self, key: &PartitionKey) -> bool {
        match self {
            Self::AfterToken(token) => key.token() > *token,
            Self::BeforeToken(token) => key.token() >= *token,
            Self::AfterKey(end) => key > end,
            Self::BeforeKey(end) => key >= end,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The message is damaged.
    Wire(WireError),
    /// The merge is not possible here; the text has the reason.
    Unsupported(String),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::Unsupported(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<WireError> for RequestError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

fn type_of(input: &mut Input<'_>) -> Result<CqlType, RequestError> {
    let class = input.text("type")?;
    CqlType::from_java_name(&class)
        .map_err(|error| RequestError::Unsupported(format!("type {class}: {error}")))
}

fn name_of(input: &mut Input<'_>) -> Result<SSTableName, RequestError> {
    let text = input.text("file name")?;
    match SSTableName::parse_file_name(&text) {
        Ok((name, Component::Data)) => Ok(name),
        Ok(_) => Err(RequestError::Unsupported(format!("{text} is not the name of a Data.db"))),
        Err(error) => Err(RequestError::Unsupported(error.to_string())),
    }
}

fn read_schema(input: &mut Input<'_>) -> Result<Arc<TableSchema>, RequestError> {
    let (keyspace, table) = (input.text("keyspace")?, input.text("table")?);
    let mut builder = TableSchema::builder(keyspace, table);
    for _ in 0..input.count("partition key columns", 8)? {
        let name = input.text("column")?;
        builder = builder.partition_key(name, type_of(input)?);
    }
    for _ in 0..input.count("clustering columns", 8)? {
        let name = input.text("column")?;
        builder = builder.clustering(name, type_of(input)?);
    }
    for _ in 0..input.count("columns", 9)? {
        let is_static = input.u8()? != 0;
        let name = input.text("column")?;
        let ty = type_of(input)?;
        builder = if is_static { builder.static_column(name, ty) } else { builder.regular(name, ty) };
    }
    for _ in 0..input.count("dropped columns", 17)? {
        let kind = if input.u8()? != 0 { ColumnKind::Static } else { ColumnKind::Regular };
        let name = input.text("column")?;
        let ty = type_of(input)?;
        let dropped_time_us = input.i64()?;
        builder = builder.dropped(model::schema::DroppedColumn { name, ty, kind, dropped_time_us, id: None });
    }
    builder.build().map_err(|error| RequestError::Unsupported(error.to_string()))
}

fn read_compression(input: &mut Input<'_>) -> Result<Option<Compression>, RequestError> {
    let Some(class) = input.bytes("compressor")? else { return Ok(None) };
    let chunk_bytes = input.u32("chunk length")?;
    let max_compressed_bytes = input.u32("largest compressed chunk")?;
    let level = input.i64()? as i32;
    let codec = match class {
        b"LZ4Compressor" => Codec::Lz4,
        b"SnappyCompressor" => Codec::Snappy,
        b"DeflateCompressor" => Codec::Deflate,
        b"ZstdCompressor" => Codec::Zstd { level },
        b"NoopCompressor" => Codec::Noop,
        other => {
            let class = String::from_utf8_lossy(other);
            return Err(RequestError::Unsupported(format!("compressor {class}")));
        }
    };
    if !chunk_bytes.is_power_of_two() || chunk_bytes > 256 * 1024 {
        return Err(RequestError::Unsupported(format!("chunks of {chunk_bytes} bytes")));
    }
    Ok(Some(Compression { max_compressed_bytes, ..Compression::new(codec, chunk_bytes) }))
}

impl MergeRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The bytes are damaged, or the table or an SSTable has something that this build does not write.
    pub fn read(bytes: &[u8]) -> Result<Self, RequestError> {
        let mut input = Input::new(bytes);
        let schema = read_schema(&mut input)?;
        let compression = read_compression(&mut input)?;
        let bloom_filter_fp_chance = input.f64()?;
        if !(bloom_filter_fp_chance > 0.0 && bloom_filter_fp_chance <= 1.0) {
            return Err(RequestError::Unsupported(format!(
                "bloom_filter_fp_chance {bloom_filter_fp_chance}"
            )));
        }
        let min_index_interval = input.u32("min_index_interval")?.max(1);
        let max_index_interval = input.u32("max_index_interval")?.max(min_index_interval);
        let summary =
            Spacing { min_index_interval, max_index_interval, ratio: sstable::write::SUMMARY_RATIO_DEFAULT };
        let column_index_bytes = input.u32("column index")?.max(1);
        let dir = PathBuf::from(input.text("directory")?);
        let mut names = |field| -> Result<Vec<SSTableName>, RequestError> {
            let count = input.count(field, 4)?;
            (0..count).map(|_| name_of(&mut input)).collect()
        };
        let inputs = names("inputs")?;
        let outputs = names("outputs")?;
        if let Some(name) = outputs.iter().find(|name| name.version != Version::Nb) {
            return Err(RequestError::Unsupported(format!(
                "SSTables of version {} are not written",
                name.version
            )));
        }
        let mut outside = vec![];
        for _ in 0..input.count("outside", 20)? {
            outside.push(OutsideSSTable {
                name: name_of(&mut input)?,
                first: PartitionKey::new(input.bytes("first key")?.unwrap_or_default()),
                last: PartitionKey::new(input.bytes("last key")?.unwrap_or_default()),
                min_timestamp_us: input.i64()?,
            });
        }
        let has_memtable = input.u8()? != 0;
        let memtable_us = input.i64()?;
        let gc_before_s = input.clamped_u32()?;
        let now_s = input.clamped_u32()?;
        let level = input.u32("level")?;
        let repaired_at_ms = input.i64()?;
        let host_id = input.u128()?.to_be_bytes();
        let max_bytes = input.u64("size of an output")?.max(1);
        let mut ends = vec![];
        for _ in 0..input.count("ends", 5)? {
            let is_after = input.u8()? != 0;
            let key = input.bytes("key")?.map(PartitionKey::new);
            ends.push(match (key, is_after) {
                (Some(key), true) => End::AfterKey(key),
                (Some(key), false) => End::BeforeKey(key),
                (None, true) => End::AfterToken(input.i64()?),
                (None, false) => End::BeforeToken(input.i64()?),
            });
        }
        input.end()?;
        Ok(Self {
            schema,
            compression,
            bloom_filter_fp_chance,
            summary,
            column_index_bytes,
            dir,
            inputs,
            outputs,
            outside,
            memtable_min_timestamp_us: has_memtable.then_some(memtable_us),
            gc_before_s,
            now_s,
            level,
            repaired_at_ms,
            host_id,
            max_bytes,
            ends,
        })
    }
}
