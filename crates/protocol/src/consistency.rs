//! Consistency levels: the protocol's numbers and CQL's names.

use std::fmt;

/// The number of replicas that must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// A write is acknowledged when any node has it, or a hint of it.
    Any = 0,
    /// One replica.
    One = 1,
    /// Two replicas.
    Two = 2,
    /// Three replicas.
    Three = 3,
    /// More than half of all replicas.
    Quorum = 4,
    /// All replicas.
    All = 5,
    /// More than half of the replicas in the coordinator's data center.
    LocalQuorum = 6,
    /// More than half of the replicas in each data center.
    EachQuorum = 7,
    /// Of the Paxos round of a conditional write: over all data centers.
    Serial = 8,
    /// Of the Paxos round of a conditional write: in the coordinator's data center.
    LocalSerial = 9,
    /// One replica in the coordinator's data center.
    LocalOne = 10,
}

impl Consistency {
    /// All levels, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::Any,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Quorum,
        Self::All,
        Self::LocalQuorum,
        Self::EachQuorum,
        Self::Serial,
        Self::LocalSerial,
        Self::LocalOne,
    ];

    /// The level of a number of the protocol; `None`: there is none.
    #[inline]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The number in the protocol.
    #[inline]
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Ignores case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// The name in error texts: `LOCAL_QUORUM`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
        }
    }

    /// True for the levels of the serial phase of conditional statements.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
