//! The rows of a benchmark: row `n` is the same in every run, on every engine and machine.
//!
//! Keys are 16 random bytes, like UUIDs. Values are half noise and half words, so that LZ4 compresses a chunk
//! to about two thirds, as it does with typical records.

use base::rng::Rng;

pub const KEY_BYTES: usize = 16;
/// Values are slices of a text of this length; two rows rarely have much of it in common.
const POOL_BYTES: usize = 1 << 20;
const WORDS: [&str; 12] = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "granite", "harbour", "island", "juniper", "kelp",
    "lagoon",
];

/// A deterministic set of rows; see the head of this file.
#[derive(Clone)]
pub struct Workload {
    pub rows: u64,
    pub value_bytes: usize,
    seed: u64,
    pool: Vec<u8>,
}

impl Workload {
    pub fn new(rows: u64, value_bytes: usize, seed: u64) -> Self {
        assert!(rows > 0, "a benchmark without rows says nothing");
        let mut rng = Rng::new(seed);
        let wanted = POOL_BYTES + value_bytes;
        let mut pool = Vec::with_capacity(wanted + 64);
        while pool.len() < wanted {
            let mut noise = [0; 32];
            rng.fill(&mut noise);
            pool.extend_from_slice(&noise);
            let words_end = pool.len() + 32;
            while pool.len() < words_end {
                pool.extend_from_slice(rng.pick(&WORDS).as_bytes());
                pool.push(b' ');
            }
            pool.truncate(words_end);
        }
        Self { rows, value_bytes, seed, pool }
    }

    /// The key of row `row`.
    #[inline]
    pub fn key(&self, row: u64) -> [u8; KEY_BYTES] {
        let mut rng = Rng::new(self.seed ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mut key = [0; KEY_BYTES];
        rng.fill(&mut key);
        key
    }

    /// The value of row `row`.
    #[inline]
    pub fn value(&self, row: u64) -> &[u8] {
        let at = (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize;
        &self.pool[at..at + self.value_bytes]
    }

    /// Bytes of keys and values of all rows, before any encoding by an engine.
    pub fn user_bytes(&self) -> u64 {
        self.rows * (KEY_BYTES + self.value_bytes) as u64
    }

    /// Random rows with repetitions. The same `salt` gives the same order.
    pub fn picks(&self, salt: u64) -> Picks {
        Picks { rng: Rng::new(self.seed.wrapping_add(salt.wrapping_mul(7919))), rows: self.rows }
    }

    /// About `bytes` bytes of keys and values, one row after another, as in a file.
    pub fn sample(&self, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes + self.value_bytes + KEY_BYTES);
        let mut row = 0;
        while out.len() < bytes {
            out.extend_from_slice(&self.key(row));
            out.extend_from_slice(self.value(row));
            row += 1;
        }
        out
    }
}

/// See [`Workload::picks`].
#[derive(Clone)]
pub struct Picks {
    rng: Rng,
    rows: u64,
}

impl Picks {
    #[inline]
    pub fn pick(&mut self) -> u64 {
        self.rng.below(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_each_time_and_differ_from_each_other() {
        let workload = Workload::new(10_000, 100, 1);
        let again = Workload::new(10_000, 100, 1);
        let mut keys: Vec<_> = (0..workload.rows).map(|row| workload.key(row)).collect();
        assert!((0..workload.rows).all(|row| workload.value(row) == again.value(row)));
        assert!((0..workload.rows).all(|row| workload.value(row).len() == 100));
        assert_eq!(keys, (0..again.rows).map(|row| again.key(row)).collect::<Vec<_>>());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len() as u64, workload.rows);
        let (mut picks, mut same) = (workload.picks(3), again.picks(3));
        assert!((0..1000).all(|_| picks.pick() == same.pick()));
    }

    #[test]
    fn lz4_compresses_as_the_head_of_the_file_states() {
        let sample = Workload::new(1000, 100, 1).sample(16 * 1024);
        let packed = lz4_flex::block::compress(&sample).len() as f64 / sample.len() as f64;
        assert!((0.6..0.85).contains(&packed), "{packed}");
    }
}
