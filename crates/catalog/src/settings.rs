//! The options of a table that its schema does not carry, and the limits of those that it does.
//!
//! [`model::TableOptions`] is what storage acts on for every write and read. The rest (compaction, caching,
//! read repair, …) is kept here as users write it, with Cassandra 4.1's names, defaults and stored forms
//! (source: `schema/TableParams.java`, `CompressionParams.java`, `CachingParams.java`).

use std::collections::BTreeMap;

use model::{Compression, TableOptions};

use crate::error::{CatalogError, configuration};

const COMPRESS: &str = "org.apache.cassandra.io.compress.";
const COMPACTION: &str = "org.apache.cassandra.db.compaction.";
const LZ4: &str = "LZ4Compressor";
/// The least filter rate that Cassandra's tables of hash counts offer: 20 bits a key, 15 hashes.
const MIN_BLOOM_FILTER_FP_CHANCE: f64 = 6.71e-5;
/// Twenty years.
const MAX_TTL_S: u32 = 20 * 365 * 24 * 3600;
/// `system_schema` has signed 32-bit integers.
const MAX_INT: u32 = i32::MAX as u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    pub additional_write_policy: String,
    /// `keys`: ALL or NONE; `rows_per_partition`: ALL, NONE or a number.
    pub caching: BTreeMap<String, String>,
    pub cdc: bool,
    /// `class`, by its full Java name, and the strategy's options.
    pub compaction: BTreeMap<String, String>,
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// The name of a memtable configuration.
    pub memtable: String,
    /// NONE or BLOCKING.
    pub read_repair: String,
    pub speculative_retry: String,
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

impl Default for TableSettings {
    fn default() -> Self {
        let strategy = format!("{COMPACTION}SizeTieredCompactionStrategy");
        Self {
            additional_write_policy: "99p".to_string(),
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            compaction: map(&[("class", &strategy), ("max_threshold", "32"), ("min_threshold", "4")]),
            extensions: BTreeMap::new(),
            memtable: "default".to_string(),
            read_repair: "BLOCKING".to_string(),
            speculative_retry: "99p".to_string(),
        }
    }
}

impl TableSettings {
    /// The same settings in their stored form: a compaction strategy named without its package gets Cassandra's,
    /// words are in upper case.
    ///
    /// # Errors
    /// No strategy, or a word that is not one of those allowed. The strategy's own options are for the
    /// strategy to judge.
    pub(crate) fn checked(mut self) -> Result<Self, CatalogError> {
        let Some(class) = self.compaction.get_mut("class") else {
            return configuration!("Missing sub-option 'class' for the 'compaction' option.");
        };
        if !class.contains('.') {
            class.insert_str(0, COMPACTION);
        }
        self.read_repair.make_ascii_uppercase();
        if !matches!(self.read_repair.as_str(), "NONE" | "BLOCKING") {
            return configuration!(
                "Invalid value {} for 'read_repair'; NONE and BLOCKING are allowed",
                self.read_repair
            );
        }
        for (key, value) in &mut self.caching {
            let upper = value.to_ascii_uppercase();
            let word = matches!(upper.as_str(), "ALL" | "NONE");
            let number = key == "rows_per_partition" && value.parse::<u32>().is_ok();
            if !matches!(key.as_str(), "keys" | "rows_per_partition") || !(word || number) {
                return configuration!("Invalid value '{value}' for caching sub-option '{key}'");
            }
            *value = upper;
        }
        Ok(self)
    }
}

/// `{'class': …, 'chunk_length_in_kb': …}` or `{'enabled': 'false'}`, as `system_schema.tables` has it.
pub fn compression_to_map(compression: &Compression) -> BTreeMap<String, String> {
    match compression {
        Compression::None => map(&[("enabled", "false")]),
        Compression::Lz4 { chunk_bytes } => {
            let kib = (chunk_bytes / 1024).to_string();
            map(&[("class", &format!("{COMPRESS}{LZ4}")), ("chunk_length_in_kb", &kib)])
        }
    }
}

