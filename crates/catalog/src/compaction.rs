//! `compaction`: the strategies of both vendors, and what may be said to each.
//!
//! Sources: the strategies' `validateOptions` in Cassandra 3.11 (DateTiered), 4.1 and 5.0 (Unified), and ScyllaDB's
//! documentation (Incremental, which was once called Hybrid).

use std::collections::BTreeMap;

use ::compaction::strategy_from;

use crate::error::{CatalogError, configuration};
use crate::settings::map;

const COMPACTION: &str = "org.apache.cassandra.db.compaction.";
const STRATEGY: &str = "CompactionStrategy";
const MIB: f64 = 1_048_576.0;

/// What the value of an option is.
#[derive(Clone, Copy)]
enum Shape {
    Boolean,
    /// At least so much.
    Integer(i64),
    /// Both ends are excluded or, with `true`, included.
    Number(f64, f64, bool),
    Word(&'static [&'static str]),
    /// A number of bytes, perhaps with a unit: `100MiB`.
    Size,
    /// `T4`, `L10`, `N`, `-8`, several of them with commas between.
    Scaling,
}

use Shape::{Boolean, Integer, Number, Scaling, Size, Word};

type Options = &'static [(&'static str, Shape)];

const COMMON: Options = &[
    ("enabled", Boolean),
    ("min_threshold", Integer(2)),
    ("max_threshold", Integer(2)),
    ("tombstone_threshold", Number(0.0, 1.0, true)),
    ("tombstone_compaction_interval", Integer(1)),
    ("unchecked_tombstone_compaction", Boolean),
    ("only_purge_repaired_tombstones", Boolean),
    ("log_all", Boolean),
    ("provide_overlapping_tombstones", Word(&["NONE", "ROW", "CELL"])),
];
const SIZE_TIERED: Options = &[
    ("bucket_low", Number(0.0, 1.0, false)),
    ("bucket_high", Number(1.0, f64::MAX, false)),
    ("min_sstable_size", Integer(0)),
    ("min_sstable_age", Integer(0)),
    ("cold_reads_to_omit", Number(0.0, 1.0, true)),
    // Ours: whose way of cutting sizes into buckets.
    ("bucketing", Word(&["SCYLLADB", "CASSANDRA"])),
];
const LEVELED: Options =
    &[("sstable_size_in_mb", Integer(1)), ("fanout_size", Integer(1)), ("single_sstable_uplevel", Boolean)];
