//! The engine on one shard: its tables, its commit log, its memory.
//!
//! A write: checked, encoded, appended to the log and applied to the memtable in one turn, then waited for until
//! the log says it is durable. A task watches memory and log and seals the memtable that frees most.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::HashMap;
use catalog::TableSettings;
use model::{Mutation, PartitionRange, TableId, codec};
use reader::Tracer;
use runtime::{CpuGroup, JoinHandle, Shard};
use sstable::pool::MemoryPool;
use sstable::read::ChunkCache;

use crate::cache::RowCache;
use crate::commitlog::log::GATHERED_BYTES_MAX;
use crate::commitlog::{Appended, CommitLog, LogError};
use crate::compaction::{CompactionSetup, Manager, history_table};
use crate::error::EngineError;
use crate::large_data::LargeDataLog;
use crate::options::EngineOptions;
use crate::partition_locks::PartitionLocks;
use crate::read::admission::Admissions;
use crate::read::run::Bounds;
use crate::read::traced::{measured, tracer};
use crate::read::{Page, ReadCommand, run};
use crate::report::{MemoryUse, ShardReport, memory_text};
use crate::table::files_lock::FilesLock;
use crate::table::flush::FlushQueue;
use crate::table::validate::validate;
use crate::table::{LoggedMemtable, Table};
use runtime::Event;

/// How far memtables grow before the caches give way by as much.
const POOL_STEP_BYTES: usize = 64 * 1024;

/// How often periods and ages are looked at.
const TICK_US: u64 = 1_000_000;
/// How often the CPU shares of compactions are.
const CONTROL_US: u64 = 250_000;

