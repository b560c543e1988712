//! Conditional writes and counters: several tasks compete for a few registers and sums, and their histories
//! must be linearizable.
//!
//! Each object is a partition of a table of its own keyspace, and all operations go through
//! `engine::node::read_modify_write`. A history begins with the value that a read of the idle table returned.
//! It is checked
//!
//! - while the node runs: every answer, in one order with the operations that got none;
//! - after a restart: the acknowledged operations that changed something, in one order with the present
//!   value. Operations without effect are left out: they may have read a write that was in memory and in no
//!   log that survived the crash. If acknowledgements did not promise durability, this is not checked, and
//!   the history begins anew.

use std::sync::Arc;

use catalog::{Catalog, Changed, Keyspace, TableSettings};
use engine::commitlog::LogError;
use engine::node::compaction as compaction_node;
use engine::{EngineError, Page, ReadCommand, node};
use model::counter::{self, CounterShard};
use model::{
    Cell, ClusteringPrefix, ColumnData, CqlType, Mutation, PartitionKey, PartitionRange, TableId, TableSchema,
};
use reader::ReadError;
use runtime::{CpuGroup, Shard};
use uuid::Uuid;

use crate::client::{SharedClient, on_some_shard};
use crate::linear::Ask;
use crate::register_history::{OBJECTS, SUMS_ID, SWAPS_ID};

pub const KEYSPACE: &str = "registers";

/// Who adds to the counters.
const COUNTER_ID: [u8; 16] = [7; 16];

/// The keyspace with its tables.
pub fn create(catalog: &Catalog) -> Changed {
    let tables = [
        TableSchema::builder(KEYSPACE, "swaps").id(SWAPS_ID).regular("value", CqlType::BigInt),
        TableSchema::builder(KEYSPACE, "sums").id(SUMS_ID).regular("sum", CqlType::Counter),
    ];
    let (mut catalog, mut changes) = catalog.create_keyspace(Keyspace::simple(KEYSPACE)?)?;
    for table in tables {
        let schema = table.partition_key("name", CqlType::Text).build().expect("a table of two columns");
        let (with_table, more) = catalog.create_table(schema, TableSettings::default())?;
        catalog = with_table;
        changes.extend(more);
    }
    Ok((catalog, changes))
}

fn command(table: TableId, object: usize, now_s: u32) -> ReadCommand {
    let key = PartitionKey::new(format!("object {object}").as_bytes());
    ReadCommand {
        now_s: Some(now_s),
        page_rows: u64::MAX,
        page_bytes: u64::MAX,
        ..ReadCommand::new(table, PartitionRange::Key(key))
    }
}

/// The only cell of the only row; `None` if absent.
fn cell(page: &Page) -> Option<&Cell> {
    let row = page.partitions.first()?.rows.first()?;
    match row.row.cells().first()? {
        (_, ColumnData::Simple(cell)) => Some(cell),
        (_, ColumnData::Complex(_)) => None,
    }
}

fn value(page: &Page) -> Option<i64> {
    Some(i64::from_be_bytes(*cell(page)?.value.first_chunk()?))
}

fn sum(page: &Page) -> i64 {
    cell(page).map_or(0, |cell| counter::total(&cell.value).unwrap_or(i64::MIN))
}

fn write(schema: &Arc<TableSchema>, command: &ReadCommand, cell: Cell) -> Vec<Mutation> {
    let PartitionRange::Key(key) = &command.partitions else { return vec![] };
    let mut mutation = Mutation::new(schema.clone(), key.clone());
    let column = schema.columns().first().expect("the tables here have a column");
    mutation.row_mut(ClusteringPrefix::EMPTY).set(column, cell);
    vec![mutation]
}

