//! Statements on data: SELECT, INSERT, UPDATE, DELETE, BATCH, TRUNCATE.

use super::{Ident, Marker, QualifiedName, Selector, Span, Term};

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `SELECT JSON`
    pub json: bool,
    pub distinct: bool,
    pub selection: Selection,
    pub table: QualifiedName,
    /// Rows must satisfy all of them.
    pub relations: Vec<Relation>,
    pub group_by: Vec<Selector>,
    pub order_by: Vec<OrderBy>,
    /// An integer or a marker. The same holds for `limit`.
    pub per_partition_limit: Option<Term>,
    pub limit: Option<Term>,
    pub allow_filtering: bool,
    pub bypass_cache: bool,
    /// Only `timeout` and `service_level` are allowed.
    pub using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`
    All,
    /// At least one.
    Items(Vec<SelectItem>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    pub selector: Selector,
    pub alias: Option<Ident>,
}

impl SelectItem {
    /// The column's name in the result: the alias, or else [`Selector::column_name`].
    pub fn column_name(&self) -> String {
        self.alias.as_ref().map_or_else(|| self.selector.column_name(), |alias| alias.text.clone())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    pub column: Ident,
    /// `column ANN OF vector`: orders rows by similarity to the vector.
    pub ann_of: Option<Term>,
    pub ordering: Ordering,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    #[default]
    Ascending,
    Descending,
}

/// One predicate of WHERE.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// `CONTAINS`, `CONTAINS KEY` and `LIKE` occur only with [`RelationTarget::Column`]. With
    /// [`RelationTarget::Tuple`] the value is a [`Term::Tuple`] or a [`Term::Marker`].
    Compare { target: RelationTarget, op: CompareOp, value: Term, span: Span },
    /// On a column or a tuple. With a tuple, the values are either all tuples or all markers.
    In { target: RelationTarget, values: InValues, span: Span },
    /// `column IS NOT NULL`
    IsNotNull { column: Ident, span: Span },
    /// `expr(index, value)`
    IndexExpression { index: Ident, value: Term, span: Span },
}

impl Relation {
    pub fn span(&self) -> Span {
        match self {
            Self::Compare { span, .. }
            | Self::In { span, .. }
            | Self::IsNotNull { span, .. }
            | Self::IndexExpression { span, .. } => *span,
        }
    }
}

/// The left side of a relation or a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum RelationTarget {
    Column(Ident),
    /// `column[key]`
    Element {
        column: Ident,
        key: Box<Term>,
    },
    /// `column.field`; only in conditions.
    Field {
        column: Ident,
        field: Ident,
    },
    /// `token(a, b)`; only in WHERE.
    Token {
        columns: Vec<Ident>,
        span: Span,
    },
    /// `(a, b)`; only in WHERE.
    Tuple {
        columns: Vec<Ident>,
        span: Span,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    Eq,
    NotEq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    Contains,
    ContainsKey,
    Like,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `IN (a, b)`; may be empty.
    List(Vec<Term>),
    /// `IN ?`: one value, a list of the values to compare with.
    Marker(Marker),
}

/// `USING … AND …`. Timestamp and TTL are integers or markers; the timeout is a duration or a marker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    pub timeout: Option<Term>,
    /// `SERVICE LEVEL name`
    pub service_level: Option<Ident>,
}

/// A statement that can be part of a batch: INSERT, UPDATE or DELETE.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub table: QualifiedName,
    pub values: InsertValues,
    pub if_not_exists: bool,
    pub using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InsertValues {
    /// `(a, b) VALUES (1, 2)`: at least one of each. The planner checks that both lists have the same length.
    Columns { columns: Vec<Ident>, values: Vec<Term> },
    /// `JSON '…'`: a string or a marker. Columns missing in the JSON become null; with `DEFAULT UNSET` they
    /// are not changed.
    Json { value: Term, default_unset: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub table: QualifiedName,
    pub using: Using,
    /// At least one.
    pub assignments: Vec<Assignment>,
    pub relations: Vec<Relation>,
    pub conditions: Option<Conditions>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub column: Ident,
    pub op: AssignmentOp,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AssignmentOp {
    /// `c = v`
    Set(Term),
    /// `c = c + v`, `c += v`
    Add(Term),
    /// `c = v + c`
    Prepend(Term),
    /// `c = c - v`, `c -= v`
    Subtract(Term),
    /// `c[key] = v`
    SetElement { key: Term, value: Term },
    /// `c.field = v`
    SetField { field: Ident, value: Term },
}

/// The conditions after IF.
#[derive(Clone, Debug, PartialEq)]
pub enum Conditions {
    Exists,
    /// At least one; all of them must hold.
    All(Vec<Condition>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// A column, an element or a field.
    pub target: RelationTarget,
    pub test: ConditionTest,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTest {
    Compare(CompareOp, Term),
    In(InValues),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Empty: deletes whole rows, or the range or partition given by the relations.
    pub targets: Vec<DeleteTarget>,
    pub table: QualifiedName,
    /// Without a TTL.
    pub using: Using,
    pub relations: Vec<Relation>,
    pub conditions: Option<Conditions>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DeleteTarget {
    Column(Ident),
    /// `c[key]`
    Element {
        column: Ident,
        key: Term,
    },
    /// `c.field`
    Field {
        column: Ident,
        field: Ident,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    #[default]
    Logged,
    Unlogged,
    Counter,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub kind: BatchKind,
    pub using: Using,
    /// May be empty.
    pub modifications: Vec<Modification>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    pub table: QualifiedName,
    /// Only `timeout` is allowed.
    pub using: Using,
}
