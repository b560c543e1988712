//! Which SSTables a `garbagecollect` writes anew, and which others know what is dead in them.
//!
//! A row that a newer SSTable deletes, or a cell that it overwrites, is never read, and still takes its place until both
//! are merged. Rewritten beside the newer one it goes at once; the deletion stays where it is, so its age does not
//! matter. The oldest are rewritten first: what is gone from them keeps no tombstone of the next ones.

use crate::plan::{Layout, Plan, Reason};
use crate::view::{SSTableId, SSTableView, TableView};

/// What counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Partitions and rows that a newer SSTable deletes.
    Row,
    /// Those, and cells that a newer one deletes or overwrites.
    Cell,
}

/// The SSTables that may hold something dead, the one whose newest write is the oldest first.
pub fn candidates(view: &TableView<'_>, granularity: Granularity) -> Vec<SSTableId> {
    let mut found: Vec<&SSTableView> = (view.free())
        .filter(|sstable| {
            sstable.may_delete || view.sstables.iter().any(|other| shadows(other, sstable, granularity))
        })
        .collect();
    found.sort_by_key(|sstable| (sstable.max_timestamp_us, sstable.id));
    found.into_iter().map(|sstable| sstable.id).collect()
}

/// The SSTables that may delete something in `id`, or overwrite it.
pub fn shadows_of(view: &TableView<'_>, id: SSTableId, granularity: Granularity) -> Vec<SSTableId> {
    let Some(sstable) = view.find(id) else { return vec![] };
    let shadows = view.sstables.iter().filter(|other| shadows(other, sstable, granularity));
    shadows.map(|other| other.id).collect()
}

/// A deletion as old as what it deletes deletes it.
fn shadows(other: &SSTableView, sstable: &SSTableView, granularity: Granularity) -> bool {
    other.id != sstable.id
        && other.overlaps(sstable)
        && other.max_timestamp_us >= sstable.min_timestamp_us
        && (granularity == Granularity::Cell || other.may_delete)
}

/// Rewrites `id` alone; `None` if it is not there any more, or not free. `layout` says how an SSTable of its level is cut.
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
