//! From a table's `compaction = {…}` to its strategy.
//!
//! The catalog has checked the options when the table was made; here they are read again, and what is not understood is an
//! error, since a table may come from another version's files. Options that concern neither the decisions here nor the
//! form of the output are let pass.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::date_tiered::DateTiered;
use crate::hybrid::{Hybrid, HybridOptions};
use crate::leveled::Leveled;
use crate::null::Null;
use crate::size_tiered::SizeTiered;
use crate::strategy::Strategy;
use crate::tiers::{Bucketing, Tiering};
use crate::time_window::{TimeWindow, TimestampUnit};
use crate::tombstones::TombstoneRules;
use crate::unified::scaling::{parse_bytes, parse_list};
use crate::unified::{Inclusion, Unified};

/// Why a strategy could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    NoClass,
    UnknownClass(String),
    /// A value that makes no sense.
    Value {
        option: String,
        value: String,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass => f.write_str("Missing sub-option 'class' for the 'compaction' option."),
            Self::UnknownClass(class) => write!(f, "Unable to find compaction strategy class '{class}'"),
            Self::Value { option, value } => {
                write!(f, "{value} is not valid for compaction option '{option}'")
            }
        }
    }
}

impl std::error::Error for OptionsError {}

/// The options of a table, by name.
pub struct Options<'a>(pub &'a BTreeMap<String, String>);

