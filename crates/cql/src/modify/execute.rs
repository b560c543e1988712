//! Executes a prepared write.
//!
//! In the usual case a single mutation is built directly from the bound values. Batches and statements with
//! IN build one mutation for each partition. Changes that depend on stored data read it first: changes of
//! lists with an ordinary read, counter updates and conditions while the partition is locked.

use std::sync::Arc;

use base::broken;
use model::{ClusteringRange, Mutation, PartitionKey, PartitionRange, Row, TableId};
use protocol::{CqlError, Value};
use reader::{Page, ReadCommand};
use syntax::BatchKind;

use super::batch::{self, SizedWrite};
use super::change::{Change, Verb};
use super::condition::{self, BoundCondition};
use super::edit::{CounterNode, EditKind};
use super::list_path::ListPaths;
use super::plan::ModifyPlan;
use super::reply::Reply;
use super::target::{Named, Rows};
use super::using::Using;
use super::write::{self, PartitionWrite, RowAt, WriteContext, Writes};
use super::{index_limits, json};
use crate::error::invalid;
use crate::term::Env;
use crate::{Coordinator, Decide, Execution, Host, Outcome};

/// A change with the values of its statement's bind markers.
#[derive(Clone, Copy)]
struct Part<'a> {
    change: &'a Change,
    bound: &'a [Value<'a>],
}

