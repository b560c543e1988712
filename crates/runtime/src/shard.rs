//! The handle to the shard that code runs on: spawn, sleep, call other shards, per-shard singletons.
//!
//! A task is made once, lives in one allocation (`async_task`) and never leaves its shard. The shard knows all its
//! live tasks by a waker each, so that stopping drops every future, wherever it waits.

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

use base::HashMap;
use iosched::{ClassStats, Disk, IoQueue, Learned};

use crate::ShardId;
use crate::backend::Backend;
use crate::files::Files;
use crate::group::{CpuGroup, IoClass};
use crate::groups::Groups;
use crate::io_gate::IoGate;
use crate::net::Net;
use crate::queue::{self, LocalQueue, Message, Parcel, Runnable, TaskInfo};
use crate::remote::Remote;
use crate::reply::{Reply, ShardGone, reply};
use crate::stall::{Stall, StallDetector, StallOptions};
use crate::stats::{GroupStats, IoCounters, IoStats, ShardStats, StatsCell};
use crate::timer::{Sleep, Timers};

/// Between two looks at the clock where scheduling is bypassed.
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
    mail: RefCell<Vec<Parcel>>,
    io_gate: Rc<IoGate>,
    stalls: StallDetector,
    running: Cell<CpuGroup>,
    /// Whether a thread may block on replies: false in a simulated world, which runs on that thread.
    may_block: bool,
}

/// A poll that has ended.
pub(crate) struct Ran {
    pub(crate) now_ns: u64,
    /// The task was woken while it ran, most often by itself, and is ready again.
    pub(crate) goes_on: bool,
}

