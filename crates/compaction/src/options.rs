//! Makes a table's strategy from its `compaction = {…}`, whose values are checked by
//! [`crate::option_values`].

use std::collections::BTreeMap;

use crate::date_tiered::DateTiered;
use crate::incremental::{Incremental, IncrementalOptions};
use crate::job_rules::JobRules;
use crate::leveled::Leveled;
use crate::null::Null;
use crate::option_values::Options;
use crate::options_error::OptionsError;
use crate::repaired::RepairedApart;
use crate::size_tiered::SizeTiered;
use crate::strategy::Strategy;
use crate::time_window::TimeWindow;
use crate::unified::scaling::{parse_bytes, parse_list};
use crate::unified::{Inclusion, Unified};

const MIB: u64 = 1 << 20;

/// The strategies of a table's options.
impl Options<'_> {
    fn size_tiered(&self) -> Result<SizeTiered, OptionsError> {
        Ok(SizeTiered {
            tiering: self.tiering()?,
            tombstones: self.tombstones()?,
            cold_reads_to_omit: self.number("cold_reads_to_omit")?,
        })
    }

    fn leveled(&self) -> Result<Leveled, OptionsError> {
        let mut strategy = Leveled::new(self.sstable_bytes()?, self.number("fanout_size")?);
        strategy.single_sstable_uplevel = self.flag("single_sstable_uplevel")?;
        strategy.tiering = self.tiering()?;
        strategy.tombstones = self.tombstones()?;
        Ok(strategy)
    }

    fn time_window(&self) -> Result<TimeWindow, OptionsError> {
        let unit_s = self.word("compaction_window_unit", |word| {
            Some(match word {
                "MINUTES" => 60,
                "HOURS" => 3600,
                "DAYS" => 86_400,
                _ => return None,
            })
        })?;
        let units: i64 = self.number("compaction_window_size")?;
        let mut strategy = TimeWindow::new(unit_s * units * 1_000_000);
        strategy.timestamp = self.timestamp_unit()?;
        strategy.expired_check_s = self.expired_check_s()?;
        strategy.ignores_overlaps = self.flag("unsafe_aggressive_sstable_expiration")?;
        strategy.tiering = self.tiering()?;
        strategy.tombstones = self.tombstones_if_set()?;
        Ok(strategy)
    }

    fn date_tiered(&self) -> Result<DateTiered, OptionsError> {
        let mut strategy = DateTiered::default();
        strategy.base_us = self.number::<i64>("base_time_seconds")? * 1_000_000;
        strategy.max_window_us = self.number::<i64>("max_window_size_seconds")? * 1_000_000;
        strategy.max_age_us = (self.number::<f64>("max_sstable_age_days")? * 86_400e6) as i64;
        strategy.timestamp = self.timestamp_unit()?;
        strategy.expired_check_s = self.expired_check_s()?;
        (strategy.tiering.min_threshold, strategy.tiering.max_threshold) = self.thresholds()?;
        strategy.tombstones = self.tombstones_if_set()?;
        Ok(strategy)
    }

    fn unified(&self) -> Result<Unified, OptionsError> {
        let scaling = self.parsed("scaling_parameters", parse_list)?;
        let mut strategy = Unified { scaling, ..Unified::default() };
        let sharding = &mut strategy.sharding;
        sharding.base_shards = self.number("base_shard_count")?;
        sharding.target_sstable_bytes = self.parsed("target_sstable_size", parse_bytes)?;
        sharding.min_sstable_bytes = self.parsed("min_sstable_size", parse_bytes)?;
        sharding.growth = self.number("sstable_growth")?;
        self.check_sizes(sharding.target_sstable_bytes, sharding.min_sstable_bytes)?;
        strategy.sstables_max = Some(self.number("max_sstables_to_compact")?).filter(|max| *max > 0);
        strategy.flush_bytes_override =
            Some(self.parsed("flush_size_override", parse_bytes)?).filter(|bytes| *bytes > 0);
        strategy.survival = self.number("survival_factor")?;
        strategy.inclusion = self.word("overlap_inclusion_method", |word| {
            Some(match word {
                "NONE" => Inclusion::None,
                "SINGLE" => Inclusion::Single,
                "TRANSITIVE" => Inclusion::Transitive,
                _ => return None,
            })
        })?;
        strategy.expired_check_s = self.expired_check_s()?;
        strategy.ignores_overlaps = self.flag("unsafe_aggressive_sstable_expiration")?;
        strategy.tombstones = self.tombstones()?;
        Ok(strategy)
    }

    /// The strategy, ignoring `enabled`.
    fn strategy(&self) -> Result<Box<dyn Strategy>, OptionsError> {
        Ok(match self.strategy.name {
            "SizeTiered" => Box::new(self.size_tiered()?),
            "Leveled" => Box::new(self.leveled()?),
            "Incremental" | "Hybrid" => Box::new(Incremental::new(IncrementalOptions::from_options(self)?)),
            "TimeWindow" => Box::new(self.time_window()?),
            "DateTiered" => Box::new(self.date_tiered()?),
            "Unified" => Box::new(self.unified()?),
            "Null" | "InMemory" => Box::new(Null::new()),
            other => panic!("{other} is in the table of strategies and has none"),
        })
    }

    /// Checks that `target_sstable_size` is at least 1 MiB, and that `min_sstable_size` is below the smallest
    /// SSTable that the target allows. The second check applies only if the table sets `min_sstable_size`.
    fn check_sizes(&self, target_bytes: u64, min_bytes: u64) -> Result<(), OptionsError> {
        let given = |option: &str| self.values.get(option).map_or("", String::as_str);
        if target_bytes < MIB {
            return Err(OptionsError::Refused(format!(
                "target_sstable_size {} is not acceptable, size must be at least 1MiB",
                given("target_sstable_size")
            )));
        }
        let least_target = target_bytes as f64 * std::f64::consts::FRAC_1_SQRT_2;
        if self.values.contains_key("min_sstable_size") && min_bytes as f64 >= least_target {
            return Err(OptionsError::Refused(format!(
                "Invalid configuration, min_sstable_size ({}) should be less than the target size minimum: \
                 {least_target:.0} bytes",
                given("min_sstable_size")
            )));
        }
        Ok(())
    }
}