const INCREMENTAL: Options = &[
    ("sstable_size_in_mb", Integer(1)),
    ("space_amplification_goal", Number(1.0, 2.0, true)),
    // Ours: docs/compaction.md.
    ("overlap_threshold", Number(0.0, f64::MAX, true)),
    ("tombstone_collection", Word(&["FRAGMENTS", "WHEN_SHORT", "TIERS"])),
    ("disk_aware", Boolean),
];
const TIME_WINDOW: Options = &[
    ("compaction_window_unit", Word(&["MINUTES", "HOURS", "DAYS"])),
    ("compaction_window_size", Integer(1)),
    ("timestamp_resolution", TIME_UNIT),
    ("expired_sstable_check_frequency_seconds", Integer(0)),
    ("unsafe_aggressive_sstable_expiration", Boolean),
    ("enable_optimized_twcs_queries", Boolean),
];
const DATE_TIERED: Options = &[
    ("base_time_seconds", Integer(1)),
    ("max_sstable_age_days", Number(0.0, f64::MAX, true)),
    ("max_window_size_seconds", Integer(1)),
    ("timestamp_resolution", TIME_UNIT),
    ("expired_sstable_check_frequency_seconds", Integer(0)),
];
const UNIFIED: Options = &[
    ("scaling_parameters", Scaling),
    ("target_sstable_size", Size),
    ("min_sstable_size", Size),
    ("flush_size_override", Size),
    ("base_shard_count", Integer(1)),
    ("sstable_growth", Number(0.0, 1.0, true)),
    ("max_sstables_to_compact", Integer(0)),
    ("overlap_inclusion_method", Word(&["NONE", "SINGLE", "TRANSITIVE"])),
    ("survival_factor", Number(0.0, f64::MAX, false)),
    ("parallelize_output_shards", Boolean),
    ("expired_sstable_check_frequency_seconds", Integer(0)),
    ("unsafe_aggressive_sstable_expiration", Boolean),
];
const TIME_UNIT: Shape =
    Word(&["DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]);

/// Each strategy, what can be said to it beside [`COMMON`], and whether it has thresholds.
const STRATEGIES: [(&str, &[Options], bool); 9] = [
    ("SizeTiered", &[SIZE_TIERED], true),
    ("Leveled", &[LEVELED, SIZE_TIERED], true),
    ("TimeWindow", &[TIME_WINDOW, SIZE_TIERED], true),
    ("DateTiered", &[DATE_TIERED], true),
    ("Incremental", &[INCREMENTAL, SIZE_TIERED], true),
    ("Hybrid", &[INCREMENTAL, SIZE_TIERED], true),
    ("Unified", &[UNIFIED], false),
    ("InMemory", &[], false),
    ("Null", &[], false),
];

pub(crate) fn default() -> BTreeMap<String, String> {
    let class = format!("{COMPACTION}SizeTiered{STRATEGY}");
    map(&[("class", &class), ("max_threshold", "32"), ("min_threshold", "4")])
}

/// The options in their stored form: the class by its full name, thresholds spelled out.
///
/// # Errors
/// No or an unknown class, an option that it has not, a value out of its range.
pub(crate) fn checked(
    mut options: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, CatalogError> {
    let Some(class) = options.get("class") else {
        return configuration!("Missing sub-option 'class' for the 'compaction' option.");
    };
    let class = if class.contains('.') { class.clone() } else { format!("{COMPACTION}{class}") };
    let name = class.strip_prefix(COMPACTION).and_then(|class| class.strip_suffix(STRATEGY));
    let strategy = STRATEGIES.iter().find(|(strategy, ..)| Some(*strategy) == name);
    let Some((strategy, own, has_thresholds)) = strategy else {
        return configuration!("Unable to find compaction strategy class '{class}'");
    };
    let known = || own.iter().copied().chain([COMMON]).flatten();
    for (option, value) in options.iter().filter(|(option, _)| *option != "class") {
        let Some((_, shape)) = known().find(|(known, _)| known == option) else {
            return configuration!(
                "Properties specified [{option}] are not understood by {strategy}{STRATEGY}"
            );
        };
        check_value(option, value, *shape)?;
    }
    options.insert("class".to_string(), class);
    if *has_thresholds {
        for (option, value) in [("max_threshold", "32"), ("min_threshold", "4")] {
            options.entry(option.to_string()).or_insert_with(|| value.to_string());
        }
    }
    check_together(strategy, &options)?;
    Ok(options)
}

/// Builds the strategy, and drops it: CREATE and ALTER TABLE refuse what the strategy refuses. Tables that are loaded from disk are not
/// checked in this way, so that a bound that another version did not have never stops a start.
///
/// `options`: from [`checked`].
pub(crate) fn check_new_compaction(options: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    match strategy_from(options) {
        Ok(_) => Ok(()),
        Err(error) => configuration!("{error}"),
    }
}

/// What one option says of another.
fn check_together(strategy: &str, options: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    let number = |option: &str| options.get(option).and_then(|value| value.parse::<f64>().ok());
    if let (Some(min), Some(max)) = (number("min_threshold"), number("max_threshold"))
        && min > max
    {
        return configuration!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        );
    }
    if let (Some(low), Some(high)) = (number("bucket_low"), number("bucket_high"))
        && high <= low
    {
        return configuration!(
            "bucket_high value ({high}) is less than or equal to the bucket_low value ({low})"
        );
    }
    if let Some(goal) = number("space_amplification_goal")
        && goal <= 1.0
    {
        return configuration!(
            "space_amplification_goal value ({goal}) must be greater than 1.0 and less than or equal to 2.0"
        );
    }
    if strategy == "Unified" {
        let size = |option: &str, default: f64| options.get(option).map_or(Some(default), |text| bytes(text));
        let target = size("target_sstable_size", 1024.0 * MIB).unwrap_or(f64::MAX);
        if target < MIB {
            return configuration!(
                "target_sstable_size {} is not acceptable, size must be at least 1MiB",
                options["target_sstable_size"]
            );
        }
        let least_target = target * std::f64::consts::FRAC_1_SQRT_2;
        if let (Some(text), Some(min)) = (options.get("min_sstable_size"), size("min_sstable_size", 0.0))
            && min >= least_target
        {
            return configuration!(
                "Invalid configuration, min_sstable_size ({text}) should be less than the target size minimum: \
                 {least_target:.0} bytes"
            );
        }
    }
    Ok(())
}

/// Sub-options of the peers that nothing here reads, each with the value that asks for nothing.
const WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("cold_reads_to_omit", "0"),
    ("enable_optimized_twcs_queries", "true"),
    ("log_all", "false"),
    ("only_purge_repaired_tombstones", "false"),
    ("parallelize_output_shards", "true"),
    ("provide_overlapping_tombstones", "NONE"),
];

/// Sub-options in `options` that ask for something and change nothing.
pub(crate) fn without_effect(options: &BTreeMap<String, String>) -> impl Iterator<Item = &'static str> {
    WITHOUT_EFFECT.into_iter().filter_map(|(name, idle)| {
        let value = options.get(name)?;
        let is_zero = || idle == "0" && value.parse::<f64>().is_ok_and(|number| number == 0.0);
        (!value.eq_ignore_ascii_case(idle) && !is_zero()).then_some(name)
    })
}

