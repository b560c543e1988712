//! Whole nodes in one thread from one seed, against a model: what a client was promised is there, whatever happens.
//!
//! - [`seed`]: the life of one world: rounds of operations, faults, crashes, restarts with other numbers of shards;
//! - [`ops`]: the operations of a round, as tasks that run at the same time;
//! - [`upkeep`]: those of them that are no reads and writes: loads, rewrites, caches that shrink;
//! - [`decay`]: files that are damaged between two runs;
//! - [`client`]: what a client of the node knows: its tables, what was acknowledged, which errors it has a reason for;
//! - [`known`]: the model of one table, and how it decides what must, may and must not be there;
//! - [`content`]: what a table shows, and what the model says it should;
//! - [`registers`]: conditional writes and counters of tasks that compete;
//! - [`linear`]: whether concurrent operations have an order that explains their answers;
//! - [`failure`]: the checkers, and what a seed fails with;
//! - [`promises`]: those that can be broken on purpose, to see their checkers fail;
//! - [`trial`]: one seed, once or twice, with its panics;
//! - [`batch`]: many seeds on several threads.
//!
//! - [`serving`]: the CQL server and its clients, in place of an engine alone.
//!
//! The binary `sim` runs seeds; the binary `ledger` kills real processes.
//!
//! How the check is exact although a crash leaves writes in doubt: every mutation, beside its random part that
//! collides with others, leaves a mark in its partition that no other mutation has and no deletion reaches. Who
//! sees the mark knows that the mutation is there; then all of it must be, and if the mark is not there, nothing
//! may be. So the doubt is settled write by write, and everything else is a comparison for equality.

pub mod batch;
pub mod client;
pub mod content;
pub mod decay;
pub mod failure;
pub mod indexes;
pub mod known;
pub mod linear;
pub mod ops;
pub mod promises;
pub mod registers;
pub mod seed;
pub mod serving;
pub mod trial;
pub mod upkeep;

/// A fifth of the simulation's time is the allocator's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
