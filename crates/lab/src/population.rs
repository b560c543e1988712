//! The sampled partitions of a table, and the probability that a write or read chooses them.
//!
//! Partitions are ordered by popularity. If the table has more partitions than the sample may have, the most
//! popular quarter of the sample stands for single partitions, so that hot ones are exact, and each of the
//! others for the same number of partitions. Their keys are numbers, and their tokens the real hashes of
//! these numbers, so that popularity and position on the ring are independent.
//!
//! A pattern divides the partitions into [`Bin`]s of about equal popularity. With it the rows of a memtable
//! are drawn without drawing each write: of `m` independent writes, a row with probability `p` a write gets
//! at least one with probability `1 - exp(-p·m)`.

use base::rng::Rng;
use model::PartitionKey;

use crate::sketch::RowId;
use crate::workload::Pattern;

/// Sampled rows of a partition, at most.
const ROWS_EACH_MAX: f64 = 16.0;
/// Ratio of the ranks at the end and begin of a bin of a zipf distribution.
const ZIPF_BIN: f64 = 1.15;
const GAUSS_BINS: usize = 64;
/// Terms of a harmonic number that are added one by one; the rest is an integral.
const ZIPF_TERMS: u32 = 1000;

/// A random number from 0.0 to less than 1.0.
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A random number of the standard normal distribution (Box–Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let (radius, angle) = ((1.0 - unit(rng)).ln(), unit(rng));
    (-2.0 * radius).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Rows of about equal popularity.
#[derive(Clone, Copy, Debug)]
pub struct Bin {
    /// Sampled partitions by popularity.
    pub from: usize,
    pub to: usize,
    /// Real rows.
    pub rows: f64,
    /// Probability that one operation chooses one particular row.
    pub probability: f64,
}

/// See the head of this file.
pub struct Population {
    /// Keys in ring order.
    keys: Vec<PartitionKey>,
    /// The ring position of each partition, by popularity.
    positions: Vec<u32>,
    partitions: f64,
    rows_per_partition: f64,
    rows_each: u32,
    /// Number of sampled partitions that stand for one.
    exact: usize,
    /// Partitions that each other one stands for.
    partition_weight: f64,
}

impl Population {
    /// `partitions` of `rows_per_partition` rows, by at most about `sample` rows.
    pub fn new(partitions: f64, rows_per_partition: f64, sample: f64) -> Self {
        let rows_each = rows_per_partition.min(ROWS_EACH_MAX).min((sample / partitions).max(1.0)).ceil();
        let sampled = (sample / rows_each).min(partitions).ceil().max(1.0) as usize;
        let exact = if sampled as f64 >= partitions { sampled } else { sampled / 4 };
        let rest = (sampled - exact) as f64;
        let partition_weight = if rest > 0.0 { (partitions - exact as f64) / rest } else { 1.0 };
        let mut numbered: Vec<(PartitionKey, u32)> =
            (0..sampled as u32).map(|n| (PartitionKey::new(n.to_be_bytes().as_slice()), n)).collect();
        numbered.sort_unstable();
        let mut positions = vec![0; sampled];
        for (position, (_, number)) in numbered.iter().enumerate() {
            positions[*number as usize] = position as u32;
        }
        Self {
            keys: numbered.into_iter().map(|(key, _)| key).collect(),
            positions,
            partitions,
            rows_per_partition,
            rows_each: rows_each as u32,
            exact,
            partition_weight,
        }
    }

    /// Number of sampled partitions.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    pub fn rows_each(&self) -> u32 {
        self.rows_each
    }

    /// Real rows.
    pub fn rows(&self) -> f64 {
        self.partitions * self.rows_per_partition
    }

    pub fn key(&self, partition: u32) -> &PartitionKey {
        &self.keys[partition as usize]
    }

    /// The number of real rows that a sampled row of the partition with this popularity stands for.
    pub fn weight(&self, index: usize) -> f64 {
        let partitions = if index < self.exact { 1.0 } else { self.partition_weight };
        partitions * self.rows_per_partition / f64::from(self.rows_each)
    }

    /// The ring position of a key of the population.
    pub fn position(&self, key: &PartitionKey) -> Option<u32> {
        self.keys.binary_search(key).ok().map(|position| position as u32)
    }

    pub fn place(&self, index: usize, row: u32) -> RowId {
        RowId::new(self.positions[index], row)
    }

    /// The position of a place in an array of all sampled rows.
    pub fn slot(&self, place: RowId) -> usize {
        place.partition() as usize * self.rows_each as usize + place.row() as usize
    }

    /// Number of real partitions that are more popular than the sampled one.
    fn rank(&self, index: usize) -> f64 {
        index.min(self.exact) as f64 + index.saturating_sub(self.exact) as f64 * self.partition_weight
    }

    /// The bins of a pattern; a sequential one is uniform here.
    pub fn bins(&self, pattern: Pattern, exponent: f64, deviation: f64) -> Vec<Bin> {
        let ends: Vec<usize> = match pattern {
            Pattern::Zipf => {
                let mut end = 0usize;
                std::iter::from_fn(|| {
                    end = (end + 1).max((end as f64 * ZIPF_BIN) as usize).min(self.len());
                    Some(end)
                })
                .take_while({
                    let mut is_last = false;
                    let len = self.len();
                    move |end| !std::mem::replace(&mut is_last, *end == len)
                })
                .collect()
            }
            Pattern::Gauss => (1..=GAUSS_BINS).map(|bin| self.len() * bin / GAUSS_BINS).collect(),
            Pattern::Sequential | Pattern::Uniform | Pattern::Append => vec![self.len()],
        };
        let below = |rank: f64| match pattern {
            Pattern::Zipf => harmonic(rank, exponent) / harmonic(self.partitions, exponent),
            Pattern::Gauss => {
                let half = rank / self.partitions / 2.0;
                error_function(half / deviation) / error_function(0.5 / deviation)
            }
            Pattern::Sequential | Pattern::Uniform | Pattern::Append => rank / self.partitions,
        };
        let mut from = 0;
        let mut bins = vec![];
        for to in ends {
            if to > from {
                let (begin, end) = (self.rank(from), self.rank(to));
                let rows = (end - begin) * self.rows_per_partition;
                bins.push(Bin { from, to, rows, probability: (below(end) - below(begin)) / rows });
                from = to;
            }
        }
        bins
    }

    /// A random place, by the popularity of `bins`.
    pub fn pick(&self, bins: &[Bin], rng: &mut Rng) -> RowId {
        let mut left = unit(rng);
        let mut bin = &bins[0];
        for next in bins {
            bin = next;
            left -= bin.rows * bin.probability;
            if left < 0.0 {
                break;
            }
        }
        self.place(bin.from + rng.index(bin.to - bin.from), rng.below(u64::from(self.rows_each)) as u32)
    }
}

