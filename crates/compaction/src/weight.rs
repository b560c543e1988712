//! Admission of a shard's jobs: at most one job of each weight runs at a time. Large jobs therefore do not
//! accumulate, and small jobs, which keep the number of SSTables low, are always admitted.
//!
//! A job's weight is the logarithm of its bytes. A job that merges fewer runs than a running job has to wait,
//! because it helps reads less and would take bandwidth from the running job. Jobs that only drop expired
//! SSTables cost nothing and are always admitted. A refused job is checked again when another job ends.

/// Maximum number of runs of a job that is counted.
const FAN_IN_MAX: usize = 32;

/// The properties of a job that decide its admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// 0 if nothing is read.
    pub weight: u32,
    /// Number of merged runs.
    pub fan_in: usize,
}

impl Weight {
    /// The weight is log4 of the bytes plus 1 MiB, so that all small jobs have the same weight.
    pub fn new(input_bytes: u64, fan_in: usize) -> Self {
        let weight = if input_bytes == 0 { 0 } else { input_bytes.saturating_add(1 << 20).ilog2() / 2 };
        Self { weight, fan_in: fan_in.min(FAN_IN_MAX) }
    }
}

/// The running jobs of a shard.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    running: Vec<Weight>,
}

/// Why a job has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRefusal {
    /// A job of the same weight is running.
    SameWeight,
    /// A job that merges more runs is running.
    LargerFanIn,
}

impl Admission {
    /// Whether a job of this weight may start beside those that run. Errors: why it has to wait.
    pub fn check(&self, job: Weight) -> Result<(), JobRefusal> {
        if job.weight == 0 {
            return Ok(());
        }
        if self.running.iter().any(|running| running.weight == job.weight) {
            return Err(JobRefusal::SameWeight);
        }
        let largest = self.running.iter().map(|running| running.fan_in).max().unwrap_or(0);
        if job.fan_in < largest { Err(JobRefusal::LargerFanIn) } else { Ok(()) }
    }

    /// Admits a job, if it may run. The caller ends it with [`Admission::end`].
    pub fn begin(&mut self, job: Weight) -> Result<(), JobRefusal> {
        self.check(job)?;
        if job.weight > 0 {
            self.running.push(job);
        }
        Ok(())
    }

    /// Ends a job that [`Self::begin`] admitted.
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
        assert_eq!(admission.begin(large), Err(JobRefusal::SameWeight));
        assert_eq!(admission.begin(small), Ok(()));
        assert_eq!(admission.check(Weight::new(1 << 40, 5)), Err(JobRefusal::LargerFanIn));
        assert_eq!(admission.begin(Weight::new(0, 0)), Ok(()));
        admission.end(Weight::new(0, 0));
        admission.end(large);
        assert_eq!(admission.begin(large), Ok(()));
        admission.end(large);
        admission.end(small);
        assert_eq!(admission.check(Weight::new(1 << 40, 2)), Ok(()));
    }
}
