//! CREATE, ALTER and DROP MATERIALIZED VIEW, and what changes of a base table mean for its views.
//!
//! Source of the rules, their order and the error messages: Cassandra 5.0
//! `cql3/statements/schema/CreateViewStatement.java`, `AlterViewStatement.java`, `DropViewStatement.java`,
//! `AlterTableStatement.java`.

use std::sync::Arc;

use catalog::{Catalog, CatalogError, Changed, Table, TableSettings};
use model::schema::TableBuilder;
use model::view_definition::{HIDDEN_COLUMN, hidden_column_type};
use model::{ColumnKind, CqlType, TableOptions, TableSchema, ViewCondition, ViewDefinition};
use protocol::CqlError;
use syntax::ast::{AlterView, CreateView, DropView, Ident, Ordering, Selection, Selector, rename_column};
use syntax::{CompareOp, Relation, RelationTarget, Statement};
use uuid::Uuid;

use super::names::{keyspace_of, writable_keyspace};
use super::table_options::GivenOptions;
use super::{SchemaContext, SchemaPlan, refuse, to_catalog_error, unchanged};
use crate::restriction::{ColumnRef, view_conditions};
use crate::term::{Env, Planner};

/// Cassandra's warning for every client that creates a view.
const USAGE_WARNING: &str = "Materialized views are experimental and are not recommended for production use.";

pub(super) fn create(create: &CreateView, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&create.name, context.keyspace)?.to_string();
    if create.compact_storage.is_some() {
        let text = "COMPACT STORAGE tables are not allowed starting with version 4.0";
        return Err(CqlError::Syntax(text.to_string()));
    }
    for (at, order) in create.clustering_order.iter().enumerate() {
        if create.clustering_order[..at].iter().any(|other| other.column == order.column) {
            return refuse!(
                "Duplicate column '{}' in CLUSTERING ORDER BY clause for view '{}'",
                order.column.text,
                create.name
            );
        }
    }
    if create.base.keyspace.as_ref().is_some_and(|of_base| of_base.text != keyspace) {
        return refuse!("Cannot create a materialized view on a table in a different keyspace");
    }
    if create.has_markers {
        return refuse!("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements");
    }
    writable_keyspace(&keyspace)?;
    if !context.rules.may_create_views {
        return refuse!("Materialized views are disabled. Enable in cassandra.yaml to use.");
    }
    let given = GivenOptions::new(&create.properties)?;
    let mut warnings = given.warnings(true);
    warnings.push(USAGE_WARNING.to_string());
    let id = given.id.unwrap_or(context.new_table_id);
    let (create, timestamp_us) = (create.clone(), context.timestamp_us);
    let plan = SchemaPlan::new(move |catalog| {
        let new = New { catalog, keyspace: &keyspace, create: &create, given: &given, id, timestamp_us };
        new.change()
    });
    Ok(plan.with_warnings(warnings))
}

pub(super) fn alter(alter: &AlterView, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&alter.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let given = GivenOptions::new(&alter.properties)?;
    if given.id.is_some() {
        return Err(CqlError::Config("Cannot alter table id.".to_string()));
    }
    let warnings = given.warnings(false);
    let (name, if_exists) = (alter.name.name.text.clone(), alter.if_exists);
    let plan = SchemaPlan::new(move |catalog| {
        let Some(view) = view_named(catalog, &keyspace, &name) else {
            return if if_exists { unchanged(catalog) } else { no_view(&keyspace, &name) };
        };
        let mut schema = TableSchema::clone(&view.schema);
        let mut settings = TableSettings::clone(&view.settings);
        given.apply(&mut schema.options, &mut settings).map_err(to_catalog_error)?;
        if schema.options.gc_grace_s == 0 {
            return refuse!(
                "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL \
                 undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire \
                 before being replayed."
            );
        }
        if schema.options.default_ttl_s > 0 {
            return refuse!(
                "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view \
                 always expire at the same time than the corresponding data in the parent table. \
                 default_time_to_live must be set to zero, see CASSANDRA-12868 for more information"
            );
        }
        if schema == *view.schema && settings == *view.settings {
            return unchanged(catalog);
        }
        catalog.alter_table(Arc::new(schema), settings)
    });
    Ok(plan.with_warnings(warnings))
}

