//! From a table's `compaction` options to the strategy that decides.

use std::collections::BTreeMap;

use compaction::date_tiered::DateTiered;
use compaction::leveled::Leveled;
use compaction::time_window::{TimeWindow, TimestampUnit};
use compaction::{Hybrid, HybridOptions, Null, SizeTiered, Strategy, Tiering, TombstoneRules};

const MIB: u64 = 1 << 20;

/// The strategy that a table's options ask for. The options have been checked; what says nothing is the default.
pub(super) fn of(options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
    let options = Options(options);
    let strategy = configured(&options);
    if options.flag("enabled", true) { strategy } else { Box::new(Null::disabled(strategy)) }
}

fn configured(options: &Options<'_>) -> Box<dyn Strategy> {
    let class = options.text("class").unwrap_or_default();
    let name = class.rsplit('.').next().unwrap_or_default().trim_end_matches("CompactionStrategy");
    match name {
        "Leveled" => {
            let default = Leveled::default();
            let sstable_bytes =
                options.number("sstable_size_in_mb").map_or(default.sstable_bytes, |mib: u64| mib * MIB);
            let fanout = options.number("fanout_size").unwrap_or(default.fanout);
            let mut leveled = Leveled::new(sstable_bytes, fanout);
            leveled.single_sstable_uplevel = options.flag("single_sstable_uplevel", false);
            leveled.tiering = options.tiering();
            leveled.tombstones = options.tombstones(true);
            Box::new(leveled)
        }
        "TimeWindow" => {
            let unit_us = match options.text("compaction_window_unit").unwrap_or("DAYS").to_uppercase().as_str() {
                "MINUTES" => 60_000_000,
                "HOURS" => 3_600_000_000,
                _ => 86_400_000_000,
            };
            let windows = options.number("compaction_window_size").unwrap_or(1);
            let mut strategy = TimeWindow::new(unit_us * windows);
            strategy.timestamp = options.timestamp_unit();
            options.set(&mut strategy.expired_check_s, "expired_sstable_check_frequency_seconds");
            strategy.tiering = options.tiering();
            strategy.tombstones = options.tombstones(false);
            Box::new(strategy)
        }
        "DateTiered" => {
            let mut strategy = DateTiered::default();
            let us = |name: &str, unit_us: f64, into: &mut i64| {
                if let Some(count) = options.number::<f64>(name) {
                    *into = (count * unit_us) as i64;
                }
            };
            us("base_time_seconds", 1e6, &mut strategy.base_us);
            us("max_window_size_seconds", 1e6, &mut strategy.max_window_us);
            us("max_sstable_age_days", 86_400e6, &mut strategy.max_age_us);
            strategy.timestamp = options.timestamp_unit();
            options.set(&mut strategy.expired_check_s, "expired_sstable_check_frequency_seconds");
            strategy.tiering = options.tiering();
            strategy.tombstones = options.tombstones(false);
            Box::new(strategy)
        }
        "Incremental" | "Hybrid" => Box::new(Hybrid::new(HybridOptions::from_map(options.0))),
        "Null" | "InMemory" => Box::new(Null::new()),
        _ => Box::new(SizeTiered { tiering: options.tiering(), tombstones: options.tombstones(true) }),
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).and_then(|text| text.parse().ok())
    }

    fn set<T: std::str::FromStr>(&self, into: &mut T, name: &str) {
        if let Some(value) = self.number(name) {
            *into = value;
        }
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.text(name).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }

    fn tiering(&self) -> Tiering {
        let default = Tiering::default();
        Tiering {
            bucket_low: self.number("bucket_low").unwrap_or(default.bucket_low),
            bucket_high: self.number("bucket_high").unwrap_or(default.bucket_high),
            min_sstable_bytes: self.number("min_sstable_size").unwrap_or(default.min_sstable_bytes),
            min_sstable_age_s: self.number("min_sstable_age").unwrap_or(default.min_sstable_age_s),
            min_threshold: self.number("min_threshold").unwrap_or(default.min_threshold),
            max_threshold: self.number("max_threshold").unwrap_or(default.max_threshold),
            ..default
        }
    }

    /// `by_default`: whether single SSTables are rewritten for their tombstones if nothing is said of that.
    fn tombstones(&self, by_default: bool) -> TombstoneRules {
        let default = TombstoneRules::default();
        let (threshold, interval_s) =
            (self.number("tombstone_threshold"), self.number("tombstone_compaction_interval"));
        let unchecked = self.flag("unchecked_tombstone_compaction", default.unchecked);
        TombstoneRules {
            enabled: by_default || threshold.is_some() || interval_s.is_some() || unchecked,
            threshold: threshold.unwrap_or(default.threshold),
            interval_s: interval_s.unwrap_or(default.interval_s),
            unchecked,
        }
    }

    fn timestamp_unit(&self) -> TimestampUnit {
        match self.text("timestamp_resolution").unwrap_or_default().to_uppercase().as_str() {
            "DAYS" => TimestampUnit::Seconds(86_400),
            "HOURS" => TimestampUnit::Seconds(3600),
            "MINUTES" => TimestampUnit::Seconds(60),
            "SECONDS" => TimestampUnit::Seconds(1),
            "MILLISECONDS" => TimestampUnit::PerSecond(1000),
            "NANOSECONDS" => TimestampUnit::PerSecond(1_000_000_000),
            _ => TimestampUnit::MICROSECONDS,
        }
    }
}
