//! Reads: of one partition on the shard that owns it, of a token range on all shards.

use std::path::PathBuf;
use std::pin::pin;

use catalog::system::is_system_keyspace;
use model::{PartitionKey, PartitionRange, TableId};
use runtime::{CpuGroup, Shard};
use sstable::name::Component;

use super::{Deadline, NodeShard, owner};
use crate::error::EngineError;
use crate::read::gather::merge_pages;
use crate::read::{Page, ReadCommand};
use crate::shard::EngineShard;

/// Reads the next page. All shards stop reading at the deadline.
pub async fn read(shard: &Shard, command: ReadCommand, deadline: Deadline) -> Result<Page, EngineError> {
    let node = NodeShard::of(shard)?;
    let mut command = command;
    if let Some(left_us) = deadline.left_us(shard) {
        command.timeout_us = Some(command.timeout_us.map_or(left_us, |timeout_us| timeout_us.min(left_us)));
    }
    // Every shard must use the same time for expiry.
    command.now_s.get_or_insert_with(|| shard.wall_s());
    if command.read_id == 0 {
        command.read_id = shard.random_u64();
    }
    let schema = match node.engine.table(command.table) {
        Ok(table) => table.schema(),
        Err(error) => match node.catalog.borrow().table_by_id(command.table) {
            Some(table) => table.schema.clone(),
            None => return Err(error),
        },
    };
    let one = match &command.partitions {
        PartitionRange::Key(key) => Some(owner(&node, &schema, key.token())),
        PartitionRange::Between { .. } if is_system_keyspace(&schema.keyspace) => Some(0),
        PartitionRange::Between { .. } if shard.shard_count() == 1 => Some(0),
        PartitionRange::Between { .. } => None,
    };
    let group = shard.current_group();
    let ask = |target: u32, command: ReadCommand| {
        shard.call(target, group, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            deadline.limit(&shard, pin!(engine.read(&command))).await
        })
    };
    match one {
        Some(target) if target == shard.id() => deadline.limit(shard, pin!(node.engine.read(&command))).await,
        Some(target) => ask(target, command).await?,
        None => {
            let asked: Vec<_> = (0..shard.shard_count()).map(|target| ask(target, command.clone())).collect();
            let mut pages = vec![];
            for page in asked {
                pages.push(page.await??);
            }
            Ok(merge_pages(&command, pages))
        }
    }
}

/// The Data.db files that contain the partition, sorted by path.
pub async fn sstables_of_key(
    shard: &Shard,
    table: TableId,
    key: PartitionKey,
) -> Result<Vec<PathBuf>, EngineError> {
    let node = NodeShard::of(shard)?;
    let schema = node.catalog.borrow().table_by_id(table).map(|table| table.schema.clone());
    let schema = schema.ok_or(EngineError::UnknownTable(table))?;
    let call =
        shard.call(owner(&node, &schema, key.token()), CpuGroup::Maintenance, move |shard| async move {
            let table = EngineShard::of(&shard)?.table(table)?;
            table.check_readable()?;
            let mut found = vec![];
            for sstable in table.sstables_with(&key).await? {
                let data = sstable.name().file_name(&Component::Data);
                found.push(sstable.dir().join(data));
            }
            found.sort();
            Ok(found)
        });
    call.await?
}
