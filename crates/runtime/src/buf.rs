//! Owned, aligned buffer for direct I/O, with a visible window.
//!
//! The allocation starts at a multiple of 4,096 and its capacity is a multiple of that too, so that any
//! direct read or write fits. `Deref` returns the window `start..end`. A read that was rounded out to whole
//! blocks moves the window to the requested bytes, and so does not have to move the bytes.
//!
//! Invariant: every byte before `end` has been written, by this code or by the kernel.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of offsets, lengths and memory in direct I/O, in bytes.
pub const ALIGNMENT_BYTES: usize = 4096;

/// An owned heap buffer, aligned to [`ALIGNMENT_BYTES`]. It dereferences to the bytes of its window.
pub struct IoBuf {
    memory: NonNull<u8>,
    capacity: usize,
    start: usize,
    end: usize,
}

// SAFETY: the buffer is the only owner of its memory; nothing in it depends on the thread.
unsafe impl Send for IoBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for IoBuf {}

impl IoBuf {
    /// An empty buffer without memory.
    pub const fn new() -> Self {
        Self { memory: NonNull::dangling(), capacity: 0, start: 0, end: 0 }
    }

    /// An empty buffer with capacity for at least `bytes`, rounded up to the alignment.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buf = Self::new();
        buf.grow(bytes);
        buf
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut buf = Self::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.resize_zeroed(len);
        buf
    }

    /// Size of the memory in bytes, counted from its aligned start.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Position of the window in the memory; a multiple of the alignment unless the window was narrowed.
    pub fn window_start(&self) -> usize {
        self.start
    }

    /// Empties the window and moves it to the aligned start. Keeps the memory.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Narrows the window to `range`, relative to the current window.
    pub fn narrow(&mut self, range: std::ops::Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        self.end = self.start + range.end;
        self.start += range.start;
    }

    /// Appends a copy of `bytes`, and grows the memory if necessary.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.end.checked_add(bytes.len()).expect("a buffer is smaller than the address space");
        self.grow(end);
        // SAFETY: `grow` made the memory at least `end` bytes large. `bytes` is other memory, since `self` is
        // borrowed mutably.
        unsafe { self.memory.as_ptr().add(self.end).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.end = end;
    }

    /// Changes the length of the window to `len` bytes: cuts it, or appends zeros.
    pub fn resize_zeroed(&mut self, len: usize) {
        let end = self.start.checked_add(len).expect("a buffer is smaller than the address space");
        self.grow(end);
        if end > self.end {
            // SAFETY: `grow` made the memory at least `end` bytes large.
            unsafe { self.memory.as_ptr().add(self.end).write_bytes(0, end - self.end) };
        }
        self.end = end;
    }

    /// Address of byte `at` of the memory, where the kernel may write up to `capacity - at` bytes.
    pub(crate) fn raw_at(&mut self, at: usize) -> *mut u8 {
        assert!(at <= self.capacity, "byte {at} of {}", self.capacity);
        // SAFETY: the address is within the allocation, or one past its end.
        unsafe { self.memory.as_ptr().add(at) }
    }

    /// `len` bytes of the memory from byte `at` on, regardless of the window.
    pub(crate) fn memory_at(&mut self, at: usize, len: usize) -> &mut [MaybeUninit<u8>] {
        assert!(len <= self.capacity - at.min(self.capacity), "{len} bytes at {at} of {}", self.capacity);
        // SAFETY: the range is in the allocation, which is borrowed mutably; bytes that were not written are
        // valid as `MaybeUninit`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(at).cast(), len) }
    }

    /// Writes bytes into the memory from byte `at` on, regardless of the window, as the kernel does.
    pub(crate) fn fill_at(&mut self, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.capacity - at.min(self.capacity), "{} bytes at {at}", bytes.len());
        // SAFETY: the range is in the memory of this buffer, and `bytes` is other memory.
        unsafe { self.memory.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// `len` bytes of the window, from byte `at` of the memory on.
    pub(crate) fn part_at(&self, at: usize, len: usize) -> &[u8] {
        &self[at - self.start..at - self.start + len]
    }

    /// Sets the window to `0..filled`.
    ///
    /// # Safety
    /// The first `filled` bytes of the memory have been written.
    pub(crate) unsafe fn assume_filled(&mut self, filled: usize) {
        assert!(filled <= self.capacity, "{filled} bytes of {}", self.capacity);
        self.start = 0;
        self.end = filled;
    }

    fn grow(&mut self, bytes: usize) {
        if bytes <= self.capacity {
            return;
        }
        let bytes = bytes.max(if self.capacity == 0 { 0 } else { self.capacity.saturating_mul(2) });
        let capacity = bytes.checked_next_multiple_of(ALIGNMENT_BYTES).expect("a buffer fits in memory");
        let layout = Self::layout(capacity);
        // SAFETY: the layout is not empty: `bytes` exceeds the old capacity.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: both allocations hold at least `end` bytes and are distinct; the first `end` bytes are
        // initialized.
        unsafe { memory.as_ptr().copy_from_nonoverlapping(self.memory.as_ptr(), self.end) };
        self.release();
        self.memory = memory;
        self.capacity = capacity;
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            // SAFETY: the memory was allocated by `grow` with this layout, and is not used afterwards.
            unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.capacity)) };
        }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT_BYTES).expect("a buffer fits in memory")
    }
}

impl Default for IoBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        self.release();
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start <= end <= capacity`, and every byte before `end` has been written.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.start), self.end - self.start) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.start), self.end - self.start) }
    }
}

impl AsRef<[u8]> for IoBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for IoBuf {
    fn clone(&self) -> Self {
        Self::copy_from(self)
    }
}

impl PartialEq for IoBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for IoBuf {}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes of {})", self.len(), self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_grows_and_keeps_its_bytes() {
        let mut buf = IoBuf::new();
        assert!(buf.is_empty() && buf.capacity() == 0);
        for byte in 0..10_000_u32 {
            buf.extend_from_slice(&byte.to_le_bytes());
        }
        assert_eq!(buf.as_ptr() as usize % ALIGNMENT_BYTES, 0);
        assert_eq!(buf.capacity() % ALIGNMENT_BYTES, 0);
        assert!(buf.chunks(4).enumerate().all(|(at, word)| word == (at as u32).to_le_bytes()));
    }

    #[test]
    fn a_window_is_narrowed_and_resized() {
        let mut buf = IoBuf::copy_from(b"abcdefgh");
        buf.narrow(2..6);
        assert_eq!(&*buf, b"cdef");
        buf.narrow(1..3);
        assert_eq!(&*buf, b"de");
        buf.resize_zeroed(4);
        assert_eq!(&*buf, b"de\0\0");
        buf.resize_zeroed(1);
        assert_eq!(&*buf, b"d");
        buf.clear();
        buf.extend_from_slice(b"x");
        assert_eq!((&*buf, buf.window_start()), (&b"x"[..], 0));
    }
}
