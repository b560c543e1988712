//! Counters of a shard.

use std::cell::RefCell;

use base::histogram::EstimatedHistogram;

use crate::cpu::GroupCounters;
use crate::group::{CpuGroup, GROUPS_MAX, IoClass};

/// Requests of one I/O class that completed since the shard started, and the bytes that they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

/// A shard's counters since its start, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Polls of tasks.
    pub polls: u64,
    /// Turns of the run loop.
    pub turns: u64,
    /// Tasks spawned here.
    pub spawned: u64,
    /// Wake-ups of tasks by other threads or shards.
    pub remote_wakeups: u64,
    /// Messages sent to other shards.
    pub calls_sent: u64,
    /// Messages received from other shards and threads.
    pub calls_received: u64,
    /// How often the shard went to sleep in the kernel.
    pub parks: u64,
    /// Time of polling for work before going to sleep, in microseconds.
    pub idle_spin_us: u64,
    /// Counters of I/O classes, by class number.
    pub io: [IoCounters; GROUPS_MAX],
    /// Stalls that were reported.
    pub stalls_reported: u64,
    /// Messages and wake-ups in the inbox now.
    pub inbox: u64,
    /// The most messages ever taken out of the inbox at once.
    pub inbox_max: u64,
    /// Connections accepted by listeners of this shard.
    pub accepted: u64,
    /// Accepts that failed for lack of descriptors or memory, each followed by a pause.
    pub accept_failures: u64,
    /// Connections made by this shard.
    pub connected: u64,
    /// Streams of this shard that are open now.
    pub open_sockets: u64,
    pub socket_read_bytes: u64,
    pub socket_written_bytes: u64,
}

impl ShardStats {
    /// The counters of one class.
    pub fn io_of(&self, class: IoClass) -> IoCounters {
        self.io[class.index()]
    }
}

/// CPU use of a scheduling group on a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    pub group: CpuGroup,
    pub name: String,
    /// The shares on this shard.
    pub shares: u32,
    pub counters: GroupCounters,
    /// Time during which a task of the group was ready while other groups ran.
    pub starved_ns: u64,
    /// Time during which no task of the group was ready.
    pub waited_ns: u64,
    /// Number of tasks that are ready now.
    pub ready_tasks: u64,
    /// Histogram of its stalls, in microseconds.
    pub stalls_us: EstimatedHistogram,
}

/// Disk use of an I/O class from one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoStats {
    pub class: IoClass,
    /// The name of its group.
    pub name: String,
    /// The shares on this shard.
    pub shares: u32,
    pub counters: iosched::ClassStats,
    /// Its cap over all shards, in bytes per second.
    pub cap_bytes_s: Option<u64>,
}

/// The shard's own counters, which its parts add to. The I/O counters belong to the I/O queue; `Shard::stats`
/// fills them in.
#[derive(Default)]
pub(crate) struct StatsCell(RefCell<ShardStats>);

impl StatsCell {
    pub(crate) fn get(&self) -> ShardStats {
        *self.0.borrow()
    }

    pub(crate) fn polls(&self) -> u64 {
        self.0.borrow().polls
    }

    #[inline]
    pub(crate) fn add(&self, change: impl FnOnce(&mut ShardStats)) {
        change(&mut self.0.borrow_mut());
    }
}
