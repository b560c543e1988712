//! A running `messina` process with its own ports and directory.

#![allow(clippy::disallowed_methods, reason = "a process outside is waited for in the real world's time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that is removed when dropped.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("messina-it-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Ports that are free now.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let sockets = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.each_ref().map(|socket| socket.local_addr().unwrap().port())
}

pub fn messina(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_messina"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MESSINA_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the command and waits for its end.
pub fn output(arguments: &[&str]) -> (ExitStatus, String) {
    let Output { status, stdout, stderr } = messina(arguments).output().unwrap();
    (status, format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// Waits until `is_so` returns true; panics after a deadline.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Like [`output`], but panics after a deadline: exit code and text.
pub fn output_in_time(arguments: &[&str]) -> (i32, String) {
    let mut child = messina(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE / 2;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end: {arguments:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

pub struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    lines: Mutex<mpsc::Receiver<String>>,
    pub api_port: u16,
    pub prometheus_port: u16,
    pub cql_port: u16,
}

impl Server {
    /// Starts a server in `dir`, and waits until it is ready.
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        let server = Self::spawn(dir, more);
        server.wait_for("initialization completed in");
        server
    }

    /// Starts a server that logs nothing, and waits until it answers.
    pub fn start_silent(dir: &Path, more: &[&str]) -> Self {
        let mut server = Self::spawn(dir, more);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", server.api_port)).is_err() {
            let is_there = server.child.try_wait().unwrap().is_none() && Instant::now() < deadline;
            assert!(is_there, "it does not answer\n{}", server.log());
            pause(20);
        }
        // It listens before it handles signals, and answers after that.
        http(server.api_port, "GET /v1/version", "");
        server
    }

    /// As [`Self::start`], with these variables in its environment.
    pub fn start_with(dir: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let server = Self::spawn_with(dir, more, environment);
        server.wait_for("initialization completed in");
        server
    }

    fn spawn(dir: &Path, more: &[&str]) -> Self {
        Self::spawn_with(dir, more, &[])
    }

    fn spawn_with(dir: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let [api_port, prometheus_port, cql_port] = free_ports();
        let [api, prometheus, cql] = [api_port, prometheus_port, cql_port].map(|port| port.to_string());
        let mut arguments = vec!["--api-port", &api, "--prometheus-port", &prometheus, "--smp", "2"];
        arguments.extend(["--native-transport-port", &cql, "--set", "native_shard_aware_transport_port=0"]);
        arguments.extend(more);
        let mut command = messina(&arguments);
        command.envs(environment.iter().copied()).current_dir(dir).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                kept.lock().unwrap().push_str(&format!("{line}\n"));
                // No test waits for lines any more; the log is kept nevertheless.
                drop(sender.send(line));
            }
        });
        Self { child, log, lines: Mutex::new(lines), api_port, prometheus_port, cql_port }
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory of the process.
    pub fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Waits for the next line with these words.
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.lock().unwrap().recv_timeout(left) {
                Ok(line) if line.contains(words) => return,
                Ok(_) => {}
                Err(_) => panic!("no line with {words:?} in\n{}", self.log()),
            }
        }
    }

    pub fn nodetool(&self, words: &[&str]) -> (ExitStatus, String) {
        let port = self.api_port.to_string();
        output(&[&["nodetool", "-p", &port], words].concat())
    }

    /// Output of a command, which must succeed.
    pub fn tool(&self, words: &[&str]) -> String {
        let (status, text) = self.nodetool(words);
        assert!(status.success(), "nodetool {words:?}: {text}\n{}", self.log());
        text
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process.
    pub fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // The reading thread ends with the pipe.
                while self.lines.lock().unwrap().recv().is_ok() {}
                return (status, self.log());
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn stop(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.end()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// The result of `act`, and its duration.
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let given = act();
    (given, began.elapsed())
}

/// Status line and remainder of an HTTP answer.
pub fn http(port: u16, request: &str, headers: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nX-Requested-By: test\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (status, rest) = answer.split_once("\r\n").unwrap();
    (status.to_string(), rest.to_string())
}
