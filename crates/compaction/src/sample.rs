//! Estimates the bytes that a merge would free, by merging a small sample.
//!
//! Sketches of partition keys show which partitions two runs share, but not whether they contain the same
//! rows. Tokens are hashes, so a range of tokens is a fair sample of the partitions. A few narrow ranges are
//! merged, and the output is discarded; this shows how many bytes of each run are dead. [`SamplePlan`]
//! contains the ranges, [`SampledOverlap`] the results.
//!
//! Rows are grouped by the runs that contain them: bit i of a group's `members` is run i. The result of
//! merging any subset of the runs follows from the groups ([`SampledOverlap::dead_ratio`]). It is exact for
//! two runs that share no rows with a third, and otherwise assumes that all copies of a row have the same
//! size.

use base::rng::Rng;

use crate::sstable_id::RunId;

/// Maximum number of runs in a sample: the number of bits of [`SampledGroup::members`].
pub const SAMPLED_RUNS_MAX: usize = 64;

/// The sample to merge: all rows of these runs in these ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePlan {
    /// The runs whose overlap is measured.
    pub runs: Vec<RunId>,
    /// Token ranges with inclusive bounds, in ascending order and disjoint.
    pub ranges: Vec<(i64, i64)>,
}

impl SamplePlan {
    /// `count` ranges that together cover about `share` of the ring. Each is at a random position of one
    /// `count`th of the ring.
    pub fn uniform(runs: Vec<RunId>, share: f64, count: u32, seed: u64) -> Self {
        assert!(count > 0 && runs.len() <= SAMPLED_RUNS_MAX, "{count} ranges, {} runs", runs.len());
        let mut rng = Rng::new(seed);
        let stride = (1u128 << 64) / u128::from(count);
        let width = ((stride as f64 * share.clamp(0.0, 1.0)) as u128).clamp(1, stride);
        let token = |at: u128| (at as i128 + i128::from(i64::MIN)) as i64;
        let ranges = (0..u128::from(count)).map(|index| {
            let slack = u64::try_from(stride - width).unwrap_or(u64::MAX);
            let start = index * stride + u128::from(rng.below(slack.saturating_add(1).max(1)));
            (token(start), token(start + width - 1))
        });
        Self { runs, ranges: ranges.collect() }
    }
}

/// The rows contained in, or deleted by, exactly these runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledGroup {
    /// Bit i stands for the run [`SampledOverlap::runs`]`[i]`.
    pub members: u64,
    /// Bytes of these rows in all these runs together.
    pub input_bytes: u64,
    /// Bytes after a merge of all these runs, without droppable tombstones.
    pub output_bytes: u64,
}

/// The result of merging a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledOverlap {
    /// The measured runs.
    pub runs: Vec<RunId>,
    /// Groups with distinct `members`.
    pub groups: Vec<SampledGroup>,
}

impl SampledOverlap {
    /// The fraction of the bytes of these runs that their merge frees, from 0.0 to 1.0. `None` if one of the
    /// runs is not in the sample, or if the sample contains no bytes of them.
    pub fn dead_ratio(&self, runs: &[RunId]) -> Option<f64> {
        let mut chosen = 0u64;
        for run in runs {
            chosen |= 1 << self.runs.iter().position(|sampled| sampled == run)?;
        }
        let (mut input_bytes, mut dead_bytes) = (0.0, 0.0);
        for group in &self.groups {
            let (all, here) = (group.members.count_ones(), (group.members & chosen).count_ones());
            if here == 0 {
                continue;
            }
            let freed_bytes = group.input_bytes.saturating_sub(group.output_bytes) as f64;
            input_bytes += group.input_bytes as f64 * f64::from(here) / f64::from(all);
            // All copies of a row except one are dead. A row in one run only is dead by its own expiry or
            // deletions.
            dead_bytes +=
                if all > 1 { freed_bytes * f64::from(here - 1) / f64::from(all - 1) } else { freed_bytes };
        }
        (input_bytes > 0.0).then(|| (dead_bytes / input_bytes).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: u64, input_bytes: u64, output_bytes: u64) -> SampledGroup {
        SampledGroup { members, input_bytes, output_bytes }
    }

    #[test]
    fn ranges_rise_and_are_disjoint() {
        for (share, count) in [(0.01, 16), (1.0, 7), (0.0, 3), (1.0, 1)] {
            let plan = SamplePlan::uniform(vec![RunId(1)], share, count, 7);
            assert_eq!(plan.ranges.len(), count as usize);
            assert!(plan.ranges.iter().all(|(start, end)| start <= end));
            assert!(plan.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let width: u128 =
                plan.ranges.iter().map(|(start, end)| u128::from(end.abs_diff(*start)) + 1).sum();
            let got = width as f64 / 2f64.powi(64);
            assert!((got - share).abs() < 0.001, "{got} of the ring, asked for {share}");
        }
    }

    #[test]
    fn a_sample_estimates_what_each_pair_frees() {
        let runs = vec![RunId(1), RunId(2), RunId(3)];
        // Runs 1 and 2 share 100 bytes; run 3 has 100 bytes of its own; all three share 50.
        let groups = vec![group(0b011, 200, 100), group(0b100, 100, 100), group(0b111, 150, 50)];
        let sampled = SampledOverlap { runs, groups };
        let ratio =
            |runs: &[u128]| sampled.dead_ratio(&runs.iter().map(|run| RunId(*run)).collect::<Vec<_>>());
        assert_eq!(ratio(&[1, 2]), Some(150.0 / 300.0));
        assert_eq!(ratio(&[1, 3]), Some(50.0 / 300.0));
        assert_eq!(ratio(&[1, 2, 3]), Some(200.0 / 450.0));
        assert_eq!(ratio(&[1]), Some(0.0));
        assert_eq!(ratio(&[1, 9]), None);
    }
}
