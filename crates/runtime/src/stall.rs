//! Stall detector: counts polls that took too long, for each group, and logs some of them.
//!
//! The measured time is clock time, so a thread that the system took off its core appears to have stalled. A
//! report contains the group and the place where the task was spawned, but no stack: walking the stack in a
//! signal handler is safe only with the unwinders of some systems, and the duration is known only afterwards.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use base::histogram::EstimatedHistogram;

use crate::ShardId;
use crate::group::{CpuGroup, GROUPS_MAX};

/// Number of histogram offsets, up to a quarter of an hour in microseconds.
const OFFSETS: usize = 110;

/// Unit of time of the report limit.
const MINUTE_NS: u64 = 60_000_000_000;

/// Threshold of stalls, and how many of them are logged.
#[derive(Clone, Debug)]
pub struct StallOptions {
    /// A poll that takes longer is a stall.
    pub threshold_us: u64,
    /// The most log lines per minute; further stalls are only counted.
    pub reports_per_minute: u32,
}

impl Default for StallOptions {
    fn default() -> Self {
        Self { threshold_us: 25_000, reports_per_minute: 5 }
    }
}

/// A poll that took too long.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    pub shard: ShardId,
    pub group_name: String,
    /// Duration of the poll in microseconds.
    pub took_us: u64,
    /// Place at which the task was spawned, or the call made.
    pub spawned_at: &'static Location<'static>,
    /// Number of stalls since the last report.
    pub unreported: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, rest_us) = (self.took_us / 1000, self.took_us % 1000);
        write!(f, "Reactor stalled for {ms}.{rest_us:03} ms on shard {}, ", self.shard)?;
        write!(f, "in scheduling group {}, by a task spawned at {}", self.group_name, self.spawned_at)?;
        match self.unreported {
            0 => Ok(()),
            more => write!(f, " ({more} more were not reported)"),
        }
    }
}

#[derive(Default)]
struct Seen {
    /// In microseconds; `None` until a task of the group has stalled.
    histograms: [Option<Box<EstimatedHistogram>>; GROUPS_MAX],
    minute_began_ns: u64,
    reported: u32,
    told_ever: u64,
    unreported: u64,
}

/// The detector of one shard.
pub(crate) struct StallDetector {
    options: StallOptions,
    threshold_ns: u64,
    seen: RefCell<Seen>,
}

impl StallDetector {
    pub(crate) fn new(options: StallOptions) -> Self {
        let threshold_ns = options.threshold_us.saturating_mul(1000);
        Self { options, threshold_ns, seen: RefCell::default() }
    }

    #[inline]
    pub(crate) fn is_stall(&self, took_ns: u64) -> bool {
        took_ns > self.threshold_ns
    }

    /// Counts a stall. Returns the number of unreported stalls before it if it is to be reported, `None`
    /// otherwise.
    pub(crate) fn count(&self, group: CpuGroup, took_ns: u64, now_ns: u64) -> Option<u64> {
        let seen = &mut *self.seen.borrow_mut();
        let histogram =
            seen.histograms[group.index()].get_or_insert_with(|| Box::new(EstimatedHistogram::new(OFFSETS)));
        histogram.add(took_ns / 1000);
        if now_ns.saturating_sub(seen.minute_began_ns) >= MINUTE_NS || seen.told_ever == 0 {
            (seen.minute_began_ns, seen.reported) = (now_ns, 0);
        }
        if seen.reported >= self.options.reports_per_minute {
            seen.unreported += 1;
            return None;
        }
        seen.reported += 1;
        seen.told_ever += 1;
        Some(std::mem::take(&mut seen.unreported))
    }

    /// Histogram of the stalls of a group, in microseconds.
    pub(crate) fn histogram(&self, group: CpuGroup) -> EstimatedHistogram {
        let seen = self.seen.borrow();
        let histogram = seen.histograms[group.index()].as_deref();
        histogram.cloned().unwrap_or_else(|| EstimatedHistogram::new(OFFSETS))
    }

    /// The number of reported stalls.
    pub(crate) fn reported(&self) -> u64 {
        self.seen.borrow().told_ever
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_this_number_a_minute_is_logged() {
        let options = StallOptions { threshold_us: 1000, reports_per_minute: 2 };
        let detector = StallDetector::new(options);
        assert!(detector.is_stall(1_000_001) && !detector.is_stall(1_000_000));
        let reported: Vec<Option<u64>> = [0, 10, 20, 30, 70, 71]
            .map(|s| detector.count(CpuGroup::Compaction, 2_000_000, s * 1_000_000_000))
            .to_vec();
        assert_eq!(reported, [Some(0), Some(0), None, None, Some(2), Some(0)]);
        assert_eq!(detector.histogram(CpuGroup::Compaction).count(), 6);
        assert_eq!(detector.histogram(CpuGroup::Statement).count(), 0);
        assert_eq!(detector.reported(), 4);
    }
}
