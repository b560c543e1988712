//! An open file: reads and writes at offsets, sync, length.
//!
//! This file implements the parts that back ends share: waiting in the queue of the I/O scheduler, splitting
//! requests into parts, continuing after short reads and writes, rounding reads of direct files out to whole
//! blocks, and naming the file and the offset in errors.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::join::join_all;
use iosched::{Direction, WHOLE_BYTES};

use crate::buf::{ALIGNMENT_BYTES, IoBuf};
use crate::file_error::FileError;
use crate::group::IoClass;
use crate::shard::backend::{BackendFile, Part};
use crate::shard::io_gate::IoGate;

/// A longer read checks the length of the file before it allocates memory and is charged, because the
/// requested length may come from a corrupt file.
const UNCHECKED_READ_BYTES_MAX: usize = WHOLE_BYTES as usize;

/// A device may write a block only in part. After this number of writes in a row without progress, the write
/// fails.
const STUCK_WRITES_MAX: usize = 3;

struct Inner {
    file: Rc<dyn BackendFile>,
    path: PathBuf,
    gate: Rc<IoGate>,
}

/// An open file. Cheap to clone; closed when the last clone is dropped.
#[derive(Clone)]
pub struct File(Rc<Inner>);

impl File {
    pub(crate) fn new(file: Rc<dyn BackendFile>, path: PathBuf, gate: Rc<IoGate>) -> Self {
        Self(Rc::new(Inner { file, path, gate }))
    }

    /// The path with which it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether reads and writes bypass the page cache. False if direct I/O was not requested or the file
    /// system does not support it.
    pub fn is_direct(&self) -> bool {
        self.0.file.direct_read_unit_bytes().is_some()
    }

    /// The number of bytes that a read of `len` bytes fetches: in a direct file, whole units of the disk.
    pub fn fetched_bytes(&self, offset_bytes: u64, len: usize) -> usize {
        let unit_bytes = self.0.file.direct_read_unit_bytes();
        unit_bytes.map_or(len, |unit_bytes| rounded_out(offset_bytes, len, unit_bytes).1)
    }

    /// Reads `len` bytes at any offset; fewer only at the end of the file.
    pub async fn read_at(&self, offset_bytes: u64, len: usize, class: IoClass) -> Result<IoBuf, FileError> {
        let len = self.readable(offset_bytes, len).await?;
        let unit_bytes = self.0.file.direct_read_unit_bytes();
        let (from, wanted) =
            unit_bytes.map_or((offset_bytes, len), |unit_bytes| rounded_out(offset_bytes, len, unit_bytes));
        let mut buf = IoBuf::with_capacity(wanted);
        let mut filled = 0;
        while filled < wanted {
            let part = self.0.gate.part_bytes(class, Direction::Read, wanted - filled);
            let piece = Part { buf, at: filled, len: part, offset_bytes: from + filled as u64 };
            let inner = Rc::clone(&self.0);
            let start = move |pass| inner.file.read(piece, pass);
            let (back, moved) = self.0.gate.run(class, Direction::Read, part, unit_bytes, start).await;
            buf = back;
            match moved {
                Ok(0) => break,
                Ok(bytes) => {
                    assert!(bytes <= part, "a read of {part} gave {bytes}");
                    filled += bytes;
                    // A direct read that ends inside a block has reached the end of the file.
                    if unit_bytes.is_some_and(|unit_bytes| !filled.is_multiple_of(unit_bytes)) {
                        break;
                    }
                }
                Err(error) if is_transient(&error) => (),
                Err(error) => return Err(self.failed_at("read", from + filled as u64, error)),
            }
        }
        // SAFETY: the back end reported that it has written `filled` bytes, in order from the start of the
        // memory.
        unsafe { buf.assume_filled(filled) };
        let skipped = ((offset_bytes - from) as usize).min(filled);
        buf.narrow(skipped..filled.min(skipped + len));
        Ok(buf)
    }

    /// Writes the whole buffer at `offset_bytes` and returns it for reuse. In a direct file the offset, the
    /// length and the start of the buffer's window must be multiples of [`ALIGNMENT_BYTES`].
    pub async fn write_at(&self, offset_bytes: u64, buf: IoBuf, class: IoClass) -> Result<IoBuf, FileError> {
        self.write_from(0, offset_bytes, buf, class).await
    }

