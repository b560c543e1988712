//! Loads the catalog from the system tables.
//!
//! Rows arrive in any order and are sorted first. Then each keyspace is built: first its types, each after
//! the types that it uses, then its tables. A table exists if its row in `tables` exists. Column rows without
//! such a row are left over from a `CREATE` or `DROP` interrupted by a crash and are skipped, as are tables
//! without a keyspace.
//!
//! All other contents must be valid: a catalog is loaded completely or not at all.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::HashMap;
use model::key::split_composite_key;
use model::schema::DroppedColumn;
use model::types::{CollectionIter, CqlValue, UdtField, UserType};
use model::view_definition::{HIDDEN_COLUMN, decode as decode_conditions, hidden_column_type};
use model::{
    Column, ColumnData, ColumnId, ColumnKind, CompactStorage, Compression, CqlType, Partition, PartitionKey,
    Row, TableId, TableOptions, TableSchema, ViewDefinition, ViewPlan,
};
use uuid::Uuid;

use crate::access::permission::{Permission, Permissions};
use crate::access::service_level::{DEFAULT_SHARES, ServiceLevel, Workload};
use crate::access::{Access, Role};
use crate::error::CatalogError;
use crate::options::column_mask::{ColumnMask, MaskArgument};
use crate::options::compression::compression_from_map;
use crate::options::settings::TableSettings;
use crate::schema::alter::MAX_COLUMN_IDS;
use crate::schema::catalog::{Catalog, Entry, Table, check_table};
use crate::schema::functions::{Functions, UserAggregate, UserFunction};
use crate::schema::indexes::index_from_options;
use crate::schema::keyspace::{Keyspace, check_name, check_table_name};
use crate::schema::store::{RowKey, SERVICE_LEVEL, SystemTable};
use crate::schema::user_types::{self, Types};
use crate::system::definition::name_uuid;
use crate::system::system_table;

/// Rebuilds the catalog that [`crate::mutations_for`] wrote. Partitions of other tables are skipped.
/// Partitions must be compacted as of now, so that they contain only live data.
///
/// # Errors
/// [`CatalogError::Corrupt`]: the contents of the system tables are not a valid catalog.
pub fn load(
    partitions: impl IntoIterator<Item = (TableId, PartitionKey, Partition)>,
) -> Result<Catalog, CatalogError> {
    let rows = Rows::collect(partitions)?;
    let mut keyspaces = BTreeMap::new();
    let mut owners: HashMap<TableId, String> = HashMap::default();
    for (key, fields) in rows.of(SystemTable::Keyspaces) {
        let name = &key.partition[0];
        let keyspace = Keyspace {
            name: name.clone(),
            replication: fields.text_map("replication")?.unwrap_or_default(),
            durable_writes: fields.boolean("durable_writes")?.unwrap_or(true),
            others: fields.text_map("messina_options")?.unwrap_or_default(),
        };
        check_name(name).map_err(|error| fields.corrupt(error))?;
        let types = load_types(&rows, name)?;
        let mut tables = BTreeMap::new();
        for (key, fields) in rows.starting_with(SystemTable::Tables, &[name], &[]) {
            let table = &key.clustering[0];
            check_table_name(name, table).map_err(|error| fields.corrupt(error))?;
            let schema = load_table(&rows, &types, name, table, fields)?;
            let mut settings = load_settings(fields)?;
            settings.masks = load_masks(&rows, &types, &schema)?;
            let loaded = check_table(&types, schema, settings).map_err(|error| fields.corrupt(error))?;
            if let Some(other) = owners.insert(loaded.schema.id, loaded.schema.full_name()) {
                return Err(fields.corrupt(format!("{other} has the same id {}", loaded.schema.id)));
            }
            tables.insert(table.clone(), Arc::new(loaded));
        }
        for (key, fields) in rows.starting_with(SystemTable::Views, &[name], &[]) {
            let view = &key.clustering[0];
            check_table_name(name, view).map_err(|error| fields.corrupt(error))?;
            let schema = load_view(&rows, &types, &tables, name, view, fields)?;
            let mut settings = load_settings(fields)?;
            settings.masks = load_masks(&rows, &types, &schema)?;
            let loaded = check_table(&types, schema, settings).map_err(|error| fields.corrupt(error))?;
            if let Some(other) = owners.insert(loaded.schema.id, loaded.schema.full_name()) {
                return Err(fields.corrupt(format!("{other} has the same id {}", loaded.schema.id)));
            }
            if tables.insert(view.clone(), Arc::new(loaded)).is_some() {
                return Err(fields.corrupt("a table has the same name"));
            }
        }
        let functions = load_functions(&rows, &types, name)?;
        keyspaces.insert(name.clone(), Arc::new(Entry { keyspace, tables, types, functions }));
    }
    Ok(Catalog::from_entries(keyspaces, Arc::new(load_access(&rows)?)))
}

