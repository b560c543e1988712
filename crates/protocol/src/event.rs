//! Events that a server pushes to clients, and the description of a schema change.

use std::net::SocketAddr;

/// Event types that a connection can REGISTER for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    TopologyChange,
    StatusChange,
    SchemaChange,
}

impl EventType {
    pub const ALL: [Self; 3] = [Self::TopologyChange, Self::StatusChange, Self::SchemaChange];

    pub fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    NewNode,
    RemovedNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    Created,
    Updated,
    Dropped,
}

impl ChangeType {
    pub const ALL: [Self; 3] = [Self::Created, Self::Updated, Self::Dropped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }
}

/// The kind and name of the changed object. A change of an index counts as a change of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    Keyspace,
    Table(String),
    Type(String),
    /// Argument types as CQL. v3 has no functions; its clients receive a change of the keyspace.
    Function {
        name: String,
        arguments: Vec<String>,
    },
    Aggregate {
        name: String,
        arguments: Vec<String>,
    },
}

/// The result of a statement that alters the schema, and the event that announces the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub change: ChangeType,
    pub keyspace: String,
    pub target: SchemaTarget,
}

/// An event, pushed on stream -1 to the connections that registered for [`Event::event_type`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Topology { change: TopologyChange, node: SocketAddr },
    Status { change: StatusChange, node: SocketAddr },
    Schema(SchemaChange),
}

impl Event {
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Topology { .. } => EventType::TopologyChange,
            Self::Status { .. } => EventType::StatusChange,
            Self::Schema(_) => EventType::SchemaChange,
        }
    }
}
