//! A statement of any kind, from its text to its outcome.
//!
//! [`Prepared::new`] parses and plans: every decision that depends only on the text and the schema is made
//! once, there. [`Prepared::execute`] executes the plan with bound values, any number of times, on any shard.

use std::sync::Arc;

use catalog::{Catalog, Resource};
use md5::{Digest, Md5};
use model::TableId;
use model::TableSchema;
use protocol::{BatchType, ColumnSpec, CqlError, ResultMetadata, Values, WriteKind};
use syntax::{BatchKind, Modification, Statement, Truncate, parse};

use crate::access::authorize::{self, TableNeed};
use crate::error::invalid;
use crate::modify::{self, ModifyPlan};
use crate::schema::{self, SchemaContext};
use crate::select::{self, SelectPlan};
use crate::term::{Planner, UserCall, bind};
use crate::{
    ConsistencyLevels, Coordinator, Execution, Outcome, Replicas, StatementKind, Verb, access, describe,
};

/// A prepared statement, ready to be executed.
pub struct Prepared {
    /// MD5 of keyspace and text, computed as in Cassandra and ScyllaDB.
    pub id: [u8; 16],
    pub text: Arc<str>,
    /// The connection's keyspace when the statement was prepared.
    pub keyspace: Option<Arc<str>>,
    /// Metadata of the bind markers, for clients.
    pub variables: ResultMetadata,
    /// Index of the bind marker for each partition key column; empty if clients cannot compute the partition
    /// key.
    pub partition_key_indexes: Vec<u16>,
    /// Metadata of the result's rows, for clients.
    pub result: Arc<ResultMetadata>,
    /// Whether the statement has an IF.
    pub is_conditional: bool,
    pub verb: Verb,
    pub warnings: Vec<String>,
    markers: Vec<ColumnSpec>,
    /// The schemas of the statement's tables, as they were when the statement was planned.
    tables: Vec<Arc<TableSchema>>,
    /// The permissions that its execution needs.
    needs: Vec<TableNeed>,
    /// The user-defined functions that the statement calls, and the resources that its user must be allowed
    /// to execute.
    calls: Vec<UserCall>,
    executes: Vec<Resource>,
    plan: Plan,
}

pub(crate) enum Plan {
    Select(Box<SelectPlan>),
    Modify(Box<ModifyPlan>),
    Truncate(Box<Truncate>),
    /// Statements that are checked when they are executed: USE, DESCRIBE, roles, service levels and schema
    /// changes.
    Other(Box<Statement>),
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({})", self.text)
    }
}

impl Prepared {
    /// Checks the number of values of an EXECUTE.
    ///
    /// # Errors
    /// It differs from the number of markers. The text is Cassandra's, which has another one for QUERY.
    pub fn check_bound(&self, values: &Values<'_>) -> Result<(), CqlError> {
        match self.wrong_count(values) {
            Some(text) => invalid!("there were {text}"),
            None => Ok(()),
        }
    }

    /// Checks the written table when a client prepares the statement. An execution checks it after the
    /// permissions.
    ///
    /// # Errors
    /// The statement writes a materialized view, or truncates a table that cannot be truncated.
    pub fn check_target(&self, catalog: &Catalog) -> Result<(), CqlError> {
        match &self.plan {
            Plan::Modify(modify) => modify.check_no_view(),
            Plan::Truncate(truncate) => {
                schema::truncated_table(catalog, &truncate.table, self.keyspace.as_deref()).map(|_| ())
            }
            Plan::Select(_) | Plan::Other(_) => Ok(()),
        }
    }

    /// Cassandra's words for values of another number than the markers.
    fn wrong_count(&self, values: &Values<'_>) -> Option<String> {
        let (markers, given) = (self.markers.len(), values.len());
        let is_wrong = values.names().is_none() && given != markers;
        is_wrong.then(|| format!("{markers} markers(?) in CQL but {given} bound variables"))
    }

