//! `messina serve`, its admin API, its metrics and `messina nodetool`.

use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use catalog::{Keyspace, TableSettings};
use engine::{Engine, EngineOptions};
use model::{Cell, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, TableSchema};
use protocol::ProtocolVersion;
use rustix::process::Signal;

use crate::process::{Dir, Server, free_ports, http, output};
use crate::raw_client::Client;

/// A directory with a table `shop.orders` and a row of "ada" that is only in the commit log.
fn with_a_table(data_dir: &Path) {
    let engine = Engine::open(EngineOptions::new(data_dir)).unwrap();
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("shop")?)).unwrap();
    let table = TableSchema::builder("shop", "orders")
        .partition_key("customer", CqlType::Text)
        .clustering("number", CqlType::Int)
        .regular("item", CqlType::Text)
        .build()
        .unwrap();
    engine.change_schema(|catalog| catalog.create_table(table, TableSettings::default())).unwrap();
    let orders = engine.table("shop", "orders").unwrap();
    let mut order = Mutation::new(orders.clone(), PartitionKey::new("ada"));
    let row = order.row_mut(ClusteringPrefix::new([&1i32.to_be_bytes()[..]]));
    row.liveness = Liveness::new(1);
    row.set(orders.column_named("item").unwrap(), Cell::live(1, "lamp"));
    engine.apply(order).wait().unwrap();
    // Not closed: for the directory, a crash.
}

