//! What a shard's memory is for: memtables up to half of it, memtables and caches together up to three quarters. The
//! rest is for what reads, flushes and requests hold while they run.
//!
//! Caches shrink as memtables grow, in steps.

use std::cell::Cell;
use std::rc::Rc;

use sstable::pool::MemoryPool;

use super::EngineShard;
use super::flush_policy::DirtyLimits;

/// Caches shrink each time that memtables have grown by this.
const POOL_STEP_BYTES: usize = 64 * 1024;

/// Memtables and caches together stay below this, of a shard's memory.
pub(super) fn cached_bytes_max(memory_bytes: usize) -> usize {
    memory_bytes / 4 * 3
}

/// What memtables and caches of a shard hold, and may.
pub(super) struct Memory {
    /// What is kept to read faster; its budget is what memtables leave.
    pub(super) pool: Rc<MemoryPool>,
    /// Bytes of memtables, sealed ones included.
    dirty_bytes: Cell<usize>,
    pub(super) limits: DirtyLimits,
    cached_bytes_max: usize,
    /// Caches alone stay below this part of it.
    cached_part_max: Cell<f64>,
}

impl Memory {
    pub(super) fn new(memory_bytes: usize, pool: Rc<MemoryPool>) -> Self {
        Self {
            pool,
            dirty_bytes: Cell::new(0),
            limits: DirtyLimits::of(memory_bytes),
            cached_bytes_max: cached_bytes_max(memory_bytes),
            cached_part_max: Cell::new(1.0),
        }
    }

    #[inline]
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes.get()
    }

    /// Whether writes wait for a flush.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.dirty_bytes.get() >= self.limits.max_bytes
    }

    /// A memtable had `before` bytes and has `after`. Gives whether one is to be sealed.
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

    /// Leaves the caches what memtables do not take. A single write may take more than there is.
    fn shrink_caches(&self) {
        let left = self.cached_bytes_max.saturating_sub(self.dirty_bytes.get());
        let max = (self.cached_bytes_max as f64 * self.cached_part_max.get()) as usize;
        self.pool.set_budget_bytes(left.min(max));
    }
}

impl EngineShard {
    /// Counts the bytes of memtables anew: flushes have freed some.
    pub(super) fn recount_dirty(&self) {
        let bytes = self.tables.borrow().values().map(|table| table.memtables.bytes()).sum();
        self.memory.set_dirty_bytes(bytes);
    }

    /// Which part of the most that caches may take they hold.
    pub fn cached_part(&self) -> f64 {
        let memory = &self.memory;
        memory.pool.stats().used_bytes() as f64 / memory.cached_bytes_max.max(1) as f64
    }

    /// Caches may take no more than this part of the most, between 0 and 1: the process takes more than it should.
    pub fn set_cached_part_max(&self, part: f64) {
        self.memory.cached_part_max.set(part.clamp(0.0, 1.0));
        self.memory.shrink_caches();
    }
}
