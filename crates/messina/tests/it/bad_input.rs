//! Tests of a server with clients that send malformed or excessive input, are slow, or disconnect: the client
//! gets a clear error, other clients are unaffected, memory is bounded.

#![allow(clippy::disallowed_methods, reason = "clients are slow in the real world's time")]

use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use base::rng::Rng;
use protocol::{
    BatchQuery, BatchStatement, Consistency, CqlError, ProtocolVersion, QueryParameters, Request, Response,
    Values,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::process::{Dir, Server};
use crate::raw_client::{Client, batch_of, execute, query, query_with, values};

use ProtocolVersion::{V4, V5};

const MIB: usize = 1 << 20;

struct Patient {
    server: Server,
    _dir: Dir,
}

impl Patient {
    fn start(name: &str) -> Self {
        let dir = Dir::new(name);
        let server = Server::start(&dir.0, &["--in-memory", "--memory", "256M"]);
        let mut client = Client::start(server.cql_port, V4);
        client.run(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        client.run("CREATE TABLE ks.t (k text PRIMARY KEY, v text, s set<text>)");
        client.run("CREATE TABLE ks.wide (k int, c int, v blob, PRIMARY KEY (k, c))");
        client.run("INSERT INTO ks.t (k, v) VALUES ('well', 'yes')");
        Self { server, _dir: dir }
    }

    fn port(&self) -> u16 {
        self.server.cql_port
    }

    fn client(&self) -> Client {
        Client::start(self.port(), V4)
    }

    /// Asserts that an ordinary client is served soon, and that memory is within `mib_max`.
    fn is_well(&self, mib_max: usize) {
        for version in ProtocolVersion::ALL {
            let began = Instant::now();
            let mut client = Client::start(self.port(), version);
            assert_eq!(client.rows("SELECT v FROM ks.t WHERE k = 'well'"), [[Some(b"yes".to_vec())]]);
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
        let mib = self.server.resident_bytes() / MIB;
        assert!(mib <= mib_max, "{mib} MiB resident\n{}", self.server.log());
    }

    fn stop(self) {
        let (status, log) = self.server.stop();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.contains("panic"), "{log}");
    }
}

fn text_of(error: &CqlError) -> String {
    format!("{error:?}")
}

/// Asserts that the answer is an error with these words.
#[track_caller]
fn refused(response: &Response, words: &str) {
    let Response::Error(error) = response else { panic!("no error but {response:?}") };
    assert!(text_of(error).contains(words), "{words:?} is not in {error:?}");
}

#[test]
fn bytes_that_are_no_messages() {
    let patient = Patient::start("garbage");
    let port = patient.port();
    // Before and after STARTUP: answered with an error or closed; the server never waits without bound.
    for seed in 0..60u64 {
        let mut random = Rng::new(seed);
        let bytes: Vec<u8> = (0..40_000).map(|_| random.next_u64() as u8).collect();
        let mut client = match seed % 3 {
            0 => Client::connect(port, V4),
            1 => Client::start(port, V4),
            _ => Client::start(port, V5),
        };
        // The server may close the connection before everything is sent.
        let _ = std::io::Write::write_all(&mut client.socket, &bytes);
        let _ = client.socket.shutdown(std::net::Shutdown::Write);
        client.rest();
    }
    patient.is_well(200);

    // An unsupported version is answered in a supported one, or in the old header of versions 1 and 2.
    for (first, answer) in [(1, 0x81), (2, 0x82), (6, 0x85), (0x7f, 0x85), (0x42, 0x85)] {
        let mut client = Client::connect(port, V4);
        client.send(&Client::envelope(first, 5, 0, &[]));
        let bytes = client.rest();
        assert_eq!(bytes[0], answer, "{first}");
        let header_bytes = if first <= 2 { 8 } else { 9 };
        assert_eq!(bytes[header_bytes - 5], 0, "an ERROR");
        assert_eq!(bytes[header_bytes..header_bytes + 4], 0x0Ai32.to_be_bytes());
        let text = String::from_utf8_lossy(&bytes[header_bytes + 6..]).to_string();
        let expect = format!("Invalid or unsupported protocol version ({first}); supported versions are");
        assert!(text.starts_with(&expect), "{text}");
    }
    let mut client = Client::connect(port, V4);
    client.send(&Client::envelope(0x84, 8, 0, &[]));
    assert!(text_of(&client.next_error()).contains("only requests are accepted here"));
    assert!(client.receive().is_none());
    // Another version in mid-connection.
    let mut client = patient.client();
    client.send(&Client::envelope(3, 5, 0, &[]));
    assert!(text_of(&client.next_error()).contains("Invalid message version"));

    // v5: checksums of header and payload.
    for at in [0, 3, 8] {
        let mut client = Client::start(port, V5);
        let mut bytes = client.bytes_of(1, &query("SELECT v FROM ks.t"));
        bytes[at] ^= 1;
        client.send(&bytes);
        let error = text_of(&client.next_error());
        assert!(
            error.contains(if at < 6 { "header has checksum" } else { "payload has checksum" }),
            "{error}"
        );
        assert!(client.receive().is_none(), "nothing after it can be trusted");
    }
    patient.is_well(200);
    patient.stop();
}

#[test]
fn messages_that_cannot_be() {
    let patient = Patient::start("messages");
    let port = patient.port();
    // Claimed lengths: 2 GiB - 1, a byte above the limit, negative.
    let limit = 16 * MIB as u32;
    for claimed in [i32::MAX as u32, limit + 1] {
        for mut client in [Client::connect(port, V4), patient.client()] {
            client.send(&Client::envelope(4, 7, claimed, &[0; 100]));
            let error = text_of(&client.next_error());
            assert!(error.contains(&format!("Request is too big: length {claimed}")), "{error}");
        }
    }
    // The connection continues after a refused message.
    let mut client = patient.client();
    client.send(&Client::envelope(4, 7, limit + 1, &vec![0; limit as usize + 1]));
    assert!(text_of(&client.next_error()).contains("too big"));
    assert_eq!(client.rows("SELECT k FROM ks.t").len(), 1);
    let mut client = patient.client();
    client.send(&Client::envelope(4, 7, 0x8000_0000, &[]));
    assert!(text_of(&client.next_error()).contains("a body of -2147483648 bytes"));
    assert!(client.receive().is_none());

    // Requests that need STARTUP, sent before it; afterwards STARTUP still works.
    let mut client = Client::connect(port, V4);
    let early =
        [query("SELECT k FROM ks.t"), Request::Prepare { text: "x", keyspace: None }, batch_of(vec![])];
    for request in early {
        refused(&client.ask(&request), "before STARTUP");
    }
    client.startup();
    assert_eq!(client.rows("SELECT k FROM ks.t").len(), 1);
    let startup = Request::Startup(protocol::Startup { options: vec![("CQL_VERSION", "3.0.0")] });
    refused(&client.ask(&startup), "STARTUP was sent already");

    for (opcode, words) in [(0x42, "Unknown opcode 66"), (0x08, "has the wrong direction")] {
        client.send(&Client::envelope(4, opcode, 3, b"abc"));
        assert!(text_of(&client.next_error()).contains(words));
    }

    // Requests cut at any position are answered, and the connection continues.
    let bound = values(&[b"cut", b"v"]);
    let full = client.bytes_of(1, &query_with("INSERT INTO ks.t (k, v) VALUES (?, ?)", &bound));
    let batch = batch_of(vec![BatchStatement {
        query: BatchQuery::Text("INSERT INTO ks.t (k, v) VALUES (?, ?)"),
        values: bound.values(),
    }]);
    let batch = client.bytes_of(1, &batch);
    for (opcode, whole) in
        [(7, &full[9..]), (0x0D, &batch[9..]), (9, &full[9..]), (10, &full[9..]), (11, &full[9..])]
    {
        for len in 0..whole.len() {
            client.send(&Client::envelope(4, opcode, len as u32, &whole[..len]));
        }
        for len in 0..whole.len() {
            let (stream, message) =
                client.receive().unwrap_or_else(|| panic!("opcode {opcode}, {len} bytes"));
            assert_eq!(stream, 7);
            assert!(
                matches!(message.response, Response::Error(_) | Response::Ready | Response::Prepared(_)),
                "{message:?}"
            );
        }
    }
    assert_eq!(client.rows("SELECT k FROM ks.t").len(), 1, "nothing was written");

    // Bytes that are not UTF-8.
    let mut body = 8u32.to_be_bytes().to_vec();
    body.extend_from_slice(b"SELECT\xff\xfe\0\x01\0");
    client.send(&Client::envelope(4, 7, body.len() as u32, &body));
    assert!(text_of(&client.next_error()).contains("UTF-8"));
    let insert = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
    refused(&client.ask(&query_with(insert, &values(&[b"k", b"\xff"]))), "UTF");
    refused(&client.ask(&query_with(insert, &values(&[b"\xc3\x28", b"v"]))), "UTF");

    // Unknown prepared statements; too few and too many values.
    let id = [7; 16];
    assert_eq!(client.refusal(&execute(&id, &values(&[]))), CqlError::Unprepared { id: id.to_vec() });
    assert!(matches!(client.refusal(&execute(b"short", &values(&[]))), CqlError::Unprepared { .. }));
    let Response::Prepared(prepared) = client.ask(&Request::Prepare { text: insert, keyspace: None }) else {
        panic!("not prepared")
    };
    for wrong in [values(&[]), values(&[b"k"]), values(&[b"k", b"v", b"w"])] {
        assert!(matches!(client.refusal(&execute(&prepared.id, &wrong)), CqlError::Invalid(_)));
        assert!(matches!(client.refusal(&query_with(insert, &wrong)), CqlError::Invalid(_)));
    }
    patient.is_well(250);
    patient.stop();
}

#[test]
fn statements_that_are_too_much() {
    let patient = Patient::start("statements");
    let mut client = patient.client();
    // 10 MB that are a statement, and 10 MB that are not.
    let text = format!("SELECT v FROM ks.t WHERE k = 'well' {}", " ".repeat(10_000_000));
    assert_eq!(client.rows(&text).len(), 1);
    let text = format!("INSERT INTO ks.t (k, v) VALUES ('large', '{}')", "x".repeat(10_000_000));
    match client.query(&text) {
        Response::Void => assert_eq!(
            client.rows("SELECT v FROM ks.t WHERE k = 'large'")[0][0].as_ref().map(Vec::len),
            Some(10_000_000)
        ),
        answer => refused(&answer, "Invalid("),
    }
    for piece in ["(", "[", "{", "'", "SELECT ", "-", "/*", "$$", "a.", "\u{1F30A}"] {
        let answer = client.query(&piece.repeat(10_000_000 / piece.len()));
        refused(&answer, "Syntax(");
    }
    // Nesting at the limit of the grammar and far beyond it, in types, literals and terms.
    for depth in [100, 10_000, 1_000_000] {
        let nest = |open: &str, inner: &str, close: &str| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        for text in [
            format!("CREATE TABLE ks.d{depth} (k int PRIMARY KEY, v {})", nest("frozen<list<", "int", ">>")),
            format!("INSERT INTO ks.t (k, v) VALUES ('a', {})", nest("[", "1", "]")),
            format!("INSERT INTO ks.t (k, v) VALUES ('a', {})", nest("{1: ", "1", "}")),
            format!("INSERT INTO ks.t (k, v) VALUES ({}, 'v')", nest("(", "'a'", ")")),
            format!("SELECT {} FROM ks.t", nest("f(", "k", ")")),
            format!("SELECT k{} FROM ks.t", " + 1".repeat(depth)),
            format!("SELECT k FROM ks.t WHERE k = {}", nest("-", "1", "")),
        ] {
            if text.len() > 16_000_000 {
                continue;
            }
            let answer = client.query(&text);
            // The grammar allows a hundred levels: a valid text at that depth is executed.
            let is_error = matches!(
                answer,
                Response::Error(CqlError::Syntax(_) | CqlError::Invalid(_) | CqlError::Config(_))
            );
            let is_taken = matches!(answer, Response::Void | Response::Rows(_) | Response::SchemaChange(_));
            assert!(is_error || depth == 100 && is_taken, "{depth}: {}: {answer:?}", &text[..60]);
        }
    }
    // Values that no key may have.
    let long = vec![b'k'; 65_536];
    let insert = "INSERT INTO ks.t (k, v) VALUES (?, 'v')";
    refused(&client.ask(&query_with(insert, &values(&[&long]))), "65535");
    refused(&client.ask(&query_with("SELECT v FROM ks.t WHERE k = ?", &values(&[&long]))), "65535");
    let mut set = 1i32.to_be_bytes().to_vec();
    set.extend_from_slice(&65_536i32.to_be_bytes());
    set.extend_from_slice(&long);
    let add = "UPDATE ks.t SET s = s + ? WHERE k = 'a'";
    // An element may be longer than a key.
    assert!(matches!(client.ask(&query_with(add, &values(&[&set]))), Response::Void));
    // Collections with invalid counts and lengths.
    for count in [-1, 2, 1_000_000, i32::MAX] {
        set[..4].copy_from_slice(&i32::to_be_bytes(count));
        let answer = client.ask(&query_with(add, &values(&[&set])));
        refused(&answer, "Invalid(");
    }
    client.run(&format!("INSERT INTO ks.t (k, v) VALUES ('{}', 'v')", "k".repeat(65_535)));
    assert_eq!(client.rows("SELECT k FROM ks.t WHERE k = 'well'").len(), 1);
    patient.is_well(600);
    patient.stop();
}

#[test]
fn clients_that_are_slow_or_break_off() {
    let patient = Patient::start("slow");
    let port = patient.port();
    let mut client = patient.client();
    let value = vec![7u8; 10_000];
    for c in 0..300i32 {
        let bound = values(&[&c.to_be_bytes(), &value]);
        let insert = query_with("INSERT INTO ks.wide (k, c, v) VALUES (1, ?, ?)", &bound);
        assert_eq!(client.ask(&insert), Response::Void);
    }

    // A byte every 50 ms; meanwhile all other tests.
    let dawdling = std::thread::spawn(move || {
        let mut client = Client::start(port, V5);
        let bytes = client.bytes_of(1, &query("SELECT v FROM ks.t WHERE k = 'well'"));
        for byte in bytes {
            client.send(&[byte]);
            sleep(Duration::from_millis(50));
        }
        assert!(matches!(client.receive().unwrap().1.response, Response::Rows(_)));
    });

    // Half-closed: the requests are answered, then the server closes too.
    for version in ProtocolVersion::ALL {
        let mut client = Client::start(port, version);
        for stream in 0..100 {
            let bytes = client.bytes_of(stream, &query("SELECT v FROM ks.wide WHERE k = 1 LIMIT 5"));
            client.send(&bytes);
        }
        client.half_close();
        let mut streams: Vec<i16> =
            std::iter::from_fn(|| client.receive()).map(|(stream, _)| stream).collect();
        streams.sort_unstable();
        assert_eq!(streams, (0..100).collect::<Vec<_>>());
    }

    // Many requests in flight on one connection, each answered once.
    for version in [V4, V5] {
        let mut client = Client::start(port, version);
        let asked: Vec<u8> = (0..5000)
            .flat_map(|stream| client.bytes_of(stream, &query("SELECT v FROM ks.t WHERE k = 'well'")))
            .collect();
        let mut socket = client.socket.try_clone().unwrap();
        let asking = std::thread::spawn(move || std::io::Write::write_all(&mut socket, &asked).unwrap());
        let mut answered: Vec<i16> = (0..5000)
            .map(|_| {
                let (stream, message) = client.receive().unwrap();
                assert!(matches!(message.response, Response::Rows(_)));
                stream
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..5000).collect::<Vec<_>>());
        asking.join().unwrap();
    }
    patient.is_well(300);

    // Clients that request some GB and read nothing: 20 connections with 1,000 pages of a MB each.
    let before = patient.server.resident_bytes() / MIB;
    let whole = "SELECT v FROM ks.wide WHERE k = 1";
    let paged = QueryParameters { page_size_rows: Some(1000), ..QueryParameters::new(Consistency::One) };
    let paged = Request::Query { text: whole, parameters: paged };
    let mut hungry = patient.client();
    (0..10).for_each(|_| assert!(!hungry.rows(whole).is_empty()));
    let deaf: Vec<Client> = (0..20)
        .map(|index| {
            let mut client = Client::start(port, if index % 2 == 0 { V4 } else { V5 });
            client.socket.set_nonblocking(true).unwrap();
            for stream in 0..1000 {
                let bytes = client.bytes_of(stream, &paged);
                // The server has stopped reading, as it should.
                if std::io::Write::write(&mut client.socket, &bytes).is_err() {
                    break;
                }
            }
            client
        })
        .collect();
    let mut most = 0;
    for _ in 0..20 {
        sleep(Duration::from_millis(100));
        most = most.max(patient.server.resident_bytes() / MIB);
    }
    println!("20 clients that read nothing: {before} MiB resident before, at most {most}");
    assert!(most < 200, "{most} MiB resident");
    // Meanwhile a client that requests large answers gets small ones, and pages or an early error that there
    // is no memory for them.
    assert_eq!(hungry.rows("SELECT v FROM ks.t WHERE k = 'well'").len(), 1);
    let pages: Vec<u8> = (1..=5).flat_map(|stream| hungry.bytes_of(stream, &paged)).collect();
    hungry.send(&pages);
    for _ in 0..5 {
        match hungry.receive().unwrap().1.response {
            Response::Rows(page) => assert!(!page.rows.is_empty()),
            Response::Error(CqlError::Overloaded(_) | CqlError::ReadTimeout { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    patient.is_well(400);
    drop(deaf);
    // The answers that are being produced for them end soon.
    let is_served = (0..200).any(|_| {
        sleep(Duration::from_millis(50));
        matches!(hungry.query(whole), Response::Rows(rows) if rows.rows.len() == 300)
    });
    assert!(is_served, "there is no room although nobody waits");

    // Connections cut within a frame, a batch, a segment, the header; with and without a reset.
    let statement = BatchStatement {
        query: BatchQuery::Text("INSERT INTO ks.t (k, v) VALUES ('half', 'v')"),
        values: Values::default(),
    };
    let batch = batch_of(vec![statement; 20]);
    for version in ProtocolVersion::ALL {
        for part in 1..10 {
            let mut client = Client::start(port, version);
            let bytes = client.bytes_of(1, &batch);
            client.send(&bytes[..bytes.len() * part / 10]);
        }
    }
    sleep(Duration::from_millis(200));
    assert!(patient.client().rows("SELECT v FROM ks.t WHERE k = 'half'").is_empty());

    // Large incomplete messages: those above the shard's limit are refused.
    let mut refusals = 0;
    let mut unfinished = vec![];
    for _ in 0..60 {
        let mut client = patient.client();
        let bytes = Client::envelope(4, 7, 15 * MIB as u32, &vec![b' '; 14 * MIB]);
        match std::io::Write::write_all(&mut client.socket, &bytes) {
            Ok(()) => unfinished.push(client),
            Err(_) => refusals += 1,
        }
    }
    sleep(Duration::from_millis(500));
    let mib = patient.server.resident_bytes() / MIB;
    println!(
        "60 requests of 15 MiB that never end: {mib} MiB resident, {refusals} refused while they were sent"
    );
    patient.is_well(1000);
    for client in &mut unfinished {
        client.socket.set_nonblocking(true).unwrap();
    }
    let refused = unfinished.iter_mut().filter(|client| {
        let mut bytes = [0; 512];
        matches!(std::io::Read::read(&mut &client.socket, &mut bytes), Ok(read) if read > 13 && bytes[9..13] == 0x1001i32.to_be_bytes())
    });
    assert!(refusals + refused.count() > 0, "all 840 MiB were kept");
    drop(unfinished);
    dawdling.join().unwrap();
    patient.is_well(1000);
    patient.stop();
}

/// As many connections as the limits allow, up to 10,000.
#[test]
fn many_connections() {
    const WANTED: u64 = 10_000;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = WANTED.min(maximum.map_or(WANTED, |most| most.saturating_sub(500))) as usize;
    let patient = Patient::start("many");
    let before = patient.server.resident_bytes();
    let mut open: Vec<TcpStream> = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let mut client = patient.client();
        assert_eq!(client.rows("SELECT k FROM ks.t WHERE k = 'well'").len(), 1);
        open.push(client.socket);
    }
    let each = patient.server.resident_bytes().saturating_sub(before) / count;
    println!("{count} connections in {} ms: {each} bytes each", began.elapsed().as_millis());
    assert!(each < 16 << 10, "{each} bytes for each idle connection");
    patient.is_well(400);
    drop(open);
    patient.is_well(400);
    patient.stop();
}

#[test]
fn what_runs_is_answered_before_the_end() {
    let patient = Patient::start("sigterm");
    let port = patient.port();
    let clients: Vec<_> = (0..8)
        .map(|index| {
            std::thread::spawn(move || {
                let mut client = Client::start(port, if index % 2 == 0 { V4 } else { V5 });
                let (mut asked, mut answered) = (0, 0);
                loop {
                    let key = format!("{index}-{asked}");
                    let text = format!("INSERT INTO ks.t (k, v) VALUES ('{key}', 'v')");
                    let bytes = client.bytes_of(1, &query(&text));
                    if std::io::Write::write_all(&mut client.socket, &bytes).is_err() {
                        return (asked, answered);
                    }
                    asked += 1;
                    match client.receive() {
                        Some((_, message)) => {
                            assert_eq!(message.response, Response::Void, "an answer during the stop");
                            answered += 1;
                        }
                        None => return (asked, answered),
                    }
                }
            })
        })
        .collect();
    // A long request is answered nevertheless: a statement of 10 MB that is being parsed when the signal
    // comes.
    let mut slow = patient.client();
    let slow_bytes =
        slow.bytes_of(3, &query(&format!("SELECT v FROM ks.t WHERE k = 'well' {}", " ".repeat(10_000_000))));
    sleep(Duration::from_millis(300));
    slow.send(&slow_bytes);
    sleep(Duration::from_millis(50));
    patient.server.signal(Signal::TERM);
    assert!(matches!(slow.receive(), Some((3, _))), "it was under way");
    assert!(slow.receive().is_none());
    for client in clients {
        let (asked, answered) = client.join().unwrap();
        // One request may have been sent that the server no longer read.
        assert!(answered > 10 && asked - answered <= 1, "{answered} of {asked}");
    }
    let (status, log) = patient.server.end();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn a_traced_request_records_its_activities() {
    let patient = Patient::start("traced");
    for version in ProtocolVersion::ALL {
        let mut client = Client::start(patient.port(), version);
        client.tracing = true;
        let traced = [
            ("INSERT INTO ks.t (k, v) VALUES ('traced', 'v')", "Wrote a mutation of ks.t on shard"),
            ("SELECT v FROM ks.t WHERE k = 'well'", "Read a page of 1 rows in 1 partitions"),
            ("SELECT v FROM nowhere.t", "Answering with an error"),
        ];
        let ids = traced.map(|(text, _)| client.message(&query(text)).extras.tracing_id.expect("an id"));
        // Traces are found by any connection, on whichever shard.
        for mut client in [patient.client(), patient.client(), patient.client()] {
            for ((text, activity), id) in traced.iter().zip(&ids) {
                let id = uuid::Uuid::from_bytes(*id);
                let session = client.rows(&format!(
                    "SELECT request, duration, parameters['query'] FROM system_traces.sessions WHERE session_id = {id}"
                ));
                assert_eq!(session.len(), 1, "{text}");
                assert_eq!(session[0][0].as_deref(), Some(&b"Execute CQL3 query"[..]));
                let duration_us = i32::from_be_bytes(session[0][1].as_deref().unwrap().try_into().unwrap());
                assert!((1..60_000_000).contains(&duration_us), "{duration_us}");
                assert_eq!(session[0][2].as_deref(), Some(text.as_bytes()));
                let events = client.rows(&format!(
                    "SELECT source_elapsed, activity FROM system_traces.events WHERE session_id = {id}"
                ));
                let texts: Vec<_> =
                    events.iter().map(|row| String::from_utf8(row[1].clone().unwrap()).unwrap()).collect();
                assert!(texts.iter().any(|found| found.starts_with(activity)), "{activity}: {texts:?}");
                assert!(events.is_sorted_by_key(|row| row[0].clone()), "{events:?}");
            }
        }
        client.tracing = false;
        assert_eq!(client.message(&query("SELECT k FROM ks.t")).extras.tracing_id, None);
        // A bounded number of traces is kept.
        client.tracing = true;
        for _ in 0..200 {
            client.message(&query("SELECT v FROM ks.t WHERE k = 'well'"));
        }
        client.tracing = false;
        assert_eq!(client.rows("SELECT session_id FROM system_traces.sessions").len(), 128);
    }
    patient.stop();
}
