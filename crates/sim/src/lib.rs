//! Simulates whole nodes in one thread from one seed, and compares them with a model: acknowledged writes are
//! present, whatever happens.
//!
//! - [`seed`]: the life of one world: rounds of operations, faults, crashes, restarts with other numbers of
//!   shards;
//! - [`ops`]: the operations of a round, as concurrent tasks;
//! - [`upkeep`]: operations other than reads and writes: loads, rewrites, caches that shrink;
//! - [`decay`]: files that are damaged between two runs;
//! - [`client`]: the state of a client: its tables, acknowledged writes, errors that have a reason;
//! - [`known`]: the model of one table, and how it decides which writes must, may and must not be present;
//! - [`content`]: the content of a table, read and expected;
//! - [`registers`]: conditional writes and counters of competing tasks;
//! - [`linear`]: linearizability of concurrent operations;
//! - [`failure`]: the checkers, and the failure of a seed;
//! - [`promises`]: promises that can be broken on purpose, to see their checkers fail;
//! - [`trial`]: one seed, once or twice, with its panics;
//! - [`batch`]: many seeds on several threads.
//!
//! - [`serving`]: the CQL server and its clients, instead of an engine alone.
//!
//! The binary `sim` runs seeds; the binary `ledger` kills real processes.
//!
//! The check is exact although a crash leaves writes uncertain. Every mutation has a random part that
//! collides with others, and a mark in its partition that no other mutation has and no deletion covers. If
//! the mark is present, all of the mutation must be; if not, none of it may be. Uncertainty is thus settled
//! write by write, and everything else is compared for equality.

pub mod batch;
pub mod client;
pub mod content;
pub mod decay;
pub mod failure;
pub mod known;
pub mod linear;
pub mod ops;
pub mod promises;
pub mod registers;
pub mod seed;
pub mod serving;
pub mod trial;
pub mod upkeep;

/// Allocation takes a fifth of the simulation's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
