//! One growing file: bytes appended into aligned buffers, full buffers written directly, some at a time.
//!
//! Appending never waits; [`OutputFile::write_full`] starts the writes of full buffers and returns while the last
//! [`IN_FLIGHT_MAX`] are under way, so that encoding goes on meanwhile. Space is reserved ahead in steps, so that
//! the file lies in few extents and a full disk shows early; [`OutputFile::finish`] cuts what was too much.
//! Dropping it leaves the file as it is.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;

use reader::LocalFuture;
use runtime::{ALIGNMENT_BYTES, File, FileError, Files, IoBuf, IoClass, OpenOptions};

/// What one write carries.
pub(super) const BUFFER_BYTES: usize = 128 * 1024;
/// Writes under way at the same time: enough for a disk that is fast but takes half a millisecond for each.
const IN_FLIGHT_MAX: usize = 4;
/// Space is reserved in steps that double from the first to the last of these.
const RESERVE_BYTES_MIN: u64 = 1 << 20;
const RESERVE_BYTES_MAX: u64 = 32 << 20;

const _: () = assert!(BUFFER_BYTES.is_multiple_of(ALIGNMENT_BYTES));

pub(super) struct OutputFile {
    file: File,
    class: IoClass,
    /// What is appended to.
    filling: IoBuf,
    /// Full buffers that wait to be written, in order.
    full: VecDeque<IoBuf>,
    /// Written buffers, to be filled again.
    spare: Vec<IoBuf>,
    in_flight: VecDeque<LocalFuture<'static, Result<IoBuf, FileError>>>,
    /// Where the first of `full` (or else `filling`) goes.
    next_at: u64,
    /// Up to where space is reserved; `u64::MAX` once a reservation found no room.
    reserved_bytes: u64,
    len_bytes: u64,
}

impl OutputFile {
    /// A new file, which must not exist.
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

    /// Bytes appended so far.
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

    /// A full buffer waits.
    pub(super) fn wants_write(&self) -> bool {
        !self.full.is_empty()
    }

    /// Starts writing all full buffers; waits only for those that are too many at a time.
    pub(super) async fn write_full(&mut self) -> Result<(), FileError> {
        while let Some(buf) = self.full.pop_front() {
            self.reserve_until(self.next_at + buf.len() as u64).await?;
            self.start_write(buf).await?;
        }
        Ok(())
    }

    /// Starts writing what comes next.
    async fn start_write(&mut self, buf: IoBuf) -> Result<(), FileError> {
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.wait_for_oldest().await?;
        }
        let at = self.next_at;
        self.next_at += buf.len() as u64;
        let (file, class) = (self.file.clone(), self.class);
        let mut write: LocalFuture<'static, _> = Box::pin(async move { file.write_at(at, buf, class).await });
        // The first poll hands the buffer to the device; the rest is waiting.
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

    /// Keeps a buffer to be filled again, unless a burst has made more than are of use.
    fn keep(&mut self, buf: IoBuf) {
        if self.spare.len() < IN_FLIGHT_MAX {
            self.spare.push(buf);
        }
    }

    /// Reserves further ahead if `end_bytes` is beyond what is reserved. A file of one buffer needs none.
    async fn reserve_until(&mut self, end_bytes: u64) -> Result<(), FileError> {
        if end_bytes <= self.reserved_bytes {
            return Ok(());
        }
        let from = self.reserved_bytes.max(end_bytes - BUFFER_BYTES as u64);
        let step_bytes = from.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        match self.file.allocate(from, step_bytes).await {
            Ok(()) => self.reserved_bytes = from + step_bytes,
            // Reserving asks for more than is needed: what is needed may still fit, else the write says so.
            Err(error) if error.is_no_space() => self.reserved_bytes = u64::MAX,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes the rest and cuts the file to its length. Gives the file, which the caller has to sync.
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
