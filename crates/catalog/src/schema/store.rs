//! Converts a change of the catalog to writes to the system tables.
//!
//! A catalog corresponds to a set of rows (see [`rows_of_table`] and the functions next to it), and the
//! writes are the difference of two such sets. A changed row is deleted at `timestamp_us - 1` and written
//! again at `timestamp_us`, so that no old value remains visible.
//!
//! The order of the writes matters, because a crash may occur between any two of them. Additions are written
//! from the inside out: the row in `tables`, which makes a table exist, comes after the rows of its columns.
//! Removals are written from the outside in. After any number of the writes, the system tables can be loaded
//! as the old catalog, the new catalog or, if several objects changed, a state in between. Remains of
//! interrupted writes are deleted when a keyspace or table of that name is created again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::key::composite_key;
use model::types::{CollectionBuilder, CqlValue, Duration, UserType};
use model::view_definition::encode as encode_conditions;
use model::{
    Cell, ClusteringPrefix, ClusteringRange, ColumnKind, CqlType, KeyColumn, Liveness, Mutation,
    PartitionKey, TableSchema, Tombstone, ViewDefinition,
};

use crate::access::Access;
use crate::access::permission::Permission;
use crate::access::service_level::Workload;
use crate::options::column_mask::{ColumnMask, MaskArgument};
use crate::options::compression::compression_to_map;
use crate::schema::catalog::{Catalog, Entry, Table};
use crate::schema::functions::{UserAggregate, UserFunction, type_names};
use crate::schema::indexes::{self, index_options};
use crate::system::{self, system_table};

/// A system table, in the order in which additions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SystemTable {
    ColumnIds,
    IndexIds,
    Types,
    DroppedColumns,
    // A mask comes before its column and goes after it: no column is ever without its mask.
    ColumnMasks,
    Columns,
    Tables,
    Keyspaces,
    Indexes,
    Views,
    // Catalogs do not contain these yet; their rows are deleted with their keyspace or table.
    Triggers,
    // An aggregate comes after its functions and goes before them.
    Functions,
    Aggregates,
    ServiceLevels,
    Roles,
    RoleMembers,
    RoleAttributes,
    RolePermissions,
    ResourceRoles,
}

/// The attribute of a role that contains the name of its level.
pub(crate) const SERVICE_LEVEL: &str = "service_level";

impl SystemTable {
    /// The tables whose rows make up a catalog.
    pub(crate) const STORED: [Self; 17] = [
        Self::ColumnIds,
        Self::IndexIds,
        Self::Types,
        Self::DroppedColumns,
        Self::ColumnMasks,
        Self::Columns,
        Self::Tables,
        Self::Keyspaces,
        Self::Indexes,
        Self::Views,
        Self::Functions,
        Self::Aggregates,
        Self::ServiceLevels,
        Self::Roles,
        Self::RoleMembers,
        Self::RoleAttributes,
        Self::RolePermissions,
    ];
    /// Tables of roles, permissions and service levels.
    const OF_ACCESS: [Self; 6] = [
        Self::ServiceLevels,
        Self::Roles,
        Self::RoleMembers,
        Self::RoleAttributes,
        Self::RolePermissions,
        Self::ResourceRoles,
    ];
    /// Tables with a partition per keyspace.
    const BY_KEYSPACE: [Self; 11] = [
        Self::Types,
        Self::DroppedColumns,
        Self::ColumnMasks,
        Self::Columns,
        Self::Tables,
        Self::Keyspaces,
        Self::Indexes,
        Self::Triggers,
        Self::Views,
        Self::Functions,
        Self::Aggregates,
    ];
    /// Tables with a partition per table.
    const OF_TABLE: [Self; 2] = [Self::ColumnIds, Self::IndexIds];
    /// Tables with a partition per keyspace, whose clustering keys begin with the name of a table.
    const BY_TABLE: [Self; 7] = [
        Self::DroppedColumns,
        Self::ColumnMasks,
        Self::Columns,
        Self::Tables,
        Self::Indexes,
        Self::Views,
        Self::Triggers,
    ];

