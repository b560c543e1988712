//! TLS, clients' certificates and passwords, from a client's view.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use protocol::{EventType, Request, Response};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::certificates::{Authority, Issued};
use crate::process::{Dir, Server, http, messina};
use crate::raw_client::{Client, query};

/// An OPTIONS request of version 4, and the first bytes of its answer.
const OPTIONS: &[u8] = &[4, 0, 0, 0, 5, 0, 0, 0, 0];
const SUPPORTED: [u8; 5] = [0x84, 0, 0, 0, 6];

/// The TLS configuration of a client that trusts `authority`, with a certificate of its own if it has one.
pub fn tls_config(authority: &Path, own: Option<&Issued>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    CertificateDer::pem_file_iter(authority).unwrap().for_each(|found| roots.add(found.unwrap()).unwrap());
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    match own {
        Some(own) => {
            let chain =
                CertificateDer::pem_file_iter(&own.certificate).unwrap().map(Result::unwrap).collect();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&own.keyfile).unwrap()).unwrap()
        }
        None => builder.with_no_client_auth(),
    }
}

pub fn tls_answers(port: u16, authority: &Path, own: Option<&Issued>) -> bool {
    let config = tls_config(authority, own);
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let Ok(socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut stream = StreamOwned::new(connection, socket);
    let mut answer = [0; 5];
    stream.write_all(OPTIONS).and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == SUPPORTED
}

pub fn plain_answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = [0; 5];
    stream.write_all(OPTIONS).and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == SUPPORTED
}

struct Place {
    dir: Dir,
    authority: Authority,
    pem: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let (dir, authority) = (Dir::new(name), Authority::new("ca"));
        let pem = dir.0.join("ca.pem");
        authority.write(&pem);
        authority.issue(&dir.0, "server", 1);
        Self { dir, authority, pem }
    }

    fn start(&self, more: &str, arguments: &[&str]) -> Server {
        let text = format!(
            "client_encryption_options:\n  enabled: true\n  certificate: server.pem\n  keyfile: server.key\n{more}"
        );
        std::fs::write(self.dir.0.join("messina.yaml"), text).unwrap();
        Server::start(&self.dir.0, arguments)
    }
}

#[test]
fn tls_closes_plain_text_unless_it_is_optional() {
    let place = Place::new("doors-tls");
    let server = place.start("", &[]);
    assert!(tls_answers(server.cql_port, &place.pem, None) && !plain_answers(server.cql_port));
    assert!(server.stop().0.success());
    let server = place.start("  optional: true\n", &[]);
    assert!(tls_answers(server.cql_port, &place.pem, None) && plain_answers(server.cql_port));
    assert!(server.stop().0.success());
    let [own] = crate::process::free_ports();
    let server = place.start("", &["--set", &format!("native_transport_port_ssl={own}")]);
    assert!(tls_answers(own, &place.pem, None) && !plain_answers(own));
    assert!(TcpStream::connect(("127.0.0.1", server.cql_port)).is_err());
    assert!(server.stop().0.success());
}

#[test]
fn clients_need_a_certificate_that_is_good_and_new_ones_are_taken_over() {
    let place = Place::new("doors-mtls");
    let dir = &place.dir.0;
    let (good, revoked) = (place.authority.issue(dir, "good", 2), place.authority.issue(dir, "revoked", 3));
    let stranger = Authority::new("stranger").issue(dir, "stranger", 4);
    place.authority.revoke(&dir.join("crl.pem"), &[3]);
    let more = "  require_client_auth: true\n  truststore: ca.pem\n  certificate_revocation_list: crl.pem\n";
    let server = place.start(more, &[]);
    assert!(tls_answers(server.cql_port, &place.pem, Some(&good)));
    for other in [None, Some(&revoked), Some(&stranger)] {
        assert!(!tls_answers(server.cql_port, &place.pem, other), "{other:?}");
    }
    // Broken files change nothing; good ones take effect without a restart.
    std::fs::write(dir.join("server.pem"), "broken").unwrap();
    server.wait_for("cannot be used");
    assert!(tls_answers(server.cql_port, &place.pem, Some(&good)));
    let next = Authority::new("next");
    next.write(&dir.join("next.pem"));
    next.issue(dir, "server", 9);
    // At once, without waiting for the next check.
    server.signal(Signal::HUP);
    server.wait_for("certificates reloaded");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("[main]")).collect();
    let signal = lines.iter().position(|line| line.contains("SIGHUP")).unwrap();
    let reload = lines.iter().position(|line| line.contains("certificates reloaded")).unwrap();
    assert!(reload.abs_diff(signal) == 1, "{log}");
    assert!(tls_answers(server.cql_port, &dir.join("next.pem"), Some(&good)));
    assert!(!tls_answers(server.cql_port, &place.pem, Some(&good)));
    assert!(server.stop().0.success());
}

