//! Streaming histogram of the local deletion times of tombstones and expiring cells: estimates how many can
//! be dropped.
//!
//! The algorithm is Ben-Haim and Tom-Tov, "A Streaming Parallel Decision Tree Algorithm" (2010), as in
//! Cassandra's `StreamingTombstoneHistogramBuilder`: times are rounded up to the minute and counted; when
//! there are more than 100 different times, the two closest are merged at their weighted mean. New times are
//! first counted in a map, so that merges are rare.
//!
//! Layout: u32 maximum number of bins, u32 n, then n times rising with their counts: f64 and i64 up to nb,
//! i64 and i32 since oa.

use base::HashMap;
use base::bytes::Take;

use crate::component::deletion_time::NO_DELETION_TIME_S;
use crate::component::error::check_count;
use crate::component::{FormatError, Named};
use crate::version::Version;

const BINS_MAX: usize = 100;
const ROUND_S: u32 = 60;
/// Number of different times in the map at which they are merged into the bins.
const WAITING_MAX: usize = 4096;
/// The largest time other than "none".
const TIME_S_MAX: u32 = NO_DELETION_TIME_S as u32 - 1;
/// The largest time since version oa, whose times are unsigned.
const UINT_TIME_S_MAX: u32 = u32::MAX - 2;

/// Counts of tombstones by local deletion time, in rising order without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TombstoneHistogram {
    bins: Vec<Bin>,
}

/// A number of tombstones (`count`) at about `time_s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Local deletion time in seconds since 1970; at most 0x7ffffffe up to version nb.
    pub time_s: u32,
    /// Number of tombstones and expiring cells.
    pub count: u64,
}

impl TombstoneHistogram {
    /// The bins, rising by time.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Approximate number of tombstones with a local deletion time of at most `time_s`, interpolated between
    /// two bins by the trapezoid rule. With `now - gc_grace` it is the number of purgeable tombstones.
    pub fn count_until(&self, time_s: u32) -> f64 {
        let after = self.bins.partition_point(|bin| bin.time_s <= time_s);
        let whole = self.bins[..after].iter().map(|bin| bin.count as f64).sum();
        let (Some(before), Some(next)) = (after.checked_sub(1).map(|at| self.bins[at]), self.bins.get(after))
        else {
            return if after == 0 { 0.0 } else { whole };
        };
        let share = f64::from(time_s - before.time_s) / f64::from(next.time_s - before.time_s);
        let (left, right) = (before.count as f64, next.count as f64);
        let here = left + (right - left) * share;
        // Half of a bin's count lies before the bin's time, the other half after it.
        whole - left / 2.0 + (left + here) * share / 2.0
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.bins.capacity() * size_of::<Bin>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.bins.len().max(BINS_MAX) as u32).to_be_bytes());
        out.extend_from_slice(&(self.bins.len() as u32).to_be_bytes());
        for bin in &self.bins {
            out.extend_from_slice(&f64::from(bin.time_s).to_be_bytes());
            out.extend_from_slice(&bin.count.to_be_bytes());
        }
    }

    /// Decodes the histogram. A negative or too large time counts as the largest one, as in Cassandra, whose
    /// older versions wrote such times. Bins are sorted, and equal times are added.
    pub(super) fn decode(take: &mut Take<'_>, version: Version) -> Result<Self, FormatError> {
        let is_uint = version.has_uint_deletion_time();
        let (bin_bytes, time_s_max) = if is_uint { (12, UINT_TIME_S_MAX) } else { (16, TIME_S_MAX) };
        take.u32().named("most bins of the tombstone histogram")?;
        let at = take.offset();
        let what = "bins of the tombstone histogram";
        let count = u64::from(take.u32().named(what)?);
        let count = check_count(what, at, count, bin_bytes, take.remaining())?;
        let mut bins = Vec::with_capacity(count);
        for _ in 0..count {
            // Fractions are truncated and NaN becomes 0, as in a Java cast.
            let time_s = if is_uint {
                take.i64().named("tombstone time")?
            } else {
                take.f64().named("tombstone time")? as i64
            };
            let at = take.offset();
            let count = if is_uint {
                i64::from(take.i32().named("tombstone count")?)
            } else {
                take.i64().named("tombstone count")?
            };
            let count = u64::try_from(count)
                .map_err(|_| FormatError::new("tombstone count", at, "not below 0", count.to_string()))?;
            let time_s = u32::try_from(time_s).unwrap_or(u32::MAX).min(time_s_max);
            bins.push(Bin { time_s, count });
        }
        bins.sort_by_key(|bin| bin.time_s);
        bins.dedup_by(|later, first| {
            let same = later.time_s == first.time_s;
            first.count = first.count.saturating_add(if same { later.count } else { 0 });
            same
        });
        Ok(Self { bins })
    }
}