    /// Whether the last clustering column is a list of types; see [`RowKey`].
    pub(crate) fn ends_with_types(self) -> bool {
        matches!(self, Self::Functions | Self::Aggregates)
    }

    pub(crate) fn table_name(self) -> &'static str {
        match self {
            Self::ColumnIds => system::COLUMN_IDS,
            Self::IndexIds => system::INDEX_IDS,
            Self::Types => system::TYPES,
            Self::DroppedColumns => system::DROPPED_COLUMNS,
            Self::ColumnMasks => system::COLUMN_MASKS,
            Self::Columns => system::COLUMNS,
            Self::Tables => system::TABLES,
            Self::Keyspaces => system::KEYSPACES,
            Self::Indexes => system::INDEXES,
            Self::Triggers => system::TRIGGERS,
            Self::Views => system::VIEWS,
            Self::Functions => system::FUNCTIONS,
            Self::Aggregates => system::AGGREGATES,
            Self::ServiceLevels => system::SERVICE_LEVELS,
            Self::Roles => system::ROLES,
            Self::RoleMembers => system::ROLE_MEMBERS,
            Self::RoleAttributes => system::ROLE_ATTRIBUTES,
            Self::RolePermissions => system::ROLE_PERMISSIONS,
            Self::ResourceRoles => system::RESOURCE_ROLES,
        }
    }
}

/// Identifies a row by table, partition key and clustering key. All key columns are text, but for the
/// argument types of functions and aggregates, a list that is here the rest of the clustering key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) place: SystemTable,
    pub(crate) partition: Vec<String>,
    /// Empty for a static row, and for a row of a table without clustering columns.
    pub(crate) clustering: Vec<String>,
}

impl RowKey {
    pub(crate) fn new(place: SystemTable, partition: &[&str], clustering: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self { place, partition: owned(partition), clustering: owned(clustering) }
    }
}

type Fields = Vec<(&'static str, CqlValue)>;
type Rows = BTreeMap<RowKey, Fields>;

/// The writes that change the system tables from `old` to `new`, to be applied in this order.
///
/// `timestamp_us` must be greater than that of every earlier change. `now_s` is the deletion time from which
/// gc_grace is counted.
pub fn mutations_for(old: &Catalog, new: &Catalog, timestamp_us: i64, now_s: u32) -> Vec<Mutation> {
    let mut writer = Writer::new(timestamp_us, now_s);
    let names: BTreeSet<&String> = old.entries().keys().chain(new.entries().keys()).collect();
    for name in names {
        match (old.entries().get(name), new.entries().get(name)) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
            (Some(old), Some(new)) => writer.change_keyspace(old, new),
            (Some(old), None) => writer.drop_keyspace(old),
            (None, Some(new)) => writer.create_keyspace(new),
            (None, None) => unreachable!("the name is from one of them"),
        }
    }
    if !Arc::ptr_eq(old.access(), new.access()) {
        writer.change_rows(&rows_of_access(old.access()), rows_of_access(new.access()));
    }
    writer.finish()
}

/// Mutations by table and partition.
type Batch = BTreeMap<(SystemTable, Vec<String>), Mutation>;

struct Writer {
    schemas: BTreeMap<SystemTable, Arc<TableSchema>>,
    timestamp_us: i64,
    /// Deletes the contents from before this change.
    before: Tombstone,
    additions: Batch,
    removals: Batch,
}

impl Writer {
    fn new(timestamp_us: i64, now_s: u32) -> Self {
        assert!(timestamp_us > i64::MIN + 1, "deletions are a microsecond older, and that must be a time");
        let places =
            SystemTable::BY_KEYSPACE.into_iter().chain(SystemTable::OF_TABLE).chain(SystemTable::OF_ACCESS);
        Self {
            schemas: places.map(|place| (place, system_table(place.table_name()))).collect(),
            timestamp_us,
            before: Tombstone::new(timestamp_us - 1, now_s),
            additions: Batch::new(),
            removals: Batch::new(),
        }
    }

