//! Prints statements on materialized views as CQL text.

use std::fmt::{self, Display, Formatter};

use super::ast::{AlterView, CreateView, DropView, Relation, Selection, TableProperties};
use super::print::Separated;
use super::print_schema::{if_exists, if_not_exists};

/// Prints relations as the text after WHERE.
pub fn relations_text(relations: &[Relation]) -> String {
    Separated(relations, " AND ").to_string()
}

impl Display for CreateView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE MATERIALIZED VIEW {}{} AS SELECT ", if_not_exists(self.if_not_exists), self.name,)?;
        match &self.selection {
            Selection::All => f.write_str("*")?,
            Selection::Items(items) => Separated(items, ", ").fmt(f)?,
        }
        write!(f, " FROM {}", self.base)?;
        if !self.relations.is_empty() {
            write!(f, " WHERE {}", Separated(&self.relations, " AND "))?;
        }
        let with = TableProperties {
            properties: self.properties.clone(),
            clustering_order: self.clustering_order.clone(),
            compact_storage: self.compact_storage,
        };
        write!(f, " {}{with}", self.primary_key)
    }
}

impl Display for AlterView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let properties = Separated(&self.properties, " AND ");
        write!(f, "ALTER MATERIALIZED VIEW {}{} WITH {properties}", if_exists(self.if_exists), self.name)
    }
}

impl Display for DropView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP MATERIALIZED VIEW {}{}", if_exists(self.if_exists), self.name)
    }
}
