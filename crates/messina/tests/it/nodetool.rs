//! Every nodetool command that Cassandra 5.0 and ScyllaDB document, run against a node.
//!
//! [`COMMANDS`] is the union of both vendors' lists: what each command does here, and the lines or columns
//! that its output must have, which are those of the vendor's own nodetool.

#![allow(clippy::disallowed_methods, reason = "clients send requests while the node samples")]

use std::collections::BTreeSet;

use messina::nodetool::one_node::{COMMANDS as ONE_NODE, OneNodeAnswer};
use protocol::ProtocolVersion;

use crate::process::{Dir, Server, http, output};
use crate::raw_client::Client;

/// What a command does on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It works, and its output has these words in one line, in this order.
    Works(&'static [&'static str]),
    /// It works and prints nothing.
    Acts,
    /// It succeeds: there is nothing to do on one node.
    Nothing,
    /// It fails with these words.
    Refused(&'static str),
}

use Does::{Acts, Nothing, Refused, Works};

/// Command line, and what it does. `stopdaemon` and `drain` come last, since the node does not serve after
/// them.
const COMMANDS: &[(&str, Does)] = &[
    ("abortbootstrap", Refused("alone")),
    ("assassinate 10.0.0.1", Refused("whole cluster")),
    ("autorepairstatus", Nothing),
    ("backup --endpoint x --bucket y", Refused("object storage")),
    ("bootstrap resume", Refused("alone")),
    ("checkAndRepairCdcStreams", Nothing),
    ("checktokenmetadata", Nothing),
    ("cidrfilteringstats", Nothing),
    ("cleanup", Acts),
    ("snapshot -t walk shop", Works(&["walk"])),
    (
        "listsnapshots",
        Works(&["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"]),
    ),
    ("clearsnapshot -t walk", Works(&["Requested clearing snapshot(s) for"])),
    ("clientstats", Works(&["Total connected clients:"])),
    (
        "clientstats --all",
        Works(&[
            "Address",
            "SSL",
            "Cipher",
            "Protocol",
            "Version",
            "User",
            "Keyspace",
            "Requests",
            "Driver-Name",
            "Driver-Version",
        ]),
    ),
    ("clientstats --client-options", Works(&["Driver-Version", "Client-Options"])),
    ("clientstats --by-protocol", Works(&["Protocol-Version", "IP-Address"])),
    ("cluster repair", Nothing),
    ("compact shop", Acts),
    (
        "compactionhistory",
        Works(&[
            "id",
            "keyspace_name",
            "columnfamily_name",
            "compacted_at",
            "bytes_in",
            "bytes_out",
            "rows_merged",
            "compaction_properties",
        ]),
    ),
    ("compactionstats", Works(&["pending tasks:"])),
    ("datapaths", Works(&["Keyspace: shop"])),
    ("datapaths shop.orders", Works(&["Table: orders"])),
    ("decommission", Refused("no other node")),
    ("describecluster", Works(&["Replication class:", "SimpleStrategy", "replication_factor=1"])),
    (
        "describering shop",
        Works(&["TokenRange(start_token:", "end_token:", "endpoints:[", "EndpointDetails(host:"]),
    ),
    ("describering nowhere", Refused("nowhere")),
    ("disableauditlog", Works(&[])),
    ("disableautocompaction shop", Acts),
    ("statusautocompaction shop", Works(&["orders", "not running"])),
    ("enableautocompaction shop", Acts),
    ("disablebackup", Nothing),
    ("disablefullquerylog", Nothing),
    ("disablegossip", Nothing),
    ("disablehandoff", Nothing),
    ("disablehintsfordc dc1", Nothing),
    ("disableoldprotocolversions", Refused("protocol")),
    ("dropcidrgroup x", Refused("CIDR")),
    ("dropquarantinedsstables", Refused("scrub")),
    ("enableauditlog", Works(&[])),
    ("enablebackup", Refused("messina backup create")),
    ("enablefullquerylog", Refused("query log")),
    ("enablegossip", Nothing),
    ("enablehandoff", Nothing),
    ("enablehintsfordc dc1", Nothing),
    ("enableoldprotocolversions", Nothing),
    ("excludenode x", Refused("whole cluster")),
    ("failuredetector", Works(&["Endpoint,", "Phi"])),
    ("flush", Acts),
    ("forcecompact shop orders ada", Refused("gc_grace_seconds")),
    ("garbagecollect shop", Acts),
    (
        "gcstats",
        Works(&[
            "Interval (ms)",
            "Max GC Elapsed (ms)",
            "Total GC Elapsed (ms)",
            "Stdev GC Elapsed (ms)",
            "GC Reclaimed (MB)",
            "Collections",
            "Direct Memory Bytes",
        ]),
    ),
    ("getauditlog", Works(&["roll_cycle", "HOURLY"])),
    ("getauthcacheconfig --cache-name RolesCache", Nothing),
    ("getautorepairconfig", Nothing),
    ("getbatchlogreplaythrottle", Nothing),
    ("getcidrgroupsofip 10.0.0.1", Nothing),
    ("getcolumnindexsize", Works(&["Current value for column_index_size:"])),
    ("getcompactionthreshold shop orders", Works(&["min = 4,", "max = 32"])),
    ("getcompactionthroughput", Works(&["Current compaction throughput:", "MB/s"])),
    ("getconcurrency", Works(&["Stage", "CorePoolSize", "MaximumPoolSize"])),
    ("getconcurrentcompactors", Works(&["Current concurrent compactors in the system is:"])),
    ("getconcurrentviewbuilders", Nothing),
    ("getdefaultrf", Works(&["1"])),
    ("getendpoints shop orders ada", Works(&["127.0.0.1"])),
    ("getfullquerylog", Works(&["enabled", "false"])),
    ("getguardrailsconfig", Nothing),
    ("getinterdcstreamthroughput", Nothing),
    ("getlogginglevels", Works(&["Logger Name", "Log Level"])),
    ("getmaxhintwindow", Nothing),
    ("getreplicas shop orders ada", Works(&["127.0.0.1"])),
    ("getseeds", Works(&["Seed node list does not contain any remote node IPs"])),
    ("getsnapshotthrottle", Works(&["Snapshot throttle is disabled"])),
    ("getsstables shop orders ada", Works(&["-Data.db"])),
    ("getstreamthroughput", Nothing),
    ("gettimeout read", Works(&["Current timeout for type read:", "ms"])),
    ("gettimeout misc", Refused("counterwrite")),
    ("gettraceprobability", Works(&["Current trace probability: 0"])),
    ("gossipinfo", Works(&["HOST_ID:"])),
    ("import shop orders /nowhere", Refused("/nowhere")),
    ("info", Works(&["Native Transport active"])),
    ("invalidatecidrpermissionscache", Nothing),
    ("invalidatecountercache", Nothing),
    ("invalidatecredentialscache", Nothing),
    ("invalidatejmxpermissionscache", Nothing),
    ("invalidatekeycache", Acts),
    ("invalidatenetworkpermissionscache", Nothing),
    ("invalidatepermissionscache", Nothing),
    ("invalidaterolescache", Nothing),
    ("invalidaterowcache", Acts),
    ("join", Refused("alone")),
    ("listcidrgroups", Nothing),
    ("listpendinghints", Nothing),
    ("move 1", Refused("whole ring")),
    ("netstats", Works(&["Pool Name", "Active", "Pending", "Completed", "Dropped"])),
    ("pausehandoff", Nothing),
    ("profileload 20", Works(&["Frequency of writes by partition"])),
    (
        "proxyhistograms",
        Works(&[
            "Percentile",
            "Read Latency",
            "Write Latency",
            "Range Latency",
            "CAS Read Latency",
            "CAS Write Latency",
            "View Write Latency",
        ]),
    ),
    ("rangekeysample", Works(&["RangeKeySample:"])),
    ("rebuild -- dc1", Nothing),
    ("rebuild_index shop orders orders_item_idx", Acts),
    ("rebuild_index shop orders nothing", Refused("no index nothing")),
    ("recompress_sstables shop", Acts),
    ("refresh shop orders", Works(&["No new SSTables were found"])),
    ("refreshsizeestimates", Nothing),
    ("reloadcidrgroupscache", Nothing),
    ("reloadlocalschema", Nothing),
    ("reloadseeds", Nothing),
    ("reloadssl", Acts),
    ("reloadtriggers", Nothing),
    ("relocatesstables", Nothing),
    ("removenode status", Refused("whole cluster")),
    ("repair -pr --full shop", Nothing),
    ("repair_admin list", Nothing),
    ("replaybatchlog", Nothing),
    ("resetfullquerylog", Nothing),
    ("resetlocalschema", Refused("no other node")),
    ("restore x", Refused("messina backup restore")),
    ("resumehandoff", Nothing),
    ("ring", Works(&["Address", "Rack", "Status", "State", "Load", "Owns", "Token"])),
    ("ring nowhere", Refused("nowhere")),
    ("scrub shop", Works(&["SSTables scrubbed"])),
    ("setauthcacheconfig x", Refused("at once")),
    ("setautorepairconfig x", Refused("one copy")),
    ("setbatchlogreplaythrottle 1", Refused("not replayed")),
    ("setcachecapacity 1 1 1", Refused("share the memory")),
    ("setcachekeystosave 1 1 1", Refused("not saved")),
    ("setcolumnindexsize 16", Refused("64 KiB")),
    ("setcompactionthreshold shop orders 4 32", Refused("ALTER TABLE")),
    ("setcompactionthroughput 0", Acts),
    ("setconcurrency ReadStage 1", Refused("service levels")),
    ("setconcurrentcompactors 2", Acts),
    ("setconcurrentviewbuilders 2", Refused("no limit of their own")),
    ("setdefaultrf 3", Refused("one replica")),
    ("setguardrailsconfig x", Refused("messina.yaml")),
    ("sethintedhandoffthrottlekb 1", Refused("no hints")),
    ("setinterdcstreamthroughput 1", Refused("no other node")),
    ("setlogginglevel engine INFO", Acts),
    ("setmaxhintwindow 1", Refused("no hints")),
    ("setsnapshotthrottle 1", Refused("links files")),
    ("setstreamthroughput 1", Refused("no other node")),
    ("settimeout read 5000", Acts),
    ("settimeout read 0", Refused("refuse every request")),
    ("settraceprobability 0", Acts),
    ("settraceprobability 2", Refused("between 0 and 1")),
    ("sjk ttop", Refused("Java")),
    ("sstablerepairedset shop", Refused("no repairs")),
    ("sstableinfo shop orders", Works(&["data size :"])),
    ("status", Works(&["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"])),
    ("statusbackup", Works(&["not running"])),
    ("statusbinary", Works(&["running"])),
    ("statusgossip", Works(&["not running"])),
    ("statushandoff", Works(&["Hinted handoff is not running"])),
    ("slowstatements", Works(&["took longer than 500 ms"])),
    ("stop COMPACTION", Refused("none of this kind runs")),
    (
        "tablehistograms shop orders",
        Works(&["Percentile", "Read Latency", "Write Latency", "SSTables", "Partition Size", "Cell Count"]),
    ),
    ("cfhistograms shop.orders", Works(&["50%"])),
    ("tablestats shop.orders", Works(&["Droppable tombstone ratio:"])),
    ("cfstats shop.orders", Works(&["Bloom filter false positives:"])),
    ("tasks modules", Works(&["compaction"])),
    ("tasks list compaction", Works(&["task_id", "type", "kind", "scope", "state", "keyspace", "table"])),
    ("tasks tree", Works(&["task_id"])),
    ("tasks status 0-0", Refused("no task 0-0 runs")),
    ("tasks abort 0-0", Refused("no job 0-0")),
    ("tasks wait 0-0", Acts),
    ("toppartitions shop orders 20", Works(&["Frequency of reads by partition"])),
    ("tpstats", Works(&["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"])),
    ("tpstats", Works(&["Message type", "Dropped", "50%", "95%", "99%", "Max"])),
    ("truncatehints", Nothing),
    ("updatecidrgroup x", Refused("CIDR")),
    ("upgradesstables", Acts),
    ("verify shop", Works(&["SSTables checked"])),
    ("version", Works(&["ReleaseVersion:"])),
    ("viewbuildstatus shop.nothing", Refused("no view")),
    ("disablebinary", Acts),
    ("enablebinary", Acts),
    // Messina's own.
    ("explain shop.orders", Works(&["SizeTieredCompactionStrategy:", "SSTables"])),
    ("explain shop nothing", Refused("no table shop.nothing")),
    ("tombstones shop orders", Works(&["tombstones and expiring cells"])),
    ("memory", Works(&["Class", "Used", "Limit"])),
    ("reads", Works(&[])),
    ("iomodel", Works(&["Reads per second"])),
    ("drain", Acts),
    ("stopdaemon", Works(&["asked to stop"])),
];

