//! Schema objects that can be described: their names, and the CQL that creates them.

use catalog::{
    Catalog, Internals, Keyspace, Table, UserAggregate, UserFunction, describe_aggregate, describe_function,
    describe_index, describe_keyspace, describe_table_with, describe_type, describe_view, described_types,
};
use model::types::{CqlValue, UserType, push_identifier};
use model::{CqlType, IndexDefinition};

use crate::RowSet;

fn identifier(name: &str) -> String {
    let mut out = String::new();
    push_identifier(&mut out, name);
    out
}

#[derive(Clone, Copy)]
pub(super) enum Element<'a> {
    Keyspace(&'a Keyspace),
    Table(&'a Table),
    Type(&'a UserType),
    Index(&'a Table, &'a IndexDefinition),
    View(&'a Table),
    Function(&'a UserFunction),
    Aggregate(&'a UserAggregate),
}

impl<'a> Element<'a> {
    /// Returns keyspace, kind and name of the object.
    fn names(self) -> [CqlValue; 3] {
        if let Self::Function(UserFunction { keyspace, name, argument_types, .. })
        | Self::Aggregate(UserAggregate { keyspace, name, argument_types, .. }) = self
        {
            let kind = if matches!(self, Self::Function(_)) { "function" } else { "aggregate" };
            let name = format!("{}({})", identifier(name), described_types(argument_types));
            return [identifier(keyspace), kind.to_string(), name].map(CqlValue::Text);
        }
        let (keyspace, kind, name) = match self {
            Self::Keyspace(keyspace) => (&keyspace.name, "keyspace", &keyspace.name),
            Self::Table(table) => (&table.schema.keyspace, "table", &table.schema.name),
            Self::Type(user) => (&user.keyspace, "type", &user.name),
            Self::Index(table, index) => (&table.schema.keyspace, "index", &index.name),
            Self::View(view) => (&view.schema.keyspace, "materialized_view", &view.schema.name),
            Self::Function(_) | Self::Aggregate(_) => unreachable!("they were handled above"),
        };
        [identifier(keyspace), kind.to_string(), identifier(name)].map(CqlValue::Text)
    }

    fn statement(self, internals: Internals) -> String {
        match self {
            Self::Keyspace(keyspace) => describe_keyspace(keyspace),
            Self::Table(table) => describe_table_with(&table.schema, &table.settings, internals),
            Self::Type(user) => describe_type(user),
            Self::Index(table, index) => describe_index(&table.schema, index),
            Self::View(view) => describe_view(&view.schema, &view.settings, internals),
            Self::Function(function) => describe_function(function),
            Self::Aggregate(aggregate) => describe_aggregate(aggregate),
        }
    }
}

/// Returns the keyspace, its types, functions, aggregates, tables, indexes and views, in an order in which
/// they can be created.
pub(super) fn of_keyspace<'a>(catalog: &'a Catalog, keyspace: &'a Keyspace) -> Vec<Element<'a>> {
    let mut elements = vec![Element::Keyspace(keyspace)];
    elements.extend(types_in_order(catalog, &keyspace.name).into_iter().map(Element::Type));
    elements.extend(catalog.functions(&keyspace.name).map(|function| Element::Function(function)));
    elements.extend(catalog.aggregates(&keyspace.name).map(|aggregate| Element::Aggregate(aggregate)));
    let tables = tables_in_order(catalog, &keyspace.name).into_iter();
    elements.extend(tables.flat_map(|table| of_table(catalog, table)));
    elements
}

/// Sorts tables by name without regard to case, as Cassandra sorts; without views, and without change logs,
/// which CREATE TABLE of their base table creates.
pub(super) fn tables_in_order<'a>(catalog: &'a Catalog, keyspace: &str) -> Vec<&'a Table> {
    let tables = catalog
        .tables(keyspace)
        .filter(|table| table.schema.view.is_none() && catalog.base_of_change_log(&table.schema).is_none());
    let mut tables: Vec<&Table> = tables.map(|table| &**table).collect();
    tables.sort_by_cached_key(|table| table.schema.name.to_lowercase());
    tables
}

/// Returns the table, its indexes and its views, each sorted by name without regard to case.
pub(super) fn of_table<'a>(catalog: &'a Catalog, table: &'a Table) -> Vec<Element<'a>> {
    let mut indexes: Vec<_> = table.schema.indexes.iter().collect();
    indexes.sort_by_cached_key(|index| index.name.to_lowercase());
    let indexes = indexes.into_iter().map(|index| Element::Index(table, index));
    let mut views: Vec<_> = catalog.views_of(&table.schema).collect();
    views.sort_by_cached_key(|view| view.schema.name.to_lowercase());
    let views = views.into_iter().map(|view| Element::View(view));
    std::iter::once(Element::Table(table)).chain(indexes).chain(views).collect()
}

/// Sorts types by name, but each type after the types that it uses.
fn types_in_order<'a>(catalog: &'a Catalog, keyspace: &str) -> Vec<&'a UserType> {
    let mut waiting: Vec<&UserType> = catalog.types(keyspace).map(|user| &**user).collect();
    let mut ordered: Vec<&UserType> = vec![];
    while !waiting.is_empty() {
        let uses = |user: &UserType, other: &UserType| {
            let is_other = |ty: &CqlType| matches!(ty, CqlType::Udt { user, .. } if user.name == other.name);
            user.fields.iter().any(|field| field.field_type.any(&is_other))
        };
        let all = waiting.clone();
        let (later, now): (Vec<_>, Vec<_>) =
            all.iter().partition(|user| all.iter().any(|other| uses(user, other)));
        assert!(!now.is_empty(), "the catalog has no types in a circle");
        ordered.extend(now);
        waiting = later;
    }
    ordered
}

const NAMES: [(&str, CqlType); 3] =
    [("keyspace_name", CqlType::Text), ("type", CqlType::Text), ("name", CqlType::Text)];

pub(super) fn names(elements: &[Element<'_>]) -> RowSet {
    let mut set = RowSet::new("system", "describe", &NAMES);
    elements.iter().for_each(|element| set.push(element.names()));
    set
}

pub(super) fn statements(elements: &[Element<'_>], internals: Internals) -> RowSet {
    let [keyspace, kind, name] = NAMES;
    let mut set =
        RowSet::new("system", "describe", &[keyspace, kind, name, ("create_statement", CqlType::Text)]);
    for element in elements {
        let statement = CqlValue::Text(element.statement(internals));
        set.push(element.names().into_iter().chain([statement]));
    }
    set
}
