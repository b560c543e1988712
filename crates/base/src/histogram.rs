//! Histogram with exponential buckets, each a fifth wider than the one before: Cassandra's
//! `EstimatedHistogram`.
//!
//! Bucket `i` counts the values in `(offsets[i - 1], offsets[i]]`; a further bucket counts values above the
//! last offset. The offsets are 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, …: each is 1.2 times the one before,
//! rounded, and at least one more. The relative error of a percentile is therefore at most a fifth.
//!
//! An SSTable stores one histogram of partition sizes and one of cells per partition. Stored histograms may
//! have other offsets, which is why the offsets are part of the value. Source: Cassandra's
//! `EstimatedHistogram.java`.

/// A histogram with exponential buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatedHistogram {
    offsets: Vec<u64>,
    counts: Vec<u64>,
}

/// The offsets do not rise, or the number of counts is not one more than the number of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAHistogram;

impl EstimatedHistogram {
    /// An empty histogram with `offsets` offsets (at least one) and `offsets + 1` buckets. With 150 offsets
    /// the last one is 1,414,838,745,986, with 118 it is 4,139,110,981.
    pub fn new(offsets: usize) -> Self {
        assert!(offsets > 0, "a histogram has at least one offset");
        let offsets: Vec<u64> =
            std::iter::successors(Some(1u64), |last| Some(next_offset(*last))).take(offsets).collect();
        let counts = vec![0; offsets.len() + 1];
        Self { offsets, counts }
    }

    /// Creates a histogram from stored offsets, which must rise, and counts, one more than offsets.
    pub fn from_parts(offsets: Vec<u64>, counts: Vec<u64>) -> Result<Self, NotAHistogram> {
        let rises = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        if offsets.is_empty() || !rises || counts.len() != offsets.len() + 1 {
            return Err(NotAHistogram);
        }
        Ok(Self { offsets, counts })
    }

    /// The upper bounds of all buckets but the last, rising.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The counts, one more than offsets; the last one counts values above every offset.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Counts `value` once.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Counts `value` `times` times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        let bucket = self.offsets.partition_point(|offset| *offset < value);
        self.counts[bucket] = self.counts[bucket].saturating_add(times);
    }

    /// Adds the counts of `other`. If its offsets differ, each of its buckets counts as its upper bound.
    pub fn merge(&mut self, other: &Self) {
        if self.offsets == other.offsets {
            for (count, more) in self.counts.iter_mut().zip(&other.counts) {
                *count = count.saturating_add(*more);
            }
            return;
        }
        for (bucket, times) in other.counts.iter().enumerate().filter(|(_, times)| **times > 0) {
            self.add_many(other.offsets.get(bucket).copied().unwrap_or(u64::MAX), *times);
        }
    }

    /// The number of counted values.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether a value above the last offset was counted.
    pub fn is_overflowed(&self) -> bool {
        self.counts.last().is_some_and(|count| *count > 0)
    }

    /// The smallest value that can have been counted; 0 for an empty histogram.
    pub fn min(&self) -> u64 {
        match self.counts.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.offsets[bucket - 1] + 1,
        }
    }

    /// The largest value that can have been counted: 0 for an empty histogram, `u64::MAX` for an overflowed
    /// one.
    pub fn max(&self) -> u64 {
        match self.counts.iter().rposition(|count| *count > 0) {
            None => 0,
            Some(bucket) => self.offsets.get(bucket).copied().unwrap_or(u64::MAX),
        }
    }

    /// The upper bound of the bucket that contains the value at `fraction` (0 to 1) of all values. 0 for an
    /// empty histogram or fraction 0; `u64::MAX` if that bucket is the last, unbounded one.
    pub fn percentile(&self, fraction: f64) -> u64 {
        assert!((0.0..=1.0).contains(&fraction), "a fraction is 0 to 1, not {fraction}");
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        if wanted == 0 {
            return 0;
        }
        let mut seen = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return self.offsets.get(bucket).copied().unwrap_or(u64::MAX);
            }
        }
        self.max()
    }

    /// The mean of the buckets' upper bounds, rounded up; 0 for an empty histogram, `None` for an overflowed
    /// one.
    pub fn mean(&self) -> Option<u64> {
        if self.is_overflowed() {
            return None;
        }
        let count = self.count();
        if count == 0 {
            return Some(0);
        }
        let weighted = self.offsets.iter().zip(&self.counts);
        let sum = weighted.map(|(offset, count)| *offset as f64 * *count as f64).sum::<f64>();
        Some((sum / count as f64).ceil() as u64)
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        (self.offsets.capacity() + self.counts.capacity()) * size_of::<u64>()
    }
}

