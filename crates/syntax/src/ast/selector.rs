//! Selectors: the terms between SELECT and FROM and after GROUP BY. They may contain columns.

use super::{ArithmeticOp, Ident, Literal, Marker, QualifiedName, Span, Term, TypeName};

/// A selector. [`Selector::column_name`] returns its name in the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    Column(Ident),
    Literal(Literal),
    Null(Span),
    Marker(Marker),
    /// `COUNT(*)`, or `COUNT(1)` with any constant other than null.
    CountRows(Span),
    /// `WRITETIME(…)`, `MAXWRITETIME(…)` or `TTL(…)` of a column, or of an element or field of a column.
    CellTime {
        what: CellTime,
        of: Box<Selector>,
        span: Span,
    },
    Call {
        name: QualifiedName,
        args: Vec<Selector>,
        span: Span,
    },
    /// `CAST(… AS type)`: converts the value.
    Cast {
        of: Box<Selector>,
        ty: TypeName,
        span: Span,
    },
    /// `(type) …`: states the type without converting the value.
    Hint {
        ty: TypeName,
        of: Box<Selector>,
        span: Span,
    },
    /// `of.field`
    Field {
        of: Box<Selector>,
        field: Ident,
    },
    /// `of[key]`
    Element {
        of: Box<Selector>,
        key: Term,
        span: Span,
    },
    /// `of[from..to]`. Both bounds are inclusive, and at least one is given.
    Slice {
        of: Box<Selector>,
        from: Option<Term>,
        to: Option<Term>,
        span: Span,
    },
    /// `(a, b)`, at least one element. With one element it may also be a pair of parentheses.
    Tuple {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `[a, b]`
    List {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `{a, b}`. Without elements it may also be an empty map.
    Set {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `{a: b}`: a map, or a UDT if all keys are [`Selector::Column`]. The parser cannot tell them apart
    /// without types.
    MapOrUdt {
        entries: Vec<(Selector, Selector)>,
        span: Span,
    },
    Arithmetic {
        op: ArithmeticOp,
        left: Box<Selector>,
        right: Box<Selector>,
    },
    /// `-of`, unless `of` is an unsigned number: a number with a sign is one literal.
    Negate {
        of: Box<Selector>,
        span: Span,
    },
}

impl Selector {
    pub fn span(&self) -> Span {
        match self {
            Self::Column(ident) => ident.span,
            Self::Literal(literal) => literal.span,
            Self::Marker(marker) => marker.span,
            Self::Null(span)
            | Self::CountRows(span)
            | Self::CellTime { span, .. }
            | Self::Call { span, .. }
            | Self::Cast { span, .. }
            | Self::Hint { span, .. }
            | Self::Element { span, .. }
            | Self::Slice { span, .. }
            | Self::Tuple { span, .. }
            | Self::List { span, .. }
            | Self::Set { span, .. }
            | Self::MapOrUdt { span, .. }
            | Self::Negate { span, .. } => *span,
            Self::Field { of, field } => of.span().to(field.span),
            Self::Arithmetic { left, right, .. } => left.span().to(right.span()),
        }
    }
}

/// The property of a cell that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellTime {
    WriteTime,
    MaxWriteTime,
    Ttl,
}