/// The shard this code runs on. Cheap to clone; cannot leave its thread.
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
        Self(Rc::new(Inner {
            id,
            queue,
            files: Files::new(Rc::clone(&backend), Rc::clone(&io_gate)),
            net: Net::new(Rc::clone(&backend), Rc::clone(&timers), Rc::clone(&stats)),
            timers,
            backend,
            stats,
            live: Rc::default(),
            locals: RefCell::default(),
            mail: RefCell::default(),
            io_gate,
            stalls: StallDetector::new(stalls),
            running: Cell::new(CpuGroup::Background),
            may_block,
        }))
    }

    /// This shard's number.
    pub fn id(&self) -> ShardId {
        self.0.id
    }

    /// How many shards the runtime has.
    pub fn shard_count(&self) -> u32 {
        self.0.queue.inboxes().len() as u32
    }

    /// Microseconds on a clock that never goes back; all shards of a runtime share its zero.
    pub fn now_us(&self) -> u64 {
        self.0.backend.now_us()
    }

    /// Microseconds since the Unix epoch, as the machine believes. May jump.
    pub fn wall_us(&self) -> i64 {
        self.0.backend.wall_us()
    }

    /// A random number; from the seed in a simulated world. Not for secrets.
    pub fn random_u64(&self) -> u64 {
        self.0.backend.random_u64()
    }

    /// Starts `future` as a task of `group` on this shard. Dropping the handle cancels it.
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
        let schedule = move |runnable| queue::schedule(&inbox, runnable);
        let task = async_task::Builder::new().metadata(TaskInfo { group, spawned_at });
        let (runnable, task) = task.spawn_local(move |_| tracked, schedule);
        self.0.live.fill(place, runnable.waker());
        self.0.stats.add(|stats| stats.spawned += 1);
        runnable.schedule();
        JoinHandle { task, not_send: PhantomData }
    }

    /// Resolves after `us` microseconds (not before).
    pub fn sleep_us(&self, us: u64) -> impl Future<Output = ()> + 'static {
        Sleep {
            timers: Rc::clone(&self.0.timers),
            backend: Rc::clone(&self.0.backend),
            deadline_us: self.now_us().saturating_add(us),
            key: None,
        }
    }

    /// Lets the other ready tasks of this shard go first.
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

    /// True once the current turn has used its quota, or I/O has completed during a long poll: save the state and `yield_now`.
    pub fn need_preempt(&self) -> bool {
        self.0.backend.need_preempt()
    }

    /// The group of the task that runs now.
    pub fn current_group(&self) -> CpuGroup {
        self.0.running.get()
    }

    /// The scheduling groups of the runtime: to create, rename, remove, and to give shares on all shards.
    pub fn groups(&self) -> &Groups {
        self.0.queue.groups()
    }

    /// Shares of a group on this shard only, for its CPU and its I/O, whatever they are elsewhere. 0 counts as 1.
    pub fn set_shares(&self, group: CpuGroup, shares: u32) {
        self.0.queue.set_own_shares(group, shares);
        self.0.io_gate.queue().borrow_mut().set_shares(group.index(), shares);
    }

    /// A class may use so many bytes per second of the disk, of all shards together; `None`: no limit.
    pub fn set_io_cap(&self, class: IoClass, bytes_s: Option<u64>) {
        self.0.io_gate.queue().borrow().disk().set_cap(class.index(), bytes_s);
    }

    /// From now on tasks run in the order in which they became ready and nobody is charged or watched for stalls, and requests go straight to the
    /// disk, for all shards; or no longer. To measure what scheduling costs.
    pub fn set_scheduling_bypassed(&self, bypassed: bool) {
        self.0.queue.set_bypassed(bypassed);
        self.disk().set_bypassed(bypassed);
    }

    /// The disk, as the I/O scheduler knows it.
    pub fn disk(&self) -> Arc<Disk> {
        Arc::clone(self.0.io_gate.queue().borrow().disk())
    }

    /// What each scheduling group used of this shard.
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

    /// What each I/O class used of the disk, from this shard.
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

    /// What this shard has learned of the disk from the requests it had.
    pub fn learned_disk(&self) -> Learned {
        self.0.io_gate.queue().borrow().learned()
    }

    /// The files this shard sees.
    pub fn files(&self) -> &Files {
        &self.0.files
    }

    /// The network this shard sees.
    pub fn net(&self) -> &Net {
        &self.0.net
    }

    /// Runs `f` as a task of `group` on `target` (which may be this shard) and brings the result back.
    ///
    /// The call is on its way when this returns; dropping the future does not stop it.
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
            self.0.queue.send(target, Parcel::Call(message));
        }
        reply
    }

    /// Keeps `value` as this shard's only `T`, in place of an earlier one.
    pub fn set_local<T: 'static>(&self, value: Rc<T>) {
        let earlier = self.0.locals.borrow_mut().insert(TypeId::of::<T>(), value);
        drop(earlier);
    }

    /// This shard's `T`, if one was set.
    pub fn local<T: 'static>(&self) -> Option<Rc<T>> {
        let value = self.0.locals.borrow().get(&TypeId::of::<T>()).cloned()?;
        Some(value.downcast().expect("kept under its own type"))
    }

    /// How other threads reach the shards of this runtime.
    pub fn remote(&self) -> Remote {
        Remote::new(Arc::clone(self.0.queue.inboxes()), Arc::clone(self.0.queue.groups()), self.0.may_block)
    }

    /// This shard's counters so far.
    pub fn stats(&self) -> ShardStats {
        let (inbox, stalls_told) = (self.0.queue.inbox().len() as u64, self.0.stalls.told());
        self.follow_groups();
        let queue = self.0.io_gate.queue().borrow();
        let io = std::array::from_fn(|class| {
            let ClassStats { reads, read_bytes, writes, write_bytes, .. } = *queue.stats(class);
            IoCounters { reads, read_bytes, writes, write_bytes }
        });
        ShardStats { inbox, stalls_told, io, ..self.0.stats.get() }
    }

    pub(crate) fn stats_cell(&self) -> &Rc<StatsCell> {
        &self.0.stats
    }

    pub(crate) fn queue(&self) -> &Rc<LocalQueue> {
        &self.0.queue
    }

    /// Takes in what others sent; returns how much.
    pub(crate) fn handle_mail(&self) -> usize {
        let mut mail = self.0.mail.take();
        self.0.queue.inbox().take_into(&mut mail);
        let received = mail.len();
        if received > 0 {
            self.0.stats.add(|stats| stats.inbox_max = stats.inbox_max.max(received as u64));
        }
        for parcel in mail.drain(..) {
            match parcel {
                Parcel::Wake(runnable) => {
                    self.0.stats.add(|stats| stats.remote_wakeups += 1);
                    self.0.queue.push(runnable);
                }
                Parcel::Call(message) => {
                    self.0.stats.add(|stats| stats.calls_received += 1);
                    message(self);
                }
            }
        }
        self.0.mail.replace(mail);
        received
    }

    /// What a turn begins with: changed shares are taken over, timers fired, I/O let go; how much.
    pub(crate) fn begin_turn(&self, now_ns: u64) -> usize {
        self.0.queue.set_now_ns(now_ns);
        self.follow_groups();
        let mut done = 0;
        if self.0.timers.next_deadline_us().is_some() {
            done += self.0.timers.fire(now_ns / 1000);
        }
        if self.0.io_gate.wake_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            done += self.0.io_gate.dispatch();
        }
        done
    }

    /// Takes over what changed in the table of groups.
    pub(crate) fn follow_groups(&self) {
        if let Some(renewed) = self.0.queue.follow_groups() {
            self.0.io_gate.set_shares(|index| self.0.queue.shares(index));
            let numbers = (0..u32::BITS as usize).filter(|index| renewed & 1 << index != 0);
            numbers.for_each(|index| self.0.io_gate.reset(CpuGroup::of_index(index)));
        }
    }

    /// When a turn must begin at the latest, with nothing else to do.
    pub(crate) fn next_deadline_us(&self) -> Option<u64> {
        let io_us = self.0.io_gate.wake_at_ns().map(|at_ns| at_ns.div_ceil(1000));
        [self.0.timers.next_deadline_us(), io_us].into_iter().flatten().min()
    }

    /// Polls the ready task whose group's turn it is, and does `after` before its time ends; `None` if none is ready.
    pub(crate) fn run_next(&self, after: impl FnOnce()) -> Option<Ran> {
        let runnable = self.0.queue.pop_next()?;
        Some(self.run(runnable, after))
    }

    /// Polls the ready task at `place`, and does `after` before its time ends.
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

    /// Polls a task and leaves the clock alone, but once in a while, since turns must end.
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
        if let Some(not_told) = self.0.stalls.count(group, took_ns, now_ns) {
            let group_name = self.groups().name(group).unwrap_or_default();
            let took_us = took_ns / 1000;
            self.0.stalls.tell(&Stall { shard: self.id(), group, group_name, took_us, spawned_at, not_told });
        }
    }

    /// Refuses calls and drops what is here of tasks; true once no task is left. The caller has entered the shard's
    /// queue and calls again until true: a task just being woken by another thread arrives a moment later.
    pub(crate) fn drop_tasks(&self) -> bool {
        self.0.queue.inbox().close();
        for waker in self.0.live.wakers() {
            waker.wake();
        }
        let mut mail = self.0.mail.take();
        self.0.queue.inbox().take_into(&mut mail);
        drop(mail);
        while let Some(runnable) = self.0.queue.pop_at(0) {
            drop(runnable);
        }
        self.0.queue.deliver_all();
        self.0.live.is_empty() && self.0.queue.ready_tasks() == 0
    }

    /// Drops the per-shard singletons, which may hold the shard itself.
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

