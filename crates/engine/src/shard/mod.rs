//! The engine on one shard: its tables, its commit log, its memory, and its background tasks.
//!
//! - `write`: validates and encodes a write, appends it to the log and applies it to the memtable in one
//!   turn, then waits until it is durable;
//! - `batch`: batches over several shards;
//! - `read`: resumes a parked read, or admits and opens a new one;
//! - `memory`: the memory of memtables and caches, and its limits;
//! - `flush_policy`: decides when memtables are flushed;
//! - `tick`: periodic work;
//! - `compaction_history`: ended compactions, stored for a week;
//! - `report`: the shard's report.

mod batch;
mod compaction_history;
mod flush_policy;
mod memory;
mod read;
mod report;
mod tick;
mod write;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::HashMap;
use catalog::TableSettings;
use model::TableId;
use runtime::{CpuGroup, Event, JoinHandle, Mutex, Shard};
use sstable::pool::{CacheClass, MemoryPool};
use sstable::read::ChunkCache;

use crate::cache::RowCache;
use crate::commitlog::CommitLog;
use crate::compaction::{CompactionSetup, Manager};
use crate::error::EngineError;
use crate::flush::FlushQueue;
use crate::options::EngineOptions;
use crate::partition_locks::PartitionLocks;
use crate::read::admission::Admissions;
use crate::table::Table;
use crate::table::large_data_log::LargeDataLog;
use batch::{Batches, Links};
use memory::Memory;

/// See the head of this file.
pub struct EngineShard {
    shard: Shard,
    /// The log of all tables except the system tables.
    log: Rc<CommitLog>,
    cache: Rc<ChunkCache>,
    rows: Rc<RowCache>,
    admissions: Admissions,
    tables: RefCell<HashMap<TableId, Rc<Table>>>,
    flushes: Rc<FlushQueue>,
    compactions: Rc<Manager>,
    memory: Memory,
    /// Signalled when a memtable may have to be sealed.
    pressure: Event,
    /// Signalled when writes may go on after a pause.
    resumed: Event,
    /// The log segment of the last write.
    last_segment: Cell<u64>,
    /// Buffer for encoded entries, kept to reuse its memory.
    scratch: RefCell<Vec<u8>>,
    locks: PartitionLocks,
    batches: Batches,
    links: Rc<Links>,
    /// Held while the compaction history is being stored.
    history_saves: Mutex,
    stopping: Cell<bool>,
    /// The part of the last second in which tasks ran, 0 to 1.
    utilization: Cell<f64>,
    tasks: RefCell<Option<Tasks>>,
}

/// The shard's own tasks. Dropping one cancels it.
struct Tasks {
    flush_queue: JoinHandle<()>,
    flush_policy: JoinHandle<()>,
    ticker: JoinHandle<()>,
    compaction_shares: JoinHandle<()>,
    row_cache: JoinHandle<()>,
}

impl EngineShard {
    /// `memory_bytes` is this shard's part of the node's memory.
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
        let pool = MemoryPool::new(memory::cached_bytes_max(memory_bytes), reads.eviction);
        let cache = ChunkCache::in_pool(&pool);
        cache.set_caches_index(reads.cache_index_pages);
        cache.seed(shard.random_u64());
        let rows = RowCache::in_pool(&pool);
        rows.set_on(reads.cache_rows);
        let (form, large_data) = (options.sstable_form(), options.large_data);
        let large_data = Rc::new(LargeDataLog::new(shard, large_data));
        let flushes = FlushQueue::new(shard.clone(), cache.clone(), host_id, form, large_data.clone());
        let compactions = Manager::new(shard, cache.clone(), host_id, form, large_data, compaction);
        let nudged = compactions.clone();
        flushes.on_flushed(move |table| nudged.nudge(table));
        let waited_for = compactions.clone();
        flushes.before_flush(move |table| {
            let (compactions, table) = (waited_for.clone(), table.clone());
            Box::pin(async move { compactions.wait_before_flush(&table).await })
        });
        let links = Links::new(shard);
        log.connect(links.clone());
        let this = Rc::new(Self {
            shard: shard.clone(),
            compactions,
            log,
            cache,
            rows,
            admissions,
            tables: RefCell::default(),
            flushes,
            memory: Memory::new(memory_bytes, pool),
            pressure: Event::new(),
            resumed: Event::new(),
            last_segment: Cell::new(0),
            scratch: RefCell::default(),
            locks: PartitionLocks::default(),
            batches: Batches::default(),
            links,
            history_saves: Mutex::default(),
            stopping: Cell::new(false),
            utilization: Cell::new(0.0),
            tasks: RefCell::default(),
        });
        let known = Rc::downgrade(&this);
        this.admissions.explain_by(move || {
            known.upgrade().map_or_else(String::new, |this| reports::memory_text(&this.memory()))
        });
        *this.tasks.borrow_mut() = Some(this.start_tasks());
        this
    }

    fn start_tasks(self: &Rc<Self>) -> Tasks {
        let (shard, cleaned) = (&self.shard, self.clone());
        let clean = async move { cleaned.rows.clean(&cleaned.shard).await };
        Tasks {
            flush_queue: shard.spawn(CpuGroup::Memtable, self.flushes.clone().run()),
            flush_policy: shard.spawn(CpuGroup::Memtable, self.clone().watch()),
            ticker: shard.spawn(CpuGroup::Background, self.clone().tick()),
            compaction_shares: shard.spawn(CpuGroup::Background, self.clone().control_compactions()),
            row_cache: shard.spawn(CpuGroup::MemtableToCache, clean),
        }
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

    /// Evicts all pages of indexes or all chunks from memory.
    pub fn evict(&self, class: CacheClass) {
        self.memory.pool.evict_class(class);
    }

    pub fn flushes(&self) -> &Rc<FlushQueue> {
        &self.flushes
    }

    pub fn compactions(&self) -> &Rc<Manager> {
        &self.compactions
    }

    /// `settings` are used for its compaction; a table for reading only does not need any.
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

    /// Whether the shard is being closed.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Flushes the tables, or all if none is given; earlier writes are in SSTables afterwards.
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

    /// Waits until other shards know which entries of their logs this shard has flushed.
    pub async fn settle(&self) {
        self.links.settle().await;
    }

    /// Stops the tasks; waiting writes are refused. The caller closes the log.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.stop_batches();
        self.compactions.stop().await;
        self.flushes.stop();
        self.pressure.signal();
        self.resumed.signal();
        self.flushes.ended.signal();
        let Some(tasks) = self.tasks.take() else { return };
        tasks.flush_queue.await;
        tasks.flush_policy.await;
        // These tasks sleep, and are cancelled.
        drop((tasks.ticker, tasks.compaction_shares, tasks.row_cache));
    }

    /// The engine of this shard, for calls from other shards and threads.
    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }
}
