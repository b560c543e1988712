//! The stock configuration files of Cassandra and ScyllaDB: they start a node that warns of options without
//! effect; with any security option switched on, the node requires it or does not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use protocol::{ProtocolVersion, Response};
use server::config::index::{self, Word};
use server::config::layers;

use crate::certificates::Authority;
use crate::process::{Dir, Server, free_ports, output};
use crate::raw_client::{Client, query};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/data").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A directory with the file and a server certificate.
fn place(name: &str, text: &str) -> Dir {
    let dir = Dir::new(name);
    fs::write(dir.0.join("peer.yaml"), text).unwrap();
    Authority::new("ca").issue(&dir.0, "server", 1);
    dir
}

fn start(dir: &Dir) -> Server {
    Server::start(&dir.0, &["--config", "peer.yaml"])
}

/// Names in the file that do not act, each as the log names it.
fn without_effect(text: &str) -> Vec<String> {
    let settings = layers::from_yaml(Path::new("peer.yaml"), text).unwrap();
    let acts = |name: &str| {
        let is_entry = |entry: &index::Entry| entry.name == name && entry.word == Word::Acts;
        index::entries().iter().any(is_entry)
    };
    // `NAME.class_name` sets the option `NAME`.
    let is_class = |name: &str| name.ends_with(".class_name") && acts(name.trim_end_matches(".class_name"));
    let names = settings.into_iter().map(|setting| setting.name);
    names.filter(|name| !acts(name) && !is_class(name)).collect()
}

fn starts_and_warns(name: &str, text: &str) {
    let dir = place(name, text);
    let server = start(&dir);
    let log = server.log();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.starts_with("WARN") && line.contains("peer.yaml")).collect();
    let names = without_effect(text);
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let is_named = |line: &&&str| {
            [format!(" {name} (line "), format!(": {name}: ")].iter().any(|words| line.contains(words))
        };
        let named = warnings.iter().filter(is_named).count();
        assert_eq!(named, 1, "{name}: {warnings:#?}");
    }
    assert!(!log.contains("unknown option"), "{log}");
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    assert_eq!(client.rows("SELECT key FROM system.local").len(), 1);
    assert!(server.stop().0.success());
}

#[test]
fn the_file_of_cassandra_starts_a_node_that_warns() {
    starts_and_warns("stock-cassandra", &data("cassandra-5.0.yaml"));
}

#[test]
fn the_file_of_scylla_starts_a_node_that_warns() {
    starts_and_warns("stock-scylla", &data("scylla.yaml"));
}

/// Replaces `from` by `to` in the file: the node does not start, and the error names the line and these
/// words.
fn no_node(file: &str, from: &str, to: &str, words: &str) {
    let text = data(file);
    assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
    let dir = place(&format!("stock-refused-{}", words.len() + from.len()), &text.replacen(from, to, 1));
    let path = dir.0.join("peer.yaml");
    let [port] = free_ports();
    let port = port.to_string();
    let (status, text) = output(&["--config", path.to_str().unwrap(), "--in-memory", "--api-port", &port]);
    assert!(!status.success() && text.contains("peer.yaml, line ") && text.contains(words), "{to}: {text}");
}

#[test]
fn a_file_of_cassandra_with_security_on_gives_no_node_if_it_is_not_built() {
    let file = "cassandra-5.0.yaml";
    no_node(
        file,
        "class_name: AllowAllAuthenticator",
        "class_name: MutualTlsAuthenticator",
        "PasswordAuthenticator",
    );
    no_node(file, "AllowAllAuthorizer", "com.scylladb.auth.TransitionalAuthorizer", "is not allowed");
    no_node(file, "AllowAllNetworkAuthorizer", "CassandraNetworkAuthorizer", "AllowAllNetworkAuthorizer");
    no_node(file, "AllowAllCIDRAuthorizer", "CassandraCIDRAuthorizer", "AllowAllCIDRAuthorizer");
    no_node(
        file,
        "class_name: CassandraRoleManager",
        "class_name: com.example.Roles",
        "CassandraRoleManager",
    );
    no_node(
        file,
        "  enabled: false\n  keystore",
        "  enabled: true\n  keystore",
        "a Java keystore cannot be read",
    );
    no_node(
        file,
        "  enabled: false\n  chunk",
        "  enabled: true\n  chunk",
        "transparent_data_encryption_options is not built",
    );
    no_node(file, "  enabled: false\n  logger", "  enabled: true\n  logger", "expected FileAuditLogger");
    no_node(file, "security.DefaultCryptoProvider", "security.Other", "rustls");
}

