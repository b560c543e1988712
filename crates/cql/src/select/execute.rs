//! Executes the plan of a SELECT: reads pages of storage until the client's page is full.
//!
//! 1. The bound values give the partition keys or a token range, the clustering ranges, the filters and the
//!    limits. A paging state gives the position at which the reading starts.
//! 2. Keys are read one after another, each with as many reads as it needs. A token range is read in the same
//!    way.
//! 3. Each row that passes the filters is added to the result. Limits are counted here. If no row can be
//!    filtered out, the limits are also part of the read command, so that storage stops in time.
//! 4. A page ends when it has its number of rows, when it has the bytes of [`ResultLimits`], or when a
//!    filtering read has done [`FILTER_READS_A_PAGE`] reads of storage. In the last case the page may even be
//!    empty, and the client requests the next one. An unpaged result that exceeds the soft limit of its
//!    memory is logged, and one that exceeds the hard limit is refused.
//! 5. An unpaged result larger than [`SMALL_RESULT_BYTES`] needs a reservation of the shard's
//!    [`crate::ResultMemory`]. Without a reservation the result is dropped, waits in the queue, and is
//!    gathered again from the start.

use std::sync::Arc;

use model::key::split_composite_key;
use model::{ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, TableSchema};
use protocol::CqlError;
use reader::{IndexQuery, Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
use smallvec::{SmallVec, smallvec};

use super::given::Given;
use super::group::GroupKey;
use super::paging::ResultPlace;
use super::rows::RowsBuilder;
use super::value::RowView;
use super::{SelectPlan, limit, nearest, paging};
use crate::coordinator::{Coordinator, Host, Storage};
use crate::error::invalid;
use crate::limits::ResultLimits;
use crate::outcome::{Execution, ResultRows};
use crate::restriction::{BoundFilters, Partitions};
use crate::result_memory::{Growth, ResultCharge, SMALL_RESULT_BYTES};
use crate::term::Env;

/// Largest size of a result in bytes. A larger unpaged result is refused, because no frame can hold it.
const RESULT_BYTES_MAX: usize = 256 << 20;
/// Rows of one read of storage for a client that sets no page size.
pub(super) const READ_ROWS: u64 = 10_000;
/// Minimum number of rows that a filtering read requests, because few of them pass the filters.
const FILTER_READ_ROWS: u64 = 1_000;
/// The same for a read of secondary indexes, most of whose rows pass the filters.
const INDEX_READ_ROWS: u64 = 100;
/// Reads of storage after which a page of a filtering read ends, even if it is not full.
const FILTER_READS_A_PAGE: u32 = 16;
/// Rows between two calls of [`Host::maybe_yield`]. Processing this many rows takes some microseconds.
const ROWS_A_CHECK: u32 = 64;
/// Error text of ScyllaDB.
const NO_MEMORY: &str =
    "Maximum amount of memory for building query results is exhausted, unpaged query cannot be finished";

/// Outcome of one attempt to gather a result.
enum Gathered {
    Rows(ResultRows),
    /// The shard had no memory for the result. The result must be gathered again once its turn comes.
    GivenBack(ResultCharge),
}

/// Reads the next page of the rows that the statement selects, or all rows if the client does not page.
///
/// # Errors
/// The bound values do not fit the statement, the paging state does not belong to the statement, or the
/// storage fails.
pub async fn execute<C: Coordinator>(
    plan: &SelectPlan,
    coordinator: &C,
    bound: &[protocol::Value<'_>],
    execution: &Execution<'_>,
) -> Result<ResultRows, CqlError> {
    let mut charge = ResultCharge::new(coordinator.result_memory());
    // A result that is gathered several times is logged once.
    let mut size_logged = false;
    loop {
        match gather(plan, coordinator, bound, execution, charge, &mut size_logged).await? {
            Gathered::Rows(rows) => return Ok(rows),
            Gathered::GivenBack(given_back) => {
                charge = given_back;
                coordinator.wait_idle(charge.turn()).await;
            }
        }
    }
}

async fn gather<C: Coordinator>(
    plan: &SelectPlan,
    coordinator: &C,
    bound: &[protocol::Value<'_>],
    execution: &Execution<'_>,
    charge: ResultCharge,
    size_logged: &mut bool,
) -> Result<Gathered, CqlError> {
    let random = || coordinator.random_u64();
    let env = Env { bound, inputs: &[], now_us: execution.now_us, random: &random };
    let limit_rows = limit::evaluate(plan.limit.as_ref(), &env)?;
    let partition_limit = limit::evaluate(plan.partition_limit.as_ref(), &env)?;
    let is_one_row = plan.is_one_row();
    if plan.nearest.is_some() {
        nearest::check_limits(limit_rows, partition_limit)?;
    }
    let page_rows = execution.page_rows.filter(|_| !is_one_row).map(u64::from);
    // The order of the checks is Cassandra's: filters, keys, ranges of rows, empty keys, paging.
    let filters = plan.restrictions.filters.bind(&plan.schema, &env)?;
    let index = plan.restrictions.index_query(&env)?;
    let (partitions, ranges) = selected(plan, &env)?;
    let selects_nothing = ranges.is_empty() && !plan.restrictions.clustering.is_everything()
        || matches!(&partitions, Partitions::Keys(keys) if keys.is_empty());
    if !selects_nothing {
        partitions.check_not_empty()?;
    }
    // Cassandra pages an aggregation also if it selects no row.
    let pages = !selects_nothing || is_one_row || plan.grouping.is_some();
    if plan.order.is_unpaged && execution.page_rows.is_some() && pages {
        return invalid!(
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
        );
    }
    let rows = ResultRows::new(Arc::clone(&plan.metadata));
    let now_s = execution.now_s();
    let is_grouped = plan.grouping.is_some();
    let mut rows = RowsBuilder::new(&plan.schema, &plan.selection, is_grouped, rows, env, now_s)?;
    if selects_nothing {
        return rows.finish().map(Gathered::Rows);
    }
    let paging = match execution.paging_state.filter(|_| !is_one_row) {
        Some(bytes) => Some(paging::decode(bytes, &plan.schema)?),
        None => None,
    };
    // The result has one row for each partition, or one row in all, so row limits do not apply.
    let limit_rows = if is_one_row { u64::MAX } else { limit_rows };
    let partition_limit = if plan.is_distinct { 1 } else { partition_limit };
    let mut reading = Reading {
        plan,
        filters,
        pushes_limits: !is_grouped
            && plan.nearest.is_none()
            && index.is_none()
            && plan.restrictions.filters.is_empty()
            && (plan.restrictions.wants_static_only_partitions() || !plan.schema.has_static()),
        index,
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
        is_paged: page_rows.is_some(),
        limits: coordinator.result_limits(),
    };
    reading.resume(paging)?;
    rows.rows.charge = charge;
    if !rows.rows.charge.is_large()
        && let Some(memory) = coordinator.result_memory()
    {
        memory.room().await;
    }
    let filled = match (&plan.nearest, plan.order.is_across_partitions, is_grouped) {
        (Some(nearest), ..) => {
            reading.nearest(coordinator, nearest, &mut rows, size_logged).await.map(|()| None)
        }
        (None, true, _) => reading.sorted(coordinator, &mut rows, size_logged).await.map(|()| None),
        (None, false, true) => reading.fill_groups(coordinator, &mut rows, page_rows, size_logged).await,
        (None, false, false) => reading.fill(coordinator, &mut rows, page_rows, size_logged).await,
    };
    let next = match filled {
        Ok(next) => next,
        Err(_) if rows.rows.charge.waits() => return Ok(Gathered::GivenBack(rows.rows.charge)),
        Err(error) => return Err(error),
    };
    let mut rows = rows.finish()?;
    rows.paging_state = next.map(|state| paging::encode(&state));
    let memory_bytes = rows.memory_bytes();
    rows.charge.settle(memory_bytes);
    Ok(Gathered::Rows(rows))
}

/// Returns the selected partitions and the selected rows of each. With keys, the values of the keys are
/// checked first; otherwise those of the clustering columns.
fn selected(
    plan: &SelectPlan,
    env: &Env<'_>,
) -> Result<(Partitions, SmallVec<[ClusteringRange; 1]>), CqlError> {
    let restrictions = &plan.restrictions;
    if !restrictions.partition.has_keys() {
        let ranges = restrictions.ranges(env)?;
        return Ok((restrictions.partitions(env)?, ranges));
    }
    match restrictions.partitions(env)? {
        Partitions::Keys(keys) if keys.is_empty() => Ok((Partitions::Keys(keys), SmallVec::new())),
        partitions => Ok((partitions, restrictions.ranges(env)?)),
    }
}

pub(super) struct Reading<'p, 'a> {
    pub(super) plan: &'p SelectPlan,
    filters: BoundFilters<'a>,
    /// The conditions that secondary indexes answer.
    index: Option<Arc<IndexQuery>>,
    /// Every row that storage returns is a row of the result, so storage may count the rows.
    pushes_limits: bool,
    pub(super) partitions: Partitions,
    ranges: Arc<[ClusteringRange]>,
    limits: ResultLimits,
    now_s: u32,
    /// Index of the current key in the list of keys.
    pub(super) at: usize,
    pub(super) limit_rows: u64,
    pub(super) partition_limit: u64,
    /// Rows that are left of `limit_rows`.
    pub(super) remaining: u64,
    /// Rows or groups that the current partition has contributed so far.
    pub(super) given: Given,
    /// With GROUP BY: the open group.
    pub(super) group: Option<(PartitionKey, GroupKey)>,
    /// With GROUP BY: the position at which the last read of storage started; `None` if it was the start of
    /// the key or range.
    pub(super) started: Option<PagingState>,
    /// The position inside the current key or range at which the next read starts.
    pub(super) paging: Option<PagingState>,
    /// The partition in which the last read of storage started, and the number of rows that earlier reads had
    /// returned from it.
    continued: Option<(PartitionKey, u64)>,
    /// Read id of the last read of storage that has a next page.
    pub(super) read_id: u64,
    /// Rows since the last call of [`Host::maybe_yield`].
    unchecked: u32,
    is_paged: bool,
}

/// Outcome of taking the rows of a page of storage.
pub(super) enum Taken {
    /// All rows were taken.
    All,
    /// The client's page is full. The rows after this place were not taken.
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

    /// Returns the next read, or `None` if nothing is left to read.
    pub(super) fn command(&mut self, rows: u64) -> Option<ReadCommand> {
        // The last group that the limit allows may still be open.
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
                false if self.index.is_some() => rows.min(self.remaining).clamp(INDEX_READ_ROWS, READ_ROWS),
                false => rows.clamp(FILTER_READ_ROWS, READ_ROWS),
            },
            page_bytes: self.limits.page_bytes,
            paging,
            read_id: 0,
            bypass_cache: self.plan.bypass_cache,
            index: self.index.clone(),
            ..ReadCommand::new(self.plan.schema.id, partitions)
        })
    }

    /// Moves past a page of storage that ended with `next`. Returns `false` if nothing is left to read.
    pub(super) fn advance(&mut self, next: Option<PagingState>) -> bool {
        let place = next.map(|state| match state.place {
            // A partition that has reached its limit needs no further read.
            PagePlace::Inside(unfinished) if self.is_limit_reached(&unfinished.key) => {
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

    /// Whether the partition has contributed all the rows or groups that its limit allows.
    fn is_limit_reached(&self, key: &PartitionKey) -> bool {
        match self.plan.grouping {
            Some(_) => self.given.is_full(key),
            None => self.given.rows_of(key) >= self.partition_limit,
        }
    }

    /// Returns the place at which the client's next page starts; `None` if nothing is left.
    pub(super) fn state(&self) -> Option<ResultPlace> {
        if let Some(state) = &self.paging {
            return Some(self.result_place(state.place.clone(), state.read_id));
        }
        // At the start of a key, the place is the end of the previous key's partition.
        let Partitions::Keys(keys) = &self.partitions else { return None };
        keys.get(self.at)?;
        let key = keys.get(self.at.checked_sub(1)?)?.clone();
        Some(self.result_place(PagePlace::AfterPartition(key), 0))
    }

    /// Returns the place for a client's page that starts at this position of storage.
    pub(super) fn result_place(&self, place: PagePlace, read_id: u64) -> ResultPlace {
        let partition_rows = place.unfinished().map_or(0, |unfinished| self.given.rows_of(&unfinished.key));
        let storage = PagingState { place, remaining_rows: self.remaining, read_id };
        ResultPlace { storage, partition_rows }
    }

    /// Reads until the client's page is full or nothing is left. Returns the place at which the next page
    /// starts.
    async fn fill<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        page_rows: Option<u64>,
        size_logged: &mut bool,
    ) -> Result<Option<ResultPlace>, CqlError> {
        let wanted = page_rows.map_or(u64::MAX, |rows| rows.max(1));
        let mut reads = 0;
        loop {
            let room = wanted - u64::from(rows.rows.count());
            let Some(mut command) = self.command(room.min(READ_ROWS)) else { return Ok(None) };
            if page_rows.is_some() {
                command.page_tombstones = self.limits.page_tombstones;
            } else if !rows.rows.charge.is_large() {
                // A small page of storage limits the work that is lost if the result has to wait for its
                // turn.
                command.page_bytes = command.page_bytes.min(SMALL_RESULT_BYTES);
            }
            let mut page = coordinator.read(command).await?;
            let next = page.next.take();
            self.read_id = next.as_ref().map_or(0, |next| next.read_id);
            reads += 1;
            let is_dead = page.tombstones >= self.limits.page_tombstones;
            let taken = self.take(coordinator, page, rows, wanted).await?;
            // The last page of storage is checked as well, because a small result has only one.
            self.check_memory(coordinator, &mut rows.rows, 0, size_logged)?;
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
            let bytes = rows.rows.cells_bytes();
            let is_full = u64::from(rows.rows.count()) >= wanted || bytes as u64 >= self.limits.page_bytes;
            let is_tired = !self.pushes_limits && reads >= FILTER_READS_A_PAGE;
            if page_rows.is_some() && (is_full || is_tired || is_dead) {
                return Ok(self.state());
            }
        }
    }

    /// Checks whether the result may grow. `beside_bytes` counts bytes that were read and are not in the
    /// result yet. `size_logged` is true once the size of the result has been logged. If the result's charge
    /// waits after an error, the result must be gathered again.
    pub(super) fn check_memory<C: Host>(
        &self,
        coordinator: &C,
        rows: &mut ResultRows,
        beside_bytes: u64,
        size_logged: &mut bool,
    ) -> Result<(), CqlError> {
        let bytes = rows.cells_bytes();
        let memory_bytes = rows.memory_bytes() + beside_bytes;
        if self.is_paged {
            // A page that has been started is also finished; only the following pages wait for memory.
            rows.charge.grow_to(memory_bytes);
        } else {
            self.check_unpaged(coordinator, bytes as u64 + beside_bytes, size_logged)?;
            match rows.charge.grow_unpaged(memory_bytes) {
                Growth::Fits => {}
                Growth::GiveBack => return Err(CqlError::Overloaded(NO_MEMORY.to_string())),
                Growth::TooLarge => return Err(self.too_large(coordinator, memory_bytes)),
            }
        }
        if bytes > RESULT_BYTES_MAX {
            return invalid!("The result has more than {RESULT_BYTES_MAX} bytes; use pages, or request less");
        }
        Ok(())
    }

    #[cold]
    fn too_large<C: Host>(&self, coordinator: &C, bytes: u64) -> CqlError {
        let limit_bytes = coordinator.result_memory().map_or(0, |memory| memory.limit_bytes());
        let text = format!(
            "{NO_MEMORY}: it takes {bytes} bytes or more, and all large unpaged results of a shard together may take \
             {limit_bytes}; use pages, request less, or give the node more memory"
        );
        coordinator.log_memory_refused(&text);
        CqlError::Overloaded(text)
    }

    /// Checks an unpaged result against the soft and the hard limit. `size_logged` is true once the size of
    /// the result has been logged. The texts are ScyllaDB's.
    fn check_unpaged<C: Host>(
        &self,
        coordinator: &C,
        bytes: u64,
        size_logged: &mut bool,
    ) -> Result<(), CqlError> {
        let ResultLimits { unpaged_soft_bytes, unpaged_hard_bytes, .. } = self.limits;
        if bytes > unpaged_hard_bytes {
            return Err(CqlError::Server(format!(
                "Memory usage of unpaged query exceeds hard limit of {unpaged_hard_bytes} (configured via max_memory_for_unlimited_query_hard_limit)"
            )));
        }
        if bytes > unpaged_soft_bytes && !std::mem::replace(size_logged, true) {
            coordinator.log_warning(&format!(
                "Memory usage of unpaged query of {} exceeds soft limit of {unpaged_soft_bytes} (configured via max_memory_for_unlimited_query_soft_limit)",
                self.plan.schema.full_name()
            ));
        }
        Ok(())
    }

    /// Counts a processed row, and yields to other tasks once every `ROWS_A_CHECK` rows.
    #[inline]
    pub(super) async fn maybe_yield<C: Host>(&mut self, coordinator: &C) {
        self.unchecked += 1;
        if self.unchecked >= ROWS_A_CHECK {
            self.unchecked = 0;
            coordinator.maybe_yield().await;
        }
    }

    /// Moves the rows of a page of storage into the result, and frees each row after it was added.
    async fn take<C: Host>(
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
                self.maybe_yield(coordinator).await;
                continue;
            }
            let end = read.len();
            for (at, row) in read.into_iter().enumerate() {
                if self.given.rows() >= self.partition_limit {
                    break;
                }
                self.maybe_yield(coordinator).await;
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

    /// Returns the place at which the client's page ends after a row. `number` is the index of the row among
    /// the partition's rows in a page of storage.
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

    /// Returns the place at which the client's page ends after this partition.
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
