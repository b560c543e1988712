//! Which partitions a worker's operations use: `-pop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::rng::Rng;

use crate::distribution::Distribution;

/// The seeds of partitions. Clones share a sequence, so that all workers together take each seed once a pass.
#[derive(Clone, Debug)]
pub enum Population {
    /// One after another, from the first to the last, then again from the first.
    Sequence {
        /// The first seed.
        first: u64,
        /// How many there are; at least one.
        count: u64,
        /// How many were taken.
        taken: Arc<AtomicU64>,
    },
    /// At random.
    Random(Distribution),
}

impl Population {
    /// `first` to `last`, in order.
    pub fn sequence(first: u64, last: u64) -> Self {
        Self::Sequence { first, count: last.saturating_sub(first).saturating_add(1), taken: Arc::default() }
    }

    /// The same population for another run: a sequence begins anew.
    pub fn restarted(&self) -> Self {
        match self {
            Self::Sequence { first, count, .. } => {
                Self::Sequence { first: *first, count: *count, taken: Arc::default() }
            }
            random @ Self::Random(_) => random.clone(),
        }
    }

    /// The seed of the next partition.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Sequence { first, count, taken } => *first + taken.fetch_add(1, Ordering::Relaxed) % *count,
            Self::Random(distribution) => distribution.sample(rng) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_take_each_seed_once_a_pass() {
        let all = Population::sequence(5, 11);
        let workers = [all.clone(), all.clone(), all.clone()];
        let mut rng = Rng::new(1);
        let mut taken: Vec<u64> = (0..14).map(|turn| workers[turn * turn % 3].next(&mut rng)).collect();
        taken.sort();
        let twice: Vec<u64> = (5..=11).flat_map(|seed| [seed, seed]).collect();
        assert_eq!(taken, twice);
        assert_eq!(all.restarted().next(&mut rng), 5);
    }
}
