//! A `Coordinator` with storage in memory, for tests. Every operation completes at once and no write is lost.
//!
//! Tables are [`MemorySource`]s. A read collects all live rows and cuts its page out of them, so that the
//! code can be verified by reading. Tests can make pages end at any row. The clock stands still until a test
//! sets it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::HashMap;
use base::rng::Rng;
use catalog::{Catalog, Keyspace, Permissions, Resource, SchemaChange, Scripts, Table, TableSettings};
use model::{
    ChangeLog, ClusteringKey, ClusteringRow, IndexTerms, Mutation, Partition, PartitionKey, PartitionRange,
    Purge, Row, TableId, TableSchema, ViewError, ViewPlan,
};
use protocol::CqlError;
use reader::{
    CompactReader, Fragment, IndexQuery, Keep, MemorySource, Page, PagePlace, PagingState, PartitionPage,
    ReadCommand, ReadSpec, Reader, Source, Step, UnfinishedPartition,
};
use uuid::Uuid;

use crate::coordinator::{ChangeSchema, ClientState, Decide, Host, SchemaRules, Storage};
use crate::error::from_catalog;
use crate::limits::{BatchLimits, BatchSeverity, ResultLimits};
use crate::system::NodeInfo;

/// See the head of this file.
#[derive(Debug)]
pub struct MemoryCoordinator {
    catalog: RefCell<Catalog>,
    tables: RefCell<HashMap<TableId, MemorySource>>,
    now_us: Cell<i64>,
    last_timestamp_us: Cell<i64>,
    random: RefCell<Rng>,
    reads: Cell<u64>,
    yields: Cell<u64>,
    /// Largest number of rows in a page, whatever the read requests.
    page_rows_max: Cell<u64>,
    /// Pages end at random after one in this number of rows, live or dead.
    early_ends: RefCell<Option<(Rng, u64)>>,
    /// Reads of secondary indexes leave out every row that does not match.
    exact_indexes: Cell<bool>,
    index_reads: Cell<u64>,
    result_limits: Cell<ResultLimits>,
    batch_limits: Cell<BatchLimits>,
    warnings: RefCell<Vec<String>>,
    user: RefCell<Option<Arc<str>>>,
    checks_permissions: Cell<bool>,
    schema_rules: Cell<SchemaRules>,
    masks_columns: Cell<bool>,
    scripts: RefCell<Option<Scripts>>,
}

impl MemoryCoordinator {
    /// Creates the coordinator with these tables and their keyspaces.
    pub fn new(tables: &[Arc<TableSchema>]) -> Self {
        let mut catalog = Catalog::empty();
        for table in tables {
            if catalog.keyspace(&table.keyspace).is_none() {
                let keyspace = Keyspace::simple(table.keyspace.as_str()).expect("a name");
                catalog = catalog.create_keyspace(keyspace).expect("a new keyspace").0;
            }
            catalog = catalog.create_table(table.clone(), TableSettings::default()).expect("a new table").0;
        }
        Self {
            catalog: RefCell::new(catalog),
            tables: RefCell::default(),
            now_us: Cell::new(1_700_000_000_000_000),
            last_timestamp_us: Cell::new(0),
            random: RefCell::new(Rng::new(1)),
            reads: Cell::new(0),
            yields: Cell::new(0),
            page_rows_max: Cell::new(u64::MAX),
            early_ends: RefCell::default(),
            exact_indexes: Cell::default(),
            index_reads: Cell::default(),
            result_limits: Cell::default(),
            batch_limits: Cell::new(BatchLimits::DEFAULT),
            warnings: RefCell::default(),
            user: RefCell::default(),
            checks_permissions: Cell::new(false),
            schema_rules: Cell::default(),
            masks_columns: Cell::new(false),
            scripts: RefCell::default(),
        }
    }

    /// Sets the clock, in microseconds since the Unix epoch.
    pub fn set_now_us(&self, now_us: i64) {
        self.now_us.set(now_us);
    }

    pub fn set_catalog(&self, catalog: Catalog) {
        *self.catalog.borrow_mut() = catalog;
    }

