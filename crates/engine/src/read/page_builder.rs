//! Builds a page: takes rows from a reader until the page has enough rows, bytes, or tombstones.

use std::rc::Rc;

use model::{ClusteringRow, PartitionKey, Row, TableSchema};
use reader::{
    Charge, Fragment, LimitExceeded, Page, PagePlace, PagingState, PartitionPage, Passed, ReadCommand,
    ReadError, Reader, Step, UnfinishedPartition,
};
use runtime::Shard;

use super::page::PageLimits;
use crate::error::EngineError;
use crate::table::open_read::OpenRead;

/// Number of fragments between two checks whether the turn is over. The first fragment is checked too, so
/// that a task with many short reads yields.
const FRAGMENTS_A_CHECK: u64 = 16;

/// The step in which memory of a page is charged.
const CHARGE_STEP_BYTES: u64 = 16 * 1024;

/// See the head of this file.
pub(super) struct PageBuilder {
    page: Page,
    rows: u64,
    bytes: u64,
    page_rows_max: u64,
    page_bytes_max: u64,
    remaining_rows: u64,
    partition_limit_rows: u64,
    /// Rows of the current partition on earlier pages.
    resumed_rows: u64,
    /// Set when the page has ended: the position of the next one.
    pub(super) next: Option<PagingState>,
    page_tombstones_max: u64,
    limits: PageLimits,
    read_id: u64,
    /// The charge for the rows of the page.
    charge: Charge,
}

impl PageBuilder {
    pub(super) fn new(command: &ReadCommand, limits: &PageLimits, read_id: u64) -> Self {
        let remaining_rows =
            command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
        Self {
            page: Page::default(),
            rows: 0,
            bytes: 0,
            page_rows_max: command.page_rows.max(1).min(remaining_rows),
            page_bytes_max: command.page_bytes,
            remaining_rows,
            partition_limit_rows: command.partition_limit_rows,
            resumed_rows: 0,
            next: None,
            page_tombstones_max: command.page_tombstones,
            limits: limits.clone(),
            read_id,
            charge: Charge::new(limits.permit.clone()),
        }
    }

    pub(super) fn resume(&mut self, partition_rows: u64) {
        self.resumed_rows = partition_rows;
    }

    fn set_awaiting(&self, is_awaiting: bool) {
        if let Some(permit) = &self.limits.permit {
            permit.set_awaiting(is_awaiting);
        }
    }

    /// Yields when the turn is over.
    async fn yield_if_due(&self, shard: &Shard) -> Result<(), EngineError> {
        if shard.need_preempt() {
            shard.yield_now().await;
            self.check_deadline(shard)?;
        }
        Ok(())
    }

