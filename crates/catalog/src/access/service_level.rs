//! Service levels: the options of a level, and the effective options of several levels.
//!
//! A role has at most one level of its own and inherits those of the roles granted to it. Of each option the
//! strictest value wins: the lowest timeout, the fewest shares, batch before interactive. An option that is
//! set takes precedence over one that is not. The rules are ScyllaDB's (source: its documentation of service
//! levels).

use std::fmt;

/// The shares of a level without explicit shares.
pub const DEFAULT_SHARES: u32 = 1000;

/// The level of roles without a level. It cannot be created, altered or dropped.
pub const DEFAULT_LEVEL: &str = "default";

/// The level of the drivers' own requests: logins, and queries of the schema and the nodes on the connections
/// that listen to events. It is built in like the default level.
pub const DRIVER_LEVEL: &str = "driver";

/// The shares of `DRIVER_LEVEL`.
pub const DRIVER_SHARES: u32 = 200;

/// The kind of a level's requests. It decides how overload is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Handled like [`Self::Batch`].
    #[default]
    Unspecified,
    /// Clients send a new request after an answer: overload is throttled.
    Batch,
    /// Clients send requests independent of answers: requests that would be late are shed immediately.
    Interactive,
}

impl Workload {
    /// Parses the stored name; `None` if it is unknown.
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

/// The options of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLevel {
    /// Replaces all timeouts of the node, in milliseconds; `None`: the node's timeouts apply.
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

/// The value of an option, and the level that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    pub value: T,
    pub level: String,
}

/// The effective options of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveLevel {
    pub timeout_ms: Chosen<Option<u64>>,
    pub workload: Chosen<Workload>,
    /// The level of this value is the one in whose scheduling group requests run.
    pub shares: Chosen<u32>,
}

impl EffectiveLevel {
    /// The options of a single level.
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

    /// Merges two levels; of equal values the first is kept.
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