    /// Sets the role that has logged in.
    pub fn set_user(&self, user: Option<&str>) {
        *self.user.borrow_mut() = user.map(Into::into);
    }

    /// Whether permissions are checked, as with `authorizer: CassandraAuthorizer`.
    pub fn set_checks_permissions(&self, checks: bool) {
        self.checks_permissions.set(checks);
    }

    /// Whether columns are masked, as with `dynamic_data_masking_enabled`.
    pub fn set_masks_columns(&self, masks: bool) {
        self.masks_columns.set(masks);
    }

    /// Sets what runs the bodies of functions.
    pub fn set_scripts(&self, scripts: Option<Scripts>) {
        *self.scripts.borrow_mut() = scripts;
    }

    /// Limits the rows of a page, as storage with large rows does.
    pub fn set_page_rows_max(&self, rows: u64) {
        self.page_rows_max.set(rows);
    }

    /// Ends pages at random after one in `one_in` rows, live or dead, as storage with many dead rows does. 0
    /// turns this off.
    pub fn set_early_ends(&self, seed: u64, one_in: u64) {
        *self.early_ends.borrow_mut() = (one_in > 0).then(|| (Rng::new(seed), one_in));
    }

    /// Sets whether reads of secondary indexes leave out every row that does not match. Otherwise they return
    /// all rows, as storage also may.
    pub fn set_exact_indexes(&self, is_exact: bool) {
        self.exact_indexes.set(is_exact);
    }

    /// Number of reads of secondary indexes since the last call.
    pub fn index_reads(&self) -> u64 {
        self.index_reads.take()
    }

    pub fn set_schema_rules(&self, rules: SchemaRules) {
        self.schema_rules.set(rules);
    }

    pub fn set_batch_limits(&self, limits: BatchLimits) {
        self.batch_limits.set(limits);
    }

    pub fn set_result_limits(&self, limits: ResultLimits) {
        self.result_limits.set(limits);
    }

    /// The warnings logged so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Number of pages read so far.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Number of calls of [`Host::maybe_yield`] so far.
    pub fn yields(&self) -> u64 {
        self.yields.get()
    }

    /// Applies a mutation, without its views and its change log.
    pub fn write(&self, mutation: &Mutation) {
        self.tables.borrow_mut().entry(mutation.schema.id).or_default().apply(mutation);
    }

    /// Applies a mutation, and what follows from it to the views and the change log of its table.
    fn write_with_views(&self, mutation: &Mutation) -> Result<(), CqlError> {
        let views: Vec<_> = self.catalog().views_of(&mutation.schema).cloned().collect();
        for view in views {
            let before = self.table(mutation.schema.id).partitions().get(&mutation.key).cloned();
            self.write_view(mutation, &before.unwrap_or_default(), &view.schema)?;
        }
        self.write_log(mutation)?;
        self.write(mutation);
        Ok(())
    }

    fn write_log(&self, mutation: &Mutation) -> Result<(), CqlError> {
        let catalog = self.catalog();
        let Some(base) = catalog.table_by_id(mutation.schema.id) else { return Ok(()) };
        let (Some(log), Some(options)) = (catalog.change_log_of(base), base.settings.change_log()) else {
            return Ok(());
        };
        let plan = ChangeLog::new(&base.schema, &log.schema, options);
        let plan = plan.map_err(|error| CqlError::Invalid(error.to_string()))?;
        let before = self.table(mutation.schema.id).partitions().get(&mutation.key).cloned();
        let before = before.unwrap_or_default();
        let now_s = (self.now_us.get() / 1_000_000) as u32;
        let entries = plan.mutation(&mutation.key, &before, &mutation.partition, now_s, &mut || 0);
        entries.iter().for_each(|write| self.write(write));
        Ok(())
    }

