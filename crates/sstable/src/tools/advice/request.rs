//! Bytes of Data.db that a read of a partition fetches, by chunk length.
//!
//! A read fetches whole chunks. A range of `n` bytes at a random position touches `1 + (n - 1) / c` chunks of
//! length `c`, on average. The chunks are one request, which the disk rounds to sectors. A test compares the
//! result with measurements of the engine (`bench/results/chunks.ndjson`).

use base::histogram::EstimatedHistogram;

/// The disk reads whole sectors; at a random position, half of one too much at each end.
const SECTOR_BYTES: f64 = 512.0;
/// The checksum after each chunk.
const CHECKSUM_BYTES: f64 = 4.0;

/// Sizes of requests, with the number of partitions of each size.
#[derive(Clone, Debug)]
pub struct Requests {
    sizes: Vec<(f64, f64)>,
    partitions: u64,
}

impl Requests {
    /// Requests that read one partition each, all with the same probability, at most `bytes_max` of it.
    pub fn new(partition_bytes: &EstimatedHistogram, bytes_max: u64) -> Self {
        let mut sizes = vec![];
        let mut below = 0;
        for (at, count) in partition_bytes.counts().iter().enumerate() {
            // The last count has no upper bound.
            let above = partition_bytes.offsets().get(at).copied().unwrap_or(u64::MAX);
            if *count > 0 {
                let middle = if above == u64::MAX { below } else { below + (above - below).div_ceil(2) };
                sizes.push((middle.clamp(1, bytes_max) as f64, *count as f64));
            }
            below = above;
        }
        Self { sizes, partitions: partition_bytes.count() }
    }

    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        let total: f64 = self.sizes.iter().map(|(_, count)| count).sum();
        self.sizes.iter().map(|(bytes, count)| of(*bytes) * count).sum::<f64>() / total.max(1.0)
    }

    /// Mean bytes of rows that a request wants.
    pub fn mean_bytes(&self) -> f64 {
        self.mean(|bytes| bytes)
    }

    /// Mean number of chunks that a request touches.
    pub fn chunks(&self, chunk_bytes: u32) -> f64 {
        self.mean(|bytes| 1.0 + (bytes - 1.0) / f64::from(chunk_bytes))
    }

    /// Mean bytes that a request fetches, if a chunk is stored in `stored_bytes`.
    pub fn fetched_bytes(&self, chunk_bytes: u32, stored_bytes: f64) -> f64 {
        self.chunks(chunk_bytes) * (stored_bytes + CHECKSUM_BYTES) + SECTOR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_bytes_are_those_that_the_engine_fetched() {
        // bench/results/chunks.ndjson: partitions of 304 bytes, Data.db as it is.
        let requests = Requests { sizes: vec![(304.0, 1.0)], partitions: 1 };
        for (chunk_bytes, measured) in
            [(65_536, 66_354.0), (16_384, 17_207.0), (4096, 4915.0), (1024, 1839.0)]
        {
            let computed = requests.fetched_bytes(chunk_bytes, f64::from(chunk_bytes));
            assert!((computed / measured - 1.0f64).abs() < 0.01, "{chunk_bytes}: {computed}, {measured}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_histogram_up_to_the_longest_request() {
        let mut histogram = EstimatedHistogram::new(150);
        histogram.add_many(1000, 3);
        histogram.add_many(1_000_000, 1);
        let requests = Requests::new(&histogram, 10_000);
        assert_eq!(requests.partitions(), 4);
        let mean = requests.mean_bytes();
        assert!((mean / (0.75 * 1000.0 + 0.25 * 10_000.0) - 1.0).abs() < 0.1, "{mean}");
    }
}
