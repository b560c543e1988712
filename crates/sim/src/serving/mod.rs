//! The CQL server inside the simulation: clients on simulated connections, good ones and rude ones, against a node whose disk,
//! memory, network and clock fail.
//!
//! | question | file |
//! |---|---|
//! | the life of one world: rounds, faults, crashes | `seed.rs`, many of them: `run.rs` |
//! | which faults | `weather.rs` |
//! | what all clients share: failures, history, clocks | `notes.rs` |
//! | bytes of the native protocol, answers by stream | `connection.rs` |
//! | statements: prepared, bound, as text | `session.rs` |
//! | writes, reads and batches of rows | `plain.rs`, against the model in `facts.rs` |
//! | conditional statements | `registers.rs`, judged by `order.rs` |
//! | counters | `tallies.rs` |
//! | pages of quiet data | `pages.rs` |
//! | changes of the schema | `schema.rs` |
//! | clients that break off, stall, flood or talk nonsense | `rude.rs` |
//! | what is left when all clients are gone | `leftovers.rs` |
//! | promises that are broken on purpose | `promises.rs` |

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
