//! What the runtime promises, checked on every back end.

mod calls;
mod files;
mod real;
mod sim;
mod tasks;
mod worlds;