/// A message that runs `f` as a task where it arrives, and where its answer will be seen.
pub(crate) fn call_message<T, F, Fut>(
    group: CpuGroup,
    called_at: &'static Location<'static>,
    f: F,
    may_block: bool,
) -> (Message, Reply<T>)
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

/// A task's result to come. Dropping it cancels the task: its future is dropped when the shard gets to it.
#[must_use = "dropping the handle cancels the task; use `detach` to let it run"]
pub struct JoinHandle<T> {
    task: async_task::Task<T, TaskInfo>,
    not_send: PhantomData<Rc<()>>,
}

impl<T> JoinHandle<T> {
    /// Lets the task run on without a handle.
    pub fn detach(self) {
        self.task.detach();
    }

    /// Cancels the task and waits until its future is dropped; gives the result if it had finished before.
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

/// The live tasks of a shard, each by a waker.
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

/// A task's future, which leaves the list of live tasks when it is dropped.
struct Tracked<F> {
    future: F,
    place: usize,
    live: Rc<LiveTasks>,
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the whole: it is never moved out, `Drop` does not touch it, and the type
        // is not `packed`.
        let future = unsafe { self.map_unchecked_mut(|tracked| &mut tracked.future) };
        future.poll(context)
    }
}

impl<F> Drop for Tracked<F> {
    fn drop(&mut self) {
        self.live.release(self.place);
    }
}
