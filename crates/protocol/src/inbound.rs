//! Splits the bytes received on a connection into complete messages, in order. This module does not use
//! sockets.
//!
//! 1. Read into [`Inbound::space`] and report the number of bytes with [`Inbound::filled`].
//! 2. Take envelopes with [`Inbound::next`] until it returns `None`. An envelope borrows from the input
//!    buffer, unless it was compressed or split.
//! 3. When the answer to STARTUP is decided, and before the next call of `next`, call [`Inbound::started`].
//!    From there on v5 uses segments, and bodies may be compressed.
//!
//! After an error, [`FrameError::close`] states what to do. Either only this message was bad and was skipped,
//! or the rest of the stream cannot be decoded; then `next` returns no more messages.
//!
//! Guarantees: memory is bounded by the largest accepted body. A message whose length is over the limit is
//! refused before its body arrives. Memory grows with the bytes received, not with the length that a header
//! claims.

use base::bytes::Take;

use super::compression::decompress_lz4;
use super::segment::{self, SegmentHeader};
use super::wire::protocol_error;
use super::{
    Compression, Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, ProtocolVersion, RESPONSE_BIT,
};
use crate::CqlError;

/// The default of Cassandra and ScyllaDB, formerly `native_transport_max_frame_size`.
pub const BODY_BYTES_MAX_DEFAULT: usize = 256 << 20;
/// Limit for bodies before STARTUP has been answered. A client has no reason to send more by then.
const BODY_BYTES_MAX_BEFORE_STARTUP: usize = 128 << 10;
const READ_BYTES: usize = 16 << 10;
/// A buffer larger than this is freed when it is empty.
const KEPT_BYTES: usize = 256 << 10;

/// Error for bytes that are not a valid message, and how to proceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The error for the client.
    pub error: CqlError,
    /// The stream of the answer.
    pub stream: i16,
    /// The protocol version of the answer. It is 1 or 2 for clients that support no later version.
    pub version: u8,
    /// Whether to close the connection after the answer has been sent. Otherwise the connection stays open.
    pub close: bool,
}

impl FrameError {
    /// Appends the answer as an envelope.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let known = ProtocolVersion::from_number(self.version);
        super::Reply::new(known.unwrap_or(ProtocolVersion::V3), self.stream).error(out, &self.error);
        if known.is_none() {
            // v1 and v2 have one byte for the stream, and the same errors as v3.
            out[start] = self.version | RESPONSE_BIT;
            out.remove(start + 2);
        }
    }
}

/// The side of the connection that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Accepts requests.
    Server,
    /// Accepts responses.
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No version was negotiated yet.
    Initial,
    Envelopes {
        version: ProtocolVersion,
        compression: Option<Compression>,
    },
    Segments {
        version: ProtocolVersion,
        lz4: bool,
    },
}

/// Where the next envelope of a self-contained segment begins.
#[derive(Clone, Copy, Debug)]
enum Payload {
    None,
    /// In the input, with `left_bytes` of the payload left. The segment's checksum follows and was already
    /// verified.
    Input {
        left_bytes: usize,
    },
    /// In `plain`, at this offset.
    Plain {
        at: usize,
    },
}

/// Where a body is stored.
enum Body {
    Input { at: usize, len: usize },
    Plain { at: usize, len: usize },
    Large,
}

/// The receiving direction of a connection.
#[derive(Debug)]
pub struct Inbound {
    side: Side,
    body_bytes_max: usize,
    framing: Framing,
    input: Vec<u8>,
    start: usize,
    end: usize,
    payload: Payload,
    /// The most recently decompressed body or payload.
    plain: Vec<u8>,
    /// An envelope that arrived in several segments.
    large: Vec<u8>,
    large_is_given: bool,
    /// Bytes of a refused body that are still to be skipped.
    skip_bytes: usize,
    closed: bool,
}

impl Inbound {
    /// `body_bytes_max` limits a body, compressed or not. [`BODY_BYTES_MAX_DEFAULT`] is the default of
    /// Cassandra and ScyllaDB.
    pub fn new(side: Side, body_bytes_max: usize) -> Self {
        Self {
            side,
            body_bytes_max: body_bytes_max.min(i32::MAX as usize),
            framing: Framing::Initial,
            input: Vec::new(),
            start: 0,
            end: 0,
            payload: Payload::None,
            plain: Vec::new(),
            large: Vec::new(),
            large_is_given: false,
            skip_bytes: 0,
            closed: false,
        }
    }

