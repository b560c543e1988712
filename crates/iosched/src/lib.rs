//! Scheduling of a shard's CPU groups and of the disk that shards share.
//!
//! How it works:
//! 1. [`FairShares`] is the policy for both: weighted fair queueing by virtual time. A class is charged what
//!    it uses divided by its shares, and the ready class with the smallest charge runs next. The CPU charges
//!    nanoseconds that a task ran, the disk charges [`DiskModel::cost_ns`].
//! 2. A [`DiskModel`] gives the cost of a request: the nanoseconds for which it occupies the whole disk. The
//!    disk can serve any mix of requests whose costs add up to at most one second per second. In the plane of
//!    reads × writes this limit is a straight line.
//! 3. [`Disk`] is the state that all shards share: a [`TokenBucket`] that hands out the disk's time, the cost
//!    of the requests in flight, and the rate caps of the classes. All of it is atomic counters.
//! 4. [`IoQueue`] is one shard's queue for the disk. A request starts at once if no other request waits and
//!    the disk has time. A class has a quota of the in-flight limit while other classes read (`quota`), and
//!    if needed a rate limit on the disk's time (`rate_limiter`).
//! 5. A [`Learner`] estimates the disk's rates from the requests that it serves in production.
//! 6. [`properties`] reads and writes `io_properties.yaml`.
//!
//! Guarantees:
//! - In any time `t` the disk is given at most `t` plus its latency goal of work; with several shards, at
//!   most twice that.
//! - No waiting request starves.
//! - A class may use the time that other classes leave unused, except for the time that must stay free so
//!   that reads of a class with more shares finish in time.
//! - A class that was idle catches up with at most [`FORGIVEN_NS`] of the disk's time.
//!
//! The crate has no clock, starts no thread and opens no file: time is an argument, in nanoseconds of a
//! monotonic clock.

mod bucket;
mod disk;
mod latencies;
mod learned;
mod model;
mod plane;
pub mod properties;
mod queue;
mod quota;
mod rate_limiter;
mod shares;

pub use bucket::TokenBucket;
pub use disk::{Disk, DiskOptions, LATENCY_GOAL_NS, REQUEST_BYTES_MAX, WHOLE_BYTES};
pub use latencies::Latencies;
pub use learned::{
    BUSY_TIMES, BUSY_WINDOWS_MIN, Learned, Learner, Observation, Rate, SHORT_READ_BYTES, Traffic, WINDOW_NS,
};
pub use model::{Direction, DiskModel};
pub use plane::{Plane, PlaneCell, STEPS};
pub use queue::{ClassStats, Completion, FORGIVEN_NS, IoQueue, STUCK_NS, Ticket};
pub use quota::{CONTENDED_LATENCY_PERCENT, READING_WINDOW_NS};
pub use shares::{CLASSES_MAX, FairShares, SHARES_DEFAULT};
