//! Batches of writes to several tables and shards: after a restart all writes of a batch are there, or none.
//!
//! Each write of a batch is also an ordinary write of its table's model ([`crate::table_model`]), so a batch that was
//! acknowledged is compared like any other writes. This file compares the writes of a batch with each other.
//! Writes to tables that were truncated, changed or dropped since the batch began do not count.

use engine::commitlog::{LogError, SyncMode};
use engine::{EngineError, node};
use model::TableId;
use runtime::Shard;

use crate::client::{Client, SentBatch, SharedClient, on_some_shard};
use crate::failure::Checker;

/// Sends this number of batches, one after the other.
pub async fn write(shard: &Shard, client: &SharedClient, count: u64) {
    for _ in 0..count {
        let (mut mutations, mut writes) = (vec![], vec![]);
        {
            let client = &mut *client.borrow_mut();
            let begun = client.stamp();
            for _ in 0..2 + client.rng.below(4) {
                let Some(table) = client.random_table() else { break };
                let Some((seq, mutation)) = client.begin_write(table) else { break };
                mutations.push(mutation);
                writes.push((table, seq));
            }
            client.counts.batches += 1;
            client.note(format!("batch {writes:?}"));
            client.batches.push(SentBatch { begun, writes: writes.clone() });
        }
        let apply =
            |shard: Shard| async move { node::apply_batch(&shard, mutations, node::Deadline::NONE).await };
        let result = on_some_shard(shard, client, apply).await;
        end(&mut client.borrow_mut(), &writes, &result);
    }
}

fn end(client: &mut Client, writes: &[(TableId, i32)], result: &Result<(), EngineError>) {
    let stamp = client.stamp();
    client.note(format!("batch {writes:?}: {result:.90?}"));
    let is_synced = !matches!(client.sync, SyncMode::Periodic { .. });
    if let Err(error) = result {
        client.counts.refused_writes += writes.len() as u64;
        client.needs_restart |= matches!(error, EngineError::Log(LogError::Failed(_)));
        let table = match error {
            EngineError::UnknownTable(table) => *table,
            _ => writes[0].0,
        };
        client.excuse("batch", table, error);
    }
    for (id, seq) in writes {
        let Some(table) = client.table(*id) else { continue };
        match result {
            Ok(()) => table.acknowledged(*seq, stamp, is_synced),
            // A table was dropped before the batch was logged, or after that.
            Err(EngineError::Log(LogError::Failed(_)) | EngineError::UnknownTable(_)) => {
                table.failed(*seq, stamp);
            }
            Err(_) => table.refused(*seq),
        }
    }
}

/// After a restart: the batches whose writes can be compared with each other.
pub fn known(client: &mut Client) -> Vec<SentBatch> {
    let mut batches = std::mem::take(&mut client.batches);
    for batch in &mut batches {
        let begun = batch.begun;
        batch.writes.retain(|(table, seq)| {
            client.table(*table).is_some_and(|table| {
                table.knows(*seq) && table.disturbed < begun && table.truncating.is_none()
            })
        });
    }
    batches
}

/// Compares the writes of each batch, when all tables have been compared.
pub fn compare(client: &mut Client, batches: &[SentBatch]) {
    for SentBatch { writes, begun } in batches {
        let (there, missing): (Vec<_>, Vec<_>) =
            writes.iter().partition::<Vec<&(TableId, i32)>, _>(|(table, seq)| {
                client.table(*table).is_some_and(|table| table.has(*seq))
            });
        if !there.is_empty() && !missing.is_empty() {
            let what =
                format!("of the batch that began at {begun}, {there:?} are there and {missing:?} are not");
            client.fail(Checker::Batches, what);
            return;
        }
    }
}
