//! Clients that disconnect, stall, flood or send garbage. None of them may affect another client or leave
//! anything behind.

use std::rc::Rc;

use protocol::{Compression, Consistency, ProtocolVersion, QueryParameters, Request, Response};

use super::connection::{Connection, PATIENCE_US, Reading};
use super::notes::Checker;
use super::plain::KEYSPACE;
use super::session::{Home, Session};

/// Limit of the time between the idle timeout and the close of a connection.
const CLOSES_WITHIN_US: u64 = 10_000_000;

/// Requests in flight on one connection.
const FLOOD_MAX: u64 = 120;

/// Runs one rude client to its end. `idle_us`: the server's idle timeout.
pub async fn one(session: &Session, idle_us: Option<u64>) {
    let Home { shard, notes, address, .. } = &session.home;
    let version = ProtocolVersion::ALL[session.below(3) as usize];
    let compression = session.chance(1, 3).then_some(Compression::Lz4);
    notes.count(|counts| counts.rude += 1);
    let kind = session.below(9);
    session.note(&format!("rude {kind}, {version}, {compression:?}"));
    let Some(connection) = Connection::connect(shard, notes, *address, version).await else { return };
    if kind == 0 {
        // Garbage before STARTUP.
        connection.is_rude.set(true);
        garbage(session, &connection, true).await;
        connection.close();
        return;
    }
    if !connection.startup(compression, session.login()).await {
        return;
    }
    match kind {
        1 => {
            connection.is_rude.set(true);
            garbage(session, &connection, version.has_segments()).await;
        }
        2 => broken_off(session, &connection).await,
        3 => half_a_frame(session, &connection, idle_us).await,
        4 => {
            flood(session, &connection, Reading::NotAtAll, idle_us).await;
            if let Some(idle_us) = idle_us.filter(|_| connection.unanswered() > 0 && session.chance(1, 2)) {
                is_closed(session, &connection, idle_us).await;
            }
        }
        5 => flood(session, &connection, Reading::ByteAtATime, idle_us).await,
        6 => flood(session, &connection, Reading::Promptly, idle_us).await,
        7 => half_closed(session, &connection).await,
        _ => {
            // Stays idle.
            if let Some(idle_us) = idle_us {
                is_closed(session, &connection, idle_us).await;
            }
        }
    }
    connection.close();
}

async fn is_closed(session: &Session, connection: &Connection, idle_us: u64) {
    connection.is_rude.set(true);
    let is_closed = if connection.reading() == Reading::NotAtAll {
        // A client that reads nothing does not see the end. It reads the remaining bytes afterwards, in less
        // time than another idle timeout: a connection that is still open then was not closed before.
        session.home.shard.sleep_us(idle_us + CLOSES_WITHIN_US).await;
        connection.set_reading(Reading::Promptly);
        connection.is_closed_within(idle_us / 2).await
    } else {
        connection.is_closed_within(idle_us + CLOSES_WITHIN_US).await
    };
    if !is_closed {
        session.home.notes.fail(Checker::Connections, format!(
            "a connection that was idle is still open {} s after its timeout, with {} requests unanswered",
            CLOSES_WITHIN_US / 1_000_000,
            connection.unanswered()
        ));
    }
}

/// `must_end`: the bytes cannot be the beginning of a message.
async fn garbage(session: &Session, connection: &Connection, must_end: bool) {
    let mut bytes = vec![0; 16 + session.below(2000) as usize];
    session.fork().fill(&mut bytes);
    if must_end && !connection.version.has_segments() {
        // An unsupported version.
        bytes[0] = 0x77;
    }
    if session.chance(1, 2) && !must_end {
        // A valid header with an invalid body.
        bytes[..9].copy_from_slice(&[connection.version.number(), 0, 0, 5, 7, 0, 0, 0, 7]);
    }
    connection.send_raw(&bytes).await;
    let is_closed = connection.is_closed_within(CLOSES_WITHIN_US).await;
    if must_end && !is_closed {
        session
            .home
            .notes
            .fail(Checker::Connections, "a connection with bytes that are no message is not closed");
    }
}

