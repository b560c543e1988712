//! A file read in chunks: plain or compressed, checked, then given out as the bytes that were written.
//!
//! Positions are in the uncompressed data throughout; only errors about stored chunks name offsets in the file.
//! A chunk is what is fetched and cached as one: a compressed chunk, or a piece of a plain file. Checksums:
//! - A compressed chunk is checked before it is decompressed, always.
//! - A plain file is checked wherever a read covers a whole unit of CRC.db. Scans read whole units. A read of a
//!   single chunk is checked if the unit is not larger than [`PLAIN_CHUNK_BYTES_MAX`].
//!
//! Index.db has no checksums; what is read of it is compared with Data.db by those who use it.

use std::rc::Rc;

use base::crc::crc32;
use reader::ReadError;
use runtime::{File, FileError, IoBuf, IoClass};

use super::cache::{ChunkCache, chunk_cost};
use super::keyed::{FileNumber, Look};
use crate::component::compression_info::{CHUNK_CRC_BYTES, Chunk, CompressionInfo};
use crate::component::crc::ChunkCrcs;
use crate::pool::CacheClass;

/// A chunk of a plain Data.db: as many units of its CRC.db as fit into this, or a part of a larger unit.
pub(super) const PLAIN_CHUNK_BYTES_MAX: u32 = 16 * 1024;
/// The largest unit of CRC.db that is read; writers use 64 KiB.
const UNIT_BYTES_MAX: u32 = 1024 * 1024;

/// LZ4 cannot shrink data to less than a 255th; a chunk that claims more is refused before memory is reserved.
const LZ4_RATIO_MAX: u64 = 255;

enum Encoding {
    Plain { crcs: Option<ChunkCrcs> },
    Compressed { info: CompressionInfo, codec: Codec },
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Lz4,
    Noop,
}

impl Codec {
    /// By the class name in CompressionInfo.db; `None` if this build cannot read it.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name.rsplit('.').next() {
            Some("LZ4Compressor") => Some(Self::Lz4),
            Some("NoopCompressor") => Some(Self::Noop),
            _ => None,
        }
    }
}

/// Whether a plain file with a checksum for every `unit` bytes can be cut into chunks that units are made of, or
/// that are made of units.
pub(super) fn is_readable_unit(unit: u32) -> bool {
    (1..=PLAIN_CHUNK_BYTES_MAX).contains(&unit)
        || (unit <= UNIT_BYTES_MAX && unit.is_multiple_of(PLAIN_CHUNK_BYTES_MAX))
}

/// See the head of this file.
pub(super) struct ChunkedFile {
    file: File,
    /// Length on disk.
    file_bytes: u64,
    /// Length of the data.
    data_bytes: u64,
    chunk_bytes: u64,
    /// Reads of whole multiples of this are checked throughout.
    scan_unit_bytes: u64,
    encoding: Encoding,
    cache: Rc<ChunkCache>,
    number: FileNumber,
}

impl Drop for ChunkedFile {
    fn drop(&mut self) {
        self.cache.clear_file(self.number);
    }
}

