//! A `messina` process: start, wait, kill.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::{Backend, Sync};

/// A start that takes longer has failed.
const START_S: u64 = 120;
/// Number of log lines that are shown when a start has failed.
const LOG_LINES: usize = 30;

/// Options of the nodes of a data directory.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub messina: PathBuf,
    pub dir: PathBuf,
    pub shards: u32,
    pub sync: Sync,
    pub backend: Backend,
}

/// A running node; killed when dropped.
pub struct NodeProcess {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    ready: mpsc::Receiver<()>,
    pub cql_port: u16,
    pub api_port: u16,
}

impl NodeOptions {
    /// The directory of a table, found by the prefix of its name.
    pub fn table_dir(&self, keyspace: &str, table: &str) -> Result<PathBuf, String> {
        let dir = self.dir.join("data").join(keyspace);
        let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let begins = format!("{table}-");
        let mut found = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins)));
        found.next().ok_or_else(|| format!("no directory of {keyspace}.{table} in {}", dir.display()))
    }

    /// Starts a node without waiting for it.
    #[allow(clippy::disallowed_methods, reason = "the log of the process is read while it is written")]
    pub fn start(&self) -> Result<NodeProcess, String> {
        let [cql_port, api_port] = free_ports()?;
        let mut command = Command::new(&self.messina);
        command.arg("--data-dir").arg(&self.dir);
        for (name, value) in [
            ("--smp", self.shards.to_string()),
            ("--memory", "64M".to_string()),
            ("--native-transport-port", cql_port.to_string()),
            ("--api-port", api_port.to_string()),
            ("--prometheus-port", "0".to_string()),
            ("--commitlog-sync", self.sync.option().to_string()),
            ("--io-backend", self.backend.option().to_string()),
            ("--set", "native_shard_aware_transport_port=0".to_string()),
            // Small, so that flushes and recycling of segments happen.
            ("--set", "commitlog_segment_size=1MiB".to_string()),
            ("--set", "commitlog_total_space=8MiB".to_string()),
        ] {
            command.args([name, &value]);
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child =
            spawned.map_err(|error| format!("cannot start {}: {error}", self.messina.display()))?;
        let log = Arc::new(Mutex::new(vec![]));
        let (describe, ready) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().expect("asked for")).lines();
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let is_ready = line.contains("initialization completed");
                kept.lock().expect("no thread panics while it holds the lock").push(line);
                if is_ready {
                    // The node may have been killed meanwhile.
                    let _ = describe.send(());
                }
            }
        });
        Ok(NodeProcess { child, log, ready, cql_port, api_port })
    }
}

fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    let mut ports = [0; N];
    let mut held = vec![];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no free port: {error}"))?;
        *port = listener.local_addr().map_err(|error| error.to_string())?.port();
        held.push(listener);
    }
    Ok(ports)
}

impl NodeProcess {
    /// # Errors
    /// The node ended, or takes too long; with the end of its log.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        match self.ready.recv_timeout(Duration::from_secs(START_S)) {
            Ok(()) => Ok(()),
            Err(_) => Err(format!("the node did not start:\n{}", self.log_end())),
        }
    }

    /// Sends SIGKILL. The error has panics in the log, or how the node had ended by itself.
    pub fn kill(mut self) -> Result<(), String> {
        let exited = self.child.try_wait().map_err(|error| error.to_string())?;
        self.child.kill().map_err(|error| format!("cannot kill: {error}"))?;
        self.child.wait().map_err(|error| error.to_string())?;
        match exited {
            Some(status) => Err(format!("the node ended by itself: {status}\n{}", self.log_end())),
            None => Ok(()),
        }
    }

    pub fn log_end(&self) -> String {
        let log = self.log.lock().expect("no thread panics while it holds the lock");
        log[log.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `messina` with these arguments and returns its output.
///
/// # Errors
/// The exit code is not 0.
pub fn tool(messina: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(messina).args(arguments).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", messina.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!(
        "messina {arguments:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}