pub(super) fn drop(drop: &DropView, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&drop.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let (name, if_exists) = (drop.name.name.text.clone(), drop.if_exists);
    Ok(SchemaPlan::new(move |catalog| match view_named(catalog, &keyspace, &name) {
        Some(_) => catalog.drop_table(&keyspace, &name),
        None if if_exists => unchanged(catalog),
        None => no_view(&keyspace, &name),
    }))
}

fn view_named<'c>(catalog: &'c Catalog, keyspace: &str, name: &str) -> Option<&'c Arc<Table>> {
    catalog.table(keyspace, name).filter(|table| table.schema.view.is_some())
}

fn no_view<T>(keyspace: &str, name: &str) -> Result<T, CatalogError> {
    refuse!("Materialized view '{keyspace}.{name}' doesn't exist")
}

/// A CREATE MATERIALIZED VIEW against a catalog.
struct New<'a> {
    catalog: &'a Catalog,
    keyspace: &'a str,
    create: &'a CreateView,
    given: &'a GivenOptions,
    id: Uuid,
    timestamp_us: i64,
}

impl New<'_> {
    fn change(&self) -> Changed {
        let (catalog, keyspace, create) = (self.catalog, self.keyspace, self.create);
        let (name, base_name) = (create.name.name.as_str(), create.base.name.as_str());
        if catalog.keyspace(keyspace).is_none() {
            return refuse!("Keyspace '{keyspace}' doesn't exist");
        }
        // As in Cassandra, a view is no base table.
        let base = catalog.table(keyspace, base_name).filter(|base| base.schema.view.is_none());
        let Some(base) = base else { return refuse!("Base table '{base_name}' doesn't exist") };
        match catalog.table(keyspace, name) {
            None => {}
            Some(table) if table.schema.view.is_none() => {
                return refuse!(
                    "Cannot create materialized view '{name}' - a table with the same name already exists"
                );
            }
            Some(_) if create.if_not_exists => return unchanged(catalog),
            Some(_) => {
                let (keyspace, table) = (keyspace.to_string(), name.to_string());
                return Err(CatalogError::AlreadyExists { keyspace, table });
            }
        }
        if catalog.base_of_change_log(&base.schema).is_some() {
            return refuse!("Materialized views are not supported on a CDC log");
        }
        if base.schema.has_counters() {
            return refuse!("Materialized views are not supported on counter tables");
        }
        if base.schema.options.gc_grace_s == 0 {
            return refuse!(
                "Cannot create materialized view '{name}' for base table '{base_name}' with gc_grace_seconds of 0, \
                 since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause \
                 undelivered updates to expire before being replayed."
            );
        }
        let selected = self.selected(&base.schema).map_err(to_catalog_error)?;
        let keys = self.keys(&base.schema, &selected).map_err(to_catalog_error)?;
        let added_key = keys.iter().find(|key| !key.is_key()).map(|key| key.name(&base.schema).to_string());
        let conditions = self.conditions(&base.schema, &keys).map_err(to_catalog_error)?;
        let (mut options, mut settings) = (TableOptions::default(), TableSettings::default());
        self.given.apply(&mut options, &mut settings).map_err(to_catalog_error)?;
        if self.given.sets("default_time_to_live") {
            return refuse!(
                "Cannot set default_time_to_live for a materialized view. Data in a materialized view always \
                 expire at the same time than the corresponding data in the parent table."
            );
        }
        let view = ViewDefinition {
            base_id: base.schema.id,
            base_name: base_name.to_string(),
            selects_all: create.selection == Selection::All,
            where_clause: syntax::relations_text(&create.relations),
            conditions,
            added_key,
        };
        let mut builder = TableSchema::builder(keyspace, name).id(self.id).options(options);
        for column in &keys[..create.primary_key.partition.len()] {
            builder = builder.partition_key(column.name(&base.schema), column.ty(&base.schema).clone());
        }
        for column in &keys[create.primary_key.partition.len()..] {
            builder = builder.clustering(column.name(&base.schema), self.ordered(&base.schema, *column));
        }
        for column in base.schema.columns_of(ColumnKind::Regular).map(ColumnRef::of) {
            if selected.contains(&column) && !keys.contains(&column) {
                builder = builder.regular(column.name(&base.schema), column.ty(&base.schema).clone());
            }
        }
        if view.added_key.is_none() && !view.selects_all {
            // Present even if all columns are selected: the base table may get more.
            builder = builder.regular(HIDDEN_COLUMN, hidden_column_type());
        }
        for column in &selected {
            let column = column.name(&base.schema);
            if let Some(mask) = base.settings.masks.get(column) {
                settings.masks.insert(column.to_string(), mask.clone());
            }
        }
        let schema = builder.view(Arc::new(view)).build();
        let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
        catalog.create_table(schema, settings)
    }

    /// The columns of the base table that the view has.
    fn selected(&self, base: &TableSchema) -> Result<Vec<ColumnRef>, CqlError> {
        let mut selected = vec![];
        match &self.create.selection {
            Selection::All => selected = ColumnRef::all(base),
            Selection::Items(items) => {
                for item in items {
                    if item.alias.is_some() {
                        return refuse!("Cannot use aliases when defining a materialized view (got {item})");
                    }
                    let Selector::Column(name) = &item.selector else {
                        return refuse!(
                            "Can only select columns by name when defining a materialized view (got {})",
                            item.selector
                        );
                    };
                    let column = ColumnRef::named(base, name.as_str())?;
                    if !selected.contains(&column) {
                        selected.push(column);
                    }
                }
            }
        }
        if let Some(column) = selected.iter().find(|column| matches!(column, ColumnRef::Static(_))) {
            return refuse!(
                "Cannot include static column '{}' in materialized view '{}'",
                column.name(base),
                self.create.name.name.as_str()
            );
        }
        Ok(selected)
    }

    /// The columns of the view's primary key.
    fn keys(&self, base: &TableSchema, selected: &[ColumnRef]) -> Result<Vec<ColumnRef>, CqlError> {
        let (create, view) = (self.create, self.create.name.name.as_str());
        let names: Vec<&Ident> =
            create.primary_key.partition.iter().chain(&create.primary_key.clustering).collect();
        let mut keys: Vec<ColumnRef> = vec![];
        for name in names {
            let name = name.as_str();
            let Some(column) = ColumnRef::named(base, name).ok().filter(|column| selected.contains(column))
            else {
                return refuse!(
                    "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
                );
            };
            if keys.contains(&column) {
                return refuse!(
                    "Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
                );
            }
            let ty = column.ty(base);
            if ty.is_multi_cell() {
                let what = if ty.is_collection() { "collection" } else { "user-defined" };
                return refuse!(
                    "Invalid non-frozen {what} type '{}' for PRIMARY KEY column '{name}'",
                    ty.to_java_name()
                );
            }
            if ty.is_counter() {
                return refuse!("counter type is not supported for PRIMARY KEY column '{name}'");
            }
            if ty.references_duration() {
                return refuse!("duration type is not supported for PRIMARY KEY column '{name}'");
            }
            keys.push(column);
        }
        let orders: Vec<&Ident> = create.clustering_order.iter().map(|order| &order.column).collect();
        if !orders.is_empty() && !orders.into_iter().eq(&create.primary_key.clustering) {
            return refuse!(
                "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"
            );
        }
        let of_base = ColumnRef::all(base).into_iter().filter(|column| column.is_key());
        let missing: Vec<&str> =
            of_base.filter(|column| !keys.contains(column)).map(|column| column.name(base)).collect();
        if !missing.is_empty() {
            return refuse!(
                "Cannot create materialized view '{view}' without primary key columns {} from base table '{}'",
                missing.join(", "),
                base.name
            );
        }
        let added: Vec<&str> =
            keys.iter().filter(|column| !column.is_key()).map(|column| column.name(base)).collect();
        if added.len() > 1 {
            return refuse!(
                "Cannot include more than one non-primary key column in materialized view primary key (got {})",
                added.join(", ")
            );
        }
        Ok(keys)
    }

    /// The restrictions of the WHERE, without `IS NOT NULL`.
    fn conditions(
        &self,
        base: &Arc<TableSchema>,
        keys: &[ColumnRef],
    ) -> Result<Vec<ViewCondition>, CqlError> {
        let (mut not_null, mut others) = (vec![], vec![]);
        for relation in &self.create.relations {
            match relation {
                Relation::Compare { target: RelationTarget::Token { .. }, .. }
                | Relation::In { target: RelationTarget::Token { .. }, .. } => {
                    return refuse!("Cannot use token relation when defining a materialized view");
                }
                Relation::IndexExpression { .. } => {
                    return refuse!(
                        "WHERE clause for materialized view '{}' cannot contain custom index expressions",
                        self.create.name.name.as_str()
                    );
                }
                _ => {}
            }
        }
        for relation in &self.create.relations {
            match relation {
                Relation::IsNotNull { column, .. } => {
                    not_null.push(ColumnRef::named(base, column.as_str())?);
                }
                Relation::Compare { op: CompareOp::NotEq, .. } => {
                    return refuse!("Unsupported \"!=\" relation: {relation}");
                }
                Relation::Compare { op: CompareOp::Like, .. } => {
                    return refuse!(
                        "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
                    );
                }
                other => others.push(other.clone()),
            }
        }
        let mut planner = Planner::new(self.catalog, self.keyspace, &base.name, 0);
        let env = Env { bound: &[], inputs: &[], now_us: self.timestamp_us, random: &|| 0 };
        let (restricted, conditions) = view_conditions(&mut planner, base, &others, &env)?;
        let missing: Vec<&str> = keys
            .iter()
            .filter(|column| !not_null.contains(column) && !restricted.contains(column))
            .map(|column| column.name(base))
            .collect();
        if !missing.is_empty() {
            return refuse!(
                "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
                missing.join(", ")
            );
        }
        let others: Vec<&str> =
            restricted.iter().filter(|column| !column.is_key()).map(|column| column.name(base)).collect();
        if !others.is_empty() {
            return refuse!(
                "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
                others.join(",")
            );
        }
        Ok(conditions)
    }

    /// The type of a clustering column, in the order of the statement or else of the base table.
    fn ordered(&self, base: &TableSchema, column: ColumnRef) -> CqlType {
        let name = column.name(base);
        let mut orders = self.create.clustering_order.iter();
        let is_reversed = match (orders.find(|order| order.column.text == name), column) {
            (Some(order), _) => order.ordering == Ordering::Descending,
            (None, ColumnRef::Clustering(at)) => base.clustering[at].ty.is_reversed(),
            (None, _) => false,
        };
        let ty = column.ty(base).clone();
        if is_reversed { CqlType::reversed(ty) } else { ty }
    }
}

