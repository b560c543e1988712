//! Helper threads for blocking system calls: open, rename, unlink, fallocate, fsync, readdir, and all
//! transfers if the kernel has no asynchronous interface.
//!
//! A runtime has one pool. A thread is added when a job arrives and none is idle, up to a limit; threads
//! stay. Jobs that remain when the runtime stops are still executed, since one of them may be an fsync.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::shard::reply::{Reply, reply};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    stopping: bool,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    threads_max: usize,
}

/// Time slice that a helper requests from the kernel's scheduler, in nanoseconds: the minimum that the kernel
/// accepts.
const SLICE_NS: u64 = 100_000;

/// Requests a short time slice for this thread. Helpers sleep most of the time, and flushes and compactions
/// wait for their work. A thread with a shorter slice than the shard on the same core runs at once when
/// woken, and not after the shard's slice of some milliseconds (EEVDF, from Linux 6.12 on). If the kernel
/// refuses, nothing changes.
fn run_soon() {
    // SAFETY: all zeros is a valid `sched_attr`.
    let mut attributes = unsafe { std::mem::zeroed::<libc::sched_attr>() };
    let size_bytes = size_of_val(&attributes) as libc::c_uint;
    // SAFETY: the call reads attributes of this thread into an owned structure of `size_bytes` bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size_bytes, 0) };
    if got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = SLICE_NS;
        // SAFETY: the call sets attributes of this thread from a valid structure that contains its length.
        let _refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Handle to the pool.
#[derive(Clone)]
pub(crate) struct Helpers(Arc<Shared>);

impl Helpers {
    /// Creates a pool that grows to at most `threads_max` threads. The first is started now, so that a system
    /// that allows no threads is detected early.
    pub(crate) fn start(threads_max: usize) -> io::Result<Self> {
        let shared =
            Shared { state: Mutex::default(), arrived: Condvar::new(), threads_max: threads_max.max(1) };
        let helpers = Self(Arc::new(shared));
        let first = helpers.spawn_thread(0)?;
        helpers.lock().threads.push(first);
        Ok(helpers)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside the lock, so the state is consistent even if the lock is poisoned.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `job` on a helper thread.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Reply<T> {
        let (answer, reply) = reply(true);
        self.push(Box::new(move || answer.send(job())));
        reply
    }

    /// Queues `job` for a helper thread, without a reply.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.lock();
        if state.stopping && state.threads.is_empty() {
            drop(state);
            // No thread is left: the last owners of files are being dropped.
            job();
            return;
        }
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads.len() < self.0.threads_max && !state.stopping {
            // If no thread can be added, the job waits for an existing one.
            if let Ok(thread) = self.spawn_thread(state.threads.len()) {
                state.threads.push(thread);
            }
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    fn spawn_thread(&self, number: usize) -> io::Result<JoinHandle<()>> {
        let helpers = self.clone();
        std::thread::Builder::new().name(format!("helper-{number}")).spawn(move || helpers.work())
    }

    fn work(&self) {
        run_soon();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
            } else if state.stopping {
                return;
            } else {
                state.idle += 1;
                state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// Waits until all jobs are done and the threads have ended.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.lock();
            state.stopping = true;
            std::mem::take(&mut state.threads)
        };
        self.0.arrived.notify_all();
        for thread in threads {
            // A job that panicked has dropped its reply, which notifies its caller.
            drop(thread.join());
        }
    }
}
