//! The syntax tree: what a statement says, without knowing any table.
//!
//! 1. Names are folded to lower case unless they were quoted, and are as the catalog has them.
//! 2. Literals keep their text and their kind; what value that is depends on a type which the planner knows.
//! 3. Bind markers are numbered from 0 in the order of the text.
//! 4. What an error may speak of has a [`Span`]. Spans never count when trees are compared: two trees are equal
//!    if they say the same.
//!
//! Not here: how text becomes a tree (`parser`), and how a tree becomes text (`print`).

mod access;
mod ddl;
mod dml;
mod name;
mod selector;
mod term;
mod types;

pub use access::{AccessStatement, LevelProperty, Password, RoleOptions};
pub use ddl::{
    AlterKeyspace, AlterTable, AlterTableOp, AlterType, AlterTypeOp, ClusteringOrder, ColumnDef,
    CreateKeyspace, CreateTable, CreateType, Describe, DescribeTarget, DropKeyspace, DropTable, DropType,
    PrimaryKeyDef, Property, PropertyValue, TableProperties,
};
pub use dml::{
    Assignment, AssignmentOp, Batch, BatchKind, CompareOp, Condition, ConditionTest, Conditions, Delete,
    DeleteTarget, InValues, Insert, InsertValues, Modification, OrderBy, Ordering, Relation, RelationTarget,
    Select, SelectItem, Selection, Truncate, Update, Using,
};
pub use name::{Ident, QualifiedName, Span};
pub use selector::{CellTime, Selector};
pub use term::{ArithmeticOp, Literal, LiteralKind, Marker, Term};
pub use types::{NativeType, TypeName, TypeNode};

/// A statement and the markers in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// In the order of the text: `markers[i].index == i`. A name that occurs twice is here twice.
    pub markers: Vec<Marker>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Use(Ident),
    Select(Box<Select>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Batch(Box<Batch>),
    Truncate(Truncate),
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace(DropKeyspace),
    CreateTable(Box<CreateTable>),
    AlterTable(Box<AlterTable>),
    DropTable(DropTable),
    CreateType(CreateType),
    AlterType(AlterType),
    DropType(DropType),
    Describe(Describe),
    Access(Box<AccessStatement>),
    /// Known to be CQL by its first words, the rest unread.
    Unsupported(Unsupported),
}

/// A statement that is CQL and that nothing here carries out.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// In capitals, as in `CREATE INDEX`.
    pub what: &'static str,
    /// A DROP that may find nothing, as it does.
    pub if_exists: bool,
    pub span: Span,
}
