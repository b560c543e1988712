//! Options that Cassandra 4.1 does not have: ScyllaDB's, and those of earlier and later versions.
//!
//! None of them has an effect here. They are checked, kept as the CQL of their values, stored, and printed by
//! DESCRIBE, so that a schema of either database is preserved. Sources: ScyllaDB's CQL documentation;
//! Cassandra 3.11, 5.0 and trunk, `schema/TableParams.java`.

use std::collections::BTreeMap;

use crate::error::{CatalogError, configuration};

/// The value of an option in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A string, number or boolean.
    Text(String),
    Map(BTreeMap<String, String>),
}

#[derive(Clone, Copy)]
enum Shape {
    Boolean,
    /// An integer of at least 0.
    Count,
    /// A number from 0 to 1.
    Chance,
    /// A number of at least 0, with an optional fraction.
    Amount,
    Word(&'static [&'static str]),
    Text,
    /// A map with these allowed keys.
    Map(&'static [(&'static str, Shape)]),
    AnyMap,
    Either(&'static Shape, &'static Shape),
}

use Shape::{Amount, AnyMap, Boolean, Chance, Count, Either, Map, Text, Word};

type Known = &'static [(&'static str, Shape)];

const OF_TABLES: Known = &[
    // ScyllaDB
    ("cdc", CDC),
    ("in_memory", Boolean),
    ("paxos_grace_seconds", Count),
    ("per_partition_rate_limit", Map(&[("max_reads_per_second", Count), ("max_writes_per_second", Count)])),
    ("synchronous_updates", Boolean),
    ("tablets", Map(TABLETS_OF_TABLE)),
    ("tombstone_gc", Map(TOMBSTONE_GC)),
    // Cassandra before 4.0
    ("dclocal_read_repair_chance", Chance),
    ("read_repair_chance", Chance),
    // Cassandra since 5.0
    ("allow_auto_snapshot", Boolean),
    ("auto_repair", AnyMap),
    ("fast_path", Either(&AnyMap, &Text)),
    ("incremental_backups", Boolean),
    ("transactional_migration_from", Text),
    ("transactional_mode", Text),
];
const OF_KEYSPACES: Known = &[
    // ScyllaDB
    ("consistency", Text),
    ("storage", AnyMap),
    ("tablets", Map(&[("enabled", Boolean), ("initial", Count)])),
    // Cassandra since 5.1
    ("fast_path", Either(&AnyMap, &Text)),
];
const CDC: Shape = Map(&[
    ("enabled", Boolean),
    ("preimage", Word(&["true", "false", "full"])),
    ("postimage", Boolean),
    ("delta", Word(&["keys", "full"])),
    ("ttl", Count),
]);
const TOMBSTONE_GC: Known = &[
    ("mode", Word(&["timeout", "disabled", "immediate", "repair"])),
    ("propagation_delay_in_seconds", Count),
];
const TABLETS_OF_TABLE: Known = &[
    ("expected_data_size_in_gb", Amount),
    ("max_tablet_count", Count),
    ("min_per_shard_tablet_count", Amount),
    ("min_tablet_count", Count),
    ("pow2_count", Boolean),
];

pub fn is_of_tables(name: &str) -> bool {
    OF_TABLES.iter().any(|(known, _)| *known == name)
}

pub fn is_of_keyspaces(name: &str) -> bool {
    OF_KEYSPACES.iter().any(|(known, _)| *known == name)
}

/// Returns the value of a table's option as CQL.
///
/// # Errors
/// The option does not exist, or the value is not valid.
pub fn table_option(name: &str, value: &OptionValue) -> Result<String, CatalogError> {
    cql_of(OF_TABLES, name, value)
}

/// Returns the value of a keyspace's option as CQL.
///
/// # Errors
/// The same as [`table_option`].
pub fn keyspace_option(name: &str, value: &OptionValue) -> Result<String, CatalogError> {
    cql_of(OF_KEYSPACES, name, value)
}

fn cql_of(known: Known, name: &str, value: &OptionValue) -> Result<String, CatalogError> {
    let Some((_, shape)) = known.iter().find(|(known, _)| *known == name) else {
        return configuration!("Unknown property '{name}'");
    };
    written(*shape, name, value)
}

