//! The report of a shard, and the use of its memory.

use std::rc::Rc;

use reports::MemoryClass;

use super::EngineShard;
use crate::commitlog::log::GATHERED_BYTES_MAX;
use crate::report::ShardReport;
use crate::table::Table;

impl EngineShard {
    pub fn report(&self) -> ShardReport {
        let (compactions, compactions_running) = self.compactions.stats();
        ShardReport {
            compactions,
            compactions_running,
            utilization: self.utilization.get(),
            dirty_bytes: self.memory.dirty_bytes(),
            log_bytes: self.log.disk_bytes(),
            log_appended_bytes: self.log.appended_bytes(),
            log_syncs: self.log.syncs(),
            sstables: self.tables.borrow().values().map(|table| table.sstables().len()).sum(),
            flushes: self.flushes.stats(),
            cache: self.cache.stats(),
            row_cache: self.rows.stats(),
            disk_reads: self.cache.disk_reads(),
            reads: self.admissions.stats(),
            runtime: self.shard.stats(),
            groups: self.shard.group_stats(),
            io: self.shard.io_stats(),
            disk_under_way_ns: self.shard.disk().inflight_ns(),
        }
    }

    /// Where this shard's memory is, by class.
    pub fn memory(&self) -> Vec<MemoryClass> {
        let pool = self.memory.pool.stats();
        let budget = Some(pool.budget_bytes as u64);
        let tables = self.tables.borrow();
        let memtables: usize = tables.values().map(|table| table.memtables.bytes()).sum();
        let of_sstables = |table: &Rc<Table>| -> usize {
            table.sstables().iter().map(|sstable| sstable.memory_bytes()).sum()
        };
        let sstables: usize = tables.values().map(of_sstables).sum();
        let reads = self.admissions.stats();
        let used: u64 = reads.iter().map(|(_, _, stats)| stats.used_bytes).sum();
        let limit: u64 = reads.iter().map(|(_, limits, _)| limits.memory_bytes).sum();
        vec![
            MemoryClass::new("memtables", memtables as u64, Some(self.memory.limits.max_bytes as u64)),
            MemoryClass::new("row_cache", pool.rows.bytes as u64, budget),
            MemoryClass::new("index_pages", pool.index_pages.bytes as u64, budget),
            MemoryClass::new("parsed_index_pages", pool.index_entries.bytes as u64, budget),
            MemoryClass::new("data_chunks", pool.chunks.bytes as u64, budget),
            MemoryClass::new("sstables", sstables as u64, None),
            MemoryClass::new("read_permits", used, Some(limit)),
            MemoryClass::new("commitlog_buffers", self.log.gathered_bytes(), Some(GATHERED_BYTES_MAX as u64)),
        ]
    }
}