/// What clients are told of a table that is stored and compacted as they asked, but should not be.
pub(crate) fn deprecation(options: &BTreeMap<String, String>) -> Option<&'static str> {
    options.get("class").filter(|class| class.ends_with("DateTieredCompactionStrategy")).map(
        |_| "DateTieredCompactionStrategy is deprecated. Please use TimeWindowCompactionStrategy instead",
    )
}

/// A table of time windows should not have more than so many.
const WINDOWS_MAX: u64 = 50;

/// What clients are told of a table whose data may come to lie in very many windows, each with SSTables of its own.
/// `ttl_s`: `default_time_to_live`.
pub(crate) fn too_many_windows(options: &BTreeMap<String, String>, ttl_s: u32) -> Option<String> {
    options.get("class").filter(|class| class.ends_with("TimeWindowCompactionStrategy"))?;
    if ttl_s == 0 {
        return Some(
            "TimeWindowCompactionStrategy without a default_time_to_live may come to have a lot of windows, each with \
             SSTables of its own; give rows a TTL when they are inserted (USING TTL)"
                .to_string(),
        );
    }
    let unit_s = match options.get("compaction_window_unit").map(|unit| unit.to_ascii_uppercase()).as_deref()
    {
        Some("MINUTES") => 60,
        Some("HOURS") => 3600,
        _ => 86_400,
    };
    let size = options.get("compaction_window_size").and_then(|size| size.parse().ok()).unwrap_or(1u64);
    let window_s = size.saturating_mul(unit_s).max(1);
    let windows = u64::from(ttl_s) / window_s;
    (windows > WINDOWS_MAX).then(|| {
        format!(
            "The setting of default_time_to_live={ttl_s} and compaction window={window_s}(s) can lead to {windows} windows, \
             which is larger than the recommended number of {WINDOWS_MAX}; choose a larger window"
        )
    })
}

fn check_value(option: &str, value: &str, shape: Shape) -> Result<(), CatalogError> {
    if let ("min_threshold" | "max_threshold", Ok(number)) = (option, value.parse::<i64>()) {
        if number <= 0 {
            return configuration!(
                "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
                 'enabled' to false instead."
            );
        }
        if number < 2 {
            let which = if option == "min_threshold" { "Min" } else { "Max" };
            return configuration!("{which} compaction threshold cannot be less than 2 (got {number})");
        }
    }
    let fail = |expected: String| {
        configuration!("{value} is not valid for compaction option '{option}': {expected}")
    };
    match shape {
        Boolean if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => Ok(()),
        Boolean => fail("it must be either 'true' or 'false'".to_string()),
        Integer(least) => match value.parse::<i64>() {
            Ok(number) if number >= least => Ok(()),
            _ => fail(format!("it must be an integer of at least {least}")),
        },
        Number(least, most, included) => match value.parse::<f64>() {
            Ok(number) if included && (least..=most).contains(&number) => Ok(()),
            Ok(number) if !included && number > least && number < most => Ok(()),
            _ if most == f64::MAX => fail(format!("it must be a number greater than {least}")),
            _ => fail(format!("it must be a number between {least} and {most}")),
        },
        Word(words) if words.contains(&value.to_ascii_uppercase().as_str()) => Ok(()),
        Word(words) => fail(format!("it must be one of {}", words.join(", "))),
        Size if bytes(value).is_some() => Ok(()),
        Size => fail("it must be a size, as in 100MiB".to_string()),
        Scaling if value.split(',').all(|part| is_scaling(part.trim())) => Ok(()),
        Scaling => fail("it must be a list of N, T and a number, L and a number, or a number".to_string()),
    }
}

/// So many bytes; `None` if it is no size.
fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" => 1024.0,
        "mib" => MIB,
        "gib" => 1024.0 * MIB,
        "tib" => 1024.0 * 1024.0 * MIB,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return None,
    };
    let number: f64 = digits.trim_end().parse().ok()?;
    (number >= 0.0 && number.is_finite()).then_some(number * unit)
}