impl Options<'_> {
    fn text(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(String::as_str)
    }

    /// What `parse` makes of the option, or `default` if it is not there.
    pub fn or<T>(
        &self,
        option: &str,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, OptionsError> {
        let Some(text) = self.text(option) else { return Ok(default) };
        parse(text.trim()).ok_or_else(|| OptionsError::Value { option: option.into(), value: text.into() })
    }

    /// A number within bounds, both included.
    pub fn number<T: FromStr + PartialOrd>(
        &self,
        option: &str,
        default: T,
        least: T,
        most: T,
    ) -> Result<T, OptionsError> {
        let is_within = |number: &T| *number >= least && *number <= most;
        self.or(option, default, |text| text.parse().ok().filter(is_within))
    }

    pub fn flag(&self, option: &str, default: bool) -> Result<bool, OptionsError> {
        self.or(option, default, |text| text.to_ascii_lowercase().parse().ok())
    }

    /// What strategies of sizes are told, over their defaults. `'bucketing': 'CASSANDRA'` asks for buckets by the
    /// average alone and for `min_threshold` always, as Cassandra has it.
    pub fn tiering(&self, default: Tiering) -> Result<Tiering, OptionsError> {
        let bucketing = self.or("bucketing", default.bucketing, |text| match text {
            _ if text.eq_ignore_ascii_case("SCYLLADB") => Some(Bucketing::Guarded),
            _ if text.eq_ignore_ascii_case("CASSANDRA") => Some(Bucketing::Average),
            _ => None,
        })?;
        let min_threshold = self.number("min_threshold", default.min_threshold, 2, usize::MAX)?;
        let max_threshold = self.number("max_threshold", default.max_threshold, min_threshold, usize::MAX)?;
        Ok(Tiering {
            bucketing,
            bucket_low: self.number("bucket_low", default.bucket_low, 0.0, 1.0)?,
            bucket_high: self.number("bucket_high", default.bucket_high, 1.0, f64::MAX)?,
            min_sstable_bytes: self.number("min_sstable_size", default.min_sstable_bytes, 0, u64::MAX)?,
            min_sstable_age_s: self.number("min_sstable_age", default.min_sstable_age_s, 0, u32::MAX)?,
            min_threshold,
            max_threshold,
        })
    }

    /// The options of tombstone compaction.
    pub fn tombstones(&self) -> Result<TombstoneRules, OptionsError> {
        let default = TombstoneRules::default();
        Ok(TombstoneRules {
            enabled: true,
            threshold: self.number("tombstone_threshold", default.threshold, 0.0, 1.0)?,
            interval_s: self.number("tombstone_compaction_interval", default.interval_s, 1, u32::MAX)?,
            unchecked: self.flag("unchecked_tombstone_compaction", default.unchecked)?,
        })
    }

    /// The same, but only if the table says anything about it: for strategies that drop whole SSTables.
    fn tombstones_if_said(&self) -> Result<TombstoneRules, OptionsError> {
        let is_said = ["tombstone_threshold", "tombstone_compaction_interval"]
            .iter()
            .any(|option| self.0.contains_key(*option));
        Ok(TombstoneRules { enabled: is_said, ..self.tombstones()? })
    }

    /// `sstable_size_in_mb` in bytes.
    pub fn sstable_bytes(&self, default_mb: u64) -> Result<u64, OptionsError> {
        Ok(self.number("sstable_size_in_mb", default_mb, 1, 1 << 30)? << 20)
    }

    fn timestamp_unit(&self) -> Result<TimestampUnit, OptionsError> {
        self.or("timestamp_resolution", TimestampUnit::MICROSECONDS, |text| {
            Some(match text.to_ascii_uppercase().as_str() {
                "NANOSECONDS" => TimestampUnit::PerSecond(1_000_000_000),
                "MICROSECONDS" => TimestampUnit::MICROSECONDS,
                "MILLISECONDS" => TimestampUnit::PerSecond(1000),
                "SECONDS" => TimestampUnit::Seconds(1),
                "MINUTES" => TimestampUnit::Seconds(60),
                "HOURS" => TimestampUnit::Seconds(3600),
                "DAYS" => TimestampUnit::Seconds(86_400),
                _ => return None,
            })
        })
    }

    fn size_tiered(&self) -> Result<SizeTiered, OptionsError> {
        Ok(SizeTiered { tiering: self.tiering(Tiering::default())?, tombstones: self.tombstones()? })
    }

    fn leveled(&self) -> Result<Leveled, OptionsError> {
        let fanout = self.number("fanout_size", 10, 2, 1 << 20)?;
        let mut strategy = Leveled::new(self.sstable_bytes(160)?, fanout);
        strategy.single_sstable_uplevel = self.flag("single_sstable_uplevel", false)?;
        strategy.tiering = self.tiering(Tiering::default())?;
        strategy.tombstones = self.tombstones()?;
        Ok(strategy)
    }

    fn time_window(&self) -> Result<TimeWindow, OptionsError> {
        let unit_s = self.or("compaction_window_unit", 86_400, |text| {
            Some(match text.to_ascii_uppercase().as_str() {
                "MINUTES" => 60,
                "HOURS" => 3600,
                "DAYS" => 86_400,
                _ => return None,
            })
        })?;
        let units: i64 = self.number("compaction_window_size", 1, 1, 100_000_000)?;
        let mut strategy = TimeWindow::new(unit_s * units * 1_000_000);
        strategy.timestamp = self.timestamp_unit()?;
        strategy.expired_check_s =
            self.number("expired_sstable_check_frequency_seconds", 600, 0, u32::MAX)?;
        strategy.ignores_overlaps = self.flag("unsafe_aggressive_sstable_expiration", false)?;
        strategy.tiering = self.tiering(Tiering::default())?;
        strategy.tombstones = self.tombstones_if_said()?;
        Ok(strategy)
    }

    fn date_tiered(&self) -> Result<DateTiered, OptionsError> {
        let mut strategy = DateTiered::default();
        strategy.base_us = self.number("base_time_seconds", 60, 1, 1_000_000_000_000)? * 1_000_000;
        let max_window_s: i64 = self.number("max_window_size_seconds", 86_400, 1, 1_000_000_000_000)?;
        strategy.max_window_us = max_window_s * 1_000_000;
        let max_age_days = self.number("max_sstable_age_days", 365_000.0, 0.0, f64::MAX)?;
        strategy.max_age_us = (max_age_days * 86_400e6) as i64;
        strategy.timestamp = self.timestamp_unit()?;
        strategy.expired_check_s =
            self.number("expired_sstable_check_frequency_seconds", 600, 0, u32::MAX)?;
        strategy.tiering = self.tiering(strategy.tiering)?;
        strategy.tombstones = self.tombstones_if_said()?;
        Ok(strategy)
    }

    fn unified(&self) -> Result<Unified, OptionsError> {
        let mut strategy = Unified::default();
        strategy.scaling = self.or("scaling_parameters", strategy.scaling, parse_list)?;
        let sharding = &mut strategy.sharding;
        sharding.base_shards = self.number("base_shard_count", sharding.base_shards, 1, 1 << 16)?;
        sharding.target_sstable_bytes =
            self.or("target_sstable_size", sharding.target_sstable_bytes, parse_bytes)?;
        sharding.min_sstable_bytes = self.or("min_sstable_size", sharding.min_sstable_bytes, parse_bytes)?;
        sharding.growth = self.number("sstable_growth", sharding.growth, 0.0, 1.0)?;
        strategy.sstables_max =
            Some(self.number("max_sstables_to_compact", 0, 0, usize::MAX)?).filter(|max| *max > 0);
        strategy.flush_bytes_override =
            Some(self.or("flush_size_override", 0, parse_bytes)?).filter(|bytes| *bytes > 0);
        strategy.survival = self.number("survival_factor", 1.0, 0.01, 100.0)?;
        strategy.inclusion = self.or("overlap_inclusion_method", Inclusion::Transitive, |text| {
            Some(match text.to_ascii_uppercase().as_str() {
                "NONE" => Inclusion::None,
                "SINGLE" => Inclusion::Single,
                "TRANSITIVE" => Inclusion::Transitive,
                _ => return None,
            })
        })?;
        strategy.expired_check_s =
            self.number("expired_sstable_check_frequency_seconds", 600, 0, u32::MAX)?;
        strategy.ignores_overlaps = self.flag("unsafe_aggressive_sstable_expiration", false)?;
        strategy.tombstones = self.tombstones()?;
        Ok(strategy)
    }
}