#[test]
fn it_starts_answers_stops_and_starts_again() {
    let dir = Dir::new("life");
    with_a_table(&dir.0.join("messina-data"));
    fs::write(dir.0.join("messina.yaml"), "cluster_nam: x\nnum_tokens: 16\ncluster_name: Strait\n").unwrap();
    let server = Server::start(&dir.0, &[]);
    let log = server.log();
    assert!(log.contains(" - replayed "), "{log}");
    assert!(log.contains("cluster_nam: unknown option, ignored; did you mean cluster_name?"), "{log}");
    assert!(
        log.contains("WARN")
            && log.contains("no meaning on one node, so without effect: num_tokens (line 2)"),
        "{log}"
    );
    // A busy machine has stalls.
    let mut lines = log.lines().filter(|line| !line.contains(" reactor - "));
    assert!(lines.all(|line| line.contains(" [main] ") && line.contains(" - ")), "{log}");

    assert_eq!(server.tool(&["version"]), format!("ReleaseVersion: {}\n", env!("CARGO_PKG_VERSION")));
    let status = server.tool(&["status"]);
    assert!(status.contains("\nUN  127.0.0.1  "), "{status}");
    let info = server.tool(&["--format", "json", "info"]);
    assert!(info.contains("\"cluster_name\":\"Strait\"") && info.contains("\"shards\":2"), "{info}");
    let host_id = fs::read_to_string(dir.0.join("messina-data/host_id")).unwrap();
    assert!(status.contains(host_id.trim()) && info.contains(host_id.trim()), "{status}{info}");

    let model = server.tool(&["iomodel"]);
    assert!(model.contains("Reads per second") && model.contains("\nLearned from "), "{model}");
    let model = server.tool(&["--format", "json", "iomodel"]);
    assert!(model.contains("\"configured\":null") && model.contains("\"cells\":["), "{model}");
    // Shortly after a start the rates of the disk are not known.
    assert_eq!(model.matches("\"fitted_s\":null").count(), 4, "{model}");
    let svg = dir.0.join("iomodel.svg");
    server.tool(&["iomodel", "--svg", svg.to_str().unwrap()]);
    assert!(fs::read_to_string(svg).unwrap().contains("Latency of reads"));

    // The start has flushed the replayed writes.
    let stats = server.tool(&["tablestats", "shop.orders"]);
    for line in ["\t\tTable: orders", "\t\tSSTable count: 1", "\t\tNumber of partitions (estimate): 1"] {
        assert!(stats.lines().any(|found| found == line), "{line}\n{stats}");
    }
    let files = server.tool(&["getsstables", "shop", "orders", "ada"]);
    assert!(files.ends_with("-big-Data.db\n") && files.lines().count() == 1, "{files}");
    assert!(dir.0.join(files.trim()).exists(), "{files}");
    assert_eq!(server.tool(&["getsstables", "shop", "orders", "bob"]), "");

    server.tool(&["flush", "shop", "orders"]);
    server.tool(&["snapshot", "-t", "before"]);
    let snapshots = server.tool(&["listsnapshots"]);
    assert!(
        snapshots.lines().any(|line| line.starts_with("before") && line.contains(" orders ")),
        "{snapshots}"
    );
    let (status, text) = server.nodetool(&["snapshot", "-t", "before", "shop"]);
    assert!(!status.success() && text.contains("has a snapshot before already"), "{text}");
    server.tool(&["clearsnapshot", "-t", "before"]);
    assert_eq!(server.tool(&["listsnapshots"]), "There are no snapshots\n");

    server.tool(&["compact", "-s", "shop", "orders"]);
    server.tool(&["upgradesstables", "-a", "shop", "orders"]);
    let data = server.tool(&["getsstables", "shop", "orders", "ada"]);
    let data = dir.0.join(data.trim());
    server.tool(&["compact", "--user-defined", data.to_str().unwrap()]);
    let history = server.tool(&["compactionhistory"]);
    for kind in ["Major compaction", "Upgrade sstables", "User defined compaction"] {
        assert!(history.contains(&format!("compaction_type: {kind}")), "{history}");
    }
    let line = " compaction - Major compaction of shop.orders: ";
    let log = server.log();
    let found = log.lines().find(|found| found.contains(line)).unwrap_or_else(|| panic!("{log}"));
    assert!(found.contains("INFO") && found.contains(" bytes to ") && found.contains(" MiB/s); "), "{found}");
    assert!(server.tool(&["compactionstats", "-H"]).starts_with("pending tasks: 0\n"));
    server.tool(&["disableautocompaction", "shop", "orders"]);
    let status = server.tool(&["statusautocompaction", "shop", "orders"]);
    assert!(
        status.lines().any(|line| line.split_whitespace().eq(["shop", "orders", "not", "running"])),
        "{status}"
    );
    server.tool(&["enableautocompaction", "shop"]);
    server.tool(&["setcompactionthroughput", "16"]);
    assert_eq!(server.tool(&["getcompactionthroughput"]), "Current compaction throughput: 16 MB/s\n");
    server.tool(&["setconcurrentcompactors", "2"]);
    assert!(server.tool(&["getconcurrentcompactors"]).ends_with(":\u{20}\n2\n"));
    let (status, text) = server.nodetool(&["stop", "COMPACTION"]);
    assert!(!status.success() && text.contains("no compaction was stopped"), "{text}");
    server.tool(&["garbagecollect", "shop"]);
    server.tool(&["garbagecollect", "-g", "CELL", "shop", "orders"]);
    server.tool(&["cleanup", "shop"]);
    let scrubbed = server.tool(&["scrub", "shop", "orders"]);
    assert!(scrubbed.starts_with("1 SSTables scrubbed: 1 partitions and 1 rows kept, 0 "), "{scrubbed}");
    assert!(scrubbed.contains("\nSnapshot before: shop.orders: pre-scrub-"), "{scrubbed}");
    server.tool(&["clearsnapshot", "--all"]);
    server.tool(&["scrub", "-s", "-ns", "-j", "2"]);
    assert_eq!(server.tool(&["listsnapshots"]), "There are no snapshots\n");

    let levels = |server: &Server| server.tool(&["getlogginglevels"]);
    let row = |name: &str, level: &str| format!("\n{name:<50}{level:>10}\n");
    let at_start = levels(&server);
    assert!(at_start.starts_with(&row("Logger Name", "Log Level")), "{at_start}");
    assert!(["ROOT", "compaction"].iter().all(|name| at_start.contains(&row(name, "INFO"))), "{at_start}");
    assert!(!server.log().contains("DEBUG"), "{}", server.log());
    server.tool(&["setlogginglevel", "compaction", "debug"]);
    assert!(
        levels(&server).contains(&row("compaction", "DEBUG"))
            && levels(&server).contains(&row("engine", "INFO"))
    );
    server.tool(&["compact", "shop", "orders"]);
    server.wait_for("compaction - Major compaction of shop.orders begins with ");
    server.tool(&["setlogginglevels", "ROOT", "OFF"]);
    assert!(
        levels(&server).contains(&row("admin", "OFF"))
            && levels(&server).contains(&row("compaction", "DEBUG"))
    );
    server.tool(&["setlogginglevel", "compaction"]);
    assert!(levels(&server).contains(&row("compaction", "OFF")));
    let is_silent = || {
        let before = server.log();
        server.tool(&["compact", "shop", "orders"]);
        server.log() == before
    };
    assert!(is_silent());
    server.tool(&["setlogginglevel"]);
    assert_eq!(levels(&server), at_start);
    server.wait_for(" admin - log level of all loggers: as configured");
    let files = server.tool(&["getsstables", "shop", "orders", "ada"]);

    let help = server.tool(&[]);
    assert!(help.contains("Usage: messina nodetool") && help.contains("  getsstables "), "{help}");
    for (words, expected) in [
        (&["flsuh"][..], "a similar subcommand exists: 'flush'"),
        (&["flush", "nowhere"], "there is no keyspace nowhere"),
        (&["flush", "shop", "carts"], "there is no table shop.carts"),
        (&["compact", "--user-defined", "/nowhere/me-1-big-Data.db"], "is not in the directory of a table"),
        (&["scrub", "-r", "shop"], "Usage: messina nodetool scrub [OPTIONS] [KEYSPACE] [TABLE]..."),
        (&["garbagecollect", "-g", "ALL", "shop"], "granularity must be ROW or CELL, not ALL"),
        (&["stop", "EVERYTHING"], "USER_DEFINED_COMPACTION"),
        (
            &["setlogginglevel", "compactoin", "DEBUG"],
            "there is no logger compactoin; did you mean compaction?",
        ),
        (&["setlogginglevel", "compaction", "LOUD"], "there is no log level LOUD; there are: OFF, ERROR, "),
        (&["getsstables", "shop"], "Usage: messina nodetool getsstables <KEYSPACE> <TABLE> <KEY>"),
    ] {
        let (status, text) = server.nodetool(words);
        assert!(!status.success() && text.contains(expected), "{words:?}: {text}");
    }

    let (status, page) = http(server.prometheus_port, "GET /metrics", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let live =
        |shard| format!("scylla_column_family_live_sstable{{cf=\"orders\",ks=\"shop\",shard=\"{shard}\"}} ");
    let count = |shard| {
        let found = page.lines().find_map(|line| line.strip_prefix(&live(shard)));
        found.unwrap_or_else(|| panic!("shard {shard}\n{page}")).parse::<u32>().unwrap()
    };
    assert_eq!(count(0) + count(1), 1, "{page}");
    let (status, text) = http(server.api_port, "GET /v1/nothing", "");
    assert!(
        status.contains("404") && text.contains("{\"error\":\"there is nothing at /v1/nothing\"}"),
        "{text}"
    );
    let (status, _) = http(server.api_port, "POST /v1/drain", "Origin: http://evil.example\r\n");
    assert!(status.contains("403"), "{status}");

    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("SIGTERM: stopping") && log.lines().last().unwrap().ends_with("stopped"), "{log}");

    let server = Server::start(&dir.0, &["--smp", "1"]);
    assert!(!server.log().contains("replayed"), "{}", server.log());
    assert_eq!(server.tool(&["getsstables", "shop", "orders", "ada"]), files);
    let history = server.tool(&["compactionhistory"]);
    for kind in ["Major compaction", "Upgrade sstables", "Scrub"] {
        assert!(history.contains(&format!("compaction_type: {kind}")), "after a restart: {history}");
    }
    server.tool(&["drain"]);
    assert!(server.tool(&["status"]).contains("\nDN  "));
    let (status, text) = server.nodetool(&["flush"]);
    assert!(!status.success() && text.contains("the node is DRAINED; restart it"), "{text}");
    server.signal(Signal::INT);
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0), "{log}");
    let (status, text) = output(&["nodetool", "-p", "1", "status"]);
    assert!(!status.success() && text.contains("failed to connect to '127.0.0.1:1'"), "{text}");
}

