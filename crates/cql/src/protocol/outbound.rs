//! From envelopes to the bytes of a connection: compressed (v3, v4) or in segments (v5), as was agreed.
//!
//! 1. [`Outbound::envelope`] with a function that appends one envelope, as [`super::Reply`] and
//!    [`super::client`] do. Small envelopes of v5 share a segment.
//! 2. [`Outbound::ready`] completes the last segment and gives what can be sent; [`Outbound::sent`] says how
//!    much was.
//! 3. [`Outbound::started`] after the answer to STARTUP has been appended: that one travels as before.

use super::segment::{self, PAYLOAD_BYTES_MAX};
use super::{Compression, HEADER_BYTES, HeaderFlags, ProtocolVersion};

/// Smaller bodies are not worth compressing.
const COMPRESS_BYTES_MIN: usize = 512;
/// A buffer that has grown beyond this is given back when it is empty.
const KEPT_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Envelopes { compression: Option<Compression> },
    Segments { lz4: bool },
}

/// The other direction of a connection.
#[derive(Debug)]
pub struct Outbound {
    framing: Framing,
    out: Vec<u8>,
    sent_bytes: usize,
    /// Where the segment that still takes envelopes begins.
    open: Option<usize>,
    scratch: Vec<u8>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbound {
    pub fn new() -> Self {
        Self {
            framing: Framing::Envelopes { compression: None },
            out: Vec::new(),
            sent_bytes: 0,
            open: None,
            scratch: Vec::new(),
        }
    }

    /// As [`super::Inbound::started`], for what is appended from now on.
    pub fn started(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.close_segment();
        self.framing = if version.has_segments() {
            Framing::Segments { lz4: compression == Some(Compression::Lz4) }
        } else {
            Framing::Envelopes { compression }
        };
    }

    /// `append` appends one whole envelope, uncompressed, and touches nothing before it.
    pub fn envelope<T>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        match self.framing {
            Framing::Envelopes { compression } => {
                let start = self.out.len();
                let result = append(&mut self.out);
                if let Some(compression) = compression {
                    self.compress(start, compression);
                }
                result
            }
            Framing::Segments { lz4 } => {
                let segment = *self.open.get_or_insert_with(|| segment::open(&mut self.out, lz4));
                let start = self.out.len();
                let result = append(&mut self.out);
                if self.out.len() - segment - segment::header_bytes(lz4) > PAYLOAD_BYTES_MAX {
                    self.overflow(segment, start, lz4);
                }
                result
            }
        }
    }

    /// Compresses the body of the envelope at `start` if that makes it smaller.
    fn compress(&mut self, start: usize, compression: Compression) {
        let body_at = start + HEADER_BYTES;
        if self.out.len() < body_at + COMPRESS_BYTES_MIN {
            return;
        }
        self.scratch.clear();
        compression.compress(&self.out[body_at..], &mut self.scratch);
        if self.scratch.len() < self.out.len() - body_at {
            self.out.truncate(body_at);
            self.out.extend_from_slice(&self.scratch);
            self.out[start + 1] |= HeaderFlags::COMPRESSED;
            let len = self.scratch.len() as u32;
            self.out[start + 5..body_at].copy_from_slice(&len.to_be_bytes());
        }
        shrink(&mut self.scratch);
    }

    /// The envelope at `start` does not fit into the open segment: it begins a new one, or gets its own.
    fn overflow(&mut self, segment: usize, start: usize, lz4: bool) {
        let envelope = self.out.split_off(start);
        if start > segment + segment::header_bytes(lz4) {
            segment::close(&mut self.out, segment, true, lz4, &mut self.scratch);
        } else {
            self.out.truncate(segment);
        }
        self.open = None;
        if envelope.len() <= PAYLOAD_BYTES_MAX {
            self.open = Some(segment::open(&mut self.out, lz4));
            self.out.extend_from_slice(&envelope);
            return;
        }
        for part in envelope.chunks(PAYLOAD_BYTES_MAX) {
            let segment = segment::open(&mut self.out, lz4);
            self.out.extend_from_slice(part);
            segment::close(&mut self.out, segment, false, lz4, &mut self.scratch);
        }
    }

    fn close_segment(&mut self) {
        if let (Some(segment), Framing::Segments { lz4 }) = (self.open.take(), self.framing) {
            segment::close(&mut self.out, segment, true, lz4, &mut self.scratch);
        }
    }

    /// What can be sent; empty if there is nothing.
    pub fn ready(&mut self) -> &[u8] {
        self.close_segment();
        &self.out[self.sent_bytes..]
    }

    /// So many bytes of [`Self::ready`] are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        assert!(self.sent_bytes <= self.out.len(), "more was sent than there was");
        if self.sent_bytes == self.out.len() {
            self.sent_bytes = 0;
            self.out.clear();
            shrink(&mut self.out);
        } else if self.sent_bytes > KEPT_BYTES && self.open.is_none() {
            self.out.drain(..self.sent_bytes);
            self.sent_bytes = 0;
        }
    }

    /// Gives buffers back, for a connection that is idle; what waits to be sent stays.
    pub fn release_memory(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        self.scratch = Vec::new();
    }

    /// Bytes held: to be sent, or kept for what will be.
    pub fn memory_bytes(&self) -> usize {
        self.out.capacity() + self.scratch.capacity()
    }

    /// Bytes that wait to be sent, about.
    pub fn pending_bytes(&self) -> usize {
        self.out.len() - self.sent_bytes
    }
}

fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}
