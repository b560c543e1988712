//! The engine as its users see it: a directory, in and out.

mod compaction;
mod disk;
mod faults;
mod loading;
mod parked;
mod row_cache;
mod storm;
mod support;
mod work;
