//! The catalog: all keyspaces with their tables and types, and the roles and service levels, as one value.
//!
//! A change is a pure function: it checks the rules and returns a new catalog with the list of changes, or an
//! error. An old catalog never changes, so tasks can continue to use it. Unchanged parts are shared, and a
//! clone only increments a reference count.
//!
//! Guarantees: every user type in a column's type is the keyspace's current version; a type in use cannot be
//! dropped; column numbers are not used twice; names are valid in paths; the catalog can be stored and loaded
//! again. The CQL layer parses statements, handles `IF [NOT] EXISTS` and checks permissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::HashMap;
use model::types::{UdtField, UserType};
use model::{CqlType, TableId, TableSchema, ViewPlan};

use crate::access::Access;
use crate::access::permission::Resource;
use crate::error::{CatalogError, invalid};
use crate::options::compression::check_new_compression;
use crate::options::settings::{TableSettings, check_options};
use crate::schema::alter;
use crate::schema::change::{ChangeKind, SchemaChange, Target};
use crate::schema::change_log;
use crate::schema::functions::{Functions, Scripts, type_names};
use crate::schema::indexes;
use crate::schema::keyspace::{Keyspace, check_table_name};
use crate::schema::user_types::{self, Types};
use crate::system::virtual_tables::virtual_tables;
use crate::system::{self, is_system_keyspace};

/// A table: the schema used by storage, and the other options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub schema: Arc<TableSchema>,
    pub settings: Arc<TableSettings>,
}

/// A keyspace with its tables and types, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) keyspace: Keyspace,
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) types: Types,
    pub(crate) functions: Functions,
}

#[derive(Debug, Default)]
struct Inner {
    keyspaces: BTreeMap<String, Arc<Entry>>,
    by_id: HashMap<TableId, Arc<Table>>,
    access: Arc<Access>,
}

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    inner: Arc<Inner>,
    pub(super) scripts: Option<Scripts>,
}

impl PartialEq for Catalog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || self.inner.keyspaces == other.inner.keyspaces && self.inner.access == other.inner.access
    }
}

impl Eq for Catalog {}

/// The result of a change: the new catalog, and the list of changes.
pub type Changed = Result<(Catalog, Vec<SchemaChange>), CatalogError>;