    fn finish(self) -> Vec<Mutation> {
        // Batches are sorted by `SystemTable`: additions from the inside out, removals in reverse order.
        self.additions.into_values().chain(self.removals.into_values().rev()).collect()
    }

    fn create_keyspace(&mut self, new: &Entry) {
        for place in SystemTable::BY_KEYSPACE {
            addition(self, place, &[&new.keyspace.name]).partition.tombstone = self.before;
        }
        self.put_all(rows_of_keyspace(new));
        for table in new.tables.values() {
            self.create_table(table, false);
        }
    }

    fn drop_keyspace(&mut self, old: &Entry) {
        for place in SystemTable::BY_KEYSPACE {
            removal(self, place, &[&old.keyspace.name]).partition.tombstone = self.before;
        }
        for table in old.tables.values() {
            self.drop_ids(table);
        }
    }

    fn change_keyspace(&mut self, old: &Entry, new: &Entry) {
        self.change_rows(&rows_of_keyspace(old), rows_of_keyspace(new));
        let names: BTreeSet<&String> = old.tables.keys().chain(new.tables.keys()).collect();
        for name in names {
            match (old.tables.get(name), new.tables.get(name)) {
                (Some(old), Some(new)) if old == new => {}
                (Some(old), Some(new)) if old.schema.id == new.schema.id => {
                    self.change_rows(&rows_of_table(old), rows_of_table(new));
                }
                (_, Some(new)) => self.create_table(new, true),
                (Some(old), None) => self.drop_table(old),
                (None, None) => unreachable!("the name is from one of them"),
            }
        }
    }

    /// `delete_before`: rows of another table of this name may still exist.
    fn create_table(&mut self, table: &Table, delete_before: bool) {
        let (keyspace, name) = (&table.schema.keyspace, &table.schema.name);
        if delete_before {
            for place in SystemTable::BY_TABLE {
                let range = ClusteringRange::of_prefix(prefix([name]));
                let before = self.before;
                addition(self, place, &[keyspace]).delete_range(range, before);
            }
        }
        for place in SystemTable::OF_TABLE {
            addition(self, place, &[keyspace, name]).partition.tombstone = self.before;
        }
        self.put_all(rows_of_table(table));
    }

    fn drop_table(&mut self, table: &Table) {
        let (keyspace, name) = (&table.schema.keyspace, &table.schema.name);
        for place in SystemTable::BY_TABLE {
            let range = ClusteringRange::of_prefix(prefix([name]));
            let before = self.before;
            removal(self, place, &[keyspace]).delete_range(range, before);
        }
        self.drop_ids(table);
    }

    fn drop_ids(&mut self, table: &Table) {
        let partition = [table.schema.keyspace.as_str(), &table.schema.name];
        for place in SystemTable::OF_TABLE {
            removal(self, place, &partition).partition.tombstone = self.before;
        }
    }

    fn put_all(&mut self, rows: Rows) {
        for (key, fields) in rows {
            self.put(&key, &fields, false);
        }
    }

    fn change_rows(&mut self, old: &Rows, new: Rows) {
        for key in old.keys().filter(|key| !new.contains_key(key)) {
            let (row_key, before) = (row_prefix(key), self.before);
            removal(self, key.place, &key.partition).row_mut(row_key).deletion = before;
        }
        for (key, fields) in new {
            let Some(old) = old.get(&key) else {
                self.put(&key, &fields, false);
                continue;
            };
            if *old != fields {
                // A column's number is removed together with the column, not earlier.
                let has_id = |fields: &Fields| fields.iter().any(|(name, _)| *name == "column_id");
                self.put(&key, &fields, has_id(old) && !has_id(&fields));
            }
        }
    }

