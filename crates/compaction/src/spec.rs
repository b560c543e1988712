//! The table of compaction options: names, kinds, bounds, defaults, help.
//!
//! It is the only definition of the options. CREATE and ALTER TABLE (through the catalog) refuse the values
//! that it refuses, the strategies take their defaults from it ([`crate::options`]), and a test checks that
//! `docs/compaction.md` contains it as text.
//!
//! Sources: `validateOptions` of the strategies in Cassandra 3.11 (DateTiered), 4.1 and 5.0 (Unified), and
//! ScyllaDB's documentation (Incremental, earlier called Hybrid).

use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;

use crate::options_error::OptionsError;
use crate::unified::scaling::{parse_bytes, parse_list};

/// The values that an option can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean,
    /// Both bounds are inclusive.
    Integer(i64, i64),
    /// A decimal number between the bounds.
    Number(Bound<f64>, Bound<f64>),
    /// In upper or lower case.
    Word(&'static [&'static str]),
    /// A number of bytes with an optional unit: `100MiB`.
    Size,
    /// `T4`, `L10`, `N`, `-8`, or a comma-separated list of these.
    Scaling,
}

use Kind::{Boolean, Integer, Number, Scaling, Size, Word};

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name in `compaction = {…}`.
    pub name: &'static str,
    /// Form and bounds of the value.
    pub kind: Kind,
    /// Empty: the option has no default.
    pub default: &'static str,
    /// One phrase, in Markdown.
    pub help: &'static str,
}

/// One strategy.
#[derive(Clone, Copy, Debug)]
pub struct StrategySpec {
    /// The class without package and without `CompactionStrategy`.
    pub name: &'static str,
    /// Groups of options. The first of several options with the same name counts. [`COMMON`] is appended.
    own: &'static [&'static [OptionSpec]],
    /// Whether `min_threshold` and `max_threshold` have an effect.
    pub has_thresholds: bool,
}

const fn option(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, kind, default, help }
}

