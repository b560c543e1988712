//! Terms: values without columns, as they stand in VALUES, SET, WHERE, LIMIT.

use super::{Ident, QualifiedName, Span, TypeName};

#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    Literal(Literal),
    Null(Span),
    Marker(Marker),
    /// `[a, b]`: a list or a vector.
    List {
        elements: Vec<Term>,
        span: Span,
    },
    /// `{a, b}`; without elements it may also be an empty map.
    Set {
        elements: Vec<Term>,
        span: Span,
    },
    /// `{k: v}`, at least one entry.
    Map {
        entries: Vec<(Term, Term)>,
        span: Span,
    },
    /// `{field: v}`, at least one field; a field may be named twice.
    Udt {
        fields: Vec<(Ident, Term)>,
        span: Span,
    },
    /// `(a, b)`, at least one element; with one it may also be mere parentheses.
    Tuple {
        elements: Vec<Term>,
        span: Span,
    },
    Call {
        name: QualifiedName,
        args: Vec<Term>,
        span: Span,
    },
    /// `(type) term`: says of which type the term is, converts nothing.
    Hint {
        ty: TypeName,
        term: Box<Term>,
        span: Span,
    },
    /// `CAST(term AS type)`: converts.
    Cast {
        term: Box<Term>,
        ty: TypeName,
        span: Span,
    },
    Arithmetic {
        op: ArithmeticOp,
        left: Box<Term>,
        right: Box<Term>,
    },
    /// `-term`, where the term is no number without a sign: that is a literal with one.
    Negate {
        term: Box<Term>,
        span: Span,
    },
}

impl Term {
    pub fn span(&self) -> Span {
        match self {
            Self::Literal(literal) => literal.span,
            Self::Marker(marker) => marker.span,
            Self::Null(span)
            | Self::List { span, .. }
            | Self::Set { span, .. }
            | Self::Map { span, .. }
            | Self::Udt { span, .. }
            | Self::Tuple { span, .. }
            | Self::Call { span, .. }
            | Self::Hint { span, .. }
            | Self::Cast { span, .. }
            | Self::Negate { span, .. } => *span,
            Self::Arithmetic { left, right, .. } => left.span().to(right.span()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub kind: LiteralKind,
    /// As written, with its sign; of a string what it says, without quotes and escapes; `NaN`, `Infinity` and
    /// `-Infinity` in this spelling.
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    String,
    /// Any number of digits.
    Integer,
    Float,
    /// `true` or `false`, in any case.
    Boolean,
    Uuid,
    /// `0x` and any number of hexadecimal digits, odd ones too.
    Blob,
    /// `1y2mo3d4h5m6s7ms8us9ns` or ISO 8601 from `P` on; each with a `-` in front or without.
    Duration,
}

/// `?` or `:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// From 0, in the order of the text.
    pub index: usize,
    pub name: Option<String>,
    pub span: Span,
}
