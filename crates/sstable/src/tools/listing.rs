//! Lists the index, Summary.db and CompressionInfo.db entry by entry, as text and as JSON.

use std::rc::Rc;
use std::sync::Arc;

use model::{CqlType, PartitionKey, Position, Side, TableSchema};
use reader::ReadError;
use runtime::IoClass;

use crate::component::compression_info::CompressionInfo;
use crate::dump::layout::Layout;
use crate::dump::{key_texts, prefix_texts};
use crate::read::{BlockBounds, IndexedRows, SSTable};

/// Number of bytes of text that are collected before they are written.
const TEXT_BYTES: usize = 64 << 10;

fn key_text(schema: &TableSchema, key: &PartitionKey) -> String {
    key_texts(schema, key).join(":")
}

/// A position as `before (1, a)`, `at (1, a)` or `behind (1)`.
fn position_text(schema: &TableSchema, position: &Position) -> String {
    let side = match position.side {
        Side::Before => "before",
        Side::At => "at",
        Side::After => "behind",
    };
    format!("{side} ({})", prefix_texts(schema, &position.prefix).join(", "))
}

/// A blob literal of CQL.
fn bytes_text(bytes: &[u8]) -> String {
    CqlType::Blob.raw_text_of(bytes)
}

/// Lists every entry of Index.db or Partitions.db, and the blocks of partitions with a row index. `schema` is
/// the schema of the header.
pub async fn index_text(
    sstable: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    class: IoClass,
    mut write: impl FnMut(&str),
) -> Result<(), ReadError> {
    let mut walk = sstable.walk_index(class);
    let mut out = String::new();
    while let Some(partition) = walk.next().await? {
        out += &format!(
            "{}: token {}, entry at {}, data at {}",
            key_text(schema, &partition.key),
            partition.key.token(),
            partition.entry_at,
            partition.position
        );
        if let Some((deletion, blocks)) = walk.row_index(&partition).await? {
            out += &match partition.rows {
                IndexedRows::Trie { entry_at } => format!(", row index at {entry_at} of Rows.db"),
                IndexedRows::Promoted { bytes } => format!(", promoted index of {bytes} bytes"),
                IndexedRows::None => unreachable!("its rows are indexed"),
            };
            out += &format!(", {blocks} blocks");
            if !deletion.is_live() {
                out += &format!(", partition deleted at {} us", deletion.timestamp_us);
            }
        }
        out.push('\n');
        walk.blocks(&partition, |block| {
            out += &format!("    block at {}, {} bytes, from ", block.offset, block.width);
            out += &match &block.bounds {
                BlockBounds::Rows { first, last } => {
                    format!("{} to {}", position_text(schema, first), position_text(schema, last))
                }
                BlockBounds::Separators { lower, upper } => {
                    format!("separator {} to {}", bytes_text(lower), bytes_text(upper))
                }
            };
            if !block.open.is_live() {
                out += &format!(", then deleted at {} us", block.open.timestamp_us);
            }
            out.push('\n');
            if out.len() >= TEXT_BYTES {
                write(&out);
                out.clear();
            }
        })
        .await?;
        if out.len() >= TEXT_BYTES {
            write(&out);
            out.clear();
        }
    }
    write(&out);
    Ok(())
}

