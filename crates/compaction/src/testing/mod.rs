//! Tools to test strategies: tables drawn as text, and a small table that runs plans.

mod keys;
mod table_text;
mod timeline;
mod world;

pub use keys::{KEYS, key};
pub use table_text::{MB, NOW_S, Table};
pub use timeline::{SimulatedRun, Timeline, WriteLoad};
pub use world::{Cell, RowKey, Totals, World};
