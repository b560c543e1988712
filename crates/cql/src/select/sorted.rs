//! ORDER BY over several partitions selected by IN: reads all rows, and merges the partitions.
//!
//! The rows of each partition are already in order, and so are its groups, so nothing is sorted. A k-way
//! merge takes the next row from the partition whose row comes first; at a tie, from the partition that was
//! read first. The task may yield after every row, also while rows are compared and freed.
//!
//! The memory of all rows that were read is limited like that of an unpaged result: by
//! `max_memory_for_unlimited_query_*` and by the shard's [`crate::ResultMemory`]. A row is counted from its
//! read to the end of the statement, in addition to its copy in the result.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use model::{ClusteringKey, ClusteringRow, PartitionKey, TableSchema};
use protocol::CqlError;
use reader::{Page, PartitionPage};

use super::execute::{READ_ROWS, Reading, key_values};
use super::group::GroupKey;
use super::ordering::Order;
use super::rows::RowsBuilder;
use super::value::RowView;
use crate::coordinator::{Host, Storage};
use crate::error::invalid;
use crate::restriction::Partitions;
use crate::result_memory::SMALL_RESULT_BYTES;
use crate::term::Env;

/// Largest number of rows that are merged in memory.
const SORTED_ROWS_MAX: usize = 1_000_000;

/// A row that was read: the index of its page, of its partition in the page, and of the row in the partition.
/// `None` instead of a row stands for a partition with only static content.
type RowPosition = (usize, usize, Option<usize>);

/// The pages that were read, and the places of the selected rows, partition by partition.
#[derive(Default)]
struct Found {
    pages: Vec<Page>,
    places: Vec<RowPosition>,
    /// Estimate of the pages' memory in bytes.
    pages_bytes: u64,
}

impl Found {
    /// Estimate of all memory in bytes.
    fn memory_bytes(&self) -> u64 {
        self.pages_bytes + (self.places.capacity() * size_of::<RowPosition>()) as u64
    }

    fn row(&self, place: usize) -> (&PartitionPage, Option<&ClusteringRow>) {
        let (page, partition, row) = self.places[place];
        let partition = &self.pages[page].partitions[partition];
        (partition, row.map(|row| &partition.rows[row]))
    }
}

/// Groups that become rows of the result, as ranges of [`Found::places`].
#[derive(Default)]
struct Groups {
    /// The rows of each group.
    rows: Vec<Range<usize>>,
    /// The groups of each partition, as ranges of `rows`.
    runs: Vec<Range<usize>>,
}

/// A partition's groups in the merge.
struct Run<'r> {
    schema: &'r TableSchema,
    order_by: &'r Order,
    /// First row of the partition's next group; `None` if the partition has only static content.
    key: Option<&'r ClusteringKey>,
    number: usize,
    groups: Range<usize>,
}

impl Run<'_> {
    fn order(&self, other: &Self) -> Ordering {
        let by_key = match (self.key, other.key) {
            (Some(a), Some(b)) => self.order_by.compare(self.schema, a, b),
            // Null sorts before all values, and after them in reverse.
            (a, b) if self.order_by.is_reversed => b.is_some().cmp(&a.is_some()),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        by_key.then(self.number.cmp(&other.number))
    }
}

/// A binary heap returns its greatest element, so the order is reversed.
impl Ord for Run<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order(self)
    }
}

impl PartialOrd for Run<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run<'_> {}

