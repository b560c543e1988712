//! The page of metrics: docs/metrics.md lists what the node exports, and the dashboards query nothing else.

#![allow(clippy::disallowed_methods, reason = "the page that a test writes is outside of every node")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol::ProtocolVersion;

use crate::process::{Dir, Server, http};
use crate::raw_client::Client;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Kind and meaning of each metric of a node with a table, by name.
fn families(server: &Server) -> BTreeMap<String, (String, String)> {
    let (_, page) = http(server.prometheus_port, "GET /metrics", "");
    let mut families: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_string()).or_default().1 = help.to_string();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_string()).or_default().0 = kind.to_string();
        }
    }
    families
}

/// The unit of a metric, from its name and its help.
fn unit(name: &str, help: &str) -> &'static str {
    let has = |part: &str| name.contains(part);
    match () {
        () if has("cpu_seconds") || has("_seconds") || has("_sec") || help.contains("in seconds") => "s",
        () if name.ends_with("consumption") && has("io_queue") => "s",
        () if name.ends_with("_ms") || name == "scylla_reactor_stalls" => "ms",
        () if has("_us_") || help.contains("in microseconds") => "µs",
        () if has("bytes") || has("disk_space") || has("_memory") || help.starts_with("Bytes") => "bytes",
        () if help.starts_with("Percent") => "%",
        () => "",
    }
}

fn page_of(families: &BTreeMap<String, (String, String)>) -> String {
    let mut text = String::from(
        "# Metrics\n\nA node serves its metrics at `http://<prometheus_address>:9180/metrics`, in the text format of Prometheus. Names that \
         begin with `scylla_` are those\nthat dashboards and alerts for ScyllaDB query, with ScyllaDB's units; names that begin with `messina_` have no counterpart \
         there. Counters\nbegin at zero at each start. Labels: `shard`; `ks` and `cf` of a table; `service_level`; `group` (CPU) and `class` (I/O, reads, \
         memory).\n\nA test compares this page with a running node, and the dashboards in `dist/grafana` with this page.\n\n| metric | kind | unit | meaning |\n\
         |---|---|---|---|\n",
    );
    for (name, (kind, help)) in families {
        text.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", unit(name, help)));
    }
    text
}

fn with_a_table(name: &str) -> (Dir, Server) {
    let dir = Dir::new(name);
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE m.t (p int PRIMARY KEY, v text)");
    (dir, server)
}

#[test]
fn the_page_and_the_dashboards_name_what_the_node_exports() {
    let (_dir, server) = with_a_table("metrics-page");
    let families = families(&server);
    let expect = page_of(&families);
    let path = Path::new(ROOT).join("docs/metrics.md");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found != expect {
        let written = std::env::temp_dir().join("messina-metrics.md");
        std::fs::write(&written, &expect).unwrap();
        let missing: Vec<&str> = expect.lines().filter(|line| !found.contains(line)).collect();
        panic!("docs/metrics.md is not that of the node: copy {}; it lacks {missing:#?}", written.display());
    }
    for (name, (kind, help)) in &families {
        assert!(!kind.is_empty() && help.ends_with('.'), "{name}: {kind}, {help}");
    }
    // Names of series: those of histograms and summaries have suffixes.
    let mut series: BTreeSet<String> = families.keys().cloned().collect();
    for (name, (kind, _)) in &families {
        match &kind[..] {
            "histogram" => {
                series.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")))
            }
            "summary" => series.extend(["_sum", "_count"].map(|suffix| format!("{name}{suffix}"))),
            _ => {}
        }
    }
    let dashboards = Path::new(ROOT).join("dist/grafana");
    let mut checked = 0;
    for file in std::fs::read_dir(&dashboards).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        assert!(!panels.is_empty() && dashboard["uid"].is_string(), "{}", path.display());
        for query in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
            let query = query["expr"].as_str().unwrap();
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> = words
                .filter(|word| {
                    ["scylla_", "messina_", "process_"].iter().any(|prefix| word.starts_with(prefix))
                })
                .collect();
            assert!(!names.is_empty(), "{}: {query}", path.display());
            for name in names {
                assert!(series.contains(name), "{}: there is no {name} for {query}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn metrics_agree_with_the_kernel_and_with_what_clients_did() {
    let (_dir, server) = with_a_table("metrics-counts");
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    let sum = |page: &str, name: &str| -> f64 {
        let of = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let found = series == name || series.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
            found.then(|| value.parse::<f64>().unwrap())
        };
        page.lines().filter_map(of).sum()
    };
    let page = || http(server.prometheus_port, "GET /metrics", "").1;
    let before = page();
    (0..20).for_each(|p| client.run(&format!("INSERT INTO m.t (p, v) VALUES ({p}, 'x')")));
    (0..7).for_each(|p| drop(client.rows(&format!("SELECT v FROM m.t WHERE p = {p}"))));
    client.run("UPDATE m.t SET v = 'y' WHERE p = 1");
    client.run("DELETE FROM m.t WHERE p = 2");
    assert_eq!(client.rows("SELECT p FROM m.t").len(), 19);
    let after = page();
    let grown = |name: &str| sum(&after, name) - sum(&before, name);
    for (name, expect) in [
        ("scylla_cql_inserts", 20.0),
        ("scylla_cql_updates", 1.0),
        ("scylla_cql_deletes", 1.0),
        ("scylla_cql_reads", 8.0),
        ("scylla_cql_rows_read", 26.0),
        ("scylla_storage_proxy_coordinator_read_latency_count", 7.0),
        ("scylla_storage_proxy_coordinator_range_latency_count", 1.0),
        ("scylla_storage_proxy_coordinator_write_latency_count", 22.0),
        ("scylla_storage_proxy_coordinator_write_timeouts", 0.0),
    ] {
        assert_eq!(grown(name), expect, "{name}");
    }
    assert!(grown("scylla_database_total_writes") >= 22.0);
    let (total, free) = (sum(&after, "scylla_memory_total_memory"), sum(&after, "scylla_memory_free_memory"));
    assert_eq!(total - sum(&after, "scylla_memory_allocated_memory"), free);
    // The kernel's own count of the process.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let ticks: Vec<f64> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|t| t.parse().unwrap())
        .collect();
    let cpu_s = (ticks[0] + ticks[1]) / 100.0;
    let shown = sum(&after, "process_cpu_seconds_total");
    assert!(shown > 0.0 && shown <= cpu_s && cpu_s - shown < 5.0, "{shown} {cpu_s}");
    let busy_s = sum(&after, "scylla_reactor_cpu_busy_ms") / 1000.0;
    assert!(busy_s > 0.0 && busy_s <= cpu_s + 1.0, "{busy_s} {cpu_s}");
    let utilization = sum(&after, "scylla_reactor_utilization");
    assert!((0.0..=200.0).contains(&utilization), "{utilization}");
}
