//! A client with many requests in flight on one connection, with a thread of its own.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::CqlError;
use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, Consistency, Inbound, Outbound, ProtocolVersion, QueryParameters, Request,
    Response, Rows, Side, Startup,
};

use crate::BenchError;
use crate::stopwatch::Stopwatch;

/// Time that a client waits for an answer before it reports that the server is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// A connection that is ready for statements.
pub(super) struct Client {
    socket: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
}

impl Client {
    pub(super) fn open(port: u16) -> Result<Self, BenchError> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let inbound = Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT);
        let mut client = Self { socket, inbound, outbound: Outbound::new() };
        let startup = Startup { options: vec![("CQL_VERSION", "3.0.0")] };
        client.send(0, &Request::Startup(startup))?;
        let (_, answer) = client.receive()?;
        client.inbound.started(VERSION, None);
        client.outbound.started(VERSION, None);
        match answer {
            Response::Ready => Ok(client),
            other => Err(format!("the server answered to STARTUP with {other:?}").into()),
        }
    }

    fn send(&mut self, stream: i16, request: &Request<'_>) -> Result<(), BenchError> {
        let head = RequestHead::new(VERSION, stream);
        self.outbound.envelope(|out| write_request(out, &head, request));
        loop {
            let ready = self.outbound.ready();
            if ready.is_empty() {
                return Ok(());
            }
            let sent = self.socket.write(ready)?;
            self.outbound.sent(sent);
        }
    }

    fn query(
        &mut self,
        stream: i16,
        text: &str,
        page_rows: Option<i32>,
        paging_state: Option<&[u8]>,
    ) -> Result<(), BenchError> {
        let parameters = QueryParameters {
            page_size_rows: page_rows,
            paging_state,
            ..QueryParameters::new(Consistency::One)
        };
        self.send(stream, &Request::Query { text, parameters })
    }

    fn receive(&mut self) -> Result<(i16, Response), BenchError> {
        loop {
            let next = self.inbound.next().map_err(|error| error.error)?;
            if let Some(envelope) = next {
                let stream = envelope.header.stream;
                return Ok((stream, ResponseMessage::decode(&envelope)?.response));
            }
            match self.socket.read(self.inbound.space()) {
                Ok(0) => return Err("the server has closed the connection".into()),
                Ok(bytes) => self.inbound.filled(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(format!("no answer within {} s", PATIENCE.as_secs()).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a statement and waits for the answer. An error of the server is returned as a value too.
    pub(super) fn ask(&mut self, text: &str) -> Result<Result<Rows, CqlError>, BenchError> {
        self.query(1, text, None, None)?;
        match self.receive()?.1 {
            Response::Rows(rows) => Ok(Ok(rows)),
            Response::Error(error) => Ok(Err(error)),
            other => Err(format!("the server answered with {other:?}, which was not asked for").into()),
        }
    }
}

/// The answers that readers received.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    pub(super) pages: u64,
    pub(super) rows: u64,
    /// Partitions that were read to their end.
    pub(super) wholes: u64,
    /// Number of errors by message.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Outcomes {
    pub(super) fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.rows += other.rows;
        self.wholes += other.wholes;
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

/// Runs `readers` readers on one connection. Each reads whole partitions one after another until `watch`
/// shows `seconds`: by pages, or without paging if `page_rows` is `None`. After an error a reader continues
/// with its next partition. The function returns when all requests have been answered.
pub(super) fn read_wholes(
    port: u16,
    readers: usize,
    partitions: u64,
    page_rows: Option<i32>,
    watch: &Stopwatch,
    seconds: f64,
) -> Result<Outcomes, BenchError> {
    let mut client = Client::open(port)?;
    let mut outcomes = Outcomes::default();
    let mut next = 0;
    let mut statement = || {
        next += 1;
        format!("SELECT at, value FROM bench.wide WHERE partition = {}", next % partitions)
    };
    let mut statements: Vec<String> = (0..readers).map(|_| statement()).collect();
    for (stream, text) in statements.iter().enumerate() {
        client.query(stream as i16, text, page_rows, None)?;
    }
    let mut under_way = readers;
    while under_way > 0 {
        let (stream, response) = client.receive()?;
        let reader = usize::try_from(stream).ok().filter(|reader| *reader < readers);
        let reader = reader.ok_or_else(|| format!("an answer on stream {stream}, which nobody uses"))?;
        let mut paging_state = None;
        match response {
            Response::Rows(rows) => {
                outcomes.pages += 1;
                outcomes.rows += rows.rows.len() as u64;
                paging_state = rows.metadata.paging_state;
                outcomes.wholes += u64::from(paging_state.is_none());
            }
            Response::Error(error) => *outcomes.errors.entry(kind(&error)).or_default() += 1,
            other => return Err(format!("the server answered with {other:?}").into()),
        }
        if watch.spent().wall_s >= seconds {
            under_way -= 1;
            continue;
        }
        if paging_state.is_none() {
            statements[reader] = statement();
        }
        client.query(stream, &statements[reader], page_rows, paging_state.as_deref())?;
    }
    Ok(outcomes)
}

/// The kind of an error for grouping, without numbers.
pub(super) fn kind(error: &CqlError) -> String {
    format!("0x{:04X} {error}", error.code())
}
