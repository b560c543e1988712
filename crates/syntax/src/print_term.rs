//! Terms and selectors as CQL text.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{ArithmeticOp, CellTime, Literal, LiteralKind, Marker, Selector, Term};
use super::print::{Entries, FunctionName, Name, Quoted, Separated};

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => Quoted(&self.text).fmt(f),
            _ => f.write_str(&self.text),
        }
    }
}

impl Display for Marker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, ":{}", Name(name)),
            None => f.write_str("?"),
        }
    }
}

impl ArithmeticOp {
    pub fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        }
    }
}

impl Display for ArithmeticOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char(self.symbol())
    }
}

impl CellTime {
    /// The function's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteTime => "writetime",
            Self::MaxWriteTime => "maxwritetime",
            Self::Ttl => "ttl",
        }
    }
}

impl Display for CellTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Null(_) => f.write_str("null"),
            Self::Marker(marker) => marker.fmt(f),
            Self::List { elements, .. } => write!(f, "[{}]", Separated(elements, ", ")),
            Self::Set { elements, .. } => write!(f, "{{{}}}", Separated(elements, ", ")),
            Self::Map { entries, .. } => write!(f, "{{{}}}", Entries(entries, ": ")),
            Self::Udt { fields, .. } => write!(f, "{{{}}}", Entries(fields, ": ")),
            Self::Tuple { elements, .. } => write!(f, "({})", Separated(elements, ", ")),
            Self::Call { name, args, .. } => write!(f, "{}({})", FunctionName(name), Separated(args, ", ")),
            Self::Hint { ty, term, .. } => write!(f, "({ty}){term}"),
            Self::Cast { term, ty, .. } => write!(f, "CAST({term} AS {ty})"),
            Self::Arithmetic { op, left, right } => write!(f, "{left} {op} {right}"),
            Self::Negate { term, .. } => match &**term {
                Self::Literal(literal) if is_nan(literal) => f.write_str("- -NaN"),
                term => write!(f, "- {term}"),
            },
        }
    }
}

/// Whether the literal is `NaN`. A sign before `NaN` is part of the literal and has no effect.
fn is_nan(literal: &Literal) -> bool {
    literal.kind == LiteralKind::Float && literal.text == "NaN"
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => column.fmt(f),
            Self::Literal(literal) => literal.fmt(f),
            Self::Null(_) => f.write_str("null"),
            Self::Marker(marker) => marker.fmt(f),
            Self::CountRows(_) => f.write_str("COUNT(*)"),
            Self::CellTime { what, of, .. } => write!(f, "{what}({of})"),
            Self::Call { name, args, .. } => write!(f, "{}({})", FunctionName(name), Separated(args, ", ")),
            Self::Cast { of, ty, .. } => write!(f, "CAST({of} AS {ty})"),
            Self::Hint { ty, of, .. } => write!(f, "({ty}){of}"),
            Self::Field { of, field } => write!(f, "{of}.{field}"),
            Self::Element { of, key, .. } => write!(f, "{of}[{key}]"),
            Self::Slice { of, from, to, .. } => {
                write!(f, "{of}[")?;
                // Without the space, `1...` would be a number with a dot.
                from.iter().try_for_each(|from| write!(f, "{from} "))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
            Self::Tuple { elements, .. } => write!(f, "({})", Separated(elements, ", ")),
            Self::List { elements, .. } => write!(f, "[{}]", Separated(elements, ", ")),
            Self::Set { elements, .. } => write!(f, "{{{}}}", Separated(elements, ", ")),
            Self::MapOrUdt { entries, .. } => write!(f, "{{{}}}", Entries(entries, ": ")),
            Self::Arithmetic { op, left, right } => write!(f, "{left} {op} {right}"),
            Self::Negate { of, .. } => match &**of {
                Self::Literal(literal) if is_nan(literal) => f.write_str("- -NaN"),
                of => write!(f, "- {of}"),
            },
        }
    }
}
