//! Tombstones of partitions, rows, ranges and collections. All of them are the same pair of times.

/// "No deletion time": of data that is live and does not expire. Source: the unsigned form of Cassandra 5;
/// SSTables before version `oa` write it as 0x7fffffff.
pub const NO_DELETION_TIME_S: u32 = u32::MAX;

/// "No timestamp": nothing was written.
pub const NO_TIMESTAMP_US: i64 = i64::MIN;

/// Deletes all data in its scope that was written at `timestamp_us` or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Timestamp of the deletion, usually by the client's clock.
    pub timestamp_us: i64,
    /// Server time in seconds since the Unix epoch, from which gc_grace counts.
    pub deletion_time_s: u32,
}

impl Tombstone {
    /// No tombstone: deletes nothing.
    pub const LIVE: Self = Self { timestamp_us: NO_TIMESTAMP_US, deletion_time_s: NO_DELETION_TIME_S };

    /// A deletion of data that is not newer than `timestamp_us`, made at `deletion_time_s` (seconds since
    /// 1970), from which `gc_grace_seconds` counts.
    pub fn new(timestamp_us: i64, deletion_time_s: u32) -> Self {
        Self { timestamp_us, deletion_time_s }
    }

    /// Whether it deletes nothing.
    #[inline]
    pub fn is_live(&self) -> bool {
        *self == Self::LIVE
    }

    /// Whether data written at `timestamp_us` is deleted. Data with the same timestamp is deleted.
    #[inline]
    pub fn deletes(&self, timestamp_us: i64) -> bool {
        !self.is_live() && timestamp_us <= self.timestamp_us
    }

    /// The stronger of two tombstones: the later timestamp, then the later local time.
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
