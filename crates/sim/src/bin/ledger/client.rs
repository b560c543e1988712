//! A client of a node that may be killed at any moment: CQL frames and the admin API over TCP, on one thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::CqlError;
use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, Consistency, Inbound, Outbound, ProtocolVersion, QueryParameters, Request,
    Response, Rows, Side, Startup,
};

const VERSION: ProtocolVersion = ProtocolVersion::V4;
/// A node that does not answer within this time has failed, not been killed.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGE_ROWS: i32 = 5000;

/// Why a client cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The connection has ended: it is unknown whether the request was executed.
    Gone,
    /// The node has violated a promise.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// A CQL connection, and the address of the admin API.
pub struct Client {
    socket: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    api_port: u16,
    /// Requests that the node refused temporarily: overload or timeout.
    pub refused: u64,
}

impl Client {
    pub fn open(cql_port: u16, api_port: u16) -> Result<Self, Stop> {
        let gone = |_| Stop::Gone;
        let socket = TcpStream::connect(("127.0.0.1", cql_port)).map_err(gone)?;
        socket.set_nodelay(true).map_err(gone)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
        let (inbound, outbound) = (Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT), Outbound::new());
        let mut client = Self { socket, inbound, outbound, api_port, refused: 0 };
        let startup = Startup { options: vec![("CQL_VERSION", "3.0.0")] };
        match client.ask(&Request::Startup(startup))? {
            Response::Ready => {}
            other => return Err(Stop::Wrong(format!("STARTUP is answered with {other:?}"))),
        }
        client.inbound.started(VERSION, None);
        client.outbound.started(VERSION, None);
        Ok(client)
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Response, Stop> {
        self.send(0, request)?;
        Ok(self.receive()?.1)
    }

    fn send(&mut self, stream: i16, request: &Request<'_>) -> Result<(), Stop> {
        self.outbound.envelope(|out| write_request(out, &RequestHead::new(VERSION, stream), request));
        let bytes = self.outbound.ready().to_vec();
        self.outbound.sent(bytes.len());
        self.socket.write_all(&bytes).map_err(|_| Stop::Gone)
    }

    fn receive(&mut self) -> Result<(i16, Response), Stop> {
        loop {
            let envelope = self.inbound.next().map_err(|error| Stop::Wrong(format!("a frame: {error:?}")))?;
            if let Some(envelope) = envelope {
                let message = ResponseMessage::decode(&envelope);
                let message = message.map_err(|error| Stop::Wrong(format!("an answer: {error}")))?;
                return Ok((envelope.header.stream, message.response));
            }
            match self.socket.read(self.inbound.space()) {
                Ok(0) => return Err(Stop::Gone),
                Ok(bytes) => self.inbound.filled(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(Stop::Wrong(format!("no answer in {} s", PATIENCE.as_secs())));
                }
                Err(_) => return Err(Stop::Gone),
            }
        }
    }

    /// Sends a statement. `None`: it was not executed in time, and may have happened or not.
    pub fn statement(&mut self, text: &str) -> Result<Option<Response>, Stop> {
        let answer = self.ask(&query(text, None))?;
        self.judge(text, answer)
    }

    /// Sends all statements at once. `each` gets a statement's index and its answer, like that of
    /// [`Self::statement`], in order of arrival.
    pub fn statements(
        &mut self,
        texts: &[String],
        mut each: impl FnMut(usize, Option<Response>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for (stream, text) in texts.iter().enumerate() {
            self.send(stream as i16, &query(text, None))?;
        }
        for _ in texts {
            let (stream, answer) = self.receive()?;
            let place = usize::try_from(stream).ok().filter(|place| *place < texts.len());
            let Some(place) = place else {
                return Err(Stop::Wrong(format!("an answer on stream {stream}, of {}", texts.len())));
            };
            let judged = self.judge(&texts[place], answer)?;
            each(place, judged)?;
        }
        Ok(())
    }

    fn judge(&mut self, text: &str, answer: Response) -> Result<Option<Response>, Stop> {
        let Response::Error(error) = answer else { return Ok(Some(answer)) };
        let is_passing = matches!(
            error,
            CqlError::WriteTimeout { .. }
                | CqlError::ReadTimeout { .. }
                | CqlError::CasWriteUnknown { .. }
                | CqlError::Overloaded(_)
        );
        if is_passing {
            self.refused += 1;
            return Ok(None);
        }
        Err(Stop::Wrong(format!("{text}: {error}")))
    }

    /// All rows of a SELECT, page by page.
    pub fn rows(&mut self, text: &str) -> Result<Vec<Vec<Option<Vec<u8>>>>, Stop> {
        let mut rows = vec![];
        let mut state: Option<Vec<u8>> = None;
        loop {
            let answer = self.ask(&query(text, state.as_deref()))?;
            let Some(Response::Rows(Rows { metadata, rows: page })) = self.judge(text, answer)? else {
                return Err(Stop::Wrong(format!("{text}: no rows")));
            };
            rows.extend(page);
            state = metadata.paging_state;
            if state.is_none() {
                return Ok(rows);
            }
        }
    }

    /// A POST to the admin API; returns the body of a successful answer.
    ///
    /// # Errors
    /// [`Stop::Wrong`]: the node refused it.
    pub fn post(&self, path: &str) -> Result<String, Stop> {
        let gone = |_| Stop::Gone;
        let mut socket = TcpStream::connect(("127.0.0.1", self.api_port)).map_err(gone)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Requested-By: ledger\r\nContent-Length: 0\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).map_err(gone)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(Stop::Gone)?;
        if head.starts_with("HTTP/1.1 200") {
            return Ok(body.to_string());
        }
        Err(Stop::Wrong(format!("{path}: {answer}")))
    }
}

fn query<'a>(text: &'a str, paging_state: Option<&'a [u8]>) -> Request<'a> {
    let parameters = QueryParameters {
        page_size_rows: Some(PAGE_ROWS),
        paging_state,
        ..QueryParameters::new(Consistency::One)
    };
    Request::Query { text, parameters }
}

/// Cells of a row, decoded as the types of the ledger's tables.
pub struct Cells<'a>(pub &'a [Option<Vec<u8>>]);

impl Cells<'_> {
    pub fn int(&self, place: usize) -> Result<i32, String> {
        let bytes = self.cell(place)?.first_chunk().ok_or("an int of less than 4 bytes")?;
        Ok(i32::from_be_bytes(*bytes))
    }

    pub fn bigint(&self, place: usize) -> Result<i64, String> {
        let bytes = self.cell(place)?.first_chunk().ok_or("a bigint of less than 8 bytes")?;
        Ok(i64::from_be_bytes(*bytes))
    }

    pub fn text(&self, place: usize) -> Result<String, String> {
        String::from_utf8(self.cell(place)?.to_vec()).map_err(|error| error.to_string())
    }

    pub fn cell(&self, place: usize) -> Result<&[u8], String> {
        let cell = self.0.get(place).and_then(Option::as_deref);
        cell.ok_or_else(|| format!("no value in place {place} of {:?}", self.0))
    }
}
