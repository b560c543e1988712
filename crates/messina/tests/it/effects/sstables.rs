//! Options of the SSTable format and of the report of large data.

use std::path::{Path, PathBuf};

use super::{Group, client};
use crate::process::Server;
use crate::raw_client::Client;

pub fn see_large_data(group: &Group) {
    let options = [
        "compaction_large_partition_warning_threshold",
        "compaction_rows_count_warning_threshold",
        "compaction_large_row_warning_threshold",
        "compaction_large_cell_warning_threshold",
        "compaction_collection_elements_count_warning_threshold",
        "compaction_large_data_records_per_sstable",
    ];
    let server = group.start("a", &options, &[]);
    let mut client = client(&server);
    for name in ["cells", "sets", "wide_rows", "long_partitions", "many_rows"] {
        client.run(&format!(
            "CREATE TABLE ks.{name} (p int, c int, v text, w text, x text, s set<int>, PRIMARY KEY (p, c))"
        ));
    }
    // Each is above one threshold and within the others.
    let (cell, small) = ("x".repeat(1025), "x".repeat(900));
    for c in 0..12 {
        client.run(&format!("INSERT INTO ks.cells (p, c, v) VALUES ({c}, {c}, '{cell}')"));
    }
    client.run("INSERT INTO ks.sets (p, c, s) VALUES (1, 1, {1, 2, 3, 4})");
    let three = format!("'{small}', '{small}', '{small}'");
    client.run(&format!("INSERT INTO ks.wide_rows (p, c, v, w, x) VALUES (1, 1, {three})"));
    for c in 0..4 {
        let two = format!("'{small}', '{small}'");
        client.run(&format!("INSERT INTO ks.long_partitions (p, c, v, w) VALUES (1, {c}, {two})"));
    }
    for c in 0..5 {
        client.run(&format!("INSERT INTO ks.many_rows (p, c, v) VALUES (1, {c}, 'small')"));
    }
    server.tool(&["flush", "ks"]);
    let mut large = |of: &str, table: &str| {
        let text =
            format!("SELECT * FROM system.large_{of} WHERE keyspace_name = 'ks' AND table_name = '{table}'");
        client.rows(&text).len()
    };
    let (cells, others) = (large("cells", "cells"), large("cells", "wide_rows"));
    group.sees("compaction_large_cell_warning_threshold", cells > 0 && others == 0, cells);
    // Each of two shards has an SSTable of its own, with two of the twelve cells.
    group.sees("compaction_large_data_records_per_sstable", cells <= 4, cells);
    let sets = large("cells", "sets");
    group.sees("compaction_collection_elements_count_warning_threshold", sets == 1, sets);
    let (rows, none) = (large("rows", "wide_rows"), large("rows", "cells"));
    group.sees("compaction_large_row_warning_threshold", rows == 1 && none == 0, rows);
    let (many, none) = (large("partitions", "many_rows"), large("partitions", "wide_rows"));
    group.sees("compaction_rows_count_warning_threshold", many == 1 && none == 0, many);
    let long = large("partitions", "long_partitions");
    group.sees("compaction_large_partition_warning_threshold", long == 1, long);
    assert!(server.stop().0.success());
}

/// The files of `ks.t` with this suffix.
fn files(place: &Path, ending: &str) -> Vec<PathBuf> {
    let keyspace = place.join("messina-data/data/ks");
    let tables = std::fs::read_dir(keyspace).unwrap().flatten();
    let files = tables.flat_map(|table| std::fs::read_dir(table.path()).unwrap().flatten());
    files.map(|file| file.path()).filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

/// Bytes of Summary.db of a table with many small partitions.
fn summary_bytes(group: &Group, place: &str, options: &[&'static str]) -> u64 {
    let server = group.start(place, options, &["--set", "smp=1"]);
    let mut client = client(&server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH min_index_interval = 1");
    fill(&mut client);
    server.tool(&["flush", "ks", "t"]);
    assert!(server.stop().0.success());
    let summaries = files(&group.place(place), "-Summary.db");
    summaries.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum()
}

fn fill(client: &mut Client) {
    for k in 0..1000 {
        let text = format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'of a hundred bytes or less')");
        client.run(&text);
    }
}

pub fn see(group: &Group) {
    let of_default = summary_bytes(group, "a", &[]);
    let of_one = summary_bytes(group, "b", &["sstable_summary_ratio"]);
    group.sees("sstable_summary_ratio", of_one > 10 * of_default, format_args!("{of_one} and {of_default}"));
    let server: Server = group.start("c", &["sstable_format"], &[]);
    let mut client = client(&server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    client.run("INSERT INTO ks.t (k, v) VALUES (1, 'x')");
    server.tool(&["flush", "ks", "t"]);
    let found = files(&group.place("c"), "-Data.db");
    let is_nb = found.iter().all(|path| path.file_name().unwrap().to_string_lossy().starts_with("nb-"));
    group.sees("sstable_format", !found.is_empty() && is_nb, format_args!("{found:?}"));
    client.run("TRUNCATE ks.t");
    let by_default = server.tool(&["listsnapshots"]);
    assert!(server.stop().0.success());
    let server = group.start("d", &["auto_snapshot"], &[]);
    let mut client = super::client(&server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    client.run("INSERT INTO ks.t (k, v) VALUES (1, 'x')");
    client.run("TRUNCATE ks.t");
    let without = server.tool(&["listsnapshots"]);
    let is_seen = by_default.contains("truncated-") && !without.contains("truncated-");
    group.sees("auto_snapshot", is_seen, format_args!("{by_default} and {without}"));
    assert!(server.stop().0.success());
}