    fn write_view(
        &self,
        mutation: &Mutation,
        before: &Partition,
        view: &Arc<TableSchema>,
    ) -> Result<(), CqlError> {
        let invalid = |error: ViewError| CqlError::Invalid(error.to_string());
        let catalog = self.catalog();
        let base = catalog.table_by_id(mutation.schema.id).map_or(&mutation.schema, |table| &table.schema);
        let plan = ViewPlan::new(base, view).map_err(invalid)?;
        let now_s = (self.now_us.get() / 1_000_000) as u32;
        let writes = plan.mutations(&mutation.key, before, &mutation.partition, now_s).map_err(invalid)?;
        writes.iter().for_each(|write| self.write(write));
        Ok(())
    }

    /// Builds a new view from the content of its base table.
    fn build(&self, view: &Arc<TableSchema>) -> Result<(), CqlError> {
        let catalog = self.catalog();
        let Some(base) = view.view.as_ref().and_then(|view| catalog.table_by_id(view.base_id)) else {
            return Ok(());
        };
        for (key, partition) in self.table(base.schema.id).partitions() {
            let mut mutation = Mutation::new(base.schema.clone(), key.clone());
            mutation.partition = partition.clone();
            self.write_view(&mutation, &Partition::default(), view)?;
        }
        Ok(())
    }

    /// The content of a table, including tombstones.
    pub fn table(&self, id: TableId) -> MemorySource {
        self.tables.borrow().get(&id).cloned().unwrap_or_default()
    }

    fn page(&self, command: &ReadCommand) -> Result<Page, CqlError> {
        self.reads.set(self.reads.get() + 1);
        self.index_reads.set(self.index_reads.get() + u64::from(command.index.is_some()));
        let catalog = self.catalog.borrow();
        let Some(table) = catalog.table_by_id(command.table) else {
            return Err(CqlError::Server(format!("no table with id {}", command.table)));
        };
        let now_s = command.now_s.unwrap_or((self.now_us.get() / 1_000_000) as u32);
        let source = self.table(command.table);
        let mut partitions = walked(&table.schema, &source, command, now_s);
        if let Some(query) = command.index.as_deref().filter(|_| self.exact_indexes.get()) {
            partitions.iter_mut().for_each(|partition| retain_matches(&table.schema, query, partition));
        }
        let mut early_ends = self.early_ends.borrow_mut();
        let ends_early = || early_ends.as_mut().is_some_and(|(rng, one_in)| rng.chance(1, *one_in));
        Ok(cut(command, partitions, self.page_rows_max.get(), ends_early))
    }
}

/// A partition as a read visits it.
struct Walked {
    key: PartitionKey,
    static_row: Row,
    /// Whether a row or the static row is live.
    is_live: bool,
    /// Every stored row, in the direction of the read; `None` for a dead row.
    rows: Vec<(ClusteringKey, Option<Row>)>,
    /// Number of the partition's live rows on earlier pages.
    shown_rows: u64,
    newest_deletion_us: Option<i64>,
}

/// Collects the rows that the read still has to return, including dead rows.
fn walked(
    schema: &Arc<TableSchema>,
    source: &MemorySource,
    command: &ReadCommand,
    now_s: u32,
) -> Vec<Walked> {
    let Some(wanted) = command.remaining_partitions() else { return vec![] };
    let unfinished = command.paging.as_ref().and_then(PagingState::unfinished);
    let mut out = vec![];
    for key in source.partitions().keys().filter(|key| wanted.contains(key)) {
        let unfinished = unfinished.filter(|unfinished| unfinished.key == *key);
        let ranges = match unfinished {
            Some(unfinished) => command.ranges_after(schema, &unfinished.last_row).into(),
            None => command.ranges.clone(),
        };
        let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()))
            .ranges(ranges)
            .reversed(command.reversed);
        let mut live = CompactReader::new(source.reader(&spec), Purge::nothing(now_s), Keep::Live)
            .needing_markers(schema.needs_row_marker());
        let shown_rows = unfinished.map_or(0, |unfinished| unfinished.shown_rows);
        let mut partition = Walked {
            key: key.clone(),
            static_row: Row::new(),
            is_live: false,
            rows: vec![],
            shown_rows,
            newest_deletion_us: None,
        };
        let mut live_rows = vec![];
        for fragment in fragments(&mut live) {
            match fragment {
                Fragment::PartitionStart { .. } => partition.is_live = true,
                Fragment::Static(row) => partition.static_row = (*row).clone(),
                Fragment::Row(row) => live_rows.push((row.key, (*row.row).clone())),
                Fragment::Change(_) | Fragment::PartitionEnd => {}
            }
        }
        partition.newest_deletion_us = live.newest_deletion_us();
        let mut live_rows = live_rows.into_iter().peekable();
        for fragment in fragments(&mut source.reader(&spec)) {
            if let Fragment::Row(row) = fragment {
                let is_live = |live: &(ClusteringKey, Row)| live.0 == row.key;
                let live = live_rows.next_if(is_live).map(|(_, row)| row);
                partition.rows.push((row.key, live));
            }
        }
        assert!(live_rows.next().is_none(), "every live row is stored");
        out.push(partition);
    }
    out
}

