//! Compares the metrics of I/O with the kernel's counters for the process.
//!
//! The server uses helper threads for I/O, so that every transfer is a system call that the kernel counts in
//! `/proc/<pid>/io`. The server also reads its configuration, libraries and `/proc`; [`ELSEWHERE_BYTES`] are
//! allowed for them.

use std::fs;
use std::path::Path;

use catalog::{Keyspace, TableSettings};
use engine::{Engine, EngineOptions};
use model::{Cell, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, TableSchema};
use protocol::ProtocolVersion;

use crate::process::{Dir, Server, http};
use crate::raw_client::Client;

/// Bytes that the process may read and write outside its data files.
const ELSEWHERE_BYTES: u64 = 512 << 10;
const SSTABLES: usize = 20;
const ROWS: u32 = 400;

/// Bytes read and written so far.
#[derive(Clone, Copy, Debug)]
struct Moved {
    read_bytes: u64,
    written_bytes: u64,
}

impl Moved {
    fn by_kernel(server: &Server) -> Self {
        let text = fs::read_to_string(format!("/proc/{}/io", server.id())).unwrap();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().parse().unwrap()
        };
        Self { read_bytes: of("rchar"), written_bytes: of("wchar") }
    }

    fn by_metrics(server: &Server) -> Self {
        let (_, text) = http(server.prometheus_port, "GET /metrics", "");
        let sum = |name: &str| {
            let of_class = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
            of_class.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
        };
        let moved = Self {
            read_bytes: sum("scylla_io_queue_total_read_bytes"),
            written_bytes: sum("scylla_io_queue_total_write_bytes"),
        };
        // Both metric families have the same counters; the node may have moved bytes between the two lines.
        let total: u64 = sum("scylla_io_queue_total_bytes");
        assert!(total.abs_diff(moved.read_bytes + moved.written_bytes) < 1 << 20, "{total} {moved:?}");
        moved
    }
}

/// Compares the transfers since the previous check.
struct Books<'a> {
    server: &'a Server,
    kernel: Moved,
    metrics: Moved,
}

impl Books<'_> {
    fn check(&mut self, doing: &str, least_read_bytes: u64, least_written_bytes: u64) {
        let (kernel, metrics) = (Moved::by_kernel(self.server), Moved::by_metrics(self.server));
        let deltas = |of: fn(Moved) -> u64| (of(kernel) - of(self.kernel), of(metrics) - of(self.metrics));
        for (way, least_bytes, (counted, reported)) in [
            ("read", least_read_bytes, deltas(|moved| moved.read_bytes)),
            ("written", least_written_bytes, deltas(|moved| moved.written_bytes)),
        ] {
            println!("{doing}: {reported} bytes {way} by the metrics, {counted} by the kernel");
            assert!(
                reported >= least_bytes,
                "{doing}: {reported} bytes {way}, at least {least_bytes} were expected"
            );
            // Direct reads are rounded up to whole sectors.
            assert!(
                reported.abs_diff(counted) <= ELSEWHERE_BYTES + counted / 20,
                "{doing}: {reported} bytes {way} by the metrics, {counted} by the kernel"
            );
        }
        (self.kernel, self.metrics) = (kernel, metrics);
    }
}

/// Makes SSTables with the same rows of a kilobyte, which are incompressible.
fn with_sstables(data_dir: &Path) -> u64 {
    let engine = Engine::open(EngineOptions::new(data_dir)).unwrap();
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("ks")?)).unwrap();
    let table = TableSchema::builder("ks", "t")
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Blob)
        .build()
        .unwrap();
    // Compactions run only when the test requests one, not between two readings of the counters.
    let mut settings = TableSettings::default();
    settings.compaction.insert("enabled".to_string(), "false".to_string());
    engine.change_schema(|catalog| catalog.create_table(table, settings)).unwrap();
    let table = engine.table("ks", "t").unwrap();
    let mut rng = base::rng::Rng::new(17);
    for round in 0..SSTABLES {
        for number in 0..ROWS {
            let mut mutation = Mutation::new(table.clone(), PartitionKey::new(number.to_be_bytes()));
            let row = mutation.row_mut(ClusteringPrefix::new([&1i32.to_be_bytes()[..]]));
            let value: Vec<u8> = (0..128).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
            row.liveness = Liveness::new(round as i64 + 1);
            row.set(table.column_named("v").unwrap(), Cell::live(round as i64 + 1, value));
            engine.apply(mutation).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    engine.close().unwrap();
    u64::from(ROWS) << 10
}

#[test]
fn metrics_of_io_agree_with_the_kernel() {
    let dir = Dir::new("io-accounting");
    let live_bytes = with_sstables(&dir.0.join("messina-data"));
    let server = Server::start(&dir.0, &["--set", "io_backend=threads"]);
    let nothing = Moved { read_bytes: 0, written_bytes: 0 };
    let mut books = Books { server: &server, kernel: nothing, metrics: nothing };
    // Summary.db, Filter.db, Statistics.db … of each SSTable.
    books.check("start", 20 << 10, 0);

    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    assert_eq!(client.rows("SELECT count(v) FROM ks.t BYPASS CACHE").len(), 1);
    books.check("scan", live_bytes, 0);

    server.tool(&["compact", "ks", "t"]);
    books.check("compaction", live_bytes, live_bytes);

    let hex = "ab".repeat(100_000);
    for number in 0..20 {
        client.run(&format!("INSERT INTO ks.t (k, c, v) VALUES ({number}, 2, 0x{hex})"));
    }
    server.tool(&["flush", "ks", "t"]);
    books.check("writes and a flush", 0, 2_000_000);
    // A flush of one row writes some kilobytes; the node then reads files to open the SSTable.
    client.run("INSERT INTO ks.t (k, c, v) VALUES (1, 3, 0x00)");
    server.tool(&["flush", "ks", "t"]);
    books.check("a flush of one row", 0, 1000);
}