impl Catalog {
    /// An empty catalog. [`Self::with_system_tables`] turns it into the first catalog of a node.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether both are the same value in memory. Equal catalogs may still be different values.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// All keyspaces in the order of their names.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        self.inner.keyspaces.values().map(|entry| &entry.keyspace)
    }

    pub fn keyspace(&self, name: &str) -> Option<&Keyspace> {
        self.entry(name).map(|entry| &entry.keyspace)
    }

    /// The tables of all keyspaces, in the order of their names.
    pub fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.inner.keyspaces.values().flat_map(|entry| entry.tables.values())
    }

    /// The tables of a keyspace in the order of their names; none if the keyspace does not exist.
    pub fn tables(&self, keyspace: &str) -> impl Iterator<Item = &Arc<Table>> {
        self.entry(keyspace).into_iter().flat_map(|entry| entry.tables.values())
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<Table>> {
        self.entry(keyspace)?.tables.get(name)
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.inner.by_id.get(&id)
    }

    /// The materialized views of a table, in the order of their names.
    pub fn views_of(&self, base: &TableSchema) -> impl Iterator<Item = &Arc<Table>> {
        let id = base.id;
        self.tables(&base.keyspace)
            .filter(move |table| table.schema.view.as_ref().is_some_and(|view| view.base_id == id))
    }

    /// The table with the index of this name, whose name is unique in the keyspace.
    pub fn indexed_table(&self, keyspace: &str, index: &str) -> Option<&Arc<Table>> {
        self.tables(keyspace).find(|table| table.schema.indexes.iter().any(|known| known.name == index))
    }

    /// The schema of [`Self::table`].
    pub fn schema(&self, keyspace: &str, name: &str) -> Option<&Arc<TableSchema>> {
        self.table(keyspace, name).map(|table| &table.schema)
    }

    /// The user types of a keyspace in the order of their names; none if the keyspace does not exist.
    pub fn types(&self, keyspace: &str) -> impl Iterator<Item = &Arc<UserType>> {
        self.entry(keyspace).into_iter().flat_map(|entry| entry.types.values())
    }

    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Arc<UserType>> {
        self.entry(keyspace)?.types.get(name)
    }

    /// Parses a CQL type name in `keyspace`, including user types.
    ///
    /// # Errors
    /// The same as [`CqlType::from_cql`].
    pub fn parse_type(&self, keyspace: &str, cql: &str) -> Result<CqlType, CatalogError> {
        let none = Types::new();
        let types = self.entry(keyspace).map_or(&none, |entry| &entry.types);
        CqlType::from_cql(cql, &|name| user_types::resolve(types, keyspace, name)).map_err(|error| match cql
            .contains('\'')
        {
            // The class of a type, in quotes.
            true => CatalogError::Syntax(error.to_string()),
            false => CatalogError::Invalid(error.to_string()),
        })
    }

    /// The same catalog with this build's system tables, replacing older versions. A node applies it to the
    /// loaded catalog. Tables in system keyspaces that this build does not have are kept unchanged.
    #[must_use]
    pub fn with_system_tables(&self) -> Self {
        self.with_tables(system::stored_tables())
    }

    /// The catalog as clients see it: with the tables that are computed when they are read. The node's own
    /// catalog does not contain them, because there are no files for them.
    #[must_use]
    pub fn with_virtual_tables(&self) -> Self {
        self.with_tables(virtual_tables())
    }

    fn with_tables(&self, schemas: Vec<Arc<TableSchema>>) -> Self {
        let mut keyspaces = self.inner.keyspaces.clone();
        for schema in schemas {
            let entry = keyspaces.entry(schema.keyspace.clone()).or_insert_with(|| {
                Arc::new(Entry {
                    keyspace: Keyspace::local(&schema.keyspace),
                    tables: BTreeMap::new(),
                    types: Types::new(),
                    functions: Functions::default(),
                })
            });
            let settings = Arc::new(TableSettings::default());
            let table = Table { schema: schema.clone(), settings };
            Arc::make_mut(entry).tables.insert(schema.name.clone(), Arc::new(table));
        }
        self.with_entries(keyspaces)
    }

    /// Roles and service levels.
    #[inline]
    pub fn access(&self) -> &Arc<Access> {
        &self.inner.access
    }

    /// Changes roles or service levels. This is not a change of the schema, so there are no events.
    pub fn change_access(&self, change: impl FnOnce(&mut Access) -> Result<(), CatalogError>) -> Changed {
        let mut access = Access::clone(self.access());
        change(&mut access)?;
        Ok((Self::from_entries(self.inner.keyspaces.clone(), Arc::new(access)), vec![]))
    }

    pub fn create_keyspace(&self, keyspace: Keyspace) -> Changed {
        let name = keyspace.name.clone();
        refuse_system(&name)?;
        let keyspace = keyspace.checked()?;
        if self.entry(&name).is_some() {
            return Err(CatalogError::AlreadyExists { keyspace: name, table: String::new() });
        }
        let functions = Functions::default();
        let entry = Entry { keyspace, tables: BTreeMap::new(), types: Types::new(), functions };
        self.with(&name, entry, vec![event(ChangeKind::Created, &name, Target::Keyspace)])
    }

    /// Replaces the definition of the keyspace of this name.
    pub fn alter_keyspace(&self, keyspace: Keyspace) -> Changed {
        let name = keyspace.name.clone();
        refuse_system(&name)?;
        let mut entry = self.expect_keyspace(&name)?.clone();
        entry.keyspace = keyspace.checked()?;
        self.with(&name, entry, vec![event(ChangeKind::Updated, &name, Target::Keyspace)])
    }

    /// Drops a keyspace with its tables and types.
    pub fn drop_keyspace(&self, name: &str) -> Changed {
        refuse_system(name)?;
        let entry = self.expect_keyspace(name)?;
        let dropped = |target| event(ChangeKind::Dropped, name, target);
        let mut changes: Vec<_> = entry.tables.values().map(|table| dropped(table_target(table))).collect();
        changes.extend(entry.types.keys().map(|name| dropped(Target::Type { name: name.clone() })));
        changes.extend(entry.functions.functions.iter().map(|function| {
            let arguments = type_names(&function.argument_types);
            dropped(Target::Function { name: function.name.clone(), arguments })
        }));
        changes.extend(entry.functions.aggregates.iter().map(|aggregate| {
            let arguments = type_names(&aggregate.argument_types);
            dropped(Target::Aggregate { name: aggregate.name.clone(), arguments })
        }));
        changes.push(dropped(Target::Keyspace));
        let mut keyspaces = self.inner.keyspaces.clone();
        keyspaces.remove(name);
        let (data, functions) = (format!("data/{name}"), format!("functions/{name}"));
        let is_below = |resource: &str, top: &str| {
            resource.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let access =
            self.access_without(|resource| is_below(resource, &data) || is_below(resource, &functions));
        Ok((Self::from_entries(keyspaces, access), changes))
    }

    /// Creates a table, or a view of a table of the same keyspace. The id of the schema must not be used by
    /// any table.
    pub fn create_table(&self, schema: Arc<TableSchema>, settings: TableSettings) -> Changed {
        refuse_system(&schema.keyspace)?;
        let mut entry = self.expect_keyspace(&schema.keyspace)?.clone();
        if entry.tables.contains_key(&schema.name) {
            let (keyspace, table) = (schema.keyspace.clone(), schema.name.clone());
            return Err(CatalogError::AlreadyExists { keyspace, table });
        }
        check_table_name(&schema.keyspace, &schema.name)?;
        if let Some(other) = self.table_by_id(schema.id) {
            let (id, name, other) = (schema.id, schema.full_name(), other.schema.full_name());
            return invalid!("Table {name} cannot have the id {id}: it is that of {other}");
        }
        check_new_compression(schema.options.compression.as_ref())?;
        check_index_names(&entry.tables, &schema)?;
        if let Some(view) = &schema.view {
            let Some(base) = entry.tables.get(&view.base_name).filter(|base| base.schema.id == view.base_id)
            else {
                return invalid!("Base table '{}' doesn't exist", view.base_name);
            };
            ViewPlan::new(&base.schema, &schema).map_err(|error| CatalogError::Invalid(error.to_string()))?;
        }
        let table = Arc::new(check_table(&entry.types, schema, settings)?);
        table.settings.check_new(None)?;
        if table.settings.change_log().is_some() {
            change_log::check_base(&table.schema)?;
        }
        let name = table.schema.keyspace.clone();
        let changes = vec![event(ChangeKind::Created, &name, table_target(&table))];
        renew_base(&mut entry, &table);
        entry.tables.insert(table.schema.name.clone(), table.clone());
        change_log::follow(self.with(&name, entry, changes), &table.schema, true)
    }

    /// Replaces the definition of the table of this name. The new schema is made with
    /// [`TableSchema::to_builder`] and `build_with_ids_from` the old schema's bound.
    pub fn alter_table(&self, schema: Arc<TableSchema>, settings: TableSettings) -> Changed {
        refuse_system(&schema.keyspace)?;
        let mut entry = self.expect_keyspace(&schema.keyspace)?.clone();
        let Some(old) = entry.tables.get(&schema.name) else {
            return no_table(&schema.keyspace, &schema.name);
        };
        alter::check(&old.schema, &schema)?;
        if schema.options.compression != old.schema.options.compression {
            check_new_compression(schema.options.compression.as_ref())?;
        }
        check_index_names(&entry.tables, &schema)?;
        let table = Arc::new(check_table(&entry.types, schema, settings)?);
        table.settings.check_new(Some(&old.settings))?;
        if table.settings.change_log().is_some() {
            change_log::check_base(&table.schema)?;
        }
        let name = table.schema.keyspace.clone();
        let changes = vec![event(ChangeKind::Updated, &name, table_target(&table))];
        entry.tables.insert(table.schema.name.clone(), table.clone());
        change_log::follow(self.with(&name, entry, changes), &table.schema, false)
    }

    /// Drops a table that has no views, with its change log; or a view.
    pub fn drop_table(&self, keyspace: &str, name: &str) -> Changed {
        refuse_system(keyspace)?;
        let mut entry = match self.entry(keyspace) {
            Some(entry) => Entry::clone(entry),
            None => return no_table(keyspace, name),
        };
        let Some(table) = entry.tables.remove(name) else {
            return no_table(keyspace, name);
        };
        let views: Vec<&str> = self.views_of(&table.schema).map(|view| view.schema.name.as_str()).collect();
        if !views.is_empty() {
            return invalid!(
                "Cannot drop a table when materialized views still depend on it ({})",
                views.join(", ")
            );
        }
        if let Some(base) = self.base_of_change_log(&table.schema) {
            return invalid!(
                "Cannot drop the CDC log of {}: disable CDC first (ALTER TABLE … WITH cdc = {{'enabled': false}})",
                base.schema.full_name()
            );
        }
        let log = self.change_log_of(&table).map(|log| log.schema.name.clone());
        renew_base(&mut entry, &table);
        let resource = Resource::table(keyspace, name).name();
        let (catalog, mut changes) =
            self.without_resource(keyspace, entry, &resource, table_target(&table))?;
        let Some(log) = log else { return Ok((catalog, changes)) };
        let (catalog, more) = catalog.drop_table(keyspace, &log)?;
        changes.extend(more);
        Ok((catalog, changes))
    }

    /// The catalog with this entry, after the object with this resource has been dropped.
    pub(super) fn without_resource(
        &self,
        keyspace: &str,
        entry: Entry,
        resource: &str,
        target: Target,
    ) -> Changed {
        let mut keyspaces = self.inner.keyspaces.clone();
        keyspaces.insert(keyspace.to_string(), Arc::new(entry));
        let access = self.access_without(|dropped| dropped == resource);
        Ok((Self::from_entries(keyspaces, access), vec![event(ChangeKind::Dropped, keyspace, target)]))
    }

    /// The roles without permissions on dropped resources; the same value if there are none.
    fn access_without(&self, is_dropped: impl Fn(&str) -> bool) -> Arc<Access> {
        let mut access = self.access().clone();
        if access.has_grants_on(&is_dropped) {
            Arc::make_mut(&mut access).revoke_all_on(is_dropped);
        }
        access
    }

    pub fn create_type(&self, user: UserType) -> Changed {
        refuse_system(&user.keyspace)?;
        let mut entry = self.expect_keyspace(&user.keyspace)?.clone();
        let (keyspace, name) = (user.keyspace.clone(), user.name.clone());
        if entry.types.contains_key(&name) {
            return invalid!("A user type with name '{name}' already exists");
        }
        if user.fields.is_empty() {
            return invalid!("A user type needs at least one field");
        }
        check_fields(&user)?;
        for field in &user.fields {
            user_types::check(&entry.types, &keyspace, &field.field_type)?;
        }
        entry.types.insert(name.clone(), Arc::new(user));
        check_own_name(&entry, &name)?;
        let changes = vec![event(ChangeKind::Created, &keyspace, Target::Type { name })];
        self.with(&keyspace, entry, changes)
    }

    /// Adds fields to the type of this name or renames its fields. Types and tables that use it are changed
    /// accordingly.
    pub fn alter_type(&self, user: UserType) -> Changed {
        refuse_system(&user.keyspace)?;
        let mut entry = self.expect_keyspace(&user.keyspace)?.clone();
        let (keyspace, name) = (user.keyspace.clone(), user.name.clone());
        let Some(old) = entry.types.get(&name) else {
            return invalid!("Type {keyspace}.{name} doesn't exist");
        };
        check_fields(&user)?;
        let is_same = |(old, new): (&UdtField, &UdtField)| old.field_type == new.field_type;
        if user.fields.len() < old.fields.len() || !old.fields.iter().zip(&user.fields).all(is_same) {
            return invalid!("Altering field types is no longer supported");
        }
        for field in &user.fields[old.fields.len()..] {
            check_new_field(&entry, &user, field)?;
        }
        let is_renamed = old.fields.iter().zip(&user.fields).any(|(old, new)| old.name != new.name);
        if let Some(aggregate) = entry.functions.with_initial_of(&name).filter(|_| is_renamed) {
            // The system tables store it as a literal, which has the names of the fields.
            return invalid!(
                "Cannot rename fields of user type {keyspace}.{name}: the INITCOND of aggregate {} uses it",
                aggregate.name
            );
        }
        let user = Arc::new(user);
        entry.types.insert(name.clone(), user.clone());
        let mut changes = vec![event(ChangeKind::Updated, &keyspace, Target::Type { name: name.clone() })];
        for other in entry.types.values_mut().filter(|other| other.name != name) {
            if other.fields.iter().any(|field| user_types::uses(&field.field_type, &name)) {
                *other = Arc::new(user_types::user_with(other, &user));
                changes.push(event(
                    ChangeKind::Updated,
                    &keyspace,
                    Target::Type { name: other.name.clone() },
                ));
            }
        }
        entry.functions.replace_user_type(&user);
        // The type has grown and may be too large, so every use of it is checked as if it were new.
        for other in entry.types.values() {
            for field in &other.fields {
                user_types::check(&entry.types, &keyspace, &field.field_type)?;
            }
        }
        for table in entry.tables.values_mut().filter(|table| alter::uses(&table.schema, &name)) {
            let schema = alter::with_user_type(&table.schema, &user);
            *table = Arc::new(check_table(&entry.types, schema, TableSettings::clone(&table.settings))?);
            changes.push(event(ChangeKind::Updated, &keyspace, table_target(table)));
        }
        self.with(&keyspace, entry, changes)
    }

    pub fn drop_type(&self, keyspace: &str, name: &str) -> Changed {
        refuse_system(keyspace)?;
        let mut entry = match self.entry(keyspace) {
            Some(entry) if entry.types.contains_key(name) => Entry::clone(entry),
            _ => return invalid!("Type '{keyspace}.{name}' doesn't exist"),
        };
        entry.types.remove(name);
        let in_use = |by: &str, names: Vec<&str>| {
            if names.is_empty() {
                return Ok(());
            }
            let names = names.join(", ");
            invalid!("Cannot drop user type '{keyspace}.{name}' as it is still used by {by} {names}")
        };
        in_use("functions", entry.functions.using_type(name).iter().map(String::as_str).collect())?;
        let uses = |user: &UserType| user.fields.iter().any(|f| user_types::uses(&f.field_type, name));
        let types = entry.types.values().filter(|user| uses(user));
        in_use("user types", types.map(|user| user.name.as_str()).collect())?;
        let tables = entry.tables.values().filter(|table| table.schema.view.is_none());
        let tables = tables.filter(|table| alter::uses(&table.schema, name));
        in_use("tables", tables.map(|table| table.schema.name.as_str()).collect())?;
        let changes = vec![event(ChangeKind::Dropped, keyspace, Target::Type { name: name.to_string() })];
        self.with(keyspace, entry, changes)
    }

    pub(crate) fn entries(&self) -> &BTreeMap<String, Arc<Entry>> {
        &self.inner.keyspaces
    }

    pub(crate) fn from_entries(keyspaces: BTreeMap<String, Arc<Entry>>, access: Arc<Access>) -> Self {
        let tables = keyspaces.values().flat_map(|entry| entry.tables.values());
        let by_id = tables.map(|table| (table.schema.id, table.clone())).collect();
        Self { inner: Arc::new(Inner { keyspaces, by_id, access }), scripts: None }
    }

    fn with_entries(&self, keyspaces: BTreeMap<String, Arc<Entry>>) -> Self {
        Self::from_entries(keyspaces, self.access().clone())
    }

    pub(super) fn entry(&self, keyspace: &str) -> Option<&Arc<Entry>> {
        self.inner.keyspaces.get(keyspace)
    }

    pub(super) fn expect_keyspace(&self, name: &str) -> Result<&Entry, CatalogError> {
        match self.entry(name) {
            Some(entry) => Ok(entry),
            None => invalid!("Keyspace '{name}' doesn't exist"),
        }
    }

    pub(super) fn with(&self, keyspace: &str, entry: Entry, changes: Vec<SchemaChange>) -> Changed {
        let mut keyspaces = self.inner.keyspaces.clone();
        keyspaces.insert(keyspace.to_string(), Arc::new(entry));
        Ok((self.with_entries(keyspaces), changes))
    }
}

/// Makes the schema of a view's base table a new value, so that prepared statements are prepared again:
/// writes to a table with other views need other permissions.
fn renew_base(entry: &mut Entry, view: &Table) {
    let Some(view) = &view.schema.view else { return };
    if let Some(base) = entry.tables.get_mut(&view.base_name) {
        let schema = Arc::new(TableSchema::clone(&base.schema));
        *base = Arc::new(Table { schema, settings: base.settings.clone() });
    }
}

pub(super) fn event(kind: ChangeKind, keyspace: &str, target: Target) -> SchemaChange {
    SchemaChange { kind, keyspace: keyspace.to_string(), target }
}

fn table_target(table: &Table) -> Target {
    Target::Table { name: table.schema.name.clone(), id: table.schema.id }
}

fn no_table<T>(keyspace: &str, name: &str) -> Result<T, CatalogError> {
    invalid!("Table '{keyspace}.{name}' doesn't exist")
}

pub(super) fn refuse_system(keyspace: &str) -> Result<(), CatalogError> {
    if is_system_keyspace(keyspace) {
        let text = format!("{} keyspace is not user-modifiable.", keyspace.to_ascii_lowercase());
        return Err(CatalogError::Unauthorized(text));
    }
    Ok(())
}

/// Checks that no other table of the keyspace has an index with the name of one of this table.
fn check_index_names(
    tables: &BTreeMap<String, Arc<Table>>,
    schema: &TableSchema,
) -> Result<(), CatalogError> {
    let others = tables.values().filter(|table| table.schema.id != schema.id);
    for other in others.flat_map(|table| &table.schema.indexes) {
        if schema.indexes.iter().any(|index| index.name == other.name) {
            return invalid!("Index '{}' already exists", other.name);
        }
    }
    Ok(())
}

/// Checks that apply to both new and altered tables.
pub(crate) fn check_table(
    types: &Types,
    schema: Arc<TableSchema>,
    settings: TableSettings,
) -> Result<Table, CatalogError> {
    check_options(&schema.options, schema.has_counters())?;
    let keys = schema.partition_key.iter().chain(&schema.clustering).map(|key| &key.ty);
    for ty in keys.chain(schema.columns().iter().map(|column| &column.ty)) {
        user_types::check(types, &schema.keyspace, ty)?;
        if let CqlType::Udt { user, multi_cell: true } = ty
            && user.fields.iter().any(|field| field.field_type.is_multi_cell())
        {
            return invalid!("Non-frozen UDTs with nested non-frozen collections are not supported");
        }
    }
    let bound = schema.column_id_bound();
    if bound > alter::MAX_COLUMN_IDS {
        return invalid!(
            "table {} has had {bound} columns, more than {}; copy its data to a new table",
            schema.full_name(),
            alter::MAX_COLUMN_IDS
        );
    }
    if let Some(key) = schema.partition_key.iter().find(|key| key.ty.is_reversed()) {
        return invalid!("Partition key column {} cannot have an order", key.name);
    }
    Ok(Table { schema: indexes::sorted(alter::normal(schema)), settings: Arc::new(settings.checked()?) })
}

/// Checks that every definition of a type must pass.
fn check_fields(user: &UserType) -> Result<(), CatalogError> {
    for (at, field) in user.fields.iter().enumerate() {
        if user.fields[..at].iter().any(|other| other.name == field.name) {
            return invalid!("Duplicate field name '{}' in type '{}'", field.name, user.name);
        }
        if field.field_type.is_counter() {
            return invalid!("A user type cannot contain counters");
        }
        if user_types::is_non_frozen_udt(&field.field_type) {
            return invalid!("A user type cannot contain non-frozen UDTs");
        }
    }
    Ok(())
}

/// Refuses names that cannot be parsed again: `"int"`, quoted or not, is the native type.
fn check_own_name(entry: &Entry, name: &str) -> Result<(), CatalogError> {
    let user = CqlType::Udt { user: entry.types[name].clone(), multi_cell: true };
    user_types::check(&entry.types, &entry.keyspace.name, &user)
}

fn check_new_field(entry: &Entry, user: &UserType, field: &UdtField) -> Result<(), CatalogError> {
    let UserType { keyspace, name, .. } = user;
    let what = || {
        format!(
            "Cannot add new field {} of type {} to user type {keyspace}.{name} as",
            field.name,
            field.field_type.to_cql()
        )
    };
    if user_types::uses(&field.field_type, name) {
        return invalid!("{} it would create a circular reference", what());
    }
    user_types::check(&entry.types, keyspace, &field.field_type)?;
    let in_key =
        |table: &&Arc<Table>| table.schema.partition_key.iter().any(|key| user_types::uses(&key.ty, name));
    let tables: Vec<_> = entry.tables.values().filter(in_key).map(|table| table.schema.full_name()).collect();
    if !tables.is_empty() {
        let tables = tables.join(", ");
        return invalid!(
            "{} the type is being used in partition key by the following tables: {tables}",
            what()
        );
    }
    Ok(())
}
