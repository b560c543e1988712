//! Prepared INSERT, UPDATE and DELETE.
//!
//! Error messages follow Cassandra 4.1 `cql3/statements/{Modification,Update,Delete}Statement.java`.

use std::sync::Arc;

use catalog::virtual_tables::is_virtual_keyspace;
use catalog::{Catalog, is_system_keyspace};
use model::{Column, ColumnKind, TableSchema};
use protocol::CqlError;
use syntax::{Delete, DeleteTarget, Ident, Insert, InsertValues, Modification, QualifiedName, Term, Update};

use super::condition::Condition;
use super::json::{self, Assigned, BoundText};
use super::operation::{self, Operation, OperationKind};
use super::target::{Named, Target};
use super::using::Using;
use crate::error::{invalid, undefined_column};
use crate::restriction::{ColumnRef, Restrictions, Rules, StatementKind};
use crate::term::{Expr, Planner};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
}

/// A change of a table. Its operations are sorted by column id.
#[derive(Clone, Debug)]
pub struct Change {
    pub schema: Arc<TableSchema>,
    pub verb: Verb,
    pub using: Using,
    pub target: Target,
    pub named: Named,
    pub row_ops: Vec<Operation>,
    pub static_ops: Vec<Operation>,
    pub condition: Option<Condition>,
    /// INSERT JSON with a bound text.
    pub json: Option<BoundText>,
    /// Whether the change only sets cells of a single row with a complete key, and reads nothing.
    pub is_one_row: bool,
}

/// Returns the table that a statement names. `keyspace` is the connection's keyspace.
pub fn table_of<'c>(
    catalog: &'c Catalog,
    keyspace: Option<&str>,
    name: &QualifiedName,
) -> Result<&'c Arc<TableSchema>, CqlError> {
    let keyspace = match (&name.keyspace, keyspace) {
        (Some(named), _) => named.text.as_str(),
        (None, Some(used)) => used,
        (None, None) => {
            return invalid!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
            );
        }
    };
    if catalog.keyspace(keyspace).is_none() {
        return invalid!("keyspace {keyspace} does not exist");
    }
    match catalog.schema(keyspace, &name.name.text) {
        Some(schema) if is_virtual_keyspace(keyspace) => {
            invalid!("Modification is not supported by table {}", schema.full_name())
        }
        Some(_) if is_system_keyspace(keyspace) => {
            Err(CqlError::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")))
        }
        Some(schema) => Ok(schema),
        None => invalid!("table {} does not exist", name.name.text),
    }
}

/// The table that a modification names.
pub fn table_name(modification: &Modification) -> &QualifiedName {
    match modification {
        Modification::Insert(insert) => &insert.table,
        Modification::Update(update) => &update.table,
        Modification::Delete(delete) => &delete.table,
    }
}

