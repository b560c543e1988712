//! Options of memory, threads and the disk.

use std::fs;

use protocol::ProtocolVersion;

use super::{Group, blob, client, metric};
use crate::process::{Server, timed};
use crate::raw_client::Client;

/// A disk of 100 MB/s, on which 256 KiB take longer than the default latency goal, so requests are split.
const PROPERTIES: &str = "disks:\n- mountpoint: .\n  read_iops: 100000\n  read_bandwidth: 100000000\n  write_iops: 100000\n  \
                          write_bandwidth: 100000000\n";
const BLOBS: u64 = 12;
const BLOB_BYTES: usize = 256 << 10;

/// A table `ks.t` with 3 MiB of incompressible rows in an SSTable.
fn fill(server: &Server) -> Client {
    let mut client = client(server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v blob) WITH compression = {'enabled': false}");
    for k in 0..BLOBS {
        client.run(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {})", blob(BLOB_BYTES, k)));
    }
    server.tool(&["flush", "ks", "t"]);
    client
}

/// Number of requests that wrote the commit log.
fn log_requests(server: &Server) -> f64 {
    let (_, text) = crate::process::http(server.prometheus_port, "GET /metrics", "");
    let of_log = |line: &&str| {
        line.starts_with("scylla_io_queue_total_write_ops{") && line.contains("class=\"commitlog\"")
    };
    text.lines().filter(of_log).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

pub fn see(group: &Group) {
    let server = group.start("a", &["memory", "smp", "pin_shards", "io_backend"], &[]);
    let memory = server.tool(&["memory"]);
    let memtables = memory.lines().find(|line| line.starts_with("memtables")).unwrap_or_default();
    group.sees("memory", memtables.contains(" 64.00 MiB "), &memory);
    let info = server.tool(&["--format", "json", "info"]);
    group.sees("smp", info.contains("\"shards\":3") && memory.contains("Shard 2"), &memory);
    group.sees("io_backend", info.contains("\"io_backend\":\"threads\""), &info);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().flatten();
    let cores = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .map(|list| list.trim().to_string())
    });
    let cores: Vec<String> = cores.collect();
    let pinned = cores.iter().filter(|list| list.parse::<u32>().is_ok()).count();
    group.sees("pin_shards", pinned >= 3, format_args!("{cores:?}"));
    assert!(server.stop().0.success());

    for place in ["b", "c"] {
        fs::write(group.place(place).join("io.yaml"), PROPERTIES).unwrap();
    }
    let server = group.start("b", &["io_properties_file"], &["--set", "io_backend=threads"]);
    let model = server.tool(&["--format", "json", "iomodel"]);
    group.sees("io_properties_file", model.contains("\"configured\":{"), &model);
    fill(&server);
    let with_default = log_requests(&server);
    assert!(server.stop().0.success());
    let server =
        group.start("c", &["io_properties_file", "io_latency_goal"], &["--set", "io_backend=threads"]);
    fill(&server);
    let found = log_requests(&server);
    group.sees("io_latency_goal", found * 1.5 < with_default, format_args!("{found} of {with_default}"));
    assert!(server.stop().0.success());

    // 3 MiB at 1 MiB/s, less the burst that is read at once.
    let server = group.start("c", &["stream_io_throughput"], &[]);
    let (text, took) = timed(|| server.tool(&["verify", "ks", "t"]));
    group.sees("stream_io_throughput", took.as_millis() > 1000, format_args!("{took:?} {text}"));
    assert!(server.stop().0.success());

    see_stalls(group);
}

/// A statement of a megabyte is parsed without a yield.
fn see_stalls(group: &Group) {
    let short_stalls = |server: &Server, options: &str| {
        let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
        // Some take a few milliseconds, some take many.
        for words in [5_000, 10_000, 20_000, 200_000] {
            let list = "1, ".repeat(words);
            client.query(&format!("SELECT key FROM system.local WHERE key IN ({list}1)"));
        }
        let count = metric(server, "scylla_reactor_stalls_count{");
        assert!(count > 0.0, "{options}: nothing stalled");
        count
    };
    let server = group.start("d", &["blocked_reactor_notify"], &["--in-memory"]);
    short_stalls(&server, "notify");
    let (_, text) = crate::process::http(server.prometheus_port, "GET /metrics", "");
    let buckets = text
        .lines()
        .filter(|line| line.starts_with("scylla_reactor_stalls_bucket{") && line.contains("le=\"25\""));
    let below: f64 = buckets.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    group.sees("blocked_reactor_notify", below > 0.0, text);
    assert!(server.log().contains(" reactor - "), "{}", server.log());
    assert!(server.stop().0.success());
    let options = ["blocked_reactor_notify", "blocked_reactor_reports_per_minute"];
    let server = group.start("e", &options, &["--in-memory"]);
    let count = short_stalls(&server, "reports");
    let log = server.log();
    group.sees(
        "blocked_reactor_reports_per_minute",
        !log.contains(" reactor - "),
        format_args!("{count} {log}"),
    );
    assert!(server.stop().0.success());
}
