//! Deletions: of a partition, a row, a range, a collection. All are the same pair of times.

/// "No deletion time": what is live and does not expire. Source: Cassandra 5's unsigned form; SSTables
/// before `oa` write it as 0x7fffffff.
pub const NO_DELETION_TIME_S: u32 = u32::MAX;

/// The timestamp of "nothing was written".
pub const NO_TIMESTAMP_US: i64 = i64::MIN;

/// Deletes everything in its scope that was written at `timestamp_us` or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The client's clock.
    pub timestamp_us: i64,
    /// Our clock, seconds since the Unix epoch: from here gc_grace counts.
    pub deletion_time_s: u32,
}

impl Tombstone {
    /// Deletes nothing.
    pub const LIVE: Self = Self { timestamp_us: NO_TIMESTAMP_US, deletion_time_s: NO_DELETION_TIME_S };

    pub fn new(timestamp_us: i64, deletion_time_s: u32) -> Self {
        Self { timestamp_us, deletion_time_s }
    }

    #[inline]
    pub fn is_live(&self) -> bool {
        *self == Self::LIVE
    }

    /// Whether something written at `timestamp_us` is deleted. A tie is deleted.
    #[inline]
    pub fn deletes(&self, timestamp_us: i64) -> bool {
        !self.is_live() && timestamp_us <= self.timestamp_us
    }

    /// The one that deletes more: the later timestamp, then the later local time.
    #[inline]
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if self.is_live() {
            return other;
        }
        if other.is_live() {
            return self;
        }
        let key = |tombstone: Self| (tombstone.timestamp_us, tombstone.deletion_time_s);
        if key(other) > key(self) { other } else { self }
    }
}

impl Default for Tombstone {
    fn default() -> Self {
        Self::LIVE
    }
}
