//! Carries out a plan: reads pages of storage until a page of the client is full.
//!
//! 1. The bound values give keys or a range, ranges of rows, filters and limits; a paging state, where to begin.
//! 2. Keys are read one after another, each with as many reads as it takes; a range of the ring likewise.
//! 3. Each row that passes the filters goes into the result. Limits are counted here; where nothing is filtered they
//!    go with the read, so that storage stops in time.
//! 4. A page ends when it has its rows, or the bytes of [`ResultLimits`], or when a filtering read has done
//!    [`FILTER_READS_A_PAGE`] reads without filling it: then it may even be empty, and the client asks again.
//!    Without pages, the result's memory has a limit above which it is told to the log, and one where it is refused.

use std::sync::Arc;

use model::key::split_composite_key;
use model::{ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, TableSchema};
use reader::{Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
use smallvec::{SmallVec, smallvec};

use super::given::Given;
use super::group::GroupKey;
use super::paging::ResultPlace;
use super::rows::RowsBuilder;
use super::value::RowView;
use super::{SelectPlan, limit, paging};
use crate::ResultCharge;
use crate::coordinator::{Coordinator, ResultLimits};
use crate::error::invalid;
use crate::outcome::{Execution, ResultRows};
use crate::restriction::{BoundFilters, Partitions};
use crate::term::Env;
use crate::{CqlError, protocol};

/// An unpaged result is refused beyond this: no frame has room for more.
const RESULT_BYTES_MAX: usize = 256 << 20;
/// Rows of one read of storage where the client does not say how many it takes.
pub(super) const READ_ROWS: u64 = 10_000;
/// A filtering read asks for at least so many: few of them will pass.
const FILTER_READ_ROWS: u64 = 1_000;
const FILTER_READS_A_PAGE: u32 = 16;
/// Others are let run, if it is time, once in so many rows: they take some microseconds.
const ROWS_A_CHECK: u32 = 64;
/// ScyllaDB's words.
const NO_MEMORY: &str =
    "Maximum amount of memory for building query results is exhausted, unpaged query cannot be finished";

/// The next page of the rows that the statement asks for; all of them if the client pages not.
///
/// # Errors
/// Values that the statement cannot be carried out with, a paging state that is not one of it; and what storage says.
pub async fn execute<C: Coordinator>(
    plan: &SelectPlan,
    coordinator: &C,
    bound: &[protocol::Value<'_>],
    execution: &Execution<'_>,
) -> Result<ResultRows, CqlError> {
    let random = || coordinator.random_u64();
    let env = Env { bound, inputs: &[], now_us: execution.now_us, random: &random };
    let limit_rows = limit::evaluate(plan.limit.as_ref(), &env)?;
    let partition_limit = limit::evaluate(plan.partition_limit.as_ref(), &env)?;
    let is_one_row = plan.is_one_row();
    let page_rows = execution.page_rows.filter(|_| !is_one_row).map(u64::from);
    let ranges: SmallVec<[ClusteringRange; 1]> = plan.restrictions.ranges(&env)?;
    let partitions = plan.restrictions.partitions(&env)?;
    // However few rows are wanted. Cassandra finds that an empty IN has no rows before it looks at pages.
    let has_keys = !matches!(&partitions, Partitions::Keys(keys) if keys.is_empty());
    if plan.order.is_unpaged && execution.page_rows.is_some() && has_keys {
        return invalid!(
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
        );
    }
    let filters = plan.restrictions.filters.bind(&plan.schema, &env)?;
    let rows = ResultRows::new(Arc::clone(&plan.metadata));
    let now_s = execution.now_s();
    let is_grouped = plan.grouping.is_some();
    let mut rows = RowsBuilder::new(&plan.schema, &plan.selection, is_grouped, rows, env, now_s)?;
    if ranges.is_empty() && !plan.restrictions.clustering.is_everything() {
        return rows.finish();
    }
    let paging = match execution.paging_state.filter(|_| !is_one_row) {
        Some(bytes) => Some(paging::decode(bytes, &plan.schema)?),
        None => None,
    };
    // One row for each partition, or for all: limits of rows have no meaning then.
    let limit_rows = if is_one_row { u64::MAX } else { limit_rows };
    let partition_limit = if plan.is_distinct { 1 } else { partition_limit };
    let mut reading = Reading {
        plan,
        filters,
        pushes_limits: !is_grouped
            && plan.restrictions.filters.is_empty()
            && (plan.restrictions.wants_static_only_partitions() || !plan.schema.has_static()),
        partitions,
        ranges: Arc::from(ranges.as_slice()),
        now_s,
        at: 0,
        limit_rows,
        partition_limit,
        remaining: limit_rows,
        given: Given::default(),
        group: None,
        started: None,
        paging: None,
        continued: None,
        read_id: 0,
        unchecked: 0,
        limits: coordinator.result_limits(),
    };
    reading.resume(paging)?;
    if plan.order.is_across_partitions {
        reading.sorted(coordinator, &mut rows).await?;
        return rows.finish();
    }
    let memory = coordinator.result_memory();
    if let Some(memory) = memory.as_ref().filter(|_| page_rows.is_some()) {
        memory.room().await;
    }
    rows.rows.charge = ResultCharge::new(memory);
    let next = match is_grouped {
        true => reading.fill_groups(coordinator, &mut rows, page_rows).await?,
        false => reading.fill(coordinator, &mut rows, page_rows).await?,
    };
    let mut rows = rows.finish()?;
    rows.paging_state = next.map(|state| paging::encode(&state));
    Ok(rows)
}

pub(super) struct Reading<'p, 'a> {
    pub(super) plan: &'p SelectPlan,
    filters: BoundFilters<'a>,
    /// Storage may count rows: every row that it gives is one of the result.
    pushes_limits: bool,
    pub(super) partitions: Partitions,
    ranges: Arc<[ClusteringRange]>,
    limits: ResultLimits,
    now_s: u32,
    /// The key that is read, of several.
    pub(super) at: usize,
    pub(super) limit_rows: u64,
    pub(super) partition_limit: u64,
    /// What is left of `limit_rows`.
    pub(super) remaining: u64,
    /// What the current partition has given so far.
    pub(super) given: Given,
    /// With GROUP BY: the group that is open.
    pub(super) group: Option<(PartitionKey, GroupKey)>,
    /// With GROUP BY: where the last read of storage began, unless at the beginning.
    pub(super) started: Option<PagingState>,
    /// Where the next read begins, inside the current key or range.
    pub(super) paging: Option<PagingState>,
    /// The partition in which the last read of storage began, and rows that storage had given of it before.
    continued: Option<(PartitionKey, u64)>,
    /// Of the last read of storage that has a next page.
    pub(super) read_id: u64,
    /// Rows since others were let run.
    unchecked: u32,
}

/// What became of a page of storage.
pub(super) enum Taken {
    /// All rows were taken.
    All,
    /// The client's page is full, and the rows behind this were not taken.
    Full(ResultPlace),
    /// The limit is reached.
    Done,
}

impl Reading<'_, '_> {
    fn resume(&mut self, place: Option<ResultPlace>) -> Result<(), CqlError> {
        let Some(ResultPlace { storage, partition_rows }) = place else { return Ok(()) };
        self.remaining = self.remaining.min(storage.remaining_rows);
        let is_inside = storage.unfinished().is_some();
        match &self.partitions {
            Partitions::Keys(keys) => {
                let Some(at) = keys.iter().position(|key| key == storage.place.key()) else {
                    return Err(paging::invalid_state());
                };
                self.at = if is_inside { at } else { at + 1 };
            }
            Partitions::Range(range) if range.contains(storage.place.key()) => {}
            Partitions::Range(_) => return Err(paging::invalid_state()),
        }
        if is_inside {
            self.given = Given::of(storage.place.key(), partition_rows);
        }
        if is_inside || matches!(self.partitions, Partitions::Range(_)) {
            self.paging = Some(storage);
        }
        Ok(())
    }

    /// The next read; `None`: there is nothing more.
    pub(super) fn command(&mut self, rows: u64) -> Option<ReadCommand> {
        // The last group that is wanted may be open.
        if self.remaining == 0 && self.group.is_none() {
            return None;
        }
        let partitions = match &self.partitions {
            Partitions::Keys(keys) => PartitionRange::Key(keys.get(self.at)?.clone()),
            Partitions::Range(range) => range.clone(),
        };
        let limit_rows = if self.pushes_limits { self.remaining } else { u64::MAX };
        let unfinished = self.paging.as_ref().and_then(PagingState::unfinished);
        self.continued = unfinished.map(|unfinished| (unfinished.key.clone(), unfinished.shown_rows));
        if self.plan.grouping.is_some() {
            self.started.clone_from(&self.paging);
        }
        let paging = self.paging.take().map(|state| PagingState { remaining_rows: limit_rows, ..state });
        Some(ReadCommand {
            ranges: Arc::clone(&self.ranges),
            reversed: self.plan.order.is_reversed,
            now_s: Some(self.now_s),
            limit_rows,
            partition_limit_rows: match self.pushes_limits || self.plan.is_distinct {
                true => self.partition_limit,
                false => u64::MAX,
            },
            page_rows: match self.pushes_limits {
                true => rows.min(limit_rows),
                false => rows.clamp(FILTER_READ_ROWS, READ_ROWS),
            },
            page_bytes: self.limits.page_bytes,
            paging,
            read_id: 0,
            bypass_cache: self.plan.bypass_cache,
            ..ReadCommand::new(self.plan.schema.id, partitions)
        })
    }

    /// Goes on behind a page of storage that ended with `next`; `false`: there is nothing more.
    pub(super) fn advance(&mut self, next: Option<PagingState>) -> bool {
        let place = next.map(|state| match state.place {
            // Of a partition that has given what it may nothing more is wanted.
            PagePlace::Inside(unfinished) if self.has_given_all(&unfinished.key) => {
                PagingState { place: PagePlace::AfterPartition(unfinished.key), ..state }
            }
            place => PagingState { place, ..state },
        });
        match (place, &self.partitions) {
            (None, Partitions::Range(_)) => return false,
            (Some(state), Partitions::Range(_)) => self.paging = Some(state),
            (Some(state), Partitions::Keys(_)) if state.unfinished().is_some() => self.paging = Some(state),
            (_, Partitions::Keys(keys)) => {
                self.at += 1;
                return self.at < keys.len();
            }
        }
        true
    }

    /// The partition has given as many rows or groups as it may.
    fn has_given_all(&self, key: &PartitionKey) -> bool {
        match self.plan.grouping {
            Some(_) => self.given.is_full(key),
            None => self.given.rows_of(key) >= self.partition_limit,
        }
    }

    /// Where the next page of the client begins.
    pub(super) fn state(&self) -> Option<ResultPlace> {
        if let Some(state) = &self.paging {
            return Some(self.result_place(state.place.clone(), state.read_id));
        }
        // At the beginning of a key: behind the one before it.
        let Partitions::Keys(keys) = &self.partitions else { return None };
        keys.get(self.at)?;
        let key = keys.get(self.at.checked_sub(1)?)?.clone();
        Some(self.result_place(PagePlace::AfterPartition(key), 0))
    }

    /// The next page of the client begins at this place of storage.
    pub(super) fn result_place(&self, place: PagePlace, read_id: u64) -> ResultPlace {
        let partition_rows = place.unfinished().map_or(0, |unfinished| self.given.rows_of(&unfinished.key));
        let storage = PagingState { place, remaining_rows: self.remaining, read_id };
        ResultPlace { storage, partition_rows }
    }

    /// Reads until the page is full or nothing is left; gives where the next one begins.
    async fn fill<C: Coordinator>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        page_rows: Option<u64>,
    ) -> Result<Option<ResultPlace>, CqlError> {
        let wanted = page_rows.map_or(u64::MAX, |rows| rows.max(1));
        let mut reads = 0;
        let mut told = false;
        loop {
            let room = wanted - u64::from(rows.rows.count());
            let Some(mut command) = self.command(room.min(READ_ROWS)) else { return Ok(None) };
            if page_rows.is_some() {
                command.page_tombstones = self.limits.page_tombstones;
            }
            let mut page = coordinator.read(command).await?;
            let next = page.next.take();
            self.read_id = next.as_ref().map_or(0, |next| next.read_id);
            reads += 1;
            let is_dead = page.tombstones >= self.limits.page_tombstones;
            let taken = self.take(coordinator, page, rows, wanted).await?;
            // The last page of storage counts as well: a small result has no other.
            self.check_memory(coordinator, rows, page_rows.is_some(), &mut told)?;
            if self.remaining == 0 {
                return Ok(None);
            }
            match taken {
                Taken::Done => return Ok(None),
                Taken::Full(state) => return Ok(Some(state)),
                Taken::All => {}
            }
            if !self.advance(next) {
                return Ok(None);
            }
            let bytes = rows.rows.cells().len();
            let is_full = u64::from(rows.rows.count()) >= wanted || bytes as u64 >= self.limits.page_bytes;
            let is_tired = !self.pushes_limits && reads >= FILTER_READS_A_PAGE;
            if page_rows.is_some() && (is_full || is_tired || is_dead) {
                return Ok(self.state());
            }
        }
    }

    /// Whether the result may go on growing. `told`: the log knows of its size.
    pub(super) fn check_memory<C: Coordinator>(
        &self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        is_paged: bool,
        told: &mut bool,
    ) -> Result<(), CqlError> {
        let bytes = rows.rows.cells().len();
        // A page that has begun is finished; the next ones wait.
        if !rows.rows.charge.grow_to(rows.rows.memory_bytes()) && !is_paged {
            coordinator.memory_refused(NO_MEMORY);
            return Err(CqlError::Overloaded(NO_MEMORY.to_string()));
        }
        if !is_paged {
            self.check_unpaged(coordinator, bytes as u64, told)?;
        }
        if bytes > RESULT_BYTES_MAX {
            return invalid!(
                "The result has more than {RESULT_BYTES_MAX} bytes; ask for it in pages, or for less"
            );
        }
        Ok(())
    }

    /// Whether a result without pages may go on growing. `told`: the log knows of it. The texts are ScyllaDB's.
    fn check_unpaged<C: Coordinator>(
        &self,
        coordinator: &C,
        bytes: u64,
        told: &mut bool,
    ) -> Result<(), CqlError> {
        let ResultLimits { unpaged_soft_bytes, unpaged_hard_bytes, unpaged_room_bytes, .. } = self.limits;
        if bytes > unpaged_room_bytes {
            return Err(CqlError::Overloaded(format!(
                "too many answers wait for clients that do not take them: there is no room for a result of more than \
                 {unpaged_room_bytes} bytes; ask again, or in pages"
            )));
        }
        if bytes > unpaged_hard_bytes {
            return Err(CqlError::Server(format!(
                "Memory usage of unpaged query exceeds hard limit of {unpaged_hard_bytes} (configured via max_memory_for_unlimited_query_hard_limit)"
            )));
        }
        if bytes > unpaged_soft_bytes && !std::mem::replace(told, true) {
            coordinator.warn(&format!(
                "Memory usage of unpaged query of {} exceeds soft limit of {unpaged_soft_bytes} (configured via max_memory_for_unlimited_query_soft_limit)",
                self.plan.schema.full_name()
            ));
        }
        Ok(())
    }

    /// A row more was looked at: lets others run if it is time.
    #[inline]
    pub(super) async fn give_way<C: Coordinator>(&mut self, coordinator: &C) {
        self.unchecked += 1;
        if self.unchecked >= ROWS_A_CHECK {
            self.unchecked = 0;
            coordinator.give_way().await;
        }
    }

    /// Puts the rows of a page of storage into the result, and frees them one by one.
    async fn take<C: Coordinator>(
        &mut self,
        coordinator: &C,
        page: Page,
        rows: &mut RowsBuilder<'_>,
        wanted: u64,
    ) -> Result<Taken, CqlError> {
        let partitions = page.partitions.len();
        for (number, partition) in page.partitions.into_iter().enumerate() {
            let is_last = number + 1 == partitions;
            self.given.enter(&partition.key);
            let PartitionPage { key, static_row, rows: read } = partition;
            let key_values = key_values(&self.plan.schema, &key)?;
            let view = RowView { partition_key: &key_values, static_row: &static_row, row: None };
            if read.is_empty() {
                let is_wanted = self.plan.restrictions.wants_static_only_partitions();
                if is_wanted && self.passes(&view) {
                    rows.add(&view)?;
                    self.count();
                    if self.remaining == 0 {
                        return Ok(Taken::Done);
                    }
                    if !is_last && u64::from(rows.rows.count()) >= wanted {
                        return Ok(Taken::Full(self.after_partition(&key)));
                    }
                }
                self.give_way(coordinator).await;
                continue;
            }
            let end = read.len();
            for (at, row) in read.into_iter().enumerate() {
                if self.given.rows() >= self.partition_limit {
                    break;
                }
                self.give_way(coordinator).await;
                let view = RowView { row: Some(&row), ..view };
                if !self.passes(&view) {
                    continue;
                }
                rows.add(&view)?;
                self.count();
                if self.remaining == 0 {
                    return Ok(Taken::Done);
                }
                let is_end = is_last && at + 1 == end;
                if !is_end && u64::from(rows.rows.count()) >= wanted {
                    return Ok(Taken::Full(match self.given.rows() < self.partition_limit {
                        true => self.after_row(&key, at, &row.key),
                        false => self.after_partition(&key),
                    }));
                }
            }
        }
        Ok(Taken::All)
    }

    #[inline]
    pub(super) fn passes(&self, view: &RowView<'_>) -> bool {
        let schema: &TableSchema = &self.plan.schema;
        self.plan.restrictions.filters.is_empty()
            || self.filters.pass(|column| view.value(schema, column).ok().flatten())
    }

    #[inline]
    pub(super) fn count(&mut self) {
        self.given.count();
        self.remaining = self.remaining.saturating_sub(1);
    }

    /// The client's page ends behind the row at this number of the partition's on a page of storage.
    pub(super) fn after_row(&self, key: &PartitionKey, number: usize, row: &ClusteringKey) -> ResultPlace {
        let continued = self.continued.as_ref().filter(|(continued, _)| continued == key);
        let shown_before = continued.map_or(0, |(_, shown_rows)| *shown_rows);
        let unfinished = UnfinishedPartition {
            key: key.clone(),
            last_row: row.clone(),
            shown_rows: shown_before + number as u64 + 1,
        };
        self.result_place(PagePlace::Inside(unfinished), self.read_id)
    }

    /// The client's page ends with this partition.
    pub(super) fn after_partition(&self, key: &PartitionKey) -> ResultPlace {
        self.result_place(PagePlace::AfterPartition(key.clone()), self.read_id)
    }
}

/// The values of the partition key's columns.
#[inline]
pub(super) fn key_values<'k>(
    schema: &TableSchema,
    key: &'k PartitionKey,
) -> Result<SmallVec<[&'k [u8]; 4]>, CqlError> {
    if schema.partition_key.len() == 1 {
        return Ok(smallvec![key.bytes()]);
    }
    match split_composite_key(key.bytes()) {
        Ok(values) if values.len() == schema.partition_key.len() => Ok(values.into()),
        _ => Err(CqlError::Server(format!(
            "a partition key of table {} does not have {} values",
            schema.full_name(),
            schema.partition_key.len()
        ))),
    }
}
