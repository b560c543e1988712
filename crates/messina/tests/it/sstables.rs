//! `messina sstable` as a process, on SSTables that Cassandra 4.1 wrote; refresh and attach on a running
//! node.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::process::{Dir, Server, messina, output, output_in_time, until};

fn sample(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cassandra-4.1").join(table)
}

/// The directory of a table of a sample, by the table's name.
fn table_dir(data: &str, table: &str) -> PathBuf {
    let keyspace = std::fs::read_dir(sample(data)).unwrap().next().unwrap().unwrap().path();
    let mut tables = std::fs::read_dir(keyspace).unwrap().map(|entry| entry.unwrap().path());
    tables.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{table}-"))).unwrap()
}

fn wide() -> PathBuf {
    table_dir("wide_lz4/data", "t")
}

/// Exit code, stdout, stderr.
fn tool(arguments: &[&str]) -> (i32, String, String) {
    let mut all = vec!["sstable"];
    all.extend(arguments);
    let done = messina(&all).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

#[track_caller]
fn well(arguments: &[&str]) -> String {
    let (code, out, errors) = tool(arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_dump_is_cassandras_to_the_letter() {
    let expected = sample("deletions/expected/deletions.reversed/1.json");
    let expected = std::fs::read_to_string(expected).unwrap();
    let dir = table_dir("deletions/data", "reversed");
    let dumped = well(&["dump", "-t", dir.to_str().unwrap()]);
    assert_eq!(dumped.trim_end(), expected.trim_end());
    let keys = well(&["dump", "-e", dir.to_str().unwrap()]);
    let count = expected.matches("\"partition\" :").count();
    assert_eq!(keys.matches("[ \"").count(), count, "{keys}");
    let one = well(&["dump", "-k", "3", "-l", dir.to_str().unwrap()]);
    assert!(one.starts_with("{\"partition\":{\"key\":[\"3\"],\"position\":"), "{one}");
    assert_eq!(one.lines().count(), 1);
    let rest = well(&["dump", "-x", "3", "-l", dir.join("nb-1-big-Index.db").to_str().unwrap()]);
    assert_eq!(rest.lines().count(), count - 1);
    let internal = well(&["dump", "-d", dir.to_str().unwrap()]);
    assert!(internal.lines().all(|line| line.starts_with('[') && line.contains("]@")), "{internal}");
}

#[test]
fn components_as_text_and_json() {
    let dir = wide();
    let dir = dir.to_str().unwrap();
    let texts = [
        ("metadata", "Maximum timestamp: 1700000000399000 (11/14/2023 22:13:20)\n"),
        ("index", "wide: token 1101180000519033427, entry at 0, data at 0, promoted index of "),
        ("index", "    block "),
        ("summary", "Min index interval: 128\n"),
        ("compression-info", "Compressor: LZ4Compressor\n"),
    ];
    for (subcommand, part) in texts {
        let text = well(&[subcommand, dir]);
        assert!(text.contains(part), "{subcommand}: {text}");
        let json = well(&[subcommand, "--format", "json", dir]);
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&json);
        assert!(parsed.is_ok(), "{subcommand}: {json}");
    }
    let chunks = well(&["compression-info", "--chunks", "--format", "json", dir]);
    let parsed: serde_json::Value = serde_json::from_str(&chunks).unwrap();
    assert_eq!(parsed["chunk_count"], parsed["chunks"].as_array().unwrap().len());
    let listed = well(&["ls", sample("keys").to_str().unwrap()]);
    assert!(listed.contains(": 2 SSTables, ") && listed.contains(" nb-2-big |"), "{listed}");
    let listed = well(&["ls", "--format", "json", sample("keys").to_str().unwrap()]);
    let parsed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert!(parsed.as_array().unwrap().iter().all(|sstable| sstable["version"] == "nb"), "{listed}");
}

#[test]
fn tombstones_are_counted() {
    let keyspace = std::fs::read_dir(sample("deletions/data")).unwrap().next().unwrap().unwrap().path();
    let tables = std::fs::read_dir(keyspace).unwrap().map(|entry| entry.unwrap().path());
    let dirs: Vec<String> = tables.map(|path| path.to_str().unwrap().to_string()).collect();
    let tombstones = |options: &[&str]| {
        let dirs = dirs.iter().map(String::as_str);
        well(&["tombstones"].into_iter().chain(options.iter().copied()).chain(dirs).collect::<Vec<_>>())
    };
    let json = tombstones(&["--format", "json"]);
    let found: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |name: &str| found.iter().map(|sstable| sstable[name].as_u64().unwrap()).sum::<u64>();
    for kind in ["partitions", "ranges", "rows", "cells"] {
        assert!(sum(kind) > 0, "{kind}: {json}");
    }
    // Cassandra wrote them long ago.
    assert_eq!(sum("droppable"), sum("tombstones"), "{json}");
    let young = tombstones(&["--format", "json", "--gc-grace", "4000000000"]);
    assert!(young.contains("\"droppable\":0"), "{young}");
    let text = tombstones(&[]);
    assert!(text.contains(" tombstones, ") && text.contains("most in the partitions "), "{text}");
}

#[test]
fn a_verify_and_a_scrub_of_a_damaged_one() {
    let dir = Dir::new("scrub");
    let source = dir.0.join("source");
    copy(&wide(), &source);
    let path = source.to_str().unwrap();
    let sound = well(&["verify", "-e", path]);
    assert!(sound.ends_with("nb-1-big: sound, 3 partitions, 429 rows\n"), "{sound}");
    let data = source.join("nb-1-big-Data.db");
    let mut bytes = std::fs::read(&data).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 4;
    std::fs::write(&data, &bytes).unwrap();
    let (code, found, _) = tool(&["verify", path]);
    assert_eq!(code, 2);
    assert!(found.contains("and not") && found.contains("checksum of a chunk"), "{found}");
    assert!(found.ends_with(": 2 findings\n"), "{found}");

    let output = dir.0.join("out");
    let output = output.to_str().unwrap();
    let (code, found, _) = tool(&["scrub", "--output", output, path]);
    assert_eq!(code, 2, "{found}");
    assert!(found.contains(": kept ") && found.contains("damaged partitions"), "{found}");
    assert!(well(&["verify", "-e", output]).contains(": sound, "));
    assert_eq!(std::fs::read(&data).unwrap(), bytes, "nothing is changed in place");
    // Without an index, and without TOC.txt.
    std::fs::write(&data, &{
        let mut sound = bytes.clone();
        sound[last] ^= 4;
        sound
    })
    .unwrap();
    std::fs::remove_file(source.join("nb-1-big-Index.db")).unwrap();
    std::fs::remove_file(source.join("nb-1-big-TOC.txt")).unwrap();
    let again = dir.0.join("again");
    let again = again.to_str().unwrap();
    let (code, found, errors) = tool(&["scrub", "--output", again, path]);
    assert!(code == 0 && found.contains(": kept 3 partitions and 429 rows "), "{code} {found} {errors}");
    assert!(errors.contains("done without Index.db"), "{errors}");
    assert!(well(&["verify", "-e", again]).ends_with(": sound, 3 partitions, 429 rows\n"));
    std::fs::write(&data, &bytes).unwrap();
    let (code, _, errors) = tool(&["scrub", "--output", path, path]);
    assert!(code == 1 && errors.contains("name another directory"), "{errors}");
}

#[test]
fn exports_and_pieces_have_the_same_content() {
    let dir = Dir::new("export");
    let source = wide();
    let source = source.to_str().unwrap();
    let dump = well(&["dump", "-t", source]);
    let without_places = |dump: &str| -> String {
        dump.lines()
            .filter(|line| !line.trim_start().starts_with("\"position\""))
            .map(|line| line.trim_end_matches(','))
            .collect()
    };
    for more in [&["--format", "nb", "--compression", "none"][..], &["--format", "me"]] {
        let output = dir.0.join(more.len().to_string());
        let output = output.to_str().unwrap();
        let mut arguments = vec!["export", "--output", output, source];
        arguments.extend(more);
        well(&arguments);
        assert!(well(&["verify", "-e", output]).contains(&format!("{}-1-big: sound", more[1])));
        assert_eq!(without_places(&well(&["dump", "-t", output])), without_places(&dump));
    }
    let (code, _, errors) = {
        let (to, nowhere) = (dir.0.join("to"), dir.0.join("nowhere"));
        tool(&["export", "--output", to.to_str().unwrap(), nowhere.to_str().unwrap()])
    };
    assert!(code == 1 && errors.contains("/nowhere: there is no such file or directory"), "{errors}");
    let pieces = dir.0.join("pieces");
    well(&["split", "-s", "1", "--output", pieces.to_str().unwrap(), source]);
    assert_eq!(without_places(&well(&["dump", "-t", pieces.to_str().unwrap()])), without_places(&dump));
}

#[test]
fn select_without_a_server() {
    let dir = wide();
    let dir = dir.to_str().unwrap();
    let count = well(&["query", "-e", "SELECT count(*) FROM t WHERE key = 'wide'", dir, "--format", "json"]);
    assert!(count.starts_with("{\"count\": "), "{count}");
    let rows = well(&[
        "query",
        "-e",
        "SELECT key, clustering1, s FROM t WHERE key = 'wide' AND clustering1 >= 4 LIMIT 2",
        dir,
        "--format",
        "csv",
    ]);
    assert_eq!(rows, "key,clustering1,s\nwide,4,static of wide\nwide,6,static of wide\n");
    let shown = well(&["query", "-e", "SELECT clustering1 FROM wide_lz4.t WHERE key = 'wide' LIMIT 1", dir]);
    assert_eq!(shown, "\n clustering1\n-------------\n           0\n\n(1 row)\n");
    let schema = sample("wide_lz4/schema.cql");
    let named = well(&[
        "query",
        "-e",
        "DESCRIBE TABLE t",
        "--schema",
        schema.to_str().unwrap(),
        "--format",
        "csv",
        dir,
    ]);
    assert!(named.contains("CREATE TABLE") && !named.contains("clustering1"), "{named}");
    let (code, _, errors) = tool(&["query", "-e", "DELETE FROM t WHERE key = 'wide'", dir]);
    assert!(code == 1 && errors.contains("only read here"), "{errors}");
    let (code, _, errors) = tool(&["query", "-e", "SELECT * FROM nothing", dir]);
    assert!(code == 1 && !errors.is_empty(), "{errors}");
    let (code, _, errors) = tool(&["query", "-e", "SELECT nothing FROM t", dir]);
    assert!(code == 1 && errors.contains("Undefined column name nothing"), "{errors}");
    assert!(errors.contains("it has: key, clustering1, ") && errors.contains("--schema"), "{errors}");
    let (code, _, errors) =
        tool(&["query", "-e", "SELECT nothing FROM t", "--schema", schema.to_str().unwrap(), dir]);
    assert!(code == 1 && errors.contains("it has: ") && !errors.contains("--schema"), "{errors}");
}

#[test]
fn sstables_with_tries() {
    let dir = Dir::new("tries");
    let samples = sample("../cassandra-5.0-da/wide_uncompressed");
    let keyspace = samples.join("data/wide_uncompressed");
    let source = std::fs::read_dir(keyspace).unwrap().next().unwrap().unwrap().path();
    let source = source.to_str().unwrap();
    let index = well(&["index", source]);
    assert!(index.contains(" of Rows.db, ") && index.contains(" bytes, from separator 40"), "{index}");
    assert!(well(&["summary", source]).ends_with("Summary: - (format bti has none)\n"));
    assert!(well(&["verify", "-e", source]).contains("da-1-bti: sound, "));
    assert!(well(&["ls", source]).contains(" da-1-bti |"));
    let metadata = well(&["metadata", "--format", "json", source]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert!(metadata["components"].as_array().unwrap().iter().any(|name| name == "Rows.db"), "{metadata}");
    let count = |path: &str| well(&["query", "-e", "SELECT count(*) FROM t", path, "--format", "json"]);
    for subcommand in ["scrub", "split", "export"] {
        let output = dir.0.join(subcommand).join("t");
        let output = output.to_str().unwrap();
        well(&[subcommand, "--output", output, source]);
        assert!(well(&["verify", "-e", output]).contains("-big: sound, "), "{subcommand}");
        assert_eq!(count(output), count(source), "{subcommand}");
    }
}

#[test]
fn a_file_that_is_no_sstable_is_reported() {
    let dir = Dir::new("nothing");
    let path = dir.0.to_str().unwrap();
    for subcommand in ["dump", "metadata", "index", "summary", "compression-info", "verify"] {
        let (code, _, errors) = tool(&[subcommand, path]);
        assert!(code == 1 && errors.contains("no SSTable in this directory"), "{subcommand}: {errors}");
    }
    let file = dir.0.join("nb-1-big-Data.db");
    std::fs::write(&file, "not sealed").unwrap();
    let (code, _, errors) = tool(&["dump", file.to_str().unwrap()]);
    assert!(code == 1 && errors.contains("nb-1-big-TOC.txt is missing"), "{errors}");
    let long = "x".repeat(100_000);
    let (code, _, errors) = tool(&["metadata", &long, &long[..50_000]]);
    assert!(code == 1 && !errors.contains("panicked"), "{}", &errors[..200]);
    assert!(!tool(&["no-such-tool"]).2.is_empty());
}

#[test]
fn a_node_takes_sstables_in_and_attaches_directories() {
    let dir = Dir::new("loading");
    let theirs = dir.0.join("theirs");
    copy(&wide(), &theirs);
    let attach = format!("theirs.wide={}", theirs.display());
    let server = Server::start(&dir.0, &["--attach", &attach]);
    let port = server.cql_port.to_string();
    let api = server.api_port.to_string();
    let shell = |statement: &str| output(&["shell", "127.0.0.1", &port, "--format", "csv", "-e", statement]);
    let count = "SELECT count(*) FROM theirs.wide WHERE key = 'wide'";
    let (status, rows) = shell(count);
    assert!(status.success() && rows.starts_with("count\n"), "{rows}");
    let (status, refused) = shell("DELETE FROM theirs.wide WHERE key = 'wide'");
    assert!(!status.success() && refused.contains("can only be read"), "{refused}");

    let created = "CREATE KEYSPACE mine WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
                   CREATE TABLE mine.wide (k text, c int, s text STATIC, v text, PRIMARY KEY (k, c));";
    assert!(shell(created).0.success());
    let nodetool = |words: &[&str]| {
        let mut all = vec!["nodetool", "-p", &api];
        all.extend(words);
        output(&all)
    };
    let (status, nothing) = nodetool(&["refresh", "mine", "wide"]);
    assert!(status.success() && nothing.starts_with("No new SSTables were found in "), "{nothing}");
    let upload = nothing.trim_start_matches("No new SSTables were found in ").trim_end();
    copy(&theirs, Path::new(upload));
    let (status, loaded) = nodetool(&["refresh", "mine", "wide"]);
    assert!(status.success() && loaded.contains("nb-1-big is now nb-"), "{loaded}");
    let mine = "SELECT count(*) FROM mine.wide WHERE k = 'wide'";
    assert_eq!(shell(mine).1, rows);
    let (status, imported) = nodetool(&["import", "mine", "wide", theirs.to_str().unwrap()]);
    assert!(status.success() && imported.contains("is now nb-"), "{imported}");
    assert_eq!(shell(mine).1, rows);
    let (status, refused) = nodetool(&["refresh", "theirs", "wide"]);
    assert!(!status.success() && refused.contains("can only be read"), "{refused}");
    assert!(nodetool(&["tablestats", "theirs"]).0.success());
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), std::fs::read_dir(wide()).unwrap().count());
}

#[test]
fn files_that_are_none_end_a_tool_with_an_error() {
    let dir = Dir::new("odd-files");
    let check = |name: &str, spoil: &dyn Fn(&Path), tools: &[&str], expected: &[&str]| {
        let copied = dir.0.join(name);
        copy(&wide(), &copied);
        spoil(&copied);
        for tool in tools {
            let (code, text) = output_in_time(&["sstable", tool, copied.to_str().unwrap()]);
            // Exit code 2: verify has found damage.
            assert_eq!(code, if *tool == "verify" { 2 } else { 1 }, "{name}, {tool}: {text}");
            assert!(expected.iter().all(|words| text.contains(words)), "{name}, {tool}: {text}");
        }
    };
    let make_fifo = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    for component in ["Data.db", "Statistics.db", "TOC.txt"] {
        let name = format!("nb-1-big-{component}");
        let fifo = |dir: &Path| make_fifo(&dir.join(&name));
        check(&format!("fifo {component}"), &fifo, &["verify", "dump"], &[&name, "not a regular file"]);
    }
    let make_dir = |dir: &Path| {
        std::fs::remove_file(dir.join("nb-1-big-TOC.txt")).unwrap();
        std::fs::create_dir(dir.join("nb-1-big-TOC.txt")).unwrap();
    };
    check("directory", &make_dir, &["verify", "dump", "ls"], &["nb-1-big-TOC.txt", "directory"]);
    let remove = |dir: &Path| std::fs::remove_file(dir.join("nb-1-big-Index.db")).unwrap();
    check("absent", &remove, &["verify", "dump"], &["nb-1-big-Index.db", "nb-1-big-TOC.txt lists Index.db"]);
    let rename_entry = |dir: &Path| {
        let toc = dir.join("nb-1-big-TOC.txt");
        let text = std::fs::read_to_string(&toc).unwrap();
        assert!(text.contains("Index.db"), "{text}");
        std::fs::write(&toc, text.replace("Index.db", "Indez.db")).unwrap();
    };
    let expected =
        ["nb-1-big-TOC.txt: it lists Indez.db", "nb-1-big-Index.db: ", "does not list it", "2 findings"];
    check("misspelt", &rename_entry, &["verify"], &expected);
    let lengthen = |dir: &Path| {
        let data = std::fs::OpenOptions::new().write(true).open(dir.join("nb-1-big-Data.db")).unwrap();
        data.set_len(1 << 40).unwrap();
    };
    check(
        "sparse",
        &lengthen,
        &["verify"],
        &["nb-1-big-Data.db", "1099511627776 bytes", "CompressionInfo.db"],
    );
}

#[test]
fn nodetool_reports_that_the_node_may_open_no_more_files() {
    let dir = Dir::new("few-files");
    let server = Server::start(&dir.0, &[]);
    let pid = server.id();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let few = Rlimit { current: Some(open + 4), maximum: Some(open + 4) };
    prlimit(Pid::from_raw(pid as i32), Resource::Nofile, few).unwrap();
    let idle: Vec<_> =
        (0..8).map(|_| std::net::TcpStream::connect(("127.0.0.1", server.api_port)).unwrap()).collect();
    let (status, text) = server.nodetool(&["status"]);
    assert!(!status.success() && text.contains("ulimit -n"), "{text}");
    drop(idle);
    // It takes a moment until the node notices that they are closed.
    until("the node answers again", || server.nodetool(&["status"]).0.success());
    server.stop();
}
