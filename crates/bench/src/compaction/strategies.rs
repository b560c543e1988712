//! Options of the strategies for small data: SSTables of 1 MB where the published example has 10 MB.

use std::collections::BTreeMap;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StrategyArgument {
    Stcs,
    Lcs,
    Hybrid,
    Twcs,
    Ucs,
}

/// The selected strategies, or all.
pub(super) fn chosen(asked: &[StrategyArgument]) -> Vec<StrategyArgument> {
    if asked.is_empty() { StrategyArgument::value_variants().to_vec() } else { asked.to_vec() }
}

impl StrategyArgument {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stcs => "STCS",
            Self::Lcs => "LCS",
            Self::Hybrid => "Hybrid",
            Self::Twcs => "TWCS",
            Self::Ucs => "UCS",
        }
    }

    /// The options as in `WITH compaction = {…}`.
    pub(super) fn options(self) -> BTreeMap<String, String> {
        const SMALL: (&str, &str) = ("min_sstable_size", "1048576");
        let options: &[(&str, &str)] = match self {
            Self::Stcs => &[("class", "SizeTieredCompactionStrategy"), SMALL],
            Self::Lcs => &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1"), SMALL],
            Self::Hybrid => &[("class", "HybridCompactionStrategy"), ("sstable_size_in_mb", "1"), SMALL],
            Self::Twcs => &[
                ("class", "TimeWindowCompactionStrategy"),
                ("compaction_window_unit", "DAYS"),
                ("compaction_window_size", "1"),
                ("expired_sstable_check_frequency_seconds", "1"),
                SMALL,
            ],
            Self::Ucs => &[
                ("class", "UnifiedCompactionStrategy"),
                ("target_sstable_size", "1MiB"),
                ("min_sstable_size", "512KiB"),
            ],
        };
        options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }
}