/// See the head of this file.
pub struct EngineShard {
    shard: Shard,
    /// The log of everything but the schema.
    log: Rc<CommitLog>,
    /// What is kept to read faster; its budget is what memtables leave.
    pool: Rc<MemoryPool>,
    cache: Rc<ChunkCache>,
    rows: Rc<RowCache>,
    admissions: Admissions,
    tables: RefCell<HashMap<TableId, Rc<Table>>>,
    flushes: Rc<FlushQueue>,
    compactions: Rc<Manager>,
    /// Bytes of memtables, sealed ones included.
    dirty_bytes: Cell<usize>,
    /// Above this the largest memtable is sealed.
    dirty_bytes_soft: usize,
    /// Above this writes wait.
    dirty_bytes_max: usize,
    /// Memtables and caches together stay below this.
    cached_bytes_max: usize,
    /// Caches alone below this part of it.
    cached_part_max: Cell<f64>,
    /// Something is to be sealed, perhaps.
    pressure: Event,
    last_segment: Cell<u64>,
    /// Kept between writes for its memory.
    scratch: RefCell<Vec<u8>>,
    locks: PartitionLocks,
    /// Held while the history of compactions is being stored.
    pub(crate) history_saves: FilesLock,
    stopping: Cell<bool>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl EngineShard {
    /// `memory_bytes` is this shard's part: memtables take up to half of it, and with the caches together up to three
    /// quarters. The rest is for what reads, flushes and requests hold while they run.
    pub fn start(
        shard: &Shard,
        log: Rc<CommitLog>,
        host_id: [u8; 16],
        memory_bytes: u64,
        options: &EngineOptions,
        compaction: CompactionSetup,
    ) -> Rc<Self> {
        let reads = &options.reads;
        let admissions = Admissions::new(memory_bytes, reads.clone());
        let memory_bytes = usize::try_from(memory_bytes).expect("memory fits into memory");
        let cached_bytes_max = memory_bytes / 4 * 3;
        let pool = MemoryPool::new(cached_bytes_max, reads.eviction);
        let cache = ChunkCache::in_pool(&pool);
        cache.set_caches_index(reads.cache_index_pages);
        cache.seed(shard.random_u64());
        let rows = RowCache::in_pool(&pool);
        rows.set_on(reads.cache_rows);
        let (version, large_data) = (options.sstable_version, options.large_data.clone());
        let large_data = Rc::new(LargeDataLog::new(shard, large_data));
        let flushes = FlushQueue::new(shard.clone(), cache.clone(), host_id, version, large_data.clone());
        let compactions = Manager::new(shard, cache.clone(), host_id, version, large_data, compaction);
        let nudged = compactions.clone();
        flushes.on_flushed(move |table| nudged.nudge(table));
        let waited_for = compactions.clone();
        flushes.before_flush(move |table| {
            let (compactions, table) = (waited_for.clone(), table.clone());
            Box::pin(async move { compactions.wait_before_flush(&table).await })
        });
        let this = Rc::new(Self {
            shard: shard.clone(),
            compactions,
            log,
            pool,
            cache,
            rows,
            admissions,
            tables: RefCell::default(),
            flushes: flushes.clone(),
            dirty_bytes: Cell::new(0),
            dirty_bytes_soft: memory_bytes / 4,
            dirty_bytes_max: memory_bytes / 2,
            cached_bytes_max,
            cached_part_max: Cell::new(1.0),
            pressure: Event::new(),
            last_segment: Cell::new(0),
            scratch: RefCell::default(),
            locks: PartitionLocks::default(),
            history_saves: FilesLock::default(),
            stopping: Cell::new(false),
            tasks: RefCell::default(),
        });
        let known = Rc::downgrade(&this);
        this.admissions
            .explain_by(move || known.upgrade().map_or_else(String::new, |this| memory_text(&this.memory())));
        let watching = this.clone();
        let ticking = this.clone();
        let controlling = this.clone();
        let cleaning = this.clone();
        *this.tasks.borrow_mut() = vec![
            shard.spawn(CpuGroup::Memtable, flushes.run()),
            shard.spawn(CpuGroup::Memtable, async move { watching.watch().await }),
            shard.spawn(CpuGroup::Background, async move { ticking.tick().await }),
            shard.spawn(CpuGroup::Background, async move { controlling.control().await }),
            shard.spawn(CpuGroup::MemtableToCache, async move { cleaning.rows.clean(&cleaning.shard).await }),
        ];
        this
    }

    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    pub fn log(&self) -> &Rc<CommitLog> {
        &self.log
    }

    pub fn admissions(&self) -> &Admissions {
        &self.admissions
    }

    pub fn cache(&self) -> &Rc<ChunkCache> {
        &self.cache
    }

    pub fn row_cache(&self) -> &Rc<RowCache> {
        &self.rows
    }

    pub fn flushes(&self) -> &Rc<FlushQueue> {
        &self.flushes
    }

    pub fn compactions(&self) -> &Rc<Manager> {
        &self.compactions
    }

    /// `settings` are for its compaction; a table that is only read needs none.
    pub fn add_table(&self, table: Rc<Table>, settings: &TableSettings) {
        if !table.is_read_only() {
            self.compactions.set_table(&table, settings);
        }
        table.join_cache(&self.rows);
        self.tables.borrow_mut().insert(table.schema().id, table);
    }

    pub fn take_table(&self, id: TableId) -> Option<Rc<Table>> {
        self.tables.borrow_mut().remove(&id)
    }

    pub fn table(&self, id: TableId) -> Result<Rc<Table>, EngineError> {
        self.tables.borrow().get(&id).cloned().ok_or(EngineError::UnknownTable(id))
    }

    /// All tables, in the order of their names.
    pub fn tables(&self) -> Vec<Rc<Table>> {
        let mut tables: Vec<Rc<Table>> = self.tables.borrow().values().cloned().collect();
        tables.sort_by_cached_key(|table| table.schema().full_name());
        tables
    }

    /// Writes. Ends when the write is durable, as the log's sync mode defines it.
    ///
    /// After an error the write has not been acknowledged; it may have happened nevertheless if the log failed
    /// while writing it.
    pub async fn apply(&self, mutation: Mutation) -> Result<(), EngineError> {
        let started_us = self.shard.now_us();
        let (table, appended) = self.append(mutation).await?;
        appended.durable().await?;
        table.counters.writes.add_us(self.shard.now_us() - started_us);
        Ok(())
    }

    /// Writes to log and memtable; what is left of [`Self::apply`] is to wait until it is durable.
    async fn append(&self, mutation: Mutation) -> Result<(Rc<Table>, Appended), EngineError> {
        validate(&mutation)?;
        let id = mutation.schema.id;
        let mut entry = self.scratch.take();
        entry.clear();
        codec::encode(&mutation, &mut entry);
        let (table, appended) = loop {
            let table = self.table(id)?;
            table.check_writable()?;
            if self.dirty_bytes.get() >= self.dirty_bytes_max {
                self.wait_for_memory().await?;
                continue;
            }
            if !table.log.has_room(entry.len()) {
                self.pressure.signal();
                table.log.make_room(entry.len(), || self.cannot_flush()).await?;
                continue;
            }
            // From here to the memtable nothing waits: log and memtable agree on what comes before what.
            let appended = table.log.append(id, &entry);
            self.put(&table.active(), mutation, appended.position.segment);
            break (table, appended);
        };
        self.scratch.replace(entry);
        Ok((table, appended))
    }

    /// Reads part of one partition, lets `decide` say what to write to it, and writes that. Two of these never meet at
    /// a partition; the next one sees what this one wrote. Ends when the writes are durable; gives what was read.
    pub async fn read_and_write<E: From<EngineError>>(
        &self,
        command: &ReadCommand,
        decide: impl FnOnce(&Page) -> Result<Option<Vec<Mutation>>, E>,
    ) -> Result<Page, E> {
        let PartitionRange::Key(key) = &command.partitions else {
            return Err(EngineError::Invalid("a conditional write is to one partition".to_string()).into());
        };
        let guard = self.locks.lock(command.table, key.clone()).await;
        let page = self.read(command).await?;
        let mut last = None;
        for mutation in decide(&page)?.unwrap_or_default() {
            last = Some(self.append(mutation).await?.1);
        }
        drop(guard);
        if let Some(last) = last {
            // The log is written in order: what was appended before is durable with it.
            last.durable().await.map_err(EngineError::from)?;
        }
        Ok(page)
    }

    /// Writes to tables of one log, all or nothing: after a crash either all of it is there or nothing, since it
    /// is one chunk of the log. Otherwise as [`Self::apply`].
    pub async fn apply_together(&self, mutations: Vec<Mutation>) -> Result<(), EngineError> {
        let mut entries = vec![];
        for mutation in &mutations {
            validate(mutation)?;
            let mut entry = vec![];
            codec::encode(mutation, &mut entry);
            entries.push(entry);
        }
        // Each entry has its length in front of it; the log counts one.
        let bytes = entries.iter().map(|entry| entry.len() + 4).sum::<usize>().saturating_sub(4);
        let Some(first) = mutations.first() else { return Ok(()) };
        let log = self.table(first.schema.id)?.log.clone();
        loop {
            if self.dirty_bytes.get() >= self.dirty_bytes_max {
                self.wait_for_memory().await?;
            } else if !log.has_room(bytes) {
                self.pressure.signal();
                log.make_room(bytes, || self.cannot_flush()).await?;
            } else {
                break;
            }
        }
        let table_of = |mutation: &Mutation| {
            let table = self.table(mutation.schema.id)?;
            table.check_writable()?;
            Ok(table)
        };
        let tables: Result<Vec<_>, EngineError> = mutations.iter().map(table_of).collect();
        let mut appended = None;
        // From here to the end nothing waits, so that all entries get into the same chunk.
        for ((table, mutation), entry) in tables?.into_iter().zip(mutations).zip(entries) {
            assert!(Rc::ptr_eq(&table.log, &log), "what is written together has one log");
            let at = log.append(mutation.schema.id, &entry);
            self.put(&table.active(), mutation, at.position.segment);
            appended = Some(at);
        }
        match appended {
            Some(appended) => Ok(appended.durable().await?),
            None => Ok(()),
        }
    }

    /// Applies a write that a log of an earlier run held. It is in no log of this run until it is flushed.
    pub async fn apply_replayed(&self, mutation: Mutation) -> Result<(), EngineError> {
        let table = self.table(mutation.schema.id)?;
        while self.dirty_bytes.get() >= self.dirty_bytes_max {
            self.wait_for_memory().await?;
        }
        let active = table.active();
        let before = active.memtable.charged_bytes();
        active.memtable.apply(mutation);
        self.grown(before, active.memtable.charged_bytes());
        Ok(())
    }

    #[inline]
    fn put(&self, active: &LoggedMemtable, mutation: Mutation, segment: u64) {
        let before = active.memtable.charged_bytes();
        active.memtable.apply(mutation);
        active.uses.borrow_mut().add(segment);
        if active.first_write_us.get().is_none() {
            active.first_write_us.set(Some(self.shard.now_us()));
        }
        self.grown(before, active.memtable.charged_bytes());
        if self.last_segment.replace(segment) != segment {
            self.pressure.signal();
        }
    }

    #[inline]
    fn grown(&self, before: usize, after: usize) {
        let before_all = self.dirty_bytes.get();
        let dirty = before_all + after - before;
        self.dirty_bytes.set(dirty);
        if dirty / POOL_STEP_BYTES != before_all / POOL_STEP_BYTES {
            self.give_way();
        }
        if dirty > self.dirty_bytes_soft {
            self.pressure.signal();
        }
    }

    async fn wait_for_memory(&self) -> Result<(), EngineError> {
        if self.stopping.get() {
            return Err(EngineError::Stopped);
        }
        if let Some(why) = self.flushes.no_space() {
            return Err(EngineError::NoSpace(why));
        }
        if let Some(failed) = self.flushes.log_failed() {
            return Err(failed.into());
        }
        let ended = self.flushes.ended.next();
        // The count may be older than the last flush; only what is there now can be waited for.
        self.recount_dirty();
        if self.dirty_bytes.get() >= self.dirty_bytes_max {
            self.pressure.signal();
            ended.await;
            self.recount_dirty();
        }
        Ok(())
    }

    /// Why waiting for a flush would be in vain; otherwise memtables are looked at.
    fn cannot_flush(&self) -> Option<LogError> {
        self.pressure.signal();
        let why = self.flushes.no_space()?;
        let source = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
        let error = runtime::FileError::new("flush", std::path::Path::new("memtables"), source);
        Some(LogError::NoSpace(Arc::new(error)))
    }

    fn recount_dirty(&self) {
        self.dirty_bytes.set(self.tables.borrow().values().map(|table| table.memtable_bytes()).sum());
        self.give_way();
    }

    /// Leaves the caches what memtables do not take. A single write may take more than there is.
    fn give_way(&self) {
        let left = self.cached_bytes_max.saturating_sub(self.dirty_bytes.get());
        let max = (self.cached_bytes_max as f64 * self.cached_part_max.get()) as usize;
        self.pool.set_budget_bytes(left.min(max));
    }

    /// Which part of the most that caches may take they hold.
    pub fn cached_part(&self) -> f64 {
        self.pool.stats().used_bytes() as f64 / self.cached_bytes_max.max(1) as f64
    }

    /// Caches may take no more than this part of the most, between 0 and 1: the process takes more than it should.
    pub fn set_cached_part_max(&self, part: f64) {
        self.cached_part_max.set(part.clamp(0.0, 1.0));
        self.give_way();
    }

    /// Whether the shard is being closed.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Reads the next page of what this shard has.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, EngineError> {
        let Some(trace) = &command.trace else { return self.read_page(command, None).await };
        let tracer = tracer(&self.shard, trace);
        // On the heap: it is rare, and all reads would be as large.
        let (page, tally) = Box::pin(measured(self, self.read_page(command, Some(tracer.clone())))).await;
        if let Ok(page) = &page {
            let (rows, dead) = (page.row_count(), page.tombstones);
            tracer.note(format!("Read {rows} live rows and {dead} tombstones"));
        }
        tally.tell(&tracer);
        page
    }