    fn check_deadline(&self, shard: &Shard) -> Result<(), EngineError> {
        match &self.limits.permit {
            Some(permit) if shard.now_us() >= self.limits.deadline_us => Err(permit.time_out().into()),
            _ => Ok(()),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.page_rows_max || self.bytes >= self.page_bytes_max
    }

    pub(super) async fn fill(&mut self, shard: &Shard, read: &mut OpenRead) -> Result<(), EngineError> {
        if self.remaining_rows == 0 {
            return Ok(());
        }
        let OpenRead { schema, reader, partition: open, .. } = read;
        let tombstones_before = reader.tombstones_seen();
        let earlier_dead = self.page.tombstones;
        let mut fragments = 0u64;
        // The initial charge of every read covers less than a step.
        let mut charged_bytes = self.bytes;
        while !self.is_full() && self.next.is_none() {
            let fragment = match reader.next()? {
                Step::Ready(fragment) => fragment,
                Step::End => break,
                Step::Load => {
                    if let Some(passed) = reader.take_passed() {
                        let key = open.as_ref().map(|open| &open.key).or(reader.held_key());
                        let dead = earlier_dead + reader.tombstones_seen() - tombstones_before;
                        let partition = match &passed {
                            Passed::Partition(key) => Some(key),
                            Passed::Row(_) => key,
                        };
                        self.check_tombstones(schema, dead, partition)?;
                        if dead >= self.page_tombstones_max {
                            let key = key.cloned();
                            self.stop_at(&passed, key, open);
                            break;
                        }
                        self.yield_if_due(shard).await?;
                        continue;
                    }
                    self.set_awaiting(true);
                    let loaded = reader.load().await;
                    self.set_awaiting(false);
                    loaded?;
                    self.check_deadline(shard)?;
                    self.yield_if_due(shard).await?;
                    continue;
                }
            };
            match fragment {
                Fragment::PartitionStart { key, .. } => {
                    *open = Some(PartitionPage { key, static_row: Row::new(), rows: vec![] });
                }
                Fragment::Static(row) => {
                    let open = open.as_mut().expect("a partition is open");
                    open.static_row = Rc::unwrap_or_clone(row);
                }
                Fragment::Row(fragment) => {
                    let row = ClusteringRow { key: fragment.key, row: Rc::unwrap_or_clone(fragment.row) };
                    let partition = open.as_mut().expect("a partition is open");
                    self.rows += 1;
                    self.bytes += row_bytes(&row);
                    if partition.rows.capacity() == 0 {
                        // For many partitions only one row is requested.
                        partition.rows.reserve_exact(1);
                    }
                    partition.rows.push(row);
                    if partition.rows.len() as u64 + self.resumed_rows >= self.partition_limit_rows {
                        reader.skip_partition();
                        self.close(open.take().expect("a partition is open"));
                    } else {
                        let dead = earlier_dead + reader.tombstones_seen() - tombstones_before;
                        if self.is_full() || self.is_past_tombstones(dead) {
                            *open = Some(self.stop_inside(open.take().expect("a partition is open")));
                        }
                    }
                }
                Fragment::PartitionEnd => {
                    if let Some(partition) = open.take() {
                        // The static row of a partition that began on an earlier page is on that page.
                        if !partition.rows.is_empty() || self.resumed_rows == 0 {
                            self.rows += u64::from(partition.rows.is_empty());
                            self.close(partition);
                        }
                    }
                    self.resumed_rows = 0;
                }
                Fragment::Change(_) => unreachable!("a compacted read has no deletions"),
            }
            if self.bytes >= charged_bytes + CHARGE_STEP_BYTES {
                charged_bytes = self.bytes;
                self.charge.grow_to(charged_bytes).await?;
            }
            // Reading the time costs as much as a fragment.
            if fragments.is_multiple_of(FRAGMENTS_A_CHECK) {
                self.yield_if_due(shard).await?;
            }
            fragments += 1;
        }
        self.page.tombstones += reader.tombstones_seen() - tombstones_before;
        self.page.newest_deletion_us = self.page.newest_deletion_us.max(reader.newest_deletion_us());
        // Tombstones before the last row, too few to be reported on the way.
        let last = || self.page.partitions.last().map(|partition| &partition.key);
        self.check_tombstones(schema, self.page.tombstones, open.as_ref().map(|open| &open.key).or_else(last))
    }

    /// Completes a partition, as far as it was requested.
    fn close(&mut self, partition: PartitionPage) {
        self.bytes += partition.key.bytes().len() as u64 + partition.static_row.heap_bytes() as u64;
        if self.is_full() {
            self.next = Some(self.state(PagePlace::AfterPartition(partition.key.clone())));
        }
        self.resumed_rows = 0;
        self.push(partition);
    }

    fn push(&mut self, partition: PartitionPage) {
        if self.page.partitions.capacity() == 0 {
            // A read of one partition needs one.
            self.page.partitions.reserve_exact(1);
        }
        self.page.partitions.push(partition);
    }

    /// Whether the page, after a live row, has met too many tombstones. Checked only for some rows.
    fn is_past_tombstones(&self, dead: u64) -> bool {
        self.rows.is_multiple_of(FRAGMENTS_A_CHECK) && dead >= self.page_tombstones_max
    }

    /// The text is Cassandra's.
    fn check_tombstones(
        &self,
        schema: &TableSchema,
        dead: u64,
        key: Option<&PartitionKey>,
    ) -> Result<(), EngineError> {
        if dead <= self.limits.tombstones_max {
            return Ok(());
        }
        let (token, key) =
            key.map_or((0, String::new()), |key| (key.token(), key.bytes().escape_ascii().to_string()));
        Err(EngineError::Read(ReadError::Limit(LimitExceeded::Tombstones(format!(
            "Scanned over {dead} tombstones during query 'SELECT * FROM {}' (last scanned row token was {token} and partion \
             key was ({key})); query aborted",
            schema.full_name()
        )))))
    }

    /// Ends the page after a dead row or partition. `key`: the partition of a dead row; `open`: its part on
    /// the page, replaced by its beginning on the next page.
    fn stop_at(&mut self, passed: &Passed, key: Option<PartitionKey>, open: &mut Option<PartitionPage>) {
        match (passed, key) {
            (Passed::Row(row), Some(key)) => {
                let on_page = open.as_ref().map_or(0, |open| open.rows.len() as u64);
                let shown_rows = self.resumed_rows + on_page;
                self.next = Some(self.state(PagePlace::Inside(UnfinishedPartition {
                    key: key.clone(),
                    last_row: row.clone(),
                    shown_rows,
                })));
                // A partition with only its static row goes to a later page, since rows may follow.
                if let Some(partition) = open.as_mut().filter(|open| !open.rows.is_empty()) {
                    let static_row = partition.static_row.clone();
                    let rest = PartitionPage { key, static_row, rows: vec![] };
                    self.push(std::mem::replace(partition, rest));
                }
            }
            (Passed::Partition(key), _) => {
                self.next = Some(self.state(PagePlace::AfterPartition(key.clone())));
            }
            (Passed::Row(_), None) => unreachable!("a row is of a partition"),
        }
    }

    /// Ends the page inside this partition. Returns the partition's beginning on the next page.
    fn stop_inside(&mut self, partition: PartitionPage) -> PartitionPage {
        let (key, static_row) = (partition.key.clone(), partition.static_row.clone());
        let last_row = partition.rows.last().expect("a page ends behind a row").key.clone();
        let shown_rows = self.resumed_rows + partition.rows.len() as u64;
        let unfinished = UnfinishedPartition { key: key.clone(), last_row, shown_rows };
        self.next = Some(self.state(PagePlace::Inside(unfinished)));
        self.push(partition);
        PartitionPage { key, static_row, rows: vec![] }
    }

    fn state(&self, place: PagePlace) -> PagingState {
        let remaining_rows = self.remaining_rows.saturating_sub(self.rows);
        PagingState { place, remaining_rows, read_id: self.read_id }
    }

    /// The page, and the read if the next page can resume it.
    pub(super) fn finish_read(mut self, read: Option<OpenRead>) -> (Page, Option<OpenRead>) {
        let next = self.next.take();
        let page = self.finish(next);
        let goes_on = page.next.as_ref().is_some_and(|next| next.unfinished().is_some());
        // A reader of the rest of a partition has no data of later partitions.
        let read = read.filter(|read| page.next.is_some() && (goes_on || !read.is_rest));
        (page, read)
    }

    pub(super) fn finish(self, next: Option<PagingState>) -> Page {
        let next = next.filter(|next| next.remaining_rows > 0);
        Page { next, ..self.page }
    }
}

/// Approximate bytes of a row in the answer to a client.
fn row_bytes(row: &ClusteringRow) -> u64 {
    (row.key.as_bytes().len() + row.heap_bytes() + size_of::<ClusteringRow>()) as u64
}
