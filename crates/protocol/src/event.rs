//! Events that a server pushes to clients, and the description of a schema change.

use std::net::SocketAddr;

/// Event types that a connection can REGISTER for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nodes joined or left the cluster.
    TopologyChange,
    /// Nodes went up or down.
    StatusChange,
    /// The schema changed.
    SchemaChange,
}

impl EventType {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::TopologyChange, Self::StatusChange, Self::SchemaChange];

    /// The name in REGISTER and EVENT: `TOPOLOGY_CHANGE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    /// The kind of this name, in upper case; `None`: there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// A change of the cluster's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// A node joined.
    NewNode,
    /// A node left.
    RemovedNode,
}

/// A change of a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// The node accepts connections.
    Up,
    /// The node accepts none.
    Down,
}

/// What happened to a schema object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It was dropped.
    Dropped,
}

impl ChangeType {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Created, Self::Updated, Self::Dropped];

    /// The name in the protocol: `CREATED`.
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
    /// The keyspace itself.
    Keyspace,
    /// The table, index or view of this name; of an index, its table.
    Table(String),
    /// The user-defined type of this name.
    Type(String),
    /// Argument types as CQL. v3 has no functions; its clients receive a change of the keyspace.
    Function {
        /// Name of the function.
        name: String,
        /// Its argument types as CQL, in order.
        arguments: Vec<String>,
    },
    /// An aggregate. v3 has none; its clients receive a change of the keyspace.
    Aggregate {
        /// Name of the aggregate.
        name: String,
        /// Its argument types as CQL, in order.
        arguments: Vec<String>,
    },
}

/// The result of a statement that alters the schema, and the event that announces the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened to the object.
    pub change: ChangeType,
    /// The keyspace of the object.
    pub keyspace: String,
    /// The object.
    pub target: SchemaTarget,
}

/// An event, pushed on stream -1 to the connections that registered for [`Event::event_type`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node joined or left the cluster.
    Topology {
        /// What happened.
        change: TopologyChange,
        /// Address of the node.
        node: SocketAddr,
    },
    /// A node went up or down.
    Status {
        /// What happened.
        change: StatusChange,
        /// Address of the node.
        node: SocketAddr,
    },
    /// The schema changed.
    Schema(SchemaChange),
}

impl Event {
    /// The kind for which a client registers to receive the event.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Topology { .. } => EventType::TopologyChange,
            Self::Status { .. } => EventType::StatusChange,
            Self::Schema(_) => EventType::SchemaChange,
        }
    }
}
