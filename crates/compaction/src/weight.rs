//! Which jobs of a shard may run at once: one of each weight, so that large ones do not pile up while small ones, which
//! keep the number of SSTables low, always find a place.
//!
//! A job's weight is the logarithm of its bytes. A job with fewer runs than one that is running has to wait: it does
//! less for reads, and would take its bandwidth. Jobs that only drop expired SSTables cost nothing and always may.
//! Whoever is refused asks again when a job ends.

/// Of the runs of a job no more than so many count.
const FAN_IN_MAX: usize = 32;

/// What the admission of a job asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// 0 if nothing is read.
    pub weight: u32,
    /// How many runs are merged.
    pub fan_in: usize,
}

impl Weight {
    /// log4 of the bytes and a MiB, so that all small jobs weigh the same.
    pub fn new(input_bytes: u64, fan_in: usize) -> Self {
        let weight = if input_bytes == 0 { 0 } else { input_bytes.saturating_add(1 << 20).ilog2() / 2 };
        Self { weight, fan_in: fan_in.min(FAN_IN_MAX) }
    }
}

/// The jobs that run on a shard.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    running: Vec<Weight>,
}

/// Why a job has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// One of the same weight runs.
    SameWeight,
    /// One that merges more runs runs.
    LargerFanIn,
}

impl Admission {
    pub fn check(&self, job: Weight) -> Result<(), Refusal> {
        if job.weight == 0 {
            return Ok(());
        }
        if self.running.iter().any(|running| running.weight == job.weight) {
            return Err(Refusal::SameWeight);
        }
        let largest = self.running.iter().map(|running| running.fan_in).max().unwrap_or(0);
        if job.fan_in < largest { Err(Refusal::LargerFanIn) } else { Ok(()) }
    }

    /// Lets a job run, if it may. Give it back with [`Admission::end`].
    pub fn begin(&mut self, job: Weight) -> Result<(), Refusal> {
        self.check(job)?;
        if job.weight > 0 {
            self.running.push(job);
        }
        Ok(())
    }

    pub fn end(&mut self, job: Weight) {
        if let Some(at) = self.running.iter().position(|running| *running == job) {
            self.running.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_logarithm_of_the_bytes() {
        let weight = |mib: u64| Weight::new(mib << 20, 4).weight;
        assert_eq!([0, 1, 2, 3, 14, 15, 63].map(weight), [0, 10, 10, 11, 11, 12, 13]);
        assert_eq!(Weight::new(1, 99), Weight { weight: 10, fan_in: 32 });
        assert_eq!(Weight::new(u64::MAX, 1).weight, 31);
    }

    #[test]
    fn one_of_each_weight_and_none_that_merges_less() {
        let mut admission = Admission::default();
        let (small, large) = (Weight::new(4 << 20, 6), Weight::new(64 << 20, 6));
        assert_eq!(admission.begin(large), Ok(()));
        assert_eq!(admission.begin(large), Err(Refusal::SameWeight));
        assert_eq!(admission.begin(small), Ok(()));
        assert_eq!(admission.check(Weight::new(1 << 40, 5)), Err(Refusal::LargerFanIn));
        assert_eq!(admission.begin(Weight::new(0, 0)), Ok(()));
        admission.end(Weight::new(0, 0));
        admission.end(large);
        assert_eq!(admission.begin(large), Ok(()));
        admission.end(large);
        admission.end(small);
        assert_eq!(admission.check(Weight::new(1 << 40, 2)), Ok(()));
    }
}
