//! The CQL types, and the properties of their values.
//!
//! Nested types are held in an `Arc`, so a clone is at most one reference count. Two types are equal if their
//! names in an SSTable header are equal; `text` and `varchar` are one type.

use std::sync::Arc;

use super::TypeError;
use super::error::type_err;

/// The deepest nesting in type names from outside. Cassandra has no limit and overflows its stack.
pub const MAX_DEPTH: usize = 100;

/// A CQL type, or one of the internal types that occur in SSTable headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// Text of bytes below 128.
    Ascii,
    /// Eight bytes, big-endian, signed.
    BigInt,
    /// Any bytes.
    Blob,
    /// One byte, 0 or 1.
    Boolean,
    /// In a cell the bytes are a counter context; in the protocol they are an 8-byte integer.
    Counter,
    /// u32, days since the epoch plus 2^31.
    Date,
    /// An i32 scale and an unscaled value in big-endian two's complement.
    Decimal,
    /// Eight bytes, IEEE 754, big-endian.
    Double,
    /// Three zigzag vints: months, days, nanoseconds.
    Duration,
    /// The type of the values of a set's cells, which are empty.
    Empty,
    /// Four bytes, IEEE 754, big-endian.
    Float,
    /// An IPv4 or IPv6 address: 4 or 16 bytes.
    Inet,
    /// Four bytes, big-endian, signed.
    Int,
    /// Two bytes, big-endian, signed.
    SmallInt,
    /// `text` and `varchar`.
    Text,
    /// i64, nanoseconds since midnight.
    Time,
    /// i64, milliseconds since the epoch.
    Timestamp,
    /// `DateType`, the predecessor of `timestamp`: the same bytes, compared as unsigned integers.
    LegacyTimestamp,
    /// A UUID of version 1, ordered by its time.
    TimeUuid,
    /// One byte, signed.
    TinyInt,
    /// A UUID of any version, ordered by version first, then by time for version 1.
    Uuid,
    /// `LexicalUUIDType`: a UUID compared as two signed 64-bit halves.
    LexicalUuid,
    /// An integer of any size, in big-endian two's complement.
    Varint,
    /// A list. Its cells, if it has several, have timeuuids as paths.
    List {
        /// The type of the elements.
        element: Arc<CqlType>,
        /// Whether each element is a cell of its own (not frozen).
        multi_cell: bool,
    },
    /// A set. Its elements are the paths of its cells, if it has several.
    Set {
        /// The type of the elements.
        element: Arc<CqlType>,
        /// Whether each element is a cell of its own (not frozen).
        multi_cell: bool,
    },
    /// A map. Its keys are the paths of its cells, if it has several.
    Map {
        /// The types of keys and of values.
        entry: Arc<(CqlType, CqlType)>,
        /// Whether each entry is a cell of its own (not frozen).
        multi_cell: bool,
    },
    /// Always frozen.
    Tuple(Arc<[CqlType]>),
    /// A user-defined type. The numbers of its fields are the paths of its cells, if it has several.
    Udt {
        /// Its name and its fields.
        user: Arc<UserType>,
        /// Whether each field is a cell of its own (not frozen).
        multi_cell: bool,
    },
    /// Always frozen. Created by [`CqlType::vector`], which limits its size.
    Vector {
        /// The type of the elements.
        element: Arc<CqlType>,
        /// The number of elements, from 1.
        dimension: u32,
    },
    /// A partition key of several columns, as in SSTable headers; no CQL column has this type.
    Composite(Arc<[CqlType]>),
    /// A clustering column with `CLUSTERING ORDER BY (… DESC)`: the same bytes in reversed order.
    Reversed(Arc<CqlType>),
}

/// Name and fields of a user-defined type. [`CqlType::Udt`] states whether it is frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace of the type.
    pub keyspace: String,
    /// The name of the type, in the case in which it is stored.
    pub name: String,
    /// The fields, in the order of their indexes.
    pub fields: Vec<UdtField>,
}