fn scan() -> Request<'static> {
    // Without a page size: all rows.
    Request::Query {
        text: "SELECT p, c, s, v, w FROM sim.plain",
        parameters: QueryParameters::new(Consistency::One),
    }
}

async fn broken_off(session: &Session, connection: &Connection) {
    connection.is_rude.set(true);
    let (_, bytes) = connection.bytes_of("half a scan", &scan());
    let part = session.below(bytes.len() as u64) as usize;
    connection.send_raw(&bytes[..part]).await;
    session.home.shard.sleep_us(session.below(5000)).await;
}

/// The second part of a frame is late; then the answer must arrive.
async fn half_a_frame(session: &Session, connection: &Rc<Connection>, idle_us: Option<u64>) {
    let (stream, bytes) = connection.bytes_of("a scan in two parts", &scan());
    let part = 1 + session.below(bytes.len() as u64 - 1) as usize;
    connection.send_raw(&bytes[..part]).await;
    if let Some(idle_us) = idle_us.filter(|_| session.chance(1, 2)) {
        is_closed(session, connection, idle_us).await;
        return;
    }
    session.home.shard.sleep_us(session.below(idle_us.map_or(3_000_000, |us| us / 2))).await;
    if connection.send_raw(&bytes[part..]).await {
        connection.answer(stream).await;
    }
}

/// Many requests at once. Each is answered once, unless the client disconnects.
async fn flood(session: &Session, connection: &Rc<Connection>, reading: Reading, idle_us: Option<u64>) {
    connection.set_reading(reading);
    let count = 1 + session.below(FLOOD_MAX);
    let streams: Vec<i16> =
        (0..count).filter_map(|_| connection.send("one of many scans", &scan())).collect();
    match reading {
        Reading::NotAtAll => {
            // After a longer pause the server may close the connection as idle, with answers that were not
            // taken.
            session.home.shard.sleep_us(session.below(idle_us.map_or(4_000_000, |us| us / 2))).await;
            if session.chance(1, 2) {
                connection.is_rude.set(true);
                return;
            }
            connection.set_reading(Reading::Promptly);
        }
        Reading::ByteAtATime => {
            session.home.shard.sleep_us(20_000).await;
            connection.set_reading(Reading::Promptly);
        }
        Reading::Promptly if session.chance(1, 3) => {
            session.home.shard.sleep_us(session.below(3000)).await;
            connection.is_rude.set(true);
            return;
        }
        Reading::Promptly => {}
    }
    for stream in streams {
        check_scan(session, connection.answer(stream).await);
    }
}

fn check_scan(session: &Session, answer: Option<Response>) {
    let notes = &session.home.notes;
    let excuses = notes.excuses.get();
    match answer {
        Some(Response::Rows(_)) | None => {}
        Some(Response::Error(protocol::CqlError::Overloaded(_))) if excuses.is_small => {}
        Some(Response::Error(_))
            if excuses.io || excuses.no_space || excuses.is_stopping || excuses.is_small => {}
        Some(other) => notes.fail(Checker::Answers, format!("a scan is answered with {other:?}")),
    }
}

/// Requests sent before a half-close are answered, and then the server closes.
async fn half_closed(session: &Session, connection: &Rc<Connection>) {
    let mut streams = vec![];
    let mut all = vec![];
    for _ in 0..1 + session.below(8) {
        let (stream, bytes) = connection.bytes_of("a scan before a half close", &scan());
        streams.push(stream);
        all.extend(bytes);
    }
    if !connection.send_raw(&all).await {
        return;
    }
    connection.half_close();
    for stream in streams {
        let answer = connection.answer(stream).await;
        let excuses = session.home.notes.excuses.get();
        if answer.is_none() && !(excuses.network || excuses.is_stopping) {
            session.home.notes.fail(Checker::Answers, "a request before a half-close has no answer");
        }
        check_scan(session, answer);
    }
    if !connection.is_closed_within(PATIENCE_US).await {
        session
            .home
            .notes
            .fail(Checker::Connections, format!("{KEYSPACE}: a half closed connection is not closed"));
    }
}
