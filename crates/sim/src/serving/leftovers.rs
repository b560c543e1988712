//! Checks that a node keeps nothing of disconnected clients: no connections, no requests or bytes of them, no
//! permits of reads.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::{EngineError, node};
use runtime::Shard;
use server::cql_server::{self, UnderWay};

/// Parked reads stay open for ten seconds, and requests end within their timeouts.
const LOOKS: u32 = 60;
const LOOK_US: u64 = 500_000;

/// Limit of the time after which the system notices that a client has vanished: keepalive (300 s), then
/// [`super::weather::GIVES_UP_US`].
const LOOKS_FOR_VANISHED: u32 = 2 * 400;

/// Waits until nothing is left, and returns the leftovers if that takes too long. No client may be connected.
/// `vanishing`: some clients have not closed their connections.
///
/// # Errors
/// The node has stopped.
pub async fn check(
    shard: &Shard,
    open_connections: &AtomicU64,
    vanishing: bool,
) -> Result<Result<(), String>, EngineError> {
    let mut found = String::new();
    for _ in 0..LOOKS + if vanishing { LOOKS_FOR_VANISHED } else { 0 } {
        found = leftovers(shard, open_connections).await?;
        if found.is_empty() {
            return Ok(Ok(()));
        }
        shard.sleep_us(LOOK_US).await;
    }
    Ok(Err(format!("all clients have disconnected, but the node keeps {found}")))
}

async fn leftovers(shard: &Shard, open_connections: &AtomicU64) -> Result<String, EngineError> {
    let mut found = vec![];
    let open = open_connections.load(Ordering::Relaxed);
    if open > 0 {
        found.push(format!("{open} connections in its count"));
    }
    for (id, under_way) in cql_server::requests_in_flight(shard).await?.into_iter().enumerate() {
        if under_way != UnderWay::default() {
            found.push(format!("on shard {id} {under_way:?}"));
        }
    }
    for (id, semaphores) in node::read_semaphores(shard).await?.into_iter().enumerate() {
        for semaphore in semaphores {
            if semaphore.admitted > 0 || semaphore.memory_bytes > 0 || semaphore.queued > 0 {
                found.push(format!("on shard {id}: {semaphore:?}"));
            }
        }
    }
    Ok(found.join("; "))
}
