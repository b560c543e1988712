//! Unpaged reads of whole partitions, many at once with little memory: results queue for memory, small reads
//! do not.

#![allow(clippy::disallowed_methods, reason = "clients are slow in the real world's time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ProtocolVersion::{V4, V5};
use protocol::{CqlError, ProtocolVersion, Response};

use crate::process::{Dir, Server};
use crate::raw_client::{Client, query_with, values};

const MIB: usize = 1 << 20;
const ROWS: i32 = 1200;
const ROW_BYTES: usize = 10_000;
/// Minimal bytes of a partition that a client receives.
const PARTITION_BYTES: usize = ROWS as usize * ROW_BYTES;
const LARGE: &str = "SELECT v FROM ks.wide WHERE k = 1";
const SMALL: &str = "SELECT v FROM ks.t WHERE k = 'well'";

/// 256 MiB on two shards: large results of a shard may take 12.8 MiB, enough for one of 12 MB.
fn start(dir: &Dir, more: &[&str]) -> Server {
    let server = Server::start(&dir.0, &[&["--in-memory", "--memory", "256M"], more].concat());
    let mut client = Client::start(server.cql_port, V4);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE ks.t (k text PRIMARY KEY, v text)");
    client.run("CREATE TABLE ks.wide (k int, c int, v blob, PRIMARY KEY (k, c))");
    client.run("INSERT INTO ks.t (k, v) VALUES ('well', 'yes')");
    let value = vec![7u8; ROW_BYTES];
    for c in 0..ROWS {
        let bound = values(&[&c.to_be_bytes(), &value]);
        let insert = query_with("INSERT INTO ks.wide (k, c, v) VALUES (1, ?, ?)", &bound);
        assert_eq!(client.ask(&insert), Response::Void);
    }
    server
}

/// Reads all rows of the large partition.
fn large(client: &mut Client) -> Result<(), CqlError> {
    match client.query(LARGE) {
        Response::Rows(rows) => {
            assert_eq!(rows.rows.len(), ROWS as usize);
            assert!(rows.rows.iter().all(|row| row[0].as_ref().is_some_and(|v| v.len() == ROW_BYTES)));
            Ok(())
        }
        Response::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn large_results_of_many_clients_queue_and_small_ones_do_not() {
    const CLIENTS: usize = 30;
    let dir = Dir::new("large-results");
    let slow = ["--set", "read_request_timeout_in_ms=50000"];
    let server = start(&dir, &slow);
    let before = server.resident_bytes();
    let (is_over, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failed = Arc::new(AtomicUsize::new(0));
    let mut small_ms = vec![];
    std::thread::scope(|scope| {
        let large_ones: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (port, failed) = (server.cql_port, failed.clone());
                scope.spawn(move || {
                    let mut client = Client::start(port, if index % 2 == 0 { V4 } else { V5 });
                    for _ in 0..3 {
                        if let Err(error) = large(&mut client) {
                            println!("{error:?}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(server.resident_bytes(), Ordering::Relaxed);
                sleep(Duration::from_millis(5));
            }
        });
        let mut client = Client::start(server.cql_port, V5);
        while large_ones.iter().any(|thread| !thread.is_finished()) {
            let began = Instant::now();
            assert_eq!(client.rows(SMALL).len(), 1);
            small_ms.push(began.elapsed().as_secs_f64() * 1000.0);
            sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    small_ms.sort_by(f64::total_cmp);
    let (median, last) = (small_ms[small_ms.len() / 2], small_ms[small_ms.len() - 1]);
    let grown = most.into_inner().saturating_sub(before) / MIB;
    println!(
        "{CLIENTS} clients, 3 results of {} MB each: {} failed, {grown} MiB more resident; {} small reads beside them, \
         median {median:.1} ms, at most {last:.1} ms",
        PARTITION_BYTES / 1_000_000,
        failed.load(Ordering::Relaxed),
        small_ms.len()
    );
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    // On each shard one result, the read that produces it, and the bytes that clients have not yet taken.
    assert!(grown < 100, "{grown} MiB more are resident");
    assert!(median < 50.0 && last < 2000.0, "small reads wait: median {median} ms, at most {last} ms");
    assert_eq!(server.stop().0.code(), Some(0));
}

/// A client that takes nothing of its large answer blocks memory for others until the write timeout, and no
/// longer.
#[test]
fn a_client_that_takes_nothing_of_a_large_answer_is_disconnected_when_others_wait() {
    let dir = Dir::new("large-deaf");
    let server = start(&dir, &["--set", "write_request_timeout_in_ms=500"]);
    let ask = |version| {
        let mut client = Client::start(server.cql_port, version);
        let bytes = client.bytes_of(1, &crate::raw_client::query(LARGE));
        client.send(&bytes);
        client
    };
    // On both shards, with both framings.
    let mut deaf: Vec<Client> = [V4, V4, V5, V5].map(ask).into();
    sleep(Duration::from_millis(300));
    let began = Instant::now();
    let served: Vec<_> = (0..4)
        .map(|_| {
            let port = server.cql_port;
            std::thread::spawn(move || large(&mut Client::start(port, V5)))
        })
        .collect();
    for thread in served {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let log = server.log();
    assert!(log.contains("of a large answer in 500 ms (write_request_timeout)"), "{log}");
    // A disconnected client has received an incomplete answer.
    let ended =
        deaf.iter_mut().map(|client| client.rest().len()).filter(|len| *len < PARTITION_BYTES).count();
    assert!(ended >= 2, "{ended} were disconnected\n{}", server.log());
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn a_result_that_can_never_fit_is_refused_at_once() {
    let dir = Dir::new("large-never");
    let server = start(&dir, &[]);
    let mut client = Client::start(server.cql_port, V5);
    let both = "SELECT v, v AS w FROM ks.wide WHERE k = 1";
    let began = Instant::now();
    match client.query(both) {
        Response::Error(CqlError::Overloaded(text)) => {
            assert!(
                text.starts_with("Maximum amount of memory for building query results is exhausted"),
                "{text}"
            );
            assert!(
                text.contains("all large unpaged results of a shard together may take 13421772"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < Duration::from_secs(3));
    // A request that waits too long gets the error in time.
    let within = "SELECT v FROM ks.wide WHERE k = 1 USING TIMEOUT 300ms";
    let ask = |text: &str| {
        let mut client = Client::start(server.cql_port, V4);
        let bytes = client.bytes_of(1, &crate::raw_client::query(text));
        client.send(&bytes);
        client
    };
    let deaf: Vec<Client> = (0..4).map(|_| ask(LARGE)).collect();
    sleep(Duration::from_millis(200));
    let began = Instant::now();
    let errors: Vec<_> = (0..4).map(|_| ask(within)).collect();
    for mut client in errors {
        assert!(matches!(client.next_error(), CqlError::ReadTimeout { .. }));
    }
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    drop(deaf);
    assert_eq!(large(&mut client), Ok(()));
    assert_eq!(server.stop().0.code(), Some(0));
}
