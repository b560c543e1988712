//! Clients of the benchmark: each has a connection, a sending thread and a receiving thread.
//!
//! An open load sends at a fixed rate independent of the answers, and the latency of a request is measured
//! from the time when it was due. A closed load keeps a fixed number of requests in flight. If the server
//! does not read fast enough, an open load cannot send and falls short of its rate.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use base::rng::Rng;
use protocol::client::{RequestHead, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, Consistency, Envelope, Execute, Inbound, Opcode, Outbound, ProtocolVersion,
    QueryParameters, Request, Side, Startup, Value, ValueBuffer,
};

use crate::BenchError;

const VERSION: ProtocolVersion = ProtocolVersion::V4;
/// Streams of a connection: the maximum number of requests in flight.
const STREAMS: usize = 30_000;
/// Interval at which an open load sends the requests that are due.
const TICK: Duration = Duration::from_micros(500);
const OVERLOADED: i32 = 0x1001;
const READ_TIMEOUT: i32 = 0x1200;

#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// An open load: requests per second.
    Open(f64),
    /// A closed load: requests in flight.
    Closed(usize),
}

/// The requests of one load.
#[derive(Clone, Debug)]
pub struct Load {
    pub role: &'static str,
    pub text: &'static str,
    /// If the statement has a marker: keys are drawn at random below this number. 0: it has no marker.
    pub keys: u64,
    pub arrivals: Arrivals,
    pub connections: usize,
    pub seconds: f64,
    pub seed: u64,
}

/// The results of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub sent: u64,
    pub refused: u64,
    pub timed_out: u64,
    pub failed: u64,
    pub elapsed_s: f64,
    /// Latencies of row answers in microseconds, sorted.
    pub answered_us: Vec<u64>,
    /// Latencies of refusals in microseconds, sorted.
    pub refused_us: Vec<u64>,
}

impl Outcome {
    pub fn per_s(&self) -> f64 {
        self.answered_us.len() as f64 / self.elapsed_s
    }

    /// Answers per second that arrived within this time.
    pub fn good_per_s(&self, within_us: u64) -> f64 {
        self.answered_us.partition_point(|us| *us <= within_us) as f64 / self.elapsed_s
    }

    pub fn percentile_ms(&self, part: f64) -> f64 {
        percentile_ms(&self.answered_us, part)
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.failed += other.failed;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.answered_us.extend(other.answered_us);
        self.refused_us.extend(other.refused_us);
    }
}

/// A percentile of sorted values in microseconds, converted to milliseconds. `part` is from 0.0 to 1.0.
pub fn percentile_ms(sorted_us: &[u64], part: f64) -> f64 {
    let at = ((sorted_us.len() as f64 * part) as usize).min(sorted_us.len().saturating_sub(1));
    sorted_us.get(at).map_or(0.0, |us| *us as f64 / 1000.0)
}

/// Runs loads concurrently until each has ended. The outcomes are in the order of the loads.
///
/// # Errors
/// A connection breaks or a login is refused.
pub fn run(port: u16, loads: &[Load]) -> Result<Vec<Outcome>, BenchError> {
    // All clients log in before any of them starts its load.
    let mut clients = vec![];
    for load in loads {
        let mut of_load = vec![];
        for _ in 0..load.connections {
            let mut client = Client::log_in(port, load.role)?;
            let id = client.prepare(load.text)?;
            of_load.push((client, id));
        }
        clients.push((load, of_load));
    }
    std::thread::scope(|scope| {
        let mut running: Vec<Vec<_>> = vec![];
        for (load, clients) in clients {
            let started = clients.into_iter().zip(0..);
            let started =
                started.map(|((client, id), at)| scope.spawn(move || connection(client, &id, load, at)));
            running.push(started.collect());
        }
        let mut outcomes = vec![];
        for connections in running {
            let mut outcome = Outcome::default();
            for connection in connections {
                outcome.add(connection.join().map_err(|_| "a client panicked")??);
            }
            outcome.answered_us.sort_unstable();
            outcome.refused_us.sort_unstable();
            outcomes.push(outcome);
        }
        Ok(outcomes)
    })
}

