//! A worker of COPY FROM: converts records and writes their rows over a connection of its own.
//!
//! 1. It takes a chunk, converts its records, groups the rows by partition, and packs them into unlogged
//!    batches. A batch of ten rows costs a server half of what ten statements cost. A batch stays below the
//!    limits from which servers warn, in bytes and partitions. Up to MAXINFLIGHTMESSAGES requests are in
//!    flight.
//! 2. A refusal that can pass (an overload, a timeout) is repeated up to MAXATTEMPTS times after a growing
//!    pause. If a batch is refused for another reason, its rows are sent one by one, so that only the wrong
//!    row fails.
//! 3. If the connection breaks, the worker opens another one and sends everything again that was in flight.
//!    Rows have timestamps, so sending them twice has no effect. Increments of counters are not repeated
//!    unless the server states that it did not apply them; such rows fail as unknown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use base::HashMap;
use protocol::{
    Batch, BatchQuery, BatchStatement, BatchType, Consistency, CqlError, Execute, Prepared, ProtocolVersion,
    QueryParameters, Request, Response, Value, ValueBuffer,
};

use super::options::Options;
use super::row::{Converter, Plan};
use super::source::Chunk;
use super::time;
use crate::connection::{Connection, Target};
use crate::failure::Failure;

/// Values of more bytes are not put into one batch: servers warn from 5 KiB on.
const BATCH_BYTES_MAX: usize = 4 << 10;
/// Servers warn of more partitions in a batch.
const BATCH_PARTITIONS_MAX: usize = 10;

/// What a worker and the reader report.
pub enum Event {
    /// Rows of this number were written.
    Written(u64),
    /// Records that are not rows of the table.
    Unreadable { chunk: Arc<Chunk>, records: Vec<usize>, why: String },
    /// Rows that the server refused for good.
    Refused { rows: Vec<(Arc<Chunk>, usize)>, why: String, attempts: u32 },
    /// A request is repeated.
    Retry { rows: usize, why: String, attempts: u32 },
    /// All records of this chunk are written or refused.
    Finished(Arc<Chunk>),
    /// The reader is at the end, after this many files and skipped records.
    Read { files: usize, skipped: u64 },
    /// A worker or the reader cannot go on.
    Failed(Failure),
}

/// What all workers share.
pub struct Shared<'a> {
    pub plan: &'a Plan,
    pub options: &'a Options,
    pub target: Target,
    pub consistency: Consistency,
    pub chunks: Mutex<Receiver<Arc<Chunk>>>,
    /// Chunks that were not begun are left alone.
    pub is_stopped: AtomicBool,
}

struct Row {
    chunk: Arc<Chunk>,
    record: usize,
    values: ValueBuffer,
    bytes: usize,
}

struct Sent {
    rows: Vec<Row>,
    attempts: u32,
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    events: Sender<Event>,
    connection: Connection,
    prepared: Prepared,
    in_flight: HashMap<i16, Sent>,
}

/// The batch that is being filled.
#[derive(Default)]
struct Pack {
    rows: Vec<Row>,
    bytes: usize,
    partitions: usize,
}

impl Pack {
    /// Adds a row, after sending the rows before it if the batch would exceed a limit.
    fn add(&mut self, worker: &mut Worker<'_>, row: Row, is_new_partition: bool) -> Result<(), Failure> {
        let is_full = self.rows.len() >= worker.shared.options.batch_rows_max
            || self.bytes + row.bytes > BATCH_BYTES_MAX
            || is_new_partition && self.partitions >= BATCH_PARTITIONS_MAX;
        if is_full {
            self.send(worker)?;
        }
        self.partitions += usize::from(is_new_partition || self.rows.is_empty());
        self.bytes += row.bytes;
        self.rows.push(row);
        Ok(())
    }

    fn send(&mut self, worker: &mut Worker<'_>) -> Result<(), Failure> {
        let Self { rows, .. } = std::mem::take(self);
        worker.send(rows, 1)
    }
}

/// Works until there are no more chunks.
pub fn work(shared: &Shared<'_>, events: Sender<Event>) {
    let done = open(shared).and_then(|(connection, prepared)| {
        let mut worker =
            Worker { shared, events: events.clone(), connection, prepared, in_flight: HashMap::default() };
        worker.run()
    });
    if let Err(failure) = done {
        // The receiver is there until all workers have ended.
        let _ = events.send(Event::Failed(failure));
    }
}

fn open(shared: &Shared<'_>) -> Result<(Connection, Prepared), Failure> {
    let mut connection = Connection::open_without_events(&shared.target)?;
    let request = Request::Prepare { text: &shared.plan.text, keyspace: None };
    match connection.request(&request, false)?.response {
        Response::Prepared(prepared) => Ok((connection, prepared)),
        other => Err(Failure::Connection(format!("PREPARE was answered with {other:?}"))),
    }
}