/// Changes the views of a base table together with it. `change` returns the new schema and settings of a
/// view, or `None` if it stays as it is.
pub(super) fn with_views(
    changed: Changed,
    base: &TableSchema,
    change: impl Fn(&Table) -> Result<Option<(TableBuilder, TableSettings)>, CatalogError>,
) -> Changed {
    let (mut catalog, mut changes) = changed?;
    let views: Vec<Arc<Table>> = catalog.views_of(base).cloned().collect();
    for view in views {
        let Some((builder, settings)) = change(&view)? else { continue };
        let schema = builder.build_with_ids_from(view.schema.column_id_bound());
        let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
        let (next, more) = catalog.alter_table(schema, settings)?;
        catalog = next;
        changes.extend(more);
    }
    Ok((catalog, changes))
}

/// The definition of a view after a column of the base table's key was renamed.
pub(super) fn renamed(
    definition: &ViewDefinition,
    from: &str,
    to: &str,
) -> Result<ViewDefinition, CatalogError> {
    let mut definition = definition.clone();
    let parsed = syntax::parse(&format!("SELECT * FROM base WHERE {}", definition.where_clause));
    let Ok(Statement::Select(mut select)) = parsed.map(|parsed| parsed.statement) else {
        return refuse!("The WHERE clause of the view is not CQL: {}", definition.where_clause);
    };
    rename_column(&mut select.relations, from, to);
    definition.where_clause = syntax::relations_text(&select.relations);
    definition.rename(from, to);
    Ok(definition)
}
