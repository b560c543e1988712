//! Who goes next: the deciders behind a shard's CPU groups and its disk.
//!
//! How it works:
//! 1. [`FairShares`] is the one rule for both: each class has shares, what it uses is charged divided by them, and who
//!    was charged least goes next. The CPU is charged with nanoseconds of a task, the disk with [`DiskModel::cost_ns`].
//! 2. A [`DiskModel`] says what a request costs: the nanoseconds of the whole disk that it takes. Any mix of requests is
//!    possible that costs at most one second a second; this is the straight line on the plane of reads × writes.
//! 3. [`Disk`] is what the shards share: a [`TokenBucket`] that gives out the disk's time, the amount under way, the caps of
//!    classes. All of it atomic counters.
//! 4. [`IoQueue`] is one shard's queue in front of it. A request that finds nobody waiting and time left starts at once.
//!    Of what is under way a class may have its part beside others that read (`rooms`), and of the disk's time (`pace`).
//! 5. A [`Learner`] finds out what the disk can do from the requests that it gets anyway.
//! 6. [`properties`] reads and writes `io_properties.yaml`.
//!
//! Guarantees: over any time `t` a disk is given at most `t` plus its latency goal of work, twice that with several shards; nobody who waits is passed over
//! for ever; what one class leaves, the others get, but for what has to stay free so that reads of a class with more shares are
//! in time; who was idle has no more than [`FORGIVEN_NS`] of the disk to catch up with.
//!
//! No clock, no thread, no file: time is an argument, in nanoseconds of a clock that never goes back.

mod bucket;
mod disk;
mod latencies;
mod learned;
mod model;
mod pace;
mod plane;
pub mod properties;
mod queue;
mod rooms;
mod shares;

pub use bucket::TokenBucket;
pub use disk::{Disk, DiskOptions, LATENCY_GOAL_NS, REQUEST_BYTES_MAX, WHOLE_BYTES};
pub use latencies::Latencies;
pub use learned::{
    BUSY_TIMES, BUSY_WINDOWS_MIN, Learned, Learner, Observation, Rate, SHORT_READ_BYTES, Traffic, WINDOW_NS,
};
pub use model::{Direction, DiskModel};
pub use plane::{Plane, PlaneCell, STEPS};
pub use queue::{ClassStats, FORGIVEN_NS, IoQueue, Outcome, STUCK_NS, Ticket};
pub use rooms::{BESIDE_PERCENT, READS_NS};
pub use shares::{CLASSES_MAX, FairShares, SHARES_DEFAULT};
