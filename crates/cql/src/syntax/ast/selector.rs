//! What stands between SELECT and FROM, and after GROUP BY: terms with columns in them.

use super::{ArithmeticOp, Ident, Literal, Marker, QualifiedName, Span, Term, TypeName};

/// `Selector::column_name` says how the result calls it.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    Column(Ident),
    Literal(Literal),
    Null(Span),
    Marker(Marker),
    /// `COUNT(*)`, and `COUNT(1)` with any constant that is not null.
    CountRows(Span),
    /// `WRITETIME(…)` and its like; of a column, or of elements and fields in it.
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
    /// `CAST(… AS type)`: converts.
    Cast {
        of: Box<Selector>,
        ty: TypeName,
        span: Span,
    },
    /// `(type) …`: says of which type it is, converts nothing.
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
    /// `of[from..to]`, both ends included, at least one given.
    Slice {
        of: Box<Selector>,
        from: Option<Term>,
        to: Option<Term>,
        span: Span,
    },
    /// `(a, b)`, at least one element; with one it may also be mere parentheses.
    Tuple {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `[a, b]`
    List {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `{a, b}`; without elements it may also be an empty map.
    Set {
        elements: Vec<Selector>,
        span: Span,
    },
    /// `{a: b}`: a map, or a UDT if all keys are [`Selector::Column`]; only types can tell.
    MapOrUdt {
        entries: Vec<(Selector, Selector)>,
        span: Span,
    },
    Arithmetic {
        op: ArithmeticOp,
        left: Box<Selector>,
        right: Box<Selector>,
    },
    /// `-of`, where that is no number without a sign: that is a literal with one.
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

/// Which of a cell's times is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellTime {
    WriteTime,
    MaxWriteTime,
    Ttl,
}
