//! Service levels: what a level says, and which one several of them make.
//!
//! A role has at most one level of its own and takes over those of the roles granted to it. Of each option the
//! strictest value wins: the lowest timeout, the fewest shares, batch before interactive; an option that is not set
//! gives way to one that is. Rules are ScyllaDB's (source: its documentation of service levels).

use std::fmt;

/// Shares of a level for which none are given.
pub const DEFAULT_SHARES: u32 = 1000;

/// The level of whoever has no other; nobody creates, alters or drops it.
pub const DEFAULT_LEVEL: &str = "default";

/// The level of what drivers ask for themselves: logging in, and the schema and the nodes, on the connections on which they want to hear of events. Built in
/// as the default one is.
pub const DRIVER_LEVEL: &str = "driver";

/// Shares of that level.
pub const DRIVER_SHARES: u32 = 200;

/// What a level's requests are, and so what is done with them when there are too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// As [`Self::Batch`].
    #[default]
    Unspecified,
    /// As many as are answered: too many are slowed down.
    Batch,
    /// As many as people send: those that would be late are refused at once.
    Interactive,
}

impl Workload {
    /// As it is stored and shown; `None` for the word of none.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "interactive" => Some(Self::Interactive),
            "batch" => Some(Self::Batch),
            "unspecified" => Some(Self::Unspecified),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Batch => "batch",
            Self::Interactive => "interactive",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a level says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLevel {
    /// In place of all the node's timeouts; `None`: those count.
    pub timeout_ms: Option<u64>,
    pub workload: Workload,
    /// From 1 to 1000.
    pub shares: u32,
}

impl Default for ServiceLevel {
    fn default() -> Self {
        Self { timeout_ms: None, workload: Workload::Unspecified, shares: DEFAULT_SHARES }
    }
}

/// An option's value and the level it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    pub value: T,
    pub level: String,
}

/// What counts for a role: of each option the value that won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveLevel {
    pub timeout_ms: Chosen<Option<u64>>,
    pub workload: Chosen<Workload>,
    /// Whose shares they are is the level in whose group requests run.
    pub shares: Chosen<u32>,
}

impl EffectiveLevel {
    /// Of one level alone.
    pub fn of(name: &str, level: &ServiceLevel) -> Self {
        fn chosen<T>(value: T, name: &str) -> Chosen<T> {
            Chosen { value, level: name.to_string() }
        }
        Self {
            timeout_ms: chosen(level.timeout_ms, name),
            workload: chosen(level.workload, name),
            shares: chosen(level.shares, name),
        }
    }

    /// Of both together; of equal values the first stays.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let is_shorter = match (self.timeout_ms.value, other.timeout_ms.value) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(one), Some(other)) => other < one,
        };
        let is_stricter = match (self.workload.value, other.workload.value) {
            (_, Workload::Unspecified) => false,
            (Workload::Unspecified, _) => true,
            (one, other) => other < one,
        };
        Self {
            timeout_ms: if is_shorter { other.timeout_ms } else { self.timeout_ms },
            workload: if is_stricter { other.workload } else { self.workload },
            shares: if other.shares.value < self.shares.value { other.shares } else { self.shares },
        }
    }
}
