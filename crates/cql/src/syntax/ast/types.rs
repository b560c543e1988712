//! Types as they were written.

use super::{QualifiedName, Span};

/// A type and where it stands. `Display` writes CQL, which `model::types::CqlType::from_cql` reads.
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
    /// The dimension is as written; whether it is allowed is the planner's to say.
    Vector(Box<TypeName>, u32),
    Frozen(Box<TypeName>),
    User(QualifiedName),
    /// A class name in quotes, without them: `org.apache.cassandra.db.marshal.…`.
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
    /// Another word for [`NativeType::Text`].
    Varchar,
    Varint,
}