    /// Replaces a row; with the removals if it is `late`.
    fn put(&mut self, key: &RowKey, fields: &Fields, late: bool) {
        let (timestamp_us, before) = (self.timestamp_us, self.before);
        let mutation = if late { removal } else { addition }(self, key.place, &key.partition);
        let schema = mutation.schema.clone();
        let is_static = key.clustering.is_empty() && !schema.clustering.is_empty();
        let row = if is_static {
            &mut mutation.partition.static_row
        } else {
            let row = mutation.row_mut(row_prefix(key));
            row.deletion = before;
            row.liveness = Liveness::new(timestamp_us);
            row
        };
        for (name, value) in fields {
            let column = schema.column_named(name).expect("the fields below are columns of their tables");
            let encode = |value: &CqlValue, ty: &CqlType| {
                value.encode(ty).expect("the fields below have their columns' types")
            };
            match (&column.ty, value) {
                (CqlType::Set { element, multi_cell: true }, CqlValue::Set(values)) => {
                    for value in values {
                        let cell = Cell::live(timestamp_us, vec![]);
                        row.set_element(&schema, column, encode(value, element), cell);
                    }
                }
                (ty, value) => row.set(column, Cell::live(timestamp_us, encode(value, ty))),
            }
        }
    }
}

fn addition<'a>(
    writer: &'a mut Writer,
    place: SystemTable,
    partition: &[impl AsRef<str>],
) -> &'a mut Mutation {
    mutation_in(&mut writer.additions, &writer.schemas, place, partition)
}

fn removal<'a>(
    writer: &'a mut Writer,
    place: SystemTable,
    partition: &[impl AsRef<str>],
) -> &'a mut Mutation {
    mutation_in(&mut writer.removals, &writer.schemas, place, partition)
}

fn mutation_in<'a>(
    batch: &'a mut Batch,
    schemas: &BTreeMap<SystemTable, Arc<TableSchema>>,
    place: SystemTable,
    partition: &[impl AsRef<str>],
) -> &'a mut Mutation {
    let names: Vec<String> = partition.iter().map(|name| name.as_ref().to_string()).collect();
    batch.entry((place, names)).or_insert_with_key(|(place, names)| {
        let key = match names.as_slice() {
            [name] => PartitionKey::new(name.as_str()),
            names => PartitionKey::new(composite_key(names.iter().map(|name| name.as_bytes()))),
        };
        Mutation::new(schemas[place].clone(), key)
    })
}

/// The clustering key of a row as stored.
fn row_prefix(key: &RowKey) -> ClusteringPrefix {
    let (true, [name, types @ ..]) = (key.place.ends_with_types(), &key.clustering[..]) else {
        return prefix(&key.clustering);
    };
    let mut list = CollectionBuilder::new();
    types.iter().for_each(|ty| list.push(ty.as_bytes()));
    ClusteringPrefix::new([name.as_bytes(), &list.finish()])
}

fn prefix<'a>(names: impl IntoIterator<Item = &'a String>) -> ClusteringPrefix {
    ClusteringPrefix::new(names.into_iter().map(|name| name.as_bytes()))
}

fn text(value: &str) -> CqlValue {
    CqlValue::Text(value.to_string())
}

fn int(value: u32) -> CqlValue {
    CqlValue::Int(i32::try_from(value).expect("the catalog holds numbers to what an int can be"))
}

fn text_map(map: &BTreeMap<String, String>) -> CqlValue {
    CqlValue::Map(map.iter().map(|(key, value)| (text(key), text(value))).collect())
}

