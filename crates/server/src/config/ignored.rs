//! Options of Cassandra and ScyllaDB that have no effect here. They are accepted, so that a file written for
//! Cassandra or ScyllaDB works, and those that are set are logged with a warning and their lines.

mod names;

use super::index::Word;
use names::{NOT_BUILT, OTHER_DESIGN, SINGLE_NODE};

/// Why an option has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It concerns other nodes.
    SingleNode,
    /// Messina does this without an option, or has no such part.
    OtherDesign,
    /// The feature is not built.
    NotBuilt,
}

impl Why {
    const ALL: [(Self, &'static str); 3] =
        [(Self::SingleNode, SINGLE_NODE), (Self::OtherDesign, OTHER_DESIGN), (Self::NotBuilt, NOT_BUILT)];

    /// The word for it in the index.
    pub fn word(self) -> Word {
        match self {
            Self::SingleNode | Self::OtherDesign => Word::NoMeaning,
            Self::NotBuilt => Word::NotBuilt,
        }
    }

    /// The remark in the index.
    pub fn remark(self) -> &'static str {
        match self {
            Self::SingleNode => "about other nodes",
            Self::OtherDesign => "a part that Messina does not have, or a size that it chooses itself",
            Self::NotBuilt => "",
        }
    }

    /// The reason, for the log.
    pub fn text(self) -> &'static str {
        match self {
            Self::SingleNode => "no meaning on one node, so without effect",
            Self::OtherDesign => "no meaning on one node (Messina has no such part), so without effect",
            Self::NotBuilt => "not built yet, so without effect",
        }
    }
}

/// Why an option has no effect; `None`: unknown option. A spelling with a unit counts as the option.
pub fn why(name: &str) -> Option<Why> {
    let top = name.split('.').next().unwrap_or(name);
    [top, without_unit(top)].into_iter().find_map(|name| {
        let has = |names: &str| names.split_whitespace().any(|known| known == name);
        Why::ALL.iter().find(|(_, names)| has(names)).map(|(why, _)| *why)
    })
}

/// Whether `value` requests a feature that is not built.
pub fn is_missed(name: &str, value: &str) -> bool {
    if why(name) != Some(Why::NotBuilt) {
        return false;
    }
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => !ON_BY_DEFAULT.contains(&name),
        "false" | "no" | "off" => ON_BY_DEFAULT.contains(&name),
        value => name.ends_with("_fail_threshold") && !name.contains('.') && value != "-1",
    }
}

/// The value that an option without effect must have because any other would give a file's data another
/// meaning.
pub fn expected(name: &str, value: &str) -> Option<&'static str> {
    const PARTITIONER: &str = "Murmur3Partitioner";
    let is_ours = value.trim().rsplit('.').next() == Some(PARTITIONER);
    (name == "partitioner" && !is_ours).then_some(PARTITIONER)
}

/// Options of [`NOT_BUILT`] whose default in Cassandra or ScyllaDB is `true`.
const ON_BY_DEFAULT: &[&str] = &[
    "allow_filtering_enabled",
    "alter_table_enabled",
    "autocompaction_on_startup_enabled",
    "client_request_size_metrics_enabled",
    "cql_duplicate_bind_variable_names_refer_to_same_variable",
    "default_secondary_index_enabled",
    "denylist_range_reads_enabled",
    "denylist_reads_enabled",
    "denylist_writes_enabled",
    "drop_keyspace_enabled",
    "drop_truncate_table_enabled",
    "enable_commitlog",
    "enable_cql_config_updates",
    "enable_node_aggregated_table_metrics",
    "enable_shard_aware_drivers",
    "enable_user_defined_functions_threads",
    "group_by_enabled",
    "intersect_filtering_query_enabled",
    "large_data_cql_warnings",
    "live_updatable_config_params_changeable_via_cql",
    "logstor_format_on_startup",
    "native_transport_allow_older_protocols",
    "non_partition_restricted_index_query_enabled",
    "read_before_write_list_operations_enabled",
    "relaxed_dml_ttl_enforcement",
    "restrict_future_timestamp",
    "rpc_keepalive",
    "secondary_indexes_enabled",
    "sstable_compression_dictionaries_enable_writing",
    "start_native_transport",
    "strict_allow_filtering",
    "strict_is_not_null_in_views",
    "top_partitions_enabled",
    "uncompressed_tables_enabled",
    "user_defined_functions_threads_enabled",
    "user_timestamps_enabled",
    "vector_type_enabled",
    "view_building",
    "zero_ttl_on_twcs_enabled",
    "zero_ttl_on_twcs_warned",
];

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| name)
}

/// All names, with the reason why they have no effect.
pub fn all() -> impl Iterator<Item = (&'static str, Why)> {
    Why::ALL.into_iter().flat_map(|(why, names)| names.split_whitespace().map(move |name| (name, why)))
}

fn without_unit(name: &str) -> &str {
    const UNITS: [&str; 14] = [
        "_in_ms",
        "_in_mb",
        "_in_kb",
        "_in_sec",
        "_in_seconds",
        "_in_s",
        "_in_bytes",
        "_mb_per_sec",
        "_megabits_per_sec",
        "_bytes",
        "_seconds",
        "_mb",
        "_kb",
        "_ms",
    ];
    UNITS.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;

    #[test]
    fn known_names_are_found_in_every_spelling() {
        let check = |name: &str, expected: Option<Why>| assert_eq!(why(name), expected, "{name}");
        check("num_tokens", Some(Why::SingleNode));
        check("max_hint_window_in_ms", Some(Why::SingleNode));
        check("server_encryption_options.internode_encryption", Some(Why::SingleNode));
        check("compaction_tombstone_warning_threshold", Some(Why::NotBuilt));
        check("memtable_heap_space_in_mb", Some(Why::OtherDesign));
        check("nmu_tokens", None);
        check("native_transport_port", None);
    }

    #[test]
    fn a_value_that_asks_for_what_is_not_built_is_missed() {
        for (name, value, expected) in [
            ("cdc_enabled", "true", true),
            ("cdc_enabled", "false", false),
            ("audit_logging_options.enabled", "true", true),
            ("drop_keyspace_enabled", "false", true),
            ("drop_keyspace_enabled", "true", false),
            ("start_native_transport", "false", true),
            ("tables_fail_threshold", "100", true),
            ("tables_fail_threshold", "-1", false),
            ("replica_filtering_protection.cached_rows_fail_threshold", "32000", false),
            ("hinted_handoff_enabled", "true", false),
        ] {
            assert_eq!(is_missed(name, value), expected, "{name}: {value}");
        }
        for name in ON_BY_DEFAULT {
            assert_eq!(why(name), Some(Why::NotBuilt), "{name}");
        }
    }

    #[test]
    fn no_option_is_here_and_in_the_table_or_here_twice() {
        let both: Vec<&str> = names().filter(|name| options::find(name).is_some()).collect();
        assert_eq!(both, Vec::<&str>::new());
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
