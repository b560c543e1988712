//! Latency histogram. A bucket is one sixteenth of a power of two wide.
//!
//! The range is one microsecond to 17 seconds; shorter and longer latencies count as the first and the last
//! bucket. A percentile is the middle of its bucket, so its error is at most 3 %. Two histograms are added
//! bucket by bucket.

/// Base-2 logarithm of the shortest latency, in nanoseconds, that has its own bucket.
const LEAST_LOG2: u32 = 10;
const OCTAVES: u32 = 24;
const PARTS_LOG2: u32 = 4;
const BUCKETS: usize = (OCTAVES << PARTS_LOG2) as usize;

/// A latency histogram of one and a half kilobytes. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Latencies {
    #[inline]
    pub fn add(&mut self, latency_ns: u64) {
        let count = &mut self.counts[bucket(latency_ns)];
        *count = count.saturating_add(1);
        self.count += 1;
    }

    /// The number of latencies added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts[..]) {
            *count = count.saturating_add(*more);
        }
        self.count += other.count;
    }

    pub fn clear(&mut self) {
        if self.count > 0 {
            self.counts.fill(0);
            self.count = 0;
        }
    }

    /// The latency in nanoseconds that a fraction `share` of all requests did not exceed; 0 if the histogram
    /// is empty.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return middle_ns(at);
            }
        }
        0
    }
}

fn bucket(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.max(1 << LEAST_LOG2);
    let log2 = latency_ns.ilog2();
    let part = (latency_ns >> (log2 - PARTS_LOG2)) & ((1 << PARTS_LOG2) - 1);
    ((((log2 - LEAST_LOG2) << PARTS_LOG2) as usize) + part as usize).min(BUCKETS - 1)
}

fn middle_ns(bucket: usize) -> u64 {
    let log2 = (bucket >> PARTS_LOG2) as u32 + LEAST_LOG2;
    let part = (bucket & ((1 << PARTS_LOG2) - 1)) as u64;
    let width = 1 << (log2 - PARTS_LOG2);
    (1 << log2) + part * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_three_percent() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile_ns(0.5), 0);
        (1..=100_000).for_each(|us| latencies.add(us * 1000));
        for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let found = latencies.percentile_ns(share) as f64 / (share * 1e8);
            assert!((found - 1.0).abs() <= 0.035, "{share}: {found}");
        }
    }

    #[test]
    fn short_and_long_ones_count_too() {
        let mut latencies = Latencies::default();
        [0, 1, u64::MAX].iter().for_each(|ns| latencies.add(*ns));
        assert_eq!(latencies.count(), 3);
        assert!(latencies.percentile_ns(0.5) < 1100 && latencies.percentile_ns(1.0) > 16_000_000_000);
    }

    #[test]
    fn added_up_they_are_as_if_counted_together() {
        let (mut one, mut other, mut both) =
            (Latencies::default(), Latencies::default(), Latencies::default());
        for ns in (1..2_000_000_u64).step_by(1777) {
            if ns % 2 == 0 {
                one.add(ns)
            } else {
                other.add(ns)
            }
            both.add(ns);
        }
        one.merge(&other);
        assert_eq!(one, both);
        one.clear();
        assert_eq!(one, Latencies::default());
    }
}
