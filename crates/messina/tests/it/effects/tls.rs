//! Options of clients' TLS, one by one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::Group;
use crate::certificates::{Authority, Issued};
use crate::doors::{plain_answers, tls_config};
use crate::process::{Server, output};

/// Version and cipher suite of a connection that answers OPTIONS; `None`: there is no connection.
fn negotiated(port: u16, authority: &Path, own: Option<&Issued>) -> Option<(String, String)> {
    let connection = ClientConnection::new(
        Arc::new(tls_config(authority, own)),
        ServerName::try_from("localhost").unwrap(),
    )
    .unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port)).ok()?);
    let mut answer = [0; 5];
    stream.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]).and_then(|()| stream.read_exact(&mut answer)).ok()?;
    assert_eq!(answer, [0x84, 0, 0, 0, 6]);
    let version = format!("{:?}", stream.conn.protocol_version()?);
    Some((version, format!("{:?}", stream.conn.negotiated_cipher_suite()?.suite())))
}

const ON: [&str; 3] = [
    "client_encryption_options.enabled",
    "client_encryption_options.certificate",
    "client_encryption_options.keyfile",
];

pub fn see(group: &Group) {
    let dir = group.place("a");
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let (ca, other) = (dir.join("ca.pem"), dir.join("other.pem"));
    authority.write(&ca);
    stranger.write(&other);
    authority.issue(&dir, "server", 1);
    let (good, revoked) = (authority.issue(&dir, "good", 2), authority.issue(&dir, "revoked", 3));
    let strange = stranger.issue(&dir, "strange", 4);
    authority.revoke(&dir.join("crl.pem"), &[3]);
    let start =
        |more: &[&'static str]| -> Server { group.start("a", &[&ON[..], more].concat(), &["--in-memory"]) };

    let server = start(&[]);
    let tls = negotiated(server.cql_port, &ca, None);
    group.sees(ON[0], tls.is_some() && !plain_answers(server.cql_port), format_args!("{tls:?}"));
    group.sees(ON[1], negotiated(server.cql_port, &other, None).is_none(), "another authority is enough");
    let (version, suite) = tls.unwrap();
    assert!(version.contains("1_3") && !suite.contains("CHACHA"), "{version} {suite}");
    assert!(server.stop().0.success());
    let key = "client_encryption_options.keyfile=good.key";
    let arguments = group.arguments(&ON[..2]);
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let certificate = format!("client_encryption_options.certificate={}", dir.join("server.pem").display());
    let wrong = key.replace("good.key", good.keyfile.to_str().unwrap());
    all.extend([
        "--set",
        &certificate,
        "--set",
        &wrong,
        "--in-memory",
        "--api-port",
        "0",
        "--prometheus-port",
        "0",
    ]);
    let (status, text) = output(&all);
    group.sees(ON[2], !status.success() && text.contains("client_encryption_options"), text);

    let server = start(&["client_encryption_options.optional"]);
    let both = plain_answers(server.cql_port) && negotiated(server.cql_port, &ca, None).is_some();
    group.sees("client_encryption_options.optional", both, server.log());
    assert!(server.stop().0.success());

    let server =
        start(&["client_encryption_options.require_client_auth", "client_encryption_options.truststore"]);
    let takes = |own: Option<&Issued>| negotiated(server.cql_port, &ca, own).is_some();
    group.sees(
        "client_encryption_options.require_client_auth",
        takes(Some(&good)) && !takes(None),
        server.log(),
    );
    group.sees("client_encryption_options.truststore", !takes(Some(&strange)), server.log());
    assert!(takes(Some(&revoked)));
    assert!(server.stop().0.success());
    let server = start(&[
        "client_encryption_options.require_client_auth",
        "client_encryption_options.truststore",
        "client_encryption_options.certificate_revocation_list",
    ]);
    let takes = |own: &Issued| negotiated(server.cql_port, &ca, Some(own)).is_some();
    let is_revoked = takes(&good) && !takes(&revoked);
    group.sees("client_encryption_options.certificate_revocation_list", is_revoked, server.log());
    assert!(server.stop().0.success());

    let server = start(&["client_encryption_options.accepted_protocols"]);
    let found = negotiated(server.cql_port, &ca, None);
    let is_older = found.as_ref().is_some_and(|(version, _)| version.contains("1_2"));
    group.sees("client_encryption_options.accepted_protocols", is_older, format_args!("{found:?}"));
    assert!(server.stop().0.success());
    let server = start(&["client_encryption_options.cipher_suites"]);
    let found = negotiated(server.cql_port, &ca, None);
    let is_it = found.as_ref().is_some_and(|(_, suite)| suite.contains("CHACHA20"));
    group.sees("client_encryption_options.cipher_suites", is_it, format_args!("{found:?}"));
    assert!(server.stop().0.success());

    let ports = ["native_transport_port_ssl", "native_shard_aware_transport_port_ssl"];
    let [aware] = crate::process::free_ports();
    let aware = format!("native_shard_aware_transport_port={aware}");
    let server = group.start("a", &[&ON[..], &ports].concat(), &["--in-memory", "--set", &aware]);
    for option in ports {
        let found = negotiated(group.port(option), &ca, None);
        group.sees(option, found.is_some(), server.log());
    }
    assert!(server.stop().0.success());
}
