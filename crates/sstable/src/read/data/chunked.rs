//! A file that is read in chunks. Chunks are verified and decompressed, so that readers see the bytes before
//! compression.
//!
//! All positions are positions in the uncompressed data; only errors about stored chunks name file offsets. A
//! chunk is the unit of fetching and caching: a compressed chunk, or a fixed-size range of a plain file.
//! Checksums:
//! - A compressed chunk is verified before it is decompressed.
//! - A plain file is verified wherever a read covers a whole unit of CRC.db. Scans read whole units. A read
//!   of a single chunk is verified only if the unit is not larger than [`PLAIN_CHUNK_BYTES_MAX`].
//!
//! Checksums are verified with the probability set by [`ChunkedFile::set_crc_check_chance`]; the default is
//! always.
//!
//! Index.db has checksums only if Messina.db stores them. Its readers compare its entries with Data.db.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use base::broken;
use base::crc::crc32;
use reader::ReadError;
use runtime::{File, FileError, IoBuf, IoClass};

use super::cache::{ChunkCache, chunk_cost};
use super::loading_cache::{FileNumber, Lookup};
use super::room::Room;
use crate::codec::Decompressor;
use crate::component::compression_info::{CHUNK_CRC_BYTES, Chunk, CompressionInfo};
use crate::component::crc::ChunkCrcs;
use crate::pool::CacheClass;

/// Longest chunk of a plain Data.db in bytes. A chunk is as many units of CRC.db as fit into this length, or
/// a part of a larger unit.
pub(in crate::read) const PLAIN_CHUNK_BYTES_MAX: u32 = 16 * 1024;
/// Largest unit of CRC.db in bytes that is read. Cassandra and ScyllaDB write units of 64 KiB.
const UNIT_BYTES_MAX: u32 = 1024 * 1024;

enum Encoding {
    Plain { crcs: Option<ChunkCrcs> },
    Compressed { info: CompressionInfo, decompressor: Decompressor },
}

/// Whether a plain file with a checksum for every `unit` bytes can be divided into chunks so that each chunk
/// consists of whole units, or each unit of whole chunks.
pub(in crate::read) fn is_readable_unit(unit: u32) -> bool {
    (1..=PLAIN_CHUNK_BYTES_MAX).contains(&unit)
        || (unit <= UNIT_BYTES_MAX && unit.is_multiple_of(PLAIN_CHUNK_BYTES_MAX))
}

/// See the head of this file.
pub(in crate::read) struct ChunkedFile {
    file: File,
    /// Length on disk.
    file_bytes: u64,
    /// Length of the data before compression.
    data_bytes: u64,
    chunk_bytes: u64,
    /// Reads of whole multiples of this length are verified completely.
    scan_unit_bytes: u64,
    encoding: Encoding,
    crc_check_chance: Cell<f64>,
    cache: Rc<ChunkCache>,
    number: FileNumber,
    /// Counter of the bytes that client reads fetch from this file.
    fetched: OnceCell<Rc<Cell<u64>>>,
}

impl Drop for ChunkedFile {
    fn drop(&mut self) {
        self.cache.clear_file(self.number);
    }
}

/// Consecutive chunks.
#[derive(Clone, Copy)]
pub(in crate::read) struct Run {
    pub(in crate::read) first: u64,
    pub(in crate::read) count: u64,
}

/// Consecutive chunks as stored, read from disk and decoded one after the other.
pub(in crate::read) struct StoredRun {
    /// The chunks that are not decoded yet.
    rest: Run,
    /// File offset at which `stored` begins.
    offset_bytes: u64,
    stored: IoBuf,
}

impl StoredRun {
    pub(in crate::read) fn is_empty(&self) -> bool {
        self.rest.count == 0
    }

    /// Length of the stored bytes in memory.
    pub(in crate::read) fn held_bytes(&self) -> u64 {
        self.stored.len() as u64
    }

    /// The number of the chunk that is decoded next.
    pub(in crate::read) fn next_chunk(&self) -> u64 {
        self.rest.first
    }

