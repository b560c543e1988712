//! A worker: one connection with several operations in flight.
//!
//! Each worker is a thread. It starts the operations that are due, as long as fewer than its limit are in
//! flight, and then waits for answers or for the next operation to become due, whichever is first. An
//! operation that becomes due while the limit is reached starts late, and its response time says so.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::HashMap;
use base::rng::Rng;
use protocol::client::ResponseMessage;
use protocol::{
    Batch, BatchQuery, BatchStatement, Consistency, CqlError, Execute, Prepared, QueryParameters, Request,
    Response, Rows,
};
use shell::Connection;

use crate::clock;
use crate::measurement::Measurements;
use crate::population::Population;
use crate::profile::{self, Checks, Operations};
use crate::schedule::{Next, Schedule};
use crate::setup::{Plan, prepare_statement, use_keyspace};

/// Rows of a page; the drivers' default.
const PAGE_ROWS: i32 = 5_000;
/// Without an operation that becomes due, a worker looks this often for a stop and for answers that are late.
const LOOK_MS: u64 = 200;

/// What all workers of a run share.
#[derive(Debug)]
pub struct Shared {
    /// When the run began.
    pub start: Instant,
    /// The workers are to end.
    pub stop: AtomicBool,
    /// The first error that ended the run.
    pub failure: Mutex<Option<String>>,
}

