//! Runtime of shards. A shard is one thread with its own tasks, timers, files, sockets, and inbox for
//! messages from other shards.
//!
//! How it works:
//! 1. A runtime has N shards; each is an OS thread (`real`) or an actor of a simulated world (`sim`).
//! 2. Code on a shard holds a [`Shard`]. It spawns tasks into [`CpuGroup`]s, sleeps, opens [`Files`], uses
//!    the [`Net`] and calls other shards. Shards share no state, so code on a shard needs no locks.
//! 3. Threads outside the runtime reach shards through a [`Remote`].
//! 4. Code above the runtime is the same in both worlds: clocks, randomness, files, sockets and the
//!    scheduling order all come from the back end.
//!
//! Guarantees: a buffer passed to an I/O operation belongs to the operation until that completes, even if its
//! future is dropped. A call to a stopped shard ends with [`ShardGone`] and never hangs. In `sim` the same
//! seed gives the same schedule.
//!
//! `iosched` chooses the task and the request that go next, by the shares of [`Groups`].

mod buf;
mod cpu;
mod event;
mod file_error;
mod group;
mod groups;
pub mod log_capture;
mod mutex;
mod net_error;
mod shard;
mod stall;
mod stats;

pub mod real;
pub mod sim;

pub use buf::{ALIGNMENT_BYTES, IoBuf};
pub use cpu::GroupCounters;
pub use event::{Event, NextEvent};
pub use file_error::FileError;
pub use group::{CpuGroup, GROUPS_MAX, GroupSlot, IoClass};
pub use groups::{GroupError, Groups};
pub use iosched::{ClassStats, Direction, Disk, DiskModel, DiskOptions, LATENCY_GOAL_NS};
pub use mutex::{Mutex, MutexGuard};
pub use net_error::NetError;
pub use real::{
    BackendChoice, BackendInUse, BackendKind, Runtime, RuntimeOptions, ShardPanicked, StartError,
};
pub use shard::file::File;
pub use shard::files::{DirEntry, DirLock, Files, LOCK_FILE_NAME, OpenOptions};
pub use shard::net::{ACCEPT_PAUSE_US, Accepted, ListenOptions, Listener, Net};
pub use shard::remote::Remote;
pub use shard::reply::{Reply, ShardGone};
pub use shard::stream::Stream;
pub use shard::{JoinHandle, Shard};
pub use stall::StallOptions;
pub use stats::{GroupStats, IoCounters, IoStats, ShardStats};

/// Number of a shard: `0..shard_count`.
pub type ShardId = u32;

/// The shard whose code runs on this thread now; `None` outside of shards. For the log: simulated shards
/// share a thread.
pub fn current_shard() -> Option<ShardId> {
    shard::queue::current_shard()
}
