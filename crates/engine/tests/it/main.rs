//! The engine as its users see it: a directory, in and out.

mod compaction;
mod disk;
mod faults;
mod limits;
mod job_faults;
mod loading;
mod parked;
mod reshape;
mod storm;
mod support;
mod work;