/// Removes the rows that do not satisfy all clauses of the query.
fn retain_matches(schema: &TableSchema, query: &IndexQuery, partition: &mut Walked) {
    for clause in &query.clauses {
        let index = schema.indexes.iter().find(|index| index.id == clause.index).expect("an index");
        let terms = IndexTerms::new(schema, index).expect("an index of the table");
        let mut of_partition = false;
        let mut take = |term: Vec<u8>| of_partition |= clause.contains(&term);
        terms.of_partition_key(&partition.key, &mut take);
        terms.of_static_row(&partition.static_row, &mut take);
        if terms.is_per_partition() && of_partition {
            continue;
        }
        for (key, row) in &mut partition.rows {
            let mut matches = false;
            if let Some(row) = row {
                terms.of_row(key, row, &mut |term: Vec<u8>| matches |= clause.contains(&term));
            }
            if !matches {
                *row = None;
            }
        }
        partition.is_live = partition.rows.iter().any(|(_, row)| row.is_some());
    }
}

fn fragments(reader: &mut dyn Reader) -> Vec<Fragment> {
    let mut out = vec![];
    loop {
        match reader.next().expect("memory can be read") {
            Step::Ready(fragment) => out.push(fragment),
            // Memory has nothing to load; this step only lets other tasks run.
            Step::Load => {}
            Step::End => return out,
        }
    }
}

/// Cuts the first page out of the remaining rows. `ends_early` is called after each row, live or dead, and
/// after each partition.
fn cut(
    command: &ReadCommand,
    partitions: Vec<Walked>,
    page_rows_max: u64,
    mut ends_early: impl FnMut() -> bool,
) -> Page {
    let remaining = command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
    let room = command.page_rows.max(1).min(page_rows_max).min(remaining);
    let newest_deletion_us = partitions.iter().filter_map(|partition| partition.newest_deletion_us).max();
    let mut page = Page { newest_deletion_us, ..Page::default() };
    let mut rows = 0;
    let stop = |mut page: Page, place: PagePlace, rows: u64| {
        let remaining_rows = remaining - rows;
        page.next = Some(PagingState { place, remaining_rows, read_id: command.read_id });
        page.next = page.next.filter(|next| next.remaining_rows > 0);
        page
    };
    for Walked { key, static_row, is_live, rows: walked, shown_rows, .. } in partitions {
        let mut partition = PartitionPage { key: key.clone(), static_row, rows: vec![] };
        let mut shown_rows = shown_rows;
        for (row_key, row) in walked {
            if shown_rows >= command.partition_limit_rows {
                break;
            }
            if let Some(row) = row {
                partition.rows.push(ClusteringRow { key: row_key.clone(), row });
                rows += 1;
                shown_rows += 1;
                if shown_rows >= command.partition_limit_rows {
                    break;
                }
            }
            if rows >= room || ends_early() {
                let place = PagePlace::Inside(UnfinishedPartition { key, last_row: row_key, shown_rows });
                if !partition.rows.is_empty() {
                    page.partitions.push(partition);
                }
                return stop(page, place, rows);
            }
        }
        // A partition that started on an earlier page had its static row there.
        if !partition.rows.is_empty() || (is_live && shown_rows == 0) {
            rows += u64::from(partition.rows.is_empty());
            page.partitions.push(partition);
        }
        if rows >= room || ends_early() {
            return stop(page, PagePlace::AfterPartition(key), rows);
        }
    }
    page
}