    /// Parses and plans a statement. `keyspace` is the keyspace in use.
    ///
    /// # Errors
    /// The text is not a statement, or the statement does not fit the catalog.
    pub fn new(catalog: &Catalog, keyspace: Option<&str>, text: &str) -> Result<Self, CqlError> {
        let parsed = parse(text)?;
        let count = parsed.markers.len();
        let verb = Verb::of(&parsed.statement);
        let modification = |statement: &Modification| modify::prepare(catalog, keyspace, statement, count);
        let plan = match parsed.statement {
            Statement::Select(select) => {
                let table = schema::table_of(catalog, &select.table, keyspace)?;
                let planner = Planner::new(catalog, &table.schema.keyspace, &table.schema.name, count);
                Plan::Select(Box::new(select::prepare(planner, &select)?))
            }
            Statement::Insert(insert) => {
                Plan::Modify(Box::new(modification(&Modification::Insert(*insert))?))
            }
            Statement::Update(update) => {
                Plan::Modify(Box::new(modification(&Modification::Update(*update))?))
            }
            Statement::Delete(delete) => {
                Plan::Modify(Box::new(modification(&Modification::Delete(*delete))?))
            }
            Statement::Batch(batch) => {
                Plan::Modify(Box::new(modify::prepare_batch(catalog, keyspace, &batch, count)?))
            }
            Statement::Truncate(truncate) => Plan::Truncate(Box::new(truncate)),
            Statement::Unsupported(unsupported) if !unsupported.if_exists => {
                return Err(CqlError::Invalid(format!("{} is not supported yet", unsupported.what)));
            }
            other => Plan::Other(Box::new(other)),
        };
        let (markers, partition_key_indexes, ids): (&[ColumnSpec], Vec<u16>, Vec<TableId>) = match &plan {
            Plan::Select(select) => {
                (select.markers(), select.partition_key_markers().to_vec(), vec![select.table()])
            }
            Plan::Modify(modify) => {
                let indexes = modify.partition_key_markers().to_vec();
                (modify.markers(), indexes, modify.tables().collect())
            }
            Plan::Truncate(_) | Plan::Other(_) => (&[], vec![], vec![]),
        };
        let markers = markers.to_vec();
        let calls = match &plan {
            Plan::Select(select) => select.calls().to_vec(),
            Plan::Modify(modify) => modify.calls().to_vec(),
            Plan::Truncate(_) | Plan::Other(_) => vec![],
        };
        let mut tables: Vec<Arc<TableSchema>> = vec![];
        for id in ids {
            if !tables.iter().any(|known| known.id == id)
                && let Some(table) = catalog.table_by_id(id)
            {
                tables.push(table.schema.clone());
            }
        }
        Ok(Self {
            id: Self::id_of(keyspace, text),
            text: text.into(),
            keyspace: keyspace.map(Into::into),
            variables: ResultMetadata::new(&markers),
            partition_key_indexes,
            result: match &plan {
                Plan::Select(select) => select.metadata().clone(),
                _ => Arc::new(ResultMetadata::none()),
            },
            verb,
            is_conditional: matches!(&plan, Plan::Modify(modify) if modify.is_conditional()),
            warnings: vec![],
            needs: needs_of(catalog, &plan, &tables),
            markers,
            tables,
            executes: calls.iter().flat_map(UserCall::resources).collect(),
            calls,
            plan,
        })
    }

    /// The columns of a SELECT's result; empty for other statements.
    #[cfg(test)]
    pub(crate) fn columns(&self) -> &[ColumnSpec] {
        match &self.plan {
            Plan::Select(select) => select.columns(),
            _ => &[],
        }
    }

    /// Returns the id of a statement that is prepared while `keyspace` is in use.
    pub fn id_of(keyspace: Option<&str>, text: &str) -> [u8; 16] {
        let digest = Md5::new().chain_update(keyspace.unwrap_or_default()).chain_update(text);
        digest.finalize().into()
    }

