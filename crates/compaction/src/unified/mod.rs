//! `UnifiedCompactionStrategy`: merges overlapping SSTables of similar **density**. One parameter
//! ([`scaling`]) selects a point between tiers and levels. SSTables are split at boundaries of the ring
//! ([`shards`]), so that parts of the ring are merged independently.
//!
//! 1. Every `expired_sstable_check_frequency_seconds` the strategy searches for expired SSTables; they are
//!    dropped with the next job.
//! 2. SSTables are assigned to levels by density. Level 0 ends at the density that SSTables of a flush reach
//!    after one merge; each next level is denser by the fan-out.
//! 3. For each level, the largest number of SSTables that overlap at one key is counted. The level with the
//!    highest number is chosen, the lowest among equals, if it reaches the level's threshold.
//! 4. In this level, one of the places with the most overlapping SSTables is chosen by the seed. Overlapping
//!    SSTables are added by `overlap_inclusion_method`. If there are too many, only the oldest are merged, so
//!    that the output has the density of a level.
//!
//! A decision takes O(n log² n).

pub mod scaling;
pub mod shards;

use model::PartitionKey;
use scaling::Scaling;
use shards::{Sharding, density};

use crate::considered::{Taken, candidate, explanation, of_expired, of_tombstones};
use crate::explain::{Attempt, Explanation, Verdict};
use crate::leveled::range;
use crate::overlap::{count_max, groups};
use crate::plan::{Layout, Plan, Reason};
use crate::sstable_id::SSTableId;
use crate::strategy::Strategy;
use crate::tombstones::{TombstoneRules, drop_plan, fully_expired};
use crate::view::{SSTableView, TableView};

const MIB: u64 = 1 << 20;
/// Upper limit on the number of levels that any density reaches.
const LEVELS_MAX: usize = 64;

/// SSTables merged in addition to those that overlap at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    /// None.
    None,
    /// SSTables that overlap one of them.
    Single,
    /// Also SSTables that overlap those, and so on.
    Transitive,
}

/// The strategy; see the head of this file.
#[derive(Clone, Debug)]
pub struct Unified {
    /// By level, at least one; the last one applies to all higher levels.
    pub scaling: Vec<Scaling>,
    /// Into how many parts of the ring the output of a level is cut.
    pub sharding: Sharding,
    /// Which overlapping SSTables join a merge.
    pub inclusion: Inclusion,
    /// Maximum number of SSTables merged at one place; `None`: no limit.
    pub sstables_max: Option<usize>,
    /// Size of a flush in bytes, instead of the observed size.
    pub flush_bytes_override: Option<u64>,
    /// Estimate of the fraction of the bytes that remains after a merge.
    pub survival: f64,
    /// Seconds between two searches for expired SSTables.
    pub expired_check_s: u32,
    /// Whether expired SSTables are dropped even if their tombstones delete data elsewhere.
    pub ignores_overlaps: bool,
    /// When an SSTable is rewritten for its tombstones alone.
    pub tombstones: TombstoneRules,
    pub(crate) flush_bytes: u64,
    pub(crate) checked_s: Option<u32>,
}

impl Default for Unified {
    fn default() -> Self {
        Self {
            scaling: vec![Scaling(2)],
            sharding: Sharding::default(),
            inclusion: Inclusion::Transitive,
            sstables_max: None,
            flush_bytes_override: None,
            survival: 1.0,
            expired_check_s: 600,
            ignores_overlaps: false,
            tombstones: TombstoneRules::default(),
            flush_bytes: 0,
            checked_s: None,
        }
    }
}

/// The SSTables of a density level.
struct DensityLevel<'a> {
    index: usize,
    sstables: Vec<&'a SSTableView>,
    /// The largest number of SSTables that overlap at one key.
    overlap: usize,
}

impl Unified {
    fn scaling_at(&self, level: usize) -> Scaling {
        self.scaling.get(level).or(self.scaling.last()).copied().unwrap_or(Scaling(2))
    }

    /// The assumed size of a flush: it stays the same unless the observed size differs by more than half.
    fn flush_bytes(&self, view: &TableView<'_>) -> u64 {
        match self.flush_bytes_override {
            Some(bytes) => bytes,
            None if view.flush_bytes.abs_diff(self.flush_bytes) > self.flush_bytes / 2 => {
                view.flush_bytes.div_ceil(MIB) * MIB
            }
            None => self.flush_bytes,
        }
    }