#[test]
fn a_file_of_scylla_with_security_on_gives_no_node_if_it_is_not_built() {
    let file = "scylla.yaml";
    no_node(
        file,
        "AllowAllAuthenticator",
        "com.scylladb.auth.SaslauthdAuthenticator",
        "PasswordAuthenticator",
    );
    no_node(file, "AllowAllAuthorizer", "com.scylladb.auth.TransitionalAuthorizer", "is not allowed");
    no_node(file, "audit: \"none\"", "audit: \"table\"", "configured by audit_logging_options");
}

/// The node requires passwords, or serves only TLS.
#[test]
fn files_with_security_on_give_a_node_that_is_closed() {
    for (number, file) in ["cassandra-5.0.yaml", "scylla.yaml"].into_iter().enumerate() {
        let text = data(file);
        let text = text.replacen("AllowAllAuthenticator", "PasswordAuthenticator", 1);
        let dir = place(&format!("stock-closed-{number}"), &text);
        let server = start(&dir);
        let mut client = Client::connect(server.cql_port, ProtocolVersion::V5);
        assert!(matches!(client.startup_answer(), Response::Authenticate { .. }), "{file}");
        let error = client.refusal(&query("SELECT key FROM system.local"));
        assert_eq!(error.code(), 0x000A, "{file}: {error:?}");
        assert_eq!(
            Client::log_in_at(server.cql_port, "cassandra", "cassandra")
                .rows("SELECT key FROM system.local")
                .len(),
            1
        );
        assert!(server.stop().0.success());
    }
    let text =
        data("scylla.yaml").replacen("  enabled: false\n  certificate", "  enabled: true\n  certificate", 1);
    let dir = place("stock-tls", &text);
    let server = start(&dir);
    assert!(!crate::doors::plain_answers(server.cql_port));
    assert!(server.stop().0.success());
    // There are no other nodes whose connections could be encrypted, and no port for them is opened.
    for (number, (file, from)) in
        [("cassandra-5.0.yaml", "internode_encryption: none"), ("scylla.yaml", "internode_encryption: none")]
            .into_iter()
            .enumerate()
    {
        let dir = place(
            &format!("stock-internode-{number}"),
            &data(file).replacen(from, "internode_encryption: all", 1),
        );
        let server = start(&dir);
        let log = server.log();
        assert!(
            log.contains("no port for other nodes is opened") && log.contains("internode_encryption (line "),
            "{log}"
        );
        assert!(server.stop().0.success());
    }
}

/// Each option alone is seen by the test of effects; here all of them together start a node.
#[test]
fn a_file_with_every_option_away_from_its_default_starts() {
    let text = data("every-option.yaml");
    let settings = layers::from_yaml(Path::new("peer.yaml"), &text).unwrap();
    let names: Vec<String> = settings.iter().map(|setting| setting.name.clone()).collect();
    let (config, notes) = layers::apply(settings).unwrap();
    assert_eq!(notes, []);
    let (mut config, mut default) = (config, server::config::Config::default());
    for option in server::config::options::OPTIONS {
        assert_ne!(
            (option.target)(&mut config).show(),
            (option.target)(&mut default).show(),
            "every-option.yaml: {}",
            option.name
        );
    }
    assert!(names.len() > 70);
    let dir = place("every-option", &text);
    let authority = Authority::new("ca of clients");
    authority.write(&dir.0.join("ca.pem"));
    authority.revoke(&dir.0.join("crl.pem"), &[3]);
    let properties = "disks:\n- mountpoint: .\n  read_iops: 100000\n  read_bandwidth: 1000000000\n  write_iops: 50000\n  \
                      write_bandwidth: 500000000\n";
    fs::write(dir.0.join("io.yaml"), properties).unwrap();
    fs::write(dir.0.join("passwords"), "ann:secret\n").unwrap();
    fs::set_permissions(dir.0.join("passwords"), fs::Permissions::from_mode(0o600)).unwrap();
    // Flags override the ports, because those of the file may be in use.
    let [ssl, aware, aware_ssl] = free_ports();
    let set = |name: &str, port: u16| format!("{name}={port}");
    let ports = [
        set("native_transport_port_ssl", ssl),
        set("native_shard_aware_transport_port", aware),
        set("native_shard_aware_transport_port_ssl", aware_ssl),
    ];
    let mut arguments = vec!["--config", "peer.yaml"];
    ports.iter().for_each(|port| arguments.extend(["--set", port]));
    let server = Server::start(&dir.0, &arguments);
    let mut client = Client::log_in_at(server.cql_port, "cassandra", "cassandra");
    assert_eq!(client.rows("SELECT key FROM system.local").len(), 1);
    drop(client);
    assert!(server.stop().0.success());
}
