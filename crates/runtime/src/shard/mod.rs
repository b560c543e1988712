//! Handle to the shard on which code runs: spawn, sleep, calls to other shards, per-shard singletons.
//!
//! A task has one allocation (`async_task`) and never leaves its shard. The shard keeps a waker for each of
//! its live tasks, so that a stop drops every future, whatever it waits for.
//!
//! The modules of this folder are the parts of a shard: queues, timers, files, sockets, and the interface
//! that a back end implements.

pub(crate) mod backend;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod io_gate;
pub(crate) mod net;
pub(crate) mod queue;
pub(crate) mod remote;
pub(crate) mod reply;
pub(crate) mod stream;
pub(crate) mod timer;

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_task::{ScheduleInfo, WithInfo};
use base::HashMap;
use iosched::{ClassStats, Disk, IoQueue, Learned};

use crate::ShardId;
use crate::event::Event;
use crate::group::{CpuGroup, IoClass};
use crate::groups::Groups;
use crate::shard::backend::Backend;
use crate::shard::files::Files;
use crate::shard::io_gate::IoGate;
use crate::shard::net::Net;
use crate::shard::queue::{LocalQueue, Message, RemoteCall, Runnable, TaskInfo};
use crate::shard::remote::Remote;
use crate::shard::reply::{Reply, ShardGone, reply};
use crate::shard::timer::{Sleep, Timers};
use crate::stall::{Stall, StallDetector, StallOptions};
use crate::stats::{GroupStats, IoCounters, IoStats, ShardStats, StatsCell};

/// Number of polls between two readings of the clock while scheduling is bypassed.
const UNWATCHED_POLLS: u64 = 32;

struct Inner {
    id: ShardId,
    queue: Rc<LocalQueue>,
    timers: Rc<Timers>,
    backend: Rc<dyn Backend>,
    files: Files,
    net: Net,
    stats: Rc<StatsCell>,
    live: Rc<LiveTasks>,
    locals: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
    messages: RefCell<Vec<Message>>,
    io_gate: Rc<IoGate>,
    /// The requests of a turn that are ready have run.
    settled: Event,
    stalls: StallDetector,
    running: Cell<CpuGroup>,
    /// Whether a thread may block on replies. False in a simulated world, which runs on that thread.
    may_block: bool,
}

/// Result of a poll.
pub(crate) struct Ran {
    pub(crate) now_ns: u64,
    /// Whether the task was woken while it ran, most often by itself, and is ready again.
    pub(crate) goes_on: bool,
}

/// The shard on which this code runs. Cheap to clone; it cannot leave its thread.
#[derive(Clone)]
pub struct Shard(Rc<Inner>);

impl Shard {
    pub(crate) fn new(
        queue: Rc<LocalQueue>,
        id: ShardId,
        backend: Rc<dyn Backend>,
        disk: Arc<Disk>,
        stalls: StallOptions,
        may_block: bool,
    ) -> Self {
        let io_gate = Rc::new(IoGate::new(IoQueue::new(disk), Rc::clone(&queue)));
        let (stats, timers) = (Rc::new(StatsCell::default()), Rc::new(Timers::default()));
        let net = Net::new(Rc::clone(&backend), Rc::clone(&timers), Rc::clone(&queue), Rc::clone(&stats));
        Self(Rc::new(Inner {
            id,
            queue,
            net,
            files: Files::new(Rc::clone(&backend), Rc::clone(&io_gate)),
            timers,
            backend,
            stats,
            live: Rc::default(),
            locals: RefCell::default(),
            messages: RefCell::default(),
            io_gate,
            settled: Event::new(),
            stalls: StallDetector::new(stalls),
            running: Cell::new(CpuGroup::Background),
            may_block,
        }))
    }

    /// The number of this shard.
    pub fn id(&self) -> ShardId {
        self.0.id
    }

    /// The number of shards of the runtime.
    pub fn shard_count(&self) -> u32 {
        self.0.queue.inboxes().len() as u32
    }

    /// Microseconds on a monotonic clock; all shards of a runtime share its zero.
    pub fn now_us(&self) -> u64 {
        self.0.backend.now_us()
    }

    /// Microseconds since the Unix epoch by the system clock, which may jump.
    pub fn wall_us(&self) -> i64 {
        self.0.backend.wall_us()
    }

