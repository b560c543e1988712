//! `TimeWindowCompactionStrategy`: one SSTable per time window, dropped as a whole when all its data has
//! expired.
//!
//! An SSTable belongs to the window of its newest write. A window that is no longer the newest and recently
//! got writes is **closed**: all its SSTables are merged into one, once. SSTables are merged by size in the
//! newest window, and also in old windows if they arrive late (by repair, or found after a restart). A single
//! small SSTable that arrives late is not merged. "Now" is the newest window ever seen, not the clock.
//!
//! The next job is the first of:
//!
//! 1. Every `expired_sstable_check_frequency_seconds`: drop the fully expired SSTables, without a merge. The
//!    check is repeated immediately until it finds none.
//! 2. For each window, newest first: if a closed window has at least two SSTables, merge the `max_threshold`
//!    smallest at most. In any other window with enough SSTables of similar size, merge these.
//! 3. A tombstone compaction, but only if the table's options enable it.
//!
//! Flushes and merges are split by window, so that no SSTable has writes of two windows. A decision takes O(n
//! log n).

mod reshape;

use std::collections::{BTreeMap, BTreeSet};

use model::CqlType;

use crate::backlog;
use crate::considered::{Taken, candidate, explanation, of_buckets, of_expired, of_tombstones};
use crate::explain::{Attempt, Explanation, Verdict};
use crate::plan::{Finished, Layout, Plan, Reason, Split};
use crate::reshape::Reshape;
use crate::size_tiered::{by_tier_and_age, singles};
use crate::strategy::Strategy;
use crate::tiers::{Tiering, ids};
use crate::tombstones::{TombstoneRules, drop_plan, fully_expired};
use crate::view::{SSTableView, TableView};

/// Maximum number of windows that an SSTable writer has open at the same time.
pub const WINDOWS_MAX: usize = 100;

/// Limit of the windows of an explanation.
const EXPLAINED_MAX: usize = 32;

/// The strategy; see the head of this file.
#[derive(Clone, Debug)]
pub struct TimeWindow {
    /// Length of a window in microseconds.
    pub window_us: i64,
    /// The unit of the table's timestamps.
    pub timestamp: TimestampUnit,
    /// Seconds between two searches for expired SSTables.
    pub expired_check_s: u32,
    /// Whether expired SSTables are dropped even if their tombstones delete data elsewhere.
    pub ignores_overlaps: bool,
    /// The rule for the window that still gets writes.
    pub tiering: Tiering,
    /// When an SSTable is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    /// The newest window ever seen.
    newest: i64,
    /// Windows that got writes while they were the newest, and whose closing merge is still to be done.
    recent: BTreeSet<i64>,
    checked_s: Option<u32>,
}

/// The unit of the write timestamps: `timestamp_resolution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampUnit {
    /// Number of units per second.
    PerSecond(i64),
    /// Length of a unit in seconds.
    Seconds(i64),
}

impl TimestampUnit {
    /// Timestamps as CQL clients send them.
    pub const MICROSECONDS: Self = Self::PerSecond(1_000_000);

    /// Converts microseconds to this unit, rounding down; at least 1.
    pub fn of_us(self, us: i64) -> i64 {
        let count = match self {
            Self::PerSecond(per_s) => i128::from(us) * i128::from(per_s) / 1_000_000,
            Self::Seconds(each_s) => i128::from(us) / 1_000_000 / i128::from(each_s.max(1)),
        };
        i64::try_from(count).unwrap_or(i64::MAX).max(1)
    }
}

impl Default for TimeWindow {
    fn default() -> Self {
        Self::new(86_400_000_000)
    }
}

impl TimeWindow {
    /// The strategy with windows of this length and the defaults of all other options.
    pub fn new(window_us: i64) -> Self {
        Self {
            window_us: window_us.max(1),
            timestamp: TimestampUnit::MICROSECONDS,
            expired_check_s: 600,
            ignores_overlaps: false,
            tiering: Tiering::default(),
            tombstones: TombstoneRules { enabled: false, ..TombstoneRules::default() },
            newest: i64::MIN,
            recent: BTreeSet::new(),
            checked_s: None,
        }
    }

