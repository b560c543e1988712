//! The nine-byte header of every message: version and direction, flags, stream, opcode, length of the body.

use super::ProtocolVersion;

/// Bytes of an envelope's header in v3 and later.
pub const HEADER_BYTES: usize = 9;
/// Bit of the first byte: set in messages of a server.
pub const RESPONSE_BIT: u8 = 0x80;
/// The stream id of events.
pub const EVENT_STREAM: i16 = -1;

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Answer: an error.
    Error = 0x00,
    /// Request: begins a connection, with its options.
    Startup = 0x01,
    /// Answer: the connection may send statements.
    Ready = 0x02,
    /// Answer: the server wants a login.
    Authenticate = 0x03,
    /// Request: which options does the server support?
    Options = 0x05,
    /// Answer: the supported options.
    Supported = 0x06,
    /// Request: execute a statement in text form.
    Query = 0x07,
    /// Answer: the result of a statement.
    Result = 0x08,
    /// Request: prepare a statement.
    Prepare = 0x09,
    /// Request: execute a prepared statement.
    Execute = 0x0A,
    /// Request: send these events from now on.
    Register = 0x0B,
    /// Answer without a request, on stream -1: an event.
    Event = 0x0C,
    /// Request: execute several statements as one.
    Batch = 0x0D,
    /// Answer: the login continues with this token.
    AuthChallenge = 0x0E,
    /// Request: the token of a login.
    AuthResponse = 0x0F,
    /// Answer: the login has succeeded.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The opcode of a byte; `None`: there is none.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::Error,
            0x01 => Self::Startup,
            0x02 => Self::Ready,
            0x03 => Self::Authenticate,
            0x05 => Self::Options,
            0x06 => Self::Supported,
            0x07 => Self::Query,
            0x08 => Self::Result,
            0x09 => Self::Prepare,
            0x0A => Self::Execute,
            0x0B => Self::Register,
            0x0C => Self::Event,
            0x0D => Self::Batch,
            0x0E => Self::AuthChallenge,
            0x0F => Self::AuthResponse,
            0x10 => Self::AuthSuccess,
            _ => return None,
        })
    }

    /// Whether clients send it, and not servers.
    #[inline]
    pub fn is_request(self) -> bool {
        matches!(
            self,
            Self::Startup
                | Self::Options
                | Self::Query
                | Self::Prepare
                | Self::Execute
                | Self::Register
                | Self::Batch
                | Self::AuthResponse
        )
    }
}

/// The header's second byte. Unknown bits are kept and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFlags(pub u8);

impl HeaderFlags {
    /// The body is compressed (v3, v4).
    pub const COMPRESSED: u8 = 0x01;
    /// Of a request: it wants a trace. Of an answer: the body begins with the trace's id.
    pub const TRACING: u8 = 0x02;
    /// The body has a custom payload (v4, v5).
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// The body has warnings (v4, v5); of servers only.
    pub const WARNING: u8 = 0x08;
    /// The client accepts a version in development.
    pub const USE_BETA: u8 = 0x10;

    /// Whether the flag `mask` is set.
    #[inline]
    pub fn has(self, mask: u8) -> bool {
        self.0 & mask != 0
    }
}

/// An envelope's header with a known version and opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the message.
    pub version: ProtocolVersion,
    /// The flags, see the constants of [`HeaderFlags`].
    pub flags: HeaderFlags,
    /// The number by which the client matches the answer to its request; negative in events.
    pub stream: i16,
    /// The kind of message.
    pub opcode: Opcode,
    /// Length of the body as transmitted: for a compressed body, the compressed length.
    pub body_bytes: u32,
}

impl Header {
    /// The nine bytes before the body.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let direction = if self.opcode.is_request() { 0 } else { RESPONSE_BIT };
        let [s0, s1] = self.stream.to_be_bytes();
        let [b0, b1, b2, b3] = self.body_bytes.to_be_bytes();
        [self.version.number() | direction, self.flags.0, s0, s1, self.opcode as u8, b0, b1, b2, b3]
    }
}

/// A complete message, decompressed: header and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The decoded header.
    pub header: Header,
    /// The body, uncompressed.
    pub body: &'a [u8],
}
