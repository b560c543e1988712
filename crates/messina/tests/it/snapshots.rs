//! Snapshots that TRUNCATE and DROP leave, through the program: listed, cleared, and loaded into a table.

use std::fs;
use std::path::PathBuf;

use protocol::ProtocolVersion;
use rustix::process::Signal;

use crate::process::{Dir, Server, output};
use crate::raw_client::Client;

/// Tag and directory of the snapshots of table `t`, by tag.
fn snapshots(server: &Server, dir: &Dir) -> Vec<(String, PathBuf)> {
    let listed = server.tool(&["listsnapshots"]);
    let tag = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1..3) == Some(&["sn", "t"])).then(|| words[0].to_string())
    };
    let mut found = vec![];
    for tag in listed.lines().filter_map(tag) {
        let tables = fs::read_dir(dir.0.join("messina-data/data/sn")).unwrap().flatten();
        let mut dirs = tables.map(|table| table.path().join("snapshots").join(&tag));
        let of_tag = dirs.find(|dir| dir.exists()).expect("a listed snapshot is there");
        found.push((tag.clone(), of_tag));
    }
    found.sort();
    found
}

fn count(server: &Server) -> usize {
    Client::start(server.cql_port, ProtocolVersion::V4).rows("SELECT k, u, m FROM sn.t").len()
}

fn shell(server: &Server, arguments: &[&str]) {
    let port = server.cql_port.to_string();
    let (status, text) = output(&[&["shell", "127.0.0.1", &port], arguments].concat());
    assert!(status.success(), "{arguments:?}: {text}");
}

#[test]
fn what_truncate_and_drop_remove_can_be_restored() {
    let dir = Dir::new("snapshots");
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE sn WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TYPE sn.inner_type (a int)");
    client.run("CREATE TYPE sn.\"Outer\" (i frozen<inner_type>, l list<int>)");
    client.run("CREATE TABLE sn.t (k int PRIMARY KEY, u frozen<\"Outer\">, gone text, m map<text, int>)");
    for k in 0..50 {
        client.run(&format!(
            "INSERT INTO sn.t (k, u, gone, m) VALUES ({k}, {{i: {{a: {k}}}, l: [1]}}, 'x', {{'y': {k}}})"
        ));
        if k == 20 {
            server.tool(&["flush", "sn", "t"]);
        }
    }
    client.run("ALTER TABLE sn.t DROP gone");
    let before = client.rows("SELECT JSON * FROM sn.t");

    client.run("TRUNCATE sn.t");
    assert_eq!(count(&server), 0);
    let [(tag, path)] = &snapshots(&server, &dir)[..] else { panic!("one snapshot") };
    assert!(tag.starts_with("truncated-") && tag.ends_with("-t"), "{tag}");
    let manifest: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path.join("manifest.json")).unwrap()).unwrap();
    let files: Vec<_> = manifest["files"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(!files.is_empty() && files.iter().all(|name| path.join(name).exists()), "{manifest}");
    assert!(manifest["created_at"].as_str().unwrap().ends_with('Z') && manifest["ephemeral"] == false);
    server.tool(&["import", "sn", "t", path.to_str().unwrap()]);
    assert_eq!(client.rows("SELECT JSON * FROM sn.t"), before);

    // DROP KEYSPACE drops its tables, too; after a restart only their snapshots are left.
    client.run("INSERT INTO sn.t (k, m) VALUES (50, {'last': 1})");
    let before = client.rows("SELECT JSON * FROM sn.t");
    client.run("DROP KEYSPACE sn");
    server.signal(Signal::KILL);
    server.end();
    let server = Server::start(&dir.0, &[]);
    assert!(!server.log().contains("belongs to no table"), "{}", server.log());
    let found = snapshots(&server, &dir);
    let [(dropped, path), (_, _)] = &found[..] else { panic!("{found:?}") };
    assert!(dropped.starts_with("dropped-") && dropped.ends_with("-t"), "{dropped}");

    shell(&server, &["-f", path.join("schema.cql").to_str().unwrap()]);
    assert_eq!(count(&server), 0);
    server.tool(&["import", "sn", "t", path.to_str().unwrap()]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    assert_eq!(client.rows("SELECT JSON * FROM sn.t"), before);
    // A dropped column stays dropped.
    client.run("ALTER TABLE sn.t ADD gone text");
    assert!(client.rows("SELECT gone FROM sn.t").iter().all(|row| row[0].is_none()));
    let owner =
        client.rows("SELECT id FROM system_schema.tables WHERE keyspace_name = 'sn' AND table_name = 't'");
    let id = owner[0][0].clone().unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(path.to_str().unwrap().contains(&format!("/t-{id}/")), "the table has its id again");

    // Snapshots of an existing table, and then of a dropped one.
    server.tool(&["clearsnapshot", "-t", tag]);
    assert_eq!(snapshots(&server, &dir).len(), 1);
    client.run("DROP KEYSPACE sn");
    assert_eq!(snapshots(&server, &dir).len(), 2);
    server.tool(&["clearsnapshot", "--all", "sn"]);
    assert_eq!(server.tool(&["listsnapshots"]), "There are no snapshots\n");
    let left: Vec<_> = fs::read_dir(dir.0.join("messina-data/data/sn")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let (status, text) = server.nodetool(&["clearsnapshot", "--all", "nowhere"]);
    assert!(!status.success() && text.contains("there is no keyspace nowhere"), "{text}");
    server.stop();

    let server = Server::start(&dir.0, &["--set", "auto_snapshot=false"]);
    shell(&server, &["-e", "CREATE KEYSPACE sn WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
         CREATE TABLE sn.t (k int PRIMARY KEY); INSERT INTO sn.t (k) VALUES (1); TRUNCATE sn.t; DROP TABLE sn.t"]);
    assert_eq!(server.tool(&["listsnapshots"]), "There are no snapshots\n");
    server.stop();
}
