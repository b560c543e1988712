//! A server without an engine: implements the protocol and sends the answers that the test defines.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use model::CqlType;
use protocol::{
    BODY_BYTES_MAX_DEFAULT, ChangeType, ColumnSpec, CqlError, Inbound, Outbound, ProtocolVersion, Reply,
    Request, RequestMessage, ResultMetadata, SchemaChange, SchemaTarget, SendMetadata, Side,
};

/// The answer to a statement.
#[derive(Clone, Debug)]
pub enum Answer {
    Void,
    /// Columns with their types; values as CQL literals; the paging state of the next page, if there is one.
    Rows(Vec<(&'static str, &'static str)>, Vec<Vec<Option<&'static str>>>, Option<&'static str>),
    SetKeyspace(&'static str),
    Created,
    Error(CqlError),
    Warning(&'static str),
    /// Closes the connection without an answer.
    Close,
    /// Sends no answer and keeps the connection open.
    Silence,
}

/// A received statement.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub text: &'a str,
    pub paging_state: Option<&'a [u8]>,
    pub page_size_rows: Option<i32>,
    pub consistency: &'static str,
}

type Handler = Arc<dyn Fn(&Asked<'_>) -> Answer + Send + Sync>;

pub struct FakeServer {
    pub port: u16,
}

impl FakeServer {
    /// Listens until the test's process ends. Statements on the schema return no rows unless `handler`
    /// returns some.
    #[allow(clippy::disallowed_methods, reason = "a server beside the client under test")]
    pub fn start(
        newest: ProtocolVersion,
        handler: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with_passwords(newest, &[], handler)
    }

    /// As [`Self::start`]. If there are passwords, clients need one: a name, a zero byte, the password.
    #[allow(clippy::disallowed_methods, reason = "a server beside the client under test")]
    pub fn start_with_passwords(
        newest: ProtocolVersion,
        passwords: &'static [&'static str],
        handler: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let handler: Handler = Arc::new(handler);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let handler = Arc::clone(&handler);
                std::thread::spawn(move || serve(stream, newest, passwords, &handler));
            }
        });
        Self { port }
    }
}

fn serve(mut stream: TcpStream, newest: ProtocolVersion, passwords: &[&str], handler: &Handler) {
    let mut inbound = Inbound::new(Side::Server, BODY_BYTES_MAX_DEFAULT);
    let mut outbound = Outbound::new();
    loop {
        while let Ok(Some(envelope)) = inbound.next() {
            let (version, stream_id) = (envelope.header.version, envelope.header.stream);
            if version > newest {
                let text = ProtocolVersion::unsupported_text(version.number());
                let error = CqlError::Protocol(text);
                outbound.envelope(|out| Reply::new(newest, stream_id).error(out, &error));
                let _ = stream.write_all(outbound.ready());
                return;
            }
            let request = RequestMessage::decode(&envelope).unwrap().request;
            let reply = Reply::new(version, stream_id);
            let mut started = false;
            match request {
                Request::Startup(_) => {
                    outbound.envelope(|out| match passwords {
                        [] => reply.ready(out),
                        _ => reply.authenticate(out, "PasswordAuthenticator"),
                    });
                    started = true;
                }
                Request::AuthResponse { token } => {
                    let given = String::from_utf8_lossy(token.unwrap_or_default()).into_owned();
                    let is_right = passwords.contains(&given.trim_start_matches('\0'));
                    let error = CqlError::BadCredentials("wrong".to_string());
                    outbound.envelope(|out| match is_right {
                        true => reply.auth_success(out, None),
                        false => reply.error(out, &error),
                    });
                }
                Request::Query { text, parameters } => {
                    let asked = Asked {
                        text,
                        paging_state: parameters.paging_state,
                        page_size_rows: parameters.page_size_rows,
                        consistency: parameters.consistency.name(),
                    };
                    match handler(&asked) {
                        Answer::Close => return,
                        Answer::Silence => {}
                        answer => outbound.envelope(|out| write(out, reply, &answer)),
                    }
                }
                _ => outbound.envelope(|out| reply.ready(out)),
            }
            if started {
                inbound.started(version, None);
                outbound.started(version, None);
            }
        }
        if stream.write_all(outbound.ready()).is_err() {
            return;
        }
        let sent = outbound.ready().len();
        outbound.sent(sent);
        match stream.read(inbound.space()) {
            Ok(bytes) if bytes > 0 => inbound.filled(bytes),
            _ => return,
        }
    }
}

fn write(out: &mut Vec<u8>, reply: Reply<'_>, answer: &Answer) {
    match answer {
        Answer::Void | Answer::Close | Answer::Silence => reply.void(out),
        Answer::Warning(text) => Reply { warnings: &[(*text).to_string()], ..reply }.void(out),
        Answer::SetKeyspace(keyspace) => reply.set_keyspace(out, keyspace),
        Answer::Created => reply.schema_change(
            out,
            &SchemaChange {
                change: ChangeType::Created,
                keyspace: "ks".to_string(),
                target: SchemaTarget::Table("t".to_string()),
            },
        ),
        Answer::Error(error) => reply.error(out, error),
        Answer::Rows(columns, rows, paging_state) => {
            let types: Vec<CqlType> =
                columns.iter().map(|(_, cql_type)| CqlType::from_cql(cql_type, &|_| None).unwrap()).collect();
            let specs: Vec<ColumnSpec> = columns
                .iter()
                .zip(&types)
                .map(|((name, _), cql_type)| ColumnSpec::new("ks", "t", name, cql_type.clone()))
                .collect();
            let mut writer = reply.rows(out, &ResultMetadata::new(&specs), SendMetadata::Full);
            for row in rows {
                for (value, cql_type) in row.iter().zip(&types) {
                    writer.cell(value.map(|literal| cql_type.bytes_of(literal).unwrap()).as_deref());
                }
                writer.end_row();
            }
            writer.finish(paging_state.map(str::as_bytes));
        }
    }
}
