//! Data.db as stored: divides the appended bytes into chunks, compressed or not, with checksums.
//!
//! Rows are encoded directly into [`DataFile::buffer`]. [`DataFile::settle`] stores every complete chunk of
//! the buffer. A compressed chunk is stored as its payload and the payload's CRC-32 (u32, big-endian), and
//! CompressionInfo.db has its offset. Uncompressed data have their CRC-32 values in CRC.db. The digest covers
//! the file as stored.
//!
//! If a dictionary is to be trained, the first chunks stay in the buffer until there are enough data for the
//! training.

use base::crc::{Crc32, crc32};
use model::Compression;
use runtime::{File, FileError};

use super::output_file::OutputFile;
use crate::codec::{Compressor, SAMPLE_BYTES_MAX, class_and_options, train};
use crate::component::compression_info::{CHUNK_BYTES_MAX, CHUNK_CRC_BYTES, ChunkOffsets, CompressionInfo};
use crate::component::crc::{CHUNK_BYTES_DEFAULT, ChunkCrcs, ChunkCrcsBuilder};
use crate::version::Version;

enum Framing {
    Plain(ChunkCrcsBuilder),
    /// Chunks stay in the buffer until a dictionary has been trained.
    Sampling(Compression),
    Chunks(Chunks),
}

struct Chunks {
    compression: Compression,
    compressor: Compressor,
    dictionary: Option<Vec<u8>>,
    offsets: ChunkOffsets,
    /// Payload and checksum of the current chunk.
    stored: Vec<u8>,
}

/// The component that describes the chunks of Data.db.
pub(super) enum ChunkIndex {
    Crcs(ChunkCrcs),
    Compression {
        info: CompressionInfo,
        /// CRC-32 of the dictionary in `info`.
        dictionary_crc: Option<u32>,
    },
}

/// A complete Data.db.
pub(super) struct FinishedData {
    /// Not synced yet; the caller has to sync it.
    pub(super) file: File,
    pub(super) stored_bytes: u64,
    pub(super) uncompressed_bytes: u64,
    /// CRC-32 of the file as stored.
    pub(super) digest: u32,
    pub(super) chunks: ChunkIndex,
}

pub(super) struct DataFile {
    out: OutputFile,
    framing: Framing,
    /// Uncompressed bytes that are not stored yet.
    plain: Vec<u8>,
    /// Position of the first byte of `plain` in the uncompressed data.
    plain_at: u64,
    digest: Crc32,
}

impl DataFile {
    /// `version` decides whether incompressible chunks can be stored uncompressed.
    pub(super) fn new(out: OutputFile, compression: Option<&Compression>, version: Version) -> Self {
        let framing = match compression.cloned() {
            None => Framing::Plain(ChunkCrcsBuilder::new(CHUNK_BYTES_DEFAULT)),
            Some(mut compression) => {
                let chunk_bytes = compression.chunk_bytes;
                assert!(chunk_bytes.is_power_of_two() && chunk_bytes <= CHUNK_BYTES_MAX, "{chunk_bytes}");
                if !version.has_max_compressed_length() {
                    compression.max_compressed_bytes = Compression::ALWAYS;
                }
                if compression.dictionary {
                    Framing::Sampling(compression)
                } else {
                    Framing::Chunks(Chunks::new(compression, None))
                }
            }
        };
        Self { out, framing, plain: vec![], plain_at: 0, digest: Crc32::new() }
    }

