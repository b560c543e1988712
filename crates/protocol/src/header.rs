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
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
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
    pub const COMPRESSED: u8 = 0x01;
    pub const TRACING: u8 = 0x02;
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    pub const WARNING: u8 = 0x08;
    pub const USE_BETA: u8 = 0x10;

    #[inline]
    pub fn has(self, mask: u8) -> bool {
        self.0 & mask != 0
    }
}

/// An envelope's header with a known version and opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub version: ProtocolVersion,
    pub flags: HeaderFlags,
    pub stream: i16,
    pub opcode: Opcode,
    /// Length of the body as transmitted: for a compressed body, the compressed length.
    pub body_bytes: u32,
}

impl Header {
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
    pub header: Header,
    pub body: &'a [u8],
}
