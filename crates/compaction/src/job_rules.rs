//! Options that apply to every job of a table, whatever its strategy.

use std::collections::BTreeMap;

use crate::garbage::Granularity;
use crate::option_values::Options;
use crate::options_error::OptionsError;

/// The rules of a table's jobs; see the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobRules {
    /// `only_purge_repaired_tombstones`: a job purges only if all its inputs are repaired.
    pub only_purge_repaired: bool,
    /// `provide_overlapping_tombstones`: a merge drops data that other SSTables delete.
    pub overlapping: Option<Granularity>,
    /// `parallelize_output_shards`: the jobs of a major compaction run at the same time. They cover different
    /// parts of the ring.
    pub parallel_major: bool,
    /// `log_all`: finished jobs are logged to `compaction.log`.
    pub log_all: bool,
}

impl JobRules {
    /// The rules of a table's `compaction = {…}`.
    pub fn new(values: &BTreeMap<String, String>) -> Result<Self, OptionsError> {
        Self::from_options(&Options::new(values)?)
    }

    pub(crate) fn from_options(options: &Options<'_>) -> Result<Self, OptionsError> {
        let overlapping = options.word("provide_overlapping_tombstones", |word| match word {
            "NONE" => Some(None),
            "ROW" => Some(Some(Granularity::Row)),
            "CELL" => Some(Some(Granularity::Cell)),
            _ => None,
        })?;
        Ok(Self {
            only_purge_repaired: options.flag("only_purge_repaired_tombstones")?,
            overlapping,
            log_all: options.flag("log_all")?,
            parallel_major: options.flag_if_known("parallelize_output_shards")?,
        })
    }
}