    async fn read_page(&self, command: &ReadCommand, trace: Option<Tracer>) -> Result<Page, EngineError> {
        let table = self.table(command.table)?;
        let started_us = self.shard.now_us();
        let (parked, permit) = match table.parked.take(command) {
            Some((read, permit)) => (Some(read), permit),
            None => (None, self.admissions.admit(&self.shard, &table, command).await?),
        };
        if let Some(trace) = &trace {
            trace.note(match &parked {
                Some(_) => "Going on with the readers that the last page left open".to_string(),
                None => {
                    let (name, waiting) = permit.semaphore();
                    let waited_us = self.shard.now_us() - started_us;
                    format!(
                        "Admitted by semaphore {name} after {waited_us} us in its queue; {waiting} wait there"
                    )
                }
            });
        }
        let bounds = Bounds {
            permit: Some(permit.clone()),
            deadline_us: started_us.saturating_add(self.admissions.timeout_us(command)),
            tombstones_max: self.admissions.tombstones_max(&table),
            trace,
        };
        let opened_at = table.parked.opened_at();
        let read = run::read_page(&self.shard, &table, command, &bounds, parked).await;
        let (page, open) = read.inspect_err(|error| {
            if let EngineError::Read(error) = error {
                self.admissions.failed(&self.shard, &permit, error);
            }
        })?;
        let now_us = self.shard.now_us();
        table.counters.reads.add_us(now_us - started_us);
        // The old way of reading backwards begins each page anew: that is what it is there to show.
        let open = open.filter(|_| command.buffered_reverse_bytes_max.is_none());
        if let (Some(open), Some(next)) = (open, &page.next) {
            let snapshot_bytes = match permit.shared_items() {
                0 => 0,
                items => self.rows.bytes_of_entries(items),
            };
            table.parked.park(command, next, (open, opened_at), permit.clone(), snapshot_bytes, now_us);
        }
        if permit.take_evicted() {
            // Their memory is to be free not only by the books.
            self.tables.borrow().values().for_each(|table| table.parked.sweep(now_us));
        }
        Ok(page)
    }