/// Chunks that follow one another.
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl ChunkedFile {
    /// A file stored as it is, with checksums if it has such. `class` is what its chunks are counted as.
    pub(super) fn plain(
        file: File,
        file_bytes: u64,
        chunk_bytes: u32,
        crcs: Option<ChunkCrcs>,
        cache: &Rc<ChunkCache>,
        class: CacheClass,
    ) -> Self {
        let (chunk_bytes, scan_unit_bytes) = match &crcs {
            None => (chunk_bytes, chunk_bytes),
            Some(crcs) => {
                let unit = crcs.chunk_bytes();
                assert!(is_readable_unit(unit), "units of {unit} bytes are refused on opening");
                if unit > PLAIN_CHUNK_BYTES_MAX {
                    (PLAIN_CHUNK_BYTES_MAX, unit)
                } else {
                    let chunk = PLAIN_CHUNK_BYTES_MAX / unit * unit;
                    (chunk, chunk)
                }
            }
        };
        Self {
            file,
            file_bytes,
            data_bytes: file_bytes,
            chunk_bytes: u64::from(chunk_bytes),
            scan_unit_bytes: u64::from(scan_unit_bytes),
            encoding: Encoding::Plain { crcs },
            cache: Rc::clone(cache),
            number: cache.new_file(class),
        }
    }

    pub(super) fn compressed(
        file: File,
        file_bytes: u64,
        info: CompressionInfo,
        codec: Codec,
        cache: &Rc<ChunkCache>,
    ) -> Self {
        Self {
            file,
            file_bytes,
            data_bytes: info.data_bytes,
            chunk_bytes: u64::from(info.chunk_bytes),
            scan_unit_bytes: u64::from(info.chunk_bytes),
            encoding: Encoding::Compressed { info, codec },
            cache: Rc::clone(cache),
            number: cache.new_file(CacheClass::Chunks),
        }
    }

    /// Length of the (uncompressed) data.
    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Length on disk.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    pub(super) fn scan_unit_bytes(&self) -> u64 {
        self.scan_unit_bytes
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where chunk `chunk` starts in the data.
    pub(super) fn chunk_start(&self, chunk: u64) -> u64 {
        chunk * self.chunk_bytes
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Plain { crcs } => crcs.as_ref().map_or(0, ChunkCrcs::memory_bytes),
            Encoding::Compressed { info, .. } => info.memory_bytes(),
        }
    }

    /// An error about what the data say at `position`.
    pub(super) fn corrupt(&self, position: u64, detail: &str) -> ReadError {
        let place = match self.encoding {
            Encoding::Plain { .. } => "",
            Encoding::Compressed { .. } => " (a position in the uncompressed data)",
        };
        self.corrupt_stored(position, format!("{detail}{place}"))
    }

    /// An error about what is stored at byte `offset_bytes` of the file.
    fn corrupt_stored(&self, offset_bytes: u64, detail: String) -> ReadError {
        ReadError::Corrupt { file: self.file.path().to_owned(), offset_bytes, detail }
    }

    fn failed(&self, error: FileError, offset_bytes: u64) -> ReadError {
        let offset_bytes = error.offset_bytes.unwrap_or(offset_bytes);
        ReadError::Io { file: self.file.path().to_owned(), offset_bytes, source: error.source }
    }

    /// Where the run is in the file.
    fn stored_range(&self, run: &Run) -> Result<(u64, usize), ReadError> {
        assert!(run.count > 0, "a run has chunks");
        let (start, end) = match &self.encoding {
            Encoding::Plain { .. } => {
                let end = self.chunk_start(run.first + run.count).min(self.data_bytes);
                (self.chunk_start(run.first), end)
            }
            Encoding::Compressed { .. } => {
                let last = self.stored_chunk(run.first + run.count - 1)?;
                let end = last.stored_at + last.stored_bytes + CHUNK_CRC_BYTES;
                (self.stored_chunk(run.first)?.stored_at, end)
            }
        };
        let len = usize::try_from(end - start).expect("a run is smaller than the address space");
        Ok((start, len))
    }

    fn stored_chunk(&self, chunk: u64) -> Result<Chunk, ReadError> {
        let Encoding::Compressed { info, .. } = &self.encoding else {
            unreachable!("only compressed chunks differ from their place in the data");
        };
        let chunk = info.chunk(chunk as usize, self.file_bytes);
        chunk.map_err(|error| self.corrupt_stored(error.offset_bytes, error.to_string()))
    }

    /// The request for a run, to be awaited later and given to [`Self::decode_run`]. Owns what it needs.
    pub(super) fn request_run(
        &self,
        run: &Run,
        class: IoClass,
    ) -> Result<impl Future<Output = Result<IoBuf, FileError>> + use<>, ReadError> {
        let (offset_bytes, len) = self.stored_range(run)?;
        let file = self.file.clone();
        Ok(async move { file.read_at(offset_bytes, len, class).await })
    }

    /// Checks a run as it came from [`Self::request_run`] and appends its data to `out`.
    pub(super) fn decode_run(
        &self,
        run: &Run,
        stored: Result<IoBuf, FileError>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let (offset_bytes, len) = self.stored_range(run)?;
        let stored = stored.map_err(|error| self.failed(error, offset_bytes))?;
        if stored.len() != len {
            let at = offset_bytes + stored.len() as u64;
            let detail = format!("the file ends here; it was {} bytes when it was opened", self.file_bytes);
            return Err(self.corrupt_stored(at, detail));
        }
        match &self.encoding {
            Encoding::Plain { crcs } => {
                if let Some(crcs) = crcs {
                    self.check_units(crcs, offset_bytes, &stored)?;
                }
                out.extend_from_slice(&stored);
                Ok(())
            }
            Encoding::Compressed { info, codec } => {
                for chunk in run.first..run.first + run.count {
                    let chunk = self.stored_chunk(chunk)?;
                    let from = (chunk.stored_at - offset_bytes) as usize;
                    let payload = &stored[from..from + chunk.stored_bytes as usize];
                    let crc = &stored[from + payload.len()..from + payload.len() + CHUNK_CRC_BYTES as usize];
                    let crc = u32::from_be_bytes(crc.try_into().expect("4 bytes"));
                    if crc != crc32(payload) {
                        let detail = format!(
                            "checksum of a chunk: expected {:08x}, found {crc:08x} behind it",
                            crc32(payload)
                        );
                        return Err(self.corrupt_stored(chunk.stored_at, detail));
                    }
                    let raw = chunk.stored_bytes >= u64::from(info.max_compressed_bytes);
                    let codec = if raw { Codec::Noop } else { *codec };
                    decompress(codec, payload, &chunk, out)
                        .map_err(|detail| self.corrupt_stored(chunk.stored_at, detail))?;
                }
                Ok(())
            }
        }
    }

    /// Checks every unit of CRC.db that lies whole in `bytes`, which start at `position`.
    fn check_units(&self, crcs: &ChunkCrcs, position: u64, bytes: &[u8]) -> Result<(), ReadError> {
        let unit_bytes = u64::from(crcs.chunk_bytes());
        let end = position + bytes.len() as u64;
        for unit in position.div_ceil(unit_bytes).. {
            let start = unit * unit_bytes;
            let unit_end = (start + unit_bytes).min(self.data_bytes);
            if start >= unit_end || unit_end > end {
                return Ok(());
            }
            let unit_data = &bytes[(start - position) as usize..(unit_end - position) as usize];
            if crcs.matches(unit as usize, unit_data) != Some(true) {
                let detail = format!(
                    "the {} bytes from here have checksum {:08x}, and not the one that CRC.db has for them",
                    unit_data.len(),
                    crc32(unit_data)
                );
                return Err(self.corrupt_stored(start, detail));
            }
        }
        Ok(())
    }

    /// The chunk, from the cache or from disk; it is in the cache then.
    pub(super) async fn chunk(&self, chunk: u64, class: IoClass) -> Result<Rc<[u8]>, ReadError> {
        let kept = self.cache.chunks();
        loop {
            match kept.look(self.number, chunk) {
                Look::Found(bytes) => return Ok(bytes),
                Look::Flying(flight) => match flight.wait(chunk).await {
                    Some(landed) => return landed,
                    None => continue,
                },
                Look::Nothing => {}
            }
            let loading = kept.begin(self.number, chunk, 1);
            return match self.read_chunk(chunk, class).await {
                Ok(bytes) => {
                    loading.land(vec![Rc::clone(&bytes)], chunk_cost);
                    Ok(bytes)
                }
                Err(error) => Err(loading.fail(error)),
            };
        }
    }

    async fn read_chunk(&self, chunk: u64, class: IoClass) -> Result<Rc<[u8]>, ReadError> {
        let run = Run { first: chunk, count: 1 };
        let stored = self.request_run(&run, class)?.await;
        let mut out = vec![];
        self.decode_run(&run, stored, &mut out)?;
        Ok(out.into())
    }

    /// Appends the data of a run to `out`, what is missing in the cache from disk in one request for each gap,
    /// and puts it into the cache.
    pub(super) async fn append_cached(
        &self,
        run: &Run,
        class: IoClass,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let kept = self.cache.chunks();
        let end = run.first + run.count;
        let mut chunk = run.first;
        while chunk < end {
            match kept.look(self.number, chunk) {
                Look::Found(bytes) => {
                    out.extend_from_slice(&bytes);
                    chunk += 1;
                    continue;
                }
                Look::Flying(flight) => {
                    if let Some(landed) = flight.wait(chunk).await {
                        out.extend_from_slice(&landed?);
                        chunk += 1;
                    }
                    continue;
                }
                Look::Nothing => {}
            }
            let first = chunk;
            chunk += 1;
            while chunk < end && kept.misses(self.number, chunk) {
                chunk += 1;
            }
            let loading = kept.begin(self.number, first, chunk - first);
            let from = out.len();
            if let Err(error) = self.append(&Run { first, count: chunk - first }, class, out).await {
                return Err(loading.fail(error));
            }
            let chunks = out[from..].chunks(self.chunk_bytes as usize).map(Rc::from).collect();
            loading.land(chunks, chunk_cost);
        }
        Ok(())
    }

    /// Appends the data of a run to `out`, all from disk; the cache does not see it.
    pub(super) async fn append(&self, run: &Run, class: IoClass, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let stored = self.request_run(run, class)?.await;
        self.decode_run(run, stored, out)
    }
}

