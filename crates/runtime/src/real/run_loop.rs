//! Run loop of a shard's thread.
//!
//! A turn consists of: handle messages, reap I/O, poll sockets for readiness, fire timers, start I/O requests
//! that waited, run ready tasks up to the time quota, deliver the outbox, submit I/O.
//!
//! I/O is also submitted within a turn: as soon as there are some requests, if the polled task continues at
//! once, and before a task of another group runs. After a long poll I/O is reaped, and sockets are watched so
//! that a request that arrives meanwhile ends the next long poll.
//!
//! The clock is read once before the tasks and once after each of them; groups are charged by these times. An
//! idle shard polls for work for `idle_poll_us`, if that pays, and then sleeps until a completion, a timer or
//! the doorbell. Before it sleeps, the shard declares itself asleep and checks its inbox once more
//! (`Inbox::fall_asleep`), so no ring is missed.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use iosched::Disk;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::BackendKind;
use super::aio::Aio;
use super::eventfd::EventFd;
use super::helpers::Helpers;
use super::idle_poll::IdlePoll;
use super::poller::Poller;
use super::reactor::Reactor;
use super::threads::Threads;
use super::uring::Uring;
use super::world::RealBackend;
use crate::ShardId;
use crate::groups::Groups;
use crate::shard::backend::Backend;
use crate::shard::queue::{Inbox, LocalQueue};
use crate::shard::{Ran, Shard};
use crate::stall::StallOptions;

/// Pause between checks for remaining tasks while a shard stops.
const STOPPING_PAUSE: Duration = Duration::from_micros(50);

/// This number of requests is submitted at once and does not wait for the end of the turn: otherwise the disk
/// would be idle until then, and afterwards the CPU.
const PUSHED_AT: usize = 4;

/// Durations of a turn and of idle polling.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) quota_us: u64,
    pub(crate) idle_poll_us: u64,
}

/// Everything that a shard's thread needs at its start.
pub(crate) struct ShardThread {
    pub(crate) id: ShardId,
    pub(crate) kind: BackendKind,
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    pub(crate) doorbell: EventFd,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) helpers: Helpers,
    pub(crate) core: Option<usize>,
    pub(crate) turn: Turn,
    pub(crate) groups: Arc<Groups>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) stalls: StallOptions,
    /// The zero of the monotonic clock.
    pub(crate) started_ns: u64,
}