    /// Whole seconds since the Unix epoch, as the machine believes.
    pub fn wall_s(&self) -> u32 {
        u32::try_from(self.wall_us() / 1_000_000).unwrap_or(0)
    }

    /// A random number; in a simulated world it depends on the seed. Not suitable for secrets.
    pub fn random_u64(&self) -> u64 {
        self.0.backend.random_u64()
    }

    /// Starts `future` as a task of `group` on this shard. Dropping the handle cancels the task.
    #[track_caller]
    pub fn spawn<T: 'static>(
        &self,
        group: CpuGroup,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.spawn_from(group, Location::caller(), future)
    }

    fn spawn_from<T: 'static>(
        &self,
        group: CpuGroup,
        spawned_at: &'static Location<'static>,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let inbox = Arc::clone(self.0.queue.inbox());
        let place = self.0.live.reserve();
        let tracked = Tracked { future, place, live: Rc::clone(&self.0.live) };
        let schedule = move |runnable, info: ScheduleInfo| {
            queue::schedule(&inbox, runnable, info.woken_while_running);
        };
        let task = async_task::Builder::new().metadata(TaskInfo { group, spawned_at });
        let (runnable, task) = task.spawn_local(move |_| tracked, WithInfo(schedule));
        self.0.live.fill(place, runnable.waker());
        self.0.stats.add(|stats| stats.spawned += 1);
        runnable.schedule();
        JoinHandle { task, not_send: PhantomData }
    }

    /// The time that was read before the current poll of a task, on the clock of [`Self::now_us`]. Costs no
    /// reading of the clock.
    pub fn poll_began_us(&self) -> u64 {
        self.0.queue.now_ns() / 1000
    }

    /// Resolves after `us` microseconds, not before.
    pub fn sleep_us(&self, us: u64) -> impl Future<Output = ()> + 'static {
        self.sleep_until_us(self.now_us().saturating_add(us))
    }

    /// Resolves at `deadline_us` on the clock of [`Self::now_us`], not before.
    pub fn sleep_until_us(&self, deadline_us: u64) -> impl Future<Output = ()> + 'static {
        Sleep { timers: Rc::clone(&self.0.timers), queue: Rc::clone(&self.0.queue), deadline_us, key: None }
    }

    /// Yields to the other ready tasks of this shard.
    pub fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        let mut yielded = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Resolves when no request that is ready remains, or the turn ends, whichever is first. A request that
    /// has yielded counts as ready no more: it is a long one. For a task that works for many requests at
    /// once, such as the writer of the commit log, and should run once a turn, not once a request.
    pub async fn settled(&self) {
        self.0.settled.next().await;
    }

    /// True once the current turn has used its time quota, or I/O has completed during a long poll. The task
    /// should then save its state and call `yield_now`.
    pub fn need_preempt(&self) -> bool {
        self.0.backend.need_preempt()
    }

    /// The group of the running task.
    pub fn current_group(&self) -> CpuGroup {
        self.0.running.get()
    }

    /// The scheduling groups of the runtime, for creation, renaming, removal, and shares on all shards.
    pub fn groups(&self) -> &Groups {
        self.0.queue.groups()
    }

    /// Sets the shares of a group for its CPU and its I/O on this shard only, regardless of the other shards.
    /// 0 counts as 1.
    pub fn set_shares(&self, group: CpuGroup, shares: u32) {
        self.0.queue.set_own_shares(group, shares);
        self.0.io_gate.queue().borrow_mut().set_shares(group.index(), shares);
    }

    /// Limits a class to `bytes_s` bytes per second of the disk, over all shards; `None`: no limit.
    pub fn set_io_cap(&self, class: IoClass, bytes_s: Option<u64>) {
        self.0.io_gate.queue().borrow().disk().set_cap(class.index(), bytes_s);
    }

    /// Turns the bypass of scheduling on or off. With the bypass on, tasks of this shard run in the order in
    /// which they became ready, and no group is charged or checked for stalls. Requests of all shards go
    /// directly to the disk. For measurements of the cost of scheduling.
    pub fn set_scheduling_bypassed(&self, bypassed: bool) {
        self.0.queue.set_bypassed(bypassed);
        self.disk().set_bypassed(bypassed);
    }

    /// The disk, as the I/O scheduler models it.
    pub fn disk(&self) -> Arc<Disk> {
        Arc::clone(self.0.io_gate.queue().borrow().disk())
    }

    /// CPU use of each scheduling group on this shard.
    pub fn group_stats(&self) -> Vec<GroupStats> {
        self.follow_groups();
        let (queue, now_ns) = (&self.0.queue, self.0.queue.now_ns());
        let stats = |(group, name): (CpuGroup, String)| {
            let (counters, ready) = queue.counters(group.index());
            GroupStats {
                group,
                name,
                shares: queue.shares(group.index()),
                counters,
                starved_ns: counters.ready_ns.saturating_sub(counters.ran_ns),
                waited_ns: now_ns.saturating_sub(counters.ready_ns),
                ready_tasks: ready as u64,
                stalls_us: self.0.stalls.histogram(group),
            }
        };
        self.groups().list().into_iter().map(stats).collect()
    }

    /// Disk use of each I/O class from this shard.
    pub fn io_stats(&self) -> Vec<IoStats> {
        self.follow_groups();
        let queue = self.0.io_gate.queue().borrow();
        let stats = |(group, name): (CpuGroup, String)| {
            let class = group.io_class();
            let has_own = class.group() == group;
            has_own.then(|| IoStats {
                class,
                name,
                shares: queue.shares(class.index()),
                counters: *queue.stats(class.index()),
                cap_bytes_s: queue.disk().cap_bytes_s(class.index()),
            })
        };
        self.groups().list().into_iter().filter_map(stats).collect()
    }

    /// This shard's estimates for the disk, from the requests that it made.
    pub fn learned_disk(&self) -> Learned {
        self.0.io_gate.queue().borrow().learned()
    }

    /// The files that this shard can access.
    pub fn files(&self) -> &Files {
        &self.0.files
    }

    /// The network as this shard accesses it.
    pub fn net(&self) -> &Net {
        &self.0.net
    }

    /// Runs `f` as a task of `group` on `target`, which may be this shard, and returns the result.
    ///
    /// The call is sent before this function returns; dropping the future does not stop it.
    #[track_caller]
    pub fn call<T, F, Fut>(
        &self,
        target: ShardId,
        group: CpuGroup,
        f: F,
    ) -> impl Future<Output = Result<T, ShardGone>> + use<T, F, Fut>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        assert!(target < self.shard_count(), "shard {target} of {}", self.shard_count());
        let (message, reply) = call_message(group, Location::caller(), f, self.0.may_block);
        if target == self.id() {
            message(self);
        } else {
            self.0.stats.add(|stats| stats.calls_sent += 1);
            self.0.queue.send(target, Message::Call(message));
        }
        reply
    }

    /// Stores `value` as this shard's only `T`, and replaces an earlier one.
    pub fn set_local<T: 'static>(&self, value: Rc<T>) {
        let earlier = self.0.locals.borrow_mut().insert(TypeId::of::<T>(), value);
        drop(earlier);
    }

    /// This shard's `T`, if one was set.
    pub fn local<T: 'static>(&self) -> Option<Rc<T>> {
        let value = self.0.locals.borrow().get(&TypeId::of::<T>()).cloned()?;
        Some(value.downcast().expect("kept under its own type"))
    }

    /// Access to the shards of this runtime from other threads.
    pub fn remote(&self) -> Remote {
        Remote::new(Arc::clone(self.0.queue.inboxes()), Arc::clone(self.0.queue.groups()), self.0.may_block)
    }

    /// This shard's counters so far.
    pub fn stats(&self) -> ShardStats {
        let (inbox, stalls_reported) = (self.0.queue.inbox().len() as u64, self.0.stalls.reported());
        self.follow_groups();
        let queue = self.0.io_gate.queue().borrow();
        let io = std::array::from_fn(|class| {
            let ClassStats { reads, read_bytes, writes, write_bytes, .. } = *queue.stats(class);
            IoCounters { reads, read_bytes, writes, write_bytes }
        });
        ShardStats { inbox, stalls_reported, io, ..self.0.stats.get() }
    }

    pub(crate) fn stats_cell(&self) -> &Rc<StatsCell> {
        &self.0.stats
    }

    pub(crate) fn queue(&self) -> &Rc<LocalQueue> {
        &self.0.queue
    }

    /// Handles the messages in the inbox; returns their number.
    pub(crate) fn handle_messages(&self) -> usize {
        let mut messages = self.0.messages.take();
        self.0.queue.inbox().take_into(&mut messages);
        let received = messages.len();
        if received > 0 {
            self.0.stats.add(|stats| stats.inbox_max = stats.inbox_max.max(received as u64));
        }
        for message in messages.drain(..) {
            match message {
                Message::Wake(runnable) => {
                    self.0.stats.add(|stats| stats.remote_wakeups += 1);
                    self.0.queue.push(runnable, false);
                }
                Message::Call(message) => {
                    self.0.stats.add(|stats| stats.calls_received += 1);
                    message(self);
                }
            }
        }
        self.0.messages.replace(messages);
        received
    }

    /// Begins a turn: applies changed shares, fires timers, and starts I/O requests that waited. Returns the
    /// number of timers and requests.
    pub(crate) fn begin_turn(&self, now_ns: u64) -> usize {
        self.0.queue.set_now_ns(now_ns);
        self.follow_groups();
        self.0.settled.signal();
        let mut done = 0;
        if self.0.timers.next_deadline_us().is_some() {
            done += self.0.timers.fire(now_ns / 1000);
        }
        if self.0.io_gate.wake_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            done += self.0.io_gate.dispatch();
        }
        done
    }

    /// Applies changes of the table of groups.
    pub(crate) fn follow_groups(&self) {
        if let Some(renewed) = self.0.queue.follow_groups() {
            self.0.io_gate.set_shares(|index| self.0.queue.shares(index));
            let numbers = (0..u32::BITS as usize).filter(|index| renewed & 1 << index != 0);
            numbers.for_each(|index| self.0.io_gate.reset(CpuGroup::of_index(index)));
        }
    }

    /// The latest time at which a turn must begin if there is no other work.
    pub(crate) fn next_deadline_us(&self) -> Option<u64> {
        let io_us = self.0.io_gate.wake_at_ns().map(|at_ns| at_ns.div_ceil(1000));
        [self.0.timers.next_deadline_us(), io_us].into_iter().flatten().min()
    }

    /// Polls a ready task of the group that is next, and calls `after` before the time of the task is taken;
    /// `None` if no task is ready.
    pub(crate) fn run_next(&self, after: impl FnOnce()) -> Option<Ran> {
        if self.0.settled.is_awaited() && !self.0.queue.has_foreground() {
            self.0.settled.signal();
        }
        let runnable = self.0.queue.pop_next()?;
        Some(self.run(runnable, after))
    }

    /// Wakes the tasks that wait in [`Self::settled`], as [`Self::run_next`] does, for a caller that chooses
    /// the tasks. False if none waits.
    pub(crate) fn settle(&self) -> bool {
        let is_awaited = self.0.settled.is_awaited();
        self.0.settled.signal();
        is_awaited
    }

    /// Polls the ready task at `place`, and calls `after` before the time of the task is taken.
    pub(crate) fn run_at(&self, place: usize, after: impl FnOnce()) {
        if let Some(runnable) = self.0.queue.pop_at(place) {
            self.run(runnable, after);
        }
    }

    fn run(&self, runnable: Runnable, after: impl FnOnce()) -> Ran {
        let &TaskInfo { group, spawned_at } = runnable.metadata();
        self.0.stats.add(|stats| stats.polls += 1);
        self.0.running.set(group);
        if self.0.queue.is_bypassed() {
            return self.run_unwatched(runnable, after);
        }
        let goes_on = runnable.run();
        after();
        let now_ns = self.0.backend.now_ns();
        let took_ns = self.0.queue.ran(group, now_ns);
        if self.0.stalls.is_stall(took_ns) {
            self.stalled(group, spawned_at, took_ns, now_ns);
        }
        Ran { now_ns, goes_on }
    }

    /// Polls a task and reads the clock only occasionally, as often as the end of turns requires.
    fn run_unwatched(&self, runnable: Runnable, after: impl FnOnce()) -> Ran {
        let goes_on = runnable.run();
        after();
        if self.0.stats.polls().is_multiple_of(UNWATCHED_POLLS) {
            self.0.queue.set_now_ns(self.0.backend.now_ns());
        }
        Ran { now_ns: self.0.queue.now_ns(), goes_on }
    }

    #[cold]
    fn stalled(&self, group: CpuGroup, spawned_at: &'static Location<'static>, took_ns: u64, now_ns: u64) {
        if let Some(unreported) = self.0.stalls.count(group, took_ns, now_ns) {
            let group_name = self.groups().name(group).unwrap_or_default();
            let took_us = took_ns / 1000;
            let stall = Stall { shard: self.id(), group_name, took_us, spawned_at, unreported };
            log::warn!(target: "reactor", "{stall}");
        }
    }

    /// Refuses calls and drops the tasks that are here; true once no task is left. The caller has entered the
    /// shard's queue, and calls again until the result is true, because a task that another thread is waking
    /// arrives later.
    pub(crate) fn drop_tasks(&self) -> bool {
        self.0.queue.inbox().close();
        for waker in self.0.live.wakers() {
            waker.wake();
        }
        let mut messages = self.0.messages.take();
        self.0.queue.inbox().take_into(&mut messages);
        drop(messages);
        while let Some(runnable) = self.0.queue.pop_at(0) {
            drop(runnable);
        }
        self.0.queue.deliver_all();
        self.0.live.is_empty() && self.0.queue.ready_tasks() == 0
    }

    /// Drops the per-shard singletons, which may contain the shard itself.
    pub(crate) fn drop_locals(&self) {
        let locals = self.0.locals.take();
        drop(locals);
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shard({} of {})", self.id(), self.shard_count())
    }
}

