//! Prints names and types as CQL text, and provides the helpers of the other printers.
//!
//! Printed text parses as the same tree. Strings are printed in `'…'`; names in `"…"` only where necessary.

use std::fmt::{self, Display, Formatter};

use super::ast::{Ident, NativeType, QualifiedName, TypeName, TypeNode};
use super::keyword::{Keyword, is_plain};
use super::parser::KEPT_TYPE_NAMES;

/// Items printed with a separator between them.
pub(super) struct Separated<'a, T>(pub &'a [T], pub &'static str);

impl<T: Display> Display for Separated<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Entries printed as `key: value`.
pub(super) struct Entries<'a, K, V>(pub &'a [(K, V)], pub &'static str);

impl<K: Display, V: Display> Display for Entries<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{key}{}{value}", self.1)?;
        }
        Ok(())
    }
}

/// Text printed in `'…'`.
pub(super) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

/// A name, printed in `"…"` where CQL requires it.
pub(super) struct Name<'a>(pub &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_name(f, self.0, is_plain(self.0))
    }
}

impl Display for Ident {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Name(&self.text).fmt(f)
    }
}

fn write_name(f: &mut Formatter<'_>, name: &str, plain: bool) -> fmt::Result {
    if plain { f.write_str(name) } else { write!(f, "\"{}\"", name.replace('"', "\"\"")) }
}

impl Display for QualifiedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_qualified(f, self, |_| true)
    }
}

fn write_qualified(
    f: &mut Formatter<'_>,
    name: &QualifiedName,
    may_be: impl Fn(&str) -> bool,
) -> fmt::Result {
    if let Some(keyspace) = &name.keyspace {
        write!(f, "{keyspace}.")?;
    }
    let last = name.name.as_str();
    write_name(f, last, is_plain(last) && may_be(last))
}

/// The name of a function.
pub(super) struct FunctionName<'a>(pub &'a QualifiedName);

impl Display for FunctionName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // TOKEN is reserved but still names a function.
        if self.0.keyspace.is_none() && self.0.name.as_str() == "token" {
            return f.write_str("token");
        }
        write_qualified(f, self.0, |name| Keyword::of(name).is_none_or(Keyword::names_function))
    }
}

/// A name at a place where every keyword would be ambiguous, so that keywords are quoted.
pub(super) struct NoKeyword<'a>(pub &'a QualifiedName);

impl Display for NoKeyword<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_qualified(f, self.0, |name| Keyword::of(name).is_none())
    }
}

/// The name of a user-defined type.
pub(super) struct UserTypeName<'a>(pub &'a QualifiedName);

impl Display for UserTypeName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_qualified(f, self.0, |name| {
            Keyword::of(name).is_none_or(Keyword::names_type) && !KEPT_TYPE_NAMES.contains(&name)
        })
    }
}

impl Display for NativeType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.node {
            TypeNode::Native(native) => native.fmt(f),
            TypeNode::List(element) => write!(f, "list<{element}>"),
            TypeNode::Set(element) => write!(f, "set<{element}>"),
            TypeNode::Map(key, value) => write!(f, "map<{key}, {value}>"),
            TypeNode::Tuple(components) => write!(f, "tuple<{}>", Separated(components, ", ")),
            TypeNode::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            TypeNode::Frozen(inner) => write!(f, "frozen<{inner}>"),
            TypeNode::User(name) => UserTypeName(name).fmt(f),
            TypeNode::Custom(class) => Quoted(class).fmt(f),
        }
    }
}
