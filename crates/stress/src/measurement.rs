//! What a run has measured: for each operation latencies, counts and errors.

use hdrhistogram::Histogram;

/// Latencies are exact to three digits.
const DIGITS: u8 = 3;

/// The measurements of an operation.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// From the moment an operation was due to its answer, in microseconds; without a rate it is due when it
    /// is sent.
    pub response_us: Histogram<u64>,
    /// From the moment it was sent to its answer, in microseconds.
    pub service_us: Histogram<u64>,
    /// Partitions written or read.
    pub partitions: u64,
    /// Rows written or returned.
    pub rows: u64,
    /// Operations that failed, after all attempts.
    pub errors: u64,
    /// Further attempts after errors.
    pub retries: u64,
}

impl Default for Measurement {
    fn default() -> Self {
        let histogram = || Histogram::new(DIGITS).expect("three digits are allowed");
        Self {
            response_us: histogram(),
            service_us: histogram(),
            partitions: 0,
            rows: 0,
            errors: 0,
            retries: 0,
        }
    }
}

impl Measurement {
    /// Counts an operation that has ended.
    pub fn add(&mut self, response_us: u64, service_us: u64, partitions: u64, rows: u64) {
        self.response_us.record(response_us.max(1)).expect("the histogram grows");
        self.service_us.record(service_us.max(1)).expect("the histogram grows");
        self.partitions += partitions;
        self.rows += rows;
    }

    /// Adds the measurements of another worker or interval.
    pub fn merge(&mut self, other: &Self) {
        self.response_us.add(&other.response_us).expect("the histogram grows");
        self.service_us.add(&other.service_us).expect("the histogram grows");
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.errors += other.errors;
        self.retries += other.retries;
    }

    /// Operations that ended without an error.
    pub fn operations(&self) -> u64 {
        self.response_us.len()
    }
}

/// The measurements of all operations, in the order of the plan.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// One for each operation.
    pub operations: Vec<Measurement>,
}

impl Measurements {
    /// For `count` operations.
    pub fn new(count: usize) -> Self {
        Self { operations: vec![Measurement::default(); count] }
    }

    /// Adds the measurements of another worker or interval with the same operations.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(theirs);
        }
    }

    /// The sum over all operations.
    pub fn total(&self) -> Measurement {
        let mut total = Measurement::default();
        self.operations.iter().for_each(|operation| total.merge(operation));
        total
    }
}
