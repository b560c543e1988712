//! `DateTieredCompactionStrategy`: windows that grow with their age. Deprecated:
//! `TimeWindowCompactionStrategy` replaces it.
//!
//! The newest window has `base_time_seconds`. `min_threshold` successive windows become one window of their
//! total length, up to `max_window_size_seconds`. An SSTable belongs to the window of its **oldest** write.
//! Windows are aligned to multiples of their length, so that they merge with time. "Now" is the newest
//! timestamp of the table.
//!
//! The windows are checked from the newest on. The newest window is merged by sizes if it has `min_threshold`
//! SSTables, and an older one if it has two. SSTables without a write younger than `max_sstable_age_days` are
//! not merged. The strategy searches for fully expired SSTables every
//! `expired_sstable_check_frequency_seconds`. A decision takes O(n log n).

use crate::backlog;
use crate::considered::{Taken, explanation, of_buckets, of_expired, of_tombstones};
use crate::explain::Explanation;
use crate::plan::{Layout, Plan, Reason};
use crate::size_tiered::{by_tier_and_age, singles};
use crate::strategy::Strategy;
use crate::tiers::{Bucketing, Tiering, ids};
use crate::time_window::TimestampUnit;
use crate::tombstones::{TombstoneRules, fully_expired};
use crate::view::{SSTableView, TableView};

/// Warning sent to clients when a table gets this strategy.
pub const WARNING: &str =
    "DateTieredCompactionStrategy is deprecated: use TimeWindowCompactionStrategy instead";

/// Limit of the windows of an explanation.
const EXPLAINED_MAX: usize = 32;

/// The strategy; see the head of this file.
#[derive(Clone, Debug)]
pub struct DateTiered {
    /// Length of the newest windows.
    pub base_us: i64,
    /// Largest length of a window; older windows do not grow beyond it.
    pub max_window_us: i64,
    /// SSTables whose data are all older than this are not merged any more.
    pub max_age_us: i64,
    /// Unit of the table's timestamps.
    pub timestamp: TimestampUnit,
    /// Seconds between two searches for expired SSTables.
    pub expired_check_s: u32,
    /// The rule for the choice within a window.
    pub tiering: Tiering,
    /// When an SSTable is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    checked_s: Option<u32>,
}

impl Default for DateTiered {
    fn default() -> Self {
        Self {
            base_us: 60_000_000,
            max_window_us: 86_400_000_000,
            max_age_us: 365_000 * 86_400_000_000,
            timestamp: TimestampUnit::MICROSECONDS,
            expired_check_s: 600,
            tiering: Tiering { bucketing: Bucketing::Average, ..Tiering::default() },
            tombstones: TombstoneRules { enabled: false, ..TombstoneRules::default() },
            checked_s: None,
        }
    }
}

/// A window: the timestamps whose quotient by `size` is `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    size: i64,
    number: i64,
}

impl Target {
    /// Compares the timestamp's window with this one: later (`Greater`), the same, or earlier.
    fn compare(self, timestamp: i64) -> std::cmp::Ordering {
        timestamp.div_euclid(self.size).cmp(&self.number)
    }

    fn next_older(self, base: i64, max_window: i64) -> Self {
        let larger = self.size.saturating_mul(base);
        if self.number.rem_euclid(base) > 0 || larger > max_window {
            Self { number: self.number - 1, ..self }
        } else {
            Self { size: larger, number: self.number.div_euclid(base) - 1 }
        }
    }
}

impl DateTiered {
    /// The windows that have an SSTable, newest first; each with whether it is the newest window, which gets
    /// writes.
    fn windows<'a>(&self, mut sstables: Vec<&'a SSTableView>, now: i64) -> Vec<(bool, Vec<&'a SSTableView>)> {
        sstables.sort_by_key(|sstable| (std::cmp::Reverse(sstable.min_timestamp_us), sstable.id));
        let size = self.timestamp.of_us(self.base_us);
        let max_window = self.timestamp.of_us(self.max_window_us);
        let base = i64::try_from(self.tiering.min_threshold).unwrap_or(i64::MAX).max(2);
        let incoming = Target { size, number: now.div_euclid(size) };
        let mut target = incoming;
        let mut windows: Vec<(Target, Vec<&SSTableView>)> = vec![];
        for sstable in sstables {
            let at = sstable.min_timestamp_us;
            while target.compare(at).is_lt() {
                // All windows of the largest size are aligned alike, so the right one is computed directly.
                if target.size.saturating_mul(base) > max_window {
                    target.number = at.div_euclid(target.size);
                } else {
                    target = target.next_older(base, max_window);
                }
            }
            match windows.last_mut() {
                Some((window, members)) if *window == target => members.push(sstable),
                _ => windows.push((target, vec![sstable])),
            }
        }
        windows.into_iter().map(|(window, members)| (window == incoming, members)).collect()
    }

    fn candidates<'a>(&self, view: &TableView<'a>) -> (Vec<&'a SSTableView>, i64) {
        let now = view.sstables.iter().map(|sstable| sstable.max_timestamp_us).max().unwrap_or(0);
        let oldest = now.saturating_sub(self.timestamp.of_us(self.max_age_us));
        (view.free().filter(|sstable| sstable.max_timestamp_us >= oldest).collect(), now)
    }
}

