//! Basic types that all other crates use: encoding of integers, hashes, checksums, random numbers,
//! histograms, dates, similar names.
//!
//! The list is closed. Nothing in this crate uses a clock, a disk or a thread; a new module needs a reason
//! (see docs/code-map.md, "base").

#![warn(missing_docs)]

pub mod broken;
pub mod bytes;
pub mod calendar;
pub mod crc;
pub mod hash;
pub mod histogram;
pub mod hyperloglog;
pub mod join;
pub mod log_throttle;
pub mod murmur3;
pub mod rng;
pub mod suggest;
pub mod vint;

pub use hash::{HashMap, HashSet};
pub use log_throttle::LogThrottle;