const ANY: i64 = i64::MAX;
const SECONDS: i64 = u32::MAX as i64;
const SHARE: Kind = Number(Included(0.0), Included(1.0));
const TIME_UNIT: Kind =
    Word(&["DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]);

/// The options of every strategy.
pub const COMMON: &[OptionSpec] = &[
    option("enabled", Boolean, "true", "false: compactions run only when a user requests them"),
    option("min_threshold", Integer(2, ANY), "4", "fewer SSTables or runs of similar size are not merged"),
    option("max_threshold", Integer(2, ANY), "32", "limit of the SSTables or runs in one merge"),
    option(
        "tombstone_threshold",
        SHARE,
        "0.2",
        "an SSTable with at least this part of droppable tombstones is rewritten alone",
    ),
    option(
        "tombstone_compaction_interval",
        Integer(1, SECONDS),
        "86400",
        "seconds from the writing of an SSTable until it may be rewritten for its tombstones",
    ),
    option(
        "unchecked_tombstone_compaction",
        Boolean,
        "false",
        "true: it is rewritten even if its tombstones may have to be kept because of other SSTables",
    ),
    option(
        "only_purge_repaired_tombstones",
        Boolean,
        "false",
        "true: tombstones are purged only from repaired SSTables ([below](#when-tombstones-go))",
    ),
    option(
        "log_all",
        Boolean,
        "false",
        "true: `compaction.log` has a line for each compaction ([below](#history))",
    ),
    option(
        "provide_overlapping_tombstones",
        Word(&["NONE", "ROW", "CELL"]),
        "NONE",
        "compactions leave out data that other SSTables delete (`row`), or also data that they overwrite (`cell`) ([below](#dead-data-without-a-merge))",
    ),
];

const SIZE_TIERED: &[OptionSpec] = &[
    option(
        "bucket_low",
        Number(Excluded(0.0), Excluded(1.0)),
        "0.5",
        "SSTables are of similar size from this part of their average",
    ),
    option("bucket_high", Number(Excluded(1.0), Unbounded), "1.5", "and up to this multiple of it"),
    option(
        "min_sstable_size",
        Integer(0, ANY),
        "52428800",
        "bytes; smaller SSTables count as equal in size, if none was written within `min_sstable_age`",
    ),
    option("min_sstable_age", Integer(0, SECONDS), "3600", "seconds"),
    option(
        "bucketing",
        Word(&["SCYLLADB", "CASSANDRA"]),
        "SCYLLADB",
        "Messina's own: the rules that decide which SSTables are of similar size",
    ),
];

/// Options of the size-tiered strategy only.
const COLD_READS: &[OptionSpec] = &[option(
    "cold_reads_to_omit",
    SHARE,
    "0",
    "the least read SSTables, which together get up to this part of all reads, are not merged",
)];

const LEVELED: &[OptionSpec] = &[
    option(
        "sstable_size_in_mb",
        Integer(1, 1 << 30),
        "160",
        "size of an SSTable of a level, before compression",
    ),
    option("fanout_size", Integer(2, 1 << 20), "10", "size of a level, as a multiple of the level below it"),
    option(
        "single_sstable_uplevel",
        Boolean,
        "false",
        "true: an SSTable that overlaps nothing in the next level moves there alone",
    ),
];

const INCREMENTAL: &[OptionSpec] = &[
    option("sstable_size_in_mb", Integer(1, 1 << 30), "1000", "size of a fragment, before compression"),
    option(
        "bucket_low",
        Number(Excluded(0.0), Excluded(1.0)),
        "0.7071",
        "runs are of similar size from this part of their average",
    ),
    option("bucket_high", Number(Excluded(1.0), Unbounded), "1.4142", "and up to this multiple of it"),
    option(
        "space_amplification_goal",
        Number(Excluded(1.0), Included(2.0)),
        "",
        "goal for the size of the two largest tiers together, as a multiple of the largest",
    ),
    option(
        "overlap_threshold",
        Number(Included(0.0), Unbounded),
        "0.5",
        "Messina's own: any number of runs is merged if that frees at least this number of bytes per byte written; 0: never",
    ),
    option(
        "tombstone_collection",
        Word(&["FRAGMENTS", "WHEN_SHORT", "TIERS"]),
        "FRAGMENTS",
        "Messina's own; `when_short`: only when the disk is short of space; `tiers`: whole tiers, as ScyllaDB does",
    ),
    option(
        "disk_aware",
        Boolean,
        "true",
        "Messina's own; false: jobs are chosen without regard to disk space",
    ),
];

const EXPIRED_CHECK: OptionSpec = option(
    "expired_sstable_check_frequency_seconds",
    Integer(0, SECONDS),
    "600",
    "seconds between two searches for fully expired SSTables",
);
const AGGRESSIVE: OptionSpec = option(
    "unsafe_aggressive_sstable_expiration",
    Boolean,
    "false",
    "true: fully expired SSTables are dropped even if their tombstones delete data of other SSTables",
);
const RESOLUTION: OptionSpec =
    option("timestamp_resolution", TIME_UNIT, "MICROSECONDS", "the unit of the writes' timestamps");

const TIME_WINDOW: &[OptionSpec] = &[
    option("compaction_window_unit", Word(&["MINUTES", "HOURS", "DAYS"]), "DAYS", "the unit of a window"),
    option("compaction_window_size", Integer(1, 100_000_000), "1", "length of a window, in units"),
    RESOLUTION,
    EXPIRED_CHECK,
    AGGRESSIVE,
    option(
        "enable_optimized_twcs_queries",
        Word(&["TRUE"]),
        "true",
        "reads skip SSTables without the requested clustering keys, with every strategy; cannot be switched off",
    ),
];

const DATE_TIERED: &[OptionSpec] = &[
    option("base_time_seconds", Integer(1, 1_000_000_000_000), "60", "length of the newest window"),
    option(
        "max_sstable_age_days",
        Number(Included(0.0), Unbounded),
        "365000",
        "SSTables without a newer write are no longer merged",
    ),
    option(
        "max_window_size_seconds",
        Integer(1, 1_000_000_000_000),
        "86400",
        "limit of the length of a window",
    ),
    RESOLUTION,
    EXPIRED_CHECK,
];

const UNIFIED: &[OptionSpec] = &[
    option(
        "scaling_parameters",
        Scaling,
        "T4",
        "tiered (`T`) or leveled (`L`) with a fan-out, by level of density",
    ),
    option("target_sstable_size", Size, "1GiB", "approximate size of an SSTable; at least 1MiB"),
    option("min_sstable_size", Size, "100MiB", "smaller SSTables are not split by parts of the ring"),
    option("flush_size_override", Size, "0", "the assumed size of flushes; 0: the measured size"),
    option(
        "base_shard_count",
        Integer(1, 1 << 16),
        "4",
        "minimal number of parts of the ring in dense levels",
    ),
    option(
        "sstable_growth",
        SHARE,
        "0.333",
        "with growing data, 0: the number of SSTables grows; 1: their size grows",
    ),
    option(
        "max_sstables_to_compact",
        Integer(0, ANY),
        "0",
        "limit of the SSTables that are merged at one place; 0: no limit",
    ),
    option(
        "overlap_inclusion_method",
        Word(&["NONE", "SINGLE", "TRANSITIVE"]),
        "TRANSITIVE",
        "which SSTables are merged with those that overlap at one place",
    ),
    option(
        "survival_factor",
        Number(Included(0.01), Included(100.0)),
        "1.0",
        "Messina's own: the approximate part of the bytes that a merge leaves",
    ),
    option(
        "parallelize_output_shards",
        Boolean,
        "true",
        "false: a major compaction merges one part of the ring after the other, not several at once",
    ),
    EXPIRED_CHECK,
    AGGRESSIVE,
];

/// All strategies.
pub const STRATEGIES: &[StrategySpec] = &[
    StrategySpec { name: "SizeTiered", own: &[SIZE_TIERED, COLD_READS], has_thresholds: true },
    StrategySpec { name: "Leveled", own: &[LEVELED, SIZE_TIERED], has_thresholds: true },
    StrategySpec { name: "TimeWindow", own: &[TIME_WINDOW, SIZE_TIERED], has_thresholds: true },
    StrategySpec { name: "DateTiered", own: &[DATE_TIERED], has_thresholds: true },
    StrategySpec { name: "Incremental", own: &[INCREMENTAL, SIZE_TIERED], has_thresholds: true },
    StrategySpec { name: "Hybrid", own: &[INCREMENTAL, SIZE_TIERED], has_thresholds: true },
    StrategySpec { name: "Unified", own: &[UNIFIED], has_thresholds: false },
    StrategySpec { name: "InMemory", own: &[], has_thresholds: false },
    StrategySpec { name: "Null", own: &[], has_thresholds: false },
];

const CLASS_SUFFIX: &str = "CompactionStrategy";

impl StrategySpec {
    /// The strategy of a class, with or without its package; `None` if the name is unknown.
    pub fn of_class(class: &str) -> Option<&'static Self> {
        let name = class.rsplit('.').next()?.strip_suffix(CLASS_SUFFIX)?;
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// The class name as users write it.
    pub fn class(&self) -> String {
        format!("{}{CLASS_SUFFIX}", self.name)
    }

    /// Its options without duplicates.
    pub fn options(&self) -> Vec<&'static OptionSpec> {
        let mut found: Vec<&'static OptionSpec> = vec![];
        for option in self.own.iter().copied().chain([COMMON]).flatten() {
            if found.iter().all(|earlier| earlier.name != option.name) {
                found.push(option);
            }
        }
        found
    }

    /// The strategy's option of this name; `None`: it has none.
    pub fn option(&self, name: &str) -> Option<&'static OptionSpec> {
        self.own.iter().copied().chain([COMMON]).flatten().find(|option| option.name == name)
    }
}

