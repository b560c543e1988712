//! Which partitions a worker's operations use: `-pop`.

use base::rng::Rng;

use crate::distribution::Distribution;

/// The seeds of partitions.
#[derive(Clone, Debug)]
pub enum Population {
    /// One after another, from the first to the last, then again from the first.
    Sequence {
        /// The first seed.
        first: u64,
        /// How many there are; at least one.
        count: u64,
        /// How many operations this worker has begun.
        begun: u64,
        /// The worker's index.
        worker: u64,
        /// Workers take turns: worker 0 the first seed, worker 1 the second, …
        workers: u64,
    },
    /// At random.
    Random(Distribution),
}

impl Population {
    /// The population of one of `workers` workers.
    pub fn of_worker(&self, index: usize, workers: usize) -> Self {
        match self {
            Self::Sequence { first, count, .. } => Self::Sequence {
                first: *first,
                count: *count,
                begun: 0,
                worker: index as u64,
                workers: workers as u64,
            },
            random @ Self::Random(_) => random.clone(),
        }
    }

    /// `first` to `last`, in order.
    pub fn sequence(first: u64, last: u64) -> Self {
        Self::Sequence { first, count: last.saturating_sub(first) + 1, begun: 0, worker: 0, workers: 1 }
    }

    /// The seed of the next partition.
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Self::Sequence { first, count, begun, worker, workers } => {
                let at = begun.wrapping_mul(*workers).wrapping_add(*worker);
                *begun += 1;
                *first + at % *count
            }
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
        let mut rng = Rng::new(1);
        let mut taken: Vec<u64> = (0..2)
            .flat_map(|worker| {
                let mut population = all.of_worker(worker, 2);
                (0..7).map(|_| population.next(&mut rng)).collect::<Vec<_>>()
            })
            .collect();
        taken.sort();
        let twice: Vec<u64> = (5..=11).flat_map(|seed| [seed, seed]).collect();
        assert_eq!(taken, twice);
    }
}
