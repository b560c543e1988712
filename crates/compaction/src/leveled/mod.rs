//! `LeveledCompactionStrategy`: levels of small SSTables without overlap, each ten times as large as the
//! previous one.
//!
//! Flushes go to level 0. Level n may have `sstable_size · fanoutⁿ` bytes on disk. The next job is the first
//! of:
//!
//! 1. SSTables of a level that overlap, although they must not, are merged within their level.
//! 2. From the highest level down, a level with more than 1.001 times its allowed bytes gives one SSTable to
//!    the next level, where it is merged with the SSTables that it overlaps. The SSTable is chosen round
//!    robin along the ring. But if level 0 has more than 32 SSTables, these are merged by size first, so that
//!    reads do not become too slow.
//! 3. Level 0 is merged into level 1 if it has at least the bytes of one SSTable. The job takes all SSTables
//!    of level 0, but at most the 32 with the oldest data. With fewer bytes, level 0 is merged by size and
//!    stays level 0.
//! 4. A level that is less than ten times as large as the previous one gets an SSTable from that one.
//! 5. The SSTable with the most droppable tombstones that is worth it is rewritten, from the highest level
//!    that has one.
//!
//! If a high level took part in no job for 25 jobs, one of its SSTables within the range of a job is added to
//! this job. Its data is thereby merged with newer deletions.
//!
//! One job runs at a time. A decision takes O(n log n). A job that needs an SSTable which is not free is
//! skipped; another job of the same level may be chosen.

mod levels;
mod reshape;

use model::PartitionKey;

pub use levels::{LEVELS, Level, Levels, range};

use crate::backlog;
use crate::considered::{Taken, candidate, explanation, of_tombstones};
use crate::explain::{Attempt, Explanation, Verdict};
use crate::plan::{Finished, Layout, Plan, Reason};
use crate::reshape::Reshape;
use crate::size_tiered::singles;
use crate::sstable_id::SSTableId;
use crate::strategy::Strategy;
use crate::tiers::{Tiering, ids};
use crate::tombstones::{TombstoneRules, fully_expired};
use crate::view::{SSTableView, TableView};

/// Maximum number of SSTables of level 0 in one job.
const LEVEL_ZERO_MAX: usize = 32;
/// After this number of jobs without it, a level is starved.
const STARVED_JOBS: u32 = 25;
/// Maximum ratio of a level's size to its allowed size.
const SCORE_MAX: f64 = 1.001;

/// The strategy; see the head of this file.
#[derive(Clone, Debug)]
pub struct Leveled {
    /// Target size of an SSTable. Level n has at most `sstable_bytes · fanoutⁿ`.
    pub sstable_bytes: u64,
    /// Size ratio of successive levels.
    pub fanout: u64,
    /// Whether an SSTable that overlaps nothing in the next level is moved by changing its level only.
    pub single_sstable_uplevel: bool,
    /// For merges by size in level 0.
    pub tiering: Tiering,
    /// When an SSTable is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    /// For each level, the last key that was compacted into the next level. Initially derived from the
    /// SSTables.
    last_compacted_keys: Option<[Option<PartitionKey>; LEVELS]>,
    /// For each level, the number of jobs since it last took part in one.
    jobs_without: [u32; LEVELS],
}

impl Default for Leveled {
    fn default() -> Self {
        Self::new(160 << 20, 10)
    }
}

impl Leveled {
    /// The strategy without rules for tombstones, with the defaults of size tiers in level 0.
    pub fn new(sstable_bytes: u64, fanout: u64) -> Self {
        Self {
            sstable_bytes,
            fanout,
            single_sstable_uplevel: false,
            tiering: Tiering::default(),
            tombstones: TombstoneRules::default(),
            last_compacted_keys: None,
            jobs_without: [0; LEVELS],
        }
    }

    /// The number of bytes that a level may have.
    pub fn target_bytes(&self, level: usize) -> u64 {
        match level {
            0 => self.sstable_bytes.saturating_mul(4),
            _ => self.fanout.saturating_pow(level as u32).saturating_mul(self.sstable_bytes),
        }
    }

    /// The lowest level whose capacity is at least `bytes`.
    pub fn ideal_level(&self, bytes: u64) -> usize {
        let sstables = bytes.max(self.sstable_bytes).div_ceil(self.sstable_bytes.max(1));
        let fits = |level: &usize| self.fanout.saturating_pow(*level as u32) >= sstables;
        (0..LEVELS).find(fits).unwrap_or(LEVELS - 1)
    }

    /// Layout of a level's SSTables, which do not overlap. SSTables of level 0 have no size limit.
    pub(crate) fn layout_of(&self, level: usize) -> Layout {
        if level == 0 { Layout::whole() } else { Layout::level(level as u32, self.sstable_bytes) }
    }

    fn plan(&self, view: &TableView<'_>, inputs: Vec<&SSTableView>, level: usize, reason: Reason) -> Plan {
        let expired = fully_expired(view, inputs.iter().copied(), false);
        let ids = inputs.iter().map(|sstable| sstable.id).filter(|id| !expired.contains(id)).collect();
        Plan { inputs: ids, expired, layout: self.layout_of(level), reason, release_early: false }
    }

