//! The options of a table that are not in its schema, and the bounds of those that are.
//!
//! [`model::TableOptions`] contains the options that storage uses for every write and read. The others
//! (compaction, caching, read repair, …) are kept here, with Cassandra 4.1's names, defaults and stored forms
//! (source: `schema/TableParams.java`, `CachingParams.java`). Options that Cassandra 4.1 does not have are
//! kept by name.

use std::collections::BTreeMap;

use model::{ChangeLogOptions, Codec, Compression, CqlType, TableOptions};

use crate::error::{CatalogError, configuration};
use crate::options::change_log;
use crate::options::column_mask::ColumnMask;
use crate::options::compaction;
use crate::options::compression::{self, check_compression};
use crate::options::other_options;
use crate::options::retry;
use crate::options::text_map::map;
use crate::options::tombstone_gc::TombstoneGcMode;

/// The lowest false positive rate in Cassandra's tables of hash counts: 20 bits per key, 15 hashes.
const MIN_BLOOM_FILTER_FP_CHANCE: f64 = 6.71e-5;
/// An option of Cassandra 5.0 and later.
const ALLOW_AUTO_SNAPSHOT: &str = "allow_auto_snapshot";
/// Twenty years.
const MAX_TTL_S: u32 = 20 * 365 * 24 * 3600;
/// `system_schema` has signed 32-bit integers.
pub(crate) const MAX_INT: u32 = i32::MAX as u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    pub additional_write_policy: String,
    /// `keys`: ALL or NONE; `rows_per_partition`: ALL, NONE or a number; ScyllaDB's `enabled`: TRUE or FALSE.
    pub caching: BTreeMap<String, String>,
    pub cdc: bool,
    /// `class`, with its full Java name, and the strategy's options.
    pub compaction: BTreeMap<String, String>,
    /// Sub-options of the compression other than codec, chunk size and level; see
    /// [`crate::compression_to_map`].
    pub compression: BTreeMap<String, String>,
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// The masks of columns, by the column's name.
    pub masks: BTreeMap<String, ColumnMask>,
    /// The name of a memtable configuration.
    pub memtable: String,
    /// Options of other versions and of ScyllaDB, each as the CQL of its value.
    pub others: BTreeMap<String, String>,
    /// NONE or BLOCKING.
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self {
            additional_write_policy: "99p".to_string(),
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            compaction: compaction::default(),
            compression: BTreeMap::new(),
            extensions: BTreeMap::new(),
            masks: BTreeMap::new(),
            memtable: "default".to_string(),
            others: BTreeMap::new(),
            read_repair: "BLOCKING".to_string(),
            speculative_retry: "99p".to_string(),
        }
    }
}

impl TableSettings {
    /// Returns the same settings in their stored form: the class name of a compaction strategy gets
    /// Cassandra's package if it has none, keywords are in upper case, and policies have one spelling.
    /// Sub-options of the strategy are checked when a table gets them ([`Self::check_new`]).
    ///
    /// # Errors
    /// A missing or unknown strategy, or an option or word that is not allowed.
    pub fn checked(mut self) -> Result<Self, CatalogError> {
        self.compaction = compaction::stored(self.compaction)?;
        self.speculative_retry = retry::checked("speculative_retry", &self.speculative_retry)?;
        self.additional_write_policy =
            retry::checked("additional_write_policy", &self.additional_write_policy)?;
        self.read_repair.make_ascii_uppercase();
        if !matches!(self.read_repair.as_str(), "NONE" | "BLOCKING") {
            return configuration!(
                "Invalid value {} for 'read_repair'; NONE and BLOCKING are allowed",
                self.read_repair
            );
        }
        if let Some(name) = self.others.keys().find(|name| !other_options::is_of_tables(name)) {
            return configuration!("'{name}' is not an option of a table");
        }
        for (key, value) in &mut self.caching {
            let upper = value.to_ascii_uppercase();
            let allowed = match key.as_str() {
                "keys" => matches!(upper.as_str(), "ALL" | "NONE"),
                "rows_per_partition" => {
                    matches!(upper.as_str(), "ALL" | "NONE") || value.parse::<u32>().is_ok()
                }
                "enabled" => matches!(upper.as_str(), "TRUE" | "FALSE"),
                _ => {
                    return configuration!(
                        "Invalid caching sub-options [{key}]: only 'keys' and 'rows_per_partition' are allowed"
                    );
                }
            };
            if !allowed {
                let allowed = match key.as_str() {
                    "keys" => "only 'ALL' and 'NONE' are allowed",
                    "rows_per_partition" => "only 'ALL', 'NONE', and integer values are allowed",
                    _ => "only 'true' and 'false' are allowed",
                };
                return configuration!("Invalid value '{value}' for caching sub-option '{key}': {allowed}");
            }
            *value = upper;
        }
        Ok(self)
    }

