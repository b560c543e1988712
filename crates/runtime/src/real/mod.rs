//! The real back end: one OS thread per shard, with the kernel's files, clocks and random numbers.
//!
//! 1. `Runtime::start` tries the I/O back ends in order (io_uring, Linux AIO, helper threads), or the
//!    requested one, on each shard's own thread. Back ends that failed are recorded with the reason, for the
//!    log.
//! 2. It runs `init` on every shard and returns when all have finished. `init` may leave tasks running.
//! 3. Threads of the process reach the shards by `Runtime::remote`.
//! 4. `shutdown` drops the remaining tasks. Work that must end in order has to be stopped before, by a call.
//!
//! A panic in a task stops its shard: the shard's tasks are dropped, calls to it return `ShardGone`, and
//! `shutdown` returns the shard and the message of the panic. The other shards continue.

mod aio;
mod cached_writes;
mod calls;
mod cpu_time;
mod eventfd;
mod helpers;
mod idle_poll;
mod poller;
mod reactor;
mod run_loop;
mod sockets;
mod threads;
mod uring;
mod world;

pub(crate) use calls::taken_by;
pub use cpu_time::thread_cpu_us;

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use iosched::{Disk, DiskOptions};

use crate::ShardId;
use crate::group::CpuGroup;
use crate::groups::Groups;
use crate::shard::queue::{Doorbell, Inbox, Message};
use crate::shard::remote::Remote;
use crate::shard::{Shard, call_message};
use crate::stall::StallOptions;
use eventfd::EventFd;
use helpers::Helpers;
use run_loop::{ShardThread, Turn};

/// Choice of the I/O back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The first of the other choices that works, in their order.
    #[default]
    Auto,
    IoUring,
    LinuxAio,
    Threads,
}

/// An I/O back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    IoUring,
    LinuxAio,
    Threads,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IoUring => "io_uring",
            Self::LinuxAio => "linux_aio",
            Self::Threads => "threads",
        })
    }
}

/// The I/O back end of a runtime, and the reasons against earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInUse {
    pub kind: BackendKind,
    /// Back ends that were tried before, each with the reason why it does not work.
    pub unavailable: Vec<(BackendKind, String)>,
}

impl fmt::Display for BackendInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (kind, reason) in &self.unavailable {
            write!(f, "; {kind} is unavailable: {reason}")?;
        }
        Ok(())
    }
}

/// Options of a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// The number of shards; at least 1.
    pub shards: u32,
    pub backend: BackendChoice,
    /// Whether each shard's thread is pinned to one of the process's cores.
    pub pin: bool,
    /// The time in microseconds for which an idle shard polls for work before it sleeps, while work arrives
    /// that soon. Waking a sleeping shard costs tens of microseconds.
    pub idle_poll_us: u64,
    /// The longest turn of tasks in microseconds, after which I/O and messages are checked.
    pub task_quota_us: u64,
    /// The most helper threads for blocking system calls.
    pub helper_threads_max: usize,
    /// Speed of the disk; the number of shards is filled in.
    pub disk: DiskOptions,
    pub stalls: StallOptions,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            backend: BackendChoice::Auto,
            pin: false,
            idle_poll_us: 20,
            task_quota_us: 500,
            helper_threads_max: 16,
            disk: DiskOptions::default(),
            stalls: StallOptions::default(),
        }
    }
}

/// A runtime could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The requested back end (with `Auto`, every one) does not work on this system.
    Unavailable { tried: Vec<(BackendKind, String)> },
    /// The system refused a resource that every back end needs.
    System { what: &'static str, source: io::Error },
    /// `init` panicked on a shard.
    Panicked(ShardPanicked),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { tried } => {
                f.write_str("no I/O back end works:")?;
                for (kind, reason) in tried {
                    write!(f, " {kind}: {reason};")?;
                }
                f.write_str(" choose another back end, or `auto`")
            }
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
            Self::Panicked(panicked) => write!(f, "while starting, {panicked}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A task panicked and stopped its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPanicked {
    pub shard: ShardId,
    /// The message of the panic.
    pub message: String,
}

impl fmt::Display for ShardPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} stopped by a panic: {}", self.shard, self.message)
    }
}

impl std::error::Error for ShardPanicked {}

/// Running shards. Dropping it shuts them down.
pub struct Runtime {
    shards: Shards,
    backend: BackendInUse,
}

struct Shards {
    inboxes: Arc<[Arc<Inbox>]>,
    doorbells: Vec<EventFd>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
    helpers: Helpers,
    groups: Arc<Groups>,
}