impl Storage for MemoryCoordinator {
    fn catalog(&self) -> Catalog {
        self.catalog.borrow().clone().with_scripts(self.scripts.borrow().clone())
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), CqlError> {
        self.write_with_views(&mutation)
    }

    async fn apply_batch(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        mutations.iter().try_for_each(|mutation| self.write_with_views(mutation))
    }

    async fn apply_unlogged(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        self.apply_batch(mutations).await
    }

    async fn read(&self, command: ReadCommand) -> Result<Page, CqlError> {
        self.page(&command)
    }

    async fn read_modify_write(&self, command: ReadCommand, decide: Decide) -> Result<Page, CqlError> {
        let page = self.page(&command)?;
        // No other task draws timestamps here, so the last one is above those of all earlier decisions.
        for mutation in decide(&page, self.last_timestamp_us.get())?.unwrap_or_default() {
            self.write_with_views(&mutation)?;
        }
        Ok(page)
    }

    async fn change_schema(&self, change: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        let old = self.catalog();
        let (catalog, changes) = change(&old).map_err(from_catalog)?;
        self.set_catalog(catalog.clone());
        let is_new = |view: &&Arc<Table>| old.table_by_id(view.schema.id).is_none();
        for view in catalog.all_tables().filter(|table| table.schema.view.is_some()).filter(is_new) {
            self.build(&view.schema)?;
        }
        Ok(changes)
    }

    async fn truncate(&self, table: TableId) -> Result<(), CqlError> {
        let catalog = self.catalog();
        let base = catalog.table_by_id(table);
        let views =
            base.into_iter().flat_map(|base| catalog.views_of(&base.schema)).map(|view| view.schema.id);
        for id in views.chain([table]) {
            self.tables.borrow_mut().remove(&id);
        }
        Ok(())
    }
}

impl Host for MemoryCoordinator {
    fn wall_us(&self) -> i64 {
        self.now_us.get()
    }

    fn timestamp_us(&self) -> i64 {
        let timestamp_us = self.now_us.get().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(timestamp_us);
        timestamp_us
    }

    fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn node_info(&self) -> NodeInfo {
        NodeInfo::new(self.host_id(), std::net::IpAddr::from([127, 0, 0, 1]), 9042)
    }

    fn host_id(&self) -> Uuid {
        Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef)
    }

    fn service_levels_max(&self) -> usize {
        3
    }

    async fn maybe_yield(&self) {
        self.yields.set(self.yields.get() + 1);
    }

    fn log_warning(&self, text: &str) {
        self.warnings.borrow_mut().push(text.to_string());
    }

    fn log_batch(&self, severity: BatchSeverity, text: &str) {
        self.warnings.borrow_mut().push(format!("{severity:?}: {text}"));
    }
}

impl ClientState for MemoryCoordinator {
    fn user(&self) -> Option<Arc<str>> {
        self.user.borrow().clone()
    }

    fn checks_permissions(&self) -> bool {
        self.checks_permissions.get()
    }

    fn masks_columns(&self) -> bool {
        self.masks_columns.get()
    }

    fn table_permissions(&self, table: &TableSchema) -> Permissions {
        if !self.checks_permissions() {
            return Permissions::ALL;
        }
        let resource = Resource::table(&table.keyspace, &table.name);
        self.user().map_or(Permissions::NONE, |user| self.catalog().access().permissions_on(&user, &resource))
    }

    /// The hash is the reversed password, which is not secret.
    async fn hash_password(&self, password: &str) -> Result<String, CqlError> {
        Ok(password.chars().rev().collect())
    }

    fn result_limits(&self) -> ResultLimits {
        self.result_limits.get()
    }

    fn schema_rules(&self) -> SchemaRules {
        self.schema_rules.get()
    }

    fn batch_limits(&self) -> BatchLimits {
        self.batch_limits.get()
    }
}
