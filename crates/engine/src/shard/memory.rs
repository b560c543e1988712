//! Division of a shard's memory: memtables up to one half, memtables and caches together up to three
//! quarters. The rest is for running reads, flushes and requests.
//!
//! Caches shrink as memtables grow, in steps.

use std::cell::Cell;
use std::rc::Rc;

use sstable::pool::MemoryPool;

use super::EngineShard;
use super::flush_policy::DirtyLimits;

/// Caches shrink each time that memtables have grown by this.
const POOL_STEP_BYTES: usize = 64 * 1024;

/// Limit of memtables and caches together, from a shard's memory.
pub(super) fn cached_bytes_max(memory_bytes: usize) -> usize {
    memory_bytes / 4 * 3
}

/// The memory of a shard's memtables and caches, and its limits.
pub(super) struct Memory {
    /// The memory of the caches; its budget is the memory that memtables leave.
    pub(super) pool: Rc<MemoryPool>,
    /// Bytes of memtables, including sealed ones.
    dirty_bytes: Cell<usize>,
    pub(super) limits: DirtyLimits,
    cached_bytes_max: usize,
    /// Limit of the caches alone, as a fraction of `cached_bytes_max`.
    cached_part_max: Cell<f64>,
    /// Writes wait, whatever the memory is.
    pub(super) is_paused: Cell<bool>,
}

impl Memory {
    pub(super) fn new(memory_bytes: usize, pool: Rc<MemoryPool>) -> Self {
        Self {
            pool,
            dirty_bytes: Cell::new(0),
            limits: DirtyLimits::of(memory_bytes),
            cached_bytes_max: cached_bytes_max(memory_bytes),
            cached_part_max: Cell::new(1.0),
            is_paused: Cell::new(false),
        }
    }

    #[inline]
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes.get()
    }

    /// Whether writes wait for a flush, or for the end of a pause.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.dirty_bytes.get() >= self.limits.max_bytes || self.is_paused.get()
    }

    /// Records that a memtable has changed from `before` to `after` bytes. Returns whether one should be
    /// sealed.
    #[inline]
    pub(super) fn grown(&self, before: usize, after: usize) -> bool {
        let before_all = self.dirty_bytes.get();
        let dirty = before_all + after - before;
        self.dirty_bytes.set(dirty);
        if dirty / POOL_STEP_BYTES != before_all / POOL_STEP_BYTES {
            self.shrink_caches();
        }
        dirty > self.limits.soft_bytes
    }

    pub(super) fn set_dirty_bytes(&self, bytes: usize) {
        self.dirty_bytes.set(bytes);
        self.shrink_caches();
    }

    /// Sets the budget of the caches to what memtables leave. A single write may exceed all memory.
    fn shrink_caches(&self) {
        let left = self.cached_bytes_max.saturating_sub(self.dirty_bytes.get());
        let max = (self.cached_bytes_max as f64 * self.cached_part_max.get()) as usize;
        self.pool.set_budget_bytes(left.min(max));
    }
}

impl EngineShard {
    /// Recounts the bytes of memtables after flushes have freed some.
    pub(super) fn recount_dirty(&self) {
        let bytes = self.tables.borrow().values().map(|table| table.memtables.bytes()).sum();
        self.memory.set_dirty_bytes(bytes);
    }

    /// The memory used by the caches, as a fraction of their maximum.
    pub fn cached_part(&self) -> f64 {
        let memory = &self.memory;
        memory.pool.stats().used_bytes() as f64 / memory.cached_bytes_max.max(1) as f64
    }

    /// Limits the caches to this fraction (0 to 1) of their maximum, because the process exceeds its memory
    /// limit.
    pub fn set_cached_part_max(&self, part: f64) {
        self.memory.cached_part_max.set(part.clamp(0.0, 1.0));
        self.memory.shrink_caches();
    }
}
