//! The changes of a catalog, for components with state per table and for clients that listen to events.

use std::fmt;

use model::TableId;

/// The kinds of the native protocol's `SCHEMA_CHANGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        })
    }
}

/// The changed object of the keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The keyspace itself.
    Keyspace,
    Table {
        name: String,
        id: TableId,
    },
    Type {
        name: String,
    },
    Function {
        name: String,
        /// The types of its arguments as CQL.
        arguments: Vec<String>,
    },
    Aggregate {
        name: String,
        arguments: Vec<String>,
    },
}

/// One object that was created, changed or dropped. If a keyspace is dropped, each of its objects has its own
/// event, before the keyspace's event. If a type is changed, its event comes before those of the tables that
/// use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub kind: ChangeKind,
    pub keyspace: String,
    pub target: Target,
}
