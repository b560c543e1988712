//! The tools of the program `messina`: everything except the server and the shell. A library, so that
//! `messina-bench` and the fuzz targets can use it.

pub mod allocator;
pub mod backup_tool;
pub mod iotune;
pub mod lab_tool;
pub mod nodetool;
pub mod plot;
pub mod sstable_tool;