/// A connection that has logged in. It sends one request at a time until a load takes it over.
pub struct Client {
    socket: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
}

impl Client {
    pub fn log_in(port: u16, role: &str) -> Result<Self, BenchError> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let inbound = Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT);
        let mut client = Self { socket, inbound, outbound: Outbound::new() };
        let startup = Startup { options: vec![("CQL_VERSION", "3.0.0")] };
        client.ask(&Request::Startup(startup))?;
        client.inbound.started(VERSION, None);
        client.outbound.started(VERSION, None);
        let token = format!("\0{role}\0{}", password(role));
        client.ask(&Request::AuthResponse { token: Some(token.as_bytes()) })?;
        Ok(client)
    }

    /// Sends a request and returns the opcode and body of the answer.
    ///
    /// # Errors
    /// The answer is an error, or the connection broke.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<(Opcode, Vec<u8>), BenchError> {
        self.outbound.envelope(|out| write_request(out, &RequestHead::new(VERSION, 0), request));
        let bytes = self.outbound.ready().to_vec();
        self.outbound.sent(bytes.len());
        self.socket.write_all(&bytes)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.inbound.next() {
                Ok(Some(Envelope { header, body })) => {
                    if header.opcode == Opcode::Error {
                        return Err(format!("refused: {}", body.escape_ascii()).into());
                    }
                    return Ok((header.opcode, body.to_vec()));
                }
                Ok(None) => {}
                Err(error) => return Err(format!("the server's answer: {error:?}").into()),
            }
            let read = self.socket.read(&mut buffer)?;
            if read == 0 {
                return Err("the server closed a connection".into());
            }
            self.inbound.feed(&buffer[..read]);
        }
    }

    pub fn query(&mut self, text: &str) -> Result<(), BenchError> {
        let parameters = QueryParameters::new(Consistency::One);
        self.ask(&Request::Query { text, parameters })
            .map(drop)
            .map_err(|error| format!("{text}: {error}").into())
    }

    /// Prepares a statement and returns its id.
    fn prepare(&mut self, text: &str) -> Result<Vec<u8>, BenchError> {
        let (_, body) = self.ask(&Request::Prepare { text, keyspace: None })?;
        // The answer has the kind of the result, the length of the id, and the id.
        let (_, rest) = body.split_first_chunk::<4>().ok_or("a short answer to PREPARE")?;
        let (len, rest) = rest.split_first_chunk::<2>().ok_or("a short answer to PREPARE")?;
        Ok(rest.get(..usize::from(u16::from_be_bytes(*len))).ok_or("a short answer to PREPARE")?.to_vec())
    }
}

/// The superuser has the password of a first start; the benchmark creates the other roles.
pub fn password(role: &str) -> &str {
    if role == "cassandra" { "cassandra" } else { "p" }
}

