//! Data.db as it is stored: what is appended becomes chunks, compressed or not, with their checksums.
//!
//! Rows are encoded straight into [`DataFile::buffer`]; [`DataFile::settle`] turns every whole chunk in it into
//! stored bytes. Compressed, a chunk is u32-LE length, LZ4 block, u32-BE CRC-32 of both, and CompressionInfo.db
//! says where it starts; uncompressed, its CRC-32 goes to CRC.db. The digest covers the file as stored.

use base::crc::{Crc32, crc32};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use model::Compression;
use runtime::FileError;

use super::output_file::OutputFile;
use crate::component::compression_info::{ALWAYS_COMPRESSED, CHUNK_BYTES_MAX, ChunkOffsets, CompressionInfo};
use crate::component::crc::{CHUNK_BYTES_DEFAULT, ChunkCrcs, ChunkCrcsBuilder};

/// The name by which CompressionInfo.db knows the compressor.
const LZ4_COMPRESSOR: &str = "LZ4Compressor";
const LZ4_LENGTH_BYTES: usize = 4;

enum Framing {
    Plain(ChunkCrcsBuilder),
    Lz4(Lz4Framing),
}

struct Lz4Framing {
    chunk_bytes: u32,
    offsets: ChunkOffsets,
    /// Length, block and checksum of the chunk at hand.
    stored: Vec<u8>,
    table: CompressTable,
}

/// What goes beside Data.db.
pub(super) enum ChunkIndex {
    Crcs(ChunkCrcs),
    Compression(CompressionInfo),
}

/// Data.db, complete and synced.
pub(super) struct FinishedData {
    pub(super) stored_bytes: u64,
    pub(super) uncompressed_bytes: u64,
    /// CRC-32 of the file as stored.
    pub(super) digest: u32,
    pub(super) chunks: ChunkIndex,
}

pub(super) struct DataFile {
    out: OutputFile,
    framing: Framing,
    /// Uncompressed bytes that are in no chunk yet.
    plain: Vec<u8>,
    /// The position of `plain`'s first byte in the uncompressed data.
    plain_at: u64,
    digest: Crc32,
}

impl DataFile {
    pub(super) fn new(out: OutputFile, compression: &Compression) -> Self {
        let framing = match compression.chunk_bytes() {
            None => Framing::Plain(ChunkCrcsBuilder::new(CHUNK_BYTES_DEFAULT)),
            Some(chunk_bytes) => {
                assert!(chunk_bytes.is_power_of_two() && chunk_bytes <= CHUNK_BYTES_MAX, "{chunk_bytes}");
                Framing::Lz4(Lz4Framing {
                    chunk_bytes,
                    offsets: ChunkOffsets::default(),
                    stored: vec![0; LZ4_LENGTH_BYTES + get_maximum_output_size(chunk_bytes as usize) + 4],
                    table: CompressTable::default(),
                })
            }
        };
        Self { out, framing, plain: vec![], plain_at: 0, digest: Crc32::new() }
    }

    /// Append here; then call [`Self::settle`] once in a while.
    #[inline]
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Where the next byte goes in the uncompressed data.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.plain_at + self.plain.len() as u64
    }

    /// Stores every whole chunk.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.plain.len() >= self.chunk_bytes() {
            self.store_chunks();
        }
    }

    fn chunk_bytes(&self) -> usize {
        match &self.framing {
            Framing::Plain(_) => CHUNK_BYTES_DEFAULT as usize,
            Framing::Lz4(lz4) => lz4.chunk_bytes as usize,
        }
    }

    fn store_chunks(&mut self) {
        let chunk_bytes = self.chunk_bytes();
        let plain = std::mem::take(&mut self.plain);
        let whole = plain.chunks_exact(chunk_bytes);
        let done = plain.len() - whole.remainder().len();
        whole.for_each(|chunk| self.store(chunk));
        self.plain = plain;
        self.plain.copy_within(done.., 0);
        self.plain.truncate(self.plain.len() - done);
        self.plain_at += done as u64;
    }

    fn store(&mut self, chunk: &[u8]) {
        let stored = match &mut self.framing {
            Framing::Plain(crcs) => {
                crcs.update(chunk);
                chunk
            }
            Framing::Lz4(lz4) => {
                lz4.offsets.push(self.out.len_bytes());
                lz4.compress(chunk)
            }
        };
        self.digest.update(stored);
        self.out.append(stored);
    }

    /// A full buffer waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.out.wants_write()
    }

    /// See [`OutputFile::write_full`].
    pub(super) async fn write_full(&mut self) -> Result<(), FileError> {
        self.out.write_full().await
    }

    /// Stores the rest, writes and syncs.
    pub(super) async fn finish(mut self) -> Result<FinishedData, FileError> {
        self.settle();
        let uncompressed_bytes = self.position();
        let rest = std::mem::take(&mut self.plain);
        if !rest.is_empty() {
            self.store(&rest);
        }
        let chunks = match self.framing {
            Framing::Plain(crcs) => ChunkIndex::Crcs(crcs.finish()),
            Framing::Lz4(lz4) => ChunkIndex::Compression(CompressionInfo {
                compressor: LZ4_COMPRESSOR.to_owned(),
                options: vec![],
                chunk_bytes: lz4.chunk_bytes,
                max_compressed_bytes: ALWAYS_COMPRESSED,
                data_bytes: uncompressed_bytes,
                offsets: lz4.offsets,
            }),
        };
        let stored_bytes = self.out.finish().await?;
        Ok(FinishedData { stored_bytes, uncompressed_bytes, digest: self.digest.value(), chunks })
    }
}

impl Lz4Framing {
    /// The chunk as stored, checksum included.
    fn compress(&mut self, chunk: &[u8]) -> &[u8] {
        let (length, block) = self.stored.split_at_mut(LZ4_LENGTH_BYTES);
        length.copy_from_slice(&(chunk.len() as u32).to_le_bytes());
        let block_bytes = compress_into_with_table(chunk, block, &mut self.table)
            .expect("the buffer holds the largest block that a chunk can become");
        let payload_bytes = LZ4_LENGTH_BYTES + block_bytes;
        let crc = crc32(&self.stored[..payload_bytes]);
        self.stored[payload_bytes..payload_bytes + 4].copy_from_slice(&crc.to_be_bytes());
        &self.stored[..payload_bytes + 4]
    }
}
