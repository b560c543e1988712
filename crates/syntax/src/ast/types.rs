//! Types as they were written.

use super::{QualifiedName, Span};

/// A type and its position. `Display` writes CQL that `model::types::CqlType::from_cql` parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    pub node: TypeNode,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeNode {
    Native(NativeType),
    List(Box<TypeName>),
    Set(Box<TypeName>),
    Map(Box<TypeName>, Box<TypeName>),
    /// At least one component.
    Tuple(Vec<TypeName>),
    /// The dimension is as written; the planner checks its range.
    Vector(Box<TypeName>, u32),
    Frozen(Box<TypeName>),
    User(QualifiedName),
    /// A quoted class name, stored without quotes: `org.apache.cassandra.db.marshal.…`.
    Custom(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    /// A synonym of [`NativeType::Text`].
    Varchar,
    Varint,
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
