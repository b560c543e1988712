//! The commit log entries that SSTables of a table already contain, so that a start does not replay them.
//!
//! A memtable holds every entry of its table from the log position at which it became active to the position
//! at which the next one did. So the flushed entries are a set of intervals of positions, and since memtables
//! follow one another, nearly always one interval for each shard's log.
//!
//! The intervals are stored in the [SSTable manifest](super), with the names of the SSTables. A start uses
//! them only if every SSTable of the manifest exists, can be opened, and is the same as before. An SSTable
//! from elsewhere never causes an entry to be skipped.

use crate::commitlog::LogPosition;

/// Disjoint, rising intervals of log positions; the end is exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flushed(Vec<(LogPosition, LogPosition)>);

impl Flushed {
    /// Adds the entries from `from` to `until` (exclusive).
    pub fn add(&mut self, from: LogPosition, until: LogPosition) {
        if from >= until {
            return;
        }
        let at = self.0.partition_point(|(_, end)| *end < from);
        let touching = self.0[at..].iter().take_while(|(start, _)| *start <= until).count();
        let union = self.0[at..at + touching]
            .iter()
            .fold((from, until), |(from, until), (start, end)| (from.min(*start), until.max(*end)));
        self.0.splice(at..at + touching, [union]);
    }

    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(from, until)| self.add(from, until));
    }

    /// Whether the entry at `position` has been flushed. O(log n).
    pub fn covers(&self, position: LogPosition) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= position);
        self.0.get(at).is_some_and(|(start, _)| *start <= position)
    }

    pub fn iter(&self) -> impl Iterator<Item = (LogPosition, LogPosition)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    fn at(byte: u32) -> LogPosition {
        LogPosition { segment: u64::from(byte / 10), offset_bytes: byte % 10 }
    }

    #[test]
    fn it_covers_what_was_added_and_nothing_else() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let (mut flushed, mut expected) = (Flushed::default(), [false; 64]);
            for _ in 0..rng.below(12) {
                let (from, until) = (rng.below(60) as u32, rng.below(60) as u32);
                flushed.add(at(from), at(until));
                (from..until).for_each(|byte| expected[byte as usize] = true);
            }
            for (byte, expected) in (0..).zip(expected) {
                assert_eq!(flushed.covers(at(byte)), expected, "seed {seed}, {byte}: {flushed:?}");
            }
            // Disjoint, rising, and not adjacent.
            assert!(flushed.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{flushed:?}");
            let mut merged = Flushed::default();
            merged.merge(&flushed);
            assert_eq!(merged, flushed);
        }
    }

    #[test]
    fn memtables_that_follow_each_other_are_one_interval() {
        let mut flushed = Flushed::default();
        flushed.add(at(20), at(35));
        flushed.add(at(3), at(20));
        flushed.add(at(35), at(35));
        assert_eq!(flushed.iter().collect::<Vec<_>>(), [(at(3), at(35))]);
    }
}