/// A message that runs `f` as a task on the target shard, and the receiver of its reply.
pub(crate) fn call_message<T, F, Fut>(
    group: CpuGroup,
    called_at: &'static Location<'static>,
    f: F,
    may_block: bool,
) -> (RemoteCall, Reply<T>)
where
    T: Send + 'static,
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let (answer, reply) = reply(may_block);
    let message = Box::new(move |shard: &Shard| {
        let running = f(shard.clone());
        shard.spawn_from(group, called_at, async move { answer.send(running.await) }).detach();
    });
    (message, reply)
}

/// A task's pending result. Dropping the handle cancels the task: the shard drops its future at the next
/// opportunity.
#[must_use = "dropping the handle cancels the task; use `detach` to let it run"]
pub struct JoinHandle<T> {
    task: async_task::Task<T, TaskInfo>,
    not_send: PhantomData<Rc<()>>,
}

impl<T> JoinHandle<T> {
    /// Lets the task run without a handle.
    pub fn detach(self) {
        self.task.detach();
    }

    /// Cancels the task and waits until its future is dropped. Returns the result if the task had finished
    /// before.
    pub async fn cancel(self) -> Option<T> {
        self.task.cancel().await
    }

    /// Whether the task has finished.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle(finished: {})", self.is_finished())
    }
}