impl Reading<'_, '_> {
    /// Reads all rows, up to the limit of each partition, and adds them to the result in order.
    pub(super) async fn sorted<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        size_logged: &mut bool,
    ) -> Result<(), CqlError> {
        let found = self.find(coordinator, rows, size_logged).await?;
        let groups = self.groups(coordinator, &found, rows.env()).await?;
        self.merge(coordinator, &found, groups, rows, size_logged).await?;
        for page in found.pages {
            for partition in page.partitions {
                for row in partition.rows {
                    drop(row);
                    self.maybe_yield(coordinator).await;
                }
            }
        }
        Ok(())
    }

    async fn find<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        size_logged: &mut bool,
    ) -> Result<Found, CqlError> {
        let plan = self.plan;
        let mut found = Found::default();
        let Partitions::Keys(keys) = &self.partitions else { return Ok(found) };
        let keys = keys.len();
        while self.at < keys {
            let key_at = self.at;
            let Some(mut command) = self.command(READ_ROWS) else { break };
            if !rows.rows.charge.is_large() {
                command.page_bytes = command.page_bytes.min(SMALL_RESULT_BYTES);
            }
            let mut page = coordinator.read(command).await?;
            let next = page.next.take();
            let page_at = found.pages.len();
            for (partition_at, partition) in page.partitions.iter().enumerate() {
                self.given.enter(&partition.key);
                found.pages_bytes += (size_of_val(partition)
                    + partition.key.bytes().len()
                    + partition.static_row.heap_bytes()) as u64;
                let key_values = key_values(&plan.schema, &partition.key)?;
                let mut view =
                    RowView { partition_key: &key_values, static_row: &partition.static_row, row: None };
                if partition.rows.is_empty()
                    && plan.restrictions.wants_static_only_partitions()
                    && self.passes(&view)
                {
                    found.places.push((page_at, partition_at, None));
                }
                for (row_at, row) in partition.rows.iter().enumerate() {
                    self.maybe_yield(coordinator).await;
                    found.pages_bytes += (size_of_val(row) + row.heap_bytes()) as u64;
                    view.row = Some(row);
                    let is_wanted = plan.grouping.is_some()
                        || (self.given.rows() < self.partition_limit && self.remaining > 0);
                    if is_wanted && self.passes(&view) {
                        if plan.grouping.is_none() {
                            self.count();
                        }
                        found.places.push((page_at, partition_at, Some(row_at)));
                    }
                }
            }
            found.pages.push(page);
            self.check_memory(coordinator, &mut rows.rows, found.memory_bytes(), size_logged)?;
            if found.places.len() > SORTED_ROWS_MAX {
                return invalid!(
                    "ORDER BY over several partitions sorts at most {SORTED_ROWS_MAX} rows; give a LIMIT or sort client side"
                );
            }
            if self.remaining == 0 && plan.grouping.is_none() {
                self.paging = None;
                self.at = key_at + 1;
            } else {
                self.advance(next);
            }
            if self.at != key_at {
                self.remaining = self.limit_rows;
            }
        }
        Ok(found)
    }

    /// Builds the groups. Without GROUP BY each row is a group. With GROUP BY each partition has as many
    /// groups as its limit allows.
    async fn groups<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        found: &Found,
        env: &Env<'_>,
    ) -> Result<Groups, CqlError> {
        let plan = self.plan;
        let schema = &plan.schema;
        let mut groups = Groups::default();
        let mut current: Option<&PartitionKey> = None;
        let mut open: Option<GroupKey> = None;
        let mut of_partition = 0;
        for at in 0..found.places.len() {
            self.maybe_yield(coordinator).await;
            let (partition, row) = found.row(at);
            if current != Some(&partition.key) {
                current = Some(&partition.key);
                (open, of_partition) = (None, 0);
                groups.runs.push(groups.rows.len()..groups.rows.len());
            }
            if let Some(grouping) = &plan.grouping {
                let key_values = key_values(schema, &partition.key)?;
                let view = RowView { partition_key: &key_values, static_row: &partition.static_row, row };
                if let Some(group) = &open
                    && grouping.is_in(group, schema, &view, env)?
                {
                    if of_partition <= self.partition_limit
                        && let Some(last) = groups.rows.last_mut()
                    {
                        last.end = at + 1;
                    }
                    continue;
                }
                open = Some(grouping.key(schema, &view, env)?);
                of_partition += 1;
                if of_partition > self.partition_limit {
                    continue;
                }
            }
            groups.rows.push(at..at + 1);
            if let Some(run) = groups.runs.last_mut() {
                run.end = groups.rows.len();
            }
        }
        Ok(groups)
    }

    async fn merge<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        found: &Found,
        groups: Groups,
        rows: &mut RowsBuilder<'_>,
        size_logged: &mut bool,
    ) -> Result<(), CqlError> {
        let plan = self.plan;
        let Groups { rows: groups, runs } = groups;
        let first_key = |group: usize| found.row(groups[group].start).1.map(|row| &row.key);
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.into_iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            self.maybe_yield(coordinator).await;
            let key = first_key(run.start);
            heap.push(Run { schema: &plan.schema, order_by: &plan.order, key, number, groups: run });
        }
        let mut left = self.limit_rows;
        let (found_bytes, mut checked_bytes) = (found.memory_bytes(), 0);
        while left > 0
            && let Some(mut run) = heap.pop()
            && let Some(group) = run.groups.next()
        {
            left -= 1;
            for (number, place) in groups[group].clone().enumerate() {
                self.maybe_yield(coordinator).await;
                let (partition, row) = found.row(place);
                let key_values = key_values(&plan.schema, &partition.key)?;
                let view = RowView { partition_key: &key_values, static_row: &partition.static_row, row };
                match (&plan.grouping, number) {
                    (None, _) => rows.add(&view)?,
                    (Some(_), 0) => rows.begin_group(&view)?,
                    (Some(_), _) => rows.add_to_group(&view)?,
                }
            }
            rows.end_group()?;
            if rows.rows.memory_bytes() > checked_bytes {
                checked_bytes = rows.rows.memory_bytes();
                self.check_memory(coordinator, &mut rows.rows, found_bytes, size_logged)?;
            }
            if !run.groups.is_empty() {
                run.key = first_key(run.groups.start);
                heap.push(run);
            }
        }
        Ok(())
    }
}