    /// Derives the last compacted keys: the last key of the newest SSTable of the next level.
    fn keys_found(levels: &Levels<'_>) -> [Option<PartitionKey>; LEVELS] {
        std::array::from_fn(|level| {
            let next = (level + 1 < LEVELS).then(|| levels.at(level + 1))?;
            let newest = next.sstables.iter().max_by_key(|sstable| (sstable.written_s, sstable.id))?;
            Some(newest.last.clone())
        })
    }

    fn merged_by_size(&self, view: &TableView<'_>, zero: &Level<'_>) -> Option<Plan> {
        let free = zero.sstables.iter().copied().filter(|sstable| sstable.is_free());
        let buckets = self.tiering.buckets(singles(free), view.now_s());
        let bucket = self.tiering.most_interesting(&buckets, self.tiering.min_threshold)?;
        let reason = Reason::LevelZeroBehind { sstables: bucket.runs.len() };
        Some(Plan {
            inputs: ids(&bucket.runs),
            expired: vec![],
            layout: self.layout_of(0),
            reason,
            release_early: false,
        })
    }

    fn level_zero(&self, view: &TableView<'_>, levels: &Levels<'_>) -> Option<Plan> {
        let zero = levels.at(0);
        let mut inputs: Vec<&SSTableView> =
            zero.sstables.iter().copied().filter(|sstable| sstable.is_free()).collect();
        if inputs.iter().map(|sstable| sstable.disk_bytes).sum::<u64>() < self.sstable_bytes {
            return self.merged_by_size(view, zero);
        }
        inputs.sort_by_key(|sstable| (sstable.max_timestamp_us, sstable.id));
        inputs.truncate(LEVEL_ZERO_MAX);
        let sstables = inputs.len();
        let (first, last) = range(&inputs);
        inputs.extend(levels.at(1).overlapping(first, last));
        if !inputs.iter().all(|sstable| sstable.is_free()) {
            return self.merged_by_size(view, zero);
        }
        self.add_starved(levels, &mut inputs, 1);
        Some(self.plan(view, inputs, 1, Reason::LevelZero { sstables }))
    }

    /// A job that merges one SSTable of the level with the SSTables that it overlaps in the next level.
    fn one_level_up(
        &self,
        view: &TableView<'_>,
        levels: &Levels<'_>,
        level: usize,
        reason: Reason,
    ) -> Option<Plan> {
        let next = (level + 1 < LEVELS).then(|| levels.at(level + 1))?;
        let done = self.last_compacted_keys.as_ref().and_then(|keys| keys[level].as_ref());
        for sstable in levels.at(level).starting_after(done).filter(|sstable| sstable.is_free()) {
            let mut inputs = vec![sstable];
            inputs.extend(next.overlapping(&sstable.first, &sstable.last));
            if inputs.iter().all(|input| input.is_free()) {
                if inputs.len() == 1 && self.single_sstable_uplevel {
                    let level = level as u32 + 1;
                    return Some(self.plan(view, inputs, level as usize, Reason::Uplevel { level }));
                }
                self.add_starved(levels, &mut inputs, level + 1);
                return Some(self.plan(view, inputs, level + 1, reason));
            }
        }
        None
    }

    fn add_starved<'a>(&self, levels: &Levels<'a>, inputs: &mut Vec<&'a SSTableView>, target: usize) {
        let (first, last) = range(inputs);
        let starved = (target + 1..LEVELS)
            .rev()
            .find(|level| !levels.at(*level).is_empty() && self.jobs_without[*level] > STARVED_JOBS);
        if let Some(level) = starved {
            let is_within = |s: &&SSTableView| s.is_free() && s.first >= *first && s.last <= *last;
            inputs.extend(levels.at(level).overlapping(first, last).find(is_within));
        }
    }

    fn score(&self, levels: &Levels<'_>, level: usize) -> f64 {
        levels.at(level).disk_bytes as f64 / self.target_bytes(level) as f64
    }

    fn tombstone_job(&self, view: &TableView<'_>) -> Option<Plan> {
        let mut preferred: Vec<&SSTableView> = view.free().collect();
        preferred.sort_by(|a, b| b.level.cmp(&a.level).then(b.droppable_ratio.total_cmp(&a.droppable_ratio)));
        self.tombstones.plan(view, preferred, |sstable| self.layout_of(sstable.level as usize))
    }
}

