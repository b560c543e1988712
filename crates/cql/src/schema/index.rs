//! CREATE INDEX and DROP INDEX.
//!
//! Source of the rules, their order and the error messages: Cassandra 5.0
//! `cql3/statements/schema/CreateIndexStatement.java`, `IndexTarget.java`, `IndexAttributes.java`,
//! `schema/IndexMetadata.java`. Local indexes `((partition key), column)` are ScyllaDB's.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::indexes::{CLASS_NAME, TARGET, is_storage_attached, local_target_text, part_word, target_text};
use catalog::{Catalog, CatalogError, Changed, OptionValue, Table, TableSettings, index_from_options};
use model::{CqlType, IndexDefinition, IndexKind, IndexPart, TableSchema};
use protocol::CqlError;
use syntax::ast::{CreateIndex, DropIndex, IndexTarget, QualifiedName, TargetPart};
use uuid::Uuid;

use super::names::{keyspace_of, writable_keyspace};
use super::{SchemaContext, SchemaPlan, properties, refuse, storage_attached, unchanged};
use crate::restriction::ColumnRef;

/// Largest length of the name of a column with a custom index. Cassandra's `SchemaConstants.NAME_LENGTH`.
const NAME_CHARS_MAX: usize = 48;

/// A CREATE INDEX whose text has been checked.
struct Given {
    keyspace: String,
    table: String,
    if_not_exists: bool,
    name: Option<String>,
    /// The class of a custom index; `None` for an index of Cassandra's first kind, and for a local index.
    class: Option<String>,
    options: BTreeMap<String, String>,
    targets: Vec<IndexTarget>,
    /// The class in the statement is [`VECTOR_INDEX`].
    is_vector_index: bool,
    id: Uuid,
}

/// ScyllaDB's name of the class of vector indexes. Such an index is a storage-attached index.
const VECTOR_INDEX: &str = "vector_index";
/// Options of ScyllaDB's vector indexes for the graph, which is not built.
const GRAPH_OPTIONS: [&str; 3] = ["maximum_node_connections", "construction_beam_width", "search_beam_width"];
const EXACT: &str = "searches of nearest vectors are exact, without a graph";

pub(super) fn create(create: &CreateIndex, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let named = |name: &QualifiedName| name.keyspace.as_ref().map(|keyspace| keyspace.text.clone());
    let of_index = create.name.as_ref().and_then(named);
    let keyspace = match (named(&create.table), &of_index) {
        (Some(keyspace), _) => keyspace,
        (None, Some(keyspace)) => keyspace.clone(),
        (None, None) => keyspace_of(&create.table, context.keyspace)?.to_string(),
    };
    if of_index.is_some_and(|of_index| of_index != keyspace) {
        return refuse!("Keyspace name '{keyspace}' doesn't match index name '{}'", create.table);
    }
    writable_keyspace(&keyspace)?;
    let is_legacy = |class: &String| class.eq_ignore_ascii_case("legacy_local_table");
    let class = match &create.class {
        Some(class) if !create.is_custom && is_legacy(class) => None,
        None if create.is_custom => Some("legacy_local_table".to_string()),
        class => class.clone(),
    };
    let mut options = options(create)?;
    check_options(class.as_deref(), &options)?;
    let is_vector_index = class.as_deref() == Some(VECTOR_INDEX);
    let mut without_effect: Vec<&str> = vec![];
    if is_vector_index {
        without_effect.extend(GRAPH_OPTIONS.iter().filter(|name| options.remove(**name).is_some()));
    }
    if options.contains_key("optimize_for") {
        without_effect.push("optimize_for");
    }
    let warning = match &without_effect[..] {
        [] => None,
        [one] => Some(format!("The option {one} has no effect: {EXACT}")),
        several => Some(format!("The options {} have no effect: {EXACT}", several.join(", "))),
    };
    let class = if is_vector_index { Some("StorageAttachedIndex".to_string()) } else { class };
    let given = Given {
        keyspace,
        table: create.table.name.text.clone(),
        if_not_exists: create.if_not_exists,
        name: create.name.as_ref().map(|name| name.name.text.clone()),
        class,
        options,
        targets: create.targets.clone(),
        is_vector_index,
        id: context.new_table_id,
    };
    Ok(SchemaPlan::new(move |catalog| given.change(catalog)).with_warnings(warning))
}

