//! Tools to test strategies: tables drawn as text, and a small table that runs plans.

mod keys;
mod table_text;
mod timeline;
mod world;

pub use keys::{KEYS, key};
pub use table_text::{MB, NOW_S, Table};
pub use timeline::{Load, Outcome, Timeline};
pub use world::{Cell, Place, Totals, World};
