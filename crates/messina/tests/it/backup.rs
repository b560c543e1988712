//! Backups through the program: made while a node runs and of a stopped one, listed, verified, restored,
//! pruned.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::ProtocolVersion;

use crate::process::{Dir, Server, output, until};
use crate::raw_client::Client;

/// Runs `messina backup` with these words.
fn tool(words: &[&str]) -> (bool, String) {
    let (status, text) = output(&[&["backup"], words].concat());
    (status.success(), text)
}

/// As [`tool`]; it must succeed.
fn done(words: &[&str]) -> String {
    let (is_ok, text) = tool(words);
    assert!(is_ok, "backup {words:?}: {text}");
    text
}

fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(&[words, &["--format", "json"]].concat())).unwrap()
}

/// Files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => left.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

fn connect(server: &Server) -> Client {
    Client::start(server.cql_port, ProtocolVersion::V4)
}

fn rows(server: &Server) -> Vec<Vec<Option<Vec<u8>>>> {
    connect(server).rows("SELECT JSON * FROM bk.t")
}

/// A keyspace with a table, a view, a type and some rows; some are in SSTables.
fn fill(server: &Server) {
    let mut client = connect(server);
    client.run("CREATE KEYSPACE bk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TYPE bk.pair (a int, b text)");
    client.run("CREATE TABLE bk.t (k int, c int, v frozen<pair>, PRIMARY KEY (k, c))");
    client.run(
        "CREATE MATERIALIZED VIEW bk.by_c AS SELECT * FROM bk.t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
    );
    for k in 0..200 {
        client.run(&format!("INSERT INTO bk.t (k, c, v) VALUES ({k}, {}, {{a: {k}, b: 'x'}})", k % 7));
        if k == 100 {
            server.tool(&["flush", "bk"]);
        }
    }
    client.run("DELETE FROM bk.t WHERE k = 3");
}

#[test]
fn what_a_node_had_is_there_after_its_directory_is_lost() {
    let dir = Dir::new("backup");
    let target = dir.0.join("kept");
    let target = target.to_str().unwrap();
    let server = Server::start(&dir.0, &[]);
    fill(&server);
    let before = rows(&server);
    let port = server.api_port.to_string();
    let first = json(&["create", "-p", &port, "--target", target]);
    // Files with the same content are one object.
    let count = |name: &str| first[name].as_u64().unwrap();
    assert!(count("copied_files") > 20 && count("copied_bytes") <= count("bytes"), "{first}");
    assert_eq!(server.tool(&["listsnapshots"]), "There are no snapshots\n");

    // The second one copies what is new.
    connect(&server).run("INSERT INTO bk.t (k, c) VALUES (1000, 1)");
    let second = json(&["create", "-p", &port, "--target", target]);
    let copied = |of: &serde_json::Value| of["copied_bytes"].as_u64().unwrap();
    assert!(copied(&second) > 0 && copied(&second) < copied(&first) / 2, "{first} {second}");
    let listed = json(&["list", "--target", target]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [first["id"].as_str().unwrap(), second["id"].as_str().unwrap()]);
    let text = done(&["list", "--target", target]);
    assert!(text.starts_with("Backup ") && text.lines().count() == 3, "{text}");
    assert!(done(&["verify", "--target", target]).contains("everything is as it was written"));
    server.signal(rustix::process::Signal::KILL);
    server.end();

    // The directory is lost, and the first backup is restored.
    let data = dir.0.join("messina-data");
    let (is_ok, text) = tool(&["restore", "--target", target, "--data-dir", data.to_str().unwrap()]);
    assert!(!is_ok && text.contains("is not empty"), "{text}");
    fs::rename(&data, dir.0.join("lost")).unwrap();
    done(&["restore", "--target", target, "--backup", ids[0], "--data-dir", data.to_str().unwrap()]);
    let server = Server::start(&dir.0, &[]);
    assert_eq!(rows(&server), before);
    assert_eq!(connect(&server).rows("SELECT k FROM bk.by_c").len(), before.len());
    for word in ["WARN", "ERROR"] {
        let of_engine = format!("{word} ");
        assert!(
            !server.log().lines().any(|line| line.contains(&of_engine) && line.contains("engine")),
            "{}",
            server.log()
        );
    }
    // The restored node goes on: its own backups are small again.
    connect(&server).run("INSERT INTO bk.t (k, c) VALUES (2000, 1)");
    server.stop();

    // The stopped node is backed up too, and everything of it is restored elsewhere.
    let third = json(&["create", "--data-dir", data.to_str().unwrap(), "--target", target]);
    let place = Dir::new("backup-elsewhere");
    let elsewhere = place.0.join("messina-data");
    done(&["restore", "--target", target, "--data-dir", elsewhere.to_str().unwrap()]);
    let server = Server::start(&place.0, &[]);
    assert_eq!(rows(&server).len(), before.len() + 1);
    server.stop();

    // Old backups go, with what only they have; the last one is whole.
    let objects = || files(&Path::new(target).join("objects")).len();
    let all = objects();
    let dry = done(&["prune", "--target", target, "--keep", "1", "--dry-run"]);
    assert!(dry.starts_with("Would remove 2 backups") && objects() == all, "{dry}");
    done(&["prune", "--target", target, "--older-than", "1d"]);
    assert_eq!(objects(), all, "nothing is that old");
    done(&["prune", "--target", target, "--keep", "1"]);
    assert!(objects() < all);
    let verified = json(&["verify", "--target", target]);
    assert_eq!(verified["backups"], serde_json::json!([third["id"]]));
    assert_eq!(verified["objects"].as_u64().unwrap() as usize, objects());
    let (is_ok, text) = tool(&["prune", "--target", target]);
    assert!(!is_ok && text.contains("--keep"), "{text}");
}

