//! The server as a library: a node from its configuration to its drain, client connections, the admin API.
//! Used by the program `messina`, by the simulation and by `messina-bench`.

pub mod admin;
pub mod api;
pub mod attach;
pub mod audit;
pub mod backups;
pub mod client_listeners;
pub mod config;
pub mod console_rights;
pub mod cql_server;
pub mod disk_model;
mod disk_use;
mod disk_watch;
pub mod log_levels;
pub mod logging;
pub mod managed_node;
pub mod memory_dir;
pub mod memory_governor;
mod process_use;
pub mod production;
mod schema_apply;
pub mod schema_file;
pub mod serve;
pub mod serve_error;
mod service_manager;
mod start_log;
pub mod start_time;
pub mod table_restore;
pub mod tls;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