fn rows_of_access(access: &Access) -> Rows {
    let mut rows = Rows::new();
    for (name, level) in &access.levels {
        let mut fields = vec![("shares", int(level.shares))];
        fields.extend(level.timeout_ms.map(|ms| ("timeout", CqlValue::Duration(millis(ms)))));
        if level.workload != Workload::Unspecified {
            fields.push(("workload_type", text(level.workload.name())));
        }
        rows.insert(RowKey::new(SystemTable::ServiceLevels, &[name], &[]), fields);
    }
    for (name, role) in &access.roles {
        let mut fields = vec![
            ("can_login", CqlValue::Boolean(role.can_login)),
            ("is_superuser", CqlValue::Boolean(role.is_superuser)),
        ];
        fields.extend(role.salted_hash.as_ref().map(|hash| ("salted_hash", text(hash))));
        if !role.member_of.is_empty() {
            fields.push(("member_of", CqlValue::Set(role.member_of.iter().map(|of| text(of)).collect())));
        }
        rows.insert(RowKey::new(SystemTable::Roles, &[name], &[]), fields);
        for of in &role.member_of {
            rows.insert(RowKey::new(SystemTable::RoleMembers, &[of], &[name]), vec![]);
        }
        if let Some(level) = &role.service_level {
            rows.insert(
                RowKey::new(SystemTable::RoleAttributes, &[name], &[SERVICE_LEVEL]),
                vec![("value", text(level))],
            );
        }
        for (resource, permissions) in &role.permissions {
            // Elements of a set are sorted.
            let mut names: Vec<_> = permissions.iter().map(Permission::name).collect();
            names.sort_unstable();
            let names = CqlValue::Set(names.into_iter().map(text).collect());
            let key = RowKey::new(SystemTable::RolePermissions, &[name], &[resource]);
            rows.insert(key, vec![("permissions", names)]);
            rows.insert(RowKey::new(SystemTable::ResourceRoles, &[resource], &[name]), vec![]);
        }
    }
    rows
}

fn millis(ms: u64) -> Duration {
    let nanoseconds = i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    Duration { months: 0, days: 0, nanoseconds }
}

/// The rows of the keyspace itself and of its types.
fn rows_of_keyspace(entry: &Entry) -> Rows {
    let keyspace = &entry.keyspace;
    let fields = vec![
        ("durable_writes", CqlValue::Boolean(keyspace.durable_writes)),
        ("replication", text_map(&keyspace.replication)),
        ("messina_options", text_map(&keyspace.others)),
    ];
    let mut rows = Rows::from([(RowKey::new(SystemTable::Keyspaces, &[&keyspace.name], &[]), fields)]);
    for user in entry.types.values() {
        let UserType { keyspace, name, fields } = &**user;
        let names = fields.iter().map(|field| text(&field.name)).collect();
        let types = fields.iter().map(|field| text(&field.field_type.to_cql())).collect();
        let fields = vec![("field_names", CqlValue::List(names)), ("field_types", CqlValue::List(types))];
        rows.insert(RowKey::new(SystemTable::Types, &[keyspace], &[name]), fields);
    }
    rows.extend(entry.functions.functions.iter().map(|function| row_of_function(function)));
    rows.extend(entry.functions.aggregates.iter().map(|aggregate| row_of_aggregate(aggregate)));
    rows
}

fn key_with_types(place: SystemTable, keyspace: &str, name: &str, types: &[CqlType]) -> RowKey {
    let clustering = std::iter::once(name.to_string()).chain(type_names(types)).collect();
    RowKey { place, partition: vec![keyspace.to_string()], clustering }
}

fn row_of_function(function: &UserFunction) -> (RowKey, Fields) {
    let UserFunction { keyspace, name, argument_types, .. } = function;
    let names = function.argument_names.iter().map(|name| text(name)).collect();
    let fields = vec![
        ("argument_names", CqlValue::List(names)),
        ("body", text(&function.body)),
        ("language", text(&function.language)),
        ("return_type", text(&function.returns.to_cql())),
        ("called_on_null_input", CqlValue::Boolean(function.called_on_null)),
    ];
    (key_with_types(SystemTable::Functions, keyspace, name, argument_types), fields)
}

fn row_of_aggregate(aggregate: &UserAggregate) -> (RowKey, Fields) {
    let UserAggregate { keyspace, name, argument_types, .. } = aggregate;
    let mut fields = vec![
        ("return_type", text(&aggregate.returns().to_cql())),
        ("state_func", text(&aggregate.state_function.name)),
        ("state_type", text(&aggregate.state_type().to_cql())),
    ];
    fields.extend(aggregate.final_function.iter().map(|last| ("final_func", text(&last.name))));
    fields.extend(aggregate.initial_literal().map(|literal| ("initcond", CqlValue::Text(literal))));
    (key_with_types(SystemTable::Aggregates, keyspace, name, argument_types), fields)
}