pub(super) fn drop(drop: &DropIndex, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&drop.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let (name, if_exists) = (drop.name.name.text.clone(), drop.if_exists);
    Ok(SchemaPlan::new(move |catalog| match catalog.indexed_table(&keyspace, &name) {
        None if if_exists => unchanged(catalog),
        // The quote at the end is Cassandra's.
        None => refuse!("Index '{keyspace}.{name}' doesn't exist'"),
        Some(table) => {
            let builder = table.schema.to_builder().remove_index(&name);
            let schema = builder.build_with_ids_from(table.schema.column_id_bound());
            let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
            catalog.alter_table(schema, TableSettings::clone(&table.settings))
        }
    }))
}

/// Returns the map of `WITH OPTIONS`.
fn options(create: &CreateIndex) -> Result<BTreeMap<String, String>, CqlError> {
    let mut options = BTreeMap::new();
    for property in &create.properties {
        match properties::of(property) {
            (name, OptionValue::Map(entries)) if name == "options" => options = entries,
            (name, value) if name == "options" => {
                properties::map(&name, &value)?;
            }
            (name, _) => return properties::unknown(&name),
        }
    }
    Ok(options)
}

fn check_options(class: Option<&str>, options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    if class.is_none() && !options.is_empty() {
        return refuse!("Cannot specify options for a non-CUSTOM index");
    }
    for option in [CLASS_NAME, TARGET] {
        if options.contains_key(option) {
            return refuse!("Cannot specify {option} as a CUSTOM option");
        }
    }
    if class.is_some_and(|class| class.rsplit('.').next() == Some("SASIIndex")) {
        return refuse!("SASI indexes are disabled. Enable in cassandra.yaml to use.");
    }
    Ok(())
}

impl Given {
    fn change(self, catalog: &Catalog) -> Changed {
        let Self { keyspace, table: name, if_not_exists, .. } = &self;
        if catalog.keyspace(keyspace).is_none() {
            return refuse!("Keyspace '{keyspace}' doesn't exist");
        }
        let Some(table) = catalog.table(keyspace, name) else {
            return refuse!("Table '{name}' doesn't exist");
        };
        if let Some(index) = &self.name
            && catalog.indexed_table(keyspace, index).is_some()
        {
            if *if_not_exists {
                return unchanged(catalog);
            }
            return refuse!("Index '{index}' already exists");
        }
        if table.schema.has_counters() {
            return refuse!("Secondary indexes on counter tables aren't supported");
        }
        if table.schema.view.is_some() {
            return refuse!("Secondary indexes on materialized views aren't supported");
        }
        let index = self.definition(catalog, table)?;
        let indexes = &table.schema.indexes;
        let is_same = |known: &&Arc<IndexDefinition>| {
            is_custom(known.kind) == is_custom(index.kind) && known.options == index.options
        };
        if let Some(same) = indexes.iter().find(is_same) {
            if *if_not_exists {
                return unchanged(catalog);
            }
            return refuse!("Index {} is a duplicate of existing index {}", index.name, same.name);
        }
        if index.kind == IndexKind::StorageAttached {
            storage_attached::check(&table.schema, &index)?;
        }
        let builder = table.schema.to_builder().index(Arc::new(index));
        let schema = builder.build_with_ids_from(table.schema.column_id_bound());
        let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
        catalog.alter_table(schema, TableSettings::clone(&table.settings))
    }