    /// Whether the schemas of the statement's tables, and the definitions of its functions, are the same as
    /// when it was planned.
    #[inline]
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        self.tables
            .iter()
            .all(|table| catalog.table_by_id(table.id).is_some_and(|known| Arc::ptr_eq(&known.schema, table)))
            && self.calls.iter().all(|call| call.is_current(catalog))
    }

    /// Estimate of the memory that the prepared statement takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // A plan has a few small allocations for each column and bind marker.
        size_of::<Self>() + 8 * self.text.len() + 256 * self.markers.len() + 1024
    }

    /// Returns the value of USING TIMEOUT in microseconds.
    ///
    /// # Errors
    /// The value is not a valid timeout, or the bound values do not fit.
    pub fn timeout_us(&self, values: &Values<'_>, now_us: i64) -> Result<Option<u64>, CqlError> {
        match &self.plan {
            Plan::Select(select) if select.has_timeout() => {
                let timeout_us = select.timeout_us(&bind(values, &self.markers)?)?;
                Ok(timeout_us.and_then(|timeout_us| u64::try_from(timeout_us).ok()))
            }
            Plan::Modify(modify) if modify.has_timeout() => {
                let timeout_ns = modify.timeout_ns(&bind(values, &self.markers)?, now_us)?;
                Ok(timeout_ns.map(|timeout_ns| timeout_ns / 1000))
            }
            _ => Ok(None),
        }
    }

    /// Returns the name in USING SERVICE LEVEL. The service level need not exist.
    pub fn service_level(&self) -> Option<&str> {
        match &self.plan {
            Plan::Select(select) => select.service_level(),
            _ => None,
        }
    }

    /// Whether drivers read nodes and schema with this statement; see [`is_control_statement`].
    #[inline]
    pub fn is_control(&self) -> bool {
        matches!(&self.plan, Plan::Select(_))
            && self.tables.iter().all(|table| is_control_table(&table.keyspace, &table.name))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The schemas of the statement's tables; none for TRUNCATE and statements about schema and roles.
    pub(crate) fn tables(&self) -> &[Arc<TableSchema>] {
        &self.tables
    }

    /// Returns the kind of the statement, which selects its timeout.
    pub fn kind(&self) -> StatementKind {
        match &self.plan {
            Plan::Select(select) if select.is_single_partition() => StatementKind::Read,
            Plan::Select(_) => StatementKind::Range,
            Plan::Modify(modify) if modify.is_conditional() => StatementKind::Conditional,
            Plan::Modify(modify) if modify.is_counter() => StatementKind::Counter,
            Plan::Modify(_) => StatementKind::Write,
            Plan::Truncate(_) => StatementKind::Truncate,
            Plan::Other(_) => StatementKind::Other,
        }
    }

    /// Checks that the statement allows these consistency levels, and that the cluster has enough replicas
    /// for them.
    ///
    /// # Errors
    /// As [`ConsistencyLevels::check_kind`] and [`ConsistencyLevels::check_replicas`].
    #[inline]
    pub fn check_consistency(
        &self,
        levels: ConsistencyLevels,
        catalog: &Catalog,
        replicas: Replicas<'_>,
    ) -> Result<(), CqlError> {
        let is_batch = matches!(&self.plan, Plan::Modify(modify) if modify.is_batch());
        check_consistency(self.kind(), is_batch, &self.tables, levels, catalog, replicas)
    }

    /// Returns the error for a statement that reached its deadline.
    pub fn timed_out(&self, consistency: u16) -> CqlError {
        match &self.plan {
            Plan::Modify(modify) => CqlError::WriteTimeout {
                consistency,
                received: 0,
                required: 1,
                kind: match () {
                    () if modify.is_conditional() => WriteKind::Cas,
                    () if modify.is_counter() => WriteKind::Counter,
                    () if modify.is_batch() => WriteKind::Batch,
                    () => WriteKind::Simple,
                },
            },
            Plan::Truncate(_) => CqlError::Truncate(
                "TRUNCATE took longer than truncate_request_timeout or the timeout of its service level; it continues"
                    .to_string(),
            ),
            _ => CqlError::ReadTimeout { consistency, received: 0, required: 1, data_present: false },
        }
    }

    /// Executes the statement.
    ///
    /// # Errors
    /// The user lacks a permission, the bound values do not fit, or the storage fails.
    pub async fn execute<C: Coordinator>(
        &self,
        coordinator: &C,
        values: &Values<'_>,
        execution: &Execution<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, CqlError> {
        authorize::check_tables(&self.needs, coordinator)?;
        authorize::check_functions(&self.executes, coordinator)?;
        match &self.plan {
            Plan::Select(select) => {
                let select = authorize::visible(select, coordinator)?;
                let bound = bind(values, &self.markers)?;
                warnings.extend(select.page_warning(&bound, execution));
                let rows = select::execute(select, coordinator, &bound, execution).await?;
                warnings.extend(select.warning().map(str::to_string));
                Ok(Outcome::Rows(rows))
            }
            Plan::Modify(modify) => {
                modify.check_no_view()?;
                let bound = bind(values, &self.markers)?;
                modify::execute(modify, coordinator, &bound, execution, warnings).await
            }
            Plan::Truncate(truncate) => {
                let catalog = coordinator.catalog();
                authorize::check_truncate(truncate, self.keyspace.as_deref(), coordinator, &catalog)?;
                let table = schema::truncated_table(&catalog, &truncate.table, self.keyspace.as_deref())?;
                coordinator.truncate(table).await?;
                Ok(Outcome::Void)
            }
            Plan::Other(statement) => self.other(statement, coordinator, execution, warnings).await,
        }
    }

    async fn other<C: Coordinator>(
        &self,
        statement: &Statement,
        coordinator: &C,
        execution: &Execution<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, CqlError> {
        let keyspace = self.keyspace.as_deref();
        let catalog = coordinator.catalog();
        if coordinator.checks_permissions() {
            for (permission, resource) in authorize::required(statement, keyspace, &catalog) {
                authorize::check(coordinator, &catalog, permission, &resource)?;
            }
        }
        match statement {
            // DROP ... IF EXISTS of an unsupported kind of object: no such object exists.
            Statement::Unsupported(_) => Ok(Outcome::Void),
            Statement::Use(name) => Ok(Outcome::SetKeyspace(schema::used_keyspace(&catalog, name)?)),
            Statement::Describe(what) => {
                let rows = describe::describe(what, keyspace, &catalog, &coordinator.node_info())?;
                Ok(Outcome::Rows(rows.result_rows()))
            }
            // Boxed, because the future is large and the statements are rare.
            Statement::Access(statement) => {
                Box::pin(access::execute(statement, coordinator, keyspace, warnings)).await
            }
            change => {
                let random =
                    (u128::from(coordinator.random_u64()) << 64) | u128::from(coordinator.random_u64());
                let context = SchemaContext {
                    keyspace,
                    timestamp_us: execution.timestamp_us.unwrap_or_else(|| coordinator.timestamp_us()),
                    new_table_id: uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid(),
                    data_center: &coordinator.node_info().data_center,
                    rules: coordinator.schema_rules(),
                    counts_as_all_replicas: coordinator.counts_as_all_replicas(),
                    masks_columns: coordinator.masks_columns(),
                };
                let Some(plan) = schema::plan(change, &catalog, &context)? else {
                    return Err(CqlError::Server(format!("there is no implementation of {}", self.text)));
                };
                let change = authorize::with_creator(coordinator, statement, keyspace, plan.change);
                let changes = coordinator.change_schema(change).await?;
                // If the object existed already, the schema does not change, and the plan's warnings do not
                // apply.
                warnings.extend(plan.warnings.into_iter().filter(|_| !changes.is_empty()));
                Ok(schema::answer(&changes).map_or(Outcome::Void, Outcome::SchemaChange))
            }
        }
    }
}

/// The permissions that the execution of a plan needs. `tables` has the tables of SELECT and of
/// modifications.
fn needs_of(catalog: &Catalog, plan: &Plan, tables: &[Arc<TableSchema>]) -> Vec<TableNeed> {
    match plan {
        // Whoever may read a table may read its views.
        Plan::Select(_) => {
            let base = |table: &Arc<TableSchema>| {
                let view = table.view.as_ref()?;
                catalog.table_by_id(view.base_id).map(|base| base.schema.clone())
            };
            let read = |table: &Arc<TableSchema>| TableNeed::read(&base(table).unwrap_or(table.clone()));
            tables.iter().filter_map(read).collect()
        }
        Plan::Modify(modify) => {
            let is_conditional = |id| modify.conditional_tables().any(|table| table == id);
            let of_table = |table: &Arc<TableSchema>| {
                // A condition reveals what it reads. A write to a table with views reads it and writes them.
                let views: Vec<TableNeed> =
                    catalog.views_of(table).map(|view| TableNeed::write(&view.schema)).collect();
                let reads = is_conditional(table.id) || !views.is_empty();
                let read = reads.then(|| TableNeed::read(table)).flatten();
                // The answer to a condition that does not hold shows values, and they are not masked there.
                let is_masked =
                    catalog.table_by_id(table.id).is_some_and(|table| !table.settings.masks.is_empty());
                let unmask = (is_masked && is_conditional(table.id)).then(|| TableNeed::unmask(table));
                std::iter::once(TableNeed::write(table)).chain(read).chain(unmask).chain(views)
            };
            tables.iter().flat_map(of_table).collect()
        }
        Plan::Truncate(_) | Plan::Other(_) => vec![],
    }
}

/// Whether drivers read this table to discover nodes and schema.
fn is_control_table(keyspace: &str, table: &str) -> bool {
    match keyspace {
        "system_schema" | "system_virtual_schema" => true,
        "system" => matches!(table, "local" | "peers" | "peers_v2"),
        _ => false,
    }
}

/// Whether a text is a SELECT with which drivers discover nodes and schema. `keyspace` is the keyspace in
/// use. Most other texts are recognized by their first bytes, without parsing.
pub fn is_control_statement(keyspace: Option<&str>, text: &str) -> bool {
    const TEXT_BYTES_MAX: usize = 4096;
    let text = text.trim_start();
    let is_select = text.as_bytes().get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"select"));
    let speaks_of_system = || {
        keyspace.is_some_and(|keyspace| keyspace.starts_with("system"))
            || text.as_bytes().windows(6).any(|word| word.eq_ignore_ascii_case(b"system"))
    };
    if !is_select || text.len() > TEXT_BYTES_MAX || !speaks_of_system() {
        return false;
    }
    let Ok(parsed) = parse(text) else { return false };
    let Statement::Select(select) = parsed.statement else { return false };
    let of = select.table.keyspace.as_ref().map(|name| name.text.as_str()).or(keyspace);
    of.is_some_and(|keyspace| is_control_table(keyspace, &select.table.name.text))
}

