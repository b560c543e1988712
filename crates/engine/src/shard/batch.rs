//! Batches over several shards: all mutations are there after a crash, or none.
//!
//! 1. The shard on which the batch arrives coordinates it. It waits until there is memory and space in the
//!    log, appends one entry with all mutations to its own log, and applies its own mutations to its
//!    memtables in the same turn. The entry is the commit point: from here on the batch happens.
//! 2. When the entry is durable, the other shards get their mutations and apply them to their memtables. They
//!    do not log them; their memtables count the entry of the coordinator's log.
//! 3. The entry is released when all of these memtables have been flushed; a memtable is flushed after the
//!    entry was synced ([`crate::commitlog::others`]).
//!
//! A replay applies the mutations of the entry on the shards that own them then, and skips none of them
//! because of a shard's flushed positions, which are about the memtables of the log's own shard. While a
//! batch is being written, reads may show a part of it.
//!
//! A TRUNCATE first waits until no batch is between its entry and its last memtable, and holds later ones
//! back ([`EngineShard::hold_batches`]): so the positions of its record divide the batches in the same way on
//! every shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::HashMap;
use base::join::LocalFuture;
use model::{Mutation, TableId};
use runtime::{CpuGroup, Event, JoinHandle, Shard};

use super::EngineShard;
use crate::commitlog::others::{Note, OtherShards};
use crate::commitlog::{LogError, SegmentRefs, format};
use crate::error::EngineError;
use crate::table::validate::validate;

/// Batches wait while more bytes than this are between the log and the memtables of other shards.
const IN_FLIGHT_BYTES_MAX: usize = 8 << 20;

/// For so long no batch is sent to a shard that could not flush.
const REFUSED_US: u64 = 1_000_000;

/// The batches that this shard coordinates.
#[derive(Default)]
pub(super) struct Batches {
    /// Number and bytes of those that are logged and not yet in all memtables.
    in_flight: Cell<usize>,
    in_flight_bytes: Cell<usize>,
    /// A truncate holds further ones back.
    is_held: Cell<bool>,
    /// Signalled when one of the above has fallen.
    changed: Event,
    /// Shards whose memory was full and could not be flushed, with the reason and the end of the pause.
    refusing: RefCell<HashMap<u32, (u64, Refusal)>>,
}

/// Why a shard whose memory is full cannot flush it.
#[derive(Clone)]
enum Refusal {
    /// The disk is full.
    NoSpace(String),
    /// A commit log has failed.
    Log(LogError),
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSpace(why) => Self::NoSpace(why),
            Refusal::Log(error) => Self::Log(error),
        }
    }
}

impl Batches {
    /// Why a shard takes no batches; `None` if it does.
    fn refusal(&self, shard: u32, now_us: u64) -> Option<EngineError> {
        let refusing = self.refusing.borrow();
        let (until_us, why) = refusing.get(&shard)?;
        (now_us < *until_us).then(|| why.clone().into())
    }
}

/// A batch between its entry and its last memtable.
struct InFlight {
    engine: Rc<EngineShard>,
    bytes: usize,
}

impl InFlight {
    fn begin(engine: &Rc<EngineShard>, bytes: usize) -> Self {
        let batches = &engine.batches;
        batches.in_flight.set(batches.in_flight.get() + 1);
        batches.in_flight_bytes.set(batches.in_flight_bytes.get() + bytes);
        Self { engine: engine.clone(), bytes }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let batches = &self.engine.batches;
        batches.in_flight.set(batches.in_flight.get() - 1);
        batches.in_flight_bytes.set(batches.in_flight_bytes.get() - self.bytes);
        batches.changed.signal();
    }
}

/// The result of a task. If this is dropped, the task continues.
pub(super) struct Continued<T>(Option<JoinHandle<T>>);

impl<T> Continued<T> {
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self(Some(task))
    }
}

impl<T> Future for Continued<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(self.0.as_mut().expect("the task is there until the drop")).poll(context)
    }
}

impl<T> Drop for Continued<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }
}

/// How another shard took its part of a batch.
struct Taken {
    /// Tables that it does not have any more, one for each mutation.
    unknown: Vec<TableId>,
    /// Its memory is full and cannot be flushed.
    is_full: Option<Refusal>,
}

