//! What the program `messina` has beside the daemon and the shell. A library too, for `messina-bench` and the fuzz
//! targets.

pub mod allocator;
pub mod iotune;
pub mod nodetool;
pub mod plot;
pub mod sstable_tool;
