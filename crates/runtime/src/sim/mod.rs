//! Deterministic simulation of a whole world in one thread from one seed: virtual time, seeded scheduling,
//! and a faulty disk.
//!
//! ```text
//! let world = SimWorld::new(SimOptions { seed: 7, shards: 2, ..SimOptions::default() });
//! let node = world.start_node(|shard| async move { ... })?;
//! let answer = world.run_until(node.remote().call(0, CpuGroup::Statement, |shard| async move { ... }))?;
//! world.power_loss();
//! let node = world.start_node(...)?;     // on the data that survived
//! ```
//!
//! Each step is one of: a shard handles its messages and polls one of its ready tasks; an I/O operation that
//! is due completes; a timer that is due fires. The seed chooses among them. When no step is possible, the
//! clock advances to the next event.
//!
//! Simulated faults ([`FaultPlan`] and the methods of [`SimWorld`]):
//! - I/O completes late, with spikes, and out of order, and at the speed of the disk if one is set. Transfers
//!   are short. Reads, writes and syncs fail.
//! - The disk is full.
//! - The process dies at any I/O operation: operations in flight are executed or not, completed writes stay.
//! - Power is lost: each unsynced write is applied completely, to some of its 512-byte sectors, or not at
//!   all, regardless of earlier ones. Unsynced lengths may be lost. Unsynced changes of names are undone
//!   independently; a new directory that is undone loses its contents.
//! - After a failed sync, unsynced data may be lost although it was readable, and later syncs do not restore
//!   it.
//! - Tasks of a shard run in any order. Messages between shards keep their order, but the tasks that they
//!   start do not.
//! - `need_preempt` returns true at any time.
//! - Bytes of a connection arrive late and in pieces. Reads and writes are short. Connections break. Peers
//!   vanish without notice. All nodes of a world share one network, of connections to addresses that have a
//!   listener.
//!
//! Faults that are never simulated: bytes of a connection are not lost, duplicated or changed, unless the
//! connection breaks. Synced data is not lost or changed (except through [`SimDisk`]). A sector is not torn,
//! and a rename is not half done. A read does not return bytes of another file or position. The monotonic
//! clock does not go back. Names (as opposed to bytes) can always be created, and memory can always be
//! allocated.

mod backend;
mod disk;
mod faults;
mod inode;
mod names;
mod net;
mod sim_disk;
mod world;

pub use faults::{FaultPlan, PathFilter};
pub use sim_disk::SimDisk;
pub use world::{SimClock, SimNode, SimOptions, SimStop, SimWorld};

use std::future::Future;

use crate::shard::Shard;

/// Runs `f` on shard 0 of a new world without faults and returns its result. Panics with the seed if the
/// world gets stuck.
pub fn run<T, F, Fut>(seed: u64, shards: u32, f: F) -> T
where
    T: 'static,
    F: FnOnce(Shard) -> Fut,
    Fut: Future<Output = T> + 'static,
{
    let world = SimWorld::new(SimOptions { seed, shards, ..SimOptions::default() });
    let started = world.start_node(|_shard| async {}).and_then(|node| world.block_on(&node, 0, f));
    match started {
        Ok(result) => result,
        Err(stop) => panic!("seed {seed}: {stop}"),
    }
}
