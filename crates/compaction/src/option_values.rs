//! The values of a table's `compaction = {…}`, checked against the table of options ([`crate::spec`]).
//!
//! An invalid value is an error, also in options of tables from another version's files. Unknown names are
//! refused only for new tables ([`crate::check_options`]).

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::options_error::OptionsError;
use crate::spec::StrategySpec;
use crate::tiers::{Bucketing, Tiering};
use crate::time_window::TimestampUnit;
use crate::tombstones::TombstoneRules;

/// The options of a table, by name, for one strategy.
pub struct Options<'a> {
    pub(crate) strategy: &'static StrategySpec,
    pub(crate) values: &'a BTreeMap<String, String>,
}

impl<'a> Options<'a> {
    /// # Errors
    /// There is no class, or it is unknown.
    pub fn new(values: &'a BTreeMap<String, String>) -> Result<Self, OptionsError> {
        let class = values.get("class").ok_or(OptionsError::NoClass)?;
        let strategy =
            StrategySpec::of_class(class).ok_or_else(|| OptionsError::UnknownClass(class.clone()))?;
        Ok(Self { strategy, values })
    }

    /// The table's value of the option, or the default; `None` if there is neither.
    ///
    /// # Panics
    /// If the strategy has no such option.
    fn text(&self, name: &str) -> Result<Option<&str>, OptionsError> {
        let Some(spec) = self.strategy.option(name) else {
            panic!("{} has no option {name}", self.strategy.class())
        };
        let Some(value) = self.values.get(name) else {
            return Ok(Some(spec.default).filter(|default| !default.is_empty()));
        };
        spec.check(value)?;
        Ok(Some(value))
    }

    /// The option's value converted by `parse`, if it has a value.
    fn parsed_if_any<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, OptionsError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let refused = || OptionsError::Value {
            option: name.to_string(),
            value: text.to_string(),
            expected: "in the range of its type".to_string(),
        };
        parse(text).map(Some).ok_or_else(refused)
    }

    /// The value of an option with a default, converted by `parse`.
    pub fn parsed<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, OptionsError> {
        Ok(self.parsed_if_any(name, parse)?.unwrap_or_else(|| panic!("{name} has a default")))
    }

    /// The value of an option with a default in [`crate::spec`]. Errors: not a number, or outside the bounds.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<T, OptionsError> {
        self.parsed(name, |text| text.parse().ok())
    }

    /// The value of an option without a default; `None`: not set. Errors as of [`Self::number`].
    pub fn number_if_any<T: FromStr>(&self, name: &str) -> Result<Option<T>, OptionsError> {
        self.parsed_if_any(name, |text| text.parse().ok())
    }

    /// The value of a boolean option. Errors: neither `true` nor `false`, in any case.
    pub fn flag(&self, name: &str) -> Result<bool, OptionsError> {
        self.parsed(name, |text| text.to_ascii_lowercase().parse().ok())
    }

    /// The value of a boolean option; false if the strategy has no such option.
    pub fn flag_if_known(&self, name: &str) -> Result<bool, OptionsError> {
        if self.strategy.option(name).is_some() { self.flag(name) } else { Ok(false) }
    }

    /// The value of an option with fixed words, converted by `parse` from its upper-case form.
    pub fn word<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, OptionsError> {
        self.parsed(name, |text| parse(&text.to_ascii_uppercase()))
    }

    /// `min_threshold` and `max_threshold`.
    pub fn thresholds(&self) -> Result<(usize, usize), OptionsError> {
        let (min, max) = (self.number("min_threshold")?, self.number("max_threshold")?);
        if min > max {
            return Err(OptionsError::Refused(format!(
                "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
            )));
        }
        Ok((min, max))
    }

    /// The options of strategies that merge by size. `'bucketing': 'CASSANDRA'` selects Cassandra's rules:
    /// buckets by the average alone, and `min_threshold` always enforced.
    pub fn tiering(&self) -> Result<Tiering, OptionsError> {
        let bucketing = self.word("bucketing", |word| match word {
            "SCYLLADB" => Some(Bucketing::Guarded),
            "CASSANDRA" => Some(Bucketing::Average),
            _ => None,
        })?;
        let (min_threshold, max_threshold) = self.thresholds()?;
        Ok(Tiering {
            bucketing,
            bucket_low: self.number("bucket_low")?,
            bucket_high: self.number("bucket_high")?,
            min_sstable_bytes: self.number("min_sstable_size")?,
            min_sstable_age_s: self.number("min_sstable_age")?,
            min_threshold,
            max_threshold,
        })
    }

    /// The options of tombstone compaction.
    pub fn tombstones(&self) -> Result<TombstoneRules, OptionsError> {
        Ok(TombstoneRules {
            enabled: true,
            threshold: self.number("tombstone_threshold")?,
            interval_s: self.number("tombstone_compaction_interval")?,
            unchecked: self.flag("unchecked_tombstone_compaction")?,
        })
    }

    /// The same, but enabled only if the table sets one of these options. For strategies that drop whole
    /// SSTables.
    pub(crate) fn tombstones_if_set(&self) -> Result<TombstoneRules, OptionsError> {
        let is_said = ["tombstone_threshold", "tombstone_compaction_interval"]
            .iter()
            .any(|option| self.values.contains_key(*option));
        Ok(TombstoneRules { enabled: is_said, ..self.tombstones()? })
    }

    /// `sstable_size_in_mb` in bytes.
    pub fn sstable_bytes(&self) -> Result<u64, OptionsError> {
        Ok(self.number::<u64>("sstable_size_in_mb")? << 20)
    }

    pub(crate) fn timestamp_unit(&self) -> Result<TimestampUnit, OptionsError> {
        self.word("timestamp_resolution", |word| {
            Some(match word {
                "NANOSECONDS" => TimestampUnit::PerSecond(1_000_000_000),
                "MICROSECONDS" => TimestampUnit::MICROSECONDS,
                "MILLISECONDS" => TimestampUnit::PerSecond(1000),
                "SECONDS" => TimestampUnit::Seconds(1),
                "MINUTES" => TimestampUnit::Seconds(60),
                "HOURS" => TimestampUnit::Seconds(3600),
                "DAYS" => TimestampUnit::Seconds(86_400),
                _ => return None,
            })
        })
    }

    pub(crate) fn expired_check_s(&self) -> Result<u32, OptionsError> {
        self.number("expired_sstable_check_frequency_seconds")
    }
}
