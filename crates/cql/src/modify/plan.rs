//! A statement that writes, ready to be carried out any number of times, on any shard.

use catalog::Catalog;
use model::TableId;

use super::batch;
use super::change::{Change, table_name, table_of};
use super::reply::Reply;
use super::using::Using;
use crate::CqlError;
use crate::protocol::{self, ColumnSpec};
use crate::syntax::{Batch, BatchKind, Modification};
use crate::term::{Env, Planner};

/// INSERT, UPDATE, DELETE or BATCH. Never changes; valid as long as its tables' schemas do not change.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    pub(super) changes: Vec<Change>,
    /// `None`: not a batch.
    pub(super) batch: Option<(BatchKind, Using)>,
    pub(super) reply: Option<Reply>,
    markers: Vec<ColumnSpec>,
    partition_markers: Option<Vec<u16>>,
}

/// Prepares INSERT, UPDATE or DELETE. `keyspace` is the connection's, `markers` how many the statement has.
///
/// # Errors
/// No such table or column, values that do not fit their types, a combination that CQL does not have.
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
        partition_markers: partition_markers(&change),
        changes: vec![change],
        batch: None,
        markers: planner.markers.finish()?,
    })
}

/// As [`prepare`], for BATCH.
///
/// # Errors
/// Also what may not stand together in a batch.
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
        partition_markers: all.first().filter(|_| is_of_one_table).and_then(|first| partition_markers(first)),
        batch: Some((statement.kind, using)),
        markers: planner.markers.finish()?,
        changes,
    })
}

/// For clients: what a text of JSON gives is not for them to tell.
fn partition_markers(change: &Change) -> Option<Vec<u16>> {
    change.target.partition_markers().filter(|_| change.json.is_none())
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
    /// What clients are told of each bind marker.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    /// Of each partition key column the index of its marker, so that clients can tell the partition; `None` if they
    /// cannot. Of a batch: its first statement's, if all are of one table.
    pub fn partition_markers(&self) -> Option<&[u16]> {
        self.partition_markers.as_deref()
    }

    /// The tables that are written; a batch may have one several times.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.changes.iter().map(|change| change.schema.id)
    }

    /// Keyspace and name of the first table.
    pub fn first_table(&self) -> Option<(&str, &str)> {
        self.changes.first().map(|change| (change.schema.keyspace.as_str(), change.schema.name.as_str()))
    }

    /// Whether it has an IF: it answers with rows.
    pub fn is_conditional(&self) -> bool {
        self.reply.is_some()
    }

    pub fn is_counter(&self) -> bool {
        self.changes.iter().any(|change| change.schema.has_counters())
    }

    pub fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether USING TIMEOUT is there.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        let of_batch = self.batch.as_ref().map(|(_, using)| using);
        of_batch
            .or(self.changes.first().map(|change| &change.using))
            .is_some_and(|using| using.timeout.is_some())
    }

    /// USING TIMEOUT of the statement, or of the batch: nanoseconds.
    ///
    /// # Errors
    /// A negative timeout, or one of days or months.
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
