//! Writes, each on the shard that owns the partition.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;

use base::broken;
use model::{Mutation, PartitionRange};
use runtime::Shard;

use super::{Deadline, NodeShard, owner};
use crate::error::EngineError;
use crate::read::{Page, ReadCommand};
use crate::shard::EngineShard;

/// Writes a mutation where it belongs; see [`EngineShard::apply`]. A write that waits at its deadline does not happen,
/// unless it is in the log already.
pub async fn apply(shard: &Shard, mutation: Mutation, deadline: Deadline) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    if broken::is("same_schedule") && RandomState::new().hash_one(0).is_multiple_of(2) {
        shard.yield_now().await;
    }
    let target = owner(&node, &mutation.schema, mutation.key.token());
    if target == shard.id() {
        return deadline.limit(shard, pin!(node.engine.apply(mutation))).await;
    }
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        deadline.limit(&shard, pin!(engine.apply(mutation))).await
    });
    call.await?
}

/// Writes all, each where it belongs: what one shard has of them is in its log wholly or not at all. The deadline is
/// that of [`apply`].
pub async fn apply_batch(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let group = shard.current_group();
    let mut by_shard: Vec<Vec<Mutation>> = (0..shard.shard_count()).map(|_| vec![]).collect();
    for mutation in mutations {
        by_shard[owner(&node, &mutation.schema, mutation.key.token()) as usize].push(mutation);
    }
    let calls: Vec<_> = (0..shard.shard_count())
        .zip(by_shard)
        .filter(|(_, mutations)| !mutations.is_empty())
        .map(|(target, mutations)| {
            shard.call(target, group, move |shard| async move {
                let engine = EngineShard::of(&shard)?;
                deadline.limit(&shard, pin!(engine.apply_batch(mutations))).await
            })
        })
        .collect();
    let mut failed = None;
    for call in calls {
        if let Err(error) = call.await.map_err(EngineError::from).and_then(|result| result) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// See [`EngineShard::read_modify_write`]; on the shard that has the partition, which `decide` gets. It is not begun
/// after its deadline, and ends once it has begun, also if no task waits for it any more: half of what was decided is
/// not written.
pub async fn read_modify_write<E>(
    shard: &Shard,
    mut command: ReadCommand,
    deadline: Deadline,
    decide: impl FnOnce(&Shard, &Page) -> Result<Option<Vec<Mutation>>, E> + Send + 'static,
) -> Result<Page, E>
where
    E: From<EngineError> + Send + 'static,
{
    let node = NodeShard::of(shard)?;
    command.now_s.get_or_insert_with(|| shard.wall_s());
    let PartitionRange::Key(key) = &command.partitions else {
        return Err(EngineError::Invalid("a conditional write must be on one partition".to_string()).into());
    };
    let schema = node.engine.table(command.table)?.schema();
    let target = owner(&node, &schema, key.token());
    // A task of its own on this shard too.
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        deadline.check(&shard)?;
        engine.read_modify_write(&command, |page| decide(&shard, page)).await
    });
    call.await.map_err(EngineError::from)?
}
