//! Chooses the SSTables that `garbagecollect` rewrites, and the other SSTables that shadow data in them.
//!
//! A row that a newer SSTable deletes, or a cell that it overwrites, is never read, but it occupies disk
//! space until both SSTables are merged. `garbagecollect` removes it earlier: it rewrites the SSTable and
//! reads the newer one beside it. The deletion stays in the newer SSTable, so its age does not matter. The
//! oldest SSTables are rewritten first: data removed from them no longer keeps the tombstones of the next
//! ones.

use crate::plan::{Layout, Plan, Reason};
use crate::sstable_id::SSTableId;
use crate::view::{SSTableView, TableView};

/// Which data counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Partitions and rows that a newer SSTable deletes.
    Row,
    /// As `Row`, and cells that a newer SSTable deletes or overwrites.
    Cell,
}

/// The SSTables that may contain dead data, ordered by their newest write, oldest first.
pub fn candidates(view: &TableView<'_>, granularity: Granularity) -> Vec<SSTableId> {
    let mut found: Vec<&SSTableView> = (view.free())
        .filter(|sstable| {
            sstable.may_delete || view.sstables.iter().any(|other| shadows(other, sstable, granularity))
        })
        .collect();
    found.sort_by_key(|sstable| (sstable.max_timestamp_us, sstable.id));
    found.into_iter().map(|sstable| sstable.id).collect()
}

/// The SSTables that may delete or overwrite data in `id`.
pub fn shadows_of(view: &TableView<'_>, id: SSTableId, granularity: Granularity) -> Vec<SSTableId> {
    let Some(sstable) = view.find(id) else { return vec![] };
    let shadows = view.sstables.iter().filter(|other| shadows(other, sstable, granularity));
    shadows.map(|other| other.id).collect()
}

/// Whether `other` may shadow data in `sstable`. A deletion also deletes data with the same timestamp.
fn shadows(other: &SSTableView, sstable: &SSTableView, granularity: Granularity) -> bool {
    other.id != sstable.id
        && other.overlaps(sstable)
        && other.max_timestamp_us >= sstable.min_timestamp_us
        && (granularity == Granularity::Cell || other.may_delete)
}

/// The SSTables that may delete or overwrite data in the inputs of `plan`, and that still exist after the
/// job.
///
/// Inputs of other jobs are excluded: of two equal cells, each of two jobs would drop its own because of the
/// other's.
pub fn shadows_of_plan(view: &TableView<'_>, plan: &Plan, granularity: Granularity) -> Vec<SSTableId> {
    let inputs: Vec<&SSTableView> = plan.inputs.iter().filter_map(|id| view.find(*id)).collect();
    let stays = |other: &&SSTableView| {
        !other.compacting && !plan.inputs.contains(&other.id) && !plan.expired.contains(&other.id)
    };
    let found = view.sstables.iter().filter(stays);
    found
        .filter(|other| inputs.iter().any(|input| shadows(other, input, granularity)))
        .map(|other| other.id)
        .collect()
}

/// Rewrites `id` alone; `None` if the SSTable no longer exists or is not free. `layout` returns the layout
/// for a level.
pub fn plan(view: &TableView<'_>, id: SSTableId, layout: impl FnOnce(u32) -> Layout) -> Option<Plan> {
    let sstable = view.find(id).filter(|sstable| sstable.is_free())?;
    Some(Plan {
        inputs: vec![id],
        expired: vec![],
        layout: layout(sstable.level),
        reason: Reason::Asked("garbagecollect"),
        release_early: false,
    })
}
