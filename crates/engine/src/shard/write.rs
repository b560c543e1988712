//! Writes: validated, encoded, appended to the log and applied to the memtable in one turn; then they wait
//! until the log is durable.

use std::rc::Rc;
use std::sync::Arc;

use base::broken;
use model::{Mutation, PartitionKey, PartitionRange, TableId, codec};

use super::EngineShard;
use crate::commitlog::format::split_id;
use crate::commitlog::{Appended, LogError};
use crate::error::EngineError;
use crate::partition_locks::PartitionGuard;
use crate::read::{Page, ReadCommand};
use crate::table::Table;
use crate::table::validate::validate;

impl EngineShard {
    /// Applies a write. Returns when it is durable, as the log's sync mode defines it.
    ///
    /// After an error the write has not been acknowledged. It may have happened nevertheless, if the log
    /// failed while writing it.
    pub async fn apply(&self, mutation: Mutation) -> Result<(), EngineError> {
        let started_us = self.shard.now_us();
        let (table, appended) = self.append(mutation).await?;
        appended.durable().await?;
        table.counters.writes.add_us(self.shard.now_us() - started_us);
        Ok(())
    }

    /// Appends to the log and applies to the memtable; the rest of [`Self::apply`] waits for durability.
    async fn append(&self, mutation: Mutation) -> Result<(Rc<Table>, Appended), EngineError> {
        validate(&mutation)?;
        if broken::is("write_accepted") && self.shard.random_u64().is_multiple_of(64) {
            return Err(EngineError::NoSpace("on purpose".to_string()));
        }
        let id = mutation.schema.id;
        let mut entry = self.scratch.take();
        entry.clear();
        codec::encode(&mutation, &mut entry);
        let (table, appended) = loop {
            let table = self.table(id)?;
            table.check_writable()?;
            if self.memory.is_full() {
                self.wait_for_memory().await?;
                continue;
            }
            if !table.log.has_room(entry.len()) {
                self.pressure.signal();
                table.log.make_room(entry.len(), || self.cannot_flush()).await?;
                continue;
            }
            // There is no await from here to the memtable, so log and memtable have the same order.
            let appended = table.log.append(id, &entry);
            self.put(&table, mutation, appended.position.segment);
            break (table, appended);
        };
        self.scratch.replace(entry);
        Ok((table, appended))
    }