/// State shared by sender and receiver.
struct Shared {
    began: Instant,
    /// By stream: the time at which the request in flight was due, in microseconds; negative if there is
    /// none.
    due_us: Vec<AtomicI64>,
    under_way: AtomicU64,
    is_over: AtomicBool,
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures the real world's time")]
fn connection(client: Client, id: &[u8], load: &Load, number: u64) -> Result<Outcome, BenchError> {
    let Client { socket, inbound, mut outbound } = client;
    let shared = Arc::new(Shared {
        began: Instant::now(),
        due_us: (0..STREAMS).map(|_| AtomicI64::new(-1)).collect(),
        under_way: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let (freed, may_send) = mpsc::channel::<()>();
    let receiving = {
        let (shared, socket) = (shared.clone(), socket.try_clone()?);
        let is_closed = matches!(load.arrivals, Arrivals::Closed(_));
        std::thread::Builder::new()
            .spawn(move || receive(socket, inbound, &shared, is_closed.then_some(freed)))?
    };
    let mut rng = Rng::new(load.seed ^ number);
    let mut sent = 0u64;
    let mut write = |due: &[i64]| -> Result<(), BenchError> {
        for due_us in due {
            let stream = (sent % STREAMS as u64) as i16;
            sent += 1;
            if shared.due_us[stream as usize].swap(*due_us, Ordering::Relaxed) < 0 {
                shared.under_way.fetch_add(1, Ordering::Relaxed);
            }
            let mut values = ValueBuffer::default();
            if load.keys > 0 {
                values.push(Value::Bytes(&(rng.below(load.keys) as i32).to_be_bytes()));
            }
            let parameters =
                QueryParameters { values: values.values(), ..QueryParameters::new(Consistency::One) };
            let request = Request::Execute(Execute { id, result_metadata_id: None, parameters });
            outbound.envelope(|out| write_request(out, &RequestHead::new(VERSION, stream), &request));
        }
        let bytes = outbound.ready().to_vec();
        outbound.sent(bytes.len());
        Ok((&socket).write_all(&bytes)?)
    };
    let end = shared.began + Duration::from_secs_f64(load.seconds);
    let us = |at: Instant| at.duration_since(shared.began).as_micros() as i64;
    match load.arrivals {
        Arrivals::Open(per_s) => {
            let per_s = per_s / load.connections as f64;
            let mut due_count = 0u64;
            while Instant::now() < end {
                let now_us = us(Instant::now());
                let due_until = (now_us as f64 * per_s / 1e6) as u64;
                let due: Vec<i64> =
                    (due_count..due_until).map(|at| (at as f64 * 1e6 / per_s) as i64).collect();
                due_count = due_until;
                write(&due)?;
                std::thread::sleep(TICK);
            }
        }
        Arrivals::Closed(under_way) => {
            let now_us = us(Instant::now());
            write(&vec![now_us; under_way.div_ceil(load.connections)])?;
            while Instant::now() < end && may_send.recv().is_ok() {
                let more = 1 + may_send.try_iter().count();
                let now_us = us(Instant::now());
                write(&vec![now_us; more])?;
            }
        }
    }
    let elapsed_s = shared.began.elapsed().as_secs_f64();
    // Requests in flight may still be answered.
    let patience = Instant::now() + Duration::from_secs(5);
    while shared.under_way.load(Ordering::Relaxed) > 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    shared.is_over.store(true, Ordering::Relaxed);
    socket.shutdown(Shutdown::Both)?;
    let outcome = receiving.join().map_err(|_| "a client panicked")??;
    Ok(Outcome { sent, elapsed_s, ..outcome })
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures the real world's time")]
fn receive(
    mut socket: TcpStream,
    mut inbound: Inbound,
    shared: &Shared,
    freed: Option<mpsc::Sender<()>>,
) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = match socket.read(&mut buffer) {
            Ok(0) => return Ok(outcome),
            Ok(read) => read,
            Err(_) if shared.is_over.load(Ordering::Relaxed) => return Ok(outcome),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        inbound.feed(&buffer[..read]);
        let now_us = shared.began.elapsed().as_micros() as i64;
        loop {
            let Envelope { header, body } = match inbound.next() {
                Ok(Some(envelope)) => envelope,
                Ok(None) => break,
                Err(error) => return Err(format!("the server's answer: {error:?}").into()),
            };
            let Some(due_us) = shared.due_us.get(header.stream as usize) else { continue };
            let due_us = due_us.swap(-1, Ordering::Relaxed);
            if due_us < 0 {
                continue;
            }
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            let took_us = (now_us - due_us).max(0) as u64;
            let code = body.first_chunk::<4>().map_or(0, |code| i32::from_be_bytes(*code));
            match header.opcode {
                Opcode::Error if code == OVERLOADED => {
                    outcome.refused += 1;
                    outcome.refused_us.push(took_us);
                }
                Opcode::Error if code == READ_TIMEOUT => outcome.timed_out += 1,
                Opcode::Error => outcome.failed += 1,
                _ => outcome.answered_us.push(took_us),
            }
            if let Some(freed) = &freed {
                let _ = freed.send(());
            }
        }
    }
}
