//! The engine as its users see it: a directory, in and out.

mod compaction;
mod disk;
mod faults;
mod job_faults;
mod large_data;
mod limits;
mod loading;
mod parked;
mod reshape;
mod row_cache;
mod storm;
mod support;
mod traced;
mod work;
