//! Guarantees of the runtime, tested on every back end.

mod calls;
mod disk_time;
mod files;
mod net;
mod net_real;
mod net_sim;
mod real;
mod scheduling;
mod sim;
mod tasks;
mod worlds;