impl Change {
    /// Prepares INSERT.
    pub fn insert(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        insert: &Insert,
    ) -> Result<Self, CqlError> {
        if schema.has_counters() {
            return invalid!("INSERT statements are not allowed on counter tables, use UPDATE instead");
        }
        let using = Using::prepare(planner, &insert.using)?;
        let (assigned, json) = match &insert.values {
            InsertValues::Columns { columns, values } => (assigned(planner, schema, columns, values)?, None),
            InsertValues::Json { value, default_unset } => {
                json::prepare(planner, schema, value, *default_unset)?
            }
        };
        let mut partition: Vec<Option<Expr>> = vec![None; schema.partition_key.len()];
        let mut clustering: Vec<Option<Expr>> = vec![None; schema.clustering.len()];
        let mut operations = Vec::new();
        for (column, expr) in assigned {
            match column {
                ColumnRef::PartitionKey(at) => partition[at] = Some(expr),
                ColumnRef::Clustering(at) => clustering[at] = Some(expr),
                ColumnRef::Static(_) | ColumnRef::Regular(_) => {
                    let column = column_of(schema, column.name(schema))?;
                    operations
                        .push(Operation { column: column.clone(), kind: operation::set_to(column, expr) });
                }
            }
        }
        let missing = |columns: &[model::KeyColumn], exprs: &[Option<Expr>]| {
            let missing = columns.iter().zip(exprs).filter(|(_, expr)| expr.is_none());
            missing.map(|(column, _)| column.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let missing_partition = missing(&schema.partition_key, &partition);
        if !missing_partition.is_empty() {
            return invalid!("Some partition key parts are missing: {missing_partition}");
        }
        let is_static_only =
            !operations.is_empty() && operations.iter().all(|op| op.column.kind == ColumnKind::Static);
        let missing_clustering = missing(&schema.clustering, &clustering);
        let given = clustering.iter().filter(|expr| expr.is_some()).count();
        let row = if missing_clustering.is_empty() {
            Some(clustering.into_iter().flatten().collect())
        } else if schema.is_dense() && given > 0 {
            // The last values may be left out, and are null.
            let gap = clustering.iter().position(Option::is_none).expect("a value is missing");
            if let Some(after) = clustering[gap..].iter().position(Option::is_some) {
                return invalid!(
                    "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                    schema.clustering[gap + after].name,
                    schema.clustering[gap].name
                );
            }
            Some(clustering.into_iter().flatten().collect())
        } else if is_static_only && clustering.iter().all(Option::is_none) {
            None
        } else {
            return invalid!("Some clustering keys are missing: {missing_clustering}");
        };
        if let Some(value) = schema.compact_value()
            && operations.is_empty()
        {
            if !schema.is_hidden(value) {
                return invalid!("Column {} is mandatory for this COMPACT STORAGE table", value.name);
            }
            let kind = operation::set_to(value, Expr::constant(&[]));
            operations.push(Operation { column: value.clone(), kind });
        }
        let condition = insert.if_not_exists.then_some(Condition::NotExists);
        let target = Target::Values { partition: partition.into_iter().flatten().collect(), row };
        Ok(Self { json, ..Self::new(schema, Verb::Insert, using, target, operations, condition)? })
    }

    /// Prepares UPDATE.
    pub fn update(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        update: &Update,
    ) -> Result<Self, CqlError> {
        let using = Using::prepare(planner, &update.using)?;
        // As in Cassandra, before the assignments.
        let condition = update.conditions.as_ref();
        let condition =
            condition.map(|condition| Condition::prepare(planner, schema, condition)).transpose()?;
        let mut operations: Vec<Operation> = Vec::new();
        for (at, assignment) in update.assignments.iter().enumerate() {
            let name = assignment.column.text.as_str();
            if is_key(schema, name) {
                return invalid!("PRIMARY KEY part {name} found in SET part");
            }
            let column = column_of(schema, name)?;
            let mut earlier = update.assignments[..at].iter().filter(|other| other.column.text == name);
            if earlier.any(|other| !operation::are_compatible(&other.op, &assignment.op)) {
                return Err(CqlError::Syntax(format!("Multiple incompatible setting of column {name}")));
            }
            let kind = operation::assign(planner, column, assignment, update.conditions.is_some())?;
            operations.push(Operation { column: column.clone(), kind });
        }
        let rules = Rules {
            statement: StatementKind::Update,
            allow_filtering: false,
            only_static: is_only_static(&operations, condition.as_ref()),
        };
        let restrictions = Restrictions::prepare(planner, schema, &update.relations, rules)?;
        let target = Target::Where(Box::new(restrictions));
        Self::new(schema, Verb::Update, using, target, operations, condition)
    }

    /// Prepares DELETE.
    pub fn delete(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        delete: &Delete,
    ) -> Result<Self, CqlError> {
        let using = Using::prepare(planner, &delete.using)?;
        let condition = delete.conditions.as_ref();
        let condition =
            condition.map(|condition| Condition::prepare(planner, schema, condition)).transpose()?;
        let mut operations = Vec::new();
        for target in &delete.targets {
            let (DeleteTarget::Column(column)
            | DeleteTarget::Element { column, .. }
            | DeleteTarget::Field { column, .. }) = target;
            let name = column.text.as_str();
            if is_key(schema, name) {
                return invalid!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)");
            }
            let column = column_of(schema, name)?;
            let kind = operation::delete(planner, column, target)?;
            let is_repeated = matches!(kind, OperationKind::Delete)
                && operations.iter().any(|other: &Operation| {
                    other.column.id == column.id && matches!(other.kind, OperationKind::Delete)
                });
            if !is_repeated {
                operations.push(Operation { column: column.clone(), kind });
            }
        }
        let rules = Rules {
            statement: StatementKind::Delete,
            allow_filtering: false,
            only_static: is_only_static(&operations, condition.as_ref()),
        };
        let restrictions = Restrictions::prepare(planner, schema, &delete.relations, rules)?;
        let target = Target::Where(Box::new(restrictions));
        Self::new(schema, Verb::Delete, using, target, operations, condition)
    }

    fn new(
        schema: &Arc<TableSchema>,
        verb: Verb,
        using: Using,
        target: Target,
        operations: Vec<Operation>,
        condition: Option<Condition>,
    ) -> Result<Self, CqlError> {
        let (mut static_ops, mut row_ops): (Vec<_>, Vec<_>) =
            operations.into_iter().partition(|op| op.column.kind == ColumnKind::Static);
        static_ops.sort_by_key(|op| op.column.id);
        row_ops.sort_by_key(|op| op.column.id);
        let named = target.named(schema);
        let is_one_row = verb != Verb::Delete
            && named == Named::Keys
            && target.has_in() == (false, false)
            && static_ops.is_empty()
            && !row_ops.iter().any(|op| op.kind.reads());
        let change = Self {
            schema: schema.clone(),
            verb,
            using,
            target,
            named,
            row_ops,
            static_ops,
            condition,
            json: None,
            is_one_row,
        };
        change.check_using()?;
        change.check_rows()?;
        Ok(change)
    }

    fn check_using(&self) -> Result<(), CqlError> {
        let is_counter = self.schema.has_counters();
        match (&self.using.timestamp, &self.condition) {
            (_, Some(Condition::Columns(_))) if is_counter => {
                invalid!("Conditions on counters are not supported")
            }
            (_, Some(_)) if is_counter => {
                invalid!("Conditional updates are not supported on counter tables")
            }
            (Some(_), Some(_)) => invalid!("Cannot provide custom timestamp for conditional updates"),
            (Some(_), None) if is_counter => {
                invalid!("Cannot provide custom timestamp for counter updates")
            }
            _ if is_counter && self.using.ttl.is_some() => {
                invalid!("Cannot provide custom TTL for counter updates")
            }
            _ => Ok(()),
        }
    }

    /// Checks that the target has the rows that the operations and conditions need.
    fn check_rows(&self) -> Result<(), CqlError> {
        let condition_is_of = |kind| self.condition.as_ref().is_some_and(|condition| condition.is_of(kind));
        let is_of_static = self.row_ops.is_empty()
            && !self.deletes_rows()
            && !condition_is_of(ColumnKind::Regular)
            && (!self.static_ops.is_empty() || condition_is_of(ColumnKind::Static));
        match self.named {
            Named::Nothing if self.verb != Verb::Delete && !is_of_static => {
                let names: Vec<&str> = self.schema.clustering.iter().map(|c| c.name.as_str()).collect();
                return invalid!("Some clustering keys are missing: {}", names.join(", "));
            }
            Named::Nothing | Named::Ranges if self.condition.is_some() => {
                const ALL: &str = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
                let is_refused = !is_of_static || self.named == Named::Ranges;
                if !self.row_ops.is_empty() || (is_refused && self.static_ops.is_empty()) {
                    return invalid!("{ALL} delete non static columns");
                }
                if is_refused {
                    return invalid!("{ALL} use IF condition on non static columns");
                }
            }
            Named::Nothing if !self.row_ops.is_empty() => {
                return invalid!("Range deletions are not supported for specific columns");
            }
            Named::Ranges if !self.row_ops.is_empty() || !self.static_ops.is_empty() => {
                return invalid!("Range deletions are not supported for specific columns");
            }
            _ => {}
        }
        if self.condition.is_some() {
            let what = if self.verb == Verb::Delete { "deletions" } else { "updates" };
            match self.target.has_in() {
                (true, _) => {
                    return invalid!("IN on the partition key is not supported with conditional {what}");
                }
                (_, true) => {
                    return invalid!(
                        "IN on the clustering key columns is not supported with conditional {what}"
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the change writes the liveness of rows. In a table with COMPACT STORAGE, rows exist only by
    /// their values.
    pub fn has_liveness(&self) -> bool {
        self.verb == Verb::Insert && !self.schema.is_compact()
    }

    /// Whether the change deletes rows, ranges or the partition rather than columns.
    pub fn deletes_rows(&self) -> bool {
        self.verb == Verb::Delete && self.row_ops.is_empty() && self.static_ops.is_empty()
    }
}

/// Whether only static columns are written, and no condition tests a regular column.
fn is_only_static(operations: &[Operation], condition: Option<&Condition>) -> bool {
    !operations.is_empty()
        && operations.iter().all(|op| op.column.kind == ColumnKind::Static)
        && !condition.is_some_and(|condition| condition.is_of(ColumnKind::Regular))
}

/// Prepares the values of INSERT for the columns that it names.
fn assigned(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    columns: &[Ident],
    values: &[Term],
) -> Result<Assigned, CqlError> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            return invalid!("The column names contains duplicates");
        }
    }
    if columns.len() != values.len() {
        return invalid!("Unmatched column names/values");
    }
    let each = columns.iter().zip(values).map(|(name, value)| {
        let column = ColumnRef::named(schema, name.text.as_str())?;
        let expr = match column.is_key() {
            true => planner.term(value, column.name(schema), column.ty(schema))?,
            false => operation::value(planner, column_of(schema, &name.text)?, value)?,
        };
        Ok((column, expr))
    });
    each.collect()
}

fn is_key(schema: &TableSchema, name: &str) -> bool {
    schema.partition_key.iter().chain(schema.defined_clustering()).any(|column| column.name == name)
}

fn column_of<'s>(schema: &'s TableSchema, name: &str) -> Result<&'s Column, CqlError> {
    match schema.defined_column(name) {
        Some(column) => Ok(column),
        None => undefined_column(schema, name),
    }
}
