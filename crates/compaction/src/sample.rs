//! How much a merge would free, from merging a small part of it.
//!
//! Sketches of partition keys tell which partitions two runs share, but not whether they have the same rows. Tokens are
//! hashes, so a range of tokens is a fair sample of the partitions: a few narrow ranges, merged and thrown away, tell
//! how many bytes of which runs are dead ([`SamplePlan`] says which ranges, [`SampledOverlap`] what was found).
//!
//! Rows are counted by *who has them*: bit i of a group's `members` is run i. From that the outcome of merging any of
//! the runs follows ([`SampledOverlap::dead_ratio`]), exactly for a pair of two runs that share nothing with a third,
//! and else as if those that have a row were alike.

use base::rng::Rng;

use crate::view::RunId;

/// Runs of a sample, at most: bits of [`SampledGroup::members`].
pub const SAMPLED_RUNS_MAX: usize = 64;

/// What is to be merged for a sample: all rows of these runs in these ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePlan {
    pub runs: Vec<RunId>,
    /// Tokens from the first to the second, both included; rising, disjoint.
    pub ranges: Vec<(i64, i64)>,
}

impl SamplePlan {
    /// `count` ranges that together have about `share` of the ring, one at a random place of each `count`th of it.
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

/// Rows that exactly these runs have, or have deletions of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledGroup {
    /// Bit i: the run [`SampledOverlap::runs`]`[i]`.
    pub members: u64,
    /// What they take in all these runs together.
    pub input_bytes: u64,
    /// What is left when all these are merged, tombstones that may be dropped left out.
    pub output_bytes: u64,
}

/// What a merge of samples showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledOverlap {
    pub runs: Vec<RunId>,
    /// Each with other `members`.
    pub groups: Vec<SampledGroup>,
}

impl SampledOverlap {
    /// Of the bytes of these runs, the part that their merge frees: 0.0 to 1.0. `None` if one of them is not in the
    /// sample, or nothing was sampled of them.
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
            // Each that has the row, but one, is dead; what only one has dies by its own expiry and deletions.
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
    fn a_sample_tells_what_each_pair_frees() {
        let runs = vec![RunId(1), RunId(2), RunId(3)];
        // 1 and 2 have the same 100 bytes; 3 has 100 of its own, and 50 that all three have.
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