/// Loads roles and service levels. References to roles or levels that do not exist are skipped.
fn load_access(rows: &Rows) -> Result<Access, CatalogError> {
    let mut access = Access::default();
    for (key, fields) in rows.of(SystemTable::ServiceLevels) {
        let timeout_ms = fields.optional("timeout", |value| match value {
            CqlValue::Duration(timeout) => u64::try_from(timeout.nanoseconds / 1_000_000).ok(),
            _ => None,
        })?;
        let workload = fields.optional("workload_type", |value| Workload::from_name(as_text(value)?))?;
        let level = ServiceLevel {
            timeout_ms,
            workload: workload.unwrap_or_default(),
            shares: fields.count("shares")?.unwrap_or(DEFAULT_SHARES),
        };
        access.levels.insert(key.partition[0].clone(), level);
    }
    for (key, fields) in rows.of(SystemTable::Roles) {
        let role = Role {
            can_login: fields.boolean("can_login")?.unwrap_or(false),
            is_superuser: fields.boolean("is_superuser")?.unwrap_or(false),
            salted_hash: fields.optional("salted_hash", as_text)?.map(str::to_string),
            ..Role::default()
        };
        access.roles.insert(key.partition[0].clone(), role);
    }
    for (key, _) in rows.of(SystemTable::RoleMembers) {
        if access.roles.contains_key(&key.partition[0])
            && let Some(member) = access.roles.get_mut(&key.clustering[0])
        {
            member.member_of.insert(key.partition[0].clone());
        }
    }
    for (key, fields) in
        rows.of(SystemTable::RoleAttributes).filter(|(key, _)| key.clustering[0] == SERVICE_LEVEL)
    {
        let level = fields.text("value")?;
        if access.levels.contains_key(level)
            && let Some(role) = access.roles.get_mut(&key.partition[0])
        {
            role.service_level = Some(level.to_string());
        }
    }
    for (key, fields) in rows.of(SystemTable::RolePermissions) {
        if let Some(role) = access.roles.get_mut(&key.partition[0]) {
            // A permission of a later version is skipped: this build cannot check it.
            let names = fields.texts("permissions")?.into_iter();
            let granted: Permissions = names.filter_map(Permission::from_name).collect();
            if !granted.is_empty() {
                role.permissions.insert(key.clustering[0].clone(), granted);
            }
        }
    }
    Ok(access)
}

/// The non-null values of one row, by column.
struct Fields {
    /// Table and key, for error messages.
    place: String,
    values: HashMap<String, CqlValue>,
}

struct Rows(BTreeMap<RowKey, Fields>);

impl Rows {
    fn collect(
        partitions: impl IntoIterator<Item = (TableId, PartitionKey, Partition)>,
    ) -> Result<Self, CatalogError> {
        let stored = SystemTable::STORED.map(|place| (place, system_table(place.table_name())));
        let mut rows = BTreeMap::new();
        for (id, key, partition) in partitions {
            let Some((place, schema)) = stored.iter().find(|(_, schema)| schema.id == id) else {
                continue;
            };
            let names = partition_names(schema, &key)?;
            let mut add = |clustering: Vec<String>, row: &Row| {
                let key = RowKey { place: *place, partition: names.clone(), clustering };
                let fields = Fields::read(schema, &key, row)?;
                if !fields.values.is_empty() || !row.liveness.is_none() {
                    rows.insert(key, fields);
                }
                Ok(())
            };
            if schema.has_static() {
                add(vec![], &partition.static_row)?;
            }
            for row in partition.rows() {
                add(clustering_names(*place, schema, row.key.values())?, &row.row)?;
            }
        }
        Ok(Self(rows))
    }

    fn of(&self, place: SystemTable) -> impl Iterator<Item = (&RowKey, &Fields)> {
        self.0.iter().filter(move |(key, _)| key.place == place)
    }