/// A field of a user-defined type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtField {
    /// The name of the field, in the case in which it is stored.
    pub name: String,
    /// The type of the field.
    pub field_type: CqlType,
}

/// Types of cell paths that are not part of a schema.
static LIST_PATH: CqlType = CqlType::TimeUuid;
static FIELD_PATH: CqlType = CqlType::SmallInt;
static NO_VALUE: CqlType = CqlType::Empty;

impl CqlType {
    /// A multi-cell list.
    pub fn list(element: CqlType) -> Self {
        Self::List { element: Arc::new(element), multi_cell: true }
    }

    /// A multi-cell set.
    pub fn set(element: CqlType) -> Self {
        Self::Set { element: Arc::new(element), multi_cell: true }
    }

    /// A multi-cell map.
    pub fn map(key: CqlType, value: CqlType) -> Self {
        Self::Map { entry: Arc::new((key, value)), multi_cell: true }
    }

    /// A tuple. The components are frozen, as all types inside a tuple are.
    pub fn tuple(components: impl IntoIterator<Item = CqlType>) -> Self {
        Self::Tuple(components.into_iter().map(|component| component.freeze()).collect())
    }

    /// A multi-cell user-defined type.
    pub fn udt(user: UserType) -> Self {
        Self::Udt { user: Arc::new(user), multi_cell: true }
    }

    /// A vector. The element type is frozen.
    ///
    /// # Errors
    /// The dimension is 0 or above 2^31-1, the elements are always empty, or the vector would have more than
    /// 2^31-1 bytes.
    pub fn vector(element: CqlType, dimension: u32) -> Result<Self, TypeError> {
        const LARGEST: u64 = i32::MAX as u64;
        if dimension == 0 {
            return type_err!("vectors may only have positive dimensions; given 0");
        }
        let element = element.freeze();
        let count = u64::from(dimension);
        let element_bytes = element.sstable_fixed_len().unwrap_or(1) as u64;
        let bytes = count.saturating_mul(element_bytes);
        if element_bytes == 0 || count > LARGEST || bytes > LARGEST {
            return type_err!(
                "a vector may have 1 to {LARGEST} elements and bytes, this one has {count} elements of {element_bytes}"
            );
        }
        Ok(Self::Vector { element: Arc::new(element), dimension })
    }

    /// The composite of these types, in order: the partition key of several columns, or a compact table's
    /// names.
    pub fn composite(components: impl IntoIterator<Item = CqlType>) -> Self {
        Self::Composite(components.into_iter().collect())
    }

    /// The same type in reversed order.
    pub fn reversed(base: CqlType) -> Self {
        Self::Reversed(Arc::new(base))
    }