#[test]
fn damage_is_named_and_nothing_half_restored_stays() {
    let dir = Dir::new("backup-damage");
    let target = dir.0.join("kept");
    let name = target.to_str().unwrap();
    let server = Server::start(&dir.0, &[]);
    fill(&server);
    let port = server.api_port.to_string();
    done(&["create", "-p", &port, "--target", name]);
    let of_table = fs::read_dir(dir.0.join("messina-data/data/bk")).unwrap().flatten();
    let table_dir =
        of_table.map(|it| it.file_name().into_string().unwrap()).find(|it| it.starts_with("t-")).unwrap();
    let objects = files(&target.join("objects").join(table_dir.strip_prefix("t-").unwrap()));
    let victim = objects.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let content = fs::read(victim).unwrap();
    let object = victim.file_name().unwrap().to_str().unwrap();
    let to = dir.0.join("restored");
    let restored = to.to_str().unwrap();

    let mut changed = content.clone();
    changed[content.len() / 2] ^= 1;
    let cut = content[..content.len() - 1].to_vec();
    for (what, bytes) in [("checksum", Some(changed)), ("bytes instead of", Some(cut)), ("is missing", None)]
    {
        match bytes {
            Some(bytes) => fs::write(victim, bytes).unwrap(),
            None => fs::remove_file(victim).unwrap(),
        }
        let (is_ok, text) = tool(&["verify", "--target", name]);
        assert!(
            !is_ok && text.contains(object) && text.contains(what) && text.contains("of bk.t"),
            "{what}: {text}"
        );
        let (is_ok, text) = tool(&["restore", "--target", name, "--data-dir", restored]);
        assert!(!is_ok && text.contains(object) && text.contains(what), "{what}: {text}");
        let left: Vec<_> = fs::read_dir(&dir.0).unwrap().flatten().map(|it| it.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("restored")), "{left:?}");
    }
    // The next backup of the node notices that the object is gone, and copies it again.
    done(&["create", "-p", &port, "--target", name]);
    done(&["verify", "--target", name]);
    server.stop();

    // A damaged manifest is shown, refuses a prune, and does not hide the others.
    let manifests = files(&target.join("backups"));
    fs::write(manifests.iter().min().unwrap(), "messina backup 1 0\n{}\n").unwrap();
    assert!(done(&["list", "--target", name]).contains("damaged"));
    let (is_ok, text) = tool(&["prune", "--target", name, "--keep", "1"]);
    assert!(!is_ok && text.contains("nothing was removed"), "{text}");
    done(&["restore", "--target", name, "--data-dir", restored]);
    // What an interrupted restore has left is no obstacle.
    fs::rename(&to, dir.0.join("restored.restoring")).unwrap();
    done(&["restore", "--target", name, "--data-dir", restored]);
}