impl Strategy for Leveled {
    fn name(&self) -> &'static str {
        "LeveledCompactionStrategy"
    }

    fn level_limits(&self) -> Vec<u64> {
        (0..LEVELS).map(|level| self.target_bytes(level) / self.sstable_bytes.max(1)).collect()
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        let levels = Levels::new(view.sstables);
        let top = levels.top();
        self.last_compacted_keys.get_or_insert_with(|| Self::keys_found(&levels));
        for level in 1..=top {
            let overlap = levels.at(level).first_overlap();
            if !overlap.is_empty() && overlap.iter().all(|sstable| sstable.is_free()) {
                let reason = Reason::LevelOverlap { level: level as u32, sstables: overlap.len() };
                return Some(self.plan(view, overlap.to_vec(), level, reason));
            }
        }
        for level in (1..=top).rev().filter(|level| self.score(&levels, *level) > SCORE_MAX) {
            if levels.at(0).sstables.len() > LEVEL_ZERO_MAX
                && let Some(plan) = self.merged_by_size(view, levels.at(0))
            {
                return Some(plan);
            }
            let bytes = levels.at(level).disk_bytes;
            let target_bytes = self.target_bytes(level);
            let reason = Reason::LevelTooLarge { level: level as u32, bytes, target_bytes };
            if let Some(plan) = self.one_level_up(view, &levels, level, reason) {
                return Some(plan);
            }
        }
        let pushed = || {
            (2..=top).rev().find_map(|level| {
                let (below, here) = (levels.at(level - 1), levels.at(level));
                let is_due = !below.is_empty()
                    && !here.is_empty()
                    && here.disk_bytes < self.fanout.saturating_mul(below.disk_bytes);
                let reason = Reason::LevelRatio { level: level as u32 - 1 };
                if is_due { self.one_level_up(view, &levels, level - 1, reason) } else { None }
            })
        };
        self.level_zero(view, &levels).or_else(pushed).or_else(|| self.tombstone_job(view))
    }

    fn finished(&mut self, finished: &Finished<'_>) {
        if finished.plan.inputs.is_empty() {
            return;
        }
        let from = (finished.input_level as usize).min(LEVELS - 1);
        let to = (finished.plan.layout.level as usize).min(LEVELS - 1);
        if let (Some(keys), Some(last)) = (&mut self.last_compacted_keys, &finished.last_key) {
            keys[from] = Some(last.clone());
        }
        self.jobs_without[1..].iter_mut().for_each(|jobs| *jobs = jobs.saturating_add(1));
        self.jobs_without[to] = 0;
    }

    /// Merges everything into the lowest level of sufficient size. If some SSTables are not free, the output
    /// goes to level 0, since it may overlap them.
    fn major(&mut self, view: &TableView<'_>, _split: bool) -> Vec<Plan> {
        let free: Vec<&SSTableView> = view.free().collect();
        if free.is_empty() {
            return vec![];
        }
        let bytes = free.iter().map(|sstable| sstable.data_bytes).sum();
        let level = if free.len() == view.sstables.len() { self.ideal_level(bytes) } else { 0 };
        vec![Plan {
            inputs: free.iter().map(|sstable| sstable.id).collect::<Vec<SSTableId>>(),
            expired: vec![],
            layout: self.layout_of(level),
            reason: Reason::Asked("compact"),
            release_early: false,
        }]
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        reshape::of_levels(self, view, mode)
    }

    fn layout(&self, level: u32) -> Layout {
        self.layout_of(level as usize)
    }

    fn runs_in_parallel(&self) -> bool {
        false
    }

    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let plan = self.clone().next(view);
        let taken = Taken::of(plan.as_ref());
        let levels = Levels::new(view.sstables);
        let of_level = |level: usize| {
            let here = levels.at(level);
            let bytes = here.disk_bytes;
            let target_bytes = if level == 0 { self.sstable_bytes } else { self.target_bytes(level) };
            let otherwise = match bytes <= target_bytes {
                true => Verdict::BelowTarget { target_bytes },
                false => Verdict::Behind,
            };
            let sstables = &here.sstables;
            let candidates = match sstables.is_empty() {
                true => vec![],
                false => vec![candidate(sstables, taken.or(sstables.iter().copied(), otherwise))],
            };
            Attempt { rule: format!("level {level}").into(), candidates }
        };
        let mut attempts: Vec<Attempt> = (0..=levels.top()).map(of_level).collect();
        attempts.push(of_tombstones(view, &self.tombstones, &taken));
        explanation(self.name(), view, attempts, plan)
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let levels = Levels::new(view.sstables);
        (0..LEVELS)
            .map(|level| {
                let over = levels.at(level).disk_bytes as f64 - SCORE_MAX * self.target_bytes(level) as f64;
                (over / self.sstable_bytes as f64).ceil().max(0.0) as u64
            })
            .sum()
    }

    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        let levels = Levels::new(view.sstables);
        let zero = levels.at(0).sstables.iter().copied();
        let top = levels.top();
        let sizes: Vec<(u64, usize)> = (0..=top)
            .map(|level| {
                let sstables = &levels.at(level).sstables;
                (sstables.iter().map(|sstable| sstable.data_bytes).sum(), sstables.len())
            })
            .collect();
        backlog::of_tiers(&self.tiering, singles(zero), view.now_s())
            + backlog::of_levels(&sizes, self.sstable_bytes, self.fanout)
    }
}
