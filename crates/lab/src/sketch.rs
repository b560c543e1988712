//! The content of an SSTable as a sample of its rows.
//!
//! One entry stands for many rows: for its *weight*. An entry has a place (partition and row), the time of
//! the write, the time at which it expires or was deleted, and the bytes of all rows that it stands for. A
//! merge of samples is exact for the sampled rows: the newest write of each place remains. Rows are sampled
//! once for the whole simulation, so that two SSTables with common rows have common entries in the same
//! proportion.

use model::NO_DELETION_TIME_S;

/// A partition and a row of it: the position of the partition on the ring, and the number of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u64);

impl RowId {
    pub fn new(partition: u32, row: u32) -> Self {
        Self(u64::from(partition) << 32 | u64::from(row))
    }

    pub fn partition(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn row(self) -> u32 {
        self.0 as u32
    }
}

/// A sampled row, or its tombstone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub place: RowId,
    pub timestamp_us: i64,
    /// When it expires or was deleted, in seconds since 1970; [`NO_DELETION_TIME_S`]: never.
    pub dies_s: u32,
    /// Bytes before compression; negative for a tombstone.
    signed_bytes: f32,
}

impl Entry {
    pub fn row(place: RowId, timestamp_us: i64, dies_s: u32, bytes: f64) -> Self {
        Self { place, timestamp_us, dies_s, signed_bytes: bytes as f32 }
    }

    pub fn tombstone(place: RowId, timestamp_us: i64, deleted_s: u32, bytes: f64) -> Self {
        Self { place, timestamp_us, dies_s: deleted_s, signed_bytes: -bytes as f32 }
    }

    pub fn bytes(&self) -> f64 {
        f64::from(self.signed_bytes.abs())
    }

    pub fn is_tombstone(&self) -> bool {
        self.signed_bytes < 0.0
    }

    /// Whether reads at `now_s` do not return it.
    pub fn is_dead(&self, now_s: u32) -> bool {
        self.is_tombstone() || (self.dies_s != NO_DELETION_TIME_S && self.dies_s <= now_s)
    }

    /// Whether it decides over `other`, an entry of the same place. A tombstone wins a tie.
    fn wins_over(&self, other: &Self) -> bool {
        let rank = |entry: &Self| (entry.timestamp_us, entry.is_tombstone(), entry.dies_s);
        rank(self) > rank(other)
    }
}

/// Sorts entries by place and keeps the deciding one of each.
pub fn reconcile(entries: &mut Vec<Entry>) {
    // A stable sort finds the sorted runs that merges consist of.
    entries.sort_by_key(|entry| entry.place);
    entries.dedup_by(|next, kept| {
        if next.place != kept.place {
            return false;
        }
        if next.wins_over(kept) {
            *kept = *next;
        }
        true
    });
}

/// The merge of sorted samples.
pub fn merge<'a>(inputs: impl Iterator<Item = &'a [Entry]>) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::new();
    inputs.for_each(|entries| merged.extend_from_slice(entries));
    reconcile(&mut merged);
    merged
}

/// Bytes of all entries before compression.
pub fn bytes(entries: &[Entry]) -> f64 {
    entries.iter().map(Entry::bytes).sum()
}

/// Whether sorted entries have one of the partition.
pub fn has_partition(entries: &[Entry], partition: u32) -> bool {
    let at = entries.partition_point(|entry| entry.place < RowId::new(partition, 0));
    entries.get(at).is_some_and(|entry| entry.place.partition() == partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_a_place_remains() {
        let place = RowId::new(7, 3);
        let row = |timestamp_us, bytes| Entry::row(place, timestamp_us, NO_DELETION_TIME_S, bytes);
        let other = Entry::row(RowId::new(8, 0), 1, 50, 10.0);
        let merged = merge([&[row(1, 5.0), other][..], &[row(2, 6.0)], &[row(0, 9.0)]].into_iter());
        assert_eq!(merged, [row(2, 6.0), other]);
        assert_eq!(bytes(&merged), 16.0);
        let deleted = Entry::tombstone(place, 2, 1, 2.0);
        assert_eq!(merge([&[deleted][..], &[row(2, 6.0)]].into_iter()), [deleted]);
        assert!(
            deleted.is_dead(0) && other.is_dead(50) && !other.is_dead(49) && !row(1, 1.0).is_dead(u32::MAX)
        );
        assert!(has_partition(&merged, 7) && !has_partition(&merged, 6));
        assert_eq!((place.partition(), place.row()), (7, 3));
    }
}