impl Runtime {
    /// Starts the shards, runs `init` on each, and returns when all of them have finished.
    pub fn start<F, Fut>(options: RuntimeOptions, init: F) -> Result<Self, StartError>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(options.shards > 0, "a runtime has at least one shard");
        let candidates: &[BackendKind] = match options.backend {
            BackendChoice::Auto => &[BackendKind::IoUring, BackendKind::LinuxAio, BackendKind::Threads],
            BackendChoice::IoUring => &[BackendKind::IoUring],
            BackendChoice::LinuxAio => &[BackendKind::LinuxAio],
            BackendChoice::Threads => &[BackendKind::Threads],
        };
        let mut unavailable = Vec::new();
        for kind in candidates {
            match Shards::start(&options, *kind)? {
                Ok(shards) => {
                    let backend = BackendInUse { kind: *kind, unavailable };
                    let runtime = Self { shards, backend };
                    return runtime.init(init);
                }
                Err(reason) => unavailable.push((*kind, reason.to_string())),
            }
        }
        Err(StartError::Unavailable { tried: unavailable })
    }

    fn init<F, Fut>(mut self, init: F) -> Result<Self, StartError>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let init = Arc::new(init);
        let started: Vec<_> = (self.shards.inboxes.iter())
            .map(|inbox| {
                let init = Arc::clone(&init);
                let (message, reply) = {
                    let here = Location::caller();
                    call_message(CpuGroup::Maintenance, here, move |shard| init(shard), true)
                };
                inbox.deliver([Message::Call(message)]);
                reply
            })
            .collect();
        let gone = started.into_iter().map(|reply| reply.wait()).filter(Result::is_err).count();
        if gone > 0 {
            self.shards.stop().map_err(StartError::Panicked)?;
            unreachable!("{gone} shards stopped during init without a panic");
        }
        Ok(self)
    }

    /// Access to the shards from other threads.
    pub fn remote(&self) -> Remote {
        Remote::new(Arc::clone(&self.shards.inboxes), Arc::clone(&self.shards.groups), true)
    }

    /// The I/O back end in use, and the reasons against earlier ones. For the log.
    pub fn backend_in_use(&self) -> &BackendInUse {
        &self.backend
    }

    /// Stops the shards, drops the remaining tasks, and waits for I/O in flight and for the threads. Returns
    /// an error if a task panicked.
    pub fn shutdown(mut self) -> Result<(), ShardPanicked> {
        self.shards.stop()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Callers that need the result call `shutdown`, after which nothing is left to stop; the panic was
        // printed.
        drop(self.shards.stop());
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} shards, {})", self.shards.inboxes.len(), self.backend.kind)
    }
}

impl Shards {
    /// Starts the threads. The inner error is the reason why this back end does not work on this system.
    fn start(options: &RuntimeOptions, kind: BackendKind) -> Result<Result<Self, io::Error>, StartError> {
        let system = |what| move |source| StartError::System { what, source };
        let doorbells: Vec<EventFd> = (0..options.shards)
            .map(|_| EventFd::new())
            .collect::<io::Result<_>>()
            .map_err(system("make an eventfd"))?;
        let inboxes: Arc<[Arc<Inbox>]> = (doorbells.iter().zip(0..))
            .map(|(bell, id)| Arc::new(Inbox::new(id, Some(Box::new(bell.clone()) as Box<dyn Doorbell>))))
            .collect();
        let helpers = Helpers::start(options.helper_threads_max).map_err(system("start a helper thread"))?;
        let groups = Arc::default();
        let mut shards =
            Self { inboxes, doorbells, stop: Arc::default(), threads: Vec::new(), helpers, groups };
        let disk = Arc::new(Disk::new(DiskOptions {
            shards: options.shards,
            uses_quotas: options.disk.uses_quotas && kind != BackendKind::Threads,
            ..options.disk
        }));
        let cores = if options.pin { run_loop::allowed_cores() } else { Ok(Vec::new()) };
        let cores = cores.map_err(system("ask for the process's cores"))?;
        let started_ns = world::monotonic_ns();
        let (ready, outcomes) = mpsc::channel();
        for id in 0..options.shards {
            let thread = ShardThread {
                id,
                kind,
                inboxes: Arc::clone(&shards.inboxes),
                doorbell: shards.doorbells[id as usize].clone(),
                stop: Arc::clone(&shards.stop),
                helpers: shards.helpers.clone(),
                core: (!cores.is_empty()).then(|| cores[id as usize % cores.len()]),
                turn: Turn { quota_us: options.task_quota_us, idle_poll_us: options.idle_poll_us },
                started_ns,
                groups: Arc::clone(&shards.groups),
                disk: Arc::clone(&disk),
                stalls: options.stalls.clone(),
            };
            let ready = ready.clone();
            let thread = std::thread::Builder::new()
                .name(format!("shard-{id}"))
                .spawn(move || thread.run(&ready))
                .map_err(system("start a shard's thread"))?;
            shards.threads.push(thread);
        }
        drop(ready);
        let mut failed = None;
        for outcome in outcomes.iter().take(options.shards as usize) {
            failed = failed.or(outcome.err());
        }
        match failed {
            None => Ok(Ok(shards)),
            Some(reason) => Ok(Err(reason)),
        }
    }

    fn stop(&mut self) -> Result<(), ShardPanicked> {
        self.stop.store(true, Ordering::Release);
        for doorbell in &self.doorbells {
            doorbell.ring();
        }
        let mut outcome = Ok(());
        for (thread, shard) in self.threads.drain(..).zip(0..) {
            let message = match thread.join() {
                Ok(Ok(())) => continue,
                Ok(Err(message)) => message,
                Err(_payload) => "a second panic while its tasks were dropped".to_owned(),
            };
            if outcome.is_ok() {
                outcome = Err(ShardPanicked { shard, message });
            }
        }
        self.helpers.stop();
        outcome
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        // As for `Runtime`: nothing is left to stop after `shutdown`.
        drop(self.stop());
    }
}