/// `round(last * 1.2)`, but at least `last + 1`. The product never ends in exactly one half, so integer
/// arithmetic rounds as Java does.
fn next_offset(last: u64) -> u64 {
    let grown = (u128::from(last) * 12 + 5) / 10;
    u64::try_from(grown).unwrap_or(u64::MAX).max(last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_cassandras() {
        let histogram = EstimatedHistogram::new(150);
        let first =
            [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29, 35, 42, 50, 60, 72, 86, 103, 124, 149];
        assert_eq!(histogram.offsets()[..24], first);
        assert_eq!(histogram.counts().len(), 151);
        // The last offset, and the CRC-32 of all offsets as big-endian integers, in Cassandra 4.1.
        let check = |offsets: usize, last: u64, crc: u32| {
            let offsets = EstimatedHistogram::new(offsets).offsets;
            let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect();
            assert_eq!((offsets.last(), crate::crc::crc32(&bytes)), (Some(&last), crc));
        };
        check(90, 25_109_160, 0x6398_96f6);
        check(114, 1_996_099_046, 0x52a0_fd8c);
        check(118, 4_139_110_981, 0xb566_3086);
        check(150, 1_414_838_745_986, 0x4d8f_96b4);
    }

    #[test]
    fn a_value_counts_in_the_first_bucket_not_below_it() {
        let mut histogram = EstimatedHistogram::new(12);
        for value in [0, 1, 9, 10, 11, 17, 18] {
            histogram.add(value);
        }
        assert_eq!(histogram.counts(), [2, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 1, 1]);
        assert!(histogram.is_overflowed());
        assert_eq!((histogram.count(), histogram.min(), histogram.max()), (7, 0, u64::MAX));
        assert_eq!(histogram.mean(), None);
        assert_eq!(histogram.percentile(1.0), u64::MAX);
        assert_eq!(histogram.percentile(0.5), 10);
    }

    #[test]
    fn percentiles_and_means_are_of_upper_ends() {
        let mut histogram = EstimatedHistogram::new(90);
        assert_eq!((histogram.percentile(0.99), histogram.mean(), histogram.max()), (0, Some(0), 0));
        for value in 1..=100 {
            histogram.add(value);
        }
        assert_eq!(histogram.percentile(0.0), 0);
        assert_eq!(histogram.percentile(0.5), 50);
        assert_eq!(histogram.percentile(0.99), 103);
        assert_eq!((histogram.min(), histogram.max()), (0, 103));
        let mean = histogram.mean().unwrap();
        assert!((50..=61).contains(&mean), "{mean}");
    }

    #[test]
    fn merging_keeps_every_count_also_between_different_offsets() {
        let mut small = EstimatedHistogram::new(10);
        let mut large = EstimatedHistogram::new(20);
        small.add(5);
        large.add_many(30, 7);
        large.add(5);
        let mut both = large.clone();
        both.merge(&small);
        assert_eq!((both.count(), both.percentile(0.2)), (9, 5));
        small.merge(&large);
        assert_eq!((small.count(), small.is_overflowed()), (9, true));
        let mut twice = large.clone();
        twice.merge(&large);
        assert_eq!(twice.count(), 16);
    }

    #[test]
    fn stored_parts_are_checked() {
        let parts = |offsets: &[u64], counts: usize| {
            EstimatedHistogram::from_parts(offsets.to_vec(), vec![1; counts]).map(|h| h.count())
        };
        assert_eq!(parts(&[1, 2, 5], 4), Ok(4));
        assert_eq!(parts(&[1, 2, 2], 4), Err(NotAHistogram));
        assert_eq!(parts(&[1, 2, 5], 3), Err(NotAHistogram));
        assert_eq!(parts(&[], 1), Err(NotAHistogram));
    }
}
