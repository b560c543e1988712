//! A shard: one thread's share of the machine, with its tasks, timers, files, sockets and its mail from other shards.
//!
//! How it works:
//! 1. A runtime has N shards; each is one OS thread (`real`) or one actor of a simulated world (`sim`).
//! 2. Code on a shard holds a [`Shard`]: it spawns tasks into [`CpuGroup`]s, sleeps, opens [`Files`], talks
//!    over the [`Net`] and calls other shards. Nothing on a shard is shared with another one, so nothing needs a lock.
//! 3. Threads outside the runtime reach shards through a [`Remote`].
//! 4. The code above cannot tell which world it runs in: clocks, randomness, files, sockets and scheduling order all
//!    come from the back end.
//!
//! Guarantees: a buffer given to an I/O belongs to the operation until it has completed, also when its future
//! is dropped; a call to a shard that stopped ends with [`ShardGone`] and never hangs; in `sim` the same seed
//! gives the same schedule.
//!
//! Whose task and whose request goes next is decided by `iosched`, by the shares of [`Groups`].

mod backend;
mod buf;
mod cpu;
mod event;
mod file;
mod file_error;
mod files;
mod group;
mod groups;
mod io_gate;
mod net;
mod net_error;
mod queue;
mod remote;
mod reply;
mod shard;
mod stall;
mod stats;
mod stream;
mod timer;

pub mod real;
pub mod sim;

pub use buf::{ALIGNMENT_BYTES, IoBuf};
pub use cpu::GroupCounters;
pub use event::{Event, NextEvent};
pub use file::File;
pub use file_error::FileError;
pub use files::{DirEntry, DirLock, Files, LOCK_FILE_NAME, OpenOptions};
pub use group::{CpuGroup, GROUPS_MAX, GroupSlot, IoClass};
pub use groups::{GroupError, Groups};
pub use iosched::{ClassStats, Direction, Disk, DiskModel, DiskOptions, LATENCY_GOAL_NS};
pub use net::{ACCEPT_PAUSE_US, Accepted, ListenOptions, Listener, Net};
pub use net_error::NetError;
pub use real::{
    BackendChoice, BackendInUse, BackendKind, Runtime, RuntimeOptions, ShardPanicked, StartError,
};
pub use remote::Remote;
pub use reply::{Reply, ShardGone};
pub use shard::{JoinHandle, Shard};
pub use stall::{Stall, StallOptions, TellStall};
pub use stats::{GroupStats, IoCounters, IoStats, ShardStats};
pub use stream::Stream;

/// Which shard: `0..shard_count`.
pub type ShardId = u32;