    /// Skips the chunks before `chunk`. Returns false and skips nothing if `chunk` is not among the remaining
    /// ones.
    pub(in crate::read) fn skip_to(&mut self, chunk: u64) -> bool {
        let end = self.rest.first + self.rest.count;
        let is_inside = (self.rest.first..end).contains(&chunk);
        if is_inside {
            self.rest = Run { first: chunk, count: end - chunk };
        }
        is_inside
    }
}

impl ChunkedFile {
    /// An uncompressed file, with checksums if `crcs` has them. Cached chunks are accounted as `class`.
    pub(in crate::read) fn plain(
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
                    let chunk = (chunk_bytes / unit).max(1) * unit;
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
            crc_check_chance: Cell::new(1.0),
            cache: Rc::clone(cache),
            number: cache.new_file(class),
            fetched: OnceCell::new(),
        }
    }

    pub(in crate::read) fn compressed(
        file: File,
        file_bytes: u64,
        info: CompressionInfo,
        decompressor: Decompressor,
        cache: &Rc<ChunkCache>,
    ) -> Self {
        Self {
            file,
            file_bytes,
            data_bytes: info.data_bytes,
            chunk_bytes: u64::from(info.chunk_bytes),
            scan_unit_bytes: u64::from(info.chunk_bytes),
            encoding: Encoding::Compressed { info, decompressor },
            crc_check_chance: Cell::new(1.0),
            cache: Rc::clone(cache),
            number: cache.new_file(CacheClass::Chunks),
            fetched: OnceCell::new(),
        }
    }

    /// Whether reads may use cached index pages (`cache_index_pages`).
    pub(in crate::read) fn is_index_kept(&self) -> bool {
        self.cache.caches_index()
    }

    /// Length of the data before compression.
    pub(in crate::read) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Length on disk.
    pub(in crate::read) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(in crate::read) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Whether every byte of the file is covered by a checksum.
    pub(in crate::read) fn is_checksummed(&self) -> bool {
        !matches!(&self.encoding, Encoding::Plain { crcs: None })
    }

    pub(in crate::read) fn scan_unit_bytes(&self) -> u64 {
        self.scan_unit_bytes
    }

    pub(in crate::read) fn file(&self) -> &File {
        &self.file
    }

    /// Position in the data at which chunk `chunk` starts.
    pub(in crate::read) fn chunk_start(&self, chunk: u64) -> u64 {
        chunk * self.chunk_bytes
    }

    /// Bytes of heap memory in use.
    pub(in crate::read) fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Plain { crcs } => crcs.as_ref().map_or(0, ChunkCrcs::memory_bytes),
            Encoding::Compressed { .. } => self.compression_bytes(),
        }
    }

    /// Bytes of heap memory for the offsets of compressed chunks and for a dictionary.
    pub(in crate::read) fn compression_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Plain { .. } => 0,
            Encoding::Compressed { info, decompressor } => info.memory_bytes() + decompressor.memory_bytes(),
        }
    }

    /// The content of CompressionInfo.db, without a dictionary.
    pub(in crate::read) fn compression(&self) -> Option<&CompressionInfo> {
        match &self.encoding {
            Encoding::Plain { .. } => None,
            Encoding::Compressed { info, .. } => Some(info),
        }
    }

    pub(in crate::read) fn dictionary_bytes(&self) -> Option<usize> {
        match &self.encoding {
            Encoding::Compressed { decompressor, .. } => decompressor.dictionary_bytes(),
            _ => None,
        }
    }

    /// Adds the bytes that client reads fetch from disk to `bytes`, from now on. Only the first call has an
    /// effect.
    pub(in crate::read) fn count_fetched_in(&self, bytes: &Rc<Cell<u64>>) {
        self.fetched.get_or_init(|| Rc::clone(bytes));
    }

    /// Sets the probability, from 0.0 to 1.0, with which later reads verify checksums.
    pub(in crate::read) fn set_crc_check_chance(&self, chance: f64) {
        self.crc_check_chance.set(chance);
    }

    #[inline]
    fn checks_crc(&self) -> bool {
        !broken::is("chunk_checksum") && self.cache.draws(self.crc_check_chance.get())
    }

    /// An error about the data at `position`.
    pub(in crate::read) fn corrupt(&self, position: u64, detail: &str) -> ReadError {
        let place = match self.encoding {
            Encoding::Plain { .. } => "",
            Encoding::Compressed { .. } => " (a position in the uncompressed data)",
        };
        self.corrupt_stored(position, format!("{detail}{place}"))
    }

    /// An error about the bytes stored at `offset_bytes` of the file.
    fn corrupt_stored(&self, offset_bytes: u64, detail: String) -> ReadError {
        ReadError::Corrupt { file: self.file.path().to_owned(), offset_bytes, detail }
    }

    fn failed(&self, error: FileError, offset_bytes: u64) -> ReadError {
        let offset_bytes = error.offset_bytes.unwrap_or(offset_bytes);
        ReadError::Io { file: self.file.path().to_owned(), offset_bytes, source: error.source }
    }

    /// File offset and length of the run.
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

    /// The disk request for a run. The caller awaits the request and passes its result to
    /// [`Self::decode_run`]. The future owns all its data.
    pub(in crate::read) fn request_run(
        &self,
        run: &Run,
        class: IoClass,
    ) -> Result<impl Future<Output = Result<IoBuf, FileError>> + use<>, ReadError> {
        let (offset_bytes, len) = self.stored_range(run)?;
        let fetched_bytes = self.file.fetched_bytes(offset_bytes, len) as u64;
        self.cache.count_request(self.number, fetched_bytes);
        if let (IoClass::Statement | IoClass::Created(_), Some(fetched)) = (class, self.fetched.get()) {
            fetched.set(fetched.get() + fetched_bytes);
        }
        let file = self.file.clone();
        Ok(async move { file.read_at(offset_bytes, len, class).await })
    }

    /// Wraps the result of [`Self::request_run`] for `run`.
    pub(in crate::read) fn stored_run(
        &self,
        run: Run,
        stored: Result<IoBuf, FileError>,
    ) -> Result<StoredRun, ReadError> {
        let (offset_bytes, len) = self.stored_range(&run)?;
        let stored = stored.map_err(|error| self.failed(error, offset_bytes))?;
        if stored.len() != len {
            let at = offset_bytes + stored.len() as u64;
            let detail = format!("the file ends here; it was {} bytes when it was opened", self.file_bytes);
            return Err(self.corrupt_stored(at, detail));
        }
        Ok(StoredRun { rest: run, offset_bytes, stored })
    }

    /// As [`Self::decode_run`] for one chunk, into shared memory.
    fn decode_shared(&self, run: &Run, stored: Result<IoBuf, FileError>) -> Result<Rc<[u8]>, ReadError> {
        let mut shared: Rc<[u8]> = Rc::default();
        match &self.encoding {
            Encoding::Plain { .. } => {
                let mut out = Room::default();
                self.decode_run(run, stored, &mut out)?;
                shared = out[..].into();
            }
            Encoding::Compressed { .. } => {
                let StoredRun { stored, .. } = self.stored_run(*run, stored)?;
                let chunk = self.stored_chunk(run.first)?;
                self.decode_chunk(&chunk, &stored, |bytes| {
                    shared = std::iter::repeat_n(0, bytes).collect();
                    Rc::get_mut(&mut shared).expect("nobody else has it yet")
                })?;
            }
        }
        Ok(shared)
    }

    /// Verifies a run from [`Self::request_run`] and appends its data to `out`.
    fn decode_run(
        &self,
        run: &Run,
        stored: Result<IoBuf, FileError>,
        out: &mut Room,
    ) -> Result<(), ReadError> {
        self.decode_some(&mut self.stored_run(*run, stored)?, u64::MAX, out)
    }

    /// Verifies the next chunks of a run and appends their data to `out`: at least `bytes` bytes, rounded up
    /// to whole units of verification, or all if the run has fewer.
    pub(in crate::read) fn decode_some(
        &self,
        run: &mut StoredRun,
        bytes: u64,
        out: &mut Room,
    ) -> Result<(), ReadError> {
        let StoredRun { rest, offset_bytes, stored } = run;
        let bytes = bytes.checked_next_multiple_of(self.scan_unit_bytes).unwrap_or(u64::MAX);
        let count = (bytes / self.chunk_bytes).clamp(1, rest.count.max(1)).min(rest.count);
        if count == 0 {
            return Ok(());
        }
        let now = Run { first: rest.first, count };
        match &self.encoding {
            Encoding::Plain { crcs } => {
                let (start, len) = self.stored_range(&now)?;
                let from = (start - *offset_bytes) as usize;
                let plain = &stored[from..from + len];
                if let Some(crcs) = crcs
                    && self.checks_crc()
                {
                    self.check_units(crcs, start, plain)?;
                }
                out.extend_from_slice(plain);
            }
            Encoding::Compressed { .. } => {
                for chunk in now.first..now.first + now.count {
                    let chunk = self.stored_chunk(chunk)?;
                    let from = (chunk.stored_at - *offset_bytes) as usize;
                    self.decode_chunk(&chunk, &stored[from..], |bytes| out.add(bytes))?;
                }
            }
        }
        *rest = Run { first: rest.first + count, count: rest.count - count };
        Ok(())
    }

    /// Verifies a chunk and decompresses it into the memory that `room` returns. `stored` begins with the
    /// payload and its checksum.
    fn decode_chunk<'a>(
        &self,
        chunk: &Chunk,
        stored: &[u8],
        room: impl FnOnce(usize) -> &'a mut [u8],
    ) -> Result<(), ReadError> {
        let Encoding::Compressed { info, decompressor } = &self.encoding else {
            unreachable!("a plain file has nothing to decompress");
        };
        let corrupt = |detail: String| self.corrupt_stored(chunk.stored_at, detail);
        let (payload, crc) = stored.split_at(chunk.stored_bytes as usize);
        if self.checks_crc() {
            let crc = u32::from_be_bytes(*crc.first_chunk().expect("a chunk and its checksum were read"));
            let found = crc32(payload);
            if crc != found {
                let detail = format!("checksum of a chunk: expected {found:08x}, found {crc:08x} after it");
                return Err(corrupt(detail));
            }
        }
        let wanted = chunk.data_bytes as usize;
        let is_raw = chunk.stored_bytes >= u64::from(info.max_compressed_bytes);
        let decompressor = if is_raw { &Decompressor::NOOP } else { decompressor };
        decompressor.check(payload, wanted).map_err(corrupt)?;
        decompressor.decompress(payload, room(wanted)).map_err(corrupt)
    }

    /// Verifies every unit of CRC.db that lies entirely in `bytes`, which start at `position`.
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
                    "the {} bytes from here have checksum {:08x}, and not the one that they were written with",
                    unit_data.len(),
                    crc32(unit_data)
                );
                return Err(self.corrupt_stored(start, detail));
            }
        }
        Ok(())
    }

    /// Returns the chunk from the cache, or reads it from disk and puts it into the cache.
    pub(in crate::read) async fn chunk(&self, chunk: u64, class: IoClass) -> Result<Rc<[u8]>, ReadError> {
        let kept = self.cache.chunks();
        loop {
            match kept.get(self.number, chunk) {
                Lookup::Found(bytes) => return Ok(bytes),
                Lookup::InFlight(pending) => match pending.wait(chunk).await {
                    Some(result) => return result,
                    None => continue,
                },
                Lookup::Nothing => {}
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
        self.decode_shared(&run, stored)
    }

    /// Appends the data of a run to `out`. Chunks that the cache does not have are read from disk, with one
    /// request for each gap, and put into the cache.
    pub(in crate::read) async fn append_cached(
        &self,
        run: &Run,
        class: IoClass,
        out: &mut Room,
    ) -> Result<(), ReadError> {
        let kept = self.cache.chunks();
        let end = run.first + run.count;
        let mut chunk = run.first;
        while chunk < end {
            match kept.get(self.number, chunk) {
                Lookup::Found(bytes) => {
                    out.extend_from_slice(&bytes);
                    chunk += 1;
                    continue;
                }
                Lookup::InFlight(pending) => {
                    if let Some(result) = pending.wait(chunk).await {
                        out.extend_from_slice(&result?);
                        chunk += 1;
                    }
                    continue;
                }
                Lookup::Nothing => {}
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

    /// Appends the data of a run to `out`, read from disk without using the cache.
    pub(in crate::read) async fn append(
        &self,
        run: &Run,
        class: IoClass,
        out: &mut Room,
    ) -> Result<(), ReadError> {
        let stored = self.request_run(run, class)?.await;
        self.decode_run(run, stored, out)
    }
}
