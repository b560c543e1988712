//! Backups in object storage: a server of S3 (moto's, from PyPI) behind a proxy that answers with errors and
//! is slow. `tests/object_storage.sh` installs the server and runs this.

#![allow(clippy::disallowed_methods, reason = "a server outside is found by the environment and waited for")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::ProtocolVersion;

use crate::process::{Dir, Server, free_ports, messina, pause, until};
use crate::raw_client::Client;

/// moto's server.
struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    fn start() -> Self {
        let program =
            std::env::var("MOTO_SERVER").expect("run tests/object_storage.sh, which sets MOTO_SERVER");
        let [port] = free_ports();
        let mut command = Command::new(program);
        command
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let moto = Self { child: command.spawn().unwrap(), port };
        until("moto answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        moto.request("PUT", "/bucket", b"");
        moto
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n",
            body.len()
        );
        exchange(self.port, &[head.as_bytes(), body].concat())
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a request and returns the answer up to the end of the connection.
fn exchange(port: u16, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = vec![];
    drop(stream.read_to_end(&mut answer));
    answer
}

/// What the proxy does, in thousandths of the requests.
#[derive(Default)]
struct Weather {
    errors: AtomicU64,
    slow: AtomicU64,
    /// Requests, and errors given.
    requests: AtomicU64,
    failed: AtomicU64,
}

/// A proxy with faults; one request for each connection. Returns its port.
fn proxy(moto: u16, weather: Arc<Weather>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let weather = weather.clone();
            std::thread::spawn(move || serve(stream, moto, &weather));
        }
    });
    port
}

fn serve(mut stream: TcpStream, moto: u16, weather: &Weather) {
    let mut request = vec![];
    let mut buf = [0; 65536];
    let (head_bytes, body_bytes) = loop {
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buf[..count]),
        }
        if let Some(at) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..at]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            break (at, length.map_or(0, |length| length.trim().parse::<usize>().unwrap()));
        }
    };
    while request.len() < head_bytes + 4 + body_bytes {
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buf[..count]),
        }
    }
    let number = weather.requests.fetch_add(1, Ordering::Relaxed);
    let dice = base::rng::Rng::new(number + 1).next_u64() % 1000;
    let errors = weather.errors.load(Ordering::Relaxed);
    if dice < errors {
        weather.failed.fetch_add(1, Ordering::Relaxed);
        let answer = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        drop(stream.write_all(answer.as_bytes()));
        return;
    }
    if dice < errors + weather.slow.load(Ordering::Relaxed) {
        pause(700);
    }
    let head = String::from_utf8_lossy(&request[..head_bytes]).into_owned();
    let lines: Vec<&str> =
        head.split("\r\n").filter(|line| !line.to_lowercase().starts_with("connection:")).collect();
    let head = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
    drop(stream.write_all(&exchange(moto, &[head.as_bytes(), &request[head_bytes + 4..]].concat())));
}

const TARGET: &str = "s3://bucket/nodes/one";

fn variables(port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ACCESS_KEY_ID", "k".to_string()),
        ("AWS_SECRET_ACCESS_KEY", "s".to_string()),
        ("AWS_REGION", "us-east-1".to_string()),
    ]
}

fn tool(port: u16, words: &[&str]) -> (bool, String) {
    let output = messina(&[&["backup"], words].concat()).envs(variables(port)).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn done(port: u16, words: &[&str]) -> String {
    let (is_ok, text) = tool(port, words);
    assert!(is_ok, "{words:?}: {text}");
    text
}

#[test]
fn backups_in_object_storage_survive_its_errors() {
    let moto = Moto::start();
    let weather = Arc::new(Weather::default());
    let port = proxy(moto.port, weather.clone());
    let dir = Dir::new("backup-s3");
    let environment = variables(port);
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, &value[..])).collect();
    let target = format!("backup_target={TARGET}");
    let flags = ["--smp", "1", "--set", &target, "--set", "backup_archive_interval=500ms"];
    let server = Server::start_with(&dir.0, &flags, &environment);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V4);
    client.run("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE s.t (k int PRIMARY KEY, v blob) WITH compression = {'enabled': false}");
    // Data.db has more than one part of an upload.
    for k in 0..120 {
        let hex: String = (0..100_000).map(|n| format!("{:02x}", (n * (k + 1)) % 251)).collect();
        client.run(&format!("INSERT INTO s.t (k, v) VALUES ({k}, 0x{hex})"));
    }
    let before = client.rows("SELECT JSON * FROM s.t");
    let api = server.api_port.to_string();

    // One request of ten fails, one of twenty is slow.
    weather.errors.store(100, Ordering::Relaxed);
    weather.slow.store(50, Ordering::Relaxed);
    let text = done(port, &["create", "-p", &api]);
    assert!(weather.failed.load(Ordering::Relaxed) > 10, "{text}");
    done(port, &["verify", "--target", TARGET]);
    assert!(done(port, &["list", "-p", &api]).lines().count() == 2);
    let restored = dir.0.join("restored/messina-data");
    std::fs::create_dir_all(restored.parent().unwrap()).unwrap();
    done(port, &["restore", "--target", TARGET, "--data-dir", restored.to_str().unwrap()]);

    // Nothing works: the backup fails, and the node goes on.
    weather.errors.store(1000, Ordering::Relaxed);
    let (is_ok, text) = tool(port, &["create", "-p", &api]);
    assert!(!is_ok && text.contains(TARGET), "{text}");
    weather.errors.store(0, Ordering::Relaxed);
    weather.slow.store(0, Ordering::Relaxed);
    client.run("INSERT INTO s.t (k) VALUES (1000)");
    done(port, &["create", "-p", &api]);
    server.stop();
    let server = Server::start(restored.parent().unwrap(), &[]);
    assert_eq!(Client::start(server.cql_port, ProtocolVersion::V4).rows("SELECT JSON * FROM s.t"), before);
    server.stop();

    // A damaged and a missing object are named.
    let listing =
        String::from_utf8_lossy(&moto.request("GET", "/bucket?prefix=nodes/one/objects", b"")).into_owned();
    let keys: Vec<&str> =
        listing.split("<Key>").skip(1).map(|rest| rest.split_once("</Key>").unwrap().0).collect();
    let object = |key: &str| key.rsplit('/').next().unwrap().to_string();
    moto.request("PUT", &format!("/bucket/{}", keys[0]), b"other bytes");
    let (is_ok, text) = tool(port, &["verify", "--target", TARGET]);
    assert!(!is_ok && text.contains(&object(keys[0])) && text.contains("damaged"), "{text}");
    moto.request("DELETE", &format!("/bucket/{}", keys[0]), b"");
    let to = dir.0.join("again");
    let (is_ok, text) = tool(port, &["restore", "--target", TARGET, "--data-dir", to.to_str().unwrap()]);
    assert!(
        !is_ok && text.contains(&object(keys[0])) && text.contains("is missing") && !to.exists(),
        "{text}"
    );
}