/// Whether the same request may succeed later.
fn can_pass(error: &CqlError, is_counter: bool) -> bool {
    match error {
        CqlError::Overloaded(_) | CqlError::Unavailable { .. } | CqlError::Bootstrapping(_) => true,
        CqlError::Server(_)
        | CqlError::WriteTimeout { .. }
        | CqlError::WriteFailure { .. }
        | CqlError::CdcWriteFailure(_) => !is_counter,
        _ => false,
    }
}

impl Worker<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let variables = self.prepared.variables.clone();
        let has_unset = self.connection.version() >= ProtocolVersion::V4;
        let mut converter = Converter::new(self.shared.plan, self.shared.options, variables, has_unset);
        loop {
            match self.take_chunk() {
                Ok(_) if self.shared.is_stopped.load(Ordering::Relaxed) => {}
                Ok(chunk) => self.load(&chunk, &mut converter)?,
                Err(TryRecvError::Empty) => self.await_answer()?,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        while !self.in_flight.is_empty() {
            self.await_answer()?;
        }
        Ok(())
    }

    /// Takes a chunk, and waits for one only if nothing is in flight.
    fn take_chunk(&self) -> Result<Arc<Chunk>, TryRecvError> {
        if self.in_flight.is_empty() {
            let chunks = self.shared.chunks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            return chunks.recv().map_err(|_| TryRecvError::Disconnected);
        }
        match self.shared.chunks.try_lock() {
            Ok(chunks) => chunks.try_recv(),
            Err(TryLockError::WouldBlock) => Err(TryRecvError::Empty),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().try_recv(),
        }
    }

    fn report(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn load(&mut self, chunk: &Arc<Chunk>, converter: &mut Converter<'_>) -> Result<(), Failure> {
        let mut unreadable: Vec<(String, Vec<usize>)> = vec![];
        let mut pack = Pack::default();
        let mut partitions: Vec<Vec<Row>> = vec![];
        let mut by_partition: HashMap<Vec<u8>, usize> = HashMap::default();
        for (record, &(_, _, ordinal)) in chunk.records.iter().enumerate() {
            let values = match converter.convert(chunk.record(record), ordinal) {
                Ok(values) => values,
                Err(why) => {
                    match unreadable.iter_mut().find(|(other, _)| *other == why) {
                        Some((_, records)) => records.push(record),
                        None => unreadable.push((why, vec![record])),
                    }
                    continue;
                }
            };
            let row = Row { chunk: Arc::clone(chunk), record, bytes: bytes_of(&values), values };
            if !self.has_clustering() {
                pack.add(self, row, true)?;
                continue;
            }
            let at = *by_partition.entry(self.partition_of(&row)).or_insert_with(|| {
                partitions.push(vec![]);
                partitions.len() - 1
            });
            partitions[at].push(row);
        }
        for rows in partitions {
            for (i, row) in rows.into_iter().enumerate() {
                pack.add(self, row, i == 0)?;
            }
        }
        pack.send(self)?;
        for (why, records) in unreadable {
            let count = records.len();
            self.report(Event::Unreadable { chunk: Arc::clone(chunk), records, why });
            self.finish(chunk, count);
        }
        Ok(())
    }

    /// Whether a partition can have several rows.
    fn has_clustering(&self) -> bool {
        let keys = self.shared.plan.is_key.iter().filter(|is_key| **is_key).count();
        keys > self.prepared.partition_key_indexes.len()
    }

    fn partition_of(&self, row: &Row) -> Vec<u8> {
        let values = row.values.values();
        let mut key = vec![];
        for index in &self.prepared.partition_key_indexes {
            if let Some(Value::Bytes(bytes)) = values.get(usize::from(*index)) {
                key.extend((bytes.len() as u32).to_be_bytes());
                key.extend(bytes);
            }
        }
        key
    }

    /// Counts finished records of a chunk, and reports its end.
    fn finish(&self, chunk: &Arc<Chunk>, records: usize) {
        if chunk.left.fetch_sub(records, Ordering::AcqRel) == records {
            self.report(Event::Finished(Arc::clone(chunk)));
        }
    }

    fn send(&mut self, rows: Vec<Row>, attempts: u32) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        while self.in_flight.len() >= self.shared.options.in_flight_max {
            self.await_answer()?;
        }
        self.send_now(Sent { rows, attempts })
    }

    fn send_now(&mut self, sent: Sent) -> Result<(), Failure> {
        let parameters = QueryParameters::new(self.shared.consistency);
        let id = &self.prepared.id;
        let submitted = match sent.rows.as_slice() {
            [row] => {
                let parameters = QueryParameters { values: row.values.values(), ..parameters };
                let result_metadata_id = self.prepared.result_metadata_id.as_deref();
                self.connection.submit(&Request::Execute(Execute { id, result_metadata_id, parameters }))
            }
            rows => {
                let is_counter = self.shared.plan.is_counter;
                let batch_type = if is_counter { BatchType::Counter } else { BatchType::Unlogged };
                let query = BatchQuery::Prepared(id);
                let statements =
                    rows.iter().map(|row| BatchStatement { query, values: row.values.values() }).collect();
                self.connection.submit(&Request::Batch(Batch { batch_type, statements, parameters }))
            }
        };
        match submitted {
            Ok(stream) => {
                self.in_flight.insert(stream, sent);
                Ok(())
            }
            Err(failure) => {
                // The stream is not known, so the key is one that no request has.
                self.in_flight.insert(-1, sent);
                self.recover(failure)
            }
        }
    }

    fn await_answer(&mut self) -> Result<(), Failure> {
        let (stream, answer) = match self.connection.answer() {
            Ok(answer) => answer,
            Err(failure) => return self.recover(failure),
        };
        // Answers to abandoned requests are skipped.
        let Some(sent) = self.in_flight.remove(&stream) else { return Ok(()) };
        match answer {
            Ok(_) => {
                self.report(Event::Written(sent.rows.len() as u64));
                self.finish_rows(&sent.rows);
                Ok(())
            }
            Err(CqlError::Unprepared { .. }) if sent.attempts <= self.shared.options.attempts_max => {
                // The server forgot the statement, for example because the table was altered.
                let before = std::mem::take(&mut self.in_flight);
                let (connection, prepared) = open(self.shared)?;
                (self.connection, self.prepared) = (connection, prepared);
                for mut sent in before.into_values().chain([sent]) {
                    sent.attempts += 1;
                    self.send_now(sent)?;
                }
                Ok(())
            }
            Err(error) if can_pass(&error, self.shared.plan.is_counter) => {
                self.retry(sent, &Failure::Refused(error).to_string())
            }
            Err(_) if sent.rows.len() > 1 => {
                let attempts = sent.attempts;
                sent.rows.into_iter().try_for_each(|row| self.send_now(Sent { rows: vec![row], attempts }))
            }
            Err(error) => {
                self.give_up(sent, Failure::Refused(error).to_string());
                Ok(())
            }
        }
    }

    fn retry(&mut self, sent: Sent, why: &str) -> Result<(), Failure> {
        let (rows, attempts) = (sent.rows.len(), sent.attempts);
        if attempts >= self.shared.options.attempts_max {
            self.give_up(sent, why.to_string());
            return Ok(());
        }
        self.report(Event::Retry { rows, why: why.to_string(), attempts });
        time::pause(Duration::from_millis(50 << attempts.min(6)));
        self.send_now(Sent { attempts: attempts + 1, ..sent })
    }

    fn give_up(&self, sent: Sent, why: String) {
        let rows = sent.rows.iter().map(|row| (Arc::clone(&row.chunk), row.record)).collect();
        self.report(Event::Refused { rows, why, attempts: sent.attempts });
        self.finish_rows(&sent.rows);
    }

    fn finish_rows(&self, rows: &[Row]) {
        rows.chunk_by(|a, b| Arc::ptr_eq(&a.chunk, &b.chunk))
            .for_each(|same| self.finish(&same[0].chunk, same.len()));
    }

    /// Continues after a failure of the connection: opens another one and sends the requests in flight again.
    fn recover(&mut self, failure: Failure) -> Result<(), Failure> {
        if matches!(failure, Failure::Interrupted) {
            self.shared.is_stopped.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let why = failure.to_string();
        let before = std::mem::take(&mut self.in_flight);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match open(self.shared) {
                Ok((connection, prepared)) => {
                    (self.connection, self.prepared) = (connection, prepared);
                    break;
                }
                Err(_) if attempts < self.shared.options.attempts_max => {
                    time::pause(Duration::from_millis(200 << attempts.min(6)));
                }
                Err(_) => return Err(failure),
            }
        }
        for sent in before.into_values() {
            match self.shared.plan.is_counter {
                true => self.give_up(sent, format!("{why}; it is unknown whether the counters were changed")),
                false => self.retry(sent, &why)?,
            }
        }
        Ok(())
    }
}

fn bytes_of(values: &ValueBuffer) -> usize {
    values.values().iter().map(|value| if let Value::Bytes(bytes) = value { bytes.len() } else { 0 }).sum()
}