    /// Flushes the tables, all if none is named; what has been written before is in SSTables afterwards.
    pub async fn flush(&self, tables: &[TableId]) -> Result<(), EngineError> {
        let wanted = |table: &Rc<Table>| tables.is_empty() || tables.contains(&table.schema().id);
        let tickets: Vec<_> = self
            .tables()
            .iter()
            .filter(|table| wanted(table))
            .map(|table| self.flushes.seal(table))
            .collect();
        for ticket in tickets {
            ticket.flushed().await?;
        }
        Ok(())
    }

    /// Seals memtables when memory or log ask for it.
    async fn watch(self: Rc<Self>) {
        while !self.stopping.get() {
            let pressure = self.pressure.next();
            self.recount_dirty();
            let sealed_one = self.relieve_memory();
            self.relieve_log();
            if !sealed_one {
                pressure.await;
            }
            // Writes of this turn come first.
            self.shard.yield_now().await;
        }
    }

    /// Seals the largest memtable if there is too much in memory that is not on its way out.
    fn relieve_memory(&self) -> bool {
        let active_bytes = self.dirty_bytes.get().saturating_sub(self.flushes.queued_bytes());
        if active_bytes <= self.dirty_bytes_soft {
            return false;
        }
        let tables = self.tables();
        let largest = tables.iter().max_by_key(|table| table.active().memtable.charged_bytes());
        let Some(largest) = largest.filter(|table| !table.active().memtable.is_empty()) else { return false };
        drop(self.flushes.seal(largest));
        true
    }

