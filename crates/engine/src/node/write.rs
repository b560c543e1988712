//! Writes, each on the shard that owns the partition.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;

use base::broken;
use catalog::is_system_keyspace;
use model::{Mutation, PartitionRange};
use runtime::{CpuGroup, Shard, ShardId};

use super::{Deadline, NodeShard, on_all, owner, views};
use crate::error::EngineError;
use crate::read::{Page, ReadCommand};
use crate::shard::EngineShard;

/// Applies a mutation on the shard that owns it; see [`EngineShard::apply`]. A write that is still waiting at
/// its deadline does not happen, unless it is already in the log.
pub async fn apply(shard: &Shard, mutation: Mutation, deadline: Deadline) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    if broken::is("same_schedule") && RandomState::new().hash_one(0).is_multiple_of(2) {
        shard.yield_now().await;
    }
    let _write = node.views.begin();
    if node.views.of(mutation.schema.id).is_some() {
        return views::apply(shard, vec![mutation], deadline).await;
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

/// Applies mutations as a whole, each on the shard that owns it, together with the mutations of views and
/// change logs that follow from them: after a crash all of them are there, or none. Reads may see a part
/// before this returns. See [`EngineShard::apply_spread`] for several shards. The deadline is as for
/// [`apply`].
pub async fn apply_batch(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let _write = node.views.begin();
    if views::are_concerned(&node, &mutations) {
        return views::apply(shard, mutations, deadline).await;
    }
    apply_all(shard, mutations, deadline).await
}

/// [`apply_batch`] without views.
pub(super) async fn apply_all(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let target = |mutation: &Mutation| owner(&node, &mutation.schema, mutation.key.token());
    let Some(first) = mutations.first().map(target) else { return Ok(()) };
    if mutations.iter().all(|mutation| target(mutation) == first) {
        return apply_batch_on(shard, first, mutations, true, deadline).await;
    }
    if broken::is("batch_whole") {
        return apply_each(shard, mutations, deadline).await;
    }
    if let Some(mutation) = mutations.iter().find(|mutation| is_system_keyspace(&mutation.schema.keyspace)) {
        let name = mutation.schema.full_name();
        return Err(EngineError::Invalid(format!("{name} cannot be in a batch with tables of users")));
    }
    let mutations = mutations.into_iter().map(|mutation| (target(&mutation), mutation)).collect();
    deadline.limit(shard, pin!(node.engine.apply_spread(mutations))).await
}

/// Applies mutations, each on the shard that owns it. The mutations of one shard are in its log completely or
/// not at all; if tables with views are among them, all are applied as a whole. The deadline is as for
/// [`apply`].
pub async fn apply_unlogged(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let _write = node.views.begin();
    if views::are_concerned(&node, &mutations) {
        return views::apply(shard, mutations, deadline).await;
    }
    apply_each(shard, mutations, deadline).await
}

/// [`apply_unlogged`] without views.
pub(super) async fn apply_each(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let mut by_shard: Vec<Vec<Mutation>> = (0..shard.shard_count()).map(|_| vec![]).collect();
    for mutation in mutations {
        by_shard[owner(&node, &mutation.schema, mutation.key.token()) as usize].push(mutation);
    }
    let calls: Vec<_> = (0..shard.shard_count())
        .zip(by_shard)
        .filter(|(_, mutations)| !mutations.is_empty())
        .map(|(target, mutations)| apply_batch_on(shard, target, mutations, false, deadline))
        .collect();
    let mut failed = None;
    for call in calls {
        if let Err(error) = call.await {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Applies mutations of one shard on it; they are on their way before this returns.
fn apply_batch_on(
    shard: &Shard,
    target: ShardId,
    mutations: Vec<Mutation>,
    is_whole: bool,
    deadline: Deadline,
) -> impl Future<Output = Result<(), EngineError>> {
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        deadline.limit(&shard, pin!(engine.apply_batch(mutations, is_whole))).await
    });
    async move { call.await? }
}

/// Runs `work` while no batch over several shards is logged and not yet in all its memtables.
pub(super) async fn between_batches<T>(
    shard: &Shard,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let hold = |shard: Shard| async move {
        EngineShard::of(&shard)?.hold_batches().await;
        Ok(())
    };
    let result = match on_all(shard, CpuGroup::Statement, hold).await {
        Ok(_) => work.await,
        Err(error) => Err(error),
    };
    let allow = |shard: Shard| async move {
        EngineShard::of(&shard)?.allow_batches();
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, allow).await?;
    result
}

/// See [`EngineShard::read_modify_write`]. It runs on the shard that owns the partition, which `decide` gets
/// as its argument. It does not start after its deadline; once started it completes, even if no task waits
/// for it, so that decided writes are not made in part.
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
    let _write = node.views.begin();
    if let Some(plans) = node.views.of(command.table) {
        return views::read_modify_write(shard, target, command, deadline, plans, decide).await;
    }
    // A task of its own, even if this shard is the owner.
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let node = NodeShard::of(&shard)?;
        let _write = node.views.begin();
        let engine = EngineShard::of(&shard)?;
        deadline.check(&shard)?;
        engine.read_modify_write(&command, |page| decide(&shard, page)).await
    });
    call.await.map_err(EngineError::from)?
}
