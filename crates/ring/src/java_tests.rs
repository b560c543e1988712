//! Compares this crate with the Java classes that call it, as text.

use std::collections::BTreeSet;

use compaction::spec::StrategySpec;

use crate::CALLS_VERSION;

const NATIVE_LIBRARY: &str = include_str!("../../../cassandra/src/main/java/io/messina/NativeLibrary.java");
const CALLS: &str = include_str!("jni_calls.rs");

/// Each Java class of a strategy, with its source.
const STRATEGIES: &[(&str, &str)] = &[
    (
        "IncrementalCompactionStrategy",
        include_str!("../../../cassandra/src/main/java/io/messina/IncrementalCompactionStrategy.java"),
    ),
    (
        "SizeTieredCompactionStrategy",
        include_str!("../../../cassandra/src/main/java/io/messina/SizeTieredCompactionStrategy.java"),
    ),
    (
        "LeveledCompactionStrategy",
        include_str!("../../../cassandra/src/main/java/io/messina/LeveledCompactionStrategy.java"),
    ),
    (
        "TimeWindowCompactionStrategy",
        include_str!("../../../cassandra/src/main/java/io/messina/TimeWindowCompactionStrategy.java"),
    ),
    (
        "UnifiedCompactionStrategy",
        include_str!("../../../cassandra/src/main/java/io/messina/UnifiedCompactionStrategy.java"),
    ),
];

/// The words after each `before`, up to the next `(`.
fn names<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
    let rest = text.split(before).skip(1).filter_map(|rest| rest.split('(').next());
    rest.map(|name| name.split('<').next().unwrap_or(name)).collect()
}

#[test]
fn java_declares_the_functions_that_are_exported() {
    let declared: BTreeSet<&str> = NATIVE_LIBRARY
        .split("static native ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next()?.split(' ').nth(1))
        .collect();
    assert!(declared.len() > 10, "{declared:?}");
    assert_eq!(declared, names(CALLS, "fn Java_io_messina_NativeLibrary_"));
    assert!(NATIVE_LIBRARY.contains(&format!("int CALLS_VERSION = {CALLS_VERSION};")));
}

#[test]
fn each_java_class_is_a_strategy_with_the_same_thresholds() {
    for (class, source) in STRATEGIES {
        let strategy = StrategySpec::of_class(class).expect(class);
        let has_thresholds = format!("validate({class}.class, {}, options)", strategy.has_thresholds);
        assert!(source.contains(&has_thresholds), "{class}: expected {has_thresholds}");
        assert!(source.contains(&format!("super(cfs, options, {})", strategy.has_thresholds)), "{class}");
    }
}
