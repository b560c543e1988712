//! One page out of the pages of several shards.
//!
//! Each shard answers with the first partitions it has, up to a page. Of all of them the first by token are the
//! answer. A shard that stopped early may have more partitions behind its last one, so nothing behind the place
//! where the first such shard stopped is taken: it comes with the next page.

use model::PartitionKey;

use reader::{Page, PartitionPage};
use reader::{PagingState, ReadCommand};

/// Merges the pages that shards gave for `command`. No partition is on more than one of them.
pub fn merge_pages(command: &ReadCommand, pages: Vec<Page>) -> Page {
    let tombstones = pages.iter().map(|page| page.tombstones).sum();
    // Up to where every shard has told all it has.
    let known_to: Option<PagingState> =
        pages.iter().filter_map(|page| page.next.clone()).min_by(|a, b| a.key.cmp(&b.key));
    let mut partitions: Vec<PartitionPage> = pages.into_iter().flat_map(|page| page.partitions).collect();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let remaining_before = command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
    let limit = command.page_rows.max(1).min(remaining_before);
    let mut page = Page { tombstones, ..Page::default() };
    let mut rows = 0;
    let stop = |key: &PartitionKey, row, partition_rows, rows: u64| PagingState {
        key: key.clone(),
        row,
        partition_rows,
        remaining_rows: remaining_before - rows,
        read_id: command.paging.as_ref().map_or(command.read_id, |paging| paging.read_id),
    };
    for mut partition in partitions {
        let is_last_known = known_to.as_ref().is_some_and(|known| known.key == partition.key);
        if known_to.as_ref().is_some_and(|known| partition.key > known.key) {
            break;
        }
        let resumed = command.paging.as_ref().filter(|paging| paging.key == partition.key);
        let resumed_rows = resumed.map_or(0, |paging| paging.partition_rows);
        let room = limit - rows;
        if partition.row_count() > room {
            partition.rows.truncate(room as usize);
            rows += room;
            if room > 0 {
                let last = partition.rows.last().map(|row| row.key.clone());
                let partition_rows = resumed_rows + partition.rows.len() as u64;
                page.next = Some(stop(&partition.key, last, partition_rows, rows));
                page.partitions.push(partition);
            }
            break;
        }
        rows += partition.row_count();
        page.next = Some(match known_to.as_ref().filter(|_| is_last_known) {
            Some(known) => stop(&partition.key, known.row.clone(), known.partition_rows, rows),
            None => stop(&partition.key, None, 0, rows),
        });
        page.partitions.push(partition);
        if is_last_known || rows == limit {
            break;
        }
    }
    // Nothing was left out: there is no next page.
    let complete = known_to.is_none() && rows < limit;
    if complete || page.next.as_ref().is_some_and(|next| next.remaining_rows == 0) {
        page.next = None;
    }
    page
}
