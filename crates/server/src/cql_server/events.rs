//! Events sent to clients: changes of the schema, and that the node comes up or goes down.

use std::net::SocketAddr;

use catalog::SchemaChange;
use protocol::{Event, StatusChange};
use runtime::Shard;

use super::{CqlShard, on_all_shards};

/// Sends the changes to every connection that registered for them.
pub(crate) async fn schema_changed(shard: &Shard, changes: &[SchemaChange]) {
    let events: Vec<Event> = changes.iter().map(|change| Event::Schema(cql::schema::event(change))).collect();
    if !events.is_empty() {
        on_all_shards(shard, move |cql| events.iter().for_each(|event| push(cql, event))).await;
    }
}

/// Sends every registered connection the event that the node at `address` is up or goes down.
pub(crate) async fn status_changed(shard: &Shard, change: StatusChange, address: SocketAddr) {
    let event = Event::Status { change, node: address };
    on_all_shards(shard, move |cql| push(cql, &event)).await;
}

fn push(cql: &CqlShard, event: &Event) {
    for connection in cql.connections.borrow().values() {
        connection.push(event);
    }
}
