//! DESCRIBE, answered by the server: schema objects, and the CQL statements that create them.
//!
//! Columns, order and error messages are those of Cassandra 4.1 (source:
//! `cql3/statements/DescribeStatement.java`). cqlsh prints the last column unchanged. The rows of a result
//! are returned in one page, whatever page size the client requests.

mod elements;
#[cfg(test)]
mod tests;

use catalog::{Catalog, Internals, Keyspace, Table, is_system_keyspace};
use elements::Element;
use model::CqlType;
use model::types::CqlValue;
use protocol::CqlError;
use syntax::ast::{Describe, DescribeTarget, QualifiedName};

use crate::RowSet;
use crate::system::NodeInfo;

/// Answers a DESCRIBE statement of a connection that uses the keyspace `in_use`.
///
/// # Errors
/// The object does not exist, or cannot be described.
pub fn describe(
    statement: &Describe,
    in_use: Option<&str>,
    catalog: &Catalog,
    info: &NodeInfo,
) -> Result<RowSet, CqlError> {
    let internals = if statement.with_internals { Internals::Shown } else { Internals::Hidden };
    let scope = Scope { catalog, in_use };
    let statements = |elements: Vec<Element<'_>>| Ok(elements::statements(&elements, internals));
    match &statement.target {
        DescribeTarget::Cluster => Ok(cluster(in_use, info)),
        DescribeTarget::Keyspaces => {
            Ok(elements::names(&catalog.keyspaces().map(Element::Keyspace).collect::<Vec<_>>()))
        }
        DescribeTarget::Tables => scope.list(|keyspace| {
            elements::tables_in_order(catalog, keyspace).into_iter().map(Element::Table).collect()
        }),
        DescribeTarget::Types => {
            scope.list(|keyspace| catalog.types(keyspace).map(|user| Element::Type(user)).collect())
        }
        DescribeTarget::Functions => scope.list(|keyspace| {
            catalog.functions(keyspace).map(|function| Element::Function(function)).collect()
        }),
        DescribeTarget::Aggregates => scope.list(|keyspace| {
            catalog.aggregates(keyspace).map(|aggregate| Element::Aggregate(aggregate)).collect()
        }),
        DescribeTarget::Schema { full } => {
            let keyspaces =
                catalog.keyspaces().filter(|keyspace| *full || !is_system_keyspace(&keyspace.name));
            statements(keyspaces.flat_map(|keyspace| elements::of_keyspace(catalog, keyspace)).collect())
        }
        DescribeTarget::Keyspace { name, only } => {
            let keyspace = scope.keyspace(name.as_ref().map(|name| name.as_str()))?;
            statements(match only {
                true => vec![Element::Keyspace(keyspace)],
                false => elements::of_keyspace(catalog, keyspace),
            })
        }
        DescribeTarget::Table(name) => statements(elements::of_table(catalog, scope.table(name)?)),
        DescribeTarget::Type(name) => {
            let keyspace = scope.keyspace_of(name)?;
            match catalog.user_type(&keyspace.name, name.name.as_str()) {
                Some(user) => statements(vec![Element::Type(user)]),
                None => scope.not_found("User defined type", name),
            }
        }
        DescribeTarget::Index(name) => {
            let keyspace = scope.keyspace_of(name)?;
            let (index, keyspace) = (name.name.as_str(), keyspace.name.as_str());
            if let Some(found) = scope.index(keyspace, index) {
                return statements(vec![found]);
            }
            invalid(format!("Table for existing index '{index}' not found in '{keyspace}'"))
        }
        DescribeTarget::MaterializedView(name) => {
            let keyspace = scope.keyspace_of(name)?;
            match catalog.table(&keyspace.name, name.name.as_str()) {
                Some(view) if view.schema.view.is_some() => statements(vec![Element::View(view)]),
                _ => scope.not_found("Materialized view", name),
            }
        }
        DescribeTarget::Function(name) => {
            let keyspace = scope.keyspace_of(name)?;
            let known = catalog.functions(&keyspace.name).filter(|known| known.name == name.name.text);
            match known.map(|function| Element::Function(function)).collect::<Vec<_>>() {
                none if none.is_empty() => scope.not_found("User defined function", name),
                found => statements(found),
            }
        }
        DescribeTarget::Aggregate(name) => {
            let keyspace = scope.keyspace_of(name)?;
            let known = catalog.aggregates(&keyspace.name).filter(|known| known.name == name.name.text);
            match known.map(|aggregate| Element::Aggregate(aggregate)).collect::<Vec<_>>() {
                none if none.is_empty() => scope.not_found("User defined aggregate", name),
                found => statements(found),
            }
        }
        DescribeTarget::Any(name) => statements(scope.any(name)?),
    }
}

