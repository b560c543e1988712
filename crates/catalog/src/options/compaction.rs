//! The table option `compaction`: its stored form, and warnings for clients.
//!
//! Names, bounds and defaults of its sub-options are in `compaction::spec`.

use std::collections::BTreeMap;

use ::compaction::{StrategySpec, check_options};

use crate::error::{CatalogError, configuration};
use crate::options::text_map::map;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

pub(crate) fn default() -> BTreeMap<String, String> {
    let class = format!("{PACKAGE}SizeTieredCompactionStrategy");
    map(&[("class", &class), ("max_threshold", "32"), ("min_threshold", "4")])
}

/// Converts the options to their stored form: the class with its full name, and explicit thresholds.
///
/// Sub-options are not checked, so that a table whose sub-options were stored by another version can still be
/// altered. New options are checked by [`check_new_compaction`].
///
/// # Errors
/// There is no class, or it is unknown.
pub(crate) fn stored(
    mut options: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, CatalogError> {
    let Some(class) = options.get("class") else {
        return configuration!("Missing sub-option 'class' for the 'compaction' option");
    };
    let class = if class.contains('.') { class.clone() } else { format!("{PACKAGE}{class}") };
    let Some(strategy) = class.strip_prefix(PACKAGE).and_then(StrategySpec::of_class) else {
        return configuration!("Unable to find compaction strategy class '{class}'");
    };
    options.insert("class".to_string(), class);
    let thresholds = ["max_threshold", "min_threshold"].iter().filter(|_| strategy.has_thresholds);
    for spec in thresholds.filter_map(|name| strategy.option(name)) {
        options.entry(spec.name.to_string()).or_insert_with(|| spec.default.to_string());
    }
    Ok(options)
}

/// Refuses options that the strategy refuses, in CREATE and ALTER TABLE. Tables loaded from disk are not
/// checked, so that a bound which another version did not have never prevents a start.
pub(crate) fn check_new_compaction(options: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    match check_options(options) {
        Ok(()) => Ok(()),
        Err(error) => configuration!("{error}"),
    }
}

/// The warning for a deprecated strategy. The table is still stored and compacted as requested.
pub(crate) fn deprecation(options: &BTreeMap<String, String>) -> Option<&'static str> {
    options.get("class").filter(|class| class.ends_with("DateTieredCompactionStrategy")).map(
        |_| "DateTieredCompactionStrategy is deprecated. Please use TimeWindowCompactionStrategy instead",
    )
}

/// Recommended maximum number of windows of a table.
const WINDOWS_MAX: u64 = 50;

/// The warning for a table whose data may spread over very many windows, each with its own SSTables. `ttl_s`
/// is `default_time_to_live` in seconds.
pub(crate) fn too_many_windows(options: &BTreeMap<String, String>, ttl_s: u32) -> Option<String> {
    options.get("class").filter(|class| class.ends_with("TimeWindowCompactionStrategy"))?;
    if ttl_s == 0 {
        return Some(
            "TimeWindowCompactionStrategy without a default_time_to_live may get many windows, each with SSTables of its own; \
             insert rows with a TTL (USING TTL)"
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

#[cfg(test)]
mod tests {
    use ::compaction::STRATEGIES;

    use super::*;

    fn of(class: &str, options: &[(&str, &str)]) -> Result<BTreeMap<String, String>, CatalogError> {
        let mut all = map(options);
        all.insert("class".to_string(), class.to_string());
        let stored = stored(all)?;
        check_new_compaction(&stored)?;
        Ok(stored)
    }

    #[test]
    fn every_strategy_is_stored_by_its_full_name() {
        for strategy in STRATEGIES {
            let options = of(&strategy.class(), &[("tombstone_threshold", "0.3")]).unwrap();
            assert_eq!(options["class"], format!("{PACKAGE}{}", strategy.class()));
            assert_eq!(options["tombstone_threshold"], "0.3");
            assert_eq!(options.contains_key("min_threshold"), strategy.has_thresholds);
            assert_eq!(stored(options.clone()), Ok(options));
        }
        assert_eq!(stored(default()), Ok(default()));
        assert_eq!(of("SizeTieredCompactionStrategy", &[]), Ok(default()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |class: &str, options: &[(&str, &str)]| of(class, options).unwrap_err().to_string();
        assert!(error("NoCompactionStrategy", &[]).contains("class 'org.apache.cassandra.db.compaction.NoC"));
        assert!(error("com.example.SizeTieredCompactionStrategy", &[]).contains("Unable to find"));
        assert!(stored(map(&[])).unwrap_err().to_string().contains("Missing sub-option 'class'"));
        let colour = error("LeveledCompactionStrategy", &[("colour", "1")]);
        assert!(colour.contains("[colour] are not understood by LeveledCompactionStrategy"), "{colour}");
        let fanout = error("LeveledCompactionStrategy", &[("fanout_size", "1")]);
        assert!(fanout.contains("1 is not valid for compaction option 'fanout_size'"), "{fanout}");
    }

    #[test]
    fn sub_options_of_another_version_do_not_stop_a_start() {
        let options = map(&[("class", "LeveledCompactionStrategy"), ("fanout_size", "1"), ("colour", "1")]);
        assert_eq!(stored(options).unwrap()["fanout_size"], "1");
    }

    #[test]
    fn date_tiered_is_deprecated() {
        let of = |class: &str| deprecation(&stored(map(&[("class", class)])).unwrap());
        assert!(of("DateTieredCompactionStrategy").is_some_and(|said| said.contains("TimeWindow")));
        assert_eq!(of("TimeWindowCompactionStrategy"), None);
    }

    #[test]
    fn many_windows_are_warned_of() {
        let of = |class: &str, size: &str, ttl_s: u32| {
            let unit = ("compaction_window_unit", "hours");
            let options = stored(map(&[("class", class), unit, ("compaction_window_size", size)])).unwrap();
            too_many_windows(&options, ttl_s)
        };
        let twcs = "TimeWindowCompactionStrategy";
        assert!(of(twcs, "1", 0).is_some_and(|said| said.contains("without a default_time_to_live")));
        assert_eq!(of(twcs, "1", 50 * 3600), None);
        let said = of(twcs, "2", 102 * 3600).expect("51 windows");
        assert!(said.contains("window=7200(s) can lead to 51 windows"), "{said}");
        assert_eq!(too_many_windows(&default(), 0), None);
    }
}