/// The strategy of a table, which may be disabled ([`Null::disabled`]).
pub fn strategy_from(values: &BTreeMap<String, String>) -> Result<Box<dyn Strategy>, OptionsError> {
    let options = Options::new(values)?;
    let strategy = options.strategy()?;
    let strategy = if JobRules::from_options(&options)?.only_purge_repaired {
        Box::new(RepairedApart::new(strategy, options.strategy()?))
    } else {
        strategy
    };
    Ok(if options.flag("enabled")? { strategy } else { Box::new(Null::disabled(strategy)) })
}

/// Refuses options that a new table must not have: unknown names, values outside their bounds, conflicting
/// values. For options that pass, [`strategy_from`] succeeds.
pub fn check_options(values: &BTreeMap<String, String>) -> Result<(), OptionsError> {
    let options = Options::new(values)?;
    for (name, value) in values.iter().filter(|(name, _)| *name != "class") {
        let unknown =
            || OptionsError::UnknownOption { option: name.clone(), class: options.strategy.class() };
        options.strategy.option(name).ok_or_else(unknown)?.check(value)?;
    }
    strategy_from(values).map(drop)
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

    /// Checks the plan of a strategy with these options for a table.
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
    fn nonsense_is_reported() {
        let error =
            |class: &str, options: &[(&str, &str)]| from(class, options).err().expect("an error").to_string();
        assert_eq!(strategy_from(&BTreeMap::new()).err(), Some(OptionsError::NoClass));
        assert!(error("Mine", &[]).contains("class 'Mine'"));
        let sized = "SizeTieredCompactionStrategy";
        for (option, value, expect) in [
            ("min_threshold", "1", "Min compaction threshold cannot be less than 2 (got 1)"),
            ("max_threshold", "0", "'enabled' to false instead"),
            ("max_threshold", "3", "Min compaction threshold (got 4) cannot be greater than"),
            (
                "bucket_low",
                "NaN",
                "NaN is not valid for compaction option 'bucket_low': it must be a number between 0 and 1",
            ),
            ("bucket_low", "1", "between 0 and 1"),
            ("min_sstable_size", "-1", "an integer of at least 0"),
            ("min_sstable_age", "4294967296", "an integer from 0 to 4294967295"),
            ("enabled", "yes", "either 'true' or 'false'"),
            ("bucketing", "none", "one of SCYLLADB, CASSANDRA"),
        ] {
            let error = error(sized, &[(option, value)]);
            assert!(error.contains(expect), "{option} {value}: {error}");
        }
        assert!(error("UnifiedCompactionStrategy", &[("target_sstable_size", "big")]).contains("big"));
        assert!(
            error("TimeWindowCompactionStrategy", &[("compaction_window_unit", "YEARS")]).contains("YEARS")
        );
    }
}
