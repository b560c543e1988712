//! What the binary `messina` is made of. A library too, so that programs outside the workspace (`bench/peers`) can
//! use the same workload and the same report.

pub mod admin;
pub mod attach;
pub mod bench;
pub mod config;
pub mod cql_server;
pub mod disk_model;
mod disk_watch;
pub mod iotune;
pub mod logging;
pub mod memory_dir;
pub mod memory_governor;
pub mod node;
pub mod nodetool;
pub mod plot;
pub mod schema_file;
pub mod serve;
pub mod shell;
pub mod sstable_tool;
pub mod suggest;
pub mod tls;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