#[test]
fn clients_are_served_while_the_binary_protocol_is_enabled() {
    let dir = Dir::new("binary");
    let server = Server::start(&dir.0, &["--smp", "2"]);
    let connects = || std::net::TcpStream::connect(("127.0.0.1", server.cql_port)).is_ok();
    for _ in 0..2 {
        assert_eq!(server.tool(&["statusbinary"]), "running\n");
        let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
        assert_eq!(client.rows("SELECT key FROM system.local").len(), 1);
        server.tool(&["disablebinary"]);
        assert!(!connects() && client.receive().is_none());
        assert_eq!(server.tool(&["statusbinary"]), "not running\n");
        server.tool(&["disablebinary"]);
        server.tool(&["flush"]);
        server.tool(&["enablebinary"]);
        server.tool(&["enablebinary"]);
    }
    assert!(connects());
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    for k in 0..100 {
        client.run(&format!("INSERT INTO ks.t (k) VALUES ({k})"));
    }
    let estimates = "SELECT partitions_count FROM system.size_estimates WHERE keyspace_name = 'ks'";
    let counts = client.rows(estimates);
    let count = |row: &Vec<Option<Vec<u8>>>| {
        i64::from_be_bytes(row[0].as_deref().expect("a count").try_into().expect("a bigint"))
    };
    assert_eq!((counts.len(), counts.iter().map(count).sum()), (2, 100));
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn one_process_a_directory_and_one_a_port() {
    let dir = Dir::new("two");
    let server = Server::start(&dir.0, &[]);
    let data_dir = dir.0.join("messina-data");
    let data_dir = data_dir.to_str().unwrap();
    let [api] = free_ports::<1>();
    let other = ["--prometheus-port", "0", "--data-dir", data_dir, "--api-port"];
    let (status, text) = output(&[&other[..], &[&api.to_string()]].concat());
    assert_eq!(status.code(), Some(1), "{text}");
    let holder = format!("process {} uses it", server.id());
    assert!(text.contains(data_dir) && text.contains(&holder), "{text}");
    let (status, text) = output(&[&other[..], &[&server.api_port.to_string()]].concat());
    assert_eq!(status.code(), Some(1), "{text}");
    let taken =
        format!("cannot listen on 127.0.0.1:{} (api_port): another process listens there", server.api_port);
    assert!(text.contains(&taken) && text.contains("--api-port"), "{text}");
    // The directory stays locked when the lock file is removed.
    fs::remove_file(dir.0.join("messina-data/messina.lock")).unwrap();
    let (status, text) = output(&[&other[..], &[&api.to_string()]].concat());
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains(data_dir) && text.contains("another process uses it"), "{text}");
    // A killed process leaves nothing that prevents the next start.
    server.signal(Signal::KILL);
    let (status, _) = server.end();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    Server::start(&dir.0, &[]).stop();
}