    fn levels<'a>(&self, mut sstables: Vec<&'a SSTableView>, flush_bytes: u64) -> Vec<DensityLevel<'a>> {
        sstables.sort_by(|a, b| density(a).total_cmp(&density(b)).then(a.id.cmp(&b.id)));
        let fanout = |level: usize| self.scaling_at(level).fanout() as f64;
        let base = flush_bytes.max(MIB) as f64 * (1.0 - 0.9 / fanout(0));
        let mut index = 0;
        let mut end = base * fanout(0) * self.survival;
        let mut levels: Vec<DensityLevel<'a>> = vec![];
        for sstable in sstables {
            while density(sstable) >= end && index < LEVELS_MAX {
                index += 1;
                end *= fanout(index) * self.survival;
            }
            match levels.last_mut() {
                Some(level) if level.index == index => level.sstables.push(sstable),
                _ => levels.push(DensityLevel { index, sstables: vec![sstable], overlap: 0 }),
            }
        }
        for level in &mut levels {
            level.overlap = count_max(level.sstables.iter().copied());
        }
        levels
    }

    /// The SSTables of one of the level's places with the most overlaps, and those to be included with them.
    fn bucket<'a>(&self, level: &DensityLevel<'a>, seed: u64) -> Vec<&'a SSTableView> {
        let chosen = |count: usize| (seed % count.max(1) as u64) as usize;
        if self.inclusion == Inclusion::Transitive {
            let mut groups = groups(level.sstables.iter().copied());
            groups.retain(|group| count_max(group.iter().copied()) == level.overlap);
            return groups.swap_remove(chosen(groups.len()));
        }
        let places = fullest_places(&level.sstables, level.overlap);
        let at = places[chosen(places.len())];
        let there: Vec<&SSTableView> =
            level.sstables.iter().copied().filter(|s| s.first <= *at && *at <= s.last).collect();
        if self.inclusion == Inclusion::None {
            return there;
        }
        let (first, last) = range(&there);
        level.sstables.iter().copied().filter(|s| s.first <= *last && *first <= s.last).collect()
    }

    /// The whole bucket, or the oldest SSTables if too many overlap.
    fn picked<'a>(&self, level: &DensityLevel<'a>, mut bucket: Vec<&'a SSTableView>) -> Vec<&'a SSTableView> {
        let scaling = self.scaling_at(level.index);
        let (count, fanout) = (level.overlap, scaling.fanout() as usize);
        let max = self.sstables_max.unwrap_or(usize::MAX).max(fanout);
        let limit = if count <= fanout {
            count
        } else if count <= fanout.saturating_mul(self.scaling_at(level.index + 1).fanout() as usize) {
            count.min(max)
        } else {
            let most = count.min(max);
            let mut size = fanout;
            for above in level.index + 1.. {
                let larger = size.saturating_mul(self.scaling_at(above).fanout() as usize);
                if larger > most {
                    break;
                }
                size = larger;
            }
            if scaling.0 < 0 { size * (most / size) } else { size }
        };
        if limit >= count {
            return bucket;
        }
        bucket.sort_by_key(|sstable| (sstable.max_timestamp_us, sstable.id));
        // The overlap grows with the number taken. A binary search finds the largest number within the limit.
        let (mut enough, mut too_many) = (limit, bucket.len());
        while too_many - enough > 1 {
            let middle = enough + (too_many - enough) / 2;
            if count_max(bucket[..middle].iter().copied()) <= limit {
                enough = middle;
            } else {
                too_many = middle;
            }
        }
        bucket.truncate(enough);
        bucket
    }

    fn layout_for(&self, inputs: &[&SSTableView]) -> Layout {
        let (first, last) = range(inputs);
        self.sharding.layout(inputs.iter().map(|sstable| sstable.disk_bytes).sum(), first, last)
    }

    fn expired(&mut self, view: &TableView<'_>) -> Vec<SSTableId> {
        let now_s = view.now_s();
        if self.checked_s.is_some_and(|at_s| now_s < at_s.saturating_add(self.expired_check_s)) {
            return vec![];
        }
        let expired = fully_expired(view, view.sstables, self.ignores_overlaps);
        if expired.is_empty() {
            self.checked_s = Some(now_s);
        }
        expired
    }
}

/// One key of each place where `most` SSTables overlap.
fn fullest_places<'a>(sstables: &[&'a SSTableView], most: usize) -> Vec<&'a PartitionKey> {
    let mut ends: Vec<(&PartitionKey, bool)> =
        sstables.iter().flat_map(|s| [(&s.first, false), (&s.last, true)]).collect();
    ends.sort_unstable();
    let mut open = 0;
    let mut places = vec![];
    for (key, is_last) in ends {
        if is_last {
            open -= 1;
        } else {
            open += 1;
            if open == most {
                places.push(key);
            }
        }
    }
    places
}

