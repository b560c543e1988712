//! Options of addresses and ports.

use std::io::{Read, Write};
use std::net::TcpStream;

use protocol::ProtocolVersion;

use super::Group;
use crate::process::http;
use crate::raw_client::Client;

/// Whether a CQL listener answers OPTIONS of version 4 with SUPPORTED there.
fn answers(address: &str, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((address, port)) else { return false };
    let mut answer = [0; 5];
    let asked = stream.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]);
    asked.and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == [0x84, 0, 0, 0, 6]
}

/// Whether an HTTP listener answers there.
fn serves(address: &str, port: u16, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect((address, port)) else { return false };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let asked = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    asked.is_ok() && answer.starts_with("HTTP/1.1 200")
}

pub fn see(group: &Group) {
    let options = ["listen_address", "broadcast_rpc_address", "api_address", "prometheus_address"];
    let server = group.start("a", &options, &[]);
    let (cql, api, metrics) = (server.cql_port, server.api_port, server.prometheus_port);
    group.sees("listen_address", answers("127.0.0.2", cql) && !answers("127.0.0.1", cql), server.log());
    let at = |address: &str| (serves(address, api, "/v1/version"), serves(address, metrics, "/metrics"));
    let (there, here) = (at("127.0.0.2"), at("127.0.0.1"));
    group.sees("api_address", there.0 && !here.0, server.log());
    group.sees("prometheus_address", there.1 && !here.1, server.log());
    assert!(server.stop().0.success());

    let options = [
        "rpc_address",
        "native_transport_port",
        "native_shard_aware_transport_port",
        "api_port",
        "prometheus_port",
    ];
    let server = group.start("b", &options, &["--set", "listen_address=127.0.0.2"]);
    let port = |option| group.port(option);
    let own = port("native_transport_port");
    group.sees("rpc_address", answers("127.0.0.3", own) && !answers("127.0.0.2", own), server.log());
    group.sees("native_transport_port", !answers("127.0.0.3", server.cql_port), server.log());
    let aware = port("native_shard_aware_transport_port");
    group.sees("native_shard_aware_transport_port", answers("127.0.0.3", aware), server.log());
    let is_api = serves("127.0.0.1", port("api_port"), "/v1/version")
        && !serves("127.0.0.1", server.api_port, "/v1/version");
    group.sees("api_port", is_api, server.log());
    group.sees("prometheus_port", serves("127.0.0.1", port("prometheus_port"), "/metrics"), server.log());
    assert!(server.stop().0.success());

    let server = group.start("c", &["broadcast_rpc_address", "api_page"], &[]);
    let is_api = serves("127.0.0.1", server.api_port, "/v1/version");
    group.sees("api_page", is_api && !serves("127.0.0.1", server.api_port, "/"), server.log());
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    let shown = client.rows("SELECT rpc_address FROM system.local").concat();
    group.sees("broadcast_rpc_address", shown == [Some(vec![10, 1, 2, 3])], format_args!("{shown:?}"));
    assert!(server.stop().0.success());

    let server = group.start("d", &["api_page_console"], &[]);
    let state = http(server.api_port, "GET /v1/console", "").1;
    group.sees("api_page_console", state.contains("api_page_console is false"), state);
    assert!(server.stop().0.success());
}
