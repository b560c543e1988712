//! The engine as its users see it: a directory, in and out.

mod comebacks;
mod compaction;
mod disk;
mod faults;
mod garbage;
mod history;
mod job_faults;
mod large_data;
mod levels;
mod limits;
mod loading;
mod parked;
mod replay;
mod reshape;
mod row_cache;
mod scrub;
mod slices;
mod storm;
mod support;
mod traced;
mod work;