/// The sum of `r^-exponent` for the ranks r from 1 to `ranks`.
fn harmonic(ranks: f64, exponent: f64) -> f64 {
    let terms = ranks.min(f64::from(ZIPF_TERMS)) as u32;
    let sum: f64 = (1..=terms).map(|rank| f64::from(rank).powf(-exponent)).sum();
    let (from, to) = (f64::from(terms) + 0.5, ranks + 0.5);
    if to <= from {
        return sum;
    }
    let power = 1.0 - exponent;
    let rest =
        if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power };
    sum + rest
}

/// The probability that a normally distributed number is within `deviations` of its mean: erf(x/√2)
/// (Abramowitz and Stegun 7.1.26; error below 2e-7).
fn error_function(deviations: f64) -> f64 {
    let x = deviations / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592]
        .into_iter()
        .fold(0.0, |sum, coefficient| sum * t + coefficient);
    1.0 - polynomial * t * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(bins: &[Bin]) -> f64 {
        bins.iter().map(|bin| bin.rows * bin.probability).sum()
    }

    #[test]
    fn a_sample_stands_for_all_rows() {
        for (partitions, rows, sample) in
            [(1e9, 1.0, 10_000.0), (500.0, 1000.0, 10_000.0), (100.0, 1.0, 10_000.0), (1e6, 50.0, 20_000.0)]
        {
            let population = Population::new(partitions, rows, sample);
            let each = f64::from(population.rows_each());
            let sum: f64 = (0..population.len()).map(|index| population.weight(index) * each).sum();
            assert!((sum / (partitions * rows) - 1.0).abs() < 1e-9, "{partitions} {rows}: {sum}");
            assert!(population.len() as f64 * each <= sample * 1.1, "{}", population.len());
            for pattern in [Pattern::Uniform, Pattern::Gauss, Pattern::Zipf] {
                let bins = population.bins(pattern, 0.99, 1.0 / 6.0);
                assert!((total(&bins) - 1.0).abs() < 1e-6, "{pattern:?}: {}", total(&bins));
                let covered: usize = bins.iter().map(|bin| bin.to - bin.from).sum();
                assert_eq!(covered, population.len(), "{pattern:?}");
                // Probabilities of neighbours differ by rounding where the density is flat.
                let falls = |pair: &[Bin]| pair[0].probability >= pair[1].probability * (1.0 - 1e-6);
                assert!(bins.windows(2).all(falls), "{pattern:?}");
            }
        }
    }

    #[test]
    fn popularity_is_that_of_the_real_ranks() {
        let population = Population::new(1e7, 1.0, 10_000.0);
        let bins = population.bins(Pattern::Zipf, 1.0, 0.0);
        // H(10^7) is 16.695.
        assert!((bins[0].probability * 16.695 - 1.0).abs() < 1e-3, "{}", bins[0].probability);
        let gauss = population.bins(Pattern::Gauss, 0.0, 1.0 / 6.0);
        // Two thirds of the writes are within one deviation, a third of the partitions; a bin has 2 % of
        // them.
        let mut rows = 0.0;
        let within = gauss.iter().take_while(|bin| {
            rows += bin.rows;
            rows <= 1e7 / 3.0
        });
        let third: f64 = within.map(|bin| bin.rows * bin.probability).sum();
        assert!((0.65..0.684).contains(&third), "{third}");
        let mut rng = Rng::new(1);
        let hot = (0..10_000).filter(|_| population.pick(&bins, &mut rng) == population.place(0, 0)).count();
        assert!((500..700).contains(&hot), "{hot}");
    }
}
