//! The engine as its users see it: a directory, in and out.

mod disk;
mod faults;
mod loading;
mod storm;
mod support;
mod work;