impl Strategy for DateTiered {
    fn name(&self) -> &'static str {
        "DateTieredCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let now_s = view.now_s();
        let is_due = self.checked_s.is_none_or(|at_s| now_s >= at_s.saturating_add(self.expired_check_s));
        let expired = if is_due { fully_expired(view, view.sstables, false) } else { vec![] };
        if is_due && expired.is_empty() {
            self.checked_s = Some(now_s);
        }
        let gone: base::HashSet<_> = expired.iter().copied().collect();
        let (candidates, now) = self.candidates(view);
        let candidates = candidates.into_iter().filter(|sstable| !gone.contains(&sstable.id)).collect();
        for (is_incoming, members) in self.windows(candidates, now) {
            let least = if is_incoming { self.tiering.min_threshold } else { 2 };
            if members.len() < least {
                continue;
            }
            let start = members.iter().map(|sstable| sstable.min_timestamp_us).min().unwrap_or(0);
            let buckets = self.tiering.buckets(singles(members), now_s);
            if let Some(bucket) = self.tiering.most_interesting(&buckets, least) {
                let reason = Reason::WindowSimilarSizes { window_us: start, sstables: bucket.runs.len() };
                let (inputs, layout) = (ids(&bucket.runs), Layout::whole());
                return Some(Plan { inputs, expired, layout, reason, release_early: false });
            }
        }
        if !expired.is_empty() {
            return Some(crate::tombstones::drop_plan(expired));
        }
        if !self.tombstones.enabled {
            return None;
        }
        let buckets = self.tiering.buckets(singles(view.free()), now_s);
        self.tombstones.plan(view, by_tier_and_age(&buckets), |_| Layout::whole())
    }

    fn major(&mut self, view: &TableView<'_>, _split: bool) -> Vec<Plan> {
        let inputs: Vec<_> = view.free().map(|sstable| sstable.id).collect();
        if inputs.is_empty() {
            return vec![];
        }
        let reason = Reason::Asked("compact");
        vec![Plan { inputs, expired: vec![], layout: Layout::whole(), reason, release_early: false }]
    }

    fn layout(&self, _level: u32) -> Layout {
        Layout::whole()
    }

    /// The newest windows come first.
    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let plan = self.clone().next(view);
        let taken = Taken::of(plan.as_ref());
        let mut attempts = vec![of_expired(view, false, &taken)];
        let (candidates, now) = self.candidates(view);
        for (is_incoming, members) in self.windows(candidates, now).into_iter().take(EXPLAINED_MAX) {
            let start = members.iter().map(|sstable| sstable.min_timestamp_us).min().unwrap_or(0);
            let least = if is_incoming { self.tiering.min_threshold } else { 2 };
            let buckets = self.tiering.buckets(singles(members), view.now_s());
            let rule = format!("window with data from {start}, runs of about the same size");
            attempts.push(of_buckets(rule, &buckets, least, &taken));
        }
        attempts.push(of_tombstones(view, &self.tombstones, &taken));
        explanation(self.name(), view, attempts, plan)
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let (candidates, now) = self.candidates(view);
        let of_window = |(is_incoming, members): (bool, Vec<&SSTableView>)| {
            let least = if is_incoming { self.tiering.min_threshold } else { 2 };
            if members.len() < least { 0 } else { members.len().div_ceil(self.tiering.max_threshold) as u64 }
        };
        self.windows(candidates, now).into_iter().map(of_window).sum()
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        let (candidates, now) = self.candidates(view);
        let windows = self.windows(candidates, now).into_iter();
        windows.map(|(_, members)| backlog::of_tiers(&self.tiering, singles(members), view.now_s())).sum()
    }
}