impl Shared {
    /// A run that begins now.
    pub fn new() -> Self {
        Self { start: clock::now(), stop: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    fn fail(&self, error: String) {
        self.failure.lock().expect("no holder panics").get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How statements are executed.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The consistency level of statements.
    pub consistency: Consistency,
    /// The consistency level of conditions.
    pub serial_consistency: Consistency,
    /// Attempts of an operation before it has failed.
    pub attempts: u32,
    /// Whether the run continues after an operation has failed.
    pub ignores_errors: bool,
    /// An operation without an answer after this time has failed.
    pub timeout: Duration,
}

struct InFlight {
    request: profile::Request,
    due: Duration,
    sent: Duration,
    attempts: u32,
    rows: u64,
}

/// See the head of this file.
pub struct Worker<'a> {
    plan: &'a Plan,
    manner: &'a Manner,
    shared: &'a Shared,
    measured: &'a Mutex<Measurements>,
    connection: Connection,
    prepared: Vec<Prepared>,
    operations: Operations,
    schedule: Schedule,
    population: Population,
    rng: Rng,
    in_flight_max: usize,
    in_flight: HashMap<i16, InFlight>,
}

impl<'a> Worker<'a> {
    /// Prepares the statements on the connection.
    ///
    /// # Errors
    /// The server refuses a statement.
    #[allow(clippy::too_many_arguments, reason = "each is one thing that a worker has")]
    pub fn new(
        plan: &'a Plan,
        manner: &'a Manner,
        shared: &'a Shared,
        measured: &'a Mutex<Measurements>,
        mut connection: Connection,
        schedule: Schedule,
        population: Population,
        in_flight_max: usize,
        seed: u64,
    ) -> Result<Self, String> {
        use_keyspace(&mut connection, &plan.keyspace)?;
        let mut prepared = vec![];
        for operation in &plan.operations {
            prepared.push(prepare_statement(&mut connection, &operation.cql)?);
        }
        Ok(Self {
            plan,
            manner,
            shared,
            measured,
            connection,
            prepared,
            operations: Operations::new(plan.shares.clone()),
            schedule,
            population,
            rng: Rng::new(seed),
            in_flight_max,
            in_flight: HashMap::default(),
        })
    }

    /// Runs until the schedule has ended and all answers are there, or the run is stopped.
    pub fn run(mut self) {
        if let Err(error) = self.work() {
            self.shared.fail(error);
        }
    }

    fn elapsed(&self) -> Duration {
        clock::now().duration_since(self.shared.start)
    }

    fn work(&mut self) -> Result<(), String> {
        loop {
            let mut is_over = self.shared.stop.load(Ordering::Relaxed);
            let mut wake = None;
            while !is_over && self.in_flight.len() < self.in_flight_max {
                match self.schedule.next(self.elapsed()) {
                    Next::Ended => is_over = true,
                    Next::Due(due) => self.start(due)?,
                    Next::At(at) => {
                        wake = Some(at);
                        break;
                    }
                }
            }
            if is_over && self.in_flight.is_empty() {
                return Ok(());
            }
            let look = self.elapsed() + Duration::from_millis(LOOK_MS);
            let until = self.shared.start + wake.map_or(look, |at| at.min(look));
            match self.connection.answer_until(until).map_err(|failure| failure.to_string())? {
                None => self.give_up_late()?,
                Some((stream, answer)) => {
                    self.ended(stream, answer)?;
                    while let Some((stream, answer)) =
                        self.connection.received().map_err(|failure| failure.to_string())?
                    {
                        self.ended(stream, answer)?;
                    }
                }
            }
        }
    }

    /// Starts the operation that was due at `due`.
    fn start(&mut self, due: Duration) -> Result<(), String> {
        let index = self.operations.choose(&mut self.rng);
        let population = &self.population;
        let request = self.plan.operations[index]
            .request(index, &self.plan.table, &mut self.rng, |rng| population.next(rng))?;
        let sent = self.elapsed();
        self.send(InFlight { request, due, sent, attempts: 1, rows: 0 }, None)
    }

    fn send(&mut self, operation: InFlight, paging_state: Option<&[u8]>) -> Result<(), String> {
        let prepared = &self.prepared[operation.request.operation];
        let mut parameters = QueryParameters::new(self.manner.consistency);
        parameters.serial_consistency = Some(self.manner.serial_consistency);
        let values = &operation.request.values;
        let submitted = match operation.request.batch {
            Some(batch_type) => {
                let query = BatchQuery::Prepared(&prepared.id);
                let statements =
                    values.iter().map(|values| BatchStatement { query, values: values.values() }).collect();
                self.connection.submit(&Request::Batch(Batch { batch_type, statements, parameters }))
            }
            None => {
                parameters.values = values[0].values();
                parameters.page_size_rows = Some(PAGE_ROWS);
                parameters.paging_state = paging_state;
                parameters.skip_metadata = true;
                let result_metadata_id = prepared.result_metadata_id.as_deref();
                self.connection.submit(&Request::Execute(Execute {
                    id: &prepared.id,
                    result_metadata_id,
                    parameters,
                }))
            }
        };
        let stream = submitted.map_err(|failure| failure.to_string())?;
        self.in_flight.insert(stream, operation);
        Ok(())
    }

    /// An answer has arrived.
    fn ended(&mut self, stream: i16, answer: Result<ResponseMessage, CqlError>) -> Result<(), String> {
        // An operation that was given up is answered late.
        let Some(mut operation) = self.in_flight.remove(&stream) else { return Ok(()) };
        match answer {
            Ok(message) => {
                let rows = match &message.response {
                    Response::Rows(rows) => Some(rows),
                    _ => None,
                };
                operation.rows += rows.map_or(0, |rows| rows.rows.len() as u64);
                if let Some(state) = rows.and_then(|rows| rows.metadata.paging_state.as_deref()) {
                    return self.send(operation, Some(state));
                }
                match self.checked(&operation, rows) {
                    Ok(()) => self.count(&operation),
                    Err(error) => self.failed(operation, error)?,
                }
            }
            Err(error) => {
                let can_help =
                    !matches!(error, CqlError::Syntax(_) | CqlError::Invalid(_) | CqlError::Unauthorized(_));
                if operation.attempts < self.manner.attempts && can_help {
                    operation.attempts += 1;
                    operation.rows = 0;
                    self.measured.lock().expect("no holder panics").operations
                        [operation.request.operation]
                        .retries += 1;
                    return self.send(operation, None);
                }
                self.failed(operation, error.to_string())?;
            }
        }
        Ok(())
    }

    fn count(&mut self, operation: &InFlight) {
        let now = self.elapsed();
        let us = |from: Duration| now.saturating_sub(from).as_micros() as u64;
        let request = &operation.request;
        let rows = operation.rows.max(if operation.rows == 0 && self.writes(request) {
            request.values.len() as u64
        } else {
            0
        });
        let mut measured = self.measured.lock().expect("no holder panics");
        measured.operations[request.operation].add(
            us(operation.due),
            us(operation.sent),
            request.partitions,
            rows,
        );
    }

    fn writes(&self, request: &profile::Request) -> bool {
        self.prepared[request.operation].result.columns_count == 0
    }

    fn failed(&mut self, operation: InFlight, error: String) -> Result<(), String> {
        let index = operation.request.operation;
        self.measured.lock().expect("no holder panics").operations[index].errors += 1;
        match self.manner.ignores_errors {
            true => Ok(()),
            false => Err(format!(
                "{} of partition {} failed in {} attempts: {error} (-errors ignore goes on)",
                self.plan.operations[index].name, operation.request.row.partition, operation.attempts
            )),
        }
    }

    /// Operations without an answer for too long have failed.
    fn give_up_late(&mut self) -> Result<(), String> {
        let now = self.elapsed();
        let timeout = self.manner.timeout;
        let is_late = |operation: &InFlight| now.saturating_sub(operation.sent) > timeout;
        let late: Vec<i16> = self
            .in_flight
            .iter()
            .filter(|(_, operation)| is_late(operation))
            .map(|(stream, _)| *stream)
            .collect();
        for stream in late {
            let operation = self.in_flight.remove(&stream).expect("it was there");
            self.failed(operation, format!("no answer within {} s", timeout.as_secs_f64()))?;
        }
        Ok(())
    }

    /// Compares rows with what `insert` writes.
    fn checked(&self, operation: &InFlight, rows: Option<&Rows>) -> Result<(), String> {
        let request = &operation.request;
        let checks = self.plan.operations[request.operation].checks;
        if checks == Checks::Nothing {
            return Ok(());
        }
        let rows = rows.map_or(&[][..], |rows| &rows.rows);
        let [row, ..] = rows else { return Err("the partition is not there".to_string()) };
        if checks == Checks::Exists {
            return Ok(());
        }
        let columns = self.prepared[request.operation].result.columns.as_deref().unwrap_or_default();
        let mut expected = vec![];
        for (column, value) in columns.iter().zip(row) {
            expected.clear();
            let Some(of_table) = self.plan.table.column(&column.name) else { continue };
            of_table.push_value(&mut expected, &request.row)?;
            if value.as_deref() != Some(&expected[..]) {
                return Err(format!("column {} is not as it was written", column.name));
            }
        }
        Ok(())
    }
}