#[test]
fn a_refused_start_states_its_reason() {
    let dir = Dir::new("wrong");
    let path = |name: &str| dir.0.join(name).to_str().unwrap().to_string();
    fs::write(dir.0.join("bad.yaml"), "# ports\napi_port: many\nmemory: 2 parsecs\n").unwrap();
    let (status, text) = output(&["serve", "--config", &path("bad.yaml")]);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("bad.yaml, line 2: api_port: \"many\" is not allowed; expected a port"), "{text}");
    assert!(text.contains("bad.yaml, line 3: memory: "), "{text}");
    let (status, text) = output(&["--config", &path("absent.yaml")]);
    assert!(!status.success() && text.contains("cannot read") && text.contains("absent.yaml"), "{text}");
    let (status, text) = output(&["--memory", "lots"]);
    assert!(!status.success() && text.contains("--memory: \"lots\" is not allowed"), "{text}");

    let ports = ["--api-port", "0", "--prometheus-port", "0", "--data-dir"];
    for files in [8, 10, 12] {
        let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        let few = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_messina"), "--smp", "1"])
            .args([&ports[..], &[&path("few")]].concat())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&few.stderr);
        assert!(!few.status.success() && text.contains("raise the limit with ulimit -n"), "{text}");
    }
    fs::write(dir.0.join("file"), "").unwrap();
    let (status, text) = output(&[&ports[..], &[&path("file/data")]].concat());
    assert!(!status.success() && text.contains("file/data cannot be opened: cannot "), "{text}");
    if !rustix::process::geteuid().is_root() {
        fs::create_dir(dir.0.join("sealed")).unwrap();
        fs::set_permissions(dir.0.join("sealed"), fs::Permissions::from_mode(0o500)).unwrap();
        let (status, text) = output(&[&ports[..], &[&path("sealed")]].concat());
        assert!(!status.success() && text.contains("make it writable for this user"), "{text}");
    }

    with_a_table(&dir.0.join("damaged"));
    let logs = fs::read_dir(dir.0.join("damaged/commitlog")).unwrap().flatten();
    let files = logs.map(|entry| entry.path()).filter(|path| path.is_file());
    let mut logs = files.map(|path| (fs::read(&path).unwrap(), path));
    let (mut bytes, path_of_log) =
        logs.find(|(bytes, _)| bytes.windows(3).any(|word| word == b"ada")).unwrap();
    // The header of the segment, before an intact chunk.
    bytes[..64].fill(0x55);
    fs::write(path_of_log, bytes).unwrap();
    let (status, text) = output(&[&ports[..], &[&path("damaged")]].concat());
    assert!(!status.success() && text.contains("--set on_damaged_commitlog=skip"), "{text}");
    let server =
        Server::start(&dir.0, &["--data-dir", &path("damaged"), "--set", "on_damaged_commitlog=skip"]);
    assert!(
        server.log().contains("WARN ") && server.log().contains("commit log: lost: "),
        "{}",
        server.log()
    );
    assert_eq!(server.tool(&["getsstables", "shop", "orders", "ada"]), "");
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn what_cannot_be_read_is_in_the_log() {
    let dir = Dir::new("unreadable");
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run(
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text)
            WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}",
    );
    for _ in 0..2 {
        client.run("INSERT INTO ks.t (k, v) VALUES (1, 'in both SSTables')");
        server.tool(&["flush"]);
    }
    let tables = fs::read_dir(dir.0.join("messina-data/data/ks")).unwrap().flatten();
    let files = tables.flat_map(|table| fs::read_dir(table.path()).unwrap().flatten());
    let data: Vec<_> =
        files.map(|file| file.path()).filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect();
    assert_eq!(data.len(), 2, "{data:?}");
    for path in &data {
        // In place, while the server has the file open.
        let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(std::io::SeekFrom::Start(8)).unwrap();
        file.write_all(&[0x55; 8]).unwrap();
    }
    let answer = format!("{:?}", client.query("SELECT v FROM ks.t WHERE k = 1"));
    assert!(answer.contains("-big-Data.db at byte 0"), "{answer}");
    server.wait_for("a read failed: ");
    let (status, text) = server.nodetool(&["compact", "ks", "t"]);
    assert!(!status.success(), "{text}");
    server.wait_for("a compaction failed: ks.t: ");
    let log = server.log();
    let lines =
        log.lines().filter(|line| line.starts_with("ERROR ") && line.contains("-big-Data.db at byte "));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[1].contains("compactions leave this SSTable out"), "{log}");
    assert_eq!(server.stop().0.code(), Some(0));
}

