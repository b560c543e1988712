//! Trees as CQL text.

use std::fmt;

use model::types::push_identifier;

use super::ast::{Ident, NativeType, QualifiedName, TypeName, TypeNode};

impl fmt::Display for Ident {
    /// In quotes where CQL needs them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::with_capacity(self.text.len());
        push_identifier(&mut out, &self.text);
        f.write_str(&out)
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        self.name.fmt(f)
    }
}

impl NativeType {
    pub const ALL: [NativeType; 21] = [
        Self::Ascii,
        Self::BigInt,
        Self::Blob,
        Self::Boolean,
        Self::Counter,
        Self::Date,
        Self::Decimal,
        Self::Double,
        Self::Duration,
        Self::Float,
        Self::Inet,
        Self::Int,
        Self::SmallInt,
        Self::Text,
        Self::Time,
        Self::Timestamp,
        Self::TimeUuid,
        Self::TinyInt,
        Self::Uuid,
        Self::Varchar,
        Self::Varint,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::BigInt => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Duration => "duration",
            Self::Float => "float",
            Self::Inet => "inet",
            Self::Int => "int",
            Self::SmallInt => "smallint",
            Self::Text => "text",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::TimeUuid => "timeuuid",
            Self::TinyInt => "tinyint",
            Self::Uuid => "uuid",
            Self::Varchar => "varchar",
            Self::Varint => "varint",
        }
    }
}

impl fmt::Display for NativeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            TypeNode::Native(native) => native.fmt(f),
            TypeNode::List(element) => write!(f, "list<{element}>"),
            TypeNode::Set(element) => write!(f, "set<{element}>"),
            TypeNode::Map(key, value) => write!(f, "map<{key}, {value}>"),
            TypeNode::Tuple(components) => {
                f.write_str("tuple<")?;
                for (i, component) in components.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    component.fmt(f)?;
                }
                f.write_str(">")
            }
            TypeNode::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            TypeNode::Frozen(inner) => write!(f, "frozen<{inner}>"),
            TypeNode::User(name) => name.fmt(f),
            TypeNode::Custom(class) => write!(f, "'{}'", class.replace('\'', "''")),
        }
    }
}
