//! Options of backups.

use super::{Group, becomes, blob, client};
use crate::process::timed;

pub fn see(group: &Group) {
    let kept = group.place("a").join("kept/backups");
    let server = group.start("a", &["backup_target", "backup_interval", "backup_keep"], &[]);
    let count = || std::fs::read_dir(&kept).map_or(0, |backups| backups.count());
    group.sees("backup_interval", becomes(|| count() >= 2), server.log());
    group.sees("backup_target", kept.exists(), kept.display());
    let removed = becomes(|| server.log().matches("removed 1 backups").count() >= 2);
    group.sees("backup_keep", removed && count() <= 3, format_args!("{} in {}", count(), server.log()));
    assert!(server.stop().0.success());

    let server = group.start("c", &["backup_archive_interval"], &["--set", "backup_target=kept"]);
    let archive = group.place("c").join("kept/archive");
    let passes = || {
        let chains = std::fs::read_dir(&archive).into_iter().flatten().flatten();
        let passes = chains.flat_map(|chain| std::fs::read_dir(chain.path().join("passes"))).flatten();
        passes.count()
    };
    group.sees("backup_archive_interval", becomes(|| passes() >= 2), server.log());
    assert!(server.stop().0.success());

    let server = group.start("b", &["backup_io_throughput"], &["--set", "backup_target=kept"]);
    let mut client = client(&server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, v blob) WITH compression = {'enabled': false}");
    for k in 0..16 {
        client.run(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {})", blob(200_000, k)));
    }
    let port = server.api_port.to_string();
    let (_, took) = timed(|| crate::process::output(&["backup", "create", "-p", &port]));
    group.sees("backup_io_throughput", took.as_millis() > 2500, format_args!("{took:?}"));
    assert!(server.stop().0.success());
}
