//! Helper threads for system calls that block: open, rename, unlink, fallocate, fsync, readdir, and all transfers
//! where the kernel offers nothing better.
//!
//! One pool per runtime. A thread is added when a job arrives and none is idle, up to a limit; threads stay. Jobs
//! left when the runtime stops are still done: they may be somebody's fsync.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::reply::{Reply, reply};

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

/// What a helper asks the kernel's scheduler for at a time, in nanoseconds: the least it takes.
const SLICE_NS: u64 = 100_000;

/// Helpers sleep nearly always, and a flush or a compaction waits for what they do. Who asks for shorter slices than the
/// shard on the same core runs at once when woken, and not after the shard's slice of some milliseconds (EEVDF, from
/// Linux 6.12 on). Where the kernel refuses, all is as it was.
fn run_soon() {
    // SAFETY: all zeros is a valid `sched_attr`.
    let mut attributes = unsafe { std::mem::zeroed::<libc::sched_attr>() };
    let size_bytes = size_of_val(&attributes) as libc::c_uint;
    // SAFETY: of this thread, into memory of ours that is as long as said.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size_bytes, 0) };
    if got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = SLICE_NS;
        // SAFETY: of this thread, from memory of ours that is valid and knows its length.
        let _refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// The pool, as its users hold it.
#[derive(Clone)]
pub(crate) struct Helpers(Arc<Shared>);

impl Helpers {
    /// A pool that grows up to `threads_max` threads; the first is started now, so that a machine that allows none
    /// is found out early.
    pub(crate) fn start(threads_max: usize) -> io::Result<Self> {
        let shared =
            Shared { state: Mutex::default(), arrived: Condvar::new(), threads_max: threads_max.max(1) };
        let helpers = Self(Arc::new(shared));
        let first = helpers.spawn_thread(0)?;
        helpers.lock().threads.push(first);
        Ok(helpers)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside the lock, so a poisoned state is still whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `job` on a helper thread.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Reply<T> {
        let (answer, reply) = reply(true);
        self.push(Box::new(move || answer.send(job())));
        reply
    }

    /// Has a helper thread run `job` some time; nobody waits.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.lock();
        if state.stopping && state.threads.is_empty() {
            drop(state);
            // Too late for a thread: the last owners of files are being dropped.
            job();
            return;
        }
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads.len() < self.0.threads_max && !state.stopping {
            // Without another thread the job waits for one of those there are.
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
            // A job that panicked has told its caller by dropping the answer.
            drop(thread.join());
        }
    }
}
