//! One memory budget for everything that a shard caches: chunks of data, pages of indexes, parsed pages,
//! rows.
//!
//! Caches own their values and maps. The pool knows only the size of each item and the cost of getting it
//! back ([`MemoryPool`]); [`EvictionOrder`] chooses the items to evict when memory runs out. So the classes
//! of items compete, and no class has a reserved share.

mod memory_pool;
mod order;

pub use memory_pool::{CacheClass, ClassStats, MemberId, MemoryPool, Owner, PoolStats};
pub use order::{EvictionOrder, EvictionPolicy, SLOT_BYTES, Slot};
