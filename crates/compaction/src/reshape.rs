//! SSTables that came from elsewhere (by `sstableloader`, from a snapshot, from another strategy) are brought into the
//! strategy's form before they are part of what it looks after.
//!
//! Runs of jobs, each asked for with what the one before left, until there is none. Tombstones are not purged by them: the
//! rest of the table is not known to them.

use crate::leveled::{LEVELS, Leveled, Levels};
use crate::overlap::count_max;
use crate::plan::{Layout, Plan, Reason};
use crate::tiers::{Run, Tiering};
use crate::time_window::TimeWindow;
use crate::view::{SSTableId, SSTableView, TableView};

/// How far from its form a table may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// What was loaded into a table that runs.
    Strict,
    /// When the node starts: only what would harm.
    Relaxed,
}

fn plan(inputs: Vec<SSTableId>, layout: Layout) -> Option<Plan> {
    let reason = Reason::Reshape { sstables: inputs.len() };
    let release_early = layout.max_bytes.is_some();
    Some(Plan { inputs, expired: vec![], layout, reason, release_early })
}

fn by_first<'a>(mut runs: Vec<Run<'a>>) -> Vec<Run<'a>> {
    runs.sort_by(|a, b| a.sstables[0].first.cmp(&b.sstables[0].first));
    runs
}

/// Of sizes: all at once if they hardly overlap, otherwise a bucket that has too many. O(n log n).
pub fn of_tiers(
    tiering: &Tiering,
    runs: Vec<Run<'_>>,
    now_s: u32,
    mode: Reshape,
    layout: Layout,
) -> Option<Plan> {
    let at_once = tiering.max_threshold.max(32);
    let threshold = match mode {
        Reshape::Strict => tiering.min_threshold.max(4),
        Reshape::Relaxed => tiering.max_threshold,
    };
    let overlap = || count_max(runs.iter().flat_map(|run| run.sstables.iter().copied()));
    if mode == Reshape::Strict && runs.len() >= threshold && overlap() <= at_once {
        return plan(crate::ids(&by_first(runs)), layout);
    }
    let full = tiering.buckets(runs, now_s).into_iter().find(|bucket| bucket.runs.len() >= threshold)?;
    plan(crate::ids(by_first(full.runs).iter().take(at_once)), layout)
}

/// Of levels: what does not overlap goes where there is room for it; too much in level 0 is merged; a level whose SSTables
/// overlap is merged as a whole. O(n log n).
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

/// Of windows: SSTables with writes of several windows first, those with the oldest data and as many as take a tenth of
/// the free space; then window by window as of sizes. O(n log n).
pub fn of_windows(strategy: &TimeWindow, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
    use crate::strategy::Strategy as _;
    let layout = strategy.layout(0);
    let spans =
        |s: &&SSTableView| strategy.window_of(s.min_timestamp_us) != strategy.window_of(s.max_timestamp_us);
    let mut spanning: Vec<&SSTableView> = view.free().filter(spans).collect();
    spanning.sort_by_key(|sstable| (sstable.max_timestamp_us, sstable.id));
    if !spanning.is_empty() {
        let (target_bytes, mut bytes) = (view.disk.free_bytes / 10, 0);
        let fits = |sstable: &&SSTableView| {
            let is_first = bytes == 0;
            bytes += sstable.disk_bytes;
            is_first || bytes <= target_bytes
        };
        return plan(spanning.into_iter().take_while(fits).map(|sstable| sstable.id).collect(), layout);
    }
    strategy.windows(view.free()).into_values().find_map(|sstables| {
        let runs = sstables.into_iter().map(Run::of_one).collect();
        of_tiers(&strategy.tiering, runs, view.now_s(), mode, layout.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MB, Table};
    use crate::{SizeTiered, Strategy};

    #[track_caller]
    fn check(strategy: &dyn Strategy, mode: Reshape, table: &str, expect: &str) {
        let table = Table::new(table);
        assert_eq!(table.say(strategy.reshape(&table.view(), mode).as_ref()), expect);
    }

    #[test]
    fn of_sizes_all_at_once_if_they_hardly_overlap() {
        let stcs = SizeTiered::default();
        check(&stcs, Reshape::Strict, "100, 9 0-9, 500 10-90, 7 5-9", "merge a b c d");
        check(&stcs, Reshape::Strict, "100, 9 0-9, 500 10-90", "nothing");
        check(&stcs, Reshape::Relaxed, "100, 9 0-9, 500 10-90, 7 5-9", "nothing");
        let many = vec!["100"; 33].join(",") + ", 500, 500";
        let table = Table::new(&many);
        let plan = stcs.reshape(&table.view(), Reshape::Strict).expect("a plan");
        assert_eq!(plan.inputs.len(), 32);
        assert!(plan.inputs.iter().all(|id| id.0 <= 33));
        assert!(stcs.reshape(&table.view(), Reshape::Relaxed).is_some());
    }

    #[test]
    fn of_levels() {
        let lcs = Leveled::new(10 * MB, 10);
        check(&lcs, Reshape::Strict, "10 0-9, 10 10-19, 90 20-90", "merge a b c into level 2 of 10 MB each");
        check(&lcs, Reshape::Strict, "10 0-9", "nothing");
        check(&lcs, Reshape::Strict, "10, 10, 10, 10, 10", "merge a b c d e");
        check(&lcs, Reshape::Strict, "10, 10, 10, 10", "nothing");
        check(&lcs, Reshape::Relaxed, "10, 10, 10, 10, 10", "nothing");
        let overlapping = "a 9 L1 0-9, b 9 L1 5-20, c 9 L1 50-60";
        check(&lcs, Reshape::Strict, overlapping, "merge a b c into level 1 of 10 MB each");
        check(&lcs, Reshape::Relaxed, overlapping, "nothing");
        let many = ["9 L1"; 12].join(",");
        assert!(lcs.reshape(&Table::new(&many).view(), Reshape::Relaxed).is_some());
    }

    #[test]
    fn of_windows() {
        let twcs = TimeWindow::new(100_000_000);
        check(&twcs, Reshape::Strict, "9 t1-301, 9 t2-201, 9 t3-4", "merge a b by 100 s");
        check(&twcs, Reshape::Strict, "9 t1, 9 t2, 9 t3, 9 t4, 9 t101", "merge a b c d by 100 s");
        check(&twcs, Reshape::Strict, "9 t1, 9 t2, 9 t3, 9 t101", "nothing");
        let mut table = Table::new("9 t1-301, 9 t2-201, 9 t3-401");
        table.disk.free_bytes = 200 * MB;
        assert_eq!(table.say(twcs.reshape(&table.view(), Reshape::Strict).as_ref()), "merge a b by 100 s");
        table.disk.free_bytes = 0;
        assert_eq!(table.say(twcs.reshape(&table.view(), Reshape::Strict).as_ref()), "merge b by 100 s");
    }
}
