//! Test: every answer is sent, whatever the network and the scheduler do.
//!
//! A simulated server without an engine answers each statement with an error. The error takes the path of all
//! answers: a task of the request's group, the connection's `Outbound`, the sending task. Large answers are
//! added by hand. The simulation makes short writes, late and torn deliveries, tasks in any order, and
//! `need_preempt` at any time; tasks that never wait keep the CPU from the sending tasks; the client stops
//! reading for seconds, until the socket's buffer and its own are full.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::HashSet;
use cql::BatchLimits;
use cql::ResultRows;
use cql::system::NodeInfo;
use protocol::client::{RequestHead, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, Consistency, Inbound, Outbound, ProtocolVersion, QueryParameters, Reply, Request,
    ResultMetadata, SendMetadata, Side, Startup,
};
use runtime::sim::{FaultPlan, SimOptions, SimWorld};
use runtime::{CpuGroup, ListenOptions, Shard};

use super::connection::Connection;
use super::transport::{Encryption, Transport};
use super::{CqlOptions, CqlShard, Timeouts, overload};

const GROUP: CpuGroup = CpuGroup::Statement;
const REQUESTS: i16 = 300;
const LARGE: i16 = 3;
const LARGE_BYTES: usize = 700_000;
/// Limit between the client's last pause and the last answer, in simulated time.
const BOUND_US: u64 = 20_000_000;

fn options() -> CqlOptions {
    let second_us = 1_000_000;
    CqlOptions {
        node: NodeInfo::new(uuid::Uuid::from_u128(7), [127, 0, 0, 1].into(), 9042),
        shard_aware_port: None,
        shard_aware_port_ssl: None,
        body_bytes_max: BODY_BYTES_MAX_DEFAULT,
        connections_max: 10,
        requests_per_connection_max: 64,
        limits: overload::Limits { request_bytes_max: 1 << 20, requests_max: 1000 },
        passwords: None,
        checks_permissions: false,
        masks_columns: false,
        scripts: None,
        counts_as_all_replicas: false,
        timeouts: Timeouts {
            read_us: 5 * second_us,
            range_us: 5 * second_us,
            write_us: 2 * second_us,
            counter_us: 5 * second_us,
            conditional_us: 5 * second_us,
            truncate_us: 60 * second_us,
        },
        answer_bytes_max: 4 << 20,
        unfinished_bytes_max: 4 << 20,
        open_connections: Arc::default(),
        prepared_bytes_max: 1 << 20,
        audit: None,
        slow_query_us: 0,
        idle_timeout_us: None,
        batch_limits: BatchLimits::DEFAULT,
        schema_rules: cql::SchemaRules::default(),
        result_limits: cql::ResultLimits::default(),
        result_bytes_max: 4 << 20,
        tombstone_warn_threshold: 0,
    }
}

async fn serve(shard: Shard, listener: runtime::Listener, options: CqlOptions) {
    CqlShard::start(&shard, Arc::new(options));
    let Some(accepted) = listener.accept().await else { return };
    let stream = shard.net().adopt(accepted).expect("a connection");
    let transport = Transport::new(stream, &Encryption::Plain).expect("no TLS");
    let cql = CqlShard::of(&shard).expect("it was started");
    Connection::serve(cql, transport).await;
}

/// Adds answers of several blocks, as a large result has them.
async fn answer_large(shard: Shard, version: ProtocolVersion) {
    let connection = loop {
        shard.sleep_us(1000).await;
        let Ok(cql) = CqlShard::of(&shard) else { continue };
        let connection = cql.connections.borrow().values().next().cloned();
        if let Some(connection) = connection.filter(|connection| connection.session.version().is_some()) {
            break connection;
        }
    };
    for stream in 0..LARGE {
        shard.sleep_us(3000).await;
        let mut rows = ResultRows::new(Arc::new(ResultMetadata::none()));
        let value = vec![stream as u8; 1000];
        while rows.cells_bytes() < LARGE_BYTES {
            rows.cell(Some(&value));
            rows.end_row();
        }
        let (count, bytes, columns) = (rows.count(), rows.cells_bytes(), rows.columns.clone());
        let reply = Reply::new(version, REQUESTS + stream);
        let head =
            |out: &mut Vec<u8>| reply.rows(out, &columns, SendMetadata::Full).finish_head(bytes, count);
        connection.answer_streamed(head, rows.into_blocks());
    }
}

/// Keeps the CPU busy, again and again.
async fn starve(shard: Shard, is_over: Rc<Cell<bool>>) {
    while !is_over.get() {
        for _ in 0..20 {
            shard.yield_now().await;
        }
        shard.sleep_us(50).await;
    }
}

/// A client's connection after STARTUP, and its read buffer.
async fn introduced(
    shard: &Shard,
    address: SocketAddr,
    version: ProtocolVersion,
) -> (Rc<runtime::Stream>, Inbound) {
    let stream = Rc::new(shard.net().connect(address).await.expect("a connection"));
    let (mut inbound, mut outbound) = (Inbound::new(Side::Client, 16 << 20), Outbound::new());
    let startup = Request::Startup(Startup { options: vec![("CQL_VERSION", "3.0.0")] });
    outbound.envelope(|out| write_request(out, &RequestHead::new(version, 1), &startup));
    stream.write_all(outbound.ready()).await.expect("sent");
    read_one(&stream, &mut inbound).await;
    inbound.started(version, None);
    (stream, inbound)
}

async fn read_one(stream: &runtime::Stream, inbound: &mut Inbound) {
    let mut bytes = vec![];
    while inbound.next().expect("an answer").is_none() {
        bytes.clear();
        assert!(stream.read(&mut bytes, 4096).await.expect("bytes") > 0);
        inbound.feed(&bytes);
    }
}

