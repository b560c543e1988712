//! The engine as its users see it: a directory, in and out.

mod faults;
mod support;
mod work;
