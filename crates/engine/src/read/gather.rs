//! Merges the pages of several shards into one.
//!
//! Each shard returns its first partitions, up to a page. The result is the first of all these partitions by
//! token. A shard that stopped early may have more partitions after its last one, so the result ends where
//! the first such shard stopped; later partitions come with the next page.

use reader::{Page, PartitionPage};
use reader::{PagePlace, PagingState, ReadCommand, UnfinishedPartition};

/// Merges the pages that shards returned for `command`. Each partition is on one of them only.
pub fn merge_pages(command: &ReadCommand, pages: Vec<Page>) -> Page {
    let tombstones = pages.iter().map(|page| page.tombstones).sum();
    let newest_deletion_us = pages.iter().filter_map(|page| page.newest_deletion_us).max();
    // The position up to which every shard has returned all its data.
    let known_to: Option<PagingState> =
        pages.iter().filter_map(|page| page.next.clone()).min_by(|a, b| a.place.key().cmp(b.place.key()));
    let mut partitions: Vec<PartitionPage> = pages.into_iter().flat_map(|page| page.partitions).collect();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let remaining_before = command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
    let limit = command.page_rows.max(1).min(remaining_before);
    let mut page = Page { tombstones, newest_deletion_us, ..Page::default() };
    let mut rows = 0;
    let mut is_full = false;
    let stop = |place: PagePlace, rows: u64| PagingState {
        place,
        remaining_rows: remaining_before - rows,
        read_id: command.paging.as_ref().map_or(command.read_id, |paging| paging.read_id),
    };
    for mut partition in partitions {
        let is_last_known = known_to.as_ref().is_some_and(|known| *known.place.key() == partition.key);
        if known_to.as_ref().is_some_and(|known| partition.key > *known.place.key()) {
            break;
        }
        let resumed = command.paging.as_ref().and_then(PagingState::unfinished);
        let resumed_rows =
            resumed.filter(|resumed| resumed.key == partition.key).map_or(0, |resumed| resumed.shown_rows);
        let room = limit - rows;
        if partition.row_count() > room {
            partition.rows.truncate(room as usize);
            rows += room;
            is_full = true;
            if let Some(last) = partition.rows.last() {
                let unfinished = UnfinishedPartition {
                    key: partition.key.clone(),
                    last_row: last.key.clone(),
                    shown_rows: resumed_rows + partition.rows.len() as u64,
                };
                page.next = Some(stop(PagePlace::Inside(unfinished), rows));
                page.partitions.push(partition);
            }
            break;
        }
        rows += partition.row_count();
        page.next = Some(stop(PagePlace::AfterPartition(partition.key.clone()), rows));
        page.partitions.push(partition);
        if is_last_known {
            break;
        }
        if rows == limit {
            is_full = true;
            break;
        }
    }
    // All known partitions were taken. The partition at its end may be absent, if all of it is dead.
    if !is_full {
        page.next = known_to.map(|known| PagingState { remaining_rows: remaining_before - rows, ..known });
    }
    if page.next.as_ref().is_some_and(|next| next.remaining_rows == 0) {
        page.next = None;
    }
    page
}
