//! A client that can send any bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use protocol::CqlError;
use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, BatchStatement, Consistency, Execute, Inbound, Outbound, ProtocolVersion,
    QueryParameters, Request, Response, Side, Startup, Value, ValueBuffer,
};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub socket: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    version: ProtocolVersion,
    pub tracing: bool,
}

impl Client {
    /// Connects without STARTUP.
    pub fn connect(port: u16, version: ProtocolVersion) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let (inbound, outbound) = (Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT), Outbound::new());
        Self { socket, inbound, outbound, version, tracing: false }
    }

    /// Connects and sends STARTUP.
    pub fn start(port: u16, version: ProtocolVersion) -> Self {
        let mut client = Self::connect(port, version);
        client.startup();
        client
    }

    pub fn startup(&mut self) {
        assert_eq!(self.startup_answer(), Response::Ready);
    }

    /// The answer to STARTUP.
    pub fn startup_answer(&mut self) -> Response {
        let startup = Startup { options: vec![("CQL_VERSION", "3.0.0")] };
        let answer = self.ask(&Request::Startup(startup));
        self.inbound.started(self.version, None);
        self.outbound.started(self.version, None);
        answer
    }

    /// The bytes of a request as they are sent.
    pub fn bytes_of(&mut self, stream: i16, request: &Request<'_>) -> Vec<u8> {
        let head = RequestHead { tracing: self.tracing, ..RequestHead::new(self.version, stream) };
        self.outbound.envelope(|out| write_request(out, &head, request));
        let bytes = self.outbound.ready().to_vec();
        self.outbound.sent(bytes.len());
        bytes
    }

    /// An envelope with this header's version, opcode and claimed length, and any body.
    pub fn envelope(version: u8, opcode: u8, claimed_bytes: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![version, 0, 0, 7, opcode];
        bytes.extend_from_slice(&claimed_bytes.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next answer and its stream; `None`: the server has closed the connection.
    pub fn receive(&mut self) -> Option<(i16, ResponseMessage)> {
        loop {
            match self.inbound.next().unwrap() {
                Some(envelope) => {
                    return Some((envelope.header.stream, ResponseMessage::decode(&envelope).unwrap()));
                }
                None => {
                    let read = match self.socket.read(self.inbound.space()) {
                        Ok(read) => read,
                        Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Err(error) => panic!("no answer: {error}"),
                    };
                    if read == 0 {
                        return None;
                    }
                    self.inbound.filled(read);
                }
            }
        }
    }

    /// All remaining bytes until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = vec![];
        match self.socket.read_to_end(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it is not closed: {error}"),
            _ => bytes,
        }
    }

    pub fn message(&mut self, request: &Request<'_>) -> ResponseMessage {
        let bytes = self.bytes_of(1, request);
        self.send(&bytes);
        let (stream, message) = self.receive().expect("an answer");
        assert_eq!(stream, 1);
        message
    }

    pub fn ask(&mut self, request: &Request<'_>) -> Response {
        self.message(request).response
    }

    pub fn query(&mut self, text: &str) -> Response {
        self.ask(&query(text))
    }

    /// The error that answers a request.
    pub fn refusal(&mut self, request: &Request<'_>) -> CqlError {
        match self.ask(request) {
            Response::Error(error) => error,
            other => panic!("no error but {other:?}"),
        }
    }

    /// The next answer, which must be an error.
    pub fn next_error(&mut self) -> CqlError {
        match self.receive().expect("an answer").1.response {
            Response::Error(error) => error,
            other => panic!("no error but {other:?}"),
        }
    }

    pub fn rows(&mut self, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        match self.query(text) {
            Response::Rows(rows) => rows.rows,
            other => panic!("{text}: {other:?}"),
        }
    }

    pub fn run(&mut self, text: &str) {
        let answer = self.query(text);
        assert!(matches!(answer, Response::Void | Response::SchemaChange(_)), "{text}: {answer:?}");
    }

    /// Whether the statement was answered, and not with an error; false if the server is gone.
    pub fn try_run(&mut self, text: &str) -> bool {
        let bytes = self.bytes_of(1, &query(text));
        if self.socket.write_all(&bytes).is_err() {
            return false;
        }
        let answer = self.receive().map(|(_, message)| message.response);
        matches!(answer, Some(Response::Void | Response::SchemaChange(_)))
    }

    pub fn half_close(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }
}

pub fn query(text: &str) -> Request<'_> {
    Request::Query { text, parameters: QueryParameters::new(Consistency::One) }
}

pub fn values(values: &[&[u8]]) -> ValueBuffer {
    let mut buffer = ValueBuffer::default();
    values.iter().for_each(|value| buffer.push(Value::Bytes(value)));
    buffer
}

pub fn query_with<'a>(text: &'a str, values: &'a ValueBuffer) -> Request<'a> {
    let parameters = QueryParameters { values: values.values(), ..QueryParameters::new(Consistency::One) };
    Request::Query { text, parameters }
}

pub fn execute<'a>(id: &'a [u8], values: &'a ValueBuffer) -> Request<'a> {
    let parameters = QueryParameters { values: values.values(), ..QueryParameters::new(Consistency::One) };
    Request::Execute(Execute { id, result_metadata_id: None, parameters })
}

pub fn batch_of<'a>(statements: Vec<BatchStatement<'a>>) -> Request<'a> {
    let parameters = QueryParameters::new(Consistency::One);
    Request::Batch(protocol::Batch { batch_type: protocol::BatchType::Unlogged, statements, parameters })
}