/// A table with an index, rows on disk and in memory, and a client that stays connected.
fn with_rows(server: &Server) -> Client {
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    let statements = [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (customer text, number int, item text, PRIMARY KEY (customer, number))",
        "CREATE INDEX orders_item_idx ON shop.orders (item)",
        "INSERT INTO shop.orders (customer, number, item) VALUES ('ada', 1, 'lamp')",
    ];
    statements.iter().for_each(|statement| client.run(statement));
    server.tool(&["flush", "shop"]);
    client
}

/// Whether a line has all of these, in this order.
fn has_line(text: &str, words: &[&str]) -> bool {
    let has = |line: &str| {
        let mut rest = line;
        words.iter().all(|word| match rest.find(word) {
            Some(at) => {
                rest = &rest[at + word.len()..];
                true
            }
            None => false,
        })
    };
    words.is_empty() || text.lines().any(has)
}

#[test]
fn every_command_of_both_vendors_works_or_says_why_not() {
    let dir = Dir::new("nodetool");
    let server = Server::start(&dir.0, &[]);
    let client = with_rows(&server);
    for (line, does) in COMMANDS {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (status, text) = server.nodetool(&words);
        let is_right = match does {
            Works(columns) => status.success() && has_line(&text, columns),
            Acts => status.success() && text.is_empty(),
            Nothing => status.success() && text.contains("one node: nothing to do: "),
            Refused(why) => status.code() == Some(1) && text.contains(why),
        };
        assert!(is_right, "nodetool {line}: {status}, not {does:?}:\n{text}");
    }
    drop(client);
    let (status, log) = server.end();
    assert!(status.success() && log.contains("stopdaemon: stopping"), "{log}");
}