/// Writes `new` if the register has the value `expected`; returns the value before.
async fn swap(
    shard: &Shard,
    command: ReadCommand,
    expected: Option<i64>,
    new: Option<i64>,
) -> Result<Option<i64>, EngineError> {
    let schema = schema_of(shard, SWAPS_ID)?;
    let asked = command.clone();
    let decide = move |_: &Shard, page: &Page| {
        let (true, Some(new)) = (value(page) == expected, new) else { return Ok(None) };
        let timestamp_us = cell(page).map_or(1, |cell| cell.timestamp_us + 1);
        Ok::<_, EngineError>(Some(write(
            &schema,
            &asked,
            Cell::live(timestamp_us, new.to_be_bytes().to_vec()),
        )))
    };
    Ok(value(&node::read_modify_write(shard, command, node::Deadline::NONE, decide).await?))
}

/// Adds to a counter; returns the sum before.
async fn add(shard: &Shard, command: ReadCommand, delta: i64) -> Result<i64, EngineError> {
    let schema = schema_of(shard, SUMS_ID)?;
    let asked = command.clone();
    let decide = move |_: &Shard, page: &Page| {
        let before = cell(page).map(|cell| (cell.timestamp_us, counter::decode(&cell.value)));
        let (timestamp_us, clock) = match before {
            None => (0, 0),
            Some((timestamp_us, Ok(shards))) => (timestamp_us, shards.first().map_or(0, |shard| shard.clock)),
            Some((_, Err(error))) => return Err(EngineError::Invalid(error.to_string())),
        };
        let shard = CounterShard { id: COUNTER_ID, clock: clock + 1, count: sum(page) + delta };
        let cell = Cell::live(timestamp_us + 1, counter::encode(&[shard]));
        Ok(Some(write(&schema, &asked, cell)))
    };
    Ok(sum(&node::read_modify_write(shard, command, node::Deadline::NONE, decide).await?))
}

fn schema_of(shard: &Shard, table: TableId) -> Result<Arc<TableSchema>, EngineError> {
    Ok(engine::shard::EngineShard::of(shard)?.table(table)?.schema())
}

/// Runs competing tasks with some operations each; returns when all have ended.
pub async fn compete(shard: &Shard, client: &SharedClient, tasks: u64) {
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (on, client) = (shard.clone(), client.clone());
            shard.spawn(CpuGroup::Statement, async move {
                let count = 2 + client.borrow_mut().rng.below(6);
                for _ in 0..count {
                    one(&on, &client).await;
                }
            })
        })
        .collect();
    for task in running {
        task.await;
    }
}

