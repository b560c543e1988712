//! One shard's storage, and all shards of a node as one thing: [`Engine`].

pub mod commitlog;
mod event;
pub mod memtable;
