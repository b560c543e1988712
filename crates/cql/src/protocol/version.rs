//! The versions of the native protocol that are spoken, and how a wrong one is answered.

use std::fmt;

/// A version this server speaks. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtocolVersion {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl ProtocolVersion {
    /// Oldest first.
    pub const ALL: [Self; 3] = [Self::V3, Self::V4, Self::V5];
    /// What a client of an unknown version is answered in.
    pub const HIGHEST: Self = Self::V5;

    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            3 => Some(Self::V3),
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }

    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Envelopes travel in checksummed segments once the connection has been set up.
    #[inline]
    pub fn has_segments(self) -> bool {
        self >= Self::V5
    }

    /// The text that drivers look for when they try a lower version.
    pub fn unsupported_text(number: u8) -> String {
        let [a, b, c] = Self::ALL;
        format!("Invalid or unsupported protocol version ({number}); supported versions are ({a}, {b}, {c})")
    }
}

/// As `PROTOCOL_VERSIONS` of SUPPORTED lists it: `5/v5`.
impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0}/v{0}", self.number())
    }
}