    /// Whether the values of both types are the same bytes with the same meaning, regardless of the names of
    /// user-defined types in them. A frozen user-defined type has the same values as the tuple of its fields.
    pub fn has_same_values(&self, other: &Self) -> bool {
        let all = |a: &[&Self], b: &[&Self]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.has_same_values(b))
        };
        let parts = |ty: &Self| -> Option<(u8, bool, u32)> {
            Some(match ty {
                Self::List { multi_cell, .. } => (0, *multi_cell, 0),
                Self::Set { multi_cell, .. } => (1, *multi_cell, 0),
                Self::Map { multi_cell, .. } => (2, *multi_cell, 0),
                Self::Tuple(_) => (3, false, 0),
                Self::Udt { multi_cell, .. } => (3, *multi_cell, 0),
                Self::Vector { dimension, .. } => (4, false, *dimension),
                Self::Composite(_) => (5, false, 0),
                Self::Reversed(_) => (6, false, 0),
                _ => return None,
            })
        };
        match (parts(self), parts(other)) {
            (None, None) => self == other,
            (mine, theirs) => mine == theirs && all(&self.inner(), &other.inner()),
        }
    }

    /// The types of which this type is composed.
    fn inner(&self) -> Vec<&Self> {
        match self {
            Self::List { element, .. } | Self::Set { element, .. } | Self::Vector { element, .. } => {
                vec![element]
            }
            Self::Map { entry, .. } => vec![&entry.0, &entry.1],
            Self::Tuple(types) | Self::Composite(types) => types.iter().collect(),
            Self::Udt { user, .. } => user.fields.iter().map(|field| &field.field_type).collect(),
            Self::Reversed(ty) => vec![ty],
            _ => vec![],
        }
    }

    /// Whether it is stored as one cell per element or field: a non-frozen list, set, map or user-defined
    /// type.
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { multi_cell, .. }
            | Self::Set { multi_cell, .. }
            | Self::Map { multi_cell, .. }
            | Self::Udt { multi_cell, .. } => *multi_cell,
            _ => false,
        }
    }

    /// Whether the type is `counter`.
    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Counter)
    }

    /// Whether it is a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Set { .. } | Self::Map { .. })
    }

    /// Whether the order of the type is reversed (`CLUSTERING ORDER BY … DESC`).
    pub fn is_reversed(&self) -> bool {
        matches!(self, Self::Reversed(_))
    }

    /// The type without `Reversed`.
    pub fn without_reversed(&self) -> &CqlType {
        let mut base = self;
        while let Self::Reversed(inner) = base {
            base = inner;
        }
        base
    }

    /// The type of the cell paths of a multi-cell type: a timeuuid (list), the element (set), the key (map),
    /// the i16 field index (UDT). `None` for a type of one cell.
    pub fn cell_path_type(&self) -> Option<&CqlType> {
        if !self.is_multi_cell() {
            return None;
        }
        match self {
            Self::List { .. } => Some(&LIST_PATH),
            Self::Set { element, .. } => Some(element),
            Self::Map { entry, .. } => Some(&entry.0),
            Self::Udt { .. } => Some(&FIELD_PATH),
            _ => None,
        }
    }

    /// The type of a cell's value. For a type of one cell it is the type itself (of a reversed type the
    /// base), and `path` is ignored. For a UDT it is the type of the field with index `path` (i16), `None` if
    /// the field does not exist.
    pub fn cell_value_type(&self, path: &[u8]) -> Option<&CqlType> {
        match self {
            Self::List { element, multi_cell: true } => Some(element),
            Self::Set { multi_cell: true, .. } => Some(&NO_VALUE),
            Self::Map { entry, multi_cell: true } => Some(&entry.1),
            Self::Udt { user, multi_cell: true } => {
                let index = i16::from_be_bytes(path.try_into().ok()?);
                let field = user.fields.get(usize::try_from(index).ok()?)?;
                Some(&field.field_type)
            }
            _ => Some(self.without_reversed()),
        }
    }

    /// The frozen form: it and all types inside it are single cells. A type that cannot be multi-cell is
    /// returned unchanged.
    pub fn freeze(&self) -> CqlType {
        match self {
            Self::List { element, .. } => Self::List { element: frozen_arc(element), multi_cell: false },
            Self::Set { element, .. } => Self::Set { element: frozen_arc(element), multi_cell: false },
            Self::Map { entry, .. } => {
                let entry = if entry.0.is_deeply_frozen() && entry.1.is_deeply_frozen() {
                    Arc::clone(entry)
                } else {
                    Arc::new((entry.0.freeze(), entry.1.freeze()))
                };
                Self::Map { entry, multi_cell: false }
            }
            Self::Udt { user, .. } => {
                let user = if user.fields.iter().all(|field| field.field_type.is_deeply_frozen()) {
                    Arc::clone(user)
                } else {
                    Arc::new(UserType {
                        keyspace: user.keyspace.clone(),
                        name: user.name.clone(),
                        fields: user
                            .fields
                            .iter()
                            .map(|field| UdtField {
                                name: field.name.clone(),
                                field_type: field.field_type.freeze(),
                            })
                            .collect(),
                    })
                };
                Self::Udt { user, multi_cell: false }
            }
            _ => self.clone(),
        }
    }

    /// Whether no type in it is multi-cell. Tuples, vectors and composites are always built frozen.
    fn is_deeply_frozen(&self) -> bool {
        match self {
            Self::List { element, multi_cell } | Self::Set { element, multi_cell } => {
                !multi_cell && element.is_deeply_frozen()
            }
            Self::Map { entry, multi_cell } => {
                !multi_cell && entry.0.is_deeply_frozen() && entry.1.is_deeply_frozen()
            }
            Self::Udt { user, multi_cell } => {
                !multi_cell && user.fields.iter().all(|field| field.field_type.is_deeply_frozen())
            }
            _ => true,
        }
    }

    /// The length of every non-empty value in an SSTable, if the format stores values of the type without a
    /// length.
    ///
    /// This is the table of the format, not the width in CQL: tinyint, smallint, date and time are stored
    /// with a length. Source: `valueLengthIfFixed` in Cassandra's `db/marshal/*Type.java`.
    pub fn sstable_fixed_len(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Boolean => Some(1),
            Self::Int | Self::Float => Some(4),
            Self::BigInt | Self::Double | Self::Timestamp | Self::LegacyTimestamp => Some(8),
            Self::Uuid | Self::TimeUuid | Self::LexicalUuid => Some(16),
            Self::Vector { element, dimension } => {
                element.sstable_fixed_len().map(|element_bytes| element_bytes * *dimension as usize)
            }
            Self::Reversed(base) => base.sstable_fixed_len(),
            _ => None,
        }
    }

    /// Whether an empty value is accepted but carries no information (Cassandra's `isEmptyValueMeaningless`):
    /// true for numbers and other types with a fixed structure, false for strings, blobs and nested types.
    pub fn is_empty_value_meaningless(&self) -> bool {
        match self {
            Self::Boolean
            | Self::Counter
            | Self::LegacyTimestamp
            | Self::Timestamp
            | Self::Decimal
            | Self::Double
            | Self::Float
            | Self::Inet
            | Self::Int
            | Self::BigInt
            | Self::Varint
            | Self::LexicalUuid
            | Self::TimeUuid
            | Self::Uuid => true,
            Self::Reversed(base) => base.is_empty_value_meaningless(),
            _ => false,
        }
    }

    /// Whether it contains a duration: such a type has no order and may not be a key.
    pub fn references_duration(&self) -> bool {
        self.any(&|inner| matches!(inner, Self::Duration))
    }

    /// Whether `test` holds for this type or any type inside it.
    pub fn any(&self, test: &dyn Fn(&CqlType) -> bool) -> bool {
        if test(self) {
            return true;
        }
        match self {
            Self::List { element, .. } | Self::Set { element, .. } | Self::Vector { element, .. } => {
                element.any(test)
            }
            Self::Map { entry, .. } => entry.0.any(test) || entry.1.any(test),
            Self::Tuple(components) | Self::Composite(components) => {
                components.iter().any(|inner| inner.any(test))
            }
            Self::Udt { user, .. } => user.fields.iter().any(|field| field.field_type.any(test)),
            Self::Reversed(base) => base.any(test),
            _ => false,
        }
    }
}