impl EngineShard {
    /// Applies mutations of several shards, each with its owner, all or nothing also after a crash. Returns
    /// when they are durable, as the log's sync mode defines it, and applied on all shards. After an error
    /// the batch has not been acknowledged; it may have happened, or may still happen, as a whole.
    pub async fn apply_spread(self: &Rc<Self>, mutations: Vec<(u32, Mutation)>) -> Result<(), EngineError> {
        let started_us = self.shard.now_us();
        // This shard counts the writes of all shards: it has every table, and knows how long they took.
        let tables: Vec<_> =
            mutations.iter().filter_map(|(_, mutation)| self.table(mutation.schema.id).ok()).collect();
        self.log_spread(mutations).await?.await?;
        self.count_writes(&tables, started_us);
        Ok(())
    }

    /// Steps 1 and 2 of the head: when this returns, the batch happens, and this shard's mutations are in the
    /// memtables. The returned future is the rest of [`Self::apply_spread`], which happens also without it.
    pub(super) async fn log_spread(
        self: &Rc<Self>,
        mutations: Vec<(u32, Mutation)>,
    ) -> Result<Continued<Result<(), EngineError>>, EngineError> {
        for (_, mutation) in &mutations {
            validate(mutation)?;
        }
        let entry = format::encode_batch(mutations.iter().map(|(_, mutation)| mutation));
        self.wait_for_batch(&mutations, entry.len()).await?;
        for (_, mutation) in &mutations {
            self.table(mutation.schema.id)?.check_writable()?;
        }
        // There is no await from the last check to the memtables, so the log and this shard's memtables have
        // the same order.
        Ok(self.commit_spread(mutations, &entry))
    }

    /// Waits until a batch may be logged.
    async fn wait_for_batch(
        &self,
        mutations: &[(u32, Mutation)],
        entry_bytes: usize,
    ) -> Result<(), EngineError> {
        let batches = &self.batches;
        loop {
            let now_us = self.shard.now_us();
            let mut shards = mutations.iter().map(|(shard, _)| *shard);
            if let Some(refusal) = shards.find_map(|shard| batches.refusal(shard, now_us)) {
                return Err(refusal);
            }
            let changed = batches.changed.next();
            if batches.is_held.get() || batches.in_flight_bytes.get() > IN_FLIGHT_BYTES_MAX {
                if self.stopping.get() {
                    return Err(EngineError::Stopped);
                }
                changed.await;
            } else if self.memory.is_full() {
                self.wait_for_memory().await?;
            } else if !self.log.has_room(entry_bytes) {
                self.pressure.signal();
                self.log.make_room(entry_bytes, || self.cannot_flush()).await?;
            } else {
                return Ok(());
            }
        }
    }

    /// See [`Self::log_spread`].
    fn commit_spread(
        self: &Rc<Self>,
        mutations: Vec<(u32, Mutation)>,
        entry: &[u8],
    ) -> Continued<Result<(), EngineError>> {
        let me = self.shard.id();
        let parts = mutations.iter().map(|(shard, mutation)| (*shard, mutation.schema.id));
        let appended = self.log.append_batch(parts, entry);
        let segment = appended.position.segment;
        // None of the mutations may be for a memtable of this shard.
        self.note_segment(segment);
        let mut elsewhere: Vec<(u32, Vec<Mutation>)> = vec![];
        for (shard, mutation) in mutations {
            if shard == me {
                let table = self.table(mutation.schema.id).expect("the caller has looked");
                table.memtables.active().has_batch.set(true);
                self.put(&table, mutation, segment);
                continue;
            }
            match elsewhere.iter_mut().find(|(other, _)| *other == shard) {
                Some((_, part)) => part.push(mutation),
                None => elsewhere.push((shard, vec![mutation])),
            }
        }
        let in_flight = InFlight::begin(self, entry.len());
        let (this, group) = (self.clone(), self.shard.current_group());
        // A separate task: a batch that is in the log must reach all shards, also if the caller is dropped.
        let spread = async move {
            appended.durable().await?;
            let spread = this.spread(segment, elsewhere, group).await;
            drop(in_flight);
            spread
        };
        Continued::new(self.shard.spawn(group, spread))
    }