/// The reverse of [`compression_to_map`]; also takes what users write: a class without its package,
/// `sstable_compression` and `chunk_length_kb` (the names of before 3.0), no chunk length (16 KiB), and an
/// empty map or class for no compression.
pub fn compression_from_map(options: &BTreeMap<String, String>) -> Result<Compression, CatalogError> {
    let get = |name: &str| options.get(name).map(String::as_str);
    let class = get("class").or(get("sstable_compression"));
    if get("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
        if options.len() > 1 {
            return configuration!(
                "If the 'enabled' option is set to false no other options must be specified"
            );
        }
        return Ok(Compression::None);
    }
    let class = match class {
        _ if options.is_empty() => return Ok(Compression::None),
        Some("") => return Ok(Compression::None),
        Some(class) => class,
        None => return configuration!("Missing sub-option 'class' for the 'compression' option."),
    };
    let known = ["class", "sstable_compression", "enabled", "chunk_length_in_kb", "chunk_length_kb"];
    if let Some(option) = options.keys().find(|option| !known.contains(&option.as_str())) {
        return configuration!("Unknown compression option {option}; {} are known", known.join(", "));
    }
    if class.strip_prefix(COMPRESS).unwrap_or(class) != LZ4 {
        return configuration!("Could not create Compression for type {class}; {LZ4} is supported");
    }
    let chunk_bytes = match get("chunk_length_in_kb").or(get("chunk_length_kb")) {
        None => 16 * 1024,
        Some(kib) => match kib.parse::<u32>().ok().and_then(|kib| kib.checked_mul(1024)) {
            Some(bytes) if bytes <= MAX_INT => bytes,
            _ => return configuration!("Invalid value {kib} for chunk_length_in_kb"),
        },
    };
    let compression = Compression::Lz4 { chunk_bytes };
    check_compression(&compression)?;
    Ok(compression)
}

fn check_compression(compression: &Compression) -> Result<(), CatalogError> {
    match compression {
        Compression::None => Ok(()),
        Compression::Lz4 { chunk_bytes: 0..1024 } => {
            configuration!("Invalid negative or null chunk_length_in_kb")
        }
        Compression::Lz4 { chunk_bytes } if !chunk_bytes.is_power_of_two() => {
            configuration!("chunk_length_in_kb must be a power of 2")
        }
        Compression::Lz4 { .. } => Ok(()),
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
    check_compression(compression)?;
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
    fn compression_is_stored_as_cassandra_does() {
        let lz4 = Compression::Lz4 { chunk_bytes: 64 * 1024 };
        let stored = compression_to_map(&lz4);
        assert_eq!(stored["class"], "org.apache.cassandra.io.compress.LZ4Compressor");
        assert_eq!(stored["chunk_length_in_kb"], "64");
        assert_eq!(compression_from_map(&stored), Ok(lz4.clone()));
        let none = compression_to_map(&Compression::None);
        assert_eq!(none, map(&[("enabled", "false")]));
        assert_eq!(compression_from_map(&none), Ok(Compression::None));
        assert_eq!(compression_from_map(&map(&[])), Ok(Compression::None));
        let short = map(&[("sstable_compression", "LZ4Compressor"), ("chunk_length_kb", "64")]);
        assert_eq!(compression_from_map(&short), Ok(lz4));

        let error = |entries: &[(&str, &str)]| compression_from_map(&map(entries)).unwrap_err().to_string();
        let class = ("class", "LZ4Compressor");
        assert!(error(&[("chunk_length_in_kb", "4")]).contains("Missing sub-option 'class'"));
        assert!(error(&[class, ("chunk_length_in_kb", "3")]).contains("power of 2"));
        assert!(error(&[class, ("chunk_length_in_kb", "0")]).contains("negative or null"));
        assert!(error(&[class, ("chunk_length_in_kb", "4194304")]).contains("Invalid value 4194304"));
        assert!(error(&[class, ("enabled", "false")]).contains("no other options"));
        assert!(error(&[class, ("level", "9")]).contains("Unknown compression option level"));
        assert!(error(&[("class", "Zip")]).contains("type Zip"));
    }

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
        assert!(error(&|s| s.read_repair = "maybe".into()).contains("MAYBE"));
        assert!(error(&|s| s.caching = map(&[("keys", "7")])).contains("'7' for caching sub-option 'keys'"));
        let settings = TableSettings {
            compaction: map(&[("class", "LeveledCompactionStrategy")]),
            caching: map(&[("rows_per_partition", "all")]),
            ..TableSettings::default()
        };
        let settings = settings.checked().unwrap();
        assert_eq!(settings.compaction["class"], format!("{COMPACTION}LeveledCompactionStrategy"));
        assert_eq!(settings.caching["rows_per_partition"], "ALL");
    }
}