    /// Sets the framing and compression of the following messages. v5 supports only LZ4: the caller refuses
    /// Snappy in v5; here it counts as no compression.
    pub fn started(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.framing = if version.has_segments() {
            Framing::Segments { version, lz4: compression == Some(Compression::Lz4) }
        } else {
            Framing::Envelopes { version, compression }
        };
    }

    /// The buffer to read into; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.room(READ_BYTES)
    }

    /// Returns at least `bytes_min` free bytes at the end of the input. A growing buffer at least doubles its
    /// unread bytes.
    fn room(&mut self, bytes_min: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.input.len() > KEPT_BYTES {
                self.input = Vec::new();
            }
        }
        let used = self.end - self.start;
        if self.input.len() - self.end < bytes_min {
            if self.start >= used {
                self.input.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, used);
            }
            let wanted = self.end + bytes_min.max(used);
            if self.input.len() < wanted {
                self.input.resize(wanted, 0);
            }
        }
        &mut self.input[self.end..]
    }

    /// Reports that `bytes` bytes were read into [`Self::space`].
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.input.len() - self.end, "more was read than there was space");
        self.end += bytes;
        if self.closed {
            self.start = self.end;
        }
    }

    /// Copies received bytes in. With this, connections can share one read buffer, and each needs memory only
    /// for its incomplete messages.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.room(bytes.len().min(READ_BYTES));
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            self.filled(len);
            bytes = &bytes[len..];
        }
    }

    /// Frees the buffers of an idle connection. Bytes that were received and not taken are kept.
    pub fn release_memory(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.input = Vec::new();
        }
        if !matches!(self.payload, Payload::Plain { .. }) {
            self.plain = Vec::new();
        }
        if self.large.is_empty() || self.large_is_given {
            self.large_is_given = false;
            self.large = Vec::new();
        }
    }

    /// Bytes of memory held: received data that was not taken yet, and buffers kept for later messages.
    pub fn memory_bytes(&self) -> usize {
        self.input.capacity() + self.plain.capacity() + self.large.capacity()
    }

    /// Returns the next message, or `None` if more bytes must be received first.
    ///
    /// # Errors
    /// See [`FrameError::close`]. After an error that does not close the connection, call again.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<Envelope<'_>>, FrameError> {
        if self.closed {
            return Ok(None);
        }
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some((header, body))) => {
                let body = match body {
                    Body::Input { at, len } => &self.input[at..at + len],
                    Body::Plain { at, len } => &self.plain[at..at + len],
                    Body::Large => &self.large[HEADER_BYTES..],
                };
                Ok(Some(Envelope { header, body }))
            }
            Err(error) => {
                if error.close {
                    self.closed = true;
                    self.start = self.end;
                    self.large = Vec::new();
                    self.plain = Vec::new();
                }
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<(Header, Body)>, FrameError> {
        match self.framing {
            Framing::Initial => self.next_envelope(None),
            Framing::Envelopes { compression, .. } => self.next_envelope(compression),
            Framing::Segments { version, lz4 } => self.next_in_segments(version, lz4),
        }
    }

    fn next_envelope(
        &mut self,
        compression: Option<Compression>,
    ) -> Result<Option<(Header, Body)>, FrameError> {
        let skipped = self.skip_bytes.min(self.end - self.start);
        self.start += skipped;
        self.skip_bytes -= skipped;
        let input = &self.input[self.start..self.end];
        let Some(first) = input.first() else { return Ok(None) };
        // Check the version by the first byte alone, because older versions have shorter headers.
        self.check_version(*first)?;
        let Some(bytes) = input.first_chunk() else { return Ok(None) };
        let header = match self.header(bytes) {
            Ok(header) => header,
            Err(error) => {
                if !error.close {
                    self.start += HEADER_BYTES;
                    self.skip_bytes = body_bytes(bytes) as usize;
                }
                return Err(error);
            }
        };
        let len = header.body_bytes as usize;
        if input.len() - HEADER_BYTES < len {
            return Ok(None);
        }
        let at = self.start + HEADER_BYTES;
        self.start = at + len;
        if !header.flags.has(HeaderFlags::COMPRESSED) {
            return Ok(Some((header, Body::Input { at, len })));
        }
        let alone = |error| FrameError {
            error,
            stream: header.stream,
            version: header.version.number(),
            close: false,
        };
        let Some(compression) = compression else {
            let text = "a compressed message, but STARTUP named no compression";
            return Err(alone(protocol_error(text.into())));
        };
        shrink(&mut self.plain);
        compression
            .decompress(&self.input[at..at + len], &mut self.plain, self.body_bytes_max)
            .map_err(alone)?;
        Ok(Some((header, Body::Plain { at: 0, len: self.plain.len() })))
    }

    fn next_in_segments(
        &mut self,
        version: ProtocolVersion,
        lz4: bool,
    ) -> Result<Option<(Header, Body)>, FrameError> {
        let fatal = |error| FrameError { error, stream: 0, version: version.number(), close: true };
        if self.large_is_given {
            self.large_is_given = false;
            self.large.clear();
            shrink(&mut self.large);
        }
        loop {
            if let Some(found) = self.next_in_payload().map_err(|error| match error {
                PayloadError::Frame(error) => error,
                PayloadError::CutShort => {
                    fatal(protocol_error("a self-contained segment ends within a message".into()))
                }
            })? {
                return Ok(Some(found));
            }
            let input = &self.input[self.start..self.end];
            let header_bytes = segment::header_bytes(lz4);
            let Some(header) = input.get(..header_bytes) else { return Ok(None) };
            let header = SegmentHeader::decode(header, lz4).map_err(fatal)?;
            let mut take = Take::new(&input[header_bytes..]);
            let (Ok(payload), Ok(trailer)) = (take.bytes(header.payload_bytes), take.array()) else {
                return Ok(None);
            };
            segment::check_payload(payload, trailer).map_err(fatal)?;
            let segment_bytes = header_bytes + payload.len() + trailer.len();
            if let Some(plain_bytes) = header.plain_bytes {
                decompress_lz4(payload, plain_bytes, &mut self.plain, segment::PAYLOAD_BYTES_MAX)
                    .map_err(fatal)?;
            }
            if header.self_contained {
                if !self.large.is_empty() || self.skip_bytes > 0 {
                    let text = "a self-contained segment within a message of several segments";
                    return Err(fatal(protocol_error(text.into())));
                }
                if header.plain_bytes.is_some() {
                    self.payload = Payload::Plain { at: 0 };
                    self.start += segment_bytes;
                } else {
                    self.payload = Payload::Input { left_bytes: payload.len() };
                    self.start += header_bytes;
                }
                continue;
            }
            let part = if header.plain_bytes.is_some() { &self.plain[..] } else { payload };
            if self.skip_bytes > 0 {
                let Some(left) = self.skip_bytes.checked_sub(part.len()) else {
                    return Err(fatal(too_much_in_segment()));
                };
                self.skip_bytes = left;
            } else {
                self.large.extend_from_slice(part);
            }
            self.start += segment_bytes;
            if let Some(header) = self
                .large_envelope()
                .map_err(|error| error.unwrap_or_else(|| fatal(too_much_in_segment())))?
            {
                self.large_is_given = true;
                return Ok(Some((header, Body::Large)));
            }
        }
    }

    /// The header of the envelope in `large`, if the envelope is complete. `Err(None)`: there are more bytes
    /// than the header states.
    fn large_envelope(&mut self) -> Result<Option<Header>, Option<FrameError>> {
        let Some(bytes) = self.large.first_chunk() else { return Ok(None) };
        let have = self.large.len() - HEADER_BYTES;
        match self.header(bytes) {
            Ok(header) if have > header.body_bytes as usize => Err(None),
            Ok(header) => Ok((have == header.body_bytes as usize).then_some(header)),
            Err(error) => {
                if !error.close {
                    let Some(left) = (body_bytes(bytes) as usize).checked_sub(have) else { return Err(None) };
                    self.skip_bytes = left;
                    self.large.clear();
                }
                Err(Some(error))
            }
        }
    }

    /// The next envelope of a self-contained segment. `None`: the segment has no more envelopes.
    fn next_in_payload(&mut self) -> Result<Option<(Header, Body)>, PayloadError> {
        let (left, at) = match self.payload {
            Payload::None => return Ok(None),
            Payload::Input { left_bytes } => (&self.input[self.start..self.start + left_bytes], self.start),
            Payload::Plain { at } => (&self.plain[at..], at),
        };
        if left.is_empty() {
            if let Payload::Input { .. } = self.payload {
                self.start += segment::TRAILER_BYTES;
            }
            self.payload = Payload::None;
            return Ok(None);
        }
        let bytes = left.first_chunk().ok_or(PayloadError::CutShort)?;
        let header = self.header(bytes);
        let len = body_bytes(bytes) as usize;
        let is_whole = left.len() - HEADER_BYTES >= len;
        if let Err(error) = &header
            && error.close
        {
            return Err(PayloadError::Frame(error.clone()));
        }
        if !is_whole {
            return Err(PayloadError::CutShort);
        }
        let message_bytes = HEADER_BYTES + len;
        let body_at = at + HEADER_BYTES;
        let body = match &mut self.payload {
            Payload::Input { left_bytes } => {
                *left_bytes -= message_bytes;
                self.start += message_bytes;
                Body::Input { at: body_at, len }
            }
            Payload::Plain { at } => {
                *at += message_bytes;
                Body::Plain { at: body_at, len }
            }
            Payload::None => return Ok(None),
        };
        header.map(|header| Some((header, body))).map_err(PayloadError::Frame)
    }

    fn check_version(&self, first: u8) -> Result<ProtocolVersion, FrameError> {
        let number = first & !RESPONSE_BIT;
        let Some(version) = ProtocolVersion::from_number(number) else {
            // A v1 or v2 client is answered in its own version, since it reads only old headers. All other
            // clients are answered in the newest version. Drivers expect this answer on stream 0.
            let answer = if matches!(number, 1 | 2) { number } else { ProtocolVersion::HIGHEST.number() };
            let error = protocol_error(ProtocolVersion::unsupported_text(number));
            return Err(FrameError { error, stream: 0, version: answer, close: true });
        };
        let fatal = |text: String| FrameError {
            error: protocol_error(text),
            stream: 0,
            version: version.number(),
            close: true,
        };
        if (first & RESPONSE_BIT != 0) != (self.side == Side::Client) {
            let wanted = if self.side == Side::Server { "requests" } else { "responses" };
            return Err(fatal(format!("the first byte is {first:#04x}; only {wanted} are accepted here")));
        }
        match self.framing {
            Framing::Envelopes { version: agreed, .. } | Framing::Segments { version: agreed, .. }
                if agreed != version =>
            {
                let mut error = fatal(format!(
                    "Invalid message version. Got {version} but previous messages on this connection had version {agreed}"
                ));
                error.version = agreed.number();
                Err(error)
            }
            _ => Ok(version),
        }
    }

    /// Decodes the nine header bytes and checks that such a message is acceptable now.
    fn header(&self, bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let version = self.check_version(bytes[0])?;
        let stream = i16::from_be_bytes([bytes[2], bytes[3]]);
        let refuse = |error, close| FrameError { error, stream, version: version.number(), close };
        let body_bytes = body_bytes(bytes);
        if i32::try_from(body_bytes).is_err() {
            let text = format!("a body of {} bytes", body_bytes as i32);
            return Err(refuse(protocol_error(text), true));
        }
        let body_bytes_max = match (self.framing, self.side) {
            (Framing::Initial, Side::Server) => self.body_bytes_max.min(BODY_BYTES_MAX_BEFORE_STARTUP),
            _ => self.body_bytes_max,
        };
        if body_bytes as usize > body_bytes_max {
            let text = format!(
                "Request is too big: length {body_bytes} exceeds maximum allowed length {body_bytes_max}."
            );
            return Err(refuse(CqlError::Invalid(text), false));
        }
        let opcode = match Opcode::from_byte(bytes[4]) {
            Some(opcode) if opcode.is_request() == (self.side == Side::Server) => opcode,
            Some(opcode) => {
                let text = format!(
                    "{opcode:?} has the wrong direction (from server to client or from client to server)"
                );
                return Err(refuse(protocol_error(text), false));
            }
            None => return Err(refuse(protocol_error(format!("Unknown opcode {}", bytes[4])), false)),
        };
        let mut flags = HeaderFlags(bytes[1]);
        if version.has_segments() {
            // In v5 segments are compressed instead of envelopes, and this flag has no meaning.
            flags.0 &= !HeaderFlags::COMPRESSED;
        }
        Ok(Header { version, flags, stream, opcode, body_bytes })
    }
}

enum PayloadError {
    Frame(FrameError),
    CutShort,
}

fn too_much_in_segment() -> CqlError {
    protocol_error("a segment that is not self-contained extends beyond its message".into())
}

fn body_bytes(header: &[u8; HEADER_BYTES]) -> u32 {
    u32::from_be_bytes([header[5], header[6], header[7], header[8]])
}

fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}