/// As `index_text`, as an array of objects.
pub async fn index_json(
    sstable: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    class: IoClass,
    mut write: impl FnMut(&str),
) -> Result<(), ReadError> {
    let mut walk = sstable.walk_index(class);
    let mut layout = Layout::new();
    layout.begin_array();
    let mut pending_bytes = 0;
    while let Some(partition) = walk.next().await? {
        layout.begin_object();
        layout.name("key");
        strings(&mut layout, &key_texts(schema, &partition.key));
        layout.raw_field("token", partition.key.token());
        layout.raw_field("entry_at", partition.entry_at);
        layout.raw_field("position", partition.position);
        match partition.rows {
            IndexedRows::Trie { entry_at } => layout.raw_field("rows_entry_at", entry_at),
            IndexedRows::Promoted { bytes } => layout.raw_field("promoted_bytes", bytes),
            IndexedRows::None => layout.raw_field("promoted_bytes", 0),
        }
        layout.name("blocks");
        layout.begin_array();
        walk.blocks(&partition, |block| {
            layout.begin_object();
            layout.raw_field("offset", block.offset);
            layout.raw_field("width", block.width);
            match &block.bounds {
                BlockBounds::Rows { first, last } => {
                    position(&mut layout, "first", schema, first);
                    position(&mut layout, "last", schema, last);
                }
                BlockBounds::Separators { lower, upper } => {
                    layout.text_field("lower", &bytes_text(lower));
                    layout.text_field("upper", &bytes_text(upper));
                }
            }
            if !block.open.is_live() {
                layout.raw_field("open_marked_deleted_us", block.open.timestamp_us);
                layout.raw_field("open_local_deletion_time_s", block.open.deletion_time_s);
            }
            layout.end_object();
            write(&layout.take());
        })
        .await?;
        layout.end_array();
        layout.end_object();
        pending_bytes += 200;
        if pending_bytes >= TEXT_BYTES {
            write(&layout.take());
            pending_bytes = 0;
        }
    }
    layout.end_array();
    layout.end_line();
    write(&layout.take());
    Ok(())
}

fn strings(layout: &mut Layout, texts: &[String]) {
    layout.compact_arrays = true;
    layout.begin_array();
    texts.iter().for_each(|text| layout.string(text));
    layout.end_array();
    layout.compact_arrays = false;
}

fn position(layout: &mut Layout, name: &str, schema: &TableSchema, position: &Position) {
    layout.name(name);
    layout.begin_object();
    let side = match position.side {
        Side::Before => "before",
        Side::At => "at",
        Side::After => "behind",
    };
    layout.text_field("side", side);
    layout.name("clustering");
    strings(layout, &prefix_texts(schema, &position.prefix));
    layout.end_object();
}

/// Lists Summary.db: its interval and its samples. The text is written in pieces.
pub fn summary_text(sstable: &SSTable, schema: &TableSchema, mut write: impl FnMut(&str)) {
    let Some(summary) = sstable.summary() else {
        write(&format!("Summary: - (format {} has none)\n", sstable.name().version.format().word()));
        return;
    };
    let mut out = format!(
        "Min index interval: {}\nSampling level: {}\nSamples: {}\nMemory: {} bytes\nFirst key: {}\nLast key: {}\n",
        summary.min_index_interval(),
        summary.sampling_level(),
        summary.len(),
        summary.memory_bytes(),
        key_text(schema, sstable.first_key()),
        key_text(schema, sstable.last_key()),
    );
    for number in 0..summary.len() {
        let (token, key, at) = summary.sample(number);
        let key = PartitionKey::new(key);
        out += &format!("sample {number}: {}, token {token}, Index.db at {at}\n", key_text(schema, &key));
        if out.len() >= TEXT_BYTES {
            write(&out);
            out.clear();
        }
    }
    write(&out);
}

/// As `summary_text`, as one object; `null` if the format has no summary.
pub fn summary_json(sstable: &SSTable, schema: &TableSchema, mut write: impl FnMut(&str)) {
    let Some(summary) = sstable.summary() else {
        write("null\n");
        return;
    };
    let mut layout = Layout::new();
    layout.begin_object();
    layout.raw_field("min_index_interval", summary.min_index_interval());
    layout.raw_field("sampling_level", summary.sampling_level());
    layout.raw_field("memory_bytes", summary.memory_bytes());
    layout.name("first_key");
    strings(&mut layout, &key_texts(schema, sstable.first_key()));
    layout.name("last_key");
    strings(&mut layout, &key_texts(schema, sstable.last_key()));
    layout.name("samples");
    layout.begin_array();
    for number in 0..summary.len() {
        let (token, key, at) = summary.sample(number);
        layout.begin_object();
        layout.name("key");
        strings(&mut layout, &key_texts(schema, &PartitionKey::new(key)));
        layout.raw_field("token", token);
        layout.raw_field("index_at", at);
        layout.end_object();
        if number % 512 == 511 {
            write(&layout.take());
        }
    }
    layout.end_array();
    layout.end_object();
    layout.end_line();
    write(&layout.take());
}

