//! Simulates whole nodes in one thread from one seed, and compares them with a model: acknowledged writes are
//! present, whatever happens.
//!
//! - [`seed`]: the life of one world: rounds of operations, faults, crashes, restarts with other numbers of
//!   shards;
//! - [`ops`]: the operations of a round, as concurrent tasks;
//! - [`maintenance`]: operations other than reads and writes: loads, rewrites, caches that shrink;
//! - [`corruption`]: files that are damaged between two runs;
//! - [`client`]: what a client of the node knows: its tables, what was acknowledged, which errors it has a
//!   reason for;
//! - [`table_model`]: the model of one table, and how it decides what must, may and must not be there;
//! - [`content`]: what a table shows, and what the model says it should;
//! - [`logged_batches`]: batches of writes to several tables and shards;
//! - [`reads`]: reads of several pages, from random shards;
//! - [`registers`]: conditional writes and counters of tasks that compete; their histories:
//!   [`register_history`];
//! - [`linear`]: whether concurrent operations have an order that explains their answers;
//! - [`failure`]: the checkers, and what a seed fails with;
//! - [`promises`]: those that can be broken on purpose, to see their checkers fail;
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
pub mod corruption;
pub mod failure;
pub mod indexes;
pub mod linear;
pub mod logged_batches;
pub mod maintenance;
pub mod ops;
pub mod promises;
pub mod reads;
pub mod register_history;
pub mod registers;
pub mod seed;
pub mod serving;
pub mod table_model;
pub mod trial;

/// Allocation takes a fifth of the simulation's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