    fn get(&self, key: &RowKey) -> Option<&Fields> {
        self.0.get(key)
    }

    /// The rows of a partition whose clustering keys begin with `clustering`.
    fn starting_with<'a>(
        &'a self,
        place: SystemTable,
        partition: &[&str],
        clustering: &[&str],
    ) -> impl Iterator<Item = (&'a RowKey, &'a Fields)> {
        let first = RowKey::new(place, partition, clustering);
        self.0.range(first.clone()..).take_while(move |(key, _)| {
            key.place == first.place
                && key.partition == first.partition
                && key.clustering.starts_with(&first.clustering)
        })
    }
}

fn utf8(schema: &TableSchema, bytes: &[u8]) -> Result<String, CatalogError> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| corrupt(&schema.full_name(), format!("a key is not text: {bytes:02x?}")))
}

/// The clustering key as text; see [`RowKey`].
fn clustering_names<'a>(
    place: SystemTable,
    schema: &TableSchema,
    values: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<String>, CatalogError> {
    let values: Vec<&[u8]> = values.collect();
    let (true, [name, types]) = (place.ends_with_types(), &values[..]) else {
        return values.into_iter().map(|name| utf8(schema, name)).collect();
    };
    let wrong = |error: model::types::TypeError| corrupt(&schema.full_name(), error);
    let mut names = vec![utf8(schema, name)?];
    for ty in CollectionIter::new(types).map_err(wrong)? {
        names.push(utf8(schema, ty.map_err(wrong)?.unwrap_or_default())?);
    }
    Ok(names)
}

fn partition_names(schema: &TableSchema, key: &PartitionKey) -> Result<Vec<String>, CatalogError> {
    let parts = if schema.partition_key.len() == 1 {
        vec![key.bytes()]
    } else {
        split_composite_key(key.bytes()).map_err(|error| corrupt(&schema.full_name(), error.to_string()))?
    };
    if parts.len() != schema.partition_key.len() {
        let text = format!("a key of {} parts, {} are expected", parts.len(), schema.partition_key.len());
        return Err(corrupt(&schema.full_name(), text));
    }
    parts.into_iter().map(|part| utf8(schema, part)).collect()
}

fn corrupt(place: &str, what: impl std::fmt::Display) -> CatalogError {
    CatalogError::Corrupt(format!(
        "{place}: {what}. The schema cannot be loaded; restore the keyspaces system_schema and system from \
         a snapshot of the same time"
    ))
}

impl Fields {
    fn read(schema: &TableSchema, key: &RowKey, row: &Row) -> Result<Self, CatalogError> {
        let names: Vec<&str> = key.partition.iter().chain(&key.clustering).map(String::as_str).collect();
        let mut fields = Self {
            place: format!("{}, row {}", schema.full_name(), names.join(".")),
            values: HashMap::default(),
        };
        for (id, data) in row.cells() {
            // An unknown number belongs to a column of another build.
            let Some(column) = schema.column(*id) else { continue };
            let cell = match (data, &column.ty) {
                (ColumnData::Simple(cell), _) => cell,
                (ColumnData::Complex(cells), CqlType::Set { element, .. }) => {
                    let live = cells.cells.iter().filter(|path| !path.cell.is_tombstone());
                    let values = live.map(|path| CqlValue::decode(element, &path.path));
                    let values: Result<Vec<_>, _> = values.collect();
                    let values =
                        values.map_err(|error| fields.corrupt(format!("column {}: {error}", column.name)))?;
                    fields.values.insert(column.name.clone(), CqlValue::Set(values));
                    continue;
                }
                (ColumnData::Complex(_), _) => {
                    return Err(fields.corrupt(format!("column {} is not one cell", column.name)));
                }
            };
            if cell.is_tombstone() {
                continue;
            }
            let value = CqlValue::decode(&column.ty, &cell.value)
                .map_err(|error| fields.corrupt(format!("column {}: {error}", column.name)))?;
            fields.values.insert(column.name.clone(), value);
        }
        Ok(fields)
    }

    fn corrupt(&self, what: impl std::fmt::Display) -> CatalogError {
        corrupt(&self.place, what)
    }

