//! Compares statements through the engine with the same statements on a storage in memory.

mod paged_scans;