    /// Takes the lock of a partition of this shard.
    pub async fn lock_partition(&self, table: TableId, key: PartitionKey) -> PartitionGuard<'_> {
        self.locks.lock(table, key).await
    }

    /// Reads a part of one partition, lets `decide` return the mutations, and applies them, all or nothing
    /// also after a crash. Calls for the same partition run one at a time; each sees the writes of the
    /// previous one. Returns the page that was read, when the writes are durable.
    ///
    /// Mutations of other partitions and tables, also on other shards, may be among them; those of other
    /// shards are applied after the lock is released.
    pub async fn read_modify_write<E: From<EngineError>>(
        self: &Rc<Self>,
        command: &ReadCommand,
        decide: impl FnOnce(&Page) -> Result<Option<Vec<Mutation>>, E>,
    ) -> Result<Page, E> {
        let PartitionRange::Key(key) = &command.partitions else {
            return Err(
                EngineError::Invalid("a conditional write must be on one partition".to_string()).into()
            );
        };
        let guard = self.locks.lock(command.table, key.clone()).await;
        let page = self.read(command).await?;
        let started_us = self.shard.now_us();
        let mut mutations = decide(&page)?.unwrap_or_default();
        let (mut owned, mut tables) = (Vec::with_capacity(mutations.len()), vec![]);
        for mutation in mutations.drain(..) {
            let table = self.table(mutation.schema.id)?;
            owned.push((table.owner(mutation.key.token()), mutation));
            tables.push(table);
        }
        let is_spread = owned.iter().any(|(shard, _)| *shard != self.shard.id());
        if is_spread {
            let spread = self.log_spread(owned).await?;
            drop(guard);
            spread.await?;
            self.count_writes(&tables, started_us);
            return Ok(page);
        }
        mutations.extend(owned.into_iter().map(|(_, mutation)| mutation));
        let last = match mutations.len() {
            1 => Some(self.append(mutations.remove(0)).await?.1),
            _ => self.append_batch(mutations, true).await?.map(|(_, last)| last),
        };
        drop(guard);
        let durable = match last {
            // The log is written in order: earlier entries are durable with this one.
            Some(last) => last.durable().await,
            // The page may show writes of other tasks that are not acknowledged yet.
            None => self.table(command.table)?.log.durable().await,
        };
        durable.map_err(EngineError::from)?;
        self.count_writes(&tables, started_us);
        Ok(page)
    }

    /// Applies mutations to tables of one log, which are in one chunk of the log: after a crash all entries
    /// are in the log or none. `is_whole`: the flush of one table does not make its part survive alone.
    /// Otherwise like [`Self::apply`].
    pub async fn apply_batch(&self, mutations: Vec<Mutation>, is_whole: bool) -> Result<(), EngineError> {
        let started_us = self.shard.now_us();
        if let Some((tables, appended)) = self.append_batch(mutations, is_whole).await? {
            appended.durable().await?;
            self.count_writes(&tables, started_us);
        }
        Ok(())
    }

    /// Appends to the log and applies to the memtables; the rest of [`Self::apply_batch`] waits for
    /// durability. Returns the table of each mutation and the last entry; `None` if there is nothing to
    /// append.
    async fn append_batch(
        &self,
        mutations: Vec<Mutation>,
        is_whole: bool,
    ) -> Result<Option<(Vec<Rc<Table>>, Appended)>, EngineError> {
        let mut entries = vec![];
        for mutation in &mutations {
            validate(mutation)?;
            let mut entry = vec![];
            codec::encode(mutation, &mut entry);
            entries.push(entry);
        }
        // Each entry is preceded by its length; the log adds the length of one.
        let bytes = entries.iter().map(|entry| entry.len() + 4).sum::<usize>().saturating_sub(4);
        let Some(first) = mutations.first() else { return Ok(None) };
        let log = self.table(first.schema.id)?.log.clone();
        loop {
            if self.memory.is_full() {
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
        let tables = tables?;
        // The memtable of a single table is flushed as a whole.
        let is_spread = is_whole && tables.iter().any(|table| !Rc::ptr_eq(table, &tables[0]));
        let mut appended = None;
        // There is no await from here to the end, so all entries are in the same chunk.
        for ((table, mutation), entry) in tables.iter().zip(mutations).zip(entries) {
            assert!(Rc::ptr_eq(&table.log, &log), "what is written together has one log");
            let at = log.append(mutation.schema.id, &entry);
            if is_spread {
                table.memtables.active().has_batch.set(true);
            }
            self.put(table, mutation, at.position.segment);
            appended = Some(at);
        }
        Ok(appended.map(|appended| (tables, appended)))
    }

    /// Counts one durable write to each of the tables. A table occurs once for each of its mutations.
    pub(super) fn count_writes(&self, tables: &[Rc<Table>], started_us: u64) {
        let latency_us = self.shard.now_us() - started_us;
        tables.iter().for_each(|table| table.counters.writes.add_us(latency_us));
    }

    /// Applies a write from a log of an earlier run. It is in no log of this run.
    pub async fn apply_replayed(&self, mutation: Mutation) -> Result<(), EngineError> {
        let table = self.table(mutation.schema.id)?;
        while self.memory.is_full() {
            self.wait_for_memory().await?;
        }
        let active = table.memtables.active();
        let before = active.memtable.charged_bytes();
        active.memtable.apply(mutation);
        self.grown(before, active.memtable.charged_bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn put(&self, table: &Table, mutation: Mutation, segment: u64) {
        if let Some(samplers) = &mut *table.counters.hot_keys.borrow_mut() {
            samplers.writes.add(&mutation.key);
        }
        let active = table.memtables.active();
        let before = active.memtable.charged_bytes();
        active.memtable.apply(mutation);
        active.segments.borrow_mut().add(segment);
        if active.first_write_us.get().is_none() {
            active.first_write_us.set(Some(self.shard.now_us()));
        }
        self.grown(before, active.memtable.charged_bytes());
        self.note_segment(segment);
    }

    /// Signals pressure when the first entry of a segment of this shard's log has been appended.
    #[inline]
    pub(super) fn note_segment(&self, segment: u64) {
        if self.last_segment.get() != segment && split_id(segment).0 == self.shard.id() {
            self.last_segment.set(segment);
            self.pressure.signal();
        }
    }

    /// Makes all writes of this shard wait until [`Self::resume_writes`]. Later writes are appended to no log
    /// and are in no memtable meanwhile.
    pub fn pause_writes(&self) {
        self.memory.is_paused.set(true);
    }

    pub fn resume_writes(&self) {
        self.memory.is_paused.set(false);
        self.resumed.signal();
    }

    #[inline]
    fn grown(&self, before: usize, after: usize) {
        if self.memory.grown(before, after) {
            self.pressure.signal();
        }
    }

    pub(super) async fn wait_for_memory(&self) -> Result<(), EngineError> {
        if self.stopping.get() {
            return Err(EngineError::Stopped);
        }
        if self.memory.is_paused.get() {
            self.resumed.until(|| !self.memory.is_paused.get() || self.stopping.get()).await;
            return Ok(());
        }
        if let Some(why) = self.flushes.no_space() {
            return Err(EngineError::NoSpace(why));
        }
        if let Some(failed) = self.flushes.log_failed() {
            return Err(failed.into());
        }
        let ended = self.flushes.ended.next();
        // The count may predate the last flush; only current memtables can be waited for.
        self.recount_dirty();
        if self.memory.is_full() {
            self.pressure.signal();
            ended.await;
            self.recount_dirty();
        }
        Ok(())
    }

    /// Why waiting for a flush is useless; if `None`, flushes have been triggered.
    pub(super) fn cannot_flush(&self) -> Option<LogError> {
        self.pressure.signal();
        let why = self.flushes.no_space().or_else(|| self.log.stuck())?;
        let source = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
        let error = runtime::FileError::new("flush", std::path::Path::new("memtables"), source);
        Some(LogError::NoSpace(Arc::new(error)))
    }
}
