//! Reshape into levels: moves or merges SSTables from elsewhere until no level has overlaps.

use super::Leveled;
use super::levels::{LEVELS, Levels};
use crate::plan::Plan;
use crate::reshape::{Reshape, of_tiers, plan};
use crate::tiers::Run;
use crate::view::TableView;

/// The next job of a reshape into levels. SSTables of level 0 that do not overlap go to the level that fits
/// their size; otherwise too many SSTables in level 0 are merged by size; otherwise a level with too many
/// overlaps is merged as a whole. O(n log n).
pub fn of_levels(strategy: &Leveled, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
    let levels = Levels::new(view.free());
    let zero = levels.at(0);
    if levels.top() == 0 && zero.sstables.len() > 1 && zero.first_overlap().is_empty() {
        let bytes = zero.sstables.iter().map(|sstable| sstable.data_bytes).sum();
        let level = strategy.ideal_level(bytes).max(1);
        let inputs = zero.sstables.iter().map(|sstable| sstable.id).collect();
        return plan(inputs, strategy.layout_of(level));
    }
    let threshold = match mode {
        Reshape::Strict => strategy.tiering.min_threshold.max(4),
        Reshape::Relaxed => strategy.tiering.max_threshold,
    };
    if zero.sstables.len() > threshold {
        let runs = zero.sstables.iter().copied().map(Run::of_one).collect();
        let job = of_tiers(&strategy.tiering, runs, view.now_s(), mode, strategy.layout_of(0));
        if job.is_some() {
            return job;
        }
    }
    let tolerated = |level: usize| match mode {
        Reshape::Strict => 0,
        Reshape::Relaxed => 10usize.saturating_pow(level as u32 - 1).max(10),
    };
    (1..LEVELS).rev().find_map(|level| {
        let sstables = &levels.at(level).sstables;
        let overlaps = sstables.windows(2).filter(|pair| pair[1].first <= pair[0].last).count();
        if overlaps <= tolerated(level) {
            return None;
        }
        plan(sstables.iter().map(|sstable| sstable.id).collect(), strategy.layout_of(level))
    })
}
