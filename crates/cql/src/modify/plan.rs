//! A prepared modification, which can be executed any number of times, on any shard.

use catalog::Catalog;
use model::TableId;
use protocol::{self, ColumnSpec, CqlError};
use syntax::{Batch, BatchKind, Modification};

use super::batch;
use super::change::{Change, table_name, table_of};
use super::reply::Reply;
use super::using::Using;
use crate::error::invalid;
use crate::term::{Env, Planner, UserCall};

/// Plan of INSERT, UPDATE, DELETE or BATCH. It is immutable, and valid until the schema of one of its tables
/// changes.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    pub(super) changes: Vec<Change>,
    /// Kind and USING of a batch; `None` for a single statement.
    pub(super) batch: Option<(BatchKind, Using)>,
    pub(super) reply: Option<Reply>,
    markers: Vec<ColumnSpec>,
    /// The user-defined functions that the statement calls.
    calls: Vec<UserCall>,
    partition_key_markers: Vec<u16>,
}

/// Prepares INSERT, UPDATE or DELETE. `keyspace` is the connection's keyspace, and `markers` is the number of
/// the statement's bind markers.
///
/// # Errors
/// The table or a column does not exist, a value does not fit its type, or CQL does not allow the
/// combination.
pub fn prepare(
    catalog: &Catalog,
    keyspace: Option<&str>,
    modification: &Modification,
    markers: usize,
) -> Result<ModifyPlan, CqlError> {
    let schema = table_of(catalog, keyspace, table_name(modification))?;
    let mut planner = Planner::new(catalog, &schema.keyspace, &schema.name, markers);
    let change = change(&mut planner, keyspace, modification)?;
    Ok(ModifyPlan {
        reply: change.condition.as_ref().map(|_| Reply::new(&[&change], false)),
        partition_key_markers: planner.markers.of_partition_key(&change.schema),
        changes: vec![change],
        batch: None,
        markers: planner.markers.finish()?,
        calls: planner.calls,
    })
}

/// As [`prepare`], for BATCH.
///
/// # Errors
/// As [`prepare`]; also changes that a batch may not combine.
pub fn prepare_batch(
    catalog: &Catalog,
    keyspace: Option<&str>,
    statement: &Batch,
    markers: usize,
) -> Result<ModifyPlan, CqlError> {
    let mut planner = Planner::new(catalog, keyspace.unwrap_or_default(), "", markers);
    if let Some(first) = statement.modifications.first() {
        let schema = table_of(catalog, keyspace, table_name(first))?;
        (planner.keyspace, planner.table) = (schema.keyspace.as_str().into(), schema.name.as_str().into());
    }
    let using = Using::prepare(&mut planner, &statement.using)?;
    let changes = statement.modifications.iter();
    let changes: Vec<_> =
        changes.map(|each| change(&mut planner, keyspace, each)).collect::<Result<_, _>>()?;
    let all: Vec<&Change> = changes.iter().collect();
    batch::check(statement.kind, &all, &using)?;
    let is_conditional = changes.iter().any(|change| change.condition.is_some());
    let is_of_one_table = all.windows(2).all(|pair| pair[0].schema.id == pair[1].schema.id);
    Ok(ModifyPlan {
        reply: is_conditional.then(|| Reply::new(&all, true)),
        partition_key_markers: match all.first().filter(|_| is_of_one_table) {
            Some(first) => planner.markers.of_partition_key(&first.schema),
            None => vec![],
        },
        batch: Some((statement.kind, using)),
        markers: planner.markers.finish()?,
        calls: planner.calls,
        changes,
    })
}

fn change(
    planner: &mut Planner<'_>,
    keyspace: Option<&str>,
    modification: &Modification,
) -> Result<Change, CqlError> {
    let schema = table_of(planner.catalog, keyspace, table_name(modification))?;
    (planner.keyspace, planner.table) = (schema.keyspace.as_str().into(), schema.name.as_str().into());
    match modification {
        Modification::Insert(insert) => Change::insert(planner, schema, insert),
        Modification::Update(update) => Change::update(planner, schema, update),
        Modification::Delete(delete) => Change::delete(planner, schema, delete),
    }
}

impl ModifyPlan {
    /// Metadata of the bind markers, for clients.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    /// The user-defined functions that the statement calls.
    pub fn calls(&self) -> &[UserCall] {
        &self.calls
    }

    /// Index of the bind marker for each partition key column; empty if clients cannot compute the partition
    /// key. For a batch whose statements all write the same table, these are the last markers of each column.
    pub fn partition_key_markers(&self) -> &[u16] {
        &self.partition_key_markers
    }

    /// The tables that are written. A batch may yield a table several times.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.changes.iter().map(|change| change.schema.id)
    }

    /// The tables that are written under a condition. A batch may yield a table several times.
    pub fn conditional_tables(&self) -> impl Iterator<Item = TableId> {
        self.changes.iter().filter(|change| change.condition.is_some()).map(|change| change.schema.id)
    }

    /// Keyspace and name of the first table.
    pub fn first_table(&self) -> Option<(&str, &str)> {
        self.changes.first().map(|change| (change.schema.keyspace.as_str(), change.schema.name.as_str()))
    }

    /// Checks that no change writes a materialized view. As in Cassandra, all other rules of the text are
    /// checked before, and also the permissions of an execution.
    ///
    /// # Errors
    /// A change writes a view.
    #[inline]
    pub fn check_no_view(&self) -> Result<(), CqlError> {
        if self.changes.iter().any(|change| change.schema.view.is_some()) {
            return invalid!("Cannot directly modify a materialized view");
        }
        Ok(())
    }

    /// Whether the plan has an IF. Such a plan returns rows.
    pub fn is_conditional(&self) -> bool {
        self.reply.is_some()
    }

    /// Whether a change writes a table with counters.
    pub fn is_counter(&self) -> bool {
        self.changes.iter().any(|change| change.schema.has_counters())
    }

    pub fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether the statement or batch has USING TIMEOUT.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        let of_batch = self.batch.as_ref().map(|(_, using)| using);
        of_batch
            .or(self.changes.first().map(|change| &change.using))
            .is_some_and(|using| using.timeout.is_some())
    }

    /// Returns USING TIMEOUT of the statement or batch, in nanoseconds.
    ///
    /// # Errors
    /// The timeout is negative, or has days or months.
    pub fn timeout_ns(&self, bound: &[protocol::Value<'_>], now_us: i64) -> Result<Option<u64>, CqlError> {
        let using = match (&self.batch, self.changes.first()) {
            (Some((_, using)), _) => using,
            (None, Some(change)) => &change.using,
            (None, None) => return Ok(None),
        };
        using.timeout_ns(&Env { bound, inputs: &[], now_us, random: &|| 0 })
    }
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<ModifyPlan>();
};
