//! Options of compactions: when they run, their rate, and their CPU shares.

use super::{Group, becomes, blob, client, metric};
use crate::process::{Server, pause, timed};
use crate::raw_client::Client;

const SHARES: &str = "messina_compaction_manager_shares{";

fn table(server: &Server, name: &str, compaction: &str) -> Client {
    let mut client = client(server);
    client.run(&format!(
        "CREATE TABLE ks.{name} (k int PRIMARY KEY, v blob) WITH compression = {{'enabled': false}} \
         AND compaction = {{'class': 'SizeTieredCompactionStrategy'{compaction}}}"
    ));
    client
}

/// Writes an SSTable of `blobs` blobs of 512 KiB.
fn sstable(server: &Server, client: &mut Client, name: &str, number: u64, blobs: u64) {
    for k in 0..blobs {
        let key = number * 1000 + k;
        client.run(&format!("INSERT INTO ks.{name} (k, v) VALUES ({key}, {})", blob(512 << 10, key)));
    }
    server.tool(&["flush", "ks", name]);
}

fn sstables(server: &Server, name: &str) -> String {
    let stats = server.tool(&["tablestats", &format!("ks.{name}")]);
    let count = stats.lines().find_map(|line| line.trim().strip_prefix("SSTable count: "));
    count.unwrap_or(&stats).to_string()
}

pub fn see(group: &Group) {
    let one_shard = ["--set", "smp=1", "--set", "memory=64MiB"];
    let server = group.start(
        "a",
        &["compaction_throughput", "concurrent_compactors", "compaction_static_shares"],
        &one_shard,
    );
    let compactors = server.tool(&["getconcurrentcompactors"]);
    group.sees("concurrent_compactors", compactors.ends_with("\n3\n"), &compactors);
    let shares = "scylla_scheduler_shares{group=\"compaction\"";
    group.sees(
        "compaction_static_shares",
        becomes(|| metric(&server, shares) == 333.0),
        metric(&server, shares),
    );
    let mut client = table(&server, "t", ", 'enabled': 'false'");
    for number in 0..2 {
        sstable(&server, &mut client, "t", number, 3);
    }
    // 3 MiB at 1 MiB/s, less the burst that is read at once.
    let (_, took) = timed(|| server.tool(&["compact", "ks", "t"]));
    group.sees("compaction_throughput", took.as_millis() > 1000, format_args!("{took:?}"));
    assert!(server.stop().0.success());

    // Without other work, two SSTables are merged unless the option forbids it.
    let merges_two = |place: &str, options: &[&'static str]| {
        let server = group.start(place, options, &one_shard);
        let mut client = table(&server, "t", "");
        for number in 0..2 {
            sstable(&server, &mut client, "t", number, 1);
        }
        let is_one = becomes(|| sstables(&server, "t") == "1");
        assert!(server.stop().0.success());
        is_one
    };
    assert!(merges_two("b", &[]));
    group.sees(
        "compaction_enforce_min_threshold",
        !merges_two("c", &["compaction_enforce_min_threshold"]),
        "merged",
    );

    see_backlog(group);
}

/// 72 MiB in twelve SSTables that can be merged: more than twice the shard's memory.
fn see_backlog(group: &Group) {
    let one_shard = &["--set", "smp=1", "--set", "memory=32MiB"][..];
    let server = group.start("d", &[], one_shard);
    let mut client = table(&server, "t", ", 'enabled': 'false'");
    for number in 0..12 {
        sstable(&server, &mut client, "t", number, 12);
    }
    assert_eq!(sstables(&server, "t"), "12");
    assert!(server.stop().0.success());
    // With a slow merge, the backlog raises the shares.
    let slow = [one_shard, &["--set", "compaction_throughput=1MiB/s"]].concat();
    let server = group.start("d", &[], &slow);
    let mut client = super::client(&server);
    client.run("ALTER TABLE ks.t WITH compaction = {'class': 'SizeTieredCompactionStrategy'}");
    let is_many = becomes(|| metric(&server, SHARES) > 100.0);
    let found = metric(&server, SHARES);
    assert!(server.stop().0.success());
    let server = group.start("d", &["compaction_max_shares"], &slow);
    let is_most = becomes(|| metric(&server, SHARES) == 100.0);
    pause(1000);
    let bounded = metric(&server, SHARES);
    let text = format!("{bounded}, and {found} without");
    group.sees("compaction_max_shares", is_many && is_most && bounded == 100.0, text);
    client = super::client(&server);
    client.run(
        "ALTER TABLE ks.t WITH compaction = {'class': 'IncrementalCompactionStrategy', 'enabled': 'false'}",
    );
    assert!(server.stop().0.success());
    // The budget is exceeded before the first merge.
    let server = group.start("d", &["disk_budget"], one_shard);
    assert_eq!(sstables(&server, "t"), "12");
    client = super::client(&server);
    client.run("ALTER TABLE ks.t WITH compaction = {'class': 'IncrementalCompactionStrategy'}");
    let is_told = becomes(|| server.log().contains("disk_budget leaves 0.0 MB: the budget is exceeded"));
    group.sees("disk_budget", is_told, server.log());
    assert!(server.stop().0.success());
}