/// The bytes of statements, one for each stream id in `streams`.
fn statements(version: ProtocolVersion, streams: std::ops::Range<i16>) -> Vec<u8> {
    let mut outbound: Outbound = Outbound::new();
    outbound.started(version, None);
    let text = "SELECT v FROM ks.t WHERE k = 'a key that nobody has'";
    for stream in streams {
        let request = Request::Query { text, parameters: QueryParameters::new(Consistency::One) };
        outbound.envelope(|out| write_request(out, &RequestHead::new(version, stream), &request));
    }
    outbound.ready().to_vec()
}

/// Sends all statements, reads with pauses, and returns the time from the last pause to the last answer.
async fn ask(shard: Shard, address: SocketAddr, version: ProtocolVersion, pauses: u64) -> u64 {
    let (stream, mut inbound) = introduced(&shard, address, version).await;
    let mut bytes = vec![];
    let (sender, asked) = (stream.clone(), statements(version, 0..REQUESTS));
    let sending = shard.spawn(GROUP, async move { sender.write_all(&asked).await });
    let mut answered = HashSet::default();
    let (mut paused, mut last_pause_us) = (0, shard.now_us());
    while answered.len() < usize::try_from(REQUESTS + LARGE).expect("a count") {
        if paused < pauses && answered.len() >= paused as usize * 40 {
            paused += 1;
            shard.sleep_us(1_500_000).await;
            last_pause_us = shard.now_us();
        }
        bytes.clear();
        let read = stream.read(&mut bytes, 20_000).await.expect("bytes");
        assert!(read > 0, "the server has closed; {} answers", answered.len());
        inbound.feed(&bytes);
        while let Some(envelope) = inbound.next().expect("whole envelopes") {
            assert!(answered.insert(envelope.header.stream), "{} twice", envelope.header.stream);
            if envelope.header.stream >= REQUESTS {
                assert!(envelope.body.len() >= LARGE_BYTES);
            }
        }
    }
    sending.await.expect("everything was asked");
    shard.now_us() - last_pause_us
}

#[test]
fn every_answer_is_sent_whatever_comes_in_between() {
    let mut longest_us = 0;
    for seed in 0..60 {
        let faults = FaultPlan { short_transfer: 0.5, spike: 0.02, ..FaultPlan::default() };
        let world = SimWorld::new(SimOptions { seed, shards: 1, faults, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).expect("a node");
        let version = if seed % 2 == 0 { ProtocolVersion::V4 } else { ProtocolVersion::V5 };
        let took = world.block_on(&node, 0, move |shard| async move {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = shard.net().listen(address, ListenOptions::default()).expect("a port");
            let address = listener.local_addr();
            let serving = shard.spawn(GROUP, serve(shard.clone(), listener, options()));
            let is_over = Rc::new(Cell::new(false));
            let starving: Vec<_> =
                (0..seed % 4).map(|_| shard.spawn(GROUP, starve(shard.clone(), is_over.clone()))).collect();
            let answering = shard.spawn(GROUP, answer_large(shard.clone(), version));
            let took_us = ask(shard.clone(), address, version, seed % 5).await;
            is_over.set(true);
            answering.await;
            for task in starving {
                task.await;
            }
            serving.await;
            took_us
        });
        let took_us = took.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        assert!(took_us < BOUND_US, "seed {seed}: the last answer came {took_us} us after the last pause");
        longest_us = longest_us.max(took_us);
    }
    println!("the last answer came at most {} ms after the client's last pause", longest_us / 1000);
}

/// The idle timeout closes the connection of a client that takes nothing, even while its requests wait for
/// memory that its own answers hold. They wait for at most five seconds.
#[test]
fn requests_that_wait_for_their_own_answers_do_not_keep_a_silent_client() {
    const IDLE_US: u64 = 2_000_000;
    let world = SimWorld::new(SimOptions { seed: 3, shards: 1, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).expect("a node");
    let closed = world.block_on(&node, 0, |shard| async move {
        let version = ProtocolVersion::V4;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = shard.net().listen(address, ListenOptions::default()).expect("a port");
        let address = listener.local_addr();
        // Requests wait for half of it when 120,000 bytes of answers wait.
        let answer_bytes_max = 220_000;
        let options = CqlOptions { idle_timeout_us: Some(IDLE_US), answer_bytes_max, ..options() };
        let serving = shard.spawn(GROUP, serve(shard.clone(), listener, options));
        let (stream, mut inbound) = introduced(&shard, address, version).await;
        // Enough requests that the connection gets no short pages.
        for number in 0..8 {
            stream.write_all(&statements(version, number..number + 1)).await.expect("sent");
            read_one(&stream, &mut inbound).await;
        }
        // These answers fill the socket; the following ones wait after them.
        answer_large(shard.clone(), version).await;
        let cql = CqlShard::of(&shard).expect("it was started");
        let connection = cql.connections.borrow().values().next().cloned().expect("a connection");
        let error = protocol::CqlError::Server("e".repeat(60_000));
        for number in 100..102 {
            connection.answer(|out| Reply::new(version, number).error(out, &error));
        }
        drop(connection);
        stream.write_all(&statements(version, 10..30)).await.expect("sent");
        let silent_since_us = shard.now_us();
        shard.sleep_us(IDLE_US / 2).await;
        let requests = cql.requests.get();
        serving.await;
        (requests, shard.now_us() - silent_since_us)
    });
    let (requests, closed_us) = closed.expect("it ends");
    assert!(requests > 1, "{requests} requests wait for room");
    assert!(closed_us < IDLE_US + IDLE_US / 4, "closed after {closed_us} us");
}
