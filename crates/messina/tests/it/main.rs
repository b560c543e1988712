//! Tests of the program as a process: started, queried, stopped, started again.

mod backup;
mod backup_rounds;
#[cfg(feature = "object-storage")]
mod backup_s3;
mod bad_input;
#[path = "../../../server/src/tls/testing.rs"]
mod certificates;
mod doors;
mod effects;
mod io_accounting;
mod iotune;
mod large_results;
mod levels;
mod metrics_page;
mod nodetool;
mod page;
mod process;
mod raw_client;
mod serve;
mod service;
mod snapshots;
mod sstables;
mod stock;
mod stress;
mod system_tables;