fn check_consistency(
    kind: StatementKind,
    is_batch: bool,
    tables: &[Arc<TableSchema>],
    levels: ConsistencyLevels,
    catalog: &Catalog,
    replicas: Replicas<'_>,
) -> Result<(), CqlError> {
    levels.check_kind(kind, is_batch, tables.first().map_or("", |table| &table.name))?;
    tables.iter().try_for_each(|table| levels.check_replicas(kind, catalog, &table.keyspace, replicas))
}

/// [`Prepared::check_consistency`] for a batch of the protocol. Returns the kind that selects the batch's
/// timeout.
///
/// # Errors
/// As for a single statement.
pub fn check_batch_consistency(
    batch_type: BatchType,
    statements: &[(Arc<Prepared>, &Values<'_>)],
    levels: ConsistencyLevels,
    catalog: &Catalog,
    replicas: Replicas<'_>,
) -> Result<StatementKind, CqlError> {
    let kind = match () {
        () if statements.iter().any(|(prepared, _)| prepared.is_conditional) => StatementKind::Conditional,
        () if batch_type == BatchType::Counter => StatementKind::Counter,
        () => StatementKind::Write,
    };
    for (prepared, _) in statements {
        check_consistency(kind, true, &prepared.tables, levels, catalog, replicas)?;
    }
    Ok(kind)
}

/// Executes a batch of the protocol: prepared statements, each with its bound values.
///
/// # Errors
/// The user lacks a permission, a statement is not a modification, the bound values do not fit, or the
/// storage fails.
pub async fn execute_batch<C: Coordinator>(
    coordinator: &C,
    batch_type: BatchType,
    statements: &[(Arc<Prepared>, &Values<'_>)],
    execution: &Execution<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let kind = match batch_type {
        BatchType::Logged => BatchKind::Logged,
        BatchType::Unlogged => BatchKind::Unlogged,
        BatchType::Counter => BatchKind::Counter,
    };
    for (prepared, _) in statements {
        authorize::check_tables(&prepared.needs, coordinator)?;
        authorize::check_functions(&prepared.executes, coordinator)?;
        if let Plan::Modify(modify) = &prepared.plan {
            modify.check_no_view()?;
        }
    }
    let mut parts = Vec::with_capacity(statements.len());
    for (prepared, values) in statements {
        let Plan::Modify(plan) = &prepared.plan else {
            return Err(CqlError::Invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
                    .to_string(),
            ));
        };
        if let Some(text) = prepared.wrong_count(values) {
            return invalid!("There were {text}");
        }
        parts.push((&**plan, bind(values, &prepared.markers)?));
    }
    let parts: Vec<_> = parts.iter().map(|(plan, bound)| (*plan, &bound[..])).collect();
    modify::execute_batch(kind, &parts, coordinator, execution, warnings).await
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Prepared>();
};