    fn optional<'a, T>(
        &'a self,
        column: &str,
        read: impl Fn(&'a CqlValue) -> Option<T>,
    ) -> Result<Option<T>, CatalogError> {
        let Some(value) = self.values.get(column) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.corrupt(format!("column {column} cannot be {value:?}"))),
        }
    }

    fn required<T>(&self, column: &str, value: Option<T>) -> Result<T, CatalogError> {
        value.ok_or_else(|| self.corrupt(format!("column {column} is null")))
    }

    fn text(&self, column: &str) -> Result<&str, CatalogError> {
        self.required(column, self.optional(column, as_text)?)
    }

    fn text_or(&self, column: &str, default: &str) -> Result<String, CatalogError> {
        Ok(self.optional(column, as_text)?.unwrap_or(default).to_string())
    }

    fn boolean(&self, column: &str) -> Result<Option<bool>, CatalogError> {
        self.optional(column, |value| match value {
            CqlValue::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    fn count(&self, column: &str) -> Result<Option<u32>, CatalogError> {
        self.optional(column, |value| match value {
            CqlValue::Int(value) => u32::try_from(*value).ok(),
            _ => None,
        })
    }

    /// A column's number, or the bound of numbers. A corrupt number must not lead to an allocation for every
    /// number below it.
    fn id(&self, column: &str) -> Result<Option<u32>, CatalogError> {
        match self.count(column)? {
            Some(id) if id > MAX_COLUMN_IDS => {
                Err(self.corrupt(format!("column {column} is {id}; at most {MAX_COLUMN_IDS} is possible")))
            }
            id => Ok(id),
        }
    }

    fn double_or(&self, column: &str, default: f64) -> Result<f64, CatalogError> {
        let value = self.optional(column, |value| match value {
            CqlValue::Double(value) => Some(*value),
            _ => None,
        })?;
        Ok(value.unwrap_or(default))
    }

    fn texts(&self, column: &str) -> Result<Vec<&str>, CatalogError> {
        let texts = self.optional(column, |value| match value {
            CqlValue::List(values) | CqlValue::Set(values) => values.iter().map(as_text).collect(),
            _ => None,
        })?;
        self.required(column, texts)
    }

    fn list<T>(&self, column: &str, read: impl Fn(&CqlValue) -> Option<T>) -> Result<Vec<T>, CatalogError> {
        let values = self.optional(column, |value| match value {
            CqlValue::List(values) => values.iter().map(&read).collect(),
            _ => None,
        })?;
        self.required(column, values)
    }

    fn text_map(&self, column: &str) -> Result<Option<BTreeMap<String, String>>, CatalogError> {
        self.optional(column, |value| match value {
            CqlValue::Map(entries) => entries
                .iter()
                .map(|(key, value)| Some((as_text(key)?.to_string(), as_text(value)?.to_string())))
                .collect(),
            _ => None,
        })
    }
}

fn as_text(value: &CqlValue) -> Option<&str> {
    match value {
        CqlValue::Text(text) => Some(text),
        _ => None,
    }
}

/// Loads the types of a keyspace in rounds: each type after the types that it uses.
fn load_types(rows: &Rows, keyspace: &str) -> Result<Types, CatalogError> {
    let mut types = Types::new();
    let mut waiting: BTreeMap<&str, &Fields> = rows
        .starting_with(SystemTable::Types, &[keyspace], &[])
        .map(|(key, fields)| (key.clustering[0].as_str(), fields))
        .collect();
    while let Some((first, fields)) = waiting.first_key_value() {
        let (first, fields) = (*first, *fields);
        let mut loaded = Vec::new();
        for (name, fields) in &waiting {
            let is_waiting = |other: &str| waiting.contains_key(other);
            if let Some(user) = load_type(&types, is_waiting, keyspace, name, fields)? {
                types.insert(user.name.clone(), Arc::new(user));
                loaded.push(*name);
            }
        }
        if loaded.is_empty() {
            return Err(fields.corrupt(format!("type {first} is part of itself or waits for one that is")));
        }
        waiting.retain(|name, _| !loaded.contains(name));
    }
    Ok(types)
}

/// Loads a type. `None`: it uses a type that is not loaded yet.
fn load_type(
    types: &Types,
    is_waiting: impl Fn(&str) -> bool,
    keyspace: &str,
    name: &str,
    fields: &Fields,
) -> Result<Option<UserType>, CatalogError> {
    let (names, texts) = (fields.texts("field_names")?, fields.texts("field_types")?);
    if names.len() != texts.len() {
        let what = format!("{} field names for {} field types", names.len(), texts.len());
        return Err(fields.corrupt(what));
    }
    let mut user = UserType { keyspace: keyspace.to_string(), name: name.to_string(), fields: vec![] };
    for (name, text) in names.into_iter().zip(texts) {
        let must_wait = Cell::new(false);
        let resolve = |name: &str| {
            let found = user_types::resolve(types, keyspace, name);
            must_wait.set(must_wait.get() || found.is_none() && is_waiting(name));
            found
        };
        let field_type = match CqlType::from_cql(text, &resolve) {
            Ok(field_type) => field_type,
            Err(_) if must_wait.get() => return Ok(None),
            Err(error) => return Err(fields.corrupt(error)),
        };
        user_types::check(types, keyspace, &field_type).map_err(|error| fields.corrupt(error))?;
        user.fields.push(UdtField { name: name.to_string(), field_type });
    }
    Ok(Some(user))
}

/// Loads the functions and then the aggregates of a keyspace.
fn load_functions(rows: &Rows, types: &Types, keyspace: &str) -> Result<Functions, CatalogError> {
    let mut functions = Functions::default();
    let types_of = |key: &RowKey, fields: &Fields| {
        let names = key.clustering[1..].iter();
        names.map(|name| parse_type(types, keyspace, fields, name)).collect::<Result<Vec<_>, _>>()
    };
    for (key, fields) in rows.starting_with(SystemTable::Functions, &[keyspace], &[]) {
        let (argument_types, names) = (types_of(key, fields)?, fields.texts("argument_names")?);
        if names.len() != argument_types.len() {
            let what = format!("{} argument names for {} types", names.len(), argument_types.len());
            return Err(fields.corrupt(what));
        }
        let returns = parse_type(types, keyspace, fields, fields.text("return_type")?)?;
        let (language, body) = (fields.text("language")?, fields.text_or("body", "")?);
        let mut function = UserFunction::new(keyspace, &key.clustering[0], returns, language, &body)
            .called_on_null(fields.boolean("called_on_null_input")?.unwrap_or(false));
        for (name, ty) in names.into_iter().zip(argument_types) {
            function = function.argument(name, ty);
        }
        functions.put(Arc::new(function));
    }
    for (key, fields) in rows.starting_with(SystemTable::Aggregates, &[keyspace], &[]) {
        let argument_types = types_of(key, fields)?;
        let state_type = parse_type(types, keyspace, fields, fields.text("state_type")?)?;
        let find = |column: &str, arguments: &[CqlType]| {
            let Some(name) = fields.optional(column, as_text)? else { return Ok(None) };
            match functions.function(name, arguments) {
                Some(function) => Ok(Some(function.clone())),
                None => Err(fields.corrupt(format!("column {column}: there is no function {name}"))),
            }
        };
        let mut arguments = vec![state_type.clone()];
        arguments.extend_from_slice(&argument_types);
        let state_function = find("state_func", &arguments)?;
        let initial = fields.optional("initcond", as_text)?;
        let initial = initial.map(|literal| state_type.bytes_of(literal)).transpose();
        functions.put_aggregate(Arc::new(UserAggregate {
            keyspace: keyspace.to_string(),
            name: key.clustering[0].clone(),
            argument_types,
            state_function: fields.required("state_func", state_function)?,
            final_function: find("final_func", &[state_type])?,
            initial: initial.map_err(|error| fields.corrupt(error))?,
        }));
    }
    Ok(functions)
}

fn parse_type(types: &Types, keyspace: &str, fields: &Fields, text: &str) -> Result<CqlType, CatalogError> {
    CqlType::from_cql(text, &|name| user_types::resolve(types, keyspace, name))
        .map_err(|error| fields.corrupt(error))
}

/// Loads a view of one of the `tables`.
fn load_view(
    rows: &Rows,
    types: &Types,
    tables: &BTreeMap<String, Arc<Table>>,
    keyspace: &str,
    name: &str,
    fields: &Fields,
) -> Result<Arc<TableSchema>, CatalogError> {
    let base_name = fields.text("base_table_name")?;
    let base_id = fields.optional("base_table_id", as_uuid)?;
    let base_id = fields.required("base_table_id", base_id)?;
    let Some(base) = tables.get(base_name).filter(|base| base.schema.id == base_id) else {
        return Err(fields.corrupt(format!("there is no base table {base_name} with the id {base_id}")));
    };
    let conditions = fields.optional("messina_conditions", |value| match value {
        CqlValue::Blob(bytes) => Some(bytes.as_slice()),
        _ => None,
    })?;
    let conditions = decode_conditions(fields.required("messina_conditions", conditions)?)
        .map_err(|error| fields.corrupt(error))?;
    let schema = load_table(rows, types, keyspace, name, fields)?;
    let of_base = |name: &str| {
        base.schema.partition_key.iter().chain(&base.schema.clustering).any(|key| key.name == name)
    };
    let mut keys = schema.partition_key.iter().chain(&schema.clustering);
    let added_key = keys.find(|key| !of_base(&key.name)).map(|key| key.name.clone());
    let definition = ViewDefinition {
        base_id,
        base_name: base_name.to_string(),
        selects_all: fields.boolean("include_all_columns")?.unwrap_or(false),
        where_clause: fields.text("where_clause")?.to_string(),
        conditions,
        added_key,
    };
    let builder = schema.to_builder().view(Arc::new(definition));
    let schema = builder.build_with_ids_from(schema.column_id_bound());
    let schema = schema.map_err(|error| fields.corrupt(error))?;
    ViewPlan::new(&base.schema, &schema).map_err(|error| fields.corrupt(error))?;
    Ok(schema)
}

fn load_table(
    rows: &Rows,
    types: &Types,
    keyspace: &str,
    name: &str,
    fields: &Fields,
) -> Result<Arc<TableSchema>, CatalogError> {
    let id = fields.optional("id", as_uuid)?;
    let id = fields.required("id", id)?;
    let mut builder = TableSchema::builder(keyspace, name).id(id).options(load_options(fields)?);
    builder = builder.compact(load_compact(fields)?);
    let ids_of = |column: &[&str]| rows.get(&RowKey::new(SystemTable::ColumnIds, &[keyspace, name], column));
    let mut partition_key = BTreeMap::new();
    let mut clustering = BTreeMap::new();
    for (key, fields) in rows.starting_with(SystemTable::Columns, &[keyspace], &[name]) {
        let column = key.clustering[1].clone();
        let ty = parse_type(types, keyspace, fields, fields.text("type")?)?;
        let kind = match fields.text("kind")? {
            "partition_key" => {
                insert_key(&mut partition_key, fields, column, ty)?;
                continue;
            }
            "clustering" => {
                let descending = fields.text("clustering_order")? == "desc";
                let ty = if descending { CqlType::reversed(ty) } else { ty };
                insert_key(&mut clustering, fields, column, ty)?;
                continue;
            }
            kind => column_kind(fields, kind)?,
        };
        let id = ids_of(&[&column]).map(|ids| ids.id("column_id")).transpose()?.flatten();
        builder = match (id, kind) {
            (Some(id), kind) => builder.column(Column { id: ColumnId(id), name: column, ty, kind }),
            // A table written by another database has no numbers; they are assigned now.
            (None, ColumnKind::Regular) => builder.regular(column, ty),
            (None, ColumnKind::Static) => builder.static_column(column, ty),
        };
    }
    // The hidden column of a view has only a number.
    if let Some(id) = ids_of(&[HIDDEN_COLUMN]).map(|ids| ids.id("column_id")).transpose()?.flatten() {
        let (name, ty) = (HIDDEN_COLUMN.to_string(), hidden_column_type());
        builder = builder.column(Column { id: ColumnId(id), name, ty, kind: ColumnKind::Regular });
    }
    for (name, ty) in in_order(fields, "partition key", partition_key)? {
        builder = builder.partition_key(name, ty);
    }
    for (name, ty) in in_order(fields, "clustering", clustering)? {
        builder = builder.clustering(name, ty);
    }
    for (key, fields) in rows.starting_with(SystemTable::DroppedColumns, &[keyspace], &[name]) {
        let column = &key.clustering[1];
        let exact_us = ids_of(&[column]).map(|ids| ids.optional("dropped_time_us", as_bigint)).transpose()?;
        // If a column of this name exists again, the number is that column's; the builder checks this.
        let id = ids_of(&[column]).map(|ids| ids.id("column_id")).transpose()?.flatten();
        builder = builder.dropped(load_dropped(fields, column, exact_us.flatten(), id.map(ColumnId))?);
    }
    for (key, fields) in rows.starting_with(SystemTable::Indexes, &[keyspace], &[name]) {
        let index = &key.clustering[1];
        let ids = rows.get(&RowKey::new(SystemTable::IndexIds, &[keyspace, name], &[index]));
        let id = ids.map(|ids| ids.optional("index_id", as_uuid)).transpose()?.flatten();
        // A table written by another database has no identifiers; they are derived from the names.
        let id = id.unwrap_or_else(|| name_uuid(format!("{keyspace}.{name}.{index}").as_bytes()));
        let options = fields.text_map("options")?.unwrap_or_default();
        let definition = index_from_options(id, index, fields.text("kind")?, options);
        builder = builder.index(Arc::new(definition.map_err(|error| fields.corrupt(error))?));
    }
    let bound = ids_of(&[]).map(|ids| ids.id("id_bound")).transpose()?.flatten();
    builder.build_with_ids_from(bound.unwrap_or(0)).map_err(|error| fields.corrupt(error))
}

/// The shape of a compact table, from the flags that Cassandra stores. A table without `compound` is compact;
/// a table of another kind without flags does not exist.
fn load_compact(fields: &Fields) -> Result<CompactStorage, CatalogError> {
    let flags = fields.optional("flags", |value| match value {
        CqlValue::Set(flags) => flags.iter().map(as_text).collect::<Option<Vec<&str>>>(),
        _ => None,
    })?;
    let Some(flags) = flags else { return Ok(CompactStorage::No) };
    if flags.contains(&"super") {
        return Err(fields.corrupt("super column families are not supported"));
    }
    Ok(match (flags.contains(&"dense"), flags.contains(&"compound")) {
        (true, _) => CompactStorage::Dense,
        (false, true) => CompactStorage::No,
        (false, false) => CompactStorage::Static,
    })
}

type Keys = BTreeMap<i32, (String, CqlType)>;

fn insert_key(keys: &mut Keys, fields: &Fields, name: String, ty: CqlType) -> Result<(), CatalogError> {
    let position = fields.optional("position", |value| match value {
        CqlValue::Int(position) => Some(*position),
        _ => None,
    })?;
    let position = fields.required("position", position)?;
    match keys.insert(position, (name, ty)) {
        Some((other, _)) => Err(fields.corrupt(format!("column {other} has the same position {position}"))),
        None => Ok(()),
    }
}

/// The key columns, if they are numbered from 0 without gaps.
fn in_order(
    fields: &Fields,
    what: &str,
    keys: Keys,
) -> Result<impl Iterator<Item = (String, CqlType)>, CatalogError> {
    match (0..).zip(keys.keys()).find(|(expected, position)| expected != *position) {
        Some((expected, position)) => {
            Err(fields.corrupt(format!("{what} column {position} where {expected} should be")))
        }
        None => Ok(keys.into_values()),
    }
}

fn column_kind(fields: &Fields, kind: &str) -> Result<ColumnKind, CatalogError> {
    match kind {
        "regular" => Ok(ColumnKind::Regular),
        "static" => Ok(ColumnKind::Static),
        _ => Err(fields.corrupt(format!("column kind cannot be '{kind}'"))),
    }
}

fn as_bigint(value: &CqlValue) -> Option<i64> {
    match value {
        CqlValue::BigInt(value) => Some(*value),
        _ => None,
    }
}

fn as_uuid(value: &CqlValue) -> Option<Uuid> {
    match value {
        CqlValue::Uuid(bytes) => Some(Uuid::from_bytes(*bytes)),
        _ => None,
    }
}

/// `exact_us` is used only if it is in the same millisecond. Otherwise another database has dropped the
/// column again.
fn load_dropped(
    fields: &Fields,
    name: &str,
    exact_us: Option<i64>,
    id: Option<ColumnId>,
) -> Result<DroppedColumn, CatalogError> {
    let time_ms = fields.optional("dropped_time", |value| match value {
        CqlValue::Timestamp(ms) => Some(*ms),
        _ => None,
    })?;
    let time_ms = fields.required("dropped_time", time_ms)?;
    let exact_us = exact_us.filter(|exact_us| exact_us.div_euclid(1000) == time_ms);
    // User types were replaced by tuples when the column was dropped.
    let ty = CqlType::from_cql(fields.text("type")?, &|_| None).map_err(|error| fields.corrupt(error))?;
    Ok(DroppedColumn {
        name: name.to_string(),
        ty,
        kind: column_kind(fields, &fields.text_or("kind", "regular")?)?,
        dropped_time_us: exact_us.unwrap_or(time_ms.saturating_mul(1000)),
        id,
    })
}

fn load_compression(
    fields: &Fields,
) -> Result<(Option<Compression>, BTreeMap<String, String>), CatalogError> {
    match fields.text_map("compression")? {
        Some(options) => compression_from_map(&options).map_err(|error| fields.corrupt(error)),
        None => Ok((TableOptions::default().compression, BTreeMap::new())),
    }
}

fn load_options(fields: &Fields) -> Result<TableOptions, CatalogError> {
    let default = TableOptions::default();
    let count = |column: &str, default: u32| Ok(fields.count(column)?.unwrap_or(default));
    Ok(TableOptions {
        comment: fields.text_or("comment", "")?,
        compression: load_compression(fields)?.0,
        bloom_filter_fp_chance: fields.double_or("bloom_filter_fp_chance", default.bloom_filter_fp_chance)?,
        gc_grace_s: count("gc_grace_seconds", default.gc_grace_s)?,
        default_ttl_s: count("default_time_to_live", default.default_ttl_s)?,
        min_index_interval: count("min_index_interval", default.min_index_interval)?,
        max_index_interval: count("max_index_interval", default.max_index_interval)?,
        memtable_flush_period_ms: count("memtable_flush_period_in_ms", default.memtable_flush_period_ms)?,
        crc_check_chance: fields.double_or("crc_check_chance", default.crc_check_chance)?,
    })
}

/// The masks of the table's columns. A mask without its column is left over from an interrupted change.
fn load_masks(
    rows: &Rows,
    types: &Types,
    schema: &TableSchema,
) -> Result<BTreeMap<String, ColumnMask>, CatalogError> {
    let is_key =
        |name: &str| schema.partition_key.iter().chain(&schema.clustering).any(|key| key.name == name);
    let mut masks = BTreeMap::new();
    for (key, fields) in rows.starting_with(SystemTable::ColumnMasks, &[&schema.keyspace], &[&schema.name]) {
        let column = &key.clustering[1];
        if !is_key(column) && schema.column_named(column).is_none() {
            continue;
        }
        let nulls = fields.list("function_argument_nulls", |value| match value {
            CqlValue::Boolean(is_null) => Some(*is_null),
            _ => None,
        })?;
        let values = fields.list("messina_argument_bytes", |value| match value {
            CqlValue::Blob(bytes) => Some(bytes.clone()),
            _ => None,
        })?;
        let names = fields.texts("function_argument_types")?;
        if nulls.len() != values.len() || names.len() != values.len() {
            return Err(fields.corrupt("its lists of arguments have different lengths"));
        }
        let mut arguments = vec![];
        for ((name, is_null), value) in names.into_iter().zip(nulls).zip(values) {
            let ty = CqlType::from_cql(name, &|name| user_types::resolve(types, &schema.keyspace, name));
            let ty = ty.map_err(|error| fields.corrupt(error))?;
            arguments.push(MaskArgument { ty, value: (!is_null).then_some(value) });
        }
        let function = fields.text("function_name")?.to_string();
        masks.insert(column.clone(), ColumnMask { function, arguments });
    }
    Ok(masks)
}

fn load_settings(fields: &Fields) -> Result<TableSettings, CatalogError> {
    let default = TableSettings::default();
    let extensions = fields.optional("extensions", |value| match value {
        CqlValue::Map(entries) => entries
            .iter()
            .map(|(name, bytes)| match bytes {
                CqlValue::Blob(bytes) => Some((as_text(name)?.to_string(), bytes.clone())),
                _ => None,
            })
            .collect(),
        _ => None,
    })?;
    Ok(TableSettings {
        additional_write_policy: fields
            .text_or("additional_write_policy", &default.additional_write_policy)?,
        caching: fields.text_map("caching")?.unwrap_or(default.caching),
        cdc: fields.boolean("cdc")?.unwrap_or(false),
        compaction: fields.text_map("compaction")?.unwrap_or(default.compaction),
        compression: load_compression(fields)?.1,
        extensions: extensions.unwrap_or_default(),
        masks: BTreeMap::new(),
        memtable: fields.text_or("memtable", &default.memtable)?,
        others: fields.text_map("messina_options")?.unwrap_or_default(),
        read_repair: fields.text_or("read_repair", &default.read_repair)?,
        speculative_retry: fields.text_or("speculative_retry", &default.speculative_retry)?,
    })
}