/// The live tasks of a shard, as one waker each.
#[derive(Default)]
struct LiveTasks {
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    reserved: Cell<usize>,
}

impl LiveTasks {
    fn reserve(&self) -> usize {
        self.reserved.set(self.reserved.get() + 1);
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut wakers = self.wakers.borrow_mut();
            wakers.push(None);
            wakers.len() - 1
        })
    }

    fn fill(&self, place: usize, waker: Waker) {
        self.wakers.borrow_mut()[place] = Some(waker);
    }

    fn release(&self, place: usize) {
        let waker = self.wakers.borrow_mut()[place].take();
        self.free.borrow_mut().push(place);
        self.reserved.set(self.reserved.get() - 1);
        drop(waker);
    }

    fn wakers(&self) -> Vec<Waker> {
        self.wakers.borrow().iter().flatten().cloned().collect()
    }

    fn is_empty(&self) -> bool {
        self.reserved.get() == 0
    }
}

/// A task's future, which removes itself from the list of live tasks when it is dropped.
struct Tracked<F> {
    future: F,
    place: usize,
    live: Rc<LiveTasks>,
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the whole structure: it is never moved out, `Drop` does not touch
        // it, and the type is not `packed`.
        let future = unsafe { self.map_unchecked_mut(|tracked| &mut tracked.future) };
        future.poll(context)
    }
}

impl<F> Drop for Tracked<F> {
    fn drop(&mut self) {
        self.live.release(self.place);
    }
}