async fn one(shard: &Shard, client: &SharedClient) {
    let (called, object, now_s, which) = {
        let client = &mut *client.borrow_mut();
        let called = client.stamp();
        client.counts.competing += 1;
        let (object, which) = (client.rng.index(OBJECTS), client.rng.below(20));
        (called, object, client.read_now_s(shard.wall_us()), which)
    };
    match which {
        0 => {
            let result = on_some_shard(shard, client, move |shard| async move {
                compaction_node::major(&shard, if called % 2 == 0 { SWAPS_ID } else { SUMS_ID }, false).await
            });
            if let Err(error) = result.await {
                client.borrow_mut().excuse("compaction of registers", SWAPS_ID, &error);
            }
        }
        1 => {
            let result =
                on_some_shard(shard, client, |shard| async move { node::flush(&shard, vec![]).await });
            if let Err(error) = result.await {
                // A flush of all tables may meet one that is being dropped.
                client.borrow_mut().excuse("flush beside registers", Uuid::nil(), &error);
            }
        }
        2..=11 => {
            let expected = {
                let client = &mut *client.borrow_mut();
                let swap = &client.registers.swaps[object];
                let seen = swap.calls.iter().rev().find_map(|call| match (&call.input, &call.returned) {
                    (Ask::Swap { expected, new }, Some((_, before))) if before == expected => Some(*new),
                    (_, Some((_, before))) => Some(*before),
                    (_, None) => None,
                });
                seen.unwrap_or(swap.initial)
            };
            let new = (which > 3).then_some(called as i64);
            let input = if new.is_some() { Ask::Swap { expected, new } } else { Ask::Read };
            client.borrow_mut().registers.swaps[object].called(called, input);
            let command = command(SWAPS_ID, object, now_s);
            let asked = move |shard: Shard| async move {
                match new {
                    Some(_) => swap(&shard, command, expected, new).await,
                    None => Ok(value(&node::read(&shard, command, node::Deadline::NONE).await?)),
                }
            };
            let result = on_some_shard(shard, client, asked).await;
            let client = &mut *client.borrow_mut();
            let stamp = client.stamp();
            client.note(format!("register {object} {expected:?} to {new:?}, called {called}: {result:?}"));
            match result {
                Ok(before) => client.registers.swaps[object].returned(called, stamp, before),
                Err(error) if is_in_doubt(&error) => client.in_doubt("swap", SWAPS_ID, &error),
                Err(error) => {
                    client.registers.swaps[object].refused(called);
                    refused(client, "swap", SWAPS_ID, &error);
                }
            }
        }
        _ => {
            let delta = if which < 14 { 0 } else { 1 + (called % 100) as i64 };
            client.borrow_mut().registers.sums[object].called(called, delta);
            let command = command(SUMS_ID, object, now_s);
            let asked = move |shard: Shard| async move {
                match delta {
                    0 => Ok(sum(&node::read(&shard, command, node::Deadline::NONE).await?)),
                    _ => add(&shard, command, delta).await,
                }
            };
            let result = on_some_shard(shard, client, asked).await;
            let client = &mut *client.borrow_mut();
            let stamp = client.stamp();
            client.note(format!("counter {object} plus {delta}, called {called}: {result:?}"));
            match result {
                Ok(before) => client.registers.sums[object].returned(called, stamp, before),
                Err(error) if is_in_doubt(&error) => client.in_doubt("count", SUMS_ID, &error),
                Err(error) => {
                    client.registers.sums[object].refused(called);
                    refused(client, "count", SUMS_ID, &error);
                }
            }
        }
    }
}

/// Whether the failed operation may have happened.
fn is_in_doubt(error: &EngineError) -> bool {
    matches!(error, EngineError::Log(LogError::Failed(_)) | EngineError::Stopped | EngineError::TimedOut)
}

/// Records that an operation did not happen.
fn refused(client: &mut crate::client::Client, what: &str, table: TableId, error: &EngineError) {
    // Little memory: few reads may wait.
    if !matches!(error, EngineError::Read(ReadError::Refused(_))) {
        client.excuse(what, table, error);
    }
}

/// Reads all objects, without concurrent operations, and checks their histories.
pub async fn compare(shard: &Shard, client: &SharedClient, is_restarted: bool) -> Result<(), String> {
    let now_s = client.borrow_mut().read_now_s(shard.wall_us());
    for object in 0..OBJECTS {
        for table in [SWAPS_ID, SUMS_ID] {
            let called = client.borrow_mut().stamp();
            let command = command(table, object, now_s);
            let read = on_some_shard(shard, client, |shard| async move {
                node::read(&shard, command, node::Deadline::NONE).await
            })
            .await;
            let page = read.map_err(|error| format!("object {object} of {table}: {error}"))?;
            let client = &mut *client.borrow_mut();
            let stamp = client.stamp();
            if table == SWAPS_ID {
                client.registers.swaps[object].called(called, Ask::Read);
                client.registers.swaps[object].returned(called, stamp, value(&page));
            } else {
                client.registers.sums[object].called(called, 0);
                client.registers.sums[object].returned(called, stamp, sum(&page));
            }
        }
    }
    let client = &mut *client.borrow_mut();
    if !std::mem::take(&mut client.registers.is_lost) {
        client.registers.check()?;
    }
    client.registers.settle(is_restarted);
    Ok(())
}
