//! The options of the incremental strategy.

use crate::options::{Options, OptionsError};
use crate::tiers::{Bucketing, Tiering};
use crate::tombstones::TombstoneRules;

/// How runs are rid of tombstones that may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneCollection {
    /// A fragment at a time, with all that is older and overlaps it, when there is nothing else to do.
    Fragments,
    /// The same, but only when the disk is short of space.
    WhenShort,
    /// A whole tier with its neighbour, as ScyllaDB does.
    Tiers,
}

/// What `compaction = {'class': 'IncrementalCompactionStrategy', …}` says.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridOptions {
    pub tiering: Tiering,
    pub tombstones: TombstoneRules,
    /// `sstable_size_in_mb`: bytes of a fragment before compression.
    pub fragment_bytes: u64,
    /// `space_amplification_goal`: the two largest tiers are merged when they take so many times the space of the
    /// largest.
    pub space_amplification_goal: Option<f64>,
    /// `overlap_threshold`: runs are merged, however few, if that frees so many bytes for each byte that is
    /// written. 0.0: never.
    pub overlap_threshold: f64,
    /// `tombstone_collection`.
    pub tombstone_collection: TombstoneCollection,
    /// Before runs of so many bytes are merged for what they share, a sample is asked for. No option of tables.
    pub sampled_from_bytes: u64,
    /// `disk_aware`: whether jobs are chosen by the space they need.
    pub disk_aware: bool,
}

impl Default for HybridOptions {
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

impl HybridOptions {
    /// From the options of a table.
    pub(crate) fn from_options(options: &Options<'_>) -> Result<Self, OptionsError> {
        let default = Self::default();
        let collection = |text: &str| {
            Some(match text.to_ascii_uppercase().as_str() {
                "FRAGMENTS" => TombstoneCollection::Fragments,
                "WHEN_SHORT" => TombstoneCollection::WhenShort,
                "TIERS" => TombstoneCollection::Tiers,
                _ => return None,
            })
        };
        let goal: f64 = options.number("space_amplification_goal", 1.0, 1.0, 2.0)?;
        Ok(Self {
            tiering: options.tiering(default.tiering)?,
            tombstones: options.tombstones()?,
            fragment_bytes: options.sstable_bytes(default.fragment_bytes >> 20)?,
            space_amplification_goal: (goal > 1.0).then_some(goal),
            overlap_threshold: options.number(
                "overlap_threshold",
                default.overlap_threshold,
                0.0,
                f64::MAX,
            )?,
            sampled_from_bytes: default.sampled_from_bytes,
            tombstone_collection: options.or(
                "tombstone_collection",
                default.tombstone_collection,
                collection,
            )?,
            disk_aware: options.flag("disk_aware", default.disk_aware)?,
        })
    }

    /// Decides as ScyllaDB's strategy does: whole tiers, and no thought of overlap or disk space.
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
            let map = pairs.iter().map(|(option, value)| (option.to_string(), value.to_string())).collect();
            HybridOptions::from_options(&Options(&map))
        };
        assert_eq!(from(&[]), Ok(HybridOptions::default()));
        let options = from(&[
            ("min_threshold", "3"),
            ("sstable_size_in_mb", "160"),
            ("space_amplification_goal", "1.5"),
            ("overlap_threshold", "0"),
            ("tombstone_collection", "tiers"),
            ("disk_aware", "false"),
        ])
        .expect("options");
        assert_eq!(options.tiering, Tiering { min_threshold: 3, ..HybridOptions::default().tiering });
        assert_eq!(options.fragment_bytes, 160 << 20);
        assert_eq!(options.space_amplification_goal, Some(1.5));
        assert_eq!(options.clone().as_the_peers(), options);
        assert!(from(&[("tombstone_collection", "some")]).is_err());
        assert!(from(&[("overlap_threshold", "-1")]).is_err());
    }
}