    /// The buffer to append to. The caller must call [`Self::settle`] regularly.
    #[inline]
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Position of the next byte in the uncompressed data.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.plain_at + self.plain.len() as u64
    }

    /// Stores every complete chunk.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.plain.len() >= self.settled_bytes() {
            self.end_sampling();
            self.store_chunks();
        }
    }

    /// Length of the buffer from which on it has something to store.
    fn settled_bytes(&self) -> usize {
        match &self.framing {
            Framing::Plain(_) => CHUNK_BYTES_DEFAULT as usize,
            Framing::Sampling(_) => SAMPLE_BYTES_MAX,
            Framing::Chunks(chunks) => chunks.compression.chunk_bytes as usize,
        }
    }

    fn end_sampling(&mut self) {
        if let Framing::Sampling(compression) = &self.framing {
            let sample = &self.plain[..self.plain.len().min(SAMPLE_BYTES_MAX)];
            let dictionary = train(compression, sample);
            self.framing = Framing::Chunks(Chunks::new(compression.clone(), dictionary));
        }
    }

    fn store_chunks(&mut self) {
        let chunk_bytes = self.settled_bytes();
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
            Framing::Sampling(_) => unreachable!("the sample is complete"),
            Framing::Chunks(chunks) => {
                chunks.offsets.push(self.out.len_bytes());
                chunks.compress(chunk)
            }
        };
        self.digest.update(stored);
        self.out.append(stored);
    }

    /// Whether a full buffer has to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.out.wants_write()
    }

    /// See [`OutputFile::write_full`].
    pub(super) async fn write_full(&mut self) -> Result<(), FileError> {
        self.out.write_full().await
    }

    /// Stores the remaining bytes and writes all buffers.
    pub(super) async fn finish(mut self) -> Result<FinishedData, FileError> {
        self.end_sampling();
        self.settle();
        let uncompressed_bytes = self.position();
        let rest = std::mem::take(&mut self.plain);
        if !rest.is_empty() {
            self.store(&rest);
        }
        let chunks = match self.framing {
            Framing::Plain(crcs) => ChunkIndex::Crcs(crcs.finish()),
            Framing::Sampling(_) => unreachable!("the sample is complete"),
            Framing::Chunks(chunks) => chunks.finish(uncompressed_bytes),
        };
        let stored_bytes = self.out.len_bytes();
        let file = self.out.finish().await?;
        Ok(FinishedData { file, stored_bytes, uncompressed_bytes, digest: self.digest.value(), chunks })
    }
}

impl Chunks {
    fn new(compression: Compression, dictionary: Option<Vec<u8>>) -> Self {
        let compressor = Compressor::new(compression.codec, dictionary.as_deref());
        let chunk_bytes = compression.chunk_bytes as usize;
        let stored = vec![0; compressor.bound(chunk_bytes).max(chunk_bytes) + CHUNK_CRC_BYTES as usize];
        Self { compression, compressor, dictionary, offsets: ChunkOffsets::default(), stored }
    }

    /// The chunk as stored, including its checksum.
    fn compress(&mut self, chunk: &[u8]) -> &[u8] {
        let mut payload_bytes = self.compressor.compress(chunk, &mut self.stored);
        let longest = self.compression.max_compressed_bytes as usize;
        if payload_bytes >= longest {
            // Readers recognize an uncompressed chunk by its length, so a shorter one is padded.
            payload_bytes = chunk.len().max(longest);
            self.stored[..chunk.len()].copy_from_slice(chunk);
            self.stored[chunk.len()..payload_bytes].fill(0);
        }
        let crc = crc32(&self.stored[..payload_bytes]);
        let end = payload_bytes + CHUNK_CRC_BYTES as usize;
        self.stored[payload_bytes..end].copy_from_slice(&crc.to_be_bytes());
        &self.stored[..end]
    }

    fn finish(self, data_bytes: u64) -> ChunkIndex {
        let Self { compression, dictionary, offsets, .. } = self;
        let (class, options) = class_and_options(compression.codec, dictionary.is_some());
        let mut info = CompressionInfo {
            compressor: class.to_owned(),
            options,
            chunk_bytes: compression.chunk_bytes,
            max_compressed_bytes: compression.max_compressed_bytes,
            data_bytes,
            offsets,
        };
        info.set_dictionary(dictionary.as_deref());
        ChunkIndex::Compression { info, dictionary_crc: dictionary.map(|bytes| crc32(&bytes)) }
    }
}