#[test]
fn one_table_and_one_keyspace_come_back_into_a_node() {
    let dir = Dir::new("backup-tables");
    let target = dir.0.join("kept");
    let target = target.to_str().unwrap();
    let server = Server::start(&dir.0, &["--set", &format!("backup_target={target}")]);
    fill(&server);
    let mut client = connect(&server);
    client.run("CREATE TABLE bk.u (k int PRIMARY KEY, gone text, v int)");
    client.run("CREATE INDEX u_v ON bk.u (v)");
    (0..50).for_each(|k| client.run(&format!("INSERT INTO bk.u (k, gone, v) VALUES ({k}, 'x', {})", k % 5)));
    client.run("ALTER TABLE bk.u DROP gone");
    let (t, u) = (rows(&server), client.rows("SELECT JSON * FROM bk.u"));
    let port = server.api_port.to_string();
    done(&["create", "-p", &port]);

    let (is_ok, text) = tool(&["restore", "-p", &port, "--table", "bk.u"]);
    assert!(!is_ok && text.contains("bk.u exists"), "{text}");
    client.run("TRUNCATE bk.u");
    client.run("INSERT INTO bk.u (k, v) VALUES (1000, 1)");
    done(&["restore", "-p", &port, "--table", "bk.u", "--merge"]);
    assert_eq!(client.rows("SELECT k FROM bk.u").len(), u.len() + 1);
    done(&["restore", "-p", &port, "--table", "bk.u", "--as", "Other"]);
    assert_eq!(client.rows("SELECT JSON * FROM bk.\"Other\""), u);
    for wrong in [
        &["--table", "bk"][..],
        &["--table", "bk.none"],
        &["--keyspace", "none"],
        &["--table", "bk.by_c", "--as", "x"],
    ] {
        let (is_ok, text) = tool(&[&["restore", "-p", &port], wrong].concat());
        assert!(!is_ok, "{wrong:?}: {text}");
    }

    // The whole keyspace is dropped by mistake.
    client.run("DROP KEYSPACE bk");
    let answer = json(&["restore", "-p", &port, "--keyspace", "bk"]);
    assert_eq!(answer["tables"].as_array().unwrap().len(), 3, "{answer}");
    assert_eq!(rows(&server), t);
    assert_eq!(client.rows("SELECT JSON * FROM bk.u"), u);
    assert_eq!(client.rows("SELECT k FROM bk.u WHERE v = 3").len(), 10);
    until("the view is built", || client.rows("SELECT k FROM bk.by_c").len() == t.len());

    // Another keyspace, and then a stopped node.
    done(&["restore", "-p", &port, "--table", "bk.t", "--as", "copies.t2"]);
    assert_eq!(client.rows("SELECT JSON * FROM copies.t2"), t);
    let (is_ok, text) = tool(&["restore", "-p", &port]);
    assert!(!is_ok && text.contains("--data-dir"), "{text}");
    server.stop();
    let data = dir.0.join("messina-data");
    let into = ["restore", "--target", target, "--data-dir", data.to_str().unwrap()];
    done(&[&into[..], &["--table", "bk.u", "--as", "copies.u2"]].concat());
    assert!(!data.join("restoring").exists());
    let server = Server::start(&dir.0, &[]);
    assert_eq!(connect(&server).rows("SELECT JSON * FROM copies.u2"), u);
    server.stop();
}