/// Executes a plan. `bound` has a value for each of [`ModifyPlan::markers`]. Warnings for the client are
/// added to `warnings`.
///
/// # Errors
/// A value does not fit its place, or the storage fails.
pub async fn execute<C: Coordinator>(
    plan: &ModifyPlan,
    coordinator: &C,
    bound: &[Value<'_>],
    execution: &Execution<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let from_json = json::values(plan.changes.iter(), bound)?;
    let extended = if from_json.is_empty() { vec![] } else { json::extended(bound, &from_json) };
    let bound = if extended.is_empty() { bound } else { &extended[..] };
    if let (None, None, [change]) = (&plan.batch, &plan.reply, &plan.changes[..])
        && let Some(mutation) = usual(change, coordinator, bound, execution)
    {
        let mutation = mutation?;
        index_limits::check(&mutation, warnings)?;
        if !mutation.partition.is_empty() {
            coordinator.apply(mutation).await?;
        }
        return Ok(Outcome::Void);
    }
    let parts: Vec<Part<'_>> = plan.changes.iter().map(|change| Part { change, bound }).collect();
    let base_us = match &plan.batch {
        Some((_, Using { timestamp: Some(_), .. })) => {
            let random = || coordinator.random_u64();
            let env = Env { bound, inputs: &[], now_us: execution.now_us, random: &random };
            let (_, using) = plan.batch.as_ref().expect("it has a timestamp");
            Some(using.timestamp_us(&env, || base_us(coordinator, execution, false))?)
        }
        _ => None,
    };
    let kind = plan.batch.as_ref().map(|(kind, _)| *kind);
    let all = Request { parts: &parts, base_us, coordinator, execution };
    match &plan.reply {
        Some(reply) => all.conditionally(reply).await,
        None => all.unconditionally(kind, warnings).await,
    }
}

/// Executes a batch of the protocol: prepared statements, each with its bound values.
///
/// # Errors
/// As [`execute`]; also statements that a batch may not combine.
pub async fn execute_batch<C: Coordinator>(
    kind: BatchKind,
    statements: &[(&ModifyPlan, &[Value<'_>])],
    coordinator: &C,
    execution: &Execution<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let from_json = statements.iter().map(|(plan, bound)| json::values(plan.changes.iter(), bound));
    let from_json = from_json.collect::<Result<Vec<_>, _>>()?;
    let extended = statements.iter().zip(&from_json).map(|((_, bound), values)| match &values[..] {
        [] => vec![],
        values => json::extended(bound, values),
    });
    let extended: Vec<Vec<Value<'_>>> = extended.collect();
    let mut parts = Vec::with_capacity(statements.len());
    for ((plan, bound), extended) in statements.iter().zip(&extended) {
        let bound: &[Value<'_>] = if extended.is_empty() { bound } else { extended };
        if plan.is_batch() {
            return invalid!(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
            );
        }
        parts.extend(plan.changes.iter().map(|change| Part { change, bound }));
    }
    let changes: Vec<&Change> = parts.iter().map(|part| part.change).collect();
    batch::check(kind, &changes, &Using::default())?;
    let all = Request { parts: &parts, base_us: None, coordinator, execution };
    if changes.iter().any(|change| change.condition.is_some()) {
        return all.conditionally(&Reply::new(&changes, true)).await;
    }
    all.unconditionally(Some(kind), warnings).await
}

/// Builds the mutation of the usual case directly; `None` if the change is not the usual case.
#[inline]
fn usual<C: Host>(
    change: &Change,
    coordinator: &C,
    bound: &[Value<'_>],
    execution: &Execution<'_>,
) -> Option<Result<Mutation, CqlError>> {
    if !change.is_one_row {
        return None;
    }
    let random = || coordinator.random_u64();
    let clock = || coordinator.timestamp_us();
    let paths = ListPaths::new(&clock, &random);
    let env = Env { bound, inputs: &[], now_us: execution.now_us, random: &random };
    let build = || {
        let timestamp_us = change.using.timestamp_us(&env, || base_us(coordinator, execution, false))?;
        let key = change.target.partition(&change.schema, &env)?;
        let rows = change.target.rows(&change.schema, &env)?;
        let context = context(change, env, &paths, execution, timestamp_us)?;
        write::one_row(change, key, rows, &context)
    };
    Some(build())
}

/// Returns the timestamp of a write without USING TIMESTAMP. A conditional write never takes the client's
/// timestamp: the clocks of clients do not agree on an order, and conditions depend on the order of writes.
fn base_us<C: Host>(coordinator: &C, execution: &Execution<'_>, is_conditional: bool) -> i64 {
    match execution.timestamp_us {
        Some(timestamp_us) if !is_conditional => timestamp_us,
        _ => coordinator.timestamp_us(),
    }
}

/// Evaluates the TTL of a write. The order of the checks is Cassandra's: USING TIMESTAMP of a single
/// statement, the keys, the rows, the TTL, the values.
#[inline]
fn context<'a>(
    change: &Change,
    env: Env<'a>,
    paths: &'a ListPaths<'a>,
    execution: &Execution<'_>,
    timestamp_us: i64,
) -> Result<WriteContext<'a>, CqlError> {
    let now_s = execution.now_s();
    Ok(WriteContext {
        env,
        paths,
        timestamp_us,
        deletion_us: timestamp_us,
        ttl_s: change.using.ttl_s(&change.schema, &env, now_s)?,
        now_s,
    })
}

/// Changes that are executed together.
struct Request<'a, C> {
    parts: &'a [Part<'a>],
    /// USING TIMESTAMP of the batch, in microseconds.
    base_us: Option<i64>,
    coordinator: &'a C,
    execution: &'a Execution<'a>,
}

/// The conditional changes of a request, with its bound values.
struct BoundConditional {
    conditions: Vec<BoundCondition>,
    /// The write; its mutation is empty if it could not be built.
    write: PartitionWrite,
    /// Why the write could not be built. It is an error only if the conditions hold.
    fault: Option<CqlError>,
    /// The timestamp drawn for the write, in microseconds.
    drawn_us: Option<i64>,
}

impl<C: Coordinator> Request<'_, C> {
    /// Builds the writes of changes without conditions, one for each partition. `is_batch` is false for a
    /// single statement.
    fn writes(&self, is_batch: bool) -> Result<Vec<PartitionWrite>, CqlError> {
        let random = || self.coordinator.random_u64();
        let clock = || self.coordinator.timestamp_us();
        let paths = ListPaths::new(&clock, &random);
        let env = |bound| Env { bound, inputs: &[], now_us: self.execution.now_us, random: &random };
        let mut drawn_us = self.base_us;
        let mut drawn = || *drawn_us.get_or_insert_with(|| base_us(self.coordinator, self.execution, false));
        if let (false, [Part { change, bound }]) = (is_batch, self.parts) {
            change.using.timestamp_us(&env(bound), || 0)?;
        }
        // The keys of all statements are checked first.
        let keys = self.parts.iter().map(|Part { change, bound }| {
            let keys = change.target.partitions(&change.schema, &env(bound))?;
            Ok::<_, CqlError>(keys)
        });
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        let mut writes = Writes::default();
        for (Part { change, bound }, keys) in self.parts.iter().zip(keys) {
            let rows = change.target.rows(&change.schema, &env(bound))?;
            if rows.are_none() {
                continue;
            }
            let timestamp_us = change.using.timestamp_us(&env(bound), &mut drawn)?;
            let context = context(change, env(bound), &paths, self.execution, timestamp_us)?;
            write::add(change, keys, &rows, &context, &mut writes)?;
        }
        Ok(writes.writes)
    }

    /// Evaluates the keys, rows and conditions of conditional changes, and builds their write.
    fn bind_conditional(&self) -> Result<BoundConditional, CqlError> {
        let random = || self.coordinator.random_u64();
        let env = |bound| Env { bound, inputs: &[], now_us: self.execution.now_us, random: &random };
        let mut conditions: Vec<BoundCondition> = Vec::new();
        let mut targets = Vec::with_capacity(self.parts.len());
        let mut of_all: Option<(&Change, PartitionKey)> = None;
        for part @ Part { change, bound } in self.parts {
            let env = env(bound);
            let keys = change.target.partitions(&change.schema, &env)?;
            let is_of_one = match &keys[..] {
                [this] => of_all.get_or_insert_with(|| (change, this.clone())).1 == *this,
                _ => false,
            };
            if !is_of_one {
                return invalid!("Batch with conditions cannot span multiple partitions");
            }
            if change.target.has_in().1 {
                let what = if change.verb == Verb::Delete { "deletions" } else { "updates" };
                return invalid!("IN on the clustering key columns is not supported with conditional {what}");
            }
            let rows = change.target.rows(&change.schema, &env)?;
            if let Some(condition) = &change.condition {
                let at = match &rows {
                    _ if condition.is_only_static() => RowAt::Static,
                    Rows::Keys(keys) if change.named == Named::Keys => {
                        keys.first().cloned().map_or(RowAt::Static, RowAt::Key)
                    }
                    _ => RowAt::Static,
                };
                let bound = BoundCondition::bind(condition, at, &env)?;
                let mut same_row = conditions.iter().filter(|other| other.shares_row(&bound));
                same_row.try_for_each(|other| other.agrees_with(&bound))?;
                conditions.push(bound);
            }
            if !rows.are_none() {
                targets.push((part, rows));
            }
        }
        let Some((first, key)) = of_all else {
            return invalid!("Batch with conditions cannot span multiple partitions");
        };
        let mut drawn_us = self.base_us;
        let empty =
            || PartitionWrite { mutation: Mutation::new(first.schema.clone(), key.clone()), edits: vec![] };
        let (write, fault) = match self.conditional_write(&targets, &key, &mut drawn_us) {
            Ok(write) => (write.unwrap_or_else(empty), None),
            Err(fault) => (empty(), Some(fault)),
        };
        Ok(BoundConditional { conditions, write, fault, drawn_us })
    }

    /// Builds the write of conditional changes; `None` if there is nothing to write.
    fn conditional_write(
        &self,
        targets: &[(&Part<'_>, Rows)],
        key: &PartitionKey,
        drawn_us: &mut Option<i64>,
    ) -> Result<Option<PartitionWrite>, CqlError> {
        let random = || self.coordinator.random_u64();
        let clock = || self.coordinator.timestamp_us();
        let paths = ListPaths::new(&clock, &random);
        let mut writes = Writes::default();
        // As in Cassandra, all writes of a conditional batch have the time of the decision.
        let drawn_us = *drawn_us.get_or_insert_with(|| base_us(self.coordinator, self.execution, true));
        for (Part { change, bound }, rows) in targets {
            let env = Env { bound, inputs: &[], now_us: self.execution.now_us, random: &random };
            let mut context = context(change, env, &paths, self.execution, drawn_us)?;
            if self.parts.len() > 1 {
                // As in Cassandra, data that a conditional batch writes survives the batch's own deletions of
                // partitions and ranges, but not its deletions of rows and collections.
                context.deletion_us -= 1;
            }
            write::add(change, [key.clone()], rows, &context, &mut writes)?;
        }
        Ok(writes.writes.pop())
    }

    fn node(&self) -> CounterNode {
        CounterNode { id: *self.coordinator.host_id().as_bytes(), wall_us: self.coordinator.wall_us() }
    }

    /// Executes the changes without conditions. `batch` is the kind of the batch, or `None` for a single
    /// statement.
    async fn unconditionally(
        &self,
        batch: Option<BatchKind>,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, CqlError> {
        let mut writes = self.writes(batch.is_some())?;
        let node = self.node();
        for write in &mut writes {
            if !write.edits.is_empty() && !counts(write) {
                let page = self.coordinator.read(read_for(write, &[], 1, self.execution.now_s())).await?;
                for edit in std::mem::take(&mut write.edits) {
                    edit.resolve(&mut write.mutation, &page, node)?;
                }
            }
        }
        for write in &writes {
            index_limits::check(&write.mutation, warnings)?;
        }
        writes.retain(|write| counts(write) || !write.mutation.partition.is_empty());
        if let Some(kind) = batch {
            let sized: Vec<SizedWrite<'_>> =
                writes.iter().map(|write| SizedWrite::new(&write.mutation, write.edits.len())).collect();
            let log = |severity, text: &str| self.coordinator.log_batch(severity, text);
            batch::check_size(&self.coordinator.batch_limits(), kind, &sized, log, warnings)?;
        }
        let mut mutations = Vec::with_capacity(writes.len());
        for write in writes {
            if counts(&write) {
                let command = read_for(&write, &[], 1, self.execution.now_s());
                let decide: Decide = Box::new(move |page, _| resolve(write, page, node));
                self.coordinator.read_modify_write(command, decide).await?;
            } else {
                mutations.push(write.mutation);
            }
        }
        match mutations.len() {
            0 => {}
            1 => self.coordinator.apply(mutations.remove(0)).await?,
            _ if batch == Some(BatchKind::Logged) => self.coordinator.apply_batch(mutations).await?,
            _ => self.coordinator.apply_unlogged(mutations).await?,
        }
        Ok(Outcome::Void)
    }

    async fn conditionally(&self, reply: &Reply) -> Result<Outcome, CqlError> {
        let BoundConditional { conditions, write, fault, drawn_us } = self.bind_conditional()?;
        let node = self.node();
        let schema = write.mutation.schema.clone();
        let conditions: Arc<[BoundCondition]> = conditions.into();
        let now_s = self.execution.now_s();
        let command = read_for(&write, &conditions, reply.first_rows(), now_s);
        // The decision of conditions on static columns reads only the rows of edits, if there are any.
        let lacks_first_row = conditions.iter().all(|condition| condition.at == RowAt::Static)
            && write.edits.iter().any(|edit| edit.at != RowAt::Static);
        let first_row = lacks_first_row.then(|| {
            let mutation = Mutation::new(schema.clone(), write.mutation.key.clone());
            read_for(&PartitionWrite { mutation, edits: vec![] }, &[], reply.first_rows(), now_s)
        });
        let decide: Decide = {
            let (schema, conditions) = (schema.clone(), conditions.clone());
            Box::new(move |page, locked_us| {
                if condition::all_hold(&conditions, &schema, page)? {
                    if let Some(fault) = fault {
                        return Err(fault);
                    }
                    let mut decided = resolve(write, page, node)?;
                    for mutation in decided.iter_mut().flatten() {
                        make_youngest(mutation, drawn_us, page, locked_us);
                    }
                    return Ok(decided);
                }
                Ok(None)
            })
        };
        let mut page = self.coordinator.read_modify_write(command, decide).await?;
        let applied = condition::all_hold(&conditions, &schema, &page)?;
        if let (false, Some(command)) = (applied, first_row) {
            page = with_rows_of(page, self.coordinator.read(command).await?);
        }
        Ok(Outcome::Rows(if applied { reply.applied() } else { reply.refused(&conditions, &page) }))
    }
}

/// The static row of the page that was read for a decision, with the rows of a later page of its partition.
fn with_rows_of(decided: Page, mut later: Page) -> Page {
    let Some(partition) = later.partitions.first_mut() else { return decided };
    let before = decided.partitions.into_iter().next();
    partition.static_row = before.map(|partition| partition.static_row).unwrap_or_default();
    later
}

/// Whether the write updates counters. Such a write is resolved while the partition is locked.
fn counts(write: &PartitionWrite) -> bool {
    write.edits.iter().any(|edit| matches!(edit.kind, EditKind::Count(_)))
}

/// Raises the timestamps of a decided write above those of the rows and deletions that were read, and of
/// earlier decisions.
/// The write's timestamp was drawn before the partition was locked, possibly from another shard's clock.
/// Without the change, a decision made since then could have a newer timestamp and shadow the write, although
/// the client was answered that the write was applied. The wall clock may also have been set back.
fn make_youngest(mutation: &mut Mutation, drawn_us: Option<i64>, page: &Page, locked_us: i64) {
    let Some(drawn_us) = drawn_us else { return };
    let rows = page.partitions.iter().flat_map(|partition| {
        std::iter::once(&partition.static_row).chain(partition.rows.iter().map(|row| &row.row))
    });
    let newest_us = rows.map(Row::newest_timestamp_us).max().max(page.newest_deletion_us).unwrap_or(i64::MIN);
    let wanted_us = locked_us.max(newest_us.saturating_add(1));
    if wanted_us > drawn_us && !broken::is("decision_youngest") {
        mutation.partition.make_younger(wanted_us - drawn_us);
    }
}

/// Returns the mutation to write, given the rows that were read; `None` if nothing has to be written.
fn resolve(
    mut write: PartitionWrite,
    page: &Page,
    node: CounterNode,
) -> Result<Option<Vec<Mutation>>, CqlError> {
    for edit in &write.edits {
        edit.resolve(&mut write.mutation, page, node)?;
    }
    index_limits::check(&write.mutation, &mut vec![])?;
    Ok((!write.mutation.partition.is_empty()).then(|| vec![write.mutation]))
}

/// Builds the read of all rows that a write's edits and conditions need, in one page. If they need no row,
/// the command reads the static row and at most `first_rows` rows, so that a partition without static columns
/// can be distinguished from a missing one.
fn read_for(
    write: &PartitionWrite,
    conditions: &[BoundCondition],
    first_rows: u64,
    now_s: u32,
) -> ReadCommand {
    let Mutation { schema, key, .. } = &write.mutation;
    let table: TableId = schema.id;
    let mut command = ReadCommand::new(table, PartitionRange::Key(key.clone()));
    command.now_s = Some(now_s);
    command.page_rows = u64::MAX;
    command.page_bytes = u64::MAX;
    let places = write.edits.iter().map(|edit| &edit.at).chain(conditions.iter().map(|asked| &asked.at));
    let mut rows: Vec<_> = places
        .filter_map(|at| match at {
            RowAt::Static => None,
            RowAt::Key(key) => Some(key),
        })
        .collect();
    rows.sort_by(|a, b| schema.compare_keys(a, b));
    rows.dedup_by(|a, b| schema.compare_keys(a, b).is_eq());
    if rows.is_empty() {
        command.limit_rows = first_rows;
    } else {
        command.ranges = rows.into_iter().map(|key| ClusteringRange::of_prefix(key.clone())).collect();
    }
    command
}
