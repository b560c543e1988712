//! Terms: values without columns, as used in VALUES, SET, WHERE and LIMIT.

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
    /// `{a, b}`. Without elements it may also be an empty map.
    Set {
        elements: Vec<Term>,
        span: Span,
    },
    /// `{k: v}`, at least one entry.
    Map {
        entries: Vec<(Term, Term)>,
        span: Span,
    },
    /// `{field: v}`, at least one field. A field may occur twice.
    Udt {
        fields: Vec<(Ident, Term)>,
        span: Span,
    },
    /// `(a, b)`, at least one element. With one element it may also be a pair of parentheses.
    Tuple {
        elements: Vec<Term>,
        span: Span,
    },
    Call {
        name: QualifiedName,
        args: Vec<Term>,
        span: Span,
    },
    /// `(type) term`: states the term's type without converting the value.
    Hint {
        ty: TypeName,
        term: Box<Term>,
        span: Span,
    },
    /// `CAST(term AS type)`: converts the value.
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
    /// `-term`, unless the term is an unsigned number: a number with a sign is one literal.
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
    /// The constant as written, with its sign. A string is stored without quotes and escapes. `NaN`,
    /// `Infinity` and `-Infinity` are stored in this spelling.
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    String,
    /// Any number of digits.
    Integer,
    Float,
    /// `true` or `false`; case is ignored.
    Boolean,
    Uuid,
    /// `0x` and any number of hexadecimal digits, even an odd number.
    Blob,
    /// `1y2mo3d4h5m6s7ms8us9ns` or an ISO 8601 duration starting with `P`; each with an optional leading `-`.
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
