//! Words every other crate uses: integers on the wire, hashes, checksums, random numbers, histograms.
//!
//! A closed list. Nothing here knows a clock, a disk or a thread; a new module needs a reason
//! (see ARCHITECTURE.md, "base").

pub mod bytes;
pub mod crc;
pub mod drive;
pub mod hash;
pub mod histogram;
pub mod hyperloglog;
pub mod murmur3;
pub mod rng;
pub mod vint;

pub use hash::{HashMap, HashSet};