#[test]
fn every_command_has_json_and_yaml_and_help() {
    let dir = Dir::new("nodetool-formats");
    let server = Server::start(&dir.0, &[]);
    let _client = with_rows(&server);
    for (line, does) in COMMANDS {
        // These end or interrupt the node.
        if ["drain", "stopdaemon", "disablebinary", "snapshot -t walk shop"].contains(line)
            || matches!(does, Refused(_))
        {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = |format| {
            let (status, text) = server.nodetool(&[&["--format", format], &words[..]].concat());
            assert!(status.success(), "{line} --format {format}: {text}");
            text
        };
        // A snapshot that is cleared twice is not there.
        if line.starts_with("clearsnapshot") || line.starts_with("tasks wait") {
            continue;
        }
        let json: serde_json::Value =
            serde_json::from_str(&of("json")).unwrap_or_else(|error| panic!("{line}: {error}"));
        let yaml: serde_json::Value =
            yaml_serde::from_str(&of("yaml")).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(json.is_array(), yaml.is_array(), "{line}");
        assert_eq!(json.is_object(), yaml.is_object(), "{line}");
    }
    let (status, text) = output(&["nodetool", "tablehistograms", "--help"]);
    assert!(status.success() && text.contains("KEYSPACE.TABLE"), "{text}");
}

#[test]
fn the_table_of_this_test_names_every_command() {
    let tested: BTreeSet<&str> =
        COMMANDS.iter().filter_map(|(line, _)| line.split_whitespace().next()).collect();
    let missing: Vec<&str> =
        ONE_NODE.iter().map(|(name, ..)| *name).filter(|name| !tested.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    let mut command = messina::nodetool::definition();
    command.build();
    let missing: Vec<String> = command
        .get_subcommands()
        .map(|command| command.get_name().to_string())
        .filter(|name| !tested.contains(&name[..]) && name != "help")
        .collect();
    assert_eq!(missing, Vec::<String>::new());
    for (name, _, answer) in ONE_NODE {
        let (OneNodeAnswer::Nothing(text) | OneNodeAnswer::State(text) | OneNodeAnswer::Refused(text)) =
            answer;
        assert!(!text.is_empty(), "{name}");
    }
}

#[test]
fn setters_act() {
    let dir = Dir::new("nodetool-setters");
    let server = Server::start(&dir.0, &[]);
    let mut client = with_rows(&server);
    let traces = "SELECT count(*) FROM system_traces.sessions";
    let traced = |client: &mut Client| {
        (0..40).for_each(|_| drop(client.rows("SELECT item FROM shop.orders WHERE customer = 'ada'")));
        client.rows(traces)
    };
    let before = traced(&mut client);
    assert_eq!(traced(&mut client), before, "without a probability nothing is traced");
    server.tool(&["settraceprobability", "1"]);
    assert_ne!(traced(&mut client), before, "every request is traced");
    server.tool(&["settraceprobability", "0"]);

    server.tool(&["settimeout", "read", "1234"]);
    assert_eq!(server.tool(&["gettimeout", "read"]), "Current timeout for type read: 1234 ms\n");
    assert_eq!(server.tool(&["gettimeout", "range"]), "Current timeout for type range: 10000 ms\n");

    // The sampler sees the requests made while it runs.
    let (port, cql_port) = (server.api_port, server.cql_port);
    let sampling = std::thread::spawn(move || {
        let path = "POST /v1/toppartitions?keyspace=shop&tables=orders&duration_ms=1500&capacity=64&count=3";
        http(port, path, "")
    });
    let mut other = Client::start(cql_port, ProtocolVersion::V4);
    while !sampling.is_finished() {
        other.run("INSERT INTO shop.orders (customer, number, item) VALUES ('bob', 1, 'saw')");
        drop(other.rows("SELECT item FROM shop.orders WHERE customer = 'ada'"));
    }
    let (_, answer) = sampling.join().unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let top: serde_json::Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(top["reads"][0]["partition"], "ada", "{answer}");
    assert_eq!(top["writes"][0]["partition"], "bob", "{answer}");
    assert_eq!(top["writes"][0]["count"], top["writes_counted"], "{answer}");

    let row_cache = || {
        let info: serde_json::Value = serde_json::from_str(&server.tool(&["-F", "json", "info"])).unwrap();
        info["row_cache"]["entries"].as_u64().unwrap()
    };
    drop(client.rows("SELECT item FROM shop.orders WHERE customer = 'ada'"));
    assert!(row_cache() > 0);
    server.tool(&["invalidaterowcache"]);
    crate::process::until("the row cache is empty", || row_cache() == 0);
}

#[test]
fn completions_and_manual_pages() {
    for (shell, word) in
        [("bash", "complete -F"), ("zsh", "#compdef messina"), ("fish", "complete -c messina")]
    {
        let (status, text) = output(&["completion", shell]);
        assert!(status.success() && text.contains(word) && text.contains("tablehistograms"), "{shell}");
    }
    let (status, text) = output(&["man"]);
    assert!(status.success() && text.contains(".TH messina 1"), "{text}");
    let dir = Dir::new("man");
    let (status, text) = output(&["man", "--dir", dir.0.to_str().unwrap()]);
    assert!(status.success(), "{text}");
    let page = std::fs::read_to_string(dir.0.join("messina-nodetool-tablehistograms.1")).unwrap();
    assert!(page.contains("partition sizes"), "{page}");
}

/// The value at `share` of sorted values, as a percentile is defined for histograms.
fn true_percentile(sorted: &[u64], share: f64) -> u64 {
    sorted[(sorted.len() as f64 * share).ceil() as usize - 1]
}

/// Each percentile must be the truth, or up to a fifth above it: the width of a bucket. `slack` is the part
/// by which the truth itself is uncertain.
fn check_percentiles(what: &str, shown: &serde_json::Value, truth: &mut [u64], slack: f64) {
    truth.sort_unstable();
    let sure = |name: &str, truth: u64| {
        let shown = shown[name].as_u64().unwrap_or_else(|| panic!("{what} {name}: {shown}"));
        let (least, most) =
            ((truth as f64 * (1.0 - slack)) as u64, (truth as f64 * 1.2 * (1.0 + slack)) as u64 + 1);
        assert!((least..=most).contains(&shown), "{what} {name}: {shown}, truly {truth}");
    };
    for (name, share) in [("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99)] {
        sure(name, true_percentile(truth, share));
    }
    sure("max", truth[truth.len() - 1]);
    assert_eq!(shown["count"].as_u64().unwrap(), truth.len() as u64, "{what}");
}

#[test]
fn histograms_agree_with_the_data() {
    let dir = Dir::new("histograms");
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE h WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run(
        "CREATE TABLE h.t (p int, c int, v text, PRIMARY KEY (p, c)) WITH compaction = {'class': 'NullCompactionStrategy'} \
         AND bloom_filter_fp_chance = 0.5",
    );
    let stats = || -> serde_json::Value {
        let all: serde_json::Value =
            serde_json::from_str(&server.tool(&["-F", "json", "tablestats", "h.t"])).unwrap();
        all[0].clone()
    };
    let histograms = || -> serde_json::Value {
        let text = server.tool(&["-F", "json", "tablehistograms", "h", "t"]);
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        all[0].clone()
    };
    // Partitions of 1 to 60 rows of about a kilobyte; partition p has p rows.
    let value = "x".repeat(1000);
    let (mut rows, mut bytes) = (vec![], vec![]);
    for p in 1..=60u64 {
        for c in 0..p {
            client.run(&format!("INSERT INTO h.t (p, c, v) VALUES ({p}, {c}, '{value}')"));
        }
        rows.push(p);
        bytes.push(p * 1020);
    }
    server.tool(&["flush", "h"]);
    let shown = histograms();
    check_percentiles("partition size", &shown["partition_bytes"], &mut bytes, 0.05);
    check_percentiles("cells", &shown["partition_cells"], &mut rows.clone(), 0.0);
    assert_eq!(shown["write_latency_us"]["count"], rows.iter().sum::<u64>());

    // The even partitions lose half of their rows; the reads after it see them as tombstones.
    let (mut live, mut dead) = (vec![], vec![]);
    for p in (2..=60u64).step_by(2) {
        (0..p / 2).for_each(|c| client.run(&format!("DELETE FROM h.t WHERE p = {p} AND c = {c}")));
    }
    server.tool(&["flush", "h"]);
    for p in 1..=60u64 {
        let gone = if p % 2 == 0 { p / 2 } else { 0 };
        let found = client.rows(&format!("SELECT c FROM h.t WHERE p = {p} BYPASS CACHE"));
        assert_eq!(found.len() as u64, p - gone);
        live.push(p - gone);
        dead.push(gone);
    }
    let shown = histograms();
    let mut live_sorted = live.clone();
    check_percentiles("live rows", &shown["live_rows"], &mut live_sorted, 0.0);
    check_percentiles("tombstones", &shown["tombstones"], &mut dead.clone(), 0.0);
    assert_eq!(shown["tombstones"]["p50"], 0, "an odd partition has no tombstones");
    assert_eq!(shown["read_latency_us"]["count"], 60);
    let table = stats();
    let mean = live.iter().sum::<u64>() as f64 / 60.0;
    assert!((table["live_per_slice_mean"].as_f64().unwrap() - mean).abs() < 0.01, "{table}");
    assert_eq!(table["tombstones_per_slice_max"], 30);
    assert_eq!(table["live_per_slice_max"], 59);
    let ratio = table["droppable_tombstone_ratio"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&ratio), "{table}");

    // Even partitions are in two SSTables, odd ones in one: the bloom filter, which is poor, may add one.
    let opened = &shown["sstables_per_read"];
    assert_eq!((&opened["count"], &opened["max"]), (&60.into(), &2.into()), "{opened}");
    let before = table["bloom_filter_false_positives"].as_u64().unwrap();
    assert!(before <= 30, "{table}");
    // Of partitions that are nowhere, each SSTable that is opened is a false positive.
    let absent = 400u64;
    for p in 0..absent {
        assert!(client.rows(&format!("SELECT c FROM h.t WHERE p = {} BYPASS CACHE", p + 100_000)).is_empty());
    }
    let table = stats();
    let found = table["bloom_filter_false_positives"].as_u64().unwrap() - before;
    let per_read = table["sstables_per_read"].as_f64().unwrap();
    let opened = (per_read * (60 + absent) as f64).round() as u64;
    assert_eq!(opened, 60 + 30 + before + found, "{table}");
    let ratio = table["bloom_filter_false_ratio"].as_f64().unwrap();
    // A filter of few keys has more bits than it needs.
    assert!((0.05..=0.75).contains(&ratio), "a filter for 0.5: {table}");
    // Keys outside the tokens of an SSTable never ask its filter.
    assert!(found > absent / 20 && found < 2 * absent * 3 / 4, "{found}");

    // Requests as their coordinator counts them: one insert or delete each, and the reads.
    let requests: serde_json::Value =
        serde_json::from_str(&server.tool(&["-F", "json", "proxyhistograms"])).unwrap();
    assert_eq!(requests["read"]["count"], 60 + absent);
    let deletes: u64 = (2..=60u64).step_by(2).map(|p| p / 2).sum();
    assert_eq!(requests["write"]["count"], rows.iter().sum::<u64>() + deletes);
}

#[test]
fn writes_of_every_kind_are_counted() {
    let dir = Dir::new("nodetool-writes");
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE w WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE w.plain (p int PRIMARY KEY, v int)");
    client.run("CREATE TABLE w.counts (p int PRIMARY KEY, n counter)");
    client.run("CREATE TABLE w.base (p int PRIMARY KEY, v int)");
    client.run(
        "CREATE MATERIALIZED VIEW w.by_v AS SELECT * FROM w.base WHERE v IS NOT NULL AND p IS NOT NULL PRIMARY KEY (v, p)",
    );
    client.run("INSERT INTO w.plain (p, v) VALUES (1, 1)");
    // The second one writes nothing.
    (0..2).for_each(|_| drop(client.rows("INSERT INTO w.plain (p, v) VALUES (2, 1) IF NOT EXISTS")));
    client.run(
        "BEGIN BATCH INSERT INTO w.plain (p, v) VALUES (3, 1); INSERT INTO w.plain (p, v) VALUES (4, 1); APPLY BATCH",
    );
    (0..3).for_each(|_| client.run("UPDATE w.counts SET n = n + 1 WHERE p = 1"));
    (0..5).for_each(|p| client.run(&format!("INSERT INTO w.base (p, v) VALUES ({p}, 7)")));
    for (table, expect) in [("plain", 4), ("counts", 3), ("base", 5), ("by_v", 5)] {
        let text = server.tool(&["-F", "json", "tablehistograms", "w", table]);
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(all[0]["write_latency_us"]["count"], expect, "{table}: {text}");
    }
}

#[test]
fn why_a_table_does_not_compact_and_why_tombstones_stay() {
    let dir = Dir::new("explain");
    let server = Server::start(&dir.0, &["--smp", "1", "--set", "commitlog_segment_size=1MiB"]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run(
        "CREATE TABLE e.t (p int PRIMARY KEY, v text) WITH gc_grace_seconds = 3600 \
         AND compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 4}",
    );
    server.tool(&["disableautocompaction", "e", "t"]);
    (0..10).for_each(|p| client.run(&format!("INSERT INTO e.t (p, v) VALUES ({p}, 'x')")));
    server.tool(&["flush", "e"]);
    (0..4).for_each(|p| client.run(&format!("DELETE FROM e.t WHERE p = {p}")));
    server.tool(&["flush", "e"]);

    let text = server.tool(&["explain", "e.t"]);
    assert!(text.contains("SizeTieredCompactionStrategy: 2 SSTables"), "{text}");
    assert!(text.contains("waits: automatic compaction is off: nodetool enableautocompaction"), "{text}");
    assert!(text.contains("runs of about the same size:"), "{text}");

    let tombstones = || server.tool(&["tombstones", "e.t"]);
    let text = tombstones();
    assert!(text.starts_with("4 tombstones and expiring cells in 1 SSTables; 0 of them"), "{text}");
    assert!(text.contains("kept: 4 are younger than gc_grace_seconds (3600 s)"), "{text}");
    assert!(text.contains("freed by: time: the first of them may go in "), "{text}");

    // Past the grace period, the rows in the other SSTable need them.
    client.run("ALTER TABLE e.t WITH gc_grace_seconds = 0");
    crate::process::until("the tombstones are old enough", || tombstones().contains("; 4 of them are older"));
    let text = tombstones();
    assert!(text.contains("kept: older data may be in me-"), "{text}");
    assert!(
        text.contains("freed by: a merge with the SSTables that it overlaps: nodetool compact"),
        "{text}"
    );
    server.tool(&["compact", "e", "t"]);
    let text = tombstones();
    assert!(text.contains("kept: the commit log has writes as old as its newest"), "{text}");
    assert!(text.contains("freed by: the end of these segments of the commit log"), "{text}");
    assert!(text.contains("4: the commit log would be replayed"), "{text}");

    // Full segments of which all is flushed are removed, and then the tombstones may go.
    client.run("CREATE TABLE e.filler (p int PRIMARY KEY, v text)");
    let value = "x".repeat(300_000);
    (0..8).for_each(|p| client.run(&format!("INSERT INTO e.filler (p, v) VALUES ({p}, '{value}')")));
    server.tool(&["flush", "e"]);
    crate::process::until("the segment is removed", || !tombstones().contains("kept: the commit log"));
    assert!(tombstones().contains("freed by: a compaction of this SSTable alone: nodetool garbagecollect"));
    server.tool(&["garbagecollect", "e", "t"]);
    let text = tombstones();
    assert!(text.starts_with("0 tombstones and expiring cells in 0 SSTables"), "{text}");
}
