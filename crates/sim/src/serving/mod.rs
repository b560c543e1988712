//! Simulates the CQL server: well-behaved and rude clients on simulated connections, against a node with
//! faults of disk, memory, network and clock.
//!
//! | topic | file |
//! |---|---|
//! | the life of one world: rounds, faults, crashes | `seed.rs`; many worlds: `run.rs` |
//! | options and faults of a world | `weather.rs` |
//! | state shared by all clients: failures, history, clocks | `notes.rs` |
//! | bytes of the native protocol, answers by stream | `connection.rs` |
//! | statements: prepared, bound, as text | `session.rs` |
//! | writes, reads and batches of rows | `plain.rs`, against the model in `facts.rs` |
//! | conditional statements | `registers.rs`, checked by `order.rs` |
//! | counters | `tallies.rs` |
//! | pages of idle data | `pages.rs` |
//! | schema changes | `schema.rs` |
//! | clients that disconnect, stall, flood or send garbage | `rude.rs` |
//! | logins, roles and service levels | `access.rs` |
//! | leftovers of disconnected clients | `leftovers.rs` |
//! | promises that are broken on purpose | `promises.rs` |

mod access;
mod connection;
mod facts;
mod leftovers;
mod notes;
mod order;
mod pages;
mod plain;
pub mod promises;
mod registers;
mod rude;
mod run;
mod schema;
mod seed;
mod session;
mod tallies;
mod weather;

pub use notes::{Checker, Counts, Failure};
pub use run::{Options, run, trial};
pub use seed::Outcome;
