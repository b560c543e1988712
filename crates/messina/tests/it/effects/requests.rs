//! Options that limit clients' requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::{ProtocolVersion, Response};

use super::{Group, becomes, blob, client, metric};
use crate::process::Server;
use crate::raw_client::{Client, query};

pub fn see(group: &Group) {
    let server = group.start(
        "a",
        &["native_transport_max_frame_size", "native_transport_idle_timeout"],
        &["--in-memory"],
    );
    let mut first = client(&server);
    first.run("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)");
    let bytes =
        first.bytes_of(1, &query(&format!("INSERT INTO ks.t (k, v) VALUES (1, {})", blob(1 << 20, 1))));
    // The node may close the connection while it is sent.
    let _ = first.socket.write_all(&bytes);
    let answer = first.receive().map(|(_, message)| message.response);
    let is_refused = !matches!(answer, Some(Response::Void));
    group.sees("native_transport_max_frame_size", is_refused, format_args!("{answer:?}"));
    let mut idle = Client::start(server.cql_port, ProtocolVersion::V4);
    idle.socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let is_closed = idle.receive().is_none();
    group.sees("native_transport_idle_timeout", is_closed, server.log());
    assert!(server.stop().0.success());

    let server = group.start("b", &["native_transport_max_concurrent_connections"], &["--in-memory"]);
    let first = Client::start(server.cql_port, ProtocolVersion::V4);
    let mut second = TcpStream::connect(("127.0.0.1", server.cql_port)).unwrap();
    second.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let is_closed = second
        .read(&mut [0; 8])
        .map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |read| read == 0);
    group.sees("native_transport_max_concurrent_connections", is_closed, server.log());
    drop(first);
    assert!(server.stop().0.success());

    let server = slow(group, "c", &["max_concurrent_requests_per_shard"]);
    let mut flooding = flood(&server, 100, 10);
    let answers: Vec<Response> =
        (0..100).filter_map(|_| flooding.receive()).map(|(_, message)| message.response).collect();
    let refused = answers.iter().filter(|answer| matches!(answer, Response::Error(_))).count();
    group.sees("max_concurrent_requests_per_shard", refused > 0 && refused < 100, refused);
    assert!(server.stop().0.success());

    let delayed = "messina_transport_requests_delayed_total{";
    let server = slow(group, "d", &["native_transport_max_concurrent_requests_in_bytes"]);
    let _flooding = flood(&server, 20, 200 << 10);
    let is_delayed = becomes(|| metric(&server, delayed) > 0.0);
    group.sees("native_transport_max_concurrent_requests_in_bytes", is_delayed, server.log());
    assert!(server.stop().0.success());
}

/// A node of one shard whose writes take half a second, so that many are in flight.
fn slow(group: &Group, place: &str, options: &[&'static str]) -> Server {
    let slow =
        ["--set", "smp=1", "--set", "commitlog_sync=group", "--set", "commitlog_sync_group_window=500ms"];
    let server = group.start(place, options, &slow);
    client(&server).run("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)");
    server
}

/// Sends `requests` writes of `bytes` bytes each, without waiting for answers.
fn flood(server: &Server, requests: i16, bytes: usize) -> Client {
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    for number in 0..requests {
        let text = format!("INSERT INTO ks.t (k, v) VALUES ({number}, {})", blob(bytes, number as u64));
        let request = client.bytes_of(number, &query(&text));
        client.send(&request);
    }
    client
}
