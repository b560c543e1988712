//! A whole world in one thread from one seed: virtual time, seeded scheduling, and a disk that lies on purpose.
//!
//! ```text
//! let world = SimWorld::new(SimOptions { seed: 7, shards: 2, ..SimOptions::default() });
//! let node = world.start_node(|shard| async move { ... })?;
//! let answer = world.run_until(node.remote().call(0, CpuGroup::Statement, |shard| async move { ... }))?;
//! world.power_loss();
//! let node = world.start_node(...)?;     // on what survived
//! ```
//!
//! Each step is one of: a shard takes in its mail and polls one of its ready tasks, an I/O that is due completes, a
//! timer that is due fires; the seed chooses. When nothing is left to do, the clock jumps to the next event.
//!
//! Faults it makes ([`FaultPlan`] and the methods of [`SimWorld`]):
//! - I/O completes late, with spikes, and out of order, and at a disk's speed if it has one; transfers are short; reads, writes and syncs fail.
//! - The disk is full.
//! - The process dies at any I/O operation: what was under way happens or not, what was written stays.
//! - Power is lost: each unsynced write lands whole, in some of its 512-byte sectors, or not at all, whatever
//!   happened to earlier ones; unsynced lengths may be lost; unsynced changes of names are undone, each by itself (a
//!   new directory takes its contents with it when it goes).
//! - After a failed sync, unsynced data may be gone though it was readable, and later syncs do not bring it back.
//! - Tasks of a shard run in any order; mail between shards keeps its order, but the tasks it starts do not.
//! - `need_preempt` answers true at any time.
//! - Bytes of a connection arrive late and in pieces; reads and writes are short; connections break; peers vanish
//!   without a word. All nodes of a world share one network, of connections between addresses that somebody listens on.
//!
//! Faults it never makes: bytes of a connection are never lost, doubled or changed, unless it breaks;
//! synced data is never lost or changed (but by [`SimDisk`], by hand); a sector is never torn
//! within; a rename is never half done; a read never gives bytes of another file or place; clocks never go back;
//! names (as opposed to bytes) never fail to be created for lack of space; memory is never short.

mod backend;
mod disk;
mod faults;
mod inode;
mod net;
mod sim_disk;
mod world;

pub use faults::{FaultPlan, PathFilter};
pub use sim_disk::SimDisk;
pub use world::{SimClock, SimNode, SimOptions, SimStop, SimWorld};

use std::future::Future;

use crate::shard::Shard;

/// Runs `f` on shard 0 of a new world without faults and gives its result; panics, with the seed, if it gets stuck.
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
