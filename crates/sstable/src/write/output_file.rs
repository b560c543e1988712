//! A file that is written sequentially: appended bytes go into aligned buffers, and full buffers are written
//! by direct I/O, several at a time.
//!
//! Appending never waits. [`OutputFile::write_full`] starts the writes of full buffers and returns while the
//! last [`IN_FLIGHT_MAX`] are in flight, so that encoding continues meanwhile. Disk space is reserved ahead
//! in steps, so that the file has few extents and a full disk is noticed early; [`OutputFile::finish`]
//! truncates the excess. Dropping an `OutputFile` leaves the file as it is.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;

use reader::LocalFuture;
use runtime::{ALIGNMENT_BYTES, File, FileError, Files, IoBuf, IoClass, OpenOptions};

/// Bytes of one write.
pub(super) const BUFFER_BYTES: usize = 128 * 1024;
/// Maximum number of writes in flight: enough for a fast disk with a latency of half a millisecond.
const IN_FLIGHT_MAX: usize = 4;
/// First and last step of reserving space; each step is twice the previous one.
const RESERVE_BYTES_MIN: u64 = 1 << 20;
const RESERVE_BYTES_MAX: u64 = 32 << 20;

const _: () = assert!(BUFFER_BYTES.is_multiple_of(ALIGNMENT_BYTES));

pub(super) struct OutputFile {
    file: File,
    class: IoClass,
    /// The buffer to which bytes are appended.
    filling: IoBuf,
    /// Full buffers to be written, in order.
    full: VecDeque<IoBuf>,
    /// Written buffers, for reuse.
    spare: Vec<IoBuf>,
    in_flight: VecDeque<LocalFuture<'static, Result<IoBuf, FileError>>>,
    /// File position of the first buffer in `full`, or else of `filling`.
    next_at: u64,
    /// End of the reserved space; `u64::MAX` after a reservation failed for want of space.
    reserved_bytes: u64,
    len_bytes: u64,
}

impl OutputFile {
    /// Creates a file, which must not exist.
    pub(super) async fn create(files: &Files, path: &Path, class: IoClass) -> Result<Self, FileError> {
        let file = files.open(path, OpenOptions::create_new().with_direct(true)).await?;
        Ok(Self {
            file,
            class,
            filling: IoBuf::with_capacity(BUFFER_BYTES),
            full: VecDeque::new(),
            spare: vec![],
            in_flight: VecDeque::new(),
            next_at: 0,
            reserved_bytes: 0,
            len_bytes: 0,
        })
    }

    /// Number of bytes appended so far.
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        self.len_bytes += bytes.len() as u64;
        while self.filling.len() + bytes.len() >= BUFFER_BYTES {
            let (now, later) = bytes.split_at(BUFFER_BYTES - self.filling.len());
            self.filling.extend_from_slice(now);
            bytes = later;
            let mut next = self.spare.pop().unwrap_or_else(|| IoBuf::with_capacity(BUFFER_BYTES));
            next.clear();
            self.full.push_back(std::mem::replace(&mut self.filling, next));
        }
        self.filling.extend_from_slice(bytes);
    }

    /// Whether a full buffer has to be written.
    pub(super) fn wants_write(&self) -> bool {
        !self.full.is_empty()
    }

    /// Starts writing all full buffers. Waits only while [`IN_FLIGHT_MAX`] writes are in flight.
    pub(super) async fn write_full(&mut self) -> Result<(), FileError> {
        while let Some(buf) = self.full.pop_front() {
            self.reserve_until(self.next_at + buf.len() as u64).await?;
            self.start_write(buf).await?;
        }
        Ok(())
    }

    /// Starts writing `buf` at the next position.
    async fn start_write(&mut self, buf: IoBuf) -> Result<(), FileError> {
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.wait_for_oldest().await?;
        }
        let at = self.next_at;
        self.next_at += buf.len() as u64;
        let (file, class) = (self.file.clone(), self.class);
        let mut write: LocalFuture<'static, _> = Box::pin(async move { file.write_at(at, buf, class).await });
        // The first poll hands the buffer to the device; later polls only wait for it.
        let polled = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(written) => self.keep(written?),
            Poll::Pending => self.in_flight.push_back(write),
        }
        Ok(())
    }

    async fn wait_for_oldest(&mut self) -> Result<(), FileError> {
        if let Some(write) = self.in_flight.pop_front() {
            let buf = write.await?;
            self.keep(buf);
        }
        Ok(())
    }

    /// Keeps a buffer for reuse. At most [`IN_FLIGHT_MAX`] are kept.
    fn keep(&mut self, buf: IoBuf) {
        if self.spare.len() < IN_FLIGHT_MAX {
            self.spare.push(buf);
        }
    }

    /// Reserves the next step if `end_bytes` is beyond the reserved space. A file of one buffer needs no
    /// reservation.
    async fn reserve_until(&mut self, end_bytes: u64) -> Result<(), FileError> {
        if end_bytes <= self.reserved_bytes {
            return Ok(());
        }
        let from = self.reserved_bytes.max(end_bytes - BUFFER_BYTES as u64);
        let step_bytes = from.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        match self.file.allocate(from, step_bytes).await {
            Ok(()) => self.reserved_bytes = from + step_bytes,
            // A reservation is larger than the data. The data may still fit; otherwise the write fails.
            Err(error) if error.is_no_space() => self.reserved_bytes = u64::MAX,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes the remaining bytes and truncates the file to its length. Returns the file, which the caller
    /// has to sync.
    pub(super) async fn finish(mut self) -> Result<File, FileError> {
        self.write_full().await?;
        let mut rest = std::mem::take(&mut self.filling);
        if !rest.is_empty() {
            if self.file.is_direct() {
                rest.resize_zeroed(rest.len().next_multiple_of(ALIGNMENT_BYTES));
            }
            self.start_write(rest).await?;
        }
        while !self.in_flight.is_empty() {
            self.wait_for_oldest().await?;
        }
        self.file.truncate(self.len_bytes).await?;
        Ok(self.file)
    }
}
