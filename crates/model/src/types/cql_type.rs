//! The type enum: which CQL types there are and what shape a value of each has.
//!
//! Nested types are behind `Arc`, so a clone is at most one reference count. Two types are equal when
//! their names in an SSTable header are equal; `text` and `varchar` are one type.

use std::sync::Arc;

use super::TypeError;
use super::error::type_err;

/// How deep types may nest, in names read from outside. Cassandra has no limit and overflows its stack.
pub const MAX_DEPTH: usize = 100;

/// A CQL type, or one of the internal types that SSTable headers name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    /// In a cell the bytes are a counter context; at the protocol an 8-byte integer.
    Counter,
    /// u32, days since the epoch plus 2^31.
    Date,
    /// i32 scale and a big-endian two's complement unscaled value.
    Decimal,
    Double,
    /// Three zigzag vints: months, days, nanoseconds.
    Duration,
    /// The value of a set's cell: no bytes.
    Empty,
    Float,
    Inet,
    Int,
    SmallInt,
    /// `text` and `varchar`.
    Text,
    /// i64, nanoseconds since midnight.
    Time,
    /// i64, milliseconds since the epoch.
    Timestamp,
    /// `DateType`, the predecessor of `timestamp`: the same bytes, but compared unsigned.
    LegacyTimestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    /// `LexicalUUIDType`: a UUID compared as two signed 64-bit halves.
    LexicalUuid,
    Varint,
    List {
        element: Arc<CqlType>,
        multi_cell: bool,
    },
    Set {
        element: Arc<CqlType>,
        multi_cell: bool,
    },
    Map {
        entry: Arc<(CqlType, CqlType)>,
        multi_cell: bool,
    },
    /// Always frozen.
    Tuple(Arc<[CqlType]>),
    Udt {
        user: Arc<UserType>,
        multi_cell: bool,
    },
    /// Always frozen. Make it with [`CqlType::vector`], which bounds its size.
    Vector {
        element: Arc<CqlType>,
        dimension: u32,
    },
    /// A partition key of several columns, as SSTable headers name it; no CQL column has it.
    Composite(Arc<[CqlType]>),
    /// A clustering column with `CLUSTERING ORDER BY (… DESC)`: the same bytes, the order flipped.
    Reversed(Arc<CqlType>),
}

/// A user-defined type's name and fields; whether it is frozen stands in [`CqlType::Udt`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<UdtField>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtField {
    pub name: String,
    pub field_type: CqlType,
}

/// Cell paths that no schema spells out.
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

    /// Components are frozen, as everything inside a tuple is.
    pub fn tuple(components: impl IntoIterator<Item = CqlType>) -> Self {
        Self::Tuple(components.into_iter().map(|component| component.freeze()).collect())
    }

    /// A multi-cell user-defined type.
    pub fn udt(user: UserType) -> Self {
        Self::Udt { user: Arc::new(user), multi_cell: true }
    }

    /// The element is frozen.
    ///
    /// # Errors
    /// A dimension of 0 or above 2^31-1, elements of no bytes, or of so many that the vector has more than
    /// 2^31-1.
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

    pub fn composite(components: impl IntoIterator<Item = CqlType>) -> Self {
        Self::Composite(components.into_iter().collect())
    }

    pub fn reversed(base: CqlType) -> Self {
        Self::Reversed(Arc::new(base))
    }

    /// Stored as one cell per element or field: a non-frozen list, set, map or user-defined type.
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { multi_cell, .. }
            | Self::Set { multi_cell, .. }
            | Self::Map { multi_cell, .. }
            | Self::Udt { multi_cell, .. } => *multi_cell,
            _ => false,
        }
    }

    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Counter)
    }

    /// A list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Set { .. } | Self::Map { .. })
    }

    pub fn is_reversed(&self) -> bool {
        matches!(self, Self::Reversed(_))
    }

    /// The type under any `Reversed`.
    pub fn without_reversed(&self) -> &CqlType {
        let mut base = self;
        while let Self::Reversed(inner) = base {
            base = inner;
        }
        base
    }

    /// What the cell paths of a multi-cell type are: a timeuuid (list), the element (set), the key (map),
    /// the i16 field index (UDT). `None` for a type that is one cell.
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

    /// What the value of a cell is. A type of one cell ignores `path` and gives itself (a reversed type
    /// its base); a UDT looks up the field that `path` (i16) names, `None` if there is no such field.
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

    /// The frozen form: one cell, and so is everything inside it. A type that cannot be multi-cell is
    /// itself.
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

    /// Nothing in it is multi-cell. Tuples, vectors and composites are built frozen.
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

    /// The length of every non-empty value in an SSTable, if the format writes the type without a length.
    ///
    /// This is the format's table, not the CQL width: tinyint, smallint, date and time are written with a
    /// length. Source: facts `sstable-format.md` §3.
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

    /// A value of no bytes is accepted but carries no information (Cassandra's `isEmptyValueMeaningless`):
    /// true for numbers and other fixed shapes, false for strings, blobs and everything nested.
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

    /// A duration somewhere inside: such a type has no order and may not be a key.
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
    fn multi_cell_types_say_what_their_cells_are() {
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