impl ShardThread {
    /// Runs until it is stopped; an error is the message of a task's panic. The result of the start is sent
    /// to `ready`.
    pub(crate) fn run(self, ready: &mpsc::Sender<io::Result<()>>) -> Result<(), String> {
        let made = self.make();
        let (reactor, backend) = match made {
            Ok(made) => made,
            Err(error) => {
                // The receiver was dropped if another shard has failed already.
                drop(ready.send(Err(error)));
                return Ok(());
            }
        };
        drop(ready.send(Ok(())));
        let queue = Rc::new(LocalQueue::new(
            self.id,
            Arc::clone(&self.inboxes),
            Arc::clone(&self.groups),
            self.turn.quota_us,
        ));
        let shard = Shard::new(
            Rc::clone(&queue),
            self.id,
            Rc::clone(&backend) as Rc<dyn Backend>,
            Arc::clone(&self.disk),
            self.stalls.clone(),
            true,
        );
        let entered = queue.enter();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turns(&shard, &backend, &*reactor)));
        // A singleton that is dropped may spawn a last task.
        for what_is_left in [Shard::drop_locals, |_: &Shard| ()] {
            while !shard.drop_tasks() {
                pause();
            }
            what_is_left(&shard);
        }
        drop(entered);
        while reactor.in_flight() > 0 {
            reactor.push();
            if reactor.reap() == 0 {
                reactor.park(Some(1000));
            }
        }
        outcome.map_err(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("(no text)").to_owned()
        })
    }

    fn make(&self) -> io::Result<(Rc<dyn Reactor>, Rc<RealBackend>)> {
        if let Some(core) = self.core {
            pin_to(core)?;
        }
        let (helpers, doorbell) = (self.helpers.clone(), self.doorbell.clone());
        let poller = Rc::new(Poller::new()?);
        let sockets = Rc::clone(&poller);
        let reactor: Rc<dyn Reactor> = match self.kind {
            BackendKind::IoUring => Rc::new(Uring::new(doorbell, sockets)?),
            BackendKind::LinuxAio => Rc::new(Aio::new(helpers, doorbell, sockets)?),
            BackendKind::Threads => Rc::new(Threads::new(helpers, doorbell, sockets)),
        };
        let backend = RealBackend::new(self.started_ns, Rc::clone(&reactor), poller, self.helpers.clone())?;
        Ok((reactor, Rc::new(backend)))
    }

    fn turns(&self, shard: &Shard, backend: &RealBackend, reactor: &dyn Reactor) {
        let inbox = &self.inboxes[self.id as usize];
        let quota_ns = self.turn.quota_us.saturating_mul(1000);
        let mut idle_poll = IdlePoll::default();
        while !self.stop.load(Ordering::Acquire) {
            shard.stats_cell().add(|stats| stats.turns += 1);
            let mut done = shard.handle_messages() + reactor.reap() + backend.poll_sockets();
            let now_ns = backend.now_ns();
            let ends_ns = now_ns + quota_ns;
            backend.end_turn_at_ns(ends_ns);
            done += shard.begin_turn(now_ns);
            backend.begin_poll_at_ns(now_ns);
            while let Some(Ran { now_ns, goes_on }) = shard.run_next(|| ()) {
                done += 1;
                if now_ns >= ends_ns {
                    break;
                }
                if backend.has_completions(now_ns) {
                    done += reactor.reap() + backend.poll_sockets();
                } else if backend.was_long(now_ns) && shard.queue().ready_tasks() > 0 {
                    reactor.watch_sockets();
                }
                backend.begin_poll_at_ns(now_ns);
                // Requests of a group are submitted before a task of another group runs, and at the latest
                // when there are a few of them. They are also submitted if the polled task continues while
                // the disk works, as a task that reads ahead does.
                let waiting = reactor.waiting();
                if waiting >= PUSHED_AT
                    || (goes_on && waiting > 0)
                    || !shard.queue().continues_with(shard.current_group())
                {
                    reactor.push();
                }
            }
            shard.queue().deliver_all();
            reactor.push();
            if done == 0 {
                self.idle(shard, backend, reactor, inbox, &mut idle_poll);
            }
        }
    }

    fn idle(
        &self,
        shard: &Shard,
        backend: &RealBackend,
        reactor: &dyn Reactor,
        inbox: &Inbox,
        idle_poll: &mut IdlePoll,
    ) {
        let since_us = backend.now_us();
        let poll_us = self.turn.idle_poll_us;
        let deadline_us = shard.next_deadline_us().unwrap_or(u64::MAX);
        let mut now_us = since_us;
        let polls_until_us = if idle_poll.pays() { since_us + poll_us } else { since_us };
        while now_us < polls_until_us {
            if inbox.has_messages() || now_us >= deadline_us || reactor.reap() + backend.poll_sockets() > 0 {
                break;
            }
            std::hint::spin_loop();
            now_us = backend.now_us();
        }
        shard.stats_cell().add(|stats| stats.idle_spin_us += now_us - since_us);
        // Tasks that arrive from now on are ready since this time.
        shard.queue().set_now_ns(backend.now_ns());
        if now_us >= deadline_us || shard.queue().ready_tasks() > 0 || !inbox.fall_asleep() {
            idle_poll.was_idle(now_us - since_us, poll_us);
            return;
        }
        // The stopping thread sets the flag before it rings, so a shard that misses the flag is woken by the
        // ring.
        if !self.stop.load(Ordering::Acquire) {
            shard.stats_cell().add(|stats| stats.parks += 1);
            reactor.park((deadline_us != u64::MAX).then(|| deadline_us - now_us));
        }
        inbox.awake();
        let now_ns = backend.now_ns();
        idle_poll.was_idle((now_ns / 1000).saturating_sub(since_us), poll_us);
        shard.queue().set_now_ns(now_ns);
    }
}

#[allow(clippy::disallowed_methods, reason = "a shard that stops has no timers any more")]
fn pause() {
    std::thread::sleep(STOPPING_PAUSE);
}

/// The cores that this process may use.
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

fn pin_to(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
