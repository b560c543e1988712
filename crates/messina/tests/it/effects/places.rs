//! Options of the data directory and the log.

use protocol::{Consistency, ProtocolVersion, QueryParameters, Request, Response};

use super::Group;
use crate::process::Server;
use crate::raw_client::Client;

pub fn see(group: &Group) {
    let server = group.start("a", &["cluster_name", "data_dir"], &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    let name = client.rows("SELECT cluster_name FROM system.local").concat();
    group.sees("cluster_name", name == [Some(b"Strait".to_vec())], format_args!("{name:?}"));
    let is_there = |path: &str| group.dir.0.join(path).join("commitlog").is_dir();
    group.sees("data_dir", is_there("a/elsewhere") && !is_there("a/messina-data"), server.log());
    assert!(server.stop().0.success());

    see_replicas(group);

    let server = group.start("b", &["data_file_directories"], &[]);
    group.sees(
        "data_file_directories",
        is_there("b/there") && group.dir.0.join("b/there/data").is_dir(),
        server.log(),
    );
    assert!(server.stop().0.success());

    let server = group.start("c", &["in_memory"], &[]);
    let left = std::fs::read_dir(group.dir.0.join("c")).unwrap().count();
    group.sees("in_memory", left == 0, left);
    assert!(server.stop().0.success());

    let level = group.setting("log_level");
    let server = Server::start_silent(&group.place("d"), &["--set", &level]);
    let (status, log) = server.stop();
    group.sees("log_level", status.success() && !log.contains("INFO"), log);

    let server = group.start("e", &["logger_log_level"], &[]);
    let log = server.log();
    let is_seen = log.contains(" init - ") && !log.contains(" engine - ") && !log.contains(" config - ");
    group.sees("logger_log_level", is_seen, log);
    assert!(server.stop().0.success());
}

/// A schema from production: data centers with names, and more replicas than nodes.
fn see_replicas(group: &Group) {
    const THREE: &str =
        "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'DC1': 3}";
    const WRITE: &str = "INSERT INTO ks.t (k) VALUES (1)";
    const CONDITION: &str = "INSERT INTO ks.t (k) VALUES (2) IF NOT EXISTS";
    let at = |client: &mut Client, text: &str, level| {
        client.ask(&Request::Query { text, parameters: QueryParameters::new(level) })
    };
    let server = group.start("dc", &["dc", "rack"], &["--in-memory"]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    let place = client.rows("SELECT data_center, rack FROM system.local").concat();
    let is_named = place == [Some(b"DC1".to_vec()), Some(b"RAC1".to_vec())];
    client.run(THREE);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    group.sees("dc", is_named, format_args!("{place:?}"));
    group.sees("rack", is_named, format_args!("{place:?}"));
    // Two replicas are missing, and another data center is not known.
    assert!(matches!(at(&mut client, WRITE, Consistency::Quorum), Response::Error(_)));
    assert!(matches!(at(&mut client, CONDITION, Consistency::One), Response::Error(_)));
    let elsewhere = THREE.replace("'DC1': 3", "'DC1': 3, 'DC2': 2").replace("ks", "ks2");
    assert!(matches!(client.query(&elsewhere), Response::Error(_)));
    assert!(server.stop().0.success());

    let server = group.start("all", &["dc", "node_counts_as_all_replicas"], &["--in-memory"]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    client.run(THREE);
    client.run(&elsewhere);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    let is_written = matches!(at(&mut client, WRITE, Consistency::Quorum), Response::Void);
    let applied = at(&mut client, CONDITION, Consistency::LocalQuorum);
    let is_said = server.log().contains("node_counts_as_all_replicas: QUORUM, ALL and SERIAL succeed");
    group.sees(
        "node_counts_as_all_replicas",
        is_written && is_said && matches!(applied, Response::Rows(_)),
        format_args!("{applied:?}"),
    );
    for level in [Consistency::Serial, Consistency::All, Consistency::EachQuorum] {
        let read = at(&mut client, "SELECT k FROM ks.t WHERE k = 1", level);
        assert!(matches!(&read, Response::Rows(rows) if rows.rows.len() == 1), "{level:?}: {read:?}");
    }
    assert!(server.stop().0.success());
}