/// Figures of a table match the known data.
#[test]
fn figures_of_a_table_are_what_was_done() {
    let dir = Dir::new("figures");
    let server = Server::start(&dir.0, &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let disabled = "WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}";
    client.run(&format!("CREATE TABLE ks.wide (k int, c int, v text, PRIMARY KEY (k, c)) {disabled}"));
    client.run(&format!("CREATE TABLE ks.narrow (k int PRIMARY KEY, v text) {disabled}"));
    // Two SSTables of each table: the partition of one table grows, the rows of the other are overwritten.
    for c in [1, 100] {
        client.run(&format!("INSERT INTO ks.wide (k, c, v) VALUES (1, {c}, 'appended')"));
        for k in 0..500 {
            client.run(&format!("INSERT INTO ks.narrow (k, v) VALUES ({k}, 'overwritten')"));
        }
        server.tool(&["flush", "ks"]);
    }
    let figure = |table: &str, name: &str| {
        let stats = server.tool(&["tablestats", table]);
        let line = stats.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {stats}")).to_string()
    };
    assert!(figure("ks.wide", "Space amplification").starts_with("unknown: "));
    let narrow: f64 = figure("ks.narrow", "Space amplification").parse().unwrap();
    assert!((1.8..2.2).contains(&narrow), "each row is there twice: {narrow}");
    let metrics = || http(server.prometheus_port, "GET /metrics", "").1;
    let sum = |family: &str, table: &str| -> f64 {
        let text = metrics();
        let of_table = text.lines().filter(|line| line.starts_with(family) && line.contains(table));
        of_table.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert!(sum("messina_table_live_bytes{", "narrow") > 0.0);

    // The SSTable with the other row has other clustering keys; an absent partition is in neither SSTable.
    assert_eq!(client.rows("SELECT v FROM ks.wide WHERE k = 1 AND c = 100 BYPASS CACHE").len(), 1);
    assert_eq!(figure("ks.wide", "SSTables skipped by clustering"), "1");
    assert_eq!(sum("messina_table_sstables_skipped_by_clustering_total{", "wide"), 1.0);
    let by_partition = || sum("messina_table_sstables_skipped_by_partition_total{", "narrow");
    let before = by_partition();
    for k in 1000..1050 {
        assert_eq!(client.rows(&format!("SELECT v FROM ks.narrow WHERE k = {k} BYPASS CACHE")).len(), 0);
    }
    let more = by_partition() - before;
    assert!((90.0..=100.0).contains(&more), "50 reads beside two filters: {more}");
    assert_eq!(figure("ks.narrow", "SSTables skipped by partition"), by_partition().to_string());

    // `stop COMPACTION` also stops a merge that a user has started.
    for number in 0..30 {
        let value = format!("{number}").repeat(100_000);
        client.run(&format!("INSERT INTO ks.narrow (k, v) VALUES ({number}, '{value}')"));
    }
    server.tool(&["flush", "ks"]);
    server.tool(&["setcompactionthroughput", "1"]);
    let port = server.api_port.to_string();
    std::thread::scope(|scope| {
        let compact = scope.spawn(|| output(&["nodetool", "-p", &port, "compact", "ks", "narrow"]));
        let stopped = (0..1000).any(|_| server.nodetool(&["stop", "COMPACTION"]).0.success());
        assert!(stopped, "a compaction of 5 MB at 1 MB/s was never met");
        let (status, text) = compact.join().unwrap();
        assert!(!status.success() && text.contains("the compaction was stopped"), "{text}");
    });

    // Files without TOC.txt are an error that names them.
    let mut tables =
        fs::read_dir(dir.0.join("messina-data/data/ks")).unwrap().flatten().map(|entry| entry.path());
    let table = tables.find(|path| path.to_string_lossy().contains("narrow-")).unwrap();
    fs::create_dir_all(table.join("upload")).unwrap();
    fs::write(table.join("upload/me-1-big-Data.db"), "half a copy").unwrap();
    let (status, text) = server.nodetool(&["refresh", "ks", "narrow"]);
    assert!(!status.success() && text.contains("no TOC.txt for me-1-big-Data.db"), "{text}");
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn in_memory_leaves_nothing() {
    let dir = Dir::new("memory");
    let server = Server::start(&dir.0, &["--in-memory"]);
    let info = server.tool(&["--format", "json", "info"]);
    let data_dir = info.split("\"data_dir\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(Path::new(data_dir).join("commitlog").is_dir(), "{info}");
    let mode = fs::metadata(data_dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(server.stop().0.code(), Some(0));
    assert!(!Path::new(data_dir).exists(), "{data_dir}");
    assert!(!dir.0.join("messina-data").exists());
}

/// SIGHUP does not stop the node; two SIGTERM within microseconds, as `timeout` sends them, count as one.
#[test]
fn a_hangup_is_ignored_and_two_signals_at_once_are_one() {
    let dir = Dir::new("signals");
    let server = Server::start(&dir.0, &[]);
    server.signal(Signal::HUP);
    assert!(server.tool(&["status"]).contains("\nUN  "));
    assert!(server.log().contains("SIGHUP: looking for changed certificates"), "{}", server.log());
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    let (status, log) = server.end();
    assert!(status.success() && !log.contains("stopping at once"), "{status}: {log}");
}