fn rows_of_table(table: &Table) -> Rows {
    let schema = &table.schema;
    let (keyspace, name) = (schema.keyspace.as_str(), schema.name.as_str());
    let mut rows = Rows::new();
    let (place, fields) = match &schema.view {
        None => (SystemTable::Tables, table_fields(table)),
        Some(view) => (SystemTable::Views, view_fields(table, view)),
    };
    rows.insert(RowKey::new(place, &[keyspace], &[name]), fields);
    for (kind, keys) in [("partition_key", &schema.partition_key), ("clustering", &schema.clustering)] {
        for (position, KeyColumn { name: column, ty }) in (0..).zip(keys) {
            let order = match (kind, ty.is_reversed()) {
                ("partition_key", _) => "none",
                (_, true) => "desc",
                (_, false) => "asc",
            };
            let fields = column_fields(column, kind, position, order, ty.to_cql());
            rows.insert(RowKey::new(SystemTable::Columns, &[keyspace], &[name, column]), fields);
        }
    }
    let ids_key = |column: &str| RowKey::new(SystemTable::ColumnIds, &[keyspace, name], &[column]);
    for column in schema.columns() {
        // The hidden column of a view has only a number; clients do not see it.
        if schema.view.is_none() || !schema.is_hidden(column) {
            let fields = column_fields(&column.name, kind_name(column.kind), -1, "none", column.ty.to_cql());
            rows.insert(RowKey::new(SystemTable::Columns, &[keyspace], &[name, &column.name]), fields);
        }
        rows.insert(ids_key(&column.name), vec![("column_id", int(column.id.0))]);
    }
    for dropped in &schema.dropped {
        let fields = vec![
            ("dropped_time", CqlValue::Timestamp(dropped.dropped_time_us.div_euclid(1000))),
            ("kind", text(kind_name(dropped.kind))),
            ("type", text(&dropped.ty.to_cql())),
        ];
        rows.insert(RowKey::new(SystemTable::DroppedColumns, &[keyspace], &[name, &dropped.name]), fields);
        let exact = ("dropped_time_us", CqlValue::BigInt(dropped.dropped_time_us));
        let row = rows.entry(ids_key(&dropped.name)).or_default();
        row.extend(dropped.id.map(|id| ("column_id", int(id.0))));
        row.push(exact);
    }
    for index in &schema.indexes {
        let fields = vec![
            ("kind", text(indexes::kind_name(index.kind))),
            ("options", text_map(&index_options(index))),
        ];
        rows.insert(RowKey::new(SystemTable::Indexes, &[keyspace], &[name, &index.name]), fields);
        let id = vec![("index_id", CqlValue::Uuid(index.id.into_bytes()))];
        rows.insert(RowKey::new(SystemTable::IndexIds, &[keyspace, name], &[&index.name]), id);
    }
    for (column, mask) in &table.settings.masks {
        rows.insert(RowKey::new(SystemTable::ColumnMasks, &[keyspace], &[name, column]), mask_fields(mask));
    }
    let bound = vec![("id_bound", int(schema.column_id_bound()))];
    rows.insert(RowKey::new(SystemTable::ColumnIds, &[keyspace, name], &[]), bound);
    rows
}

fn mask_fields(mask: &ColumnMask) -> Fields {
    let list =
        |value: fn(&MaskArgument) -> CqlValue| CqlValue::List(mask.arguments.iter().map(value).collect());
    let shown = |argument: &MaskArgument| match (&argument.value, &argument.ty) {
        (None, _) => text(""),
        (Some(bytes), CqlType::Text | CqlType::Ascii) => text(&String::from_utf8_lossy(bytes)),
        (Some(bytes), ty) => text(&ty.text_of(bytes)),
    };
    vec![
        ("function_argument_nulls", list(|argument| CqlValue::Boolean(argument.value.is_none()))),
        ("function_argument_types", list(|argument| text(&argument.ty.to_cql()))),
        ("function_argument_values", list(shown)),
        ("function_keyspace", text("system")),
        ("function_name", text(&mask.function)),
        (
            "messina_argument_bytes",
            list(|argument| CqlValue::Blob(argument.value.clone().unwrap_or_default())),
        ),
    ]
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}

