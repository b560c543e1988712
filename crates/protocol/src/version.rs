//! The supported versions of the native protocol, and the answer to an unsupported one.

use std::fmt;

/// A supported version, ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtocolVersion {
    /// Cassandra 2.1 and later.
    V3 = 3,
    /// Cassandra 2.2 and later.
    V4 = 4,
    /// Cassandra 4.0 and later, with segments and checksums.
    V5 = 5,
}

impl ProtocolVersion {
    /// Oldest first.
    pub const ALL: [Self; 3] = [Self::V3, Self::V4, Self::V5];
    /// The version in which clients of an unknown version are answered.
    pub const HIGHEST: Self = Self::V5;

    /// The version of a number in a header; `None`: older, newer or not released.
    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            3 => Some(Self::V3),
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }

    /// The number in a header.
    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether envelopes travel in checksummed segments after STARTUP was answered.
    #[inline]
    pub fn has_segments(self) -> bool {
        self >= Self::V5
    }

    /// The message by which drivers recognize that they should try a lower version.
    pub fn unsupported_text(number: u8) -> String {
        let [a, b, c] = Self::ALL;
        format!("Invalid or unsupported protocol version ({number}); supported versions are ({a}, {b}, {c})")
    }
}

/// Formats the version as in `PROTOCOL_VERSIONS` of SUPPORTED: `5/v5`.
impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0}/v{0}", self.number())
    }
}
