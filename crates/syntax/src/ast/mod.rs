//! The syntax tree of a statement. It does not depend on any schema.
//!
//! 1. Names are folded to lower case unless they were quoted, as in the catalog.
//! 2. Literals keep their text and their kind. The planner knows their type and computes their value.
//! 3. Bind markers are numbered from 0 in the order of the text.
//! 4. Nodes that errors can refer to have a [`Span`]. Spans are ignored when trees are compared: two trees
//!    are equal if they are the same statement.
//!
//! Parsing (text to tree) is in `parser`, and printing (tree to text) in `print`.

mod access;
mod ddl;
mod dml;
mod function;
mod index;
mod name;
mod selector;
mod term;
mod types;
mod view;

pub use access::{AccessStatement, LevelProperty, Password, ResourceName, RoleOptions};
pub use ddl::{
    AlterKeyspace, AlterTable, AlterTableOp, AlterType, AlterTypeOp, ClusteringOrder, ColumnDef,
    CreateKeyspace, CreateTable, CreateType, Describe, DescribeTarget, DropKeyspace, DropTable, DropType,
    Mask, PrimaryKeyDef, Property, PropertyValue, TableProperties,
};
pub use dml::{
    Assignment, AssignmentOp, Batch, BatchKind, CompareOp, Condition, ConditionTest, Conditions, Delete,
    DeleteTarget, InValues, Insert, InsertValues, Modification, OrderBy, Ordering, Relation, RelationTarget,
    Select, SelectItem, Selection, Truncate, Update, Using,
};
pub use function::{CreateAggregate, CreateFunction, DropFunction};
pub use index::{CreateIndex, DropIndex, IndexTarget, TargetPart};
pub use name::{Ident, QualifiedName, Span};
pub use selector::{CellTime, Selector};
pub use term::{ArithmeticOp, Literal, LiteralKind, Marker, Term};
pub use types::{NativeType, TypeName, TypeNode};
pub use view::{AlterView, CreateView, DropView, rename_column};

/// A statement and its markers.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// In the order of the text: `markers[i].index == i`. A name that occurs twice in the text has two
    /// entries.
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
    CreateIndex(Box<CreateIndex>),
    DropIndex(DropIndex),
    CreateView(Box<CreateView>),
    AlterView(AlterView),
    DropView(DropView),
    CreateFunction(Box<CreateFunction>),
    DropFunction(DropFunction),
    CreateAggregate(Box<CreateAggregate>),
    DropAggregate(DropFunction),
    Describe(Describe),
    Access(Box<AccessStatement>),
    /// A statement recognized as CQL by its first words and not parsed further.
    Unsupported(Unsupported),
}

/// A statement that is CQL and is not supported.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// Its first words in capitals, such as `CREATE TRIGGER`.
    pub what: &'static str,
    /// Whether it is a DROP with IF EXISTS. Such a statement succeeds, since the object cannot exist.
    pub if_exists: bool,
    pub span: Span,
}
