//! Statements on materialized views.

use super::{ClusteringOrder, Ident, PrimaryKeyDef, Property, QualifiedName, Relation, Selection, Span};

/// `CREATE MATERIALIZED VIEW name AS SELECT … FROM base WHERE … PRIMARY KEY (…) WITH …`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    pub if_not_exists: bool,
    pub name: QualifiedName,
    pub selection: Selection,
    pub base: QualifiedName,
    /// Empty without WHERE.
    pub relations: Vec<Relation>,
    /// The statement has bind markers, which the planner refuses.
    pub has_markers: bool,
    pub primary_key: PrimaryKeyDef,
    pub properties: Vec<Property>,
    pub clustering_order: Vec<ClusteringOrder>,
    pub compact_storage: Option<Span>,
}

/// `ALTER MATERIALIZED VIEW name WITH …`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    pub if_exists: bool,
    pub name: QualifiedName,
    /// At least one.
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropView {
    pub if_exists: bool,
    pub name: QualifiedName,
}

/// Renames a column in the relations of a WHERE.
pub fn rename_column(relations: &mut [Relation], from: &str, to: &str) {
    use super::RelationTarget as Target;
    let rename = |column: &mut Ident| {
        if column.text == from {
            column.text = to.to_string();
        }
    };
    for relation in relations {
        match relation {
            Relation::Compare { target, .. } | Relation::In { target, .. } => match target {
                Target::Column(column) | Target::Element { column, .. } | Target::Field { column, .. } => {
                    rename(column);
                }
                Target::Token { columns, .. } | Target::Tuple { columns, .. } => {
                    columns.iter_mut().for_each(rename);
                }
            },
            Relation::IsNotNull { column, .. } => rename(column),
            Relation::IndexExpression { .. } => {}
        }
    }
}
