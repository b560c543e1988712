//! The options of the incremental strategy.

use std::collections::BTreeMap;
use std::str::FromStr;

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
    /// From the options of a table, which the catalog has checked: what is not there, or does not parse, is as by
    /// default.
    pub fn from_map(map: &BTreeMap<String, String>) -> Self {
        let mut options = Self::default();
        let tiering = &mut options.tiering;
        read(map, "bucket_low", &mut tiering.bucket_low);
        read(map, "bucket_high", &mut tiering.bucket_high);
        read(map, "min_sstable_size", &mut tiering.min_sstable_bytes);
        read(map, "min_sstable_age", &mut tiering.min_sstable_age_s);
        read(map, "min_threshold", &mut tiering.min_threshold);
        read(map, "max_threshold", &mut tiering.max_threshold);
        let tombstones = &mut options.tombstones;
        read(map, "tombstone_threshold", &mut tombstones.threshold);
        read(map, "tombstone_compaction_interval", &mut tombstones.interval_s);
        read_bool(map, "unchecked_tombstone_compaction", &mut tombstones.unchecked);
        let mut fragment_mb = options.fragment_bytes >> 20;
        read(map, "sstable_size_in_mb", &mut fragment_mb);
        options.fragment_bytes = fragment_mb.max(1).saturating_mul(1 << 20);
        let mut goal = 0.0;
        read(map, "space_amplification_goal", &mut goal);
        options.space_amplification_goal = (goal > 1.0).then_some(goal);
        read(map, "overlap_threshold", &mut options.overlap_threshold);
        read_bool(map, "disk_aware", &mut options.disk_aware);
        options.tombstone_collection =
            match map.get("tombstone_collection").map(|word| word.to_ascii_uppercase()).as_deref() {
                Some("WHEN_SHORT") => TombstoneCollection::WhenShort,
                Some("TIERS") => TombstoneCollection::Tiers,
                _ => TombstoneCollection::Fragments,
            };
        options
    }

    /// Decides as ScyllaDB's strategy does: whole tiers, and no thought of overlap or disk space.
    pub fn as_the_peers(mut self) -> Self {
        self.overlap_threshold = 0.0;
        self.tombstone_collection = TombstoneCollection::Tiers;
        self.disk_aware = false;
        self
    }
}

fn read<T: FromStr>(map: &BTreeMap<String, String>, option: &str, into: &mut T) {
    if let Some(value) = map.get(option).and_then(|value| value.parse().ok()) {
        *into = value;
    }
}

fn read_bool(map: &BTreeMap<String, String>, option: &str, into: &mut bool) {
    if let Some(value) = map.get(option) {
        *into = value.eq_ignore_ascii_case("true");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_the_table() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(option, value)| (option.to_string(), value.to_string())).collect()
        };
        assert_eq!(HybridOptions::from_map(&map(&[])), HybridOptions::default());
        let options = HybridOptions::from_map(&map(&[
            ("min_threshold", "3"),
            ("sstable_size_in_mb", "160"),
            ("space_amplification_goal", "1.5"),
            ("overlap_threshold", "0"),
            ("tombstone_collection", "tiers"),
            ("disk_aware", "false"),
        ]));
        assert_eq!(options.tiering.min_threshold, 3);
        assert_eq!(options.fragment_bytes, 160 << 20);
        assert_eq!(options.space_amplification_goal, Some(1.5));
        assert_eq!(options.clone().as_the_peers(), options);
    }
}