/// Appends the chunk's data to `out`, or says what is wrong with the payload.
fn decompress(codec: Codec, payload: &[u8], chunk: &Chunk, out: &mut Vec<u8>) -> Result<(), String> {
    let wanted = chunk.data_bytes as usize;
    match codec {
        Codec::Noop => match payload.get(..wanted) {
            Some(data) => out.extend_from_slice(data),
            None => return Err(format!("a chunk of {wanted} bytes, stored as {}", payload.len())),
        },
        Codec::Lz4 => {
            let Some((len, block)) = payload.split_first_chunk::<4>() else {
                return Err(format!("an LZ4 chunk of {} bytes; at least 4 are its length", payload.len()));
            };
            let len = u32::from_le_bytes(*len);
            if len != chunk.data_bytes {
                return Err(format!("length of an LZ4 chunk: expected {}, found {len}", chunk.data_bytes));
            }
            if u64::from(len) > (block.len() as u64 + 1) * LZ4_RATIO_MAX {
                return Err(format!("an LZ4 block of {} bytes cannot hold {len}", block.len()));
            }
            let from = out.len();
            out.resize(from + wanted, 0);
            let done = lz4_flex::block::decompress_into(block, &mut out[from..]);
            let done = done.map_err(|error| format!("an LZ4 chunk does not decompress: {error}"))?;
            if done != wanted {
                return Err(format!("an LZ4 chunk of {wanted} bytes decompressed to {done}"));
            }
        }
    }
    Ok(())
}
