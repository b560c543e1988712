//! LZ4 blocks by the C library, which provides what the other codecs have too: reusable contexts, a slow
//! search with better compression, and a dictionary that is indexed once and then attached to every chunk.
//!
//! All unsafe code of the codecs is in this file. Pointers and lengths of buffers come from slices. The
//! lengths fit the library's 32-bit integers, because they are checked and
//! [`CHUNK_BYTES_MAX`](crate::component::compression_info::CHUNK_BYTES_MAX) is far below their range.

use std::ffi::{c_char, c_int};
use std::ptr::{NonNull, null};

// Links the library.
use lz4_sys as _;

/// The window of LZ4 in bytes. Of a longer dictionary only the last part is used.
const WINDOW_BYTES: usize = 64 * 1024;

#[repr(C)]
struct CStream {
    _opaque: [u8; 0],
}

#[repr(C)]
struct CStreamHigh {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn LZ4_compressBound(input: c_int) -> c_int;
    fn LZ4_createStream() -> *mut CStream;
    fn LZ4_freeStream(stream: *mut CStream) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut CStream);
    fn LZ4_loadDictSlow(stream: *mut CStream, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_attach_dictionary(working: *mut CStream, dictionary: *const CStream);
    fn LZ4_compress_fast_extState(
        state: *mut CStream,
        from: *const c_char,
        to: *mut c_char,
        from_bytes: c_int,
        to_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_compress_fast_continue(
        stream: *mut CStream,
        from: *const c_char,
        to: *mut c_char,
        from_bytes: c_int,
        to_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_createStreamHC() -> *mut CStreamHigh;
    fn LZ4_freeStreamHC(stream: *mut CStreamHigh) -> c_int;
    fn LZ4_resetStreamHC_fast(stream: *mut CStreamHigh, level: c_int);
    fn LZ4_loadDictHC(stream: *mut CStreamHigh, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_attach_HC_dictionary(working: *mut CStreamHigh, dictionary: *const CStreamHigh);
    fn LZ4_compress_HC_continue(
        stream: *mut CStreamHigh,
        from: *const c_char,
        to: *mut c_char,
        from_bytes: c_int,
        to_bytes: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        from: *const c_char,
        to: *mut c_char,
        from_bytes: c_int,
        to_bytes: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
}

fn c_len(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("a chunk has less than 2 GiB")
}

/// Upper bound of the block's length for `bytes` bytes.
pub(super) fn bound(bytes: usize) -> usize {
    let bytes = c_int::try_from(bytes).expect("a chunk has less than 2 GiB");
    // SAFETY: the function only computes with its argument.
    let bound = unsafe { LZ4_compressBound(bytes) };
    usize::try_from(bound).expect("a length")
}

/// The library computes addresses before the end of its input. For an empty slice they could lie below
/// address 0.
fn empty_block(out: &mut [u8]) -> usize {
    out[0] = 0;
    1
}

/// A context for the fast search.
pub(super) struct Stream(NonNull<CStream>);

/// A context for the slow search.
pub(super) struct StreamHigh(NonNull<CStreamHigh>);

impl Stream {
    pub(super) fn new() -> Self {
        // SAFETY: creates a context, which `drop` frees once.
        let stream = unsafe { LZ4_createStream() };
        Self(NonNull::new(stream).expect("memory for an LZ4 context"))
    }

    /// Returns the length of the block. `out` must have at least [`bound`] bytes.
    pub(super) fn compress(&mut self, dictionary: Option<&Stream>, chunk: &[u8], out: &mut [u8]) -> usize {
        assert!(out.len() >= bound(chunk.len()), "room for the longest block");
        if chunk.is_empty() {
            return empty_block(out);
        }
        let (from, to) = (chunk.as_ptr().cast(), out.as_mut_ptr().cast());
        let stream = self.0.as_ptr();
        // SAFETY: both contexts are live, and the slices have the passed lengths and do not overlap. The
        // dictionary's bytes outlive the call (`Dictionary` owns both), and the library drops its reference
        // to them at the end of the call.
        let done = unsafe {
            match dictionary {
                None => LZ4_compress_fast_extState(stream, from, to, c_len(chunk), c_len(out), 1),
                Some(dictionary) => {
                    LZ4_resetStream_fast(stream);
                    LZ4_attach_dictionary(stream, dictionary.0.as_ptr());
                    LZ4_compress_fast_continue(stream, from, to, c_len(chunk), c_len(out), 1)
                }
            }
        };
        usize::try_from(done).ok().filter(|done| *done > 0).expect("a block fits into its bound")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the context was created by `new` and is not used any more.
        unsafe { LZ4_freeStream(self.0.as_ptr()) };
    }
}

impl StreamHigh {
    pub(super) fn new() -> Self {
        // SAFETY: creates a context, which `drop` frees once.
        let stream = unsafe { LZ4_createStreamHC() };
        Self(NonNull::new(stream).expect("memory for an LZ4 context"))
    }

    /// As [`Stream::compress`].
    pub(super) fn compress(
        &mut self,
        level: i32,
        dictionary: Option<&StreamHigh>,
        chunk: &[u8],
        out: &mut [u8],
    ) -> usize {
        assert!(out.len() >= bound(chunk.len()), "room for the longest block");
        if chunk.is_empty() {
            return empty_block(out);
        }
        let (from, to) = (chunk.as_ptr().cast(), out.as_mut_ptr().cast());
        let stream = self.0.as_ptr();
        // SAFETY: as in `Stream::compress`. The reset removes the context's references to the chunk before.
        let done = unsafe {
            LZ4_resetStreamHC_fast(stream, level);
            LZ4_attach_HC_dictionary(stream, dictionary.map_or(null(), |it| it.0.as_ptr().cast_const()));
            let done = LZ4_compress_HC_continue(stream, from, to, c_len(chunk), c_len(out));
            LZ4_resetStreamHC_fast(stream, level);
            done
        };
        usize::try_from(done).ok().filter(|done| *done > 0).expect("a block fits into its bound")
    }
}

impl Drop for StreamHigh {
    fn drop(&mut self) {
        // SAFETY: the context was created by `new` and is not used any more.
        unsafe { LZ4_freeStreamHC(self.0.as_ptr()) };
    }
}

enum Prepared {
    Fast(Stream),
    High(StreamHigh, i32),
}

/// A dictionary that was indexed for one kind of search.
pub(super) struct Dictionary {
    prepared: Prepared,
    /// The bytes to which the contexts point. They must not move.
    _bytes: Box<[u8]>,
}

impl Dictionary {
    /// Indexes the dictionary for the slow search at `level`, or for the fast search if there is none.
    pub(super) fn new(dictionary: &[u8], level: Option<i32>) -> Self {
        let bytes: Box<[u8]> = window(dictionary).into();
        let (from, len) = (bytes.as_ptr().cast(), c_len(&bytes));
        let prepared = match level {
            None => {
                let stream = Stream::new();
                // SAFETY: the context is live. It keeps pointers into `bytes`, which `self` owns together
                // with it.
                unsafe { LZ4_loadDictSlow(stream.0.as_ptr(), from, len) };
                Prepared::Fast(stream)
            }
            Some(level) => {
                let stream = StreamHigh::new();
                // SAFETY: as for the fast search.
                unsafe {
                    LZ4_resetStreamHC_fast(stream.0.as_ptr(), level);
                    LZ4_loadDictHC(stream.0.as_ptr(), from, len);
                }
                Prepared::High(stream, level)
            }
        };
        Self { prepared, _bytes: bytes }
    }

    pub(super) fn fast(&self) -> &Stream {
        match &self.prepared {
            Prepared::Fast(stream) => stream,
            Prepared::High(..) => unreachable!("a dictionary for the slow search in the fast one"),
        }
    }

    pub(super) fn high(&self, wanted: i32) -> &StreamHigh {
        match &self.prepared {
            Prepared::High(stream, level) if *level == wanted => stream,
            _ => unreachable!("a dictionary for another search"),
        }
    }
}

/// The part of a dictionary that LZ4 can use.
pub(super) fn window(dictionary: &[u8]) -> &[u8] {
    &dictionary[dictionary.len().saturating_sub(WINDOW_BYTES)..]
}

/// Decompresses a block that must fill `out`, or returns a description of the error. `dictionary` may be
/// empty.
pub(super) fn decompress(block: &[u8], dictionary: &[u8], out: &mut [u8]) -> Result<(), String> {
    let dictionary = window(dictionary);
    // SAFETY: the slices have the passed lengths and do not overlap. The library stays within them whatever
    // the block contains.
    let done = unsafe {
        LZ4_decompress_safe_usingDict(
            block.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            c_len(block),
            c_len(out),
            dictionary.as_ptr().cast(),
            c_len(dictionary),
        )
    };
    match usize::try_from(done) {
        Ok(done) if done == out.len() => Ok(()),
        Ok(done) => Err(format!("an LZ4 chunk of {} bytes decompressed to {done}", out.len())),
        Err(_) => {
            let at = -(i64::from(done) + 1);
            Err(format!("an LZ4 chunk does not decompress: byte {at} of its block is wrong"))
        }
    }
}
