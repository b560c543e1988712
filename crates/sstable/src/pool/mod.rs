//! One budget of memory for everything that a shard keeps to read faster: chunks of data, pages of indexes, parsed
//! pages, and whatever joins later.
//!
//! Caches keep their values and their maps; the pool knows of each item only its size and what it costs to get it
//! back ([`MemoryPool`]), and [`EvictionOrder`] decides who goes when there is no room. So the kinds of items
//! compete, and none has a share of its own.

mod memory_pool;
mod order;

pub use memory_pool::{CacheClass, ClassStats, MemberId, MemoryPool, Owner, PoolStats};
pub use order::{EvictionOrder, EvictionPolicy, SLOT_BYTES, Slot};