/// Builds a [`TombstoneHistogram`] of at most 100 bins.
#[derive(Clone, Debug, Default)]
pub struct TombstoneHistogramBuilder {
    bins: Vec<Bin>,
    waiting: HashMap<u32, u64>,
}

impl TombstoneHistogramBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a tombstone or expiring cell. `local_deletion_time_s` must not be [`NO_DELETION_TIME_S`]. A
    /// negative time, which only a corrupt or overflowed expiry has, counts as the largest time.
    pub fn add(&mut self, local_deletion_time_s: i32) {
        assert_ne!(local_deletion_time_s, NO_DELETION_TIME_S, "nothing is deleted");
        let time_s = round_up(u32::try_from(local_deletion_time_s).unwrap_or(TIME_S_MAX));
        *self.waiting.entry(time_s).or_insert(0) += 1;
        if self.waiting.len() >= WAITING_MAX {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable();
        for (time_s, count) in waiting {
            match self.bins.binary_search_by_key(&time_s, |bin| bin.time_s) {
                Ok(at) => self.bins[at].count += count,
                Err(at) => self.bins.insert(at, Bin { time_s, count }),
            }
            if self.bins.len() > BINS_MAX {
                self.merge_closest();
            }
        }
    }

    fn merge_closest(&mut self) {
        let gap = |at: &usize| self.bins[at + 1].time_s - self.bins[*at].time_s;
        let at = (0..self.bins.len() - 1).min_by_key(gap).expect("there are at least two bins");
        let (left, right) = (self.bins[at], self.bins.remove(at + 1));
        let count = left.count + right.count;
        let weigh = |bin: Bin| u128::from(bin.time_s) * u128::from(bin.count);
        let mean = ((weigh(left) + weigh(right)) / u128::from(count)) as u32;
        self.bins[at] = Bin { time_s: round_up(mean), count };
    }

    /// The histogram of all added times.
    pub fn finish(mut self) -> TombstoneHistogram {
        self.settle();
        TombstoneHistogram { bins: self.bins }
    }
}