    /// Seals the memtables that keep old log segments.
    fn relieve_log(&self) {
        for table in self.tables() {
            let Some(boundary) = table.log.flush_boundary() else { continue };
            let oldest = table.active().uses.borrow().oldest();
            if oldest.is_some_and(|oldest| oldest < boundary) {
                drop(self.flushes.seal(&table));
            }
        }
    }

    /// Looks at periods, and lets the watcher look at everything else.
    async fn tick(self: Rc<Self>) {
        while !self.stopping.get() {
            self.shard.sleep_us(TICK_US).await;
            let now_us = self.shard.now_us();
            for table in self.tables() {
                table.parked.sweep(now_us);
                let period_us = u64::from(table.schema().options.memtable_flush_period_ms) * 1000;
                let since_us = table.active().first_write_us.get();
                if period_us > 0 && since_us.is_some_and(|since_us| now_us >= since_us + period_us) {
                    drop(self.flushes.seal(&table));
                }
            }
            self.pressure.signal();
            self.compactions.tick();
            self.look_at_disk().await;
            if self.shard.id() == 0 && self.compactions.history().has_unsaved() {
                let shard = self.shard.clone();
                let save = async move { history_table::save(&shard).await };
                self.shard.spawn(CpuGroup::Maintenance, save).detach();
            }
        }
    }

