//! Tells systemd about the state of the node, by the protocol of `sd_notify(3)`: datagrams of lines
//! `NAME=value` to the socket that NOTIFY_SOCKET names. Without the variable nothing is sent.
//!
//! - `READY=1` when clients can connect, `STOPPING=1` when the node begins to stop, `STATUS=…` for people.
//! - `EXTEND_TIMEOUT_USEC=…` every few seconds while a long start replays the commit log, or a stop flushes
//!   memtables, so that systemd does not lose its patience with a node that makes progress.
//! - `WATCHDOG=1` at half of the period in WATCHDOG_USEC, after every shard has run a task. A shard that
//!   hangs prevents it, and systemd restarts the node.
//!
//! A message that cannot be sent is logged once; the node runs on.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::{Engine, EngineError};
use log::{info, warn};
use runtime::CpuGroup;

/// How long systemd waits for the next message of a node that starts or stops.
const EXTENSION: Duration = Duration::from_secs(60);
/// Interval of the messages during a stop.
const STOPPING_PERIOD: Duration = Duration::from_secs(5);

/// The variables of the environment that a service manager sets.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// NOTIFY_SOCKET: a path, or `@` and an abstract name.
    pub socket: Option<String>,
    /// WATCHDOG_USEC.
    pub watchdog_us: Option<String>,
    /// WATCHDOG_PID: the process for which WATCHDOG_USEC is meant.
    pub watchdog_pid: Option<String>,
}

/// The connection to systemd, or to nothing.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
    has_failed: Arc<AtomicBool>,
}

impl ServiceManager {
    /// `pid` is this process.
    pub fn new(variables: &Variables, pid: u32) -> Self {
        let Some(name) = variables.socket.as_deref().filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        let socket = match connect(name) {
            Ok(socket) => socket,
            Err(error) => {
                warn!(target: "init", "NOTIFY_SOCKET {name}: {error}; the service manager gets no messages");
                return Self::default();
            }
        };
        let is_meant = variables.watchdog_pid.as_ref().is_none_or(|meant| *meant == pid.to_string());
        let period_us = variables.watchdog_us.as_ref().and_then(|text| text.parse::<u64>().ok());
        let watchdog = period_us.filter(|period_us| *period_us > 0 && is_meant).map(Duration::from_micros);
        Self { socket: Some(Arc::new(socket)), watchdog, has_failed: Arc::default() }
    }

    /// Clients can connect.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The start is making progress.
    pub fn starting(&self, status: &str) {
        self.send(&format!("STATUS={status}\nEXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
    }

    /// The stop begins. Further messages follow until the returned task is aborted.
    pub fn stopping(&self, status: &str) -> tokio::task::JoinHandle<()> {
        self.send(&format!("STOPPING=1\nSTATUS={status}\nEXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
        let manager = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(STOPPING_PERIOD).await;
                manager.send(&format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
            }
        })
    }

    /// Starts the watchdog, if systemd wants one.
    pub fn watch(&self, engine: &Engine) {
        let Some(period) = self.watchdog else { return };
        info!(target: "init", "systemd's watchdog hears every {} ms of shards that answer", period.as_millis() / 2);
        let remote = engine.remote().clone();
        let manager = self.clone();
        let turn = move || {
            // All shards are asked at the same time.
            let asked: Vec<_> = (0..remote.shard_count())
                .map(|shard| remote.call(shard, CpuGroup::Statement, |_| async { Ok::<(), EngineError>(()) }))
                .collect();
            async move {
                let mut are_alive = true;
                for answer in asked {
                    are_alive &= answer.await.is_ok();
                }
                are_alive
            }
        };
        tokio::spawn(async move { watch(period / 2, turn, |message| manager.send(message)).await });
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        // The socket does not block: a full one loses a message, and the next one follows.
        if let Err(error) = socket.send(message.as_bytes())
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            warn!(target: "init", "cannot notify the service manager {:?}: {error}", message.replace('\n', " "));
        }
    }
}

fn connect(name: &str) -> std::io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends `WATCHDOG=1` once per period after a turn of all shards. A turn that takes longer than a period is
/// awaited, and shown in the status.
async fn watch<F: Future<Output = bool>>(period: Duration, turn: impl Fn() -> F, send: impl Fn(&str)) {
    loop {
        let mut answer = std::pin::pin!(turn());
        let mut is_late = false;
        let are_alive = loop {
            match tokio::time::timeout(period, answer.as_mut()).await {
                Ok(are_alive) => break are_alive,
                Err(_) if is_late => {}
                Err(_) => {
                    is_late = true;
                    warn!(target: "init", "a shard has not run a task for {} ms", period.as_millis());
                    send("STATUS=a shard does not answer");
                }
            }
        };
        if !are_alive {
            return;
        }
        send(if is_late { "WATCHDOG=1\nSTATUS=serving" } else { "WATCHDOG=1" });
        tokio::time::sleep(period).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 300];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    /// The messages of three periods, with shards that answer after `delay`.
    fn messages(delay: Duration) -> Vec<String> {
        let sent = Rc::new(RefCell::new(vec![]));
        let turn = || async move {
            tokio::time::sleep(delay).await;
            true
        };
        let period = Duration::from_millis(30);
        run(async {
            let watching = watch(period, turn, |message| sent.borrow_mut().push(message.to_string()));
            let _ = tokio::time::timeout(period * 8, watching).await;
        });
        sent.take()
    }

    #[test]
    fn the_watchdog_hears_only_of_shards_that_answer() {
        let messages_of_living = messages(Duration::ZERO);
        assert!(messages_of_living.len() > 1 && messages_of_living.iter().all(|text| text == "WATCHDOG=1"));
        assert_eq!(messages(Duration::from_secs(100)), ["STATUS=a shard does not answer"]);
    }

    #[test]
    fn messages_arrive_at_an_abstract_socket() {
        let name = format!("messina-notify-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let variables = Variables {
            socket: Some(format!("@{name}")),
            watchdog_us: Some("10".to_string()),
            watchdog_pid: None,
        };
        let manager = ServiceManager::new(&variables, 7);
        manager.ready("here");
        assert_eq!(received(&socket), "READY=1\nSTATUS=here");
        manager.starting("replaying");
        assert_eq!(received(&socket), "STATUS=replaying\nEXTEND_TIMEOUT_USEC=60000000");
        run(async { manager.stopping("flushing").abort() });
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=flushing\nEXTEND_TIMEOUT_USEC=60000000");
        assert_eq!(manager.watchdog, Some(Duration::from_micros(10)));
    }

    #[test]
    fn without_a_socket_nothing_happens() {
        ServiceManager::new(&Variables::default(), 7).ready("here");
        let nowhere = Variables { socket: Some("/nonexistent/socket".to_string()), ..Variables::default() };
        assert!(ServiceManager::new(&nowhere, 7).socket.is_none());
        let other = Variables {
            socket: Some("/nonexistent/socket".to_string()),
            watchdog_us: Some("10".to_string()),
            watchdog_pid: Some("8".to_string()),
        };
        assert!(ServiceManager::new(&other, 7).watchdog.is_none());
    }
}
