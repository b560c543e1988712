//! The options of a table that its schema does not carry, and the limits of those that it does.
//!
//! [`model::TableOptions`] is what storage acts on for every write and read. The rest (compaction, caching,
//! read repair, …) is kept here, with Cassandra 4.1's names, defaults and stored forms (source:
//! `schema/TableParams.java`, `CachingParams.java`). Options that Cassandra 4.1 has no place for are kept by name.

use std::collections::BTreeMap;

use model::{Codec, Compression, TableOptions};

use crate::compaction;
use crate::compression::{self, check_compression};
use crate::error::{CatalogError, configuration};
use crate::other_options;
use crate::retry;
use crate::tombstone_gc::TombstoneGcMode;

/// The least filter rate that Cassandra's tables of hash counts offer: 20 bits a key, 15 hashes.
const MIN_BLOOM_FILTER_FP_CHANCE: f64 = 6.71e-5;
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
    /// `class`, by its full Java name, and the strategy's options.
    pub compaction: BTreeMap<String, String>,
    /// What was said of the compression beside codec, chunks and level; see [`crate::compression_to_map`].
    pub compression: BTreeMap<String, String>,
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// The name of a memtable configuration.
    pub memtable: String,
    /// Options of other versions and of ScyllaDB, each as the CQL of its value.
    pub others: BTreeMap<String, String>,
    /// NONE or BLOCKING.
    pub read_repair: String,
    pub speculative_retry: String,
}

pub(crate) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
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
            memtable: "default".to_string(),
            others: BTreeMap::new(),
            read_repair: "BLOCKING".to_string(),
            speculative_retry: "99p".to_string(),
        }
    }
}

impl TableSettings {
    /// The same settings in their stored form: a compaction strategy named without its package gets Cassandra's,
    /// words are in upper case, policies in one spelling.
    ///
    /// # Errors
    /// No or an unknown strategy, an option or a word that is not one of those allowed.
    pub fn checked(mut self) -> Result<Self, CatalogError> {
        self.compaction = compaction::checked(self.compaction)?;
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
                        "Invalid caching sub-options {key}: only 'keys', 'rows_per_partition' and 'enabled' are \
                         allowed"
                    );
                }
            };
            if !allowed {
                return configuration!("Invalid value '{value}' for caching sub-option '{key}'");
            }
            *value = upper;
        }
        Ok(self)
    }

    /// What clients are told when a table gets options that work, but may not do what was hoped for. `ttl_s`:
    /// `default_time_to_live`, if it is known.
    pub fn warnings(&self, ttl_s: Option<u32>) -> Vec<String> {
        let deprecation = compaction::deprecation(&self.compaction).map(str::to_string);
        let windows = ttl_s.and_then(|ttl_s| compaction::too_many_windows(&self.compaction, ttl_s));
        let repair = (self.tombstone_gc() == TombstoneGcMode::Repair).then(|| {
            "tombstone_gc mode 'repair': this node has the only replica and there is nothing to repair; tombstones may be \
             dropped at once, as with 'immediate'"
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

    /// Whether rows of the table are to be kept in memory. They are, as in ScyllaDB, unless it is said otherwise: by
    /// ScyllaDB's `'enabled': 'false'`, or by both of Cassandra's words at once, since its default for rows alone is
    /// `NONE`.
    pub fn caches_rows(&self) -> bool {
        let is = |key: &str, value: &str| self.caching.get(key).is_some_and(|found| found == value);
        let nothing = is("keys", "NONE") && is("rows_per_partition", "NONE");
        !nothing && !is("enabled", "FALSE")
    }

    /// The options whose values are kept and change nothing: those that are not the default and that this build
    /// has no use for. `options` are the table's other ones.
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
            ("cdc", self.cdc != default.cdc),
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
            self.others.keys().filter(|name| !matches!(name.as_str(), "cdc" | "tombstone_gc")).cloned(),
        );
        let is_slow = matches!(&options.compression, Some(Compression { codec: Codec::Lz4High { .. }, .. }));
        if self.compression.contains_key(compression::LZ4_LEVEL) && !is_slow {
            names.push(format!("'{}' in compression, without 'high'", compression::LZ4_LEVEL));
        }
        names.extend(
            compaction::without_effect(&self.compaction).map(|name| format!("'{name}' in compaction")),
        );
        names
    }
}

/// The limits of Cassandra's `TableParams.validate`.
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
            "bloom_filter_fp_chance must be larger than {MIN_BLOOM_FILTER_FP_CHANCE:?} and less than or equal \
             to 1.0 (got {fp_chance:?})"
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
        assert!(error(&|o| o.bloom_filter_fp_chance = 0.0).contains("larger than 6.71e-5"));
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
        assert!(error(&|s| s.caching = map(&[("rows", "7")])).contains("sub-options rows"));
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
    fn rows_are_cached_unless_it_is_said_otherwise() {
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