    /// Tells compactions how much is free on the disk.
    async fn look_at_disk(&self) {
        let dir = self.tables.borrow().values().next().map(|table| table.dir.clone());
        // Without an answer the last one counts.
        if let Some(dir) = dir
            && let Ok(free_bytes) = self.shard.files().free_bytes(&dir).await
        {
            self.compactions.set_free_bytes(free_bytes);
            self.log.set_free_bytes(free_bytes / u64::from(self.shard.shard_count()));
            self.flushes.set_free_bytes(free_bytes);
        }
    }

    async fn control(self: Rc<Self>) {
        while !self.stopping.get() {
            self.shard.sleep_us(CONTROL_US).await;
            self.compactions.control(2 * self.dirty_bytes_max as u64);
        }
    }

    pub fn report(&self) -> ShardReport {
        let (compactions, compactions_running) = self.compactions.stats();
        ShardReport {
            compactions,
            compactions_running,
            dirty_bytes: self.dirty_bytes.get(),
            log_bytes: self.log.disk_bytes(),
            log_appended_bytes: self.log.appended_bytes(),
            sstables: self.tables.borrow().values().map(|table| table.sstables().len()).sum(),
            flushes: self.flushes.stats(),
            cache: self.cache.stats(),
            row_cache: self.rows.stats(),
            disk_reads: self.cache.disk_reads(),
            reads: self.admissions.stats(),
            runtime: self.shard.stats(),
            groups: self.shard.group_stats(),
            io: self.shard.io_stats(),
            disk_under_way_ns: self.shard.disk().under_way_ns(),
        }
    }

    /// Where this shard's memory is, by class.
    pub fn memory(&self) -> Vec<MemoryUse> {
        let pool = self.pool.stats();
        let budget = Some(pool.budget_bytes as u64);
        let tables = self.tables.borrow();
        let memtables: usize = tables.values().map(|table| table.memtable_bytes()).sum();
        let of_sstables = |table: &Rc<Table>| -> usize {
            table.sstables().iter().map(|sstable| sstable.memory_bytes()).sum()
        };
        let sstables: usize = tables.values().map(of_sstables).sum();
        let reads = self.admissions.stats();
        let used: u64 = reads.iter().map(|(_, _, stats)| stats.used_bytes).sum();
        let limit: u64 = reads.iter().map(|(_, limits, _)| limits.memory_bytes).sum();
        vec![
            MemoryUse::new("memtables", memtables as u64, Some(self.dirty_bytes_max as u64)),
            MemoryUse::new("row_cache", pool.rows.bytes as u64, budget),
            MemoryUse::new("index_pages", pool.index_pages.bytes as u64, budget),
            MemoryUse::new("parsed_index_pages", pool.index_entries.bytes as u64, budget),
            MemoryUse::new("data_chunks", pool.chunks.bytes as u64, budget),
            MemoryUse::new("sstables", sstables as u64, None),
            MemoryUse::new("read_permits", used, Some(limit)),
            MemoryUse::new("commitlog_buffers", self.log.gathered_bytes(), Some(GATHERED_BYTES_MAX as u64)),
        ]
    }

    /// Stops the tasks; writes that wait are refused. The log is closed by the caller.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.compactions.stop().await;
        self.flushes.stop();
        self.pressure.signal();
        self.flushes.ended.signal();
        let tasks = self.tasks.take();
        // The ticker sleeps; it is dropped. The others end by themselves.
        for task in tasks.into_iter().take(2) {
            task.await;
        }
    }

    /// Who works on this shard, for calls from elsewhere.
    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }
}
