//! Rounds of load, backup, more load, kill -9, loss of the directory, and restore to a chosen time. A ledger
//! of what clients were answered says which rows must be there and which must not.
//!
//! `MESSINA_BACKUP_ROUNDS=50 cargo test -p messina --test it backup_rounds -- --nocapture` runs more of them.

#![allow(clippy::disallowed_methods, reason = "clients outside of the node have the real world's time")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base::rng::Rng;
use protocol::ProtocolVersion;

use crate::process::{Dir, Server, http, output, until};
use crate::raw_client::Client;

const WRITERS: i32 = 3;
const KEYS: i32 = 40;

fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

/// A write of a client.
#[derive(Clone, Copy, Debug)]
struct Op {
    key: i32,
    /// `None`: the row is deleted.
    value: Option<i32>,
    begun_us: i64,
    /// `None`: the node was killed before it answered.
    answered_us: Option<i64>,
}

/// Writes rows of its own keys, one after the other, until it is to stop or the node is gone.
fn write(port: u16, writer: i32, seed: u64, is_ended: &AtomicBool) -> Vec<Op> {
    let mut client = Client::start(port, ProtocolVersion::V4);
    let mut rng = Rng::new(seed);
    let mut ops = vec![];
    for value in 0.. {
        if is_ended.load(Ordering::Relaxed) {
            break;
        }
        let key = writer * KEYS + (rng.next_u64() % KEYS as u64) as i32;
        let is_delete = rng.next_u64().is_multiple_of(5);
        let statement = match is_delete {
            true => format!("DELETE FROM r.t WHERE k = {key}"),
            // Clients' own timestamps, far from the clock, must not matter for the time of the restore.
            false => format!("INSERT INTO r.t (k, v) VALUES ({key}, {value})"),
        };
        let begun_us = now_us();
        let answered_us = client.try_run(&statement).then(now_us);
        ops.push(Op { key, value: (!is_delete).then_some(value), begun_us, answered_us });
        if answered_us.is_none() {
            break;
        }
    }
    ops
}

/// The states that a key may have at a time: of the last write that was answered before, and of one in
/// flight.
fn allowed(ops: &[Op], at_us: i64) -> BTreeMap<i32, Vec<Option<i32>>> {
    let mut states: BTreeMap<i32, Vec<Option<i32>>> = BTreeMap::new();
    for op in ops {
        let of_key = states.entry(op.key).or_insert_with(|| vec![None]);
        if op.answered_us.is_some_and(|answered_us| answered_us < at_us) {
            *of_key = vec![op.value];
        } else if op.begun_us <= at_us {
            of_key.push(op.value);
        }
    }
    states
}

fn rows(server: &Server) -> BTreeMap<i32, i32> {
    let int = |cell: &Option<Vec<u8>>| i32::from_be_bytes(cell.as_ref().unwrap()[..].try_into().unwrap());
    let rows = Client::start(server.cql_port, ProtocolVersion::V4).rows("SELECT k, v FROM r.t");
    rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect()
}

fn status(server: &Server) -> serde_json::Value {
    let (_, body) = http(server.api_port, "GET /v1/backups/status", "");
    let json = body.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Waits until the archive is complete until now.
fn archived(server: &Server) -> i64 {
    let now = now_us();
    until("the archive goes on", || status(server)["archive"]["complete_until_us"].as_i64() > Some(now));
    status(server)["archive"]["complete_until_us"].as_i64().unwrap()
}

fn backup(words: &[&str]) -> String {
    let (status, text) = output(&[&["backup"], words].concat());
    assert!(status.success(), "{words:?}: {text}");
    text
}

fn round(dir: &Path, target: &str, seed: u64) {
    let mut rng = Rng::new(seed);
    let data = dir.join("messina-data");
    let sync = ["periodic", "batch"][(seed % 2) as usize];
    let set = format!("commitlog_sync={sync}");
    let flags = ["--set", &format!("backup_target={target}"), "--set", "backup_archive_interval=150ms"];
    let server =
        Server::start(dir, &[&flags[..], &["--set", &set, "--set", "commitlog_segment_size=1MiB"]].concat());
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE IF NOT EXISTS r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    // A new table in each round: a table of the round before has rows that this ledger does not know.
    client.run("DROP TABLE IF EXISTS r.t");
    client.run("CREATE TABLE r.t (k int PRIMARY KEY, v int) WITH gc_grace_seconds = 0");
    let (port, api_port) = (server.cql_port, server.api_port.to_string());
    let (ended, first) = (AtomicBool::new(false), now_us());
    let (ops, base_us, complete_us) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let ended = &ended;
                    move || write(port, writer, seed * 10 + writer as u64, ended)
                })
            })
            .collect();
        crate::process::pause(200);
        backup(&["create", "-p", &api_port]);
        let base_us = now_us();
        for _ in 0..2 {
            crate::process::pause(rng.next_u64() % 300);
            // Tombstones and what they delete are purged together; a replay must not bring rows back.
            server.tool(&["flush", "r"]);
            server.tool(&["compact", "r"]);
        }
        let complete_us = archived(&server);
        crate::process::pause(50);
        server.signal(rustix::process::Signal::KILL);
        ended.store(true, Ordering::Relaxed);
        let ops: Vec<Op> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        (ops, base_us, complete_us)
    });
    server.end();
    fs::remove_dir_all(&data).unwrap();
    assert!(base_us > first && complete_us > base_us);

    let span_ms = ((complete_us - base_us) / 1000) as u64;
    let to_ms = base_us / 1000 + 1 + (rng.next_u64() % span_ms) as i64;
    let to = model::CqlType::Timestamp.text_of(&to_ms.to_be_bytes());
    let text = backup(&[
        "restore",
        "--target",
        target,
        "--to",
        to.trim_matches('\''),
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    let server = Server::start(dir, &[]);
    let found = rows(&server);
    let allowed = allowed(&ops, to_ms * 1000);
    let answered = ops.iter().filter(|op| op.answered_us.is_some_and(|at| at < to_ms * 1000)).count();
    for (key, states) in &allowed {
        let state = found.get(key).copied();
        assert!(
            states.contains(&state),
            "seed {seed}, to {to}: key {key} is {state:?}, and may be {states:?}: {:#?}\n{text}",
            ops.iter().filter(|op| op.key == *key).collect::<Vec<_>>()
        );
    }
    assert!(found.keys().all(|key| allowed.contains_key(key)), "seed {seed}: rows of nobody");
    println!(
        "seed {seed}: {} writes, {answered} answered before {to}, {} rows; {text}",
        ops.len(),
        found.len()
    );
    server.stop();
}

#[test]
fn what_was_acknowledged_before_a_time_is_restored() {
    let rounds = std::env::var("MESSINA_BACKUP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let dir = Dir::new("backup-rounds");
    let target = dir.0.join("kept");
    for seed in 0..rounds.unwrap_or(3) {
        round(&dir.0, target.to_str().unwrap(), seed);
    }
}