    /// The length of a window, in units of the table's timestamps.
    fn window(&self) -> i64 {
        self.timestamp.of_us(self.window_us)
    }

    /// The start of a timestamp's window, both in units of the table's timestamps.
    pub fn window_of(&self, timestamp: i64) -> i64 {
        timestamp.div_euclid(self.window()).saturating_mul(self.window())
    }

    /// A time in units of the table's timestamps as `2026-11-24T15:00:00.000Z`.
    fn time_text(&self, time: i64) -> String {
        let ms = i128::from(time) * 1_000 / i128::from(self.timestamp.of_us(1_000_000));
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        CqlType::Timestamp.text_of(&ms.to_be_bytes()).trim_matches('\'').to_string()
    }

    /// The SSTables, grouped by window.
    pub fn windows<'a>(
        &self,
        sstables: impl IntoIterator<Item = &'a SSTableView>,
    ) -> BTreeMap<i64, Vec<&'a SSTableView>> {
        let mut windows: BTreeMap<i64, Vec<&SSTableView>> = BTreeMap::new();
        for sstable in sstables {
            windows.entry(self.window_of(sstable.max_timestamp_us)).or_default().push(sstable);
        }
        windows
    }

    fn expired(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let now_s = view.now_s();
        if self.checked_s.is_some_and(|at_s| now_s < at_s.saturating_add(self.expired_check_s)) {
            return None;
        }
        let expired = fully_expired(view, view.sstables, self.ignores_overlaps);
        if expired.is_empty() {
            self.checked_s = Some(now_s);
            return None;
        }
        Some(drop_plan(expired))
    }

    fn of_window(&self, view: &TableView<'_>, start: i64, mut sstables: Vec<&SSTableView>) -> Option<Plan> {
        let (inputs, reason) = if start < self.newest && self.recent.contains(&start) && sstables.len() >= 2 {
            if view.jobs_running > 0 {
                return None;
            }
            sstables.sort_by_key(|sstable| (sstable.data_bytes, sstable.id));
            sstables.truncate(self.tiering.max_threshold);
            let reason = Reason::WindowClosed { window_us: start, sstables: sstables.len() };
            (sstables.iter().map(|sstable| sstable.id).collect(), reason)
        } else {
            let buckets = self.tiering.buckets(singles(sstables), view.now_s());
            let bucket = self.tiering.most_interesting(&buckets, self.tiering.min_threshold)?;
            let reason = Reason::WindowSimilarSizes { window_us: start, sstables: bucket.runs.len() };
            (ids(&bucket.runs), reason)
        };
        Some(Plan { inputs, expired: vec![], layout: self.layout(0), reason, release_early: false })
    }
}