    /// Refuses settings that a table may keep but not newly get: sub-options that the strategy does not have,
    /// and Cassandra's form of change data capture. `old`: the table's previous settings; `None` for a new
    /// table.
    pub fn check_new(&self, old: Option<&Self>) -> Result<(), CatalogError> {
        if old.is_none_or(|old| old.compaction != self.compaction) {
            compaction::check_new_compaction(&self.compaction)?;
        }
        if self.cdc && self.change_log().is_none() && old.is_none_or(|old| !old.cdc) {
            return configuration!(
                "cdc = true asks for Cassandra's change data capture in files of the commit log, which this node does \
                 not have: it has change logs that are tables, as ScyllaDB. Use cdc = {{'enabled': true}}, or leave \
                 'cdc' out"
            );
        }
        Ok(())
    }

    /// Warnings for clients about options that are accepted but may not have the desired effect. `ttl_s` is
    /// `default_time_to_live` in seconds, if it is known.
    pub fn warnings(&self, ttl_s: Option<u32>) -> Vec<String> {
        let deprecation = compaction::deprecation(&self.compaction).map(str::to_string);
        let windows = ttl_s.and_then(|ttl_s| compaction::too_many_windows(&self.compaction, ttl_s));
        let repair = (self.tombstone_gc() == TombstoneGcMode::Repair).then(|| {
            "tombstone_gc mode 'repair': this node has the only replica, so there is nothing to repair; tombstones may be \
             purged at once, as with 'immediate'"
                .to_string()
        });
        let ratio = self.compression.get(compression::RATIO).and_then(|ratio| ratio.parse::<f64>().ok());
        let ratio = ratio.filter(|ratio| *ratio > 0.0).map(|_| {
            "min_compress_ratio acts in SSTables of the format nb only (sstable_format: nb): the format me has no chunks \
             that are not compressed"
                .to_string()
        });
        [deprecation, windows, repair, ratio].into_iter().flatten().collect()
    }

    /// Whether rows of the table are cached in memory. The default is yes, as in ScyllaDB. Caching is
    /// disabled by ScyllaDB's `'enabled': 'false'`, or by both of Cassandra's options together: its
    /// `rows_per_partition` alone is `NONE` by default.
    pub fn caches_rows(&self) -> bool {
        let is = |key: &str, value: &str| self.caching.get(key).is_some_and(|found| found == value);
        let nothing = is("keys", "NONE") && is("rows_per_partition", "NONE");
        !nothing && !is("enabled", "FALSE")
    }

    /// When tombstones of the table become droppable.
    pub fn tombstone_gc(&self) -> TombstoneGcMode {
        TombstoneGcMode::of(&self.others)
    }

    /// The options of the table's change log; `None` if it has none.
    pub fn change_log(&self) -> Option<ChangeLogOptions> {
        (self.cdc && self.others.contains_key("cdc")).then(|| change_log::of(&self.others))
    }

    /// Whether a snapshot is taken before TRUNCATE and DROP, if the node's `auto_snapshot` is also set.
    pub fn allows_auto_snapshot(&self) -> bool {
        self.others.get(ALLOW_AUTO_SNAPSHOT).is_none_or(|value| value == "true")
    }

    /// The names of the options that are stored but have no effect in this build, and that differ from the
    /// default. `options` contains the table's other options.
    pub fn without_effect(&self, options: &TableOptions) -> Vec<String> {
        let default = Self::default();
        let mut names: Vec<String> = [
            ("additional_write_policy", self.additional_write_policy != default.additional_write_policy),
            (
                "caching",
                self.caching != default.caching
                    && self.caches_rows()
                    && !self.caching.contains_key("enabled"),
            ),
            ("extensions", !self.extensions.is_empty()),
            ("memtable", self.memtable != default.memtable),
            ("read_repair", self.read_repair != default.read_repair),
            ("speculative_retry", self.speculative_retry != default.speculative_retry),
        ]
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| name.to_string())
        .collect();
        names.extend(
            self.others
                .keys()
                .filter(|name| !matches!(name.as_str(), "cdc" | "tombstone_gc" | ALLOW_AUTO_SNAPSHOT))
                .cloned(),
        );
        let is_slow = matches!(&options.compression, Some(Compression { codec: Codec::Lz4High { .. }, .. }));
        if self.compression.contains_key(compression::LZ4_LEVEL) && !is_slow {
            names.push(format!("'{}' in compression, without 'high'", compression::LZ4_LEVEL));
        }
        names
    }
}