    /// Step 2 of the head.
    async fn spread(
        self: &Rc<Self>,
        segment: u64,
        parts: Vec<(u32, Vec<Mutation>)>,
        group: CpuGroup,
    ) -> Result<(), EngineError> {
        let send = |(target, part): (u32, Vec<Mutation>)| {
            let take = move |shard: Shard| async move { Self::of(&shard)?.take_part(segment, part).await };
            (target, self.shard.call(target, group, take))
        };
        let calls: Vec<_> = parts.into_iter().map(send).collect();
        let mut failed = None;
        for (target, call) in calls {
            match call.await.map_err(EngineError::from).and_then(|taken| taken) {
                Ok(Taken { unknown, is_full }) => {
                    for table in unknown {
                        let mut uses = SegmentRefs::default();
                        uses.add(segment);
                        self.log.release(table, &uses);
                        failed.get_or_insert(EngineError::UnknownTable(table));
                    }
                    if let Some(why) = is_full {
                        let until_us = self.shard.now_us() + REFUSED_US;
                        self.batches.refusing.borrow_mut().insert(target, (until_us, why));
                    }
                }
                // The shard stops. The next start replays the entry.
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Applies the part of a batch that is durable in the log of another shard.
    async fn take_part(&self, segment: u64, part: Vec<Mutation>) -> Result<Taken, EngineError> {
        let mut is_full = None;
        while self.memory.is_full() && is_full.is_none() {
            match self.wait_for_memory().await {
                Ok(()) => {}
                // Waiting is useless. The batch has happened, and the coordinator refuses further ones.
                Err(EngineError::Log(error)) => is_full = Some(Refusal::Log(error)),
                Err(EngineError::NoSpace(why)) => is_full = Some(Refusal::NoSpace(why)),
                // The shard stops.
                Err(error) => return Err(error),
            }
        }
        let mut unknown = vec![];
        self.log.hold(segment);
        for mutation in part {
            let id = mutation.schema.id;
            let Ok(table) = self.table(id) else {
                unknown.push(id);
                continue;
            };
            table.memtables.active().has_batch.set(true);
            self.put(&table, mutation, segment);
        }
        Ok(Taken { unknown, is_full })
    }

    /// Holds back further batches over several shards, and waits until those that are logged are in all
    /// memtables; [`Self::allow_batches`] ends it.
    pub async fn hold_batches(&self) {
        self.batches.is_held.set(true);
        self.batches.changed.until(|| self.batches.in_flight.get() == 0 || self.stopping.get()).await;
    }

    pub fn allow_batches(&self) {
        self.batches.is_held.set(false);
        self.batches.changed.signal();
    }

    pub(super) fn stop_batches(&self) {
        self.batches.changed.signal();
    }

    /// Seals the memtables with entries of another shard's segments before this one.
    fn flush_before(&self, boundary: u64) {
        let (maker, _) = format::split_id(boundary);
        for table in self.tables() {
            let oldest = table.memtables.active().segments.borrow().oldest_of(maker);
            if oldest.is_some_and(|oldest| oldest < boundary) {
                drop(self.flushes.seal(&table));
            }
        }
    }

    fn take_note(&self, note: Note) {
        match note {
            Note::Release { table, uses } => {
                self.log.clear_stuck();
                self.log.release(table, &uses);
            }
            Note::Flush { before } => self.flush_before(before),
            Note::NoSpace { from, why } => self.log.set_stuck(from, why),
            Note::Gone { segment } => self.log.let_go(segment),
        }
    }
}

/// The other shards, as the log of this shard reaches them.
pub(super) struct Links {
    shard: Shard,
    /// Number of notes on their way.
    posted: Rc<Cell<usize>>,
    arrived: Rc<Event>,
}

impl Links {
    pub(super) fn new(shard: &Shard) -> Rc<Self> {
        Rc::new(Self { shard: shard.clone(), posted: Rc::default(), arrived: Rc::default() })
    }

    /// Waits until all notes have arrived.
    pub(super) async fn settle(&self) {
        self.arrived.until(|| self.posted.get() == 0).await;
    }
}

impl OtherShards for Links {
    fn post(&self, shard: u32, note: Note) {
        let call = self.shard.call(shard, CpuGroup::CommitLog, move |shard| async move {
            if let Ok(engine) = EngineShard::of(&shard) {
                engine.take_note(note);
            }
        });
        self.posted.set(self.posted.get() + 1);
        let (posted, arrived) = (self.posted.clone(), self.arrived.clone());
        let arrive = async move {
            // A shard that has stopped needs no note.
            let _ = call.await;
            posted.set(posted.get() - 1);
            arrived.signal();
        };
        self.shard.spawn(CpuGroup::CommitLog, arrive).detach();
    }

    fn sync(&self, shard: u32) -> LocalFuture<'static, Result<(), LogError>> {
        let call = self.shard.call(shard, CpuGroup::CommitLog, |shard| async move {
            match EngineShard::of(&shard) {
                Ok(engine) => engine.log.sync().await,
                Err(_) => Err(LogError::Closed),
            }
        });
        Box::pin(async move { call.await.unwrap_or(Err(LogError::Closed)) })
    }
}