fn frozen_arc(inner: &Arc<CqlType>) -> Arc<CqlType> {
    if inner.is_deeply_frozen() { Arc::clone(inner) } else { Arc::new(inner.freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> CqlType {
        CqlType::udt(UserType {
            keyspace: "ks".into(),
            name: "address".into(),
            fields: vec![
                UdtField { name: "street".into(), field_type: CqlType::Text },
                UdtField { name: "phones".into(), field_type: CqlType::list(CqlType::Int).freeze() },
            ],
        })
    }

    #[test]
    fn multi_cell_types_describe_their_cells() {
        let map = CqlType::map(CqlType::Text, CqlType::Int);
        assert_eq!((map.is_multi_cell(), map.freeze().is_multi_cell()), (true, false));
        assert_eq!(map.cell_path_type(), Some(&CqlType::Text));
        assert_eq!(map.cell_value_type(b"k"), Some(&CqlType::Int));
        assert_eq!(map.freeze().cell_path_type(), None);
        assert_eq!(map.freeze().cell_value_type(b""), Some(&map.freeze()));

        let set = CqlType::set(CqlType::Uuid);
        assert_eq!(
            (set.cell_path_type(), set.cell_value_type(b"")),
            (Some(&CqlType::Uuid), Some(&CqlType::Empty))
        );
        let list = CqlType::list(CqlType::Text);
        assert_eq!(list.cell_path_type(), Some(&CqlType::TimeUuid));
        assert_eq!(list.cell_value_type(&[0; 16]), Some(&CqlType::Text));

        assert_eq!(address().cell_path_type(), Some(&CqlType::SmallInt));
        assert_eq!(address().cell_value_type(&[0, 0]), Some(&CqlType::Text));
        assert_eq!(address().cell_value_type(&[0, 1]), Some(&CqlType::list(CqlType::Int).freeze()));
        assert_eq!(address().cell_value_type(&[0, 2]), None, "no third field");
        assert_eq!(address().cell_value_type(&[0xff, 0xff]), None, "negative index");
        assert_eq!(address().cell_value_type(&[0]), None, "half an index");
        assert_eq!(CqlType::reversed(CqlType::Int).cell_value_type(&[]), Some(&CqlType::Int));
    }

    #[test]
    fn freezing_reaches_every_level() {
        let nested = CqlType::map(CqlType::Text, CqlType::list(CqlType::set(CqlType::Int)));
        assert!(!nested.freeze().any(&CqlType::is_multi_cell));
        assert_eq!(nested.freeze(), nested.freeze().freeze());
        let tuple = CqlType::tuple([CqlType::list(CqlType::Int), address()]);
        assert!(!tuple.any(&CqlType::is_multi_cell));
    }

    #[test]
    fn fixed_lengths_follow_the_sstable_table() {
        let cases = [
            (CqlType::Boolean, Some(1)),
            (CqlType::Int, Some(4)),
            (CqlType::Float, Some(4)),
            (CqlType::BigInt, Some(8)),
            (CqlType::Double, Some(8)),
            (CqlType::Timestamp, Some(8)),
            (CqlType::LegacyTimestamp, Some(8)),
            (CqlType::Uuid, Some(16)),
            (CqlType::TimeUuid, Some(16)),
            (CqlType::LexicalUuid, Some(16)),
            (CqlType::Empty, Some(0)),
            (CqlType::reversed(CqlType::Int), Some(4)),
            (CqlType::TinyInt, None),
            (CqlType::SmallInt, None),
            (CqlType::Date, None),
            (CqlType::Time, None),
            (CqlType::Inet, None),
            (CqlType::Counter, None),
            (CqlType::Varint, None),
            (CqlType::Decimal, None),
            (CqlType::Duration, None),
            (CqlType::Text, None),
            (CqlType::tuple([CqlType::Int]), None),
        ];
        for (cql_type, expect) in cases {
            assert_eq!(cql_type.sstable_fixed_len(), expect, "{cql_type:?}");
        }
        assert_eq!(CqlType::vector(CqlType::Float, 3).unwrap().sstable_fixed_len(), Some(12));
        assert_eq!(CqlType::vector(CqlType::SmallInt, 3).unwrap().sstable_fixed_len(), None);
        assert!(CqlType::vector(CqlType::Float, 0).is_err());
        assert!(CqlType::vector(CqlType::Float, u32::MAX).is_err());
        let wide = CqlType::vector(CqlType::Uuid, 1 << 26).unwrap();
        assert!(CqlType::vector(wide, 1 << 26).is_err(), "2^56 bytes");
    }
}