/// The value of an option; a value that is not text (a dictionary) is printed as its length.
fn option_text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= 256 && !text.contains(char::is_control) => text.to_owned(),
        _ => format!("({} bytes)", value.len()),
    }
}

/// Prints CompressionInfo.db; `dictionary_bytes` is the length of its dictionary, which an open SSTable keeps
/// apart, `file_bytes` that of Data.db. With `chunks` also the location of every chunk.
pub fn compression_info_text(
    info: &CompressionInfo,
    dictionary_bytes: Option<usize>,
    file_bytes: u64,
    chunks: bool,
    mut write: impl FnMut(&str),
) {
    let mut out = format!("Compressor: {}\n", info.compressor);
    for (name, value) in &info.options {
        out += &format!("Option {name}: {}\n", option_text(value));
    }
    if let Some(bytes) = dictionary_bytes {
        out += &format!("Dictionary: {bytes} bytes\n");
    }
    out += &format!("Chunk length: {} bytes\n", info.chunk_bytes);
    out += &format!("Max compressed length: {} bytes\n", info.max_compressed_bytes);
    out += &format!("Uncompressed length: {} bytes\n", info.data_bytes);
    out += &format!("Length on disk: {file_bytes} bytes\n");
    out += &format!("Ratio: {:.4}\n", file_bytes as f64 / info.data_bytes.max(1) as f64);
    out += &format!("Chunks: {}\n", info.offsets.len());
    out += &format!("Memory of the chunk offsets: {} bytes\n", info.offsets.memory_bytes());
    for number in 0..if chunks { info.offsets.len() } else { 0 } {
        match info.chunk(number, file_bytes) {
            Ok(chunk) => {
                out += &format!(
                    "chunk {number}: {} bytes of data at {}, stored as {} at {}\n",
                    chunk.data_bytes, chunk.data_at, chunk.stored_bytes, chunk.stored_at
                );
            }
            Err(error) => out += &format!("chunk {number}: {error}\n"),
        }
        if out.len() >= TEXT_BYTES {
            write(&out);
            out.clear();
        }
    }
    write(&out);
}

/// As `compression_info_text`, as one object.
pub fn compression_info_json(
    info: &CompressionInfo,
    dictionary_bytes: Option<usize>,
    file_bytes: u64,
    chunks: bool,
    mut write: impl FnMut(&str),
) {
    let mut layout = Layout::new();
    layout.begin_object();
    layout.text_field("compressor", &info.compressor);
    layout.name("options");
    layout.begin_object();
    for (name, value) in &info.options {
        layout.text_field(name, &option_text(value));
    }
    layout.end_object();
    layout.raw_field(
        "dictionary_bytes",
        dictionary_bytes.map_or("null".to_string(), |bytes| bytes.to_string()),
    );
    layout.raw_field("chunk_bytes", info.chunk_bytes);
    layout.raw_field("max_compressed_bytes", info.max_compressed_bytes);
    layout.raw_field("uncompressed_bytes", info.data_bytes);
    layout.raw_field("data_bytes", file_bytes);
    layout.raw_field("chunk_count", info.offsets.len());
    layout.raw_field("offsets_memory_bytes", info.offsets.memory_bytes());
    if chunks {
        layout.name("chunks");
        layout.begin_array();
        for number in 0..info.offsets.len() {
            let Ok(chunk) = info.chunk(number, file_bytes) else { continue };
            layout.compact_objects = true;
            layout.begin_object();
            layout.raw_field("data_at", chunk.data_at);
            layout.raw_field("data_bytes", chunk.data_bytes);
            layout.raw_field("stored_at", chunk.stored_at);
            layout.raw_field("stored_bytes", chunk.stored_bytes);
            layout.end_object();
            layout.compact_objects = false;
            if number % 512 == 511 {
                write(&layout.take());
            }
        }
        layout.end_array();
    }
    layout.end_object();
    layout.end_line();
    write(&layout.take());
}