impl Strategy for TimeWindow {
    fn name(&self) -> &'static str {
        "TimeWindowCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let newest = view.sstables.iter().map(|sstable| self.window_of(sstable.max_timestamp_us)).max();
        if let Some(newest) = newest {
            self.newest = self.newest.max(newest);
        }
        if let Some(plan) = self.expired(view) {
            return Some(plan);
        }
        let windows = self.windows(view.free());
        if let Some((last, _)) = windows.last_key_value()
            && *last == self.newest
        {
            self.recent.insert(*last);
        }
        let busy: BTreeSet<i64> = view
            .sstables
            .iter()
            .filter(|sstable| sstable.compacting)
            .map(|sstable| self.window_of(sstable.max_timestamp_us))
            .collect();
        for (start, sstables) in windows.into_iter().rev() {
            let plan = self.of_window(view, start, sstables);
            if plan.is_some() {
                return plan;
            }
            let is_done = view.jobs_running == 0 && !busy.contains(&start);
            if start < self.newest && is_done {
                self.recent.remove(&start);
            }
        }
        if !self.tombstones.enabled {
            return None;
        }
        let buckets = self.tiering.buckets(singles(view.free()), view.now_s());
        self.tombstones.plan(view, by_tier_and_age(&buckets), |_| self.layout(0))
    }

    fn finished(&mut self, _finished: &Finished<'_>) {
        // Limits the number of remembered windows, so that windows without SSTables are forgotten eventually.
        while self.recent.len() > 1000 {
            self.recent.pop_first();
        }
    }

    /// One SSTable per window. One job merges all windows, so that data deleted by a later window is dropped
    /// from an earlier one. If there are more windows than a writer can have open, each window is a separate
    /// job.
    fn major(&mut self, view: &TableView<'_>, _split: bool) -> Vec<Plan> {
        let windows = self.windows(view.free());
        let jobs: Vec<Vec<&SSTableView>> = if windows.len() > WINDOWS_MAX {
            windows.into_values().collect()
        } else {
            windows.into_values().reduce(|all, window| [all, window].concat()).into_iter().collect()
        };
        let plan = |sstables: Vec<&SSTableView>| Plan {
            inputs: sstables.iter().map(|sstable| sstable.id).collect(),
            expired: vec![],
            layout: self.layout(0),
            reason: Reason::Asked("compact"),
            release_early: false,
        };
        jobs.into_iter().map(plan).collect()
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        reshape::of_windows(self, view, mode)
    }

    fn layout(&self, _level: u32) -> Layout {
        let split = Split::Windows { window_us: self.window(), windows_max: WINDOWS_MAX };
        Layout { split, ..Layout::whole() }
    }

    /// The newest windows come first.
    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let mut decided = self.clone();
        let plan = decided.next(view);
        let taken = Taken::of(plan.as_ref());
        let mut attempts = vec![of_expired(view, self.ignores_overlaps, &taken)];
        for (start, sstables) in self.windows(view.free()).into_iter().rev().take(EXPLAINED_MAX) {
            // A closed window is merged whole once; the decision forgets it when that is done.
            if start < decided.newest && self.recent.contains(&start) && sstables.len() >= 2 {
                let otherwise = if view.jobs_running > 0 { Verdict::Busy } else { Verdict::Behind };
                let verdict = taken.or(sstables.iter().copied(), otherwise);
                let candidates = vec![candidate(&sstables, verdict)];
                attempts.push(Attempt {
                    rule: format!("closed window from {}", self.time_text(start)).into(),
                    candidates,
                });
                continue;
            }
            let buckets = self.tiering.buckets(singles(sstables), view.now_s());
            let rule = format!("window from {}, runs of about the same size", self.time_text(start));
            attempts.push(of_buckets(rule, &buckets, self.tiering.min_threshold, &taken));
        }
        attempts.push(of_tombstones(view, &self.tombstones, &taken));
        explanation(self.name(), view, attempts, plan)
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let of_window = |(start, sstables): (i64, Vec<&SSTableView>)| {
            if start < self.newest && self.recent.contains(&start) {
                return u64::from(sstables.len() >= 2);
            }
            self.tiering.pending(&self.tiering.buckets(singles(sstables), view.now_s()))
        };
        self.windows(view.free()).into_iter().map(of_window).sum()
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        let windows = self.windows(view.sstables).into_values();
        windows.map(|sstables| backlog::of_tiers(&self.tiering, singles(sstables), view.now_s())).sum()
    }
}

/// The warning for a table whose default TTL leads to many windows; `None` if there are at most
/// `windows_max`.
pub fn windows_warning(default_ttl_s: u32, window_us: i64, windows_max: u64) -> Option<String> {
    let window_s = (window_us / 1_000_000).max(1) as u64;
    let windows = u64::from(default_ttl_s).div_ceil(window_s);
    (windows > windows_max).then(|| {
        format!(
            "The setting of default_time_to_live={default_ttl_s} and compaction window={window_s}(s) can lead to \
             {windows} windows, which is larger than the allowed number of windows specified by the \
             twcs_max_window_count ({windows_max}) parameter. Note that default_time_to_live=0 is also highly \
             discouraged."
        )
    })
}