    /// Checks the targets and the name, and returns the index.
    fn definition(&self, catalog: &Catalog, table: &Table) -> Result<IndexDefinition, CatalogError> {
        let schema = &table.schema;
        let mut targets: Vec<(IndexPart, ColumnRef)> = vec![];
        let mut is_local = false;
        for (number, target) in self.targets.iter().enumerate() {
            match target {
                IndexTarget::PartitionKey { columns, .. } => {
                    let names: Vec<&str> = columns.iter().map(|column| column.as_str()).collect();
                    let is_first_of_two = number == 0 && self.targets.len() == 2 && self.class.is_none();
                    check_local(schema, &names, is_first_of_two)?;
                    is_local = true;
                }
                IndexTarget::Column { part, column } => {
                    let column = ColumnRef::named(schema, column.as_str())
                        .map_err(|error| CatalogError::Invalid(error.to_string()))?;
                    targets.push((part_of(*part, column.ty(schema)), column));
                }
            }
        }
        let is_custom = self.class.is_some();
        match (&targets[..], is_custom) {
            ([], false) => {
                return refuse!("Only CUSTOM indexes can be created without specifying a target column");
            }
            ([_, _, ..], false) => return refuse!("Only CUSTOM indexes support multiple columns"),
            ([..], _) => {}
        }
        for (number, (_, column)) in targets.iter().enumerate() {
            if targets[..number].iter().any(|(_, other)| other == column) {
                return refuse!("Duplicate column '{}' in index target list", column.name(schema));
            }
        }
        for (part, column) in &targets {
            let is_of_floats = matches!(
                column.ty(schema).without_reversed(),
                CqlType::Vector { element, .. } if **element == CqlType::Float
            );
            if self.is_vector_index && !is_of_floats {
                return refuse!("Vector indexes are only supported on columns of vectors of floats");
            }
            check_target(schema, *part, *column, is_custom)?;
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => default_name(catalog, schema, &targets),
        };
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || !is_word(&name) {
            return Err(CatalogError::Configuration(format!("Illegal index name {name}")));
        }
        let mut options = self.options.clone();
        let texts: Vec<String> =
            targets.iter().map(|(part, column)| target_text(*part, column.name(schema))).collect();
        let mut target = texts.join(", ");
        if is_local {
            let keys: Vec<&str> = schema.partition_key.iter().map(|key| key.name.as_str()).collect();
            if targets[0].0 != IndexPart::Value {
                return refuse!("Local secondary index on collection column {} is not supported", texts[0]);
            }
            target = local_target_text(&keys, targets[0].1.name(schema));
        }
        options.insert(TARGET.to_string(), target.clone());
        let Some(class) = &self.class else {
            return index_from_options(self.id, &name, "COMPOSITES", options).map_err(CatalogError::Invalid);
        };
        if !is_storage_attached(class) {
            let text = format!("Unable to find custom indexer class '{class}'");
            return Err(CatalogError::Configuration(text));
        }
        options.insert(CLASS_NAME.to_string(), class.clone());
        storage_attached::check_options(&self.options)?;
        match targets.len() {
            0 => refuse!("Failed to retrieve target column for: {target}"),
            1 => index_from_options(self.id, &name, "CUSTOM", options).map_err(CatalogError::Invalid),
            _ => {
                refuse!("A storage-attached index cannot be created over multiple columns: {target}")
            }
        }
    }
}

fn is_custom(kind: IndexKind) -> bool {
    kind == IndexKind::StorageAttached
}

/// Returns the indexed part. A collection without a word means its values.
fn part_of(part: TargetPart, ty: &CqlType) -> IndexPart {
    match part {
        TargetPart::Simple if ty.is_collection() => IndexPart::Values,
        TargetPart::Simple => IndexPart::Value,
        TargetPart::Values => IndexPart::Values,
        TargetPart::Keys => IndexPart::Keys,
        TargetPart::Entries => IndexPart::Entries,
        TargetPart::Full => IndexPart::Full,
    }
}

fn check_local(schema: &TableSchema, names: &[&str], is_first_of_two: bool) -> Result<(), CatalogError> {
    let keys: Vec<&str> = schema.partition_key.iter().map(|key| key.name.as_str()).collect();
    if !is_first_of_two {
        return refuse!(
            "A local index is written as (({}), column), without USING and with one column",
            keys.join(", ")
        );
    }
    if names != keys {
        return refuse!(
            "Local index definition must contain full partition key only: expected ({}), got ({})",
            keys.join(", "),
            names.join(", ")
        );
    }
    Ok(())
}