fn invalid<T>(text: String) -> Result<T, CqlError> {
    Err(CqlError::Invalid(text))
}

/// The catalog and keyspace in which names are resolved.
struct Scope<'a> {
    catalog: &'a Catalog,
    in_use: Option<&'a str>,
}

impl<'a> Scope<'a> {
    fn existing(&self, name: &str) -> Result<&'a Keyspace, CqlError> {
        match self.catalog.keyspace(name) {
            Some(keyspace) => Ok(keyspace),
            None => invalid(format!("'{name}' not found in keyspaces")),
        }
    }

    fn keyspace(&self, name: Option<&str>) -> Result<&'a Keyspace, CqlError> {
        match name.or(self.in_use) {
            Some(name) => self.existing(name),
            None => invalid("No keyspace specified and no current keyspace".to_string()),
        }
    }

    fn keyspace_of(&self, name: &QualifiedName) -> Result<&'a Keyspace, CqlError> {
        self.keyspace(name.keyspace.as_ref().map(|keyspace| keyspace.as_str()))
    }

    fn table(&self, name: &QualifiedName) -> Result<&'a Table, CqlError> {
        let keyspace = self.keyspace_of(name)?;
        match self.catalog.table(&keyspace.name, name.name.as_str()) {
            Some(table) if table.schema.view.is_none() => Ok(table),
            _ => {
                let (table, keyspace) = (name.name.as_str(), keyspace.name.as_str());
                invalid(format!("Table '{table}' not found in keyspace '{keyspace}'"))
            }
        }
    }

    fn index(&self, keyspace: &str, name: &str) -> Option<Element<'a>> {
        let table = self.catalog.indexed_table(keyspace, name)?;
        let index = table.schema.indexes.iter().find(|index| index.name == name)?;
        Some(Element::Index(table, index))
    }

    fn not_found<T>(&self, what: &str, name: &QualifiedName) -> Result<T, CqlError> {
        let keyspace = self.keyspace_of(name)?;
        invalid(format!("{what} '{}' not found in '{}'", name.name.as_str(), keyspace.name))
    }

    /// Lists elements of the keyspace in use or, without one, of all keyspaces.
    fn list(&self, elements: impl Fn(&'a str) -> Vec<Element<'a>>) -> Result<RowSet, CqlError> {
        let keyspaces = match self.in_use {
            Some(name) => vec![self.existing(name)?],
            None => self.catalog.keyspaces().collect(),
        };
        let all: Vec<_> = keyspaces.into_iter().flat_map(|keyspace| elements(&keyspace.name)).collect();
        Ok(elements::names(&all))
    }

    /// Resolves a name as a keyspace, a table or view, or an index, in this order.
    fn any(&self, name: &QualifiedName) -> Result<Vec<Element<'a>>, CqlError> {
        let text = name.name.as_str();
        if name.keyspace.is_none()
            && let Some(keyspace) = self.catalog.keyspace(text)
        {
            return Ok(elements::of_keyspace(self.catalog, keyspace));
        }
        let keyspace =
            name.keyspace.as_ref().map(|keyspace| keyspace.as_str()).or(self.in_use).unwrap_or(text);
        let keyspace = self.existing(keyspace)?;
        match self.catalog.table(&keyspace.name, text) {
            Some(view) if view.schema.view.is_some() => Ok(vec![Element::View(view)]),
            Some(table) => Ok(elements::of_table(self.catalog, table)),
            None => match self.index(&keyspace.name, text) {
                Some(index) => Ok(vec![index]),
                None => invalid(format!("'{text}' not found in keyspace '{}'", keyspace.name)),
            },
        }
    }
}

/// Answers DESCRIBE CLUSTER. Java classes are named without their package.
fn cluster(in_use: Option<&str>, info: &NodeInfo) -> RowSet {
    let short = |class: &str| CqlValue::Text(class.rsplit('.').next().unwrap_or(class).to_string());
    let mut columns =
        vec![("cluster", CqlType::Text), ("partitioner", CqlType::Text), ("snitch", CqlType::Text)];
    let mut row =
        vec![CqlValue::Text(info.cluster_name.clone()), short(&info.partitioner), short(&info.snitch)];
    if in_use.is_some_and(|keyspace| !is_system_keyspace(keyspace)) {
        let list = CqlType::list(CqlType::Text);
        columns.push(("range_ownership", CqlType::map(CqlType::Text, list)));
        let owner = CqlValue::Text(format!("{}:{}", info.broadcast_address, info.broadcast_port));
        let owned = |token: &i64| (CqlValue::Text(token.to_string()), CqlValue::List(vec![owner.clone()]));
        row.push(CqlValue::Map(info.tokens.iter().map(owned).collect()));
    }
    let mut set = RowSet::new("system", "describe", &columns);
    set.push(row);
    set
}
