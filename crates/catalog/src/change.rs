//! What a change of the catalog did, for those who keep something per table and for clients that listen.

use std::fmt;

use model::TableId;

/// The words of the native protocol's `SCHEMA_CHANGE`.
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

/// What was changed in the keyspace.
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
}

/// One thing that came, changed or went. Of what goes with a keyspace, each has its own event, before the
/// keyspace's; of a type and the tables that use it, the type's is first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub kind: ChangeKind,
    pub keyspace: String,
    pub target: Target,
}