fn column_fields(name: &str, kind: &str, position: i32, order: &str, ty: String) -> Fields {
    vec![
        ("clustering_order", text(order)),
        ("column_name_bytes", CqlValue::Blob(name.as_bytes().to_vec())),
        ("kind", text(kind)),
        ("position", CqlValue::Int(position)),
        ("type", CqlValue::Text(ty)),
    ]
}

/// The fields of a view: those of a table that views have, and the definition.
fn view_fields(table: &Table, view: &ViewDefinition) -> Fields {
    let mut fields = table_fields(table);
    fields.retain(|(name, _)| *name != "flags");
    fields.extend([
        ("base_table_id", CqlValue::Uuid(view.base_id.into_bytes())),
        ("base_table_name", text(&view.base_name)),
        ("include_all_columns", CqlValue::Boolean(view.selects_all)),
        ("messina_conditions", CqlValue::Blob(encode_conditions(&view.conditions))),
        ("where_clause", text(&view.where_clause)),
    ]);
    fields
}

fn table_fields(Table { schema, settings }: &Table) -> Fields {
    let options = &schema.options;
    let mut flags = vec![];
    if !schema.is_compact() || (schema.is_dense() && schema.clustering.len() > 1) {
        flags.push(text("compound"));
    }
    if schema.has_counters() {
        flags.push(text("counter"));
    }
    if schema.is_dense() {
        flags.push(text("dense"));
    }
    let extensions = settings.extensions.iter();
    let extensions = extensions.map(|(name, bytes)| (text(name), CqlValue::Blob(bytes.clone()))).collect();
    let chance = |name: &str| {
        let chance = settings.others.get(name).and_then(|chance| chance.parse().ok());
        CqlValue::Double(chance.unwrap_or(0.0))
    };
    let mut fields = vec![
        ("additional_write_policy", text(&settings.additional_write_policy)),
        ("bloom_filter_fp_chance", CqlValue::Double(options.bloom_filter_fp_chance)),
        ("caching", text_map(&settings.caching)),
        ("cdc", CqlValue::Boolean(settings.cdc)),
        ("comment", text(&options.comment)),
        ("compaction", text_map(&settings.compaction)),
        ("compression", text_map(&compression_to_map(&options.compression, &settings.compression))),
        ("crc_check_chance", CqlValue::Double(options.crc_check_chance)),
        // These two options have had no effect since 4.0, but drivers request them.
        ("dclocal_read_repair_chance", chance("dclocal_read_repair_chance")),
        ("default_time_to_live", int(options.default_ttl_s)),
        ("extensions", CqlValue::Map(extensions)),
        ("flags", CqlValue::Set(flags)),
        ("gc_grace_seconds", int(options.gc_grace_s)),
        ("id", CqlValue::Uuid(schema.id.into_bytes())),
        ("max_index_interval", int(options.max_index_interval)),
        ("memtable_flush_period_in_ms", int(options.memtable_flush_period_ms)),
        ("messina_options", text_map(&settings.others)),
        ("min_index_interval", int(options.min_index_interval)),
        ("read_repair", text(&settings.read_repair)),
        ("read_repair_chance", chance("read_repair_chance")),
        ("speculative_retry", text(&settings.speculative_retry)),
    ];
    if settings.memtable != "default" {
        fields.push(("memtable", text(&settings.memtable)));
    }
    // As in Cassandra, null stands for true.
    for name in ["allow_auto_snapshot", "incremental_backups"] {
        if settings.others.get(name).is_some_and(|value| value == "false") {
            fields.push((name, CqlValue::Boolean(false)));
        }
    }
    fields
}
