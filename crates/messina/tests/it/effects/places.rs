//! Options of the data directory and the log.

use protocol::ProtocolVersion;

use super::Group;
use crate::process::Server;
use crate::raw_client::Client;

pub fn see(group: &Group) {
    let server = group.start("a", &["cluster_name", "data_dir"], &[]);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    let name = client.rows("SELECT cluster_name FROM system.local").concat();
    group.sees("cluster_name", name == [Some(b"Strait".to_vec())], format_args!("{name:?}"));
    let is_there = |path: &str| group.dir.0.join(path).join("commitlog").is_dir();
    group.sees("data_dir", is_there("a/elsewhere") && !is_there("a/messina-data"), server.log());
    assert!(server.stop().0.success());

    let server = group.start("b", &["data_file_directories"], &[]);
    group.sees(
        "data_file_directories",
        is_there("b/there") && group.dir.0.join("b/there/data").is_dir(),
        server.log(),
    );
    assert!(server.stop().0.success());

    let server = group.start("c", &["in_memory"], &[]);
    let left = std::fs::read_dir(group.dir.0.join("c")).unwrap().count();
    group.sees("in_memory", left == 0, left);
    assert!(server.stop().0.success());

    let level = group.setting("log_level");
    let server = Server::start_silent(&group.place("d"), &["--set", &level]);
    let (status, log) = server.stop();
    group.sees("log_level", status.success() && !log.contains("INFO"), log);

    let server = group.start("e", &["logger_log_level"], &[]);
    let log = server.log();
    let is_seen = log.contains(" init - ") && !log.contains(" engine - ") && !log.contains(" config - ");
    group.sees("logger_log_level", is_seen, log);
    assert!(server.stop().0.success());
}