impl OptionSpec {
    /// Refuses a value that the option cannot have.
    pub fn check(&self, value: &str) -> Result<(), OptionsError> {
        if let ("min_threshold" | "max_threshold", Ok(number)) = (self.name, value.parse::<i64>()) {
            if number <= 0 {
                return Err(OptionsError::Refused(
                    "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction \
                     option 'enabled' to false instead."
                        .to_string(),
                ));
            }
            if number < 2 {
                let which = if self.name == "min_threshold" { "Min" } else { "Max" };
                return Err(OptionsError::Refused(format!(
                    "{which} compaction threshold cannot be less than 2 (got {number})"
                )));
            }
        }
        if let "sstable_size_in_mb" | "fanout_size" = self.name {
            match value.parse::<i64>() {
                Err(_) => {
                    let name = self.name;
                    return Err(OptionsError::Refused(format!(
                        "{value} is not a parsable int (base10) for {name}"
                    )));
                }
                Ok(number) if number < 1 => {
                    let name = self.name;
                    return Err(OptionsError::Refused(format!(
                        "{name} must be larger than 0, but was {number}"
                    )));
                }
                Ok(_) => {}
            }
        }
        if self.kind.has(value) {
            return Ok(());
        }
        if self.name == "enable_optimized_twcs_queries" && value.eq_ignore_ascii_case("false") {
            return Err(OptionsError::Refused(
                "enable_optimized_twcs_queries cannot be switched off: reads skip SSTables without the requested \
                 clustering keys, with every strategy; leave the option out or set it to 'true'"
                    .to_string(),
            ));
        }
        Err(OptionsError::Value {
            option: self.name.to_string(),
            value: value.to_string(),
            expected: self.kind.to_string(),
        })
    }
}

impl Kind {
    fn has(self, value: &str) -> bool {
        match self {
            Boolean => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
            Integer(least, most) => value.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number)),
            Number(least, most) => {
                value.parse::<f64>().is_ok_and(|number| number.is_finite() && (least, most).contains(&number))
            }
            Word(words) => words.iter().any(|word| value.eq_ignore_ascii_case(word)),
            Size => parse_bytes(value).is_some(),
            Scaling => parse_list(value).is_some(),
        }
    }
}

/// Formats the requirement for a value, to follow "it must be".
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Boolean => f.write_str("either 'true' or 'false'"),
            Integer(least, ANY) => write!(f, "an integer of at least {least}"),
            Integer(least, most) => write!(f, "an integer from {least} to {most}"),
            Number(Included(least), Included(most)) => write!(f, "a number from {least} to {most}"),
            Number(Excluded(least), Included(most)) => {
                write!(f, "a number greater than {least} and less than or equal to {most}")
            }
            Number(Excluded(least), Excluded(most)) => write!(f, "a number between {least} and {most}"),
            Number(Excluded(least), _) => write!(f, "a number greater than {least}"),
            Number(Included(least), _) => write!(f, "a number of at least {least}"),
            Number(Unbounded, _) => f.write_str("a number"),
            Word(words) => write!(f, "one of {}", words.join(", ")),
            Size => f.write_str("a size, as in 100MiB"),
            Scaling => {
                f.write_str("a list of N, T and a number from 2 on, L and a number from 2 on, or a number")
            }
        }
    }
}
