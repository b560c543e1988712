//! Rows of `system.reader_semaphores`, `reader_permits` and `memory`.

use model::types::CqlValue;
use reports::MemoryClass;

use super::node_info::{NodeInfo, ShardInside};
use super::rows::{Rows, bigint, int, text};

fn shards(info: &NodeInfo) -> impl Iterator<Item = (CqlValue, &ShardInside)> {
    (0i32..).map(int).zip(&info.shards)
}

pub(super) fn semaphores(rows: &mut Rows, info: &NodeInfo) {
    for (shard, introspection) in shards(info) {
        for semaphore in &introspection.semaphores {
            let stats = semaphore.stats.iter().map(|(name, value)| (text(name), bigint(*value))).collect();
            rows.push(
                vec![shard.clone(), text(&semaphore.name)],
                [
                    ("admitted", Some(bigint(semaphore.admitted))),
                    ("admitted_limit", Some(bigint(semaphore.admitted_limit))),
                    ("memory", Some(bigint(semaphore.memory_bytes))),
                    ("memory_limit", Some(bigint(semaphore.memory_limit_bytes))),
                    ("queued", Some(bigint(semaphore.queued))),
                    ("stats", Some(CqlValue::Map(stats))),
                ],
            );
        }
    }
}

pub(super) fn permits(rows: &mut Rows, info: &NodeInfo) {
    for (shard, introspection) in shards(info) {
        for (semaphore, alike) in
            introspection.semaphores.iter().flat_map(|it| it.permits.iter().map(move |p| (it, p)))
        {
            let names = [&semaphore.name, &alike.keyspace, &alike.table, &alike.operation, &alike.state];
            let key = [shard.clone()].into_iter().chain(names.map(text)).collect();
            rows.push(
                key,
                [
                    ("admitted", Some(bigint(alike.admitted))),
                    ("memory", Some(bigint(alike.memory_bytes))),
                    ("permits", Some(bigint(alike.permits))),
                ],
            );
        }
    }
}

pub(super) fn memory(rows: &mut Rows, info: &NodeInfo) {
    for (shard, introspection) in shards(info) {
        for MemoryClass { class, bytes, limit_bytes } in &introspection.memory {
            let cells = [("bytes", Some(bigint(*bytes))), ("bytes_limit", limit_bytes.map(bigint))];
            rows.push(vec![shard.clone(), text(&**class)], cells);
        }
    }
}