/// Checks the limits of Cassandra's `TableParams.validate`.
pub(crate) fn check_options(options: &TableOptions, has_counters: bool) -> Result<(), CatalogError> {
    let TableOptions {
        comment: _,
        compression,
        bloom_filter_fp_chance: fp_chance,
        gc_grace_s,
        default_ttl_s,
        min_index_interval,
        max_index_interval,
        memtable_flush_period_ms,
        crc_check_chance,
    } = options;
    compression.as_ref().map_or(Ok(()), check_compression)?;
    if !(*fp_chance > MIN_BLOOM_FILTER_FP_CHANCE && *fp_chance <= 1.0) {
        return configuration!(
            "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {})",
            CqlType::Double.text_of(&fp_chance.to_be_bytes())
        );
    }
    if !(0.0..=1.0).contains(crc_check_chance) {
        return configuration!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got \
             {crc_check_chance:?})"
        );
    }
    if *default_ttl_s > MAX_TTL_S {
        return configuration!(
            "default_time_to_live must be less than or equal to {MAX_TTL_S} (got {default_ttl_s})"
        );
    }
    if has_counters && *default_ttl_s > 0 {
        return configuration!("Cannot set default_time_to_live on a table with counters");
    }
    for (name, value) in [
        ("gc_grace_seconds", gc_grace_s),
        ("max_index_interval", max_index_interval),
        ("memtable_flush_period_in_ms", memtable_flush_period_ms),
    ] {
        if *value > MAX_INT {
            return configuration!("{name} must be less than or equal to {MAX_INT} (got {value})");
        }
    }
    if *min_index_interval < 1 {
        return configuration!(
            "min_index_interval must be greater than or equal to 1 (got {min_index_interval})"
        );
    }
    if max_index_interval < min_index_interval {
        return configuration!(
            "max_index_interval must be greater than or equal to min_index_interval ({min_index_interval}) \
             (got {max_index_interval})"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_limits() {
        let error = |change: &dyn Fn(&mut TableOptions)| {
            let mut options = TableOptions::default();
            change(&mut options);
            check_options(&options, true).unwrap_err().to_string()
        };
        assert!(error(&|o| o.bloom_filter_fp_chance = f64::NAN).contains("(got NaN)"));
        assert!(error(&|o| o.bloom_filter_fp_chance = 0.0).contains("larger than 6.71E-5"));
        assert!(error(&|o| o.crc_check_chance = 1.5).contains("crc_check_chance"));
        assert!(error(&|o| o.default_ttl_s = 1).contains("counters"));
        assert!(error(&|o| o.default_ttl_s = MAX_TTL_S + 1).contains("less than or equal to 630720000"));
        assert!(error(&|o| o.gc_grace_s = u32::MAX).contains("gc_grace_seconds"));
        assert!(error(&|o| o.min_index_interval = 0).contains("min_index_interval"));
        assert!(error(&|o| o.max_index_interval = 127).contains("min_index_interval (128) (got 127)"));
        assert_eq!(check_options(&TableOptions::default(), true), Ok(()));
    }

    #[test]
    fn settings_have_words() {
        let error = |change: &dyn Fn(&mut TableSettings)| {
            let mut settings = TableSettings::default();
            change(&mut settings);
            settings.checked().unwrap_err().to_string()
        };
        assert!(error(&|s| s.compaction.clear()).contains("'class' for the 'compaction'"));
        assert!(error(&|s| s.caching = map(&[("rows", "7")])).contains("sub-options [rows]"));
        assert!(error(&|s| s.speculative_retry = "soon".into()).contains("Invalid value soon"));
        assert!(error(&|s| s.others = map(&[("colour", "1")])).contains("'colour' is not an option"));
        assert!(error(&|s| s.read_repair = "maybe".into()).contains("MAYBE"));
        assert!(error(&|s| s.caching = map(&[("keys", "7")])).contains("'7' for caching sub-option 'keys'"));
        let settings = TableSettings {
            compaction: map(&[("class", "LeveledCompactionStrategy")]),
            caching: map(&[("rows_per_partition", "all")]),
            ..TableSettings::default()
        };
        let settings = settings.checked().unwrap();
        assert_eq!(
            settings.compaction["class"],
            "org.apache.cassandra.db.compaction.LeveledCompactionStrategy"
        );
        assert_eq!(settings.caching["rows_per_partition"], "ALL");
    }

    #[test]
    fn a_dropped_table_has_snapshots_unless_its_option_is_off() {
        let with = |value: &str| TableSettings {
            others: map(&[("allow_auto_snapshot", value)]),
            ..TableSettings::default()
        };
        assert!(TableSettings::default().allows_auto_snapshot() && with("true").allows_auto_snapshot());
        assert!(!with("false").allows_auto_snapshot());
        assert_eq!(with("false").without_effect(&TableOptions::default()), Vec::<String>::new());
    }

    #[test]
    fn rows_are_cached_unless_caching_is_turned_off() {
        let caches = |caching: &[(&str, &str)]| {
            let settings = TableSettings { caching: map(caching), ..TableSettings::default() };
            settings.checked().unwrap().caches_rows()
        };
        assert!(TableSettings::default().caches_rows());
        assert!(caches(&[("enabled", "true")]) && caches(&[("keys", "none"), ("rows_per_partition", "10")]));
        assert!(!caches(&[("keys", "ALL"), ("rows_per_partition", "ALL"), ("enabled", "false")]));
        assert!(!caches(&[("keys", "none"), ("rows_per_partition", "none")]));
    }
}
