//! Sends a large envelope block by block: each block of the body is fetched after the previous one has been
//! sent.
//!
//! v3 and v4 send the blocks unchanged. v5 packs them into segments, one at a time.

use super::segment::{self, PAYLOAD_BYTES_MAX};

/// The remaining body of an envelope, in blocks.
pub trait Blocks {
    /// Returns the next block. It is called after the previous block was sent and its memory freed.
    fn next_block(&mut self) -> Option<Vec<u8>>;

    /// Bytes of the blocks that were not returned yet.
    fn left_bytes(&self) -> usize;
}

/// The `Blocks` of a connection without streamed envelopes; no value of this type exists.
#[derive(Debug)]
pub enum NoBlocks {}

impl Blocks for NoBlocks {
    fn next_block(&mut self) -> Option<Vec<u8>> {
        match *self {}
    }

    fn left_bytes(&self) -> usize {
        match *self {}
    }
}

/// A streamed envelope; see the head of this file.
#[derive(Debug)]
pub(super) struct Streamed<B> {
    /// `Some`: sent in segments, with or without LZ4. `None`: sent unchanged.
    segments: Option<bool>,
    /// The framed bytes being sent; `sent_bytes` of them were sent.
    piece: Vec<u8>,
    sent_bytes: usize,
    /// The block from which the next segments are made; `used_bytes` of it were used.
    block: Vec<u8>,
    used_bytes: usize,
    rest: B,
    is_begun: bool,
}

impl<B: Blocks> Streamed<B> {
    /// `head` is the beginning of the envelope; `rest` provides the bytes that follow.
    pub(super) fn new(segments: Option<bool>, head: Vec<u8>, rest: B) -> Self {
        Self { segments, piece: Vec::new(), sent_bytes: 0, block: head, used_bytes: 0, rest, is_begun: false }
    }

    /// Makes the next bytes ready to send. Returns `false` if everything was sent.
    pub(super) fn fill(&mut self, scratch: &mut Vec<u8>) -> bool {
        if self.sent_bytes < self.piece.len() {
            return true;
        }
        self.sent_bytes = 0;
        match self.segments {
            None => {
                self.piece = Vec::new();
                self.piece = match self.has_block() {
                    true => std::mem::take(&mut self.block),
                    false => return false,
                };
            }
            Some(lz4) => {
                self.piece.clear();
                if !self.has_block() {
                    return false;
                }
                let is_whole = !self.is_begun && self.left_bytes() <= PAYLOAD_BYTES_MAX;
                let segment = segment::open(&mut self.piece, lz4);
                let mut room = PAYLOAD_BYTES_MAX;
                while room > 0 && self.has_block() {
                    let end = (self.used_bytes + room).min(self.block.len());
                    self.piece.extend_from_slice(&self.block[self.used_bytes..end]);
                    room -= end - self.used_bytes;
                    self.used_bytes = end;
                }
                segment::close(&mut self.piece, segment, is_whole, lz4, scratch);
            }
        }
        self.is_begun = true;
        true
    }

    /// Whether unused bytes of a block are left. Fetches the next block if necessary.
    fn has_block(&mut self) -> bool {
        while self.used_bytes == self.block.len() {
            self.block = Vec::new();
            self.used_bytes = 0;
            let Some(block) = self.rest.next_block() else { return false };
            self.block = block;
        }
        true
    }

    pub(super) fn ready(&self) -> &[u8] {
        &self.piece[self.sent_bytes..]
    }

    /// # Panics
    /// If more bytes were sent than were ready.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        assert!(self.sent_bytes <= self.piece.len(), "more was sent than there was");
    }

    /// Approximate bytes that are still to be sent.
    pub(super) fn left_bytes(&self) -> usize {
        self.piece.len() - self.sent_bytes + self.block.len() - self.used_bytes + self.rest.left_bytes()
    }
}