/// The strategy of a table, which may be disabled ([`Null::disabled`]).
pub fn strategy_from(options: &BTreeMap<String, String>) -> Result<Box<dyn Strategy>, OptionsError> {
    let class = options.get("class").ok_or(OptionsError::NoClass)?;
    let name = class.rsplit('.').next().unwrap_or(class);
    let options = Options(options);
    let strategy: Box<dyn Strategy> = match name.strip_suffix("CompactionStrategy") {
        Some("SizeTiered") => Box::new(options.size_tiered()?),
        Some("Leveled") => Box::new(options.leveled()?),
        Some("Incremental" | "Hybrid") => Box::new(Hybrid::new(HybridOptions::from_options(&options)?)),
        Some("TimeWindow") => Box::new(options.time_window()?),
        Some("DateTiered") => Box::new(options.date_tiered()?),
        Some("Unified") => Box::new(options.unified()?),
        Some("Null" | "InMemory") => Box::new(Null::new()),
        _ => return Err(OptionsError::UnknownClass(class.clone())),
    };
    Ok(if options.flag("enabled", true)? { strategy } else { Box::new(Null::disabled(strategy)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Table;

    fn from(class: &str, options: &[(&str, &str)]) -> Result<Box<dyn Strategy>, OptionsError> {
        let mut all: BTreeMap<String, String> =
            options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        all.insert("class".to_string(), class.to_string());
        strategy_from(&all)
    }

    /// What a strategy of these options does with a table.
    #[track_caller]
    fn check(class: &str, options: &[(&str, &str)], table: &str, expect: &str) {
        let table = Table::new(table);
        let mut strategy = from(class, options).expect("options");
        assert_eq!(table.say(strategy.next(&table.view()).as_ref()), expect, "{class} {options:?}");
    }

    #[test]
    fn options_are_heard() {
        let sized = "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy";
        check(sized, &[], "100, 100, 100", "nothing");
        check(sized, &[("min_threshold", "3")], "100, 100, 100", "merge a b c");
        check(sized, &[("min_threshold", "2"), ("max_threshold", "2")], "100, 100, 100", "merge a b");
        check(sized, &[("bucket_high", "3")], "100, 200, 300, 400", "nothing");
        check(sized, &[("bucket_high", "3"), ("bucket_low", "0.1")], "100, 200, 300, 400", "merge a b c d");
        check(sized, &[("min_sstable_size", "1000000000")], "1, 100, 300, 400", "merge a b c d");
        check(sized, &[("min_sstable_age", "200000")], "1, 10, 20, 40", "nothing");
        check(sized, &[("bucketing", "cassandra")], "1 age1, 10 age1, 20, 40", "merge a b c d");
        check(sized, &[("tombstone_threshold", "0.6")], "9 dead0.5", "nothing");
        check(sized, &[("tombstone_compaction_interval", "100001")], "9 dead0.5", "nothing");
        check(sized, &[("unchecked_tombstone_compaction", "true")], "9 dead0.5, 100", "merge a");
        let leveled = "LeveledCompactionStrategy";
        check(leveled, &[("sstable_size_in_mb", "5")], "5", "merge a into level 1 of 5 MB each");
        check(
            leveled,
            &[("sstable_size_in_mb", "5"), ("fanout_size", "2")],
            "15 L1",
            "merge a into level 2 of 5 MB each",
        );
        for incremental in ["IncrementalCompactionStrategy", "HybridCompactionStrategy"] {
            check(
                incremental,
                &[("sstable_size_in_mb", "5")],
                "9, 9, 9, 9",
                "merge a b c d into a run of 5 MB each",
            );
            check(incremental, &[("min_threshold", "5")], "9, 9, 9, 9", "nothing");
        }
        let window = "TimeWindowCompactionStrategy";
        let minutes = [("compaction_window_unit", "MINUTES"), ("compaction_window_size", "2")];
        check(window, &minutes, "1 t1, 1 t2, 1 t3, 1 t119, 1 t120", "merge a b c d by 120 s");
        check(window, &[("timestamp_resolution", "MILLISECONDS")], "1, 1, 1, 1", "merge a b c d by 86 s");
        check(window, &[], "9 dead0.5", "nothing");
        check(window, &[("tombstone_threshold", "0.2")], "9 dead0.5", "merge a by 86400 s");
        let dates = [("base_time_seconds", "10"), ("max_sstable_age_days", "0.01")];
        check("DateTieredCompactionStrategy", &dates, "1 t2010, 1 t1000, 1 t1000", "nothing");
        let unified = "UnifiedCompactionStrategy";
        check(unified, &[("scaling_parameters", "N")], "1, 1", "merge a b");
        check(
            unified,
            &[("scaling_parameters", "L4"), ("min_sstable_size", "0B")],
            "1, 1",
            "merge a b into a run into 4 parts",
        );
        check("NullCompactionStrategy", &[], "1, 1, 1, 1", "nothing");
    }

    #[test]
    fn a_disabled_strategy_is_remembered() {
        let disabled = from("LeveledCompactionStrategy", &[("enabled", "false")]).expect("options");
        assert_eq!((disabled.name(), disabled.runs_in_parallel()), ("LeveledCompactionStrategy", false));
        check("LeveledCompactionStrategy", &[("enabled", "FALSE")], "999", "nothing");
        let table = Table::new("999");
        let mut disabled = disabled;
        assert_eq!(
            table.say(disabled.major(&table.view(), false).first()),
            "merge a into level 1 of 160 MB each"
        );
        assert_eq!((disabled.backlog_bytes(&table.view()), disabled.pending(&table.view())), (0.0, 0));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let error =
            |class: &str, options: &[(&str, &str)]| from(class, options).err().expect("an error").to_string();
        assert_eq!(strategy_from(&BTreeMap::new()).err(), Some(OptionsError::NoClass));
        assert!(error("Mine", &[]).contains("class 'Mine'"));
        let sized = "SizeTieredCompactionStrategy";
        for (option, value) in [
            ("min_threshold", "1"),
            ("max_threshold", "3"),
            ("bucket_low", "NaN"),
            ("min_sstable_size", "-1"),
            ("enabled", "yes"),
            ("bucketing", "none"),
        ] {
            let said = format!("{value} is not valid for compaction option '{option}'");
            assert_eq!(error(sized, &[(option, value)]), said);
        }
        assert!(error("UnifiedCompactionStrategy", &[("target_sstable_size", "big")]).contains("big"));
        assert!(
            error("TimeWindowCompactionStrategy", &[("compaction_window_unit", "YEARS")]).contains("YEARS")
        );
    }
}
