//! Tests that the table of options, its users, and the documentation agree.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::option_values::Options;
use crate::{
    COMMON, Incremental, IncrementalOptions, OptionsError, STRATEGIES, SizeTiered, check_options,
    strategy_from,
};

fn with(class: &str, options: &[(&str, &str)]) -> BTreeMap<String, String> {
    let class = [("class", class)];
    class.iter().chain(options).map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Tests values at and beyond every bound: the strategy accepts every value that the table of options allows,
/// except for options that exclude each other.
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
        "4294967296",
        "1e300",
        "9223372036854775807",
        "9223372036854775808",
        "true",
        "NONE",
        "hours",
        "DAYS",
        "SECONDS",
        "CASSANDRA",
        "TIERS",
        "T4, L10",
        "T1",
        "T99999999999",
        "-2147483648",
        "1GiB",
        "99999999999TiB",
        "NaN",
        "inf",
    ];
    let (mut made, mut refused) = (0, 0);
    for strategy in STRATEGIES {
        for option in strategy.options() {
            for value in values {
                if option.check(value).is_err() {
                    refused += 1;
                    continue;
                }
                match strategy_from(&with(&strategy.class(), &[(option.name, value)])) {
                    Ok(_) => made += 1,
                    Err(OptionsError::Refused(_)) => refused += 1,
                    Err(error) => panic!("{} {} {value}: {error}", strategy.name, option.name),
                }
            }
        }
    }
    assert!(made > 500 && refused > 500, "{made} made, {refused} refused");
}

#[test]
fn bounds_are_those_of_the_strategies() {
    let refused = |class: &str, option: &str, value: &str| {
        check_options(&with(&format!("{class}CompactionStrategy"), &[(option, value)]))
            .unwrap_err()
            .to_string()
    };
    for (class, option, value, expect) in [
        ("Leveled", "fanout_size", "1", "an integer from 2 to 1048576"),
        ("Unified", "survival_factor", "101", "a number from 0.01 to 100"),
        ("Unified", "base_shard_count", "65537", "an integer from 1 to 65536"),
        ("Unified", "scaling_parameters", "T1", "a list of N, T and a number from 2 on"),
        ("Unified", "target_sstable_size", "big", "a size, as in 100MiB"),
        ("Unified", "target_sstable_size", "1023KiB", "at least 1MiB"),
        ("Unified", "min_sstable_size", "800MiB", "should be less than the target size minimum: 759250"),
        ("TimeWindow", "compaction_window_size", "100000001", "an integer from 1 to 100000000"),
        ("TimeWindow", "compaction_window_unit", "YEARS", "one of MINUTES, HOURS, DAYS"),
        ("Incremental", "space_amplification_goal", "1.0", "greater than 1 and less than or equal to 2"),
        ("Hybrid", "overlap_threshold", "-1", "a number of at least 0"),
        ("Hybrid", "tombstone_collection", "no", "one of FRAGMENTS, WHEN_SHORT, TIERS"),
        (
            "SizeTiered",
            "fanout_size",
            "10",
            "[fanout_size] are not understood by SizeTieredCompactionStrategy",
        ),
        ("TimeWindow", "enable_optimized_twcs_queries", "false", "leave the option out or set it to 'true'"),
        ("Leveled", "cold_reads_to_omit", "0.1", "[cold_reads_to_omit] are not understood by Leveled"),
        ("Null", "enabled", "1", "either 'true' or 'false'"),
    ] {
        let said = refused(class, option, value);
        assert!(said.contains(expect), "{class} {option} {value}: {said}");
    }
    let small = [("target_sstable_size", "10MiB"), ("min_sstable_size", "8MiB")];
    let said = check_options(&with("UnifiedCompactionStrategy", &small)).unwrap_err().to_string();
    assert!(said.contains("(8MiB) should be less than the target size minimum: 7414"), "{said}");
}

#[test]
fn a_default_that_is_set_changes_nothing() {
    for strategy in STRATEGIES {
        let options = strategy.options();
        let set = options.iter().filter(|option| !option.default.is_empty());
        let set: Vec<_> = set.map(|option| (option.name, option.default)).collect();
        assert_eq!(check_options(&with(&strategy.class(), &set)), Ok(()));
    }
    let none = with("SizeTieredCompactionStrategy", &[]);
    let options = Options::new(&none).unwrap();
    assert_eq!(options.tiering().unwrap(), SizeTiered::default().tiering);
    assert_eq!(options.tombstones().unwrap(), SizeTiered::default().tombstones);
    let none = with("IncrementalCompactionStrategy", &[]);
    let read = IncrementalOptions::from_options(&Options::new(&none).unwrap()).unwrap();
    assert_eq!(read, IncrementalOptions::default());
    assert_eq!(*Incremental::new(read).options(), IncrementalOptions::default());
}

/// The options of every strategy in the form of `docs/compaction.md`.
fn documentation() -> String {
    let mut text = String::new();
    let mut table = |title: &str, options: &[&crate::OptionSpec]| {
        let _ = write!(text, "\n{title}\n\n| option | default | |\n|---|---|---|\n");
        for option in options {
            let default = if option.default.is_empty() { "none" } else { option.default };
            let _ = writeln!(text, "| `{}` | {default} | {} |", option.name, option.help);
        }
    };
    let common: Vec<_> = COMMON.iter().collect();
    table("**Every strategy**", &common);
    for strategy in STRATEGIES.iter().filter(|strategy| strategy.name != "Hybrid") {
        let mut options = strategy.options();
        options.retain(|option| COMMON.iter().all(|common| common.name != option.name));
        if !options.is_empty() {
            table(&format!("**`{}`**", strategy.class()), &options);
        }
    }
    text.push('\n');
    text
}

#[test]
fn the_documentation_has_every_option() {
    let page = include_str!("../../../../docs/compaction.md");
    let begin = "<!-- options: from crates/compaction/src/spec.rs -->\n";
    let (_, rest) = page.split_once(begin).expect("docs/compaction.md has the begin of the tables");
    let (found, _) = rest.split_once("<!-- options end -->").expect("and their end");
    let expect = documentation();
    assert!(found == expect, "docs/compaction.md: the tables of options are to be:\n{expect}");
}
