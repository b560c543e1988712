//! Options of caches and of the memory of reads.

use protocol::{ProtocolVersion, Response};

use super::{Group, becomes, blob, client, metric};
use crate::process::Server;
use crate::raw_client::{Client, query};

const ROWS: &str = "scylla_cache_partitions{";
const INDEX: [&str; 2] =
    ["scylla_sstables_partition_index_cache_entries{", "scylla_sstables_index_page_cache_entries{"];

pub fn see(group: &Group) {
    let read = |place: &str, options: &[&'static str]| {
        let server = group.start(place, options, &[]);
        let mut client = client(&server);
        client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
        for k in 0..10 {
            client.run(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'x')"));
        }
        server.tool(&["flush", "ks", "t"]);
        for k in 0..10 {
            assert_eq!(client.rows(&format!("SELECT v FROM ks.t WHERE k = {k}")).len(), 1);
        }
        let found = (metric(&server, ROWS), INDEX.map(|name| metric(&server, name)).iter().sum::<f64>());
        assert!(server.stop().0.success());
        found
    };
    let (rows, pages) = read("a", &[]);
    assert!(rows > 0.0 && pages > 0.0, "{rows} {pages}");
    let (rows, _) = read("b", &["enable_cache"]);
    group.sees("enable_cache", rows == 0.0, rows);
    let (_, pages) = read("c", &["cache_index_pages"]);
    group.sees("cache_index_pages", pages == 0.0, pages);

    let serialize = "reader_concurrency_semaphore_serialize_limit_multiplier";
    let kill = "reader_concurrency_semaphore_kill_limit_multiplier";
    let unlimited = [format!("{serialize}=0"), format!("{kill}=0")];
    let (waits, kills) = crowd(group, "d", &[], &[&unlimited[0], &unlimited[1]]);
    assert_eq!((waits, kills), (0.0, 0.0));
    let (waits, _) = crowd(group, "e", &[serialize], &[&unlimited[1]]);
    group.sees(serialize, waits > 0.0, waits);
    let (_, kills) = crowd(group, "f", &[kill], &[&unlimited[0]]);
    group.sees(kill, kills > 0.0, kills);
}

/// The number of reads that waited for memory and of reads that were refused it. Many concurrent reads hold
/// more than the 4 MiB for which a shard with 64 MiB admits reads.
fn crowd(group: &Group, place: &str, options: &[&'static str], more: &[&str]) -> (f64, f64) {
    let more = more.iter().flat_map(|setting| ["--set", *setting]);
    let all: Vec<&str> = ["--set", "smp=1", "--set", "memory=64MiB"].into_iter().chain(more).collect();
    let server = group.start(place, options, &all);
    let mut first = client(&server);
    first.run(
        "CREATE TABLE ks.t (k int, c int, v blob, PRIMARY KEY (k, c)) WITH compression = {'enabled': false}",
    );
    for k in 0..8 {
        for c in 0..4 {
            let value = blob(512 << 10, k * 10 + c);
            first.run(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {value})"));
        }
    }
    server.tool(&["flush", "ks", "t"]);
    let counted = |server: &Server| {
        (
            metric(server, "scylla_database_reads_enqueued_for_memory{"),
            metric(server, "scylla_database_reads_killed_due_to_kill_limit{"),
        )
    };
    becomes(|| {
        let mut clients: Vec<Client> =
            (0..16).map(|_| Client::start(server.cql_port, ProtocolVersion::V4)).collect();
        for (k, client) in (0..8).cycle().zip(&mut clients) {
            let text = format!("SELECT count(v) FROM ks.t WHERE k = {k} BYPASS CACHE");
            let bytes = client.bytes_of(1, &query(&text));
            client.send(&bytes);
        }
        for client in &mut clients {
            let answer = client.receive().map(|(_, message)| message.response);
            assert!(matches!(answer, Some(Response::Rows(_) | Response::Error(_))), "{answer:?}");
        }
        let (waits, kills) = counted(&server);
        waits + kills > 0.0 || options.is_empty()
    });
    let found = counted(&server);
    assert!(server.stop().0.success());
    found
}