#[test]
fn a_client_that_does_not_shake_hands_is_not_waited_for() {
    let place = Place::new("doors-silent");
    let server = place.start("", &[]);
    let mut silent = TcpStream::connect(("127.0.0.1", server.cql_port)).unwrap();
    let mut half = TcpStream::connect(("127.0.0.1", server.cql_port)).unwrap();
    // The beginning of a TLS record of 512 bytes that is never completed.
    half.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    for socket in [&mut silent, &mut half] {
        socket.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        // At most an alert, and then the end.
        let mut left = vec![];
        let ended = socket.read_to_end(&mut left);
        assert!(ended.is_ok() && left.len() <= 7, "it is not closed: {ended:?}");
    }
    assert!(tls_answers(server.cql_port, &place.pem, None));
    let (_, log) = server.stop();
    assert_eq!(log.matches("its TLS handshake took more than 10 s").count(), 2, "{log}");
}

#[test]
fn no_statement_reads_hashes_or_makes_a_superuser() {
    let dir = Dir::new("doors-secrets");
    let server = Server::start(&dir.0, &["--set", "authenticator=PasswordAuthenticator"]);
    let mut admin = Client::log_in_at(server.cql_port, "cassandra", "cassandra");
    admin.run("CREATE ROLE ann WITH PASSWORD = 'p' AND LOGIN = true");
    let mut ann = Client::log_in_at(server.cql_port, "ann", "p");
    for client in [&mut admin, &mut ann] {
        for text in [
            "SELECT salted_hash FROM system_auth.roles",
            "SELECT JSON role, salted_hash FROM system_auth.roles",
            "SELECT max(salted_hash) FROM system_auth.roles",
            "SELECT count(salted_hash) FROM system_auth.roles",
            "SELECT writetime(salted_hash) FROM system_auth.roles",
            "SELECT ttl(salted_hash) FROM system_auth.roles",
            "SELECT blobastext(textasblob(salted_hash)) FROM system_auth.roles",
            "SELECT role FROM system_auth.roles WHERE salted_hash > '$2a' ALLOW FILTERING",
            "SELECT role FROM system_auth.roles WHERE salted_hash LIKE '$2a%' ALLOW FILTERING",
            "UPDATE system_auth.roles SET is_superuser = true WHERE role = 'ann'",
            "UPDATE system_auth.roles SET is_superuser = true WHERE role = 'ann' IF salted_hash > 'a'",
        ] {
            assert_eq!(client.refusal(&query(text)).code(), 0x2100, "{text}");
        }
        for text in ["SELECT * FROM system_auth.roles", "SELECT JSON * FROM system_auth.roles"] {
            let rows = client.rows(text).concat();
            assert!(
                !rows.iter().flatten().any(|value| value.windows(4).any(|four| four == b"$2a$")),
                "{text}"
            );
        }
    }
    for text in [
        "GRANT cassandra TO ann",
        "REVOKE cassandra FROM ann",
        "DROP ROLE cassandra",
        "CREATE SERVICE LEVEL fast WITH shares = 1000",
    ] {
        assert_eq!(ann.refusal(&query(text)).code(), 0x2100, "{text}");
    }
    // A role that registers for events stays at its level.
    admin.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    admin.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    admin.run("CREATE SERVICE LEVEL none WITH timeout = 0ms");
    admin.run("ATTACH SERVICE LEVEL none TO ann");
    let register = Request::Register { events: [EventType::SchemaChange].into_iter().collect() };
    assert!(matches!(ann.ask(&register), Response::Ready));
    let error = ann.refusal(&query("SELECT k FROM ks.t"));
    assert!(matches!(error, protocol::CqlError::ReadTimeout { .. }), "{error:?}");
    assert_eq!(ann.rows("SELECT key FROM system.local").len(), 1);
    let port = server.cql_port.to_string();
    let shell = ["shell", "127.0.0.1", &port, "-u", "ann", "-p", "p", "-e", "SELECT k FROM ks.t"];
    assert!(!messina(&shell).output().unwrap().status.success());
    assert!(server.stop().0.success());
}

#[test]
fn the_admin_api_asks_for_passwords_and_knows_no_web_pages() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new("doors-admin");
    let file = dir.0.join("passwords");
    std::fs::write(&file, "ann:secret\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(&dir.0, &["--set", "api_password_file=passwords"]);
    assert!(server.nodetool(&["status"]).1.contains("a name and password are needed"));
    assert!(server.nodetool(&["-u", "ann", "-pw", "wrong", "status"]).1.contains("are needed"));
    assert!(server.nodetool(&["-u", "ann", "-pw", "secret", "status"]).0.success());
    assert!(server.nodetool(&["-u", "ann", "-pwf", file.to_str().unwrap(), "status"]).0.success());
    assert!(http(server.prometheus_port, "GET /metrics", "").0.contains("401"));
    assert!(server.stop().0.success());
    let refused = crate::process::output(&["--in-memory", "--set", "api_address=0.0.0.0", "--api-port", "0"]);
    assert!(
        !refused.0.success() && refused.1.contains("api_address is not on the loopback"),
        "{}",
        refused.1
    );
    let server = Server::start(&dir.0, &[]);
    assert!(http(server.api_port, "GET /v1/compactions/auto?enabled=false", "").0.contains("400"));
    assert!(http(server.api_port, "GET /v1/version", "Origin: http://evil.example\r\n").0.contains("403"));
    assert!(server.stop().0.success());
}