fn round_up(time_s: u32) -> u32 {
    time_s.next_multiple_of(ROUND_S).min(TIME_S_MAX)
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;
    use proptest::prelude::*;

    use super::*;

    fn histogram_of(times: impl IntoIterator<Item = i32>) -> TombstoneHistogram {
        let mut builder = TombstoneHistogramBuilder::new();
        times.into_iter().for_each(|time| builder.add(time));
        builder.finish()
    }

    fn encoded(histogram: &TombstoneHistogram) -> Vec<u8> {
        let mut out = vec![];
        histogram.encode(&mut out);
        out
    }

    #[test]
    fn golden_bytes() {
        let histogram = histogram_of([61, 120, 0]);
        let mut golden = vec![0, 0, 0, 100, 0, 0, 0, 2];
        golden.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        golden.extend([0x40, 0x5e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(encoded(&histogram), golden);
        assert_eq!(TombstoneHistogram::decode(&mut Take::new(&golden), Version::Me), Ok(histogram));
        for cut in 0..golden.len() {
            assert!(TombstoneHistogram::decode(&mut Take::new(&golden[..cut]), Version::Me).is_err());
        }
    }

    #[test]
    fn the_closest_bins_are_merged_at_their_weighted_mean() {
        let apart = (0..100).map(|minute| minute * 6000);
        let histogram = histogram_of(apart.chain([60, 60, 60]));
        assert_eq!(histogram.bins().len(), 100);
        // 0 once and 60 three times: the mean is 45, rounded up to 60.
        assert_eq!(histogram.bins()[0], Bin { time_s: 60, count: 4 });
        assert_eq!(histogram.bins()[1], Bin { time_s: 6000, count: 1 });
    }

    #[test]
    fn bins_stay_few_and_counts_stay_whole() {
        let mut rng = Rng::new(3);
        let histogram = histogram_of((0..100_000).map(|_| rng.below(30_000_000) as i32));
        assert_eq!(histogram.bins().len(), 100);
        assert!(histogram.bins().is_sorted_by(|a, b| a.time_s < b.time_s));
        assert_eq!(histogram.bins().iter().map(|bin| bin.count).sum::<u64>(), 100_000);
        let half = histogram.count_until(15_000_000);
        assert!((45_000.0..55_000.0).contains(&half), "{half}");
    }

    #[test]
    fn counts_between_bins_are_interpolated() {
        let histogram =
            TombstoneHistogram { bins: vec![Bin { time_s: 60, count: 4 }, Bin { time_s: 120, count: 8 }] };
        assert_eq!(histogram.count_until(59), 0.0);
        assert_eq!(histogram.count_until(60), 2.0);
        assert_eq!(histogram.count_until(90), 2.0 + (4.0 + 6.0) * 0.5 / 2.0);
        assert_eq!(histogram.count_until(120), 12.0);
        assert_eq!(TombstoneHistogram::default().count_until(7), 0.0);
        // The sum that Cassandra 4.1 computes for the histogram of the same times.
        let histogram = histogram_of((0..300).map(|number| 1_700_000_000 + number * 61));
        let sum = histogram.count_until(1_700_009_000);
        assert!((sum - 118.540_983_606_557_38).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn strange_times_count_at_the_largest() {
        let largest = TIME_S_MAX as i32;
        assert_eq!(histogram_of([-1, largest]).bins(), [Bin { time_s: TIME_S_MAX, count: 2 }]);
        let mut bytes = vec![0, 0, 0, 1, 0, 0, 0, 3];
        for time in [1e300f64, -5.0, 7.9] {
            bytes.extend(time.to_be_bytes());
            bytes.extend(1i64.to_be_bytes());
        }
        let bins = TombstoneHistogram::decode(&mut Take::new(&bytes), Version::Me).unwrap();
        assert_eq!(bins.bins(), [Bin { time_s: 7, count: 1 }, Bin { time_s: TIME_S_MAX, count: 2 }]);
    }

    #[test]
    fn golden_bytes_since_oa() {
        let mut bytes = vec![0, 0, 0, 2, 0, 0, 0, 2];
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0, 3]);
        let decode = |bytes: &[u8]| TombstoneHistogram::decode(&mut Take::new(bytes), Version::Oa);
        let expect = [Bin { time_s: 7, count: 1 }, Bin { time_s: 0xf000_0000, count: 3 }];
        assert_eq!(decode(&bytes).unwrap().bins(), expect);
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err());
        }
    }

    proptest! {
        #[test]
        fn values_round_trip(times in prop::collection::vec(0..i32::MAX, 0..300)) {
            let histogram = histogram_of(times);
            let bytes = encoded(&histogram);
            prop_assert_eq!(TombstoneHistogram::decode(&mut Take::new(&bytes), Version::Me), Ok(histogram));
        }

        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, time: u32) {
            if let Ok(histogram) = TombstoneHistogram::decode(&mut Take::new(&bytes), Version::Me) {
                histogram.count_until(time);
            }
        }
    }
}
