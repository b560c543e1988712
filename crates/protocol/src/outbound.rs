//! Turns envelopes into the bytes of a connection: compressed (v3, v4) or in segments (v5), as negotiated.
//!
//! 1. [`Outbound::envelope`] takes a function that appends one envelope, such as those of [`super::Reply`]
//!    and [`super::client`]. Small envelopes of v5 share a segment.
//! 2. [`Outbound::ready`] completes the last segment and returns the bytes to send; [`Outbound::sent`]
//!    reports the number of bytes sent.
//! 3. [`Outbound::started`] is called after the answer to STARTUP has been appended. This answer is still
//!    sent with the old framing.
//! 4. [`Outbound::streamed`] appends an envelope that is too large to be copied. Its body is fetched in
//!    blocks, each after the previous block has been sent. In v3 and v4 such an envelope is not compressed,
//!    because compression needs the body in one piece.

use std::collections::VecDeque;

use super::segment::{self, PAYLOAD_BYTES_MAX};
use super::streamed::{Blocks, NoBlocks, Streamed};
use super::{Compression, HEADER_BYTES, HeaderFlags, ProtocolVersion};

/// Smaller bodies are not compressed, because it saves too little.
const COMPRESS_BYTES_MIN: usize = 512;
/// A buffer larger than this is freed when it is empty.
const KEPT_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Envelopes { compression: Option<Compression> },
    Segments { lz4: bool },
}

/// The sending direction of a connection. `B` provides the bodies of streamed envelopes.
#[derive(Debug)]
pub struct Outbound<B = NoBlocks> {
    framing: Framing,
    out: Vec<u8>,
    sent_bytes: usize,
    /// Offset of the open segment, to which envelopes can still be added.
    open: Option<usize>,
    scratch: Vec<u8>,
    /// Parts to send before `out`, in this order.
    front: VecDeque<Part<B>>,
}

/// A part of the bytes to send.
#[derive(Debug)]
enum Part<B> {
    /// Framed bytes, and the number of them already sent.
    Bytes(Vec<u8>, usize),
    Streamed(Streamed<B>),
}

impl Outbound {
    /// For a connection without streamed envelopes.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<B> Default for Outbound<B> {
    fn default() -> Self {
        Self {
            framing: Framing::Envelopes { compression: None },
            out: Vec::new(),
            sent_bytes: 0,
            open: None,
            scratch: Vec::new(),
            front: VecDeque::new(),
        }
    }
}

impl<B: Blocks> Outbound<B> {
    /// Sets the framing and compression of the envelopes appended from now on; see
    /// [`super::Inbound::started`].
    pub fn started(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.close_segment();
        self.framing = if version.has_segments() {
            Framing::Segments { lz4: compression == Some(Compression::Lz4) }
        } else {
            Framing::Envelopes { compression }
        };
    }

    /// Appends an envelope. `append` must append one complete envelope, uncompressed, and leave the bytes
    /// before it unchanged.
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

    /// Appends a streamed envelope. `append` appends its beginning, with a header that counts the bytes of
    /// `rest` too; `rest` provides the remaining bytes.
    pub fn streamed(&mut self, append: impl FnOnce(&mut Vec<u8>), rest: B) {
        self.close_segment();
        if !self.out.is_empty() {
            let before = std::mem::take(&mut self.out);
            self.front.push_back(Part::Bytes(before, std::mem::take(&mut self.sent_bytes)));
        }
        let mut head = Vec::new();
        append(&mut head);
        let segments = match self.framing {
            Framing::Envelopes { .. } => None,
            Framing::Segments { lz4 } => Some(lz4),
        };
        self.front.push_back(Part::Streamed(Streamed::new(segments, head, rest)));
    }

    /// Approximate bytes of streamed envelopes that are still to be sent.
    pub fn streamed_bytes(&self) -> usize {
        let left = |part: &Part<B>| match part {
            Part::Bytes(..) => 0,
            Part::Streamed(streamed) => streamed.left_bytes(),
        };
        self.front.iter().map(left).sum()
    }

    /// Compresses the body of the envelope at `start` if this makes it smaller.
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

    /// Handles an envelope at `start` that does not fit into the open segment: it begins a new segment, or
    /// gets segments of its own.
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

    /// Bytes that can be sent now; empty if there are none.
    pub fn ready(&mut self) -> &[u8] {
        while let Some(Part::Streamed(streamed)) = self.front.front_mut() {
            if streamed.fill(&mut self.scratch) {
                break;
            }
            self.front.pop_front();
        }
        match self.front.front() {
            Some(Part::Streamed(streamed)) => streamed.ready(),
            Some(Part::Bytes(bytes, sent_bytes)) => &bytes[*sent_bytes..],
            None => {
                // `close_segment` cannot be called here, since it borrows `front` too.
                if let (Some(segment), Framing::Segments { lz4 }) = (self.open.take(), self.framing) {
                    segment::close(&mut self.out, segment, true, lz4, &mut self.scratch);
                }
                &self.out[self.sent_bytes..]
            }
        }
    }

    /// Reports that `bytes` bytes of [`Self::ready`] were sent.
    ///
    /// # Panics
    /// If `bytes` is more than [`Self::ready`] returned.
    pub fn sent(&mut self, bytes: usize) {
        match self.front.front_mut() {
            Some(Part::Streamed(streamed)) => return streamed.sent(bytes),
            Some(Part::Bytes(part, sent_bytes)) => {
                *sent_bytes += bytes;
                assert!(*sent_bytes <= part.len(), "more was sent than there was");
                if *sent_bytes == part.len() {
                    self.front.pop_front();
                }
                return;
            }
            None => {}
        }
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

    /// Frees the buffers of an idle connection. Bytes that are still to be sent are kept.
    pub fn release_memory(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        self.scratch = Vec::new();
    }

    /// Bytes of memory held: data to send, and buffers kept for later messages. Streamed envelopes are not
    /// included.
    pub fn memory_bytes(&self) -> usize {
        let held = |part: &Part<B>| match part {
            Part::Bytes(bytes, _) => bytes.capacity(),
            Part::Streamed(_) => 0,
        };
        self.out.capacity() + self.scratch.capacity() + self.front.iter().map(held).sum::<usize>()
    }

    /// Approximate bytes that are still to be sent. Streamed envelopes are not included.
    pub fn pending_bytes(&self) -> usize {
        let waiting = |part: &Part<B>| match part {
            Part::Bytes(bytes, sent_bytes) => bytes.len() - sent_bytes,
            Part::Streamed(_) => 0,
        };
        self.out.len() - self.sent_bytes + self.front.iter().map(waiting).sum::<usize>()
    }
}

fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}
