//! Reshape: brings SSTables from elsewhere (from `sstableloader`, a snapshot or another strategy) into the
//! strategy's form before they are added to its table.
//!
//! A reshape is a sequence of jobs, each planned from the outputs of the previous one, until there is no
//! further job. The jobs do not purge tombstones, because they do not have the rest of the table in their
//! view.

use crate::overlap::count_max;
use crate::plan::{Layout, Plan, Reason};
use crate::sstable_id::SSTableId;
use crate::tiers::{Run, Tiering};

/// The deviation from the strategy's form that is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// For SSTables loaded into a table in use.
    Strict,
    /// For the start of the node: only deviations that do harm are corrected.
    Relaxed,
}

/// A job that brings `inputs` into form.
pub(crate) fn plan(inputs: Vec<SSTableId>, layout: Layout) -> Option<Plan> {
    let reason = Reason::Reshape { sstables: inputs.len() };
    let release_early = layout.max_bytes.is_some();
    Some(Plan { inputs, expired: vec![], layout, reason, release_early })
}

fn by_first<'a>(mut runs: Vec<Run<'a>>) -> Vec<Run<'a>> {
    runs.sort_by(|a, b| a.sstables[0].first.cmp(&b.sstables[0].first));
    runs
}

/// Reshape by sizes: merges all SSTables at once if they hardly overlap, or else a bucket with too many. O(n
/// log n).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leveled::Leveled;
    use crate::testing::{MB, Table};
    use crate::time_window::TimeWindow;
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
