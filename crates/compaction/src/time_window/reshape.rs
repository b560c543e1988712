//! Reshape into windows: splits SSTables from elsewhere by time windows and merges those of one window.

use super::TimeWindow;
use crate::plan::Plan;
use crate::reshape::{Reshape, of_tiers, plan};
use crate::strategy::Strategy;
use crate::tiers::Run;
use crate::view::{SSTableView, TableView};

/// The next job of a reshape into windows. SSTables that span several windows come first: those with the
/// oldest data, together at most a tenth of the free space, but at least one. Then the SSTables of each
/// window are reshaped by sizes ([`of_tiers`]). O(n log n).
pub fn of_windows(strategy: &TimeWindow, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
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
