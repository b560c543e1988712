//! ORDER BY where rows come from several partitions by IN: everything is read, and the partitions are merged.
//!
//! The rows of each partition lie in order already, and so do its groups, so nothing is sorted: the partition whose next row
//! comes first gives it, the one that was named first at a tie. Others are let run between any two rows, also where rows are
//! compared and freed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use model::{ClusteringKey, ClusteringRow, PartitionKey, TableSchema};
use reader::{Page, PartitionPage};

use super::execute::{READ_ROWS, Reading, key_values};
use super::group::GroupKey;
use super::rows::RowsBuilder;
use super::value::RowView;
use crate::CqlError;
use crate::coordinator::Coordinator;
use crate::error::invalid;
use crate::restriction::Partitions;
use crate::term::Env;

/// Rows of several partitions that are merged in memory, at most.
const SORTED_ROWS_MAX: usize = 1_000_000;

/// A row that was read: its page, its partition there, and its place in that. Without one, static content alone.
type Place = (usize, usize, Option<usize>);

/// What was read, and which of it is wanted, partition by partition.
#[derive(Default)]
struct Found {
    pages: Vec<Page>,
    places: Vec<Place>,
}

impl Found {
    fn row(&self, place: usize) -> (&PartitionPage, Option<&ClusteringRow>) {
        let (page, partition, row) = self.places[place];
        let partition = &self.pages[page].partitions[partition];
        (partition, row.map(|row| &partition.rows[row]))
    }
}

/// What becomes rows of the result: ranges of [`Found::places`], and of these the ranges that are a partition's.
#[derive(Default)]
struct Groups {
    rows: Vec<Range<usize>>,
    runs: Vec<Range<usize>>,
}

/// A partition in the merge.
struct Run<'r> {
    schema: &'r TableSchema,
    is_reversed: bool,
    /// Of its next group the first row; none: static content alone.
    key: Option<&'r ClusteringKey>,
    number: usize,
    groups: Range<usize>,
}

impl Run<'_> {
    fn order(&self, other: &Self) -> Ordering {
        let by_key = match (self.key, other.key) {
            (Some(a), Some(b)) if self.is_reversed => self.schema.compare_keys(b, a),
            (Some(a), Some(b)) => self.schema.compare_keys(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        by_key.then(self.number.cmp(&other.number))
    }
}

/// The greatest of a heap is the one that comes first.
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
    /// Reads everything, up to the limit from each partition, and gives it in order.
    pub(super) async fn sorted<C: Coordinator>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
    ) -> Result<(), CqlError> {
        let found = self.find(coordinator).await?;
        let groups = self.groups(coordinator, &found, rows.env()).await?;
        self.merge(coordinator, &found, groups, rows).await?;
        for page in found.pages {
            for partition in page.partitions {
                for row in partition.rows {
                    drop(row);
                    self.give_way(coordinator).await;
                }
            }
        }
        Ok(())
    }

    async fn find<C: Coordinator>(&mut self, coordinator: &C) -> Result<Found, CqlError> {
        let plan = self.plan;
        let mut found = Found::default();
        let Partitions::Keys(keys) = &self.partitions else { return Ok(found) };
        let keys = keys.len();
        while self.at < keys {
            let key_at = self.at;
            let Some(command) = self.command(READ_ROWS) else { break };
            let mut page = coordinator.read(command).await?;
            let next = page.next.take();
            let page_at = found.pages.len();
            for (partition_at, partition) in page.partitions.iter().enumerate() {
                self.given.enter(&partition.key);
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
                    self.give_way(coordinator).await;
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

    /// Without GROUP BY each row is a group; with it, each partition has those that its limit allows.
    async fn groups<C: Coordinator>(
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
            self.give_way(coordinator).await;
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

    async fn merge<C: Coordinator>(
        &mut self,
        coordinator: &C,
        found: &Found,
        groups: Groups,
        rows: &mut RowsBuilder<'_>,
    ) -> Result<(), CqlError> {
        let plan = self.plan;
        let Groups { rows: groups, runs } = groups;
        let first_key = |group: usize| found.row(groups[group].start).1.map(|row| &row.key);
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.into_iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            self.give_way(coordinator).await;
            let key = first_key(run.start);
            heap.push(Run {
                schema: &plan.schema,
                is_reversed: plan.order.is_reversed,
                key,
                number,
                groups: run,
            });
        }
        let mut left = self.limit_rows;
        while left > 0
            && let Some(mut run) = heap.pop()
            && let Some(group) = run.groups.next()
        {
            left -= 1;
            for (number, place) in groups[group].clone().enumerate() {
                self.give_way(coordinator).await;
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
            if !run.groups.is_empty() {
                run.key = first_key(run.groups.start);
                heap.push(run);
            }
        }
        Ok(())
    }
}
