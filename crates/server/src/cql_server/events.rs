//! What clients are told without asking: changes of the schema, and that the node comes and goes.

use std::net::SocketAddr;

use catalog::{ChangeKind, SchemaChange, Target};
use cql::protocol::{self, ChangeType, Event, SchemaTarget, StatusChange};
use runtime::Shard;

use super::{CqlShard, on_all_shards};

/// Tells every connection that asked for it.
pub(crate) async fn schema_changed(shard: &Shard, changes: &[SchemaChange]) {
    let events: Vec<Event> = changes.iter().map(|change| Event::Schema(in_protocol(change))).collect();
    if !events.is_empty() {
        on_all_shards(shard, move |cql| events.iter().for_each(|event| push(cql, event))).await;
    }
}

/// Tells everybody that the node at `address` is up, or goes down.
pub(crate) async fn status_changed(shard: &Shard, change: StatusChange, address: SocketAddr) {
    let event = Event::Status { change, node: address };
    on_all_shards(shard, move |cql| push(cql, &event)).await;
}

fn push(cql: &CqlShard, event: &Event) {
    for connection in cql.connections.borrow().values() {
        connection.push(event);
    }
}

/// The protocol's form of a change.
pub(crate) fn in_protocol(change: &SchemaChange) -> protocol::SchemaChange {
    protocol::SchemaChange {
        change: match change.kind {
            ChangeKind::Created => ChangeType::Created,
            ChangeKind::Updated => ChangeType::Updated,
            ChangeKind::Dropped => ChangeType::Dropped,
        },
        keyspace: change.keyspace.clone(),
        target: match &change.target {
            Target::Keyspace => SchemaTarget::Keyspace,
            Target::Table { name, .. } => SchemaTarget::Table(name.clone()),
            Target::Type { name } => SchemaTarget::Type(name.clone()),
        },
    }
}