impl Strategy for Unified {
    fn name(&self) -> &'static str {
        "UnifiedCompactionStrategy"
    }

    fn next(&mut self, view: &TableView<'_>) -> Option<Plan> {
        self.flush_bytes = self.flush_bytes(view);
        let expired = self.expired(view);
        let gone: base::HashSet<SSTableId> = expired.iter().copied().collect();
        let free = view.free().filter(|sstable| !gone.contains(&sstable.id)).collect();
        let levels = self.levels(free, self.flush_bytes);
        let due = levels
            .iter()
            .rev()
            .filter(|level| level.overlap >= self.scaling_at(level.index).threshold())
            .max_by_key(|level| level.overlap);
        if let Some(level) = due {
            let inputs = self.picked(level, self.bucket(level, view.seed));
            return Some(Plan {
                layout: self.layout_for(&inputs),
                inputs: inputs.iter().map(|sstable| sstable.id).collect(),
                expired,
                reason: Reason::Overlap { level: level.index as u32, overlap: level.overlap },
                release_early: false,
            });
        }
        if !expired.is_empty() {
            return Some(drop_plan(expired));
        }
        let mut preferred: Vec<&SSTableView> = view.free().collect();
        preferred.sort_by(|a, b| b.droppable_ratio.total_cmp(&a.droppable_ratio));
        self.tombstones.plan(view, preferred, |sstable| self.layout_for(&[sstable]))
    }

    /// One job for each part of the ring within which SSTables overlap.
    fn major(&mut self, view: &TableView<'_>, _split: bool) -> Vec<Plan> {
        let plan = |group: Vec<&SSTableView>| Plan {
            inputs: group.iter().map(|sstable| sstable.id).collect(),
            expired: vec![],
            layout: self.layout_for(&group),
            reason: Reason::Asked("compact"),
            release_early: false,
        };
        groups(view.free()).into_iter().map(plan).collect()
    }

    fn layout(&self, _level: u32) -> Layout {
        self.sharding.layout_of_all(self.flush_bytes_override.unwrap_or(self.flush_bytes))
    }

    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let plan = self.clone().next(view);
        let taken = Taken::of(plan.as_ref());
        let mut attempts = vec![of_expired(view, self.ignores_overlaps, &taken)];
        let of_level = |level: DensityLevel<'_>| {
            let (overlap, threshold) = (level.overlap, self.scaling_at(level.index).threshold());
            let otherwise = match overlap < threshold {
                true => Verdict::OverlapTooSmall { overlap, threshold },
                false => Verdict::Behind,
            };
            let verdict = taken.or(level.sstables.iter().copied(), otherwise);
            let rule = format!("level {} of density", level.index).into();
            Attempt { rule, candidates: vec![candidate(&level.sstables, verdict)] }
        };
        let levels = self.levels(view.free().collect(), self.flush_bytes(view));
        attempts.extend(levels.into_iter().filter(|level| !level.sstables.is_empty()).map(of_level));
        attempts.push(of_tombstones(view, &self.tombstones, &taken));
        explanation(self.name(), view, attempts, plan)
    }

    fn pending(&self, view: &TableView<'_>) -> u64 {
        let of_level = |level: DensityLevel<'_>| {
            let scaling = self.scaling_at(level.index);
            let of_group = |group: Vec<&SSTableView>| {
                let overlap = count_max(group);
                let jobs = overlap.div_ceil(scaling.fanout() as usize) as u64;
                if overlap >= scaling.threshold() { jobs } else { 0 }
            };
            groups(level.sstables).into_iter().map(of_group).sum::<u64>()
        };
        self.levels(view.free().collect(), self.flush_bytes(view)).into_iter().map(of_level).sum()
    }

    /// The bytes of the levels that are due, counted once for each level up to the densest.
    fn backlog_bytes(&self, view: &TableView<'_>) -> f64 {
        let levels = self.levels(view.sstables.iter().collect(), self.flush_bytes(view));
        let top = levels.last().map_or(0, |level| level.index);
        let is_due = |level: &&DensityLevel<'_>| level.overlap >= self.scaling_at(level.index).threshold();
        let of_level = |level: &DensityLevel<'_>| {
            let bytes: u64 = level.sstables.iter().map(|sstable| sstable.data_bytes).sum();
            bytes as f64 * (top - level.index).max(1) as f64
        };
        levels.iter().filter(is_due).map(of_level).sum()
    }
}