fn check_target(
    schema: &TableSchema,
    part: IndexPart,
    column: ColumnRef,
    is_custom: bool,
) -> Result<(), CatalogError> {
    let (name, ty) = (column.name(schema), column.ty(schema));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if is_custom && (name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_word)) {
        return refuse!(
            "Column '{name}' is longer than the permissible name length of {NAME_CHARS_MAX} characters or contains non-alphanumeric-underscore characters"
        );
    }
    if ty.references_duration() {
        return refuse!(
            "Secondary indexes are not supported on {}",
            match ty {
                CqlType::Tuple(_) => "tuples containing durations",
                CqlType::Udt { .. } => "UDTs containing durations",
                ty if ty.is_collection() => "collections containing durations",
                _ => "duration columns",
            }
        );
    }
    if schema.is_compact() {
        match column {
            ColumnRef::PartitionKey(_) | ColumnRef::Clustering(_) => {
                return refuse!(
                    "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables"
                );
            }
            ColumnRef::Static(id) | ColumnRef::Regular(id) => {
                if schema.compact_value().is_some_and(|value| value.id == id) {
                    return refuse!(
                        "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables"
                    );
                }
            }
        }
    }
    if matches!(column, ColumnRef::PartitionKey(_)) && schema.partition_key.len() == 1 {
        return refuse!("Cannot create secondary index on the only partition key column {name}");
    }
    let is_frozen = ty.is_collection() && !ty.is_multi_cell();
    let word = part_word(part);
    if is_frozen && part != IndexPart::Full {
        return refuse!(
            "Cannot create {word}() index on frozen column {name}. Frozen collections are immutable and must be fully indexed by using the 'full({name})' modifier"
        );
    }
    if !is_frozen && part == IndexPart::Full {
        return refuse!("full() indexes can only be created on frozen collections");
    }
    if !ty.is_collection() && part != IndexPart::Value {
        return refuse!(
            "Cannot create {word}() index on {name}. Non-collection columns only support simple indexes"
        );
    }
    let is_map = matches!(ty, CqlType::Map { multi_cell: true, .. });
    if !is_map && matches!(part, IndexPart::Keys | IndexPart::Entries) {
        return refuse!("Cannot create index on {word} of column {name} with non-map type");
    }
    if ty.is_multi_cell() && !ty.is_collection() {
        return refuse!("Cannot create index on non-frozen UDT column {name}");
    }
    if matches!(ty, CqlType::Vector { .. }) && !is_custom {
        return refuse!("An index on the vector column {name} has to be storage-attached: add USING 'sai'");
    }
    Ok(())
}

/// Returns `table_column_idx`, with a number if the name is taken. Only letters, digits and `_` are kept.
fn default_name(catalog: &Catalog, schema: &TableSchema, targets: &[(IndexPart, ColumnRef)]) -> String {
    let mut name = match targets {
        [(_, column)] => format!("{}_{}_idx", schema.name, column.name(schema)),
        _ => format!("{}_idx", schema.name),
    };
    name.retain(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_taken = |name: &str| catalog.indexed_table(&schema.keyspace, name).is_some();
    if !is_taken(&name) {
        return name;
    }
    let mut numbered = (1..).map(|number: u32| format!("{name}_{number}"));
    numbered.find(|name| !is_taken(name)).expect("some number is free")
}

/// Returns the names of the indexes of a column, joined for an error; `None` if the column has no index. A
/// local index also depends on the partition key.
pub(super) fn indexes_of(schema: &TableSchema, column: &str) -> Option<String> {
    let depends = |index: &&Arc<IndexDefinition>| {
        index.column == column
            || index.kind == IndexKind::Local && schema.partition_key.iter().any(|key| key.name == column)
    };
    let names: Vec<&str> = schema.indexes.iter().filter(depends).map(|index| index.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