    /// As [`Self::write_at`], for a short write to space that is reserved in a buffered file: the shard's own
    /// thread copies the bytes into the page cache, and the first poll returns, unless that could block the
    /// thread. A round of the I/O back end costs several times as much.
    pub async fn write_through_cache_at(
        &self,
        offset_bytes: u64,
        buf: IoBuf,
        class: IoClass,
    ) -> Result<IoBuf, FileError> {
        let write = || self.0.file.write_at_once(&buf, offset_bytes);
        let done = match self.0.gate.write_at_once(class, buf.len(), write) {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) if !is_transient(&error) => {
                return Err(self.failed_at("write", offset_bytes, error));
            }
            Some(Err(_)) | None => 0,
        };
        assert!(done <= buf.len(), "a write of {} took {done}", buf.len());
        self.write_from(done, offset_bytes, buf, class).await
    }

    /// Writes the buffer from byte `done` on; its first byte belongs at `offset_bytes`.
    async fn write_from(
        &self,
        done: usize,
        offset_bytes: u64,
        buf: IoBuf,
        class: IoClass,
    ) -> Result<IoBuf, FileError> {
        let unit_bytes = self.0.file.direct_read_unit_bytes();
        let direct = unit_bytes.is_some();
        let (start, len) = (buf.window_start(), buf.len());
        if direct {
            let align = ALIGNMENT_BYTES as u64;
            assert!(offset_bytes.is_multiple_of(align), "direct write at {offset_bytes}");
            assert!(len.is_multiple_of(ALIGNMENT_BYTES), "direct write of {len} bytes");
            assert!(start.is_multiple_of(ALIGNMENT_BYTES), "direct write from byte {start} of a buffer");
        }
        let (mut buf, mut done) = (buf, done);
        let mut stuck = 0;
        while done < len {
            let at = offset_bytes + done as u64;
            let part = self.0.gate.part_bytes(class, Direction::Write, len - done);
            let piece = Part { buf, at: start + done, len: part, offset_bytes: at };
            let inner = Rc::clone(&self.0);
            let write = move |pass| inner.file.write(piece, pass);
            let (back, moved) = self.0.gate.run(class, Direction::Write, part, unit_bytes, write).await;
            buf = back;
            match moved {
                Ok(bytes) => {
                    assert!(bytes <= part, "a write of {part} took {bytes}");
                    let before = done;
                    done += bytes;
                    if direct {
                        // The next part must start at a block again.
                        done -= done % ALIGNMENT_BYTES;
                    }
                    stuck = if done == before { stuck + 1 } else { 0 };
                    if stuck >= STUCK_WRITES_MAX {
                        let error =
                            io::Error::new(io::ErrorKind::WriteZero, "the device takes no more bytes");
                        return Err(self.failed_at("write", at, error));
                    }
                }
                Err(error) if is_transient(&error) => (),
                Err(error) => return Err(self.failed_at("write", at, error)),
            }
        }
        Ok(buf)
    }

    /// Returns once all data written before, and the length of the file, are on the device (fdatasync). After
    /// an error the unsynced data may be lost, even if a later sync succeeds.
    pub async fn sync_data(&self) -> Result<(), FileError> {
        self.0.file.sync_data().await.map_err(|error| self.failed("sync", error))
    }

    /// Calls [`Self::sync_data`] of several files concurrently, so that the device and the journal of the
    /// file system make them durable together. Returns the first error, after all calls have ended.
    pub async fn sync_data_of(files: &[Self]) -> Result<(), FileError> {
        join_all(files.iter().map(|file| Box::pin(file.sync_data()) as _).collect()).await
    }

    /// Reserves space for `len_bytes` at `offset_bytes` and makes the file at least that long; new bytes read
    /// as 0. If the file system cannot reserve space, the part after the end of the file is written as zeros.
    pub async fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), FileError> {
        match self.0.file.allocate(offset_bytes, len_bytes).await {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.write_zeros_up_to(offset_bytes + len_bytes).await
            }
            result => result.map_err(|error| self.failed_at("allocate", offset_bytes, error)),
        }
    }

    /// Sets the length of the file to `len_bytes`: cuts it, or appends a hole of zeros.
    pub async fn truncate(&self, len_bytes: u64) -> Result<(), FileError> {
        self.0.file.truncate(len_bytes).await.map_err(|error| self.failed_at("truncate", len_bytes, error))
    }

    /// The current length of the file.
    pub async fn len_bytes(&self) -> Result<u64, FileError> {
        self.0.file.len_bytes().await.map_err(|error| self.failed("ask for the length of", error))
    }

    /// `len`, or the number of bytes that the file has there, if `len` is large.
    async fn readable(&self, offset_bytes: u64, len: usize) -> Result<usize, FileError> {
        if len <= UNCHECKED_READ_BYTES_MAX {
            return Ok(len);
        }
        let there_bytes = self.len_bytes().await?.saturating_sub(offset_bytes);
        Ok(len.min(usize::try_from(there_bytes).unwrap_or(usize::MAX)))
    }

    async fn write_zeros_up_to(&self, end_bytes: u64) -> Result<(), FileError> {
        let align = ALIGNMENT_BYTES as u64;
        let len_bytes = self.len_bytes().await?;
        let mut at = len_bytes.next_multiple_of(align);
        let zeros_bytes = end_bytes.saturating_sub(at).next_multiple_of(align).min(1 << 20) as usize;
        let mut zeros = IoBuf::zeroed(zeros_bytes);
        while at < end_bytes {
            let part_bytes = (end_bytes - at).next_multiple_of(align).min(zeros_bytes as u64);
            zeros.resize_zeroed(part_bytes as usize);
            zeros = self.write_at(at, zeros, IoClass::Maintenance).await?;
            at += part_bytes;
        }
        if end_bytes > len_bytes {
            self.truncate(end_bytes).await?;
        }
        Ok(())
    }

    fn failed(&self, op: &'static str, source: io::Error) -> FileError {
        FileError::new(op, self.path(), source)
    }

    fn failed_at(&self, op: &'static str, offset_bytes: u64, source: io::Error) -> FileError {
        FileError::at(op, self.path(), offset_bytes, source)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.path().display())
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// The smallest range of whole units that contains `offset_bytes..offset_bytes + len`.
fn rounded_out(offset_bytes: u64, len: usize, unit_bytes: usize) -> (u64, usize) {
    let from = offset_bytes - offset_bytes % unit_bytes as u64;
    let lead = (offset_bytes - from) as usize;
    (from, (lead + len).next_multiple_of(unit_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_rounded_out_to_units() {
        assert_eq!(rounded_out(0, 4096, 4096), (0, 4096));
        assert_eq!(rounded_out(4095, 2, 4096), (0, 8192));
        assert_eq!(rounded_out(8192, 1, 4096), (8192, 4096));
        assert_eq!(rounded_out(4095, 2, 512), (3584, 1024));
    }
}