fn written(shape: Shape, name: &str, value: &OptionValue) -> Result<String, CatalogError> {
    match (shape, value) {
        (Either(shape, _), OptionValue::Map(_)) | (Either(_, shape), OptionValue::Text(_)) => {
            written(*shape, name, value)
        }
        (Map(keys), OptionValue::Map(entries)) => {
            for (key, value) in entries {
                let Some((_, shape)) = keys.iter().find(|(known, _)| known == key) else {
                    let keys: Vec<_> = keys.iter().map(|(known, _)| *known).collect();
                    return configuration!(
                        "Unknown sub-option '{key}' of '{name}'; there are {}",
                        keys.join(", ")
                    );
                };
                written(*shape, &format!("{name}['{key}']"), &OptionValue::Text(value.clone()))?;
            }
            Ok(map_literal(entries))
        }
        (AnyMap, OptionValue::Map(entries)) => Ok(map_literal(entries)),
        (Map(_) | AnyMap, OptionValue::Text(_)) => {
            configuration!("Invalid value for property '{name}'. It should be a map.")
        }
        (_, OptionValue::Map(_)) => {
            configuration!("Invalid value for property '{name}'. It should not be a map.")
        }
        (shape, OptionValue::Text(text)) => scalar(shape, name, text),
    }
}

fn scalar(shape: Shape, name: &str, text: &str) -> Result<String, CatalogError> {
    let fail = |expected: String| configuration!("Invalid value {text} for '{name}': it must be {expected}");
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match shape {
        Boolean => match text.to_ascii_lowercase().as_str() {
            word @ ("true" | "false") => Ok(word.to_string()),
            _ => fail("true or false".to_string()),
        },
        Count => match text.parse::<u32>() {
            Ok(count) if count <= i32::MAX as u32 => Ok(count.to_string()),
            _ => fail(format!("a number from 0 to {}", i32::MAX)),
        },
        Chance | Amount => match number {
            Some(number) if number >= 0.0 && (number <= 1.0 || matches!(shape, Amount)) => {
                Ok(format!("{number:?}"))
            }
            _ if matches!(shape, Amount) => fail("a number from 0 on".to_string()),
            _ => fail("a number from 0 to 1".to_string()),
        },
        Word(words) => match text.to_ascii_lowercase() {
            word if words.contains(&word.as_str()) => Ok(quoted(&word)),
            _ => fail(format!("one of {}", words.join(", "))),
        },
        _ => Ok(quoted(text)),
    }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `{'a': 'b', …}`
pub(crate) fn map_literal(entries: &BTreeMap<String, String>) -> String {
    let entries: Vec<_> =
        entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::text_map::map;

    fn text(value: &str) -> OptionValue {
        OptionValue::Text(value.to_string())
    }

    #[test]
    fn values_become_cql() {
        for (name, value, expect) in [
            ("synchronous_updates", text("TRUE"), "true"),
            ("paxos_grace_seconds", text("864000"), "864000"),
            ("read_repair_chance", text("0.1"), "0.1"),
            ("read_repair_chance", text("0"), "0.0"),
            ("tombstone_gc", OptionValue::Map(map(&[("mode", "repair")])), "{'mode': 'repair'}"),
            (
                "cdc",
                OptionValue::Map(map(&[("enabled", "true"), ("delta", "keys")])),
                "{'delta': 'keys', 'enabled': 'true'}",
            ),
            ("fast_path", text("it's"), "'it''s'"),
            ("fast_path", OptionValue::Map(map(&[("size", "3")])), "{'size': '3'}"),
        ] {
            assert_eq!(table_option(name, &value).as_deref(), Ok(expect));
        }
        let tablets = OptionValue::Map(map(&[("enabled", "false")]));
        assert_eq!(keyspace_option("tablets", &tablets).as_deref(), Ok("{'enabled': 'false'}"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |name: &str, value: OptionValue| table_option(name, &value).unwrap_err().to_string();
        assert_eq!(error("colour", text("1")), "Unknown property 'colour'");
        assert!(error("in_memory", text("2")).contains("true or false"));
        assert!(error("in_memory", OptionValue::Map(map(&[]))).contains("should not be a map"));
        assert!(error("paxos_grace_seconds", text("-1")).contains("from 0 to 2147483647"));
        assert!(error("read_repair_chance", text("NaN")).contains("from 0 to 1"));
        assert!(error("tombstone_gc", text("repair")).contains("It should be a map"));
        let gc = |key: &str, value: &str| error("tombstone_gc", OptionValue::Map(map(&[(key, value)])));
        assert!(gc("mode", "later").contains("for 'tombstone_gc['mode']': it must be one of timeout"));
        assert!(gc("when", "later").contains("Unknown sub-option 'when' of 'tombstone_gc'"));
    }
}
