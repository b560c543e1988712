//! Options of the audit log.

use std::path::Path;

use super::Group;
use crate::process::{Server, http, pause};
use crate::raw_client::Client;
use protocol::ProtocolVersion;

/// The whole name of an option of the section.
fn full(name: &str) -> &'static str {
    let of = |row: &&super::Row| row.option.strip_prefix("audit_logging_options.") == Some(name);
    super::ROWS.iter().find(of).unwrap_or_else(|| panic!("no row of {name}")).option
}

pub fn see(group: &Group) {
    files(group);
    filters(group);
    queue(group);
}

fn start(group: &Group, name: &str, options: &[&str], more: &[&str]) -> Server {
    let options: Vec<_> = options.iter().map(|option| full(option)).collect();
    group.start(name, &options, more)
}

/// Two keyspaces with a table, and a row in each; then reads.
fn work(server: &Server) {
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    for keyspace in ["ks", "other"] {
        client.run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        client.run(&format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v int)"));
        client.run(&format!("INSERT INTO {keyspace}.t (k, v) VALUES (1, 2)"));
        client.rows(&format!("SELECT v FROM {keyspace}.t"));
    }
    client.rows("SELECT cluster_name FROM system.local");
}

/// The lines of all files, in the order of the files' names.
fn lines(dir: &Path) -> Vec<String> {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| std::fs::read_to_string(path).unwrap().lines().map(String::from).collect::<Vec<_>>())
        .collect()
}

fn with<'a>(lines: &'a [String], part: &str) -> Vec<&'a String> {
    lines.iter().filter(|line| line.contains(part)).collect()
}

fn files(group: &Group) {
    let place = group.place("files");
    let dir = place.join("audited");
    std::fs::create_dir_all(&dir).unwrap();
    let old = dir.join("audit-20200101-0000.log");
    std::fs::write(&old, "-".repeat(4096)).unwrap();
    let at = format!("{}={}", full("audit_logs_dir"), dir.display());
    let options = ["enabled", "roll_cycle", "max_log_size"];
    let server = start(group, "files", &options, &["--set", &at]);
    work(&server);
    assert!(server.stop().0.success());
    let found = lines(&dir);
    group.sees(full("enabled"), !found.is_empty(), format_args!("{found:?}"));
    group.sees(full("audit_logs_dir"), !found.is_empty(), format_args!("{found:?}"));
    group.sees(full("max_log_size"), !old.exists(), old.display());
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let is_daily = names.iter().all(|name| name.to_string_lossy().ends_with("-0000.log"));
    group.sees(full("roll_cycle"), is_daily, format_args!("{names:?}"));
    let selects = with(&found, "|type:SELECT|category:QUERY|ks:ks|scope:t|operation:SELECT v FROM ks.t");
    assert!(selects.len() == 1 && selects[0].starts_with("user:anonymous|host:/"), "{found:?}");
    assert_eq!(with(&found, "|type:CREATE_TABLE|category:DDL|").len(), 2, "{found:?}");
    // By default, the system's keyspaces are left out.
    assert!(with(&found, "system.local").is_empty(), "{found:?}");
}

fn filters(group: &Group) {
    let filtered = |name: &str, options: &[&str]| {
        let dir = group.place(name).join("audit");
        let at = format!("{}={}", full("audit_logs_dir"), dir.display());
        let options = [&["enabled"], options].concat();
        let server = start(group, name, &options, &["--set", &at]);
        work(&server);
        assert!(server.stop().0.success());
        if dir.exists() { lines(&dir) } else { vec![] }
    };
    let sees = |option: &str, is_seen: bool, found: &[String]| {
        group.sees(full(option), is_seen, format_args!("{found:?}"));
    };
    let found = filtered("included", &["included_keyspaces", "included_categories"]);
    let (ks, other) = (with(&found, "|ks:ks|").len(), with(&found, "|ks:other|").len());
    sees("included_keyspaces", ks > 0 && other == 0, &found);
    let is_only =
        found.iter().all(|line| line.contains("|category:DML|") || line.contains("|category:QUERY|"));
    sees("included_categories", is_only && found.len() == 2, &found);
    let found = filtered("excluded", &["excluded_keyspaces", "excluded_categories"]);
    sees("excluded_keyspaces", with(&found, "|ks:other|").is_empty() && !found.is_empty(), &found);
    // The list replaces the default, which names the system's keyspaces.
    assert_eq!(with(&found, "system.local").len(), 0, "reads are excluded: {found:?}");
    sees("excluded_categories", with(&found, "|category:QUERY|").is_empty() && !found.is_empty(), &found);
    let found = filtered("users", &["included_users"]);
    sees("included_users", found.is_empty(), &found);
    let found = filtered("other-users", &["excluded_users"]);
    sees("excluded_users", found.is_empty(), &found);
}

fn queue(group: &Group) {
    let dropped = |name: &str, options: &[&str]| {
        let dir = group.place(name).join("audit");
        let at = format!("{}={}", full("audit_logs_dir"), dir.display());
        let options = [&["enabled"], options].concat();
        let server = start(group, name, &options, &["--set", &at, "--smp", "1"]);
        work(&server);
        let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
        (0..200).for_each(|_| drop(client.rows("SELECT v FROM ks.t")));
        pause(200);
        let (_, answer) = http(server.api_port, "GET /v1/audit", "");
        let state = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap();
        assert!(server.stop().0.success());
        let state: serde_json::Value = serde_json::from_str(&state).unwrap_or_else(|_| panic!("{state}"));
        let (entries, dropped) = (state["entries"].as_u64().unwrap(), state["dropped"].as_u64().unwrap());
        assert_eq!(lines(&dir).len() as u64, entries, "{state}");
        assert_eq!(entries + dropped, 8 + 200, "{state}");
        dropped
    };
    let both = dropped("drops", &["block", "max_queue_weight"]);
    let waits = dropped("waits", &["max_queue_weight"]);
    let wide = dropped("wide", &["block"]);
    group.sees(full("block"), both > 0 && waits == 0, format_args!("{both}, {waits}"));
    group.sees(full("max_queue_weight"), both > 0 && wide == 0, format_args!("{both}, {wide}"));
}