fn is_scaling(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    match text.as_bytes().first() {
        Some(b'N') => text.len() == 1,
        Some(b'T' | b'L') => text[1..].parse::<u32>().is_ok_and(|fanout| fanout >= 2),
        _ => text.parse::<i32>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_knows_its_options() {
        for (class, option, value) in [
            ("SizeTiered", "bucket_low", "0.7"),
            ("SizeTiered", "enabled", "false"),
            ("Leveled", "sstable_size_in_mb", "320"),
            ("Leveled", "bucket_high", "2"),
            ("TimeWindow", "compaction_window_unit", "hours"),
            ("TimeWindow", "timestamp_resolution", "MILLISECONDS"),
            ("DateTiered", "max_sstable_age_days", "0.5"),
            ("Incremental", "space_amplification_goal", "1.5"),
            ("Hybrid", "sstable_size_in_mb", "1000"),
            ("Incremental", "overlap_threshold", "0.5"),
            ("Hybrid", "tombstone_collection", "when_short"),
            ("Hybrid", "disk_aware", "false"),
            ("Unified", "scaling_parameters", "T4, L10, N, -2"),
            ("Unified", "target_sstable_size", "1GiB"),
            ("Null", "tombstone_threshold", "0.3"),
        ] {
            let name = format!("{class}CompactionStrategy");
            let stored = checked(map(&[("class", &name), (option, value)])).unwrap();
            assert_eq!(stored["class"], format!("{COMPACTION}{name}"));
            assert_eq!(stored[option], value);
            assert_eq!(checked(stored.clone()), Ok(stored));
        }
        let leveled = checked(map(&[("class", "LeveledCompactionStrategy")])).unwrap();
        assert_eq!((leveled["min_threshold"].as_str(), leveled["max_threshold"].as_str()), ("4", "32"));
        assert_eq!(checked(default()), Ok(default()));
    }

    /// Values at and beyond every bound: a table that can be made has the strategy that it names.
    #[test]
    fn a_table_that_can_be_made_has_its_strategy() {
        let values = [
            "-1",
            "0",
            "0.001",
            "0.01",
            "0.5",
            "1",
            "1.5",
            "2",
            "3",
            "100",
            "101",
            "65536",
            "65537",
            "100000001",
            "1e300",
            "9223372036854775807",
            "true",
            "NONE",
            "hours",
            "DAYS",
            "SECONDS",
            "CASSANDRA",
            "TIERS",
            "T4, L10",
            "T99999999999",
            "-2147483648",
            "1GiB",
            "99999999999TiB",
            "NaN",
            "inf",
        ];
        let (mut made, mut refused) = (0, 0);
        for (strategy, own, _) in STRATEGIES {
            for (option, _) in own.iter().copied().chain([COMMON]).flatten() {
                for value in values {
                    let class = format!("{strategy}{STRATEGY}");
                    let Ok(stored) = checked(map(&[("class", &class), (option, value)])) else { continue };
                    match check_new_compaction(&stored) {
                        Ok(()) => made += 1,
                        Err(error) => {
                            refused += 1;
                            assert!(error.to_string().contains(option), "{class} {option}: {error}");
                        }
                    }
                }
            }
        }
        assert!(made > 500 && refused > 10, "{made} made, {refused} refused by the strategy");
        let refuses = |class: &str, option: &str, value: &str| {
            let class = format!("{class}CompactionStrategy");
            check_new_compaction(&checked(map(&[("class", &class), (option, value)])).unwrap())
                .unwrap_err()
                .to_string()
        };
        assert!(
            refuses("Leveled", "fanout_size", "1")
                .contains("1 is not valid for compaction option 'fanout_size'")
        );
        assert!(refuses("Unified", "survival_factor", "101").contains("survival_factor"));
        assert!(refuses("Unified", "base_shard_count", "65537").contains("base_shard_count"));
        assert!(
            refuses("TimeWindow", "compaction_window_size", "100000001").contains("compaction_window_size")
        );
    }

    #[test]
    fn sub_options_that_nothing_reads_are_named() {
        let of = |class: &str, option: &str, value: &str| {
            let class = format!("{class}CompactionStrategy");
            without_effect(&checked(map(&[("class", &class), (option, value)])).unwrap()).collect::<Vec<_>>()
        };
        for (class, option, idle, value) in [
            ("SizeTiered", "log_all", "FALSE", "true"),
            ("SizeTiered", "only_purge_repaired_tombstones", "false", "true"),
            ("Leveled", "provide_overlapping_tombstones", "none", "ROW"),
            ("SizeTiered", "cold_reads_to_omit", "0.0", "0.05"),
            ("TimeWindow", "enable_optimized_twcs_queries", "true", "false"),
            ("Unified", "parallelize_output_shards", "true", "false"),
        ] {
            assert_eq!(of(class, option, idle), [""; 0], "{option} {idle}");
            assert_eq!(of(class, option, value), [option], "{option} {value}");
        }
        assert_eq!(of("SizeTiered", "bucket_low", "0.3"), [""; 0]);
    }

    #[test]
    fn date_tiered_is_deprecated() {
        let of = |class: &str| deprecation(&checked(map(&[("class", class)])).unwrap());
        assert!(of("DateTieredCompactionStrategy").is_some_and(|said| said.contains("TimeWindow")));
        assert_eq!(of("TimeWindowCompactionStrategy"), None);
    }

    #[test]
    fn many_windows_are_warned_of() {
        let of = |class: &str, size: &str, ttl_s: u32| {
            let unit = ("compaction_window_unit", "hours");
            let stored = checked(map(&[("class", class), unit, ("compaction_window_size", size)])).unwrap();
            too_many_windows(&stored, ttl_s)
        };
        let twcs = "TimeWindowCompactionStrategy";
        assert!(of(twcs, "1", 0).is_some_and(|said| said.contains("without a default_time_to_live")));
        assert_eq!(of(twcs, "1", 50 * 3600), None);
        let said = of(twcs, "2", 102 * 3600).expect("51 windows");
        assert!(said.contains("window=7200(s) can lead to 51 windows"), "{said}");
        assert_eq!(too_many_windows(&default(), 0), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |class: &str, options: &[(&str, &str)]| {
            let mut all = map(options);
            all.insert("class".to_string(), format!("{class}CompactionStrategy"));
            checked(all).unwrap_err().to_string()
        };
        assert!(error("No", &[]).contains("class 'org.apache.cassandra.db.compaction.NoCompactionStrategy'"));
        assert!(error("Leveled", &[("colour", "1")]).contains("[colour] are not understood by LeveledComp"));
        assert!(error("SizeTiered", &[("fanout_size", "1")]).contains("not understood by SizeTiered"));
        assert!(error("SizeTiered", &[("bucket_low", "1")]).contains("between 0 and 1"));
        assert!(error("SizeTiered", &[("bucket_low", "NaN")]).contains("between 0 and 1"));
        assert!(error("SizeTiered", &[("min_threshold", "1")]).contains("cannot be less than 2 (got 1)"));
        assert!(error("SizeTiered", &[("max_threshold", "0")]).contains("'enabled' to false instead"));
        assert!(error("SizeTiered", &[("min_threshold", "x")]).contains("at least 2"));
        assert!(error("SizeTiered", &[("min_threshold", "33")]).contains(
            "Min compaction threshold (got 33) cannot be greater than max compaction threshold (got 32)"
        ));
        assert!(error("SizeTiered", &[("bucketing", "MINE")]).contains("SCYLLADB, CASSANDRA"));
        assert!(error("Incremental", &[("space_amplification_goal", "1.0")]).contains("greater than 1.0"));
        assert!(error("Unified", &[("target_sstable_size", "1023KiB")]).contains("at least 1MiB"));
        assert!(
            error("Unified", &[("min_sstable_size", "800MiB")]).contains("should be less than the target")
        );
        let small = [("target_sstable_size", "10MiB"), ("min_sstable_size", "8MiB")];
        assert!(
            error("Unified", &small).contains("(8MiB) should be less than the target size minimum: 7414")
        );
        assert!(error("TimeWindow", &[("compaction_window_unit", "YEARS")]).contains("MINUTES, HOURS, DAYS"));
        assert!(error("Unified", &[("target_sstable_size", "big")]).contains("as in 100MiB"));
        assert!(error("Unified", &[("scaling_parameters", "T1")]).contains("a list of N, T"));
        assert!(error("Hybrid", &[("tombstone_collection", "no")]).contains("FRAGMENTS, WHEN_SHORT, TIERS"));
        assert!(error("Hybrid", &[("overlap_threshold", "-1")]).contains("greater than 0"));
        assert!(error("Null", &[("enabled", "1")]).contains("'true' or 'false'"));
        assert!(checked(map(&[("class", "com.example.Mine")])).is_err());
    }
}
