//! Statements on the schema: keyspaces, tables, types, DESCRIBE.

use super::{Ident, Literal, Ordering, QualifiedName, Span, Term, TypeName};

/// `name = value` after WITH. Each name occurs once in a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    pub name: Ident,
    pub value: PropertyValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    Literal(Literal),
    /// An unquoted word, as in `caching = all`.
    Word(Ident),
    /// May be empty; no key occurs twice (keys are compared as text).
    Map {
        entries: Vec<(Literal, Literal)>,
        span: Span,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    pub if_not_exists: bool,
    pub name: Ident,
    /// At least one.
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    pub if_exists: bool,
    pub name: Ident,
    /// At least one.
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropKeyspace {
    pub if_exists: bool,
    pub name: Ident,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    pub if_not_exists: bool,
    pub name: QualifiedName,
    /// In the order of the text; a name may occur twice.
    pub columns: Vec<ColumnDef>,
    /// A valid statement has exactly one, in a column definition or as a separate clause.
    pub primary_keys: Vec<PrimaryKeyDef>,
    pub with: TableProperties,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    pub name: Ident,
    pub ty: TypeName,
    pub is_static: bool,
    pub mask: Option<Mask>,
}

/// `MASKED WITH function(arguments)`. `DEFAULT` is `mask_default()`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    pub function: QualifiedName,
    /// Without bind markers.
    pub arguments: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PrimaryKeyDef {
    /// At least one.
    pub partition: Vec<Ident>,
    pub clustering: Vec<Ident>,
    pub span: Span,
}

/// The properties after WITH in CREATE TABLE. `ID = uuid` is one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableProperties {
    pub properties: Vec<Property>,
    pub clustering_order: Vec<ClusteringOrder>,
    pub compact_storage: Option<Span>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClusteringOrder {
    pub column: Ident,
    pub ordering: Ordering,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    pub if_exists: bool,
    pub name: QualifiedName,
    pub op: AlterTableOp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableOp {
    Add {
        if_not_exists: bool,
        /// At least one.
        columns: Vec<ColumnDef>,
    },
    Drop {
        if_exists: bool,
        /// At least one.
        columns: Vec<Ident>,
        /// `USING TIMESTAMP`, an integer in microseconds: cells written up to this time are dropped.
        timestamp: Option<Literal>,
    },
    Rename {
        if_exists: bool,
        /// From and to, at least one.
        columns: Vec<(Ident, Ident)>,
    },
    /// `ALTER column TYPE type`
    AlterType {
        column: Ident,
        ty: TypeName,
    },
    DropCompactStorage,
    /// `ALTER column MASKED WITH …`; without a mask `ALTER column DROP MASKED`.
    Mask {
        if_exists: bool,
        column: Ident,
        mask: Option<Mask>,
    },
    /// `WITH …`; at least one.
    With(Vec<Property>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropTable {
    pub if_exists: bool,
    pub name: QualifiedName,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    pub if_not_exists: bool,
    pub name: QualifiedName,
    /// At least one; a name may occur twice.
    pub fields: Vec<(Ident, TypeName)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    pub if_exists: bool,
    pub name: QualifiedName,
    pub op: AlterTypeOp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterTypeOp {
    Add {
        if_not_exists: bool,
        field: Ident,
        ty: TypeName,
    },
    /// `ALTER field TYPE type`
    AlterField {
        field: Ident,
        ty: TypeName,
    },
    Rename {
        if_exists: bool,
        /// From and to, at least one.
        fields: Vec<(Ident, Ident)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropType {
    pub if_exists: bool,
    pub name: QualifiedName,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    pub target: DescribeTarget,
    pub with_internals: bool,
    /// `WITH INTERNALS AND PASSWORDS`
    pub with_passwords: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DescribeTarget {
    Cluster,
    /// `full`: includes system keyspaces.
    Schema {
        full: bool,
    },
    Keyspaces,
    /// Without a name: the keyspace in use. `only`: without the tables, types and other objects in it.
    Keyspace {
        name: Option<Ident>,
        only: bool,
    },
    Tables,
    Table(QualifiedName),
    Index(QualifiedName),
    MaterializedView(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(QualifiedName),
    Aggregates,
    Aggregate(QualifiedName),
    /// `DESCRIBE name`: a keyspace, table, index or view, searched in this order.
    Any(QualifiedName),
}
