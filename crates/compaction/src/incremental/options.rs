//! The options of the incremental strategy.

use crate::option_values::Options;
use crate::options_error::OptionsError;
use crate::tiers::{Bucketing, Tiering};
use crate::tombstones::TombstoneRules;

/// How droppable tombstones are removed from runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneCollection {
    /// One fragment at a time, with all older data that overlaps it, when there is no other job.
    Fragments,
    /// Like `Fragments`, but only when the disk is short of space.
    WhenShort,
    /// A whole tier together with its neighbour, as in ScyllaDB.
    Tiers,
}

/// The options of `compaction = {'class': 'IncrementalCompactionStrategy', …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct IncrementalOptions {
    /// Which runs have about the same size, and how many are merged.
    pub tiering: Tiering,
    /// When a fragment is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    /// `sstable_size_in_mb`: size of a fragment in bytes before compression.
    pub fragment_bytes: u64,
    /// `space_amplification_goal`: the two largest tiers are merged when their size divided by the largest
    /// tier's size exceeds this ratio.
    pub space_amplification_goal: Option<f64>,
    /// `overlap_threshold`: runs are merged, whatever their number, if the merge frees at least this number
    /// of bytes per byte written. 0.0: never.
    pub overlap_threshold: f64,
    /// `tombstone_collection`.
    pub tombstone_collection: TombstoneCollection,
    /// Minimum size in bytes of a merge for common data before which a sample is requested. Not an option of
    /// tables.
    pub sampled_from_bytes: u64,
    /// `disk_aware`: whether jobs are chosen by the disk space that they need.
    pub disk_aware: bool,
}

impl Default for IncrementalOptions {
    #[expect(clippy::approx_constant, reason = "the bounds are the peers', to their digits")]
    fn default() -> Self {
        Self {
            tiering: Tiering {
                bucketing: Bucketing::Guarded,
                bucket_low: 0.7071,
                bucket_high: 1.4142,
                ..Tiering::default()
            },
            tombstones: TombstoneRules::default(),
            fragment_bytes: 1000 << 20,
            space_amplification_goal: None,
            overlap_threshold: 0.5,
            sampled_from_bytes: 256 << 20,
            tombstone_collection: TombstoneCollection::Fragments,
            disk_aware: true,
        }
    }
}

impl IncrementalOptions {
    /// Reads the options of a table.
    pub(crate) fn from_options(options: &Options<'_>) -> Result<Self, OptionsError> {
        let collection = |word: &str| {
            Some(match word {
                "FRAGMENTS" => TombstoneCollection::Fragments,
                "WHEN_SHORT" => TombstoneCollection::WhenShort,
                "TIERS" => TombstoneCollection::Tiers,
                _ => return None,
            })
        };
        Ok(Self {
            tiering: options.tiering()?,
            tombstones: options.tombstones()?,
            fragment_bytes: options.sstable_bytes()?,
            space_amplification_goal: options.number_if_any("space_amplification_goal")?,
            overlap_threshold: options.number("overlap_threshold")?,
            sampled_from_bytes: Self::default().sampled_from_bytes,
            tombstone_collection: options.word("tombstone_collection", collection)?,
            disk_aware: options.flag("disk_aware")?,
        })
    }

    /// Decides like ScyllaDB's strategy: by whole tiers, without regard to overlap or disk space.
    pub fn as_the_peers(mut self) -> Self {
        self.overlap_threshold = 0.0;
        self.tombstone_collection = TombstoneCollection::Tiers;
        self.disk_aware = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_the_table() {
        let from = |pairs: &[(&str, &str)]| {
            let class = [("class", "IncrementalCompactionStrategy")];
            let pairs = class.iter().chain(pairs);
            let map = pairs.map(|(option, value)| (option.to_string(), value.to_string())).collect();
            IncrementalOptions::from_options(&Options::new(&map)?)
        };
        assert_eq!(from(&[]), Ok(IncrementalOptions::default()));
        let options = from(&[
            ("min_threshold", "3"),
            ("sstable_size_in_mb", "160"),
            ("space_amplification_goal", "1.5"),
            ("overlap_threshold", "0"),
            ("tombstone_collection", "tiers"),
            ("disk_aware", "false"),
        ])
        .expect("options");
        assert_eq!(options.tiering, Tiering { min_threshold: 3, ..IncrementalOptions::default().tiering });
        assert_eq!(options.fragment_bytes, 160 << 20);
        assert_eq!(options.space_amplification_goal, Some(1.5));
        assert_eq!(options.clone().as_the_peers(), options);
        assert!(from(&[("tombstone_collection", "some")]).is_err());
        assert!(from(&[("overlap_threshold", "-1")]).is_err());
    }
}
