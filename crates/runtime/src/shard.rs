//! The handle to the shard that code runs on: spawn, sleep, call other shards, per-shard singletons.
//!
//! A task is made once, lives in one allocation (`async_task`) and never leaves its shard. The shard knows all its
//! live tasks by a waker each, so that stopping drops every future, wherever it waits.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::HashMap;

use crate::ShardId;
use crate::backend::Backend;
use crate::files::Files;
use crate::group::CpuGroup;
use crate::net::Net;
use crate::queue::{self, LocalQueue, Message, Parcel};
use crate::remote::Remote;
use crate::reply::{Reply, ShardGone, reply};
use crate::stats::{ShardStats, StatsCell};
use crate::timer::{Sleep, Timers};

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
    next_group: Cell<usize>,
    /// Whether a thread may block on replies: false in a simulated world, which runs on that thread.
    may_block: bool,
}

/// The shard this code runs on. Cheap to clone; cannot leave its thread.
#[derive(Clone)]
pub struct Shard(Rc<Inner>);

impl Shard {
    pub(crate) fn new(queue: Rc<LocalQueue>, id: ShardId, backend: Rc<dyn Backend>, may_block: bool) -> Self {
        let (stats, timers) = (Rc::new(StatsCell::default()), Rc::new(Timers::default()));
        Self(Rc::new(Inner {
            id,
            queue,
            files: Files::new(Rc::clone(&backend), Rc::clone(&stats)),
            net: Net::new(Rc::clone(&backend), Rc::clone(&timers), Rc::clone(&stats)),
            timers,
            backend,
            stats,
            live: Rc::default(),
            locals: RefCell::default(),
            mail: RefCell::default(),
            next_group: Cell::new(0),
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
    pub fn spawn<T: 'static>(
        &self,
        group: CpuGroup,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let inbox = Arc::clone(self.0.queue.inbox());
        let place = self.0.live.reserve();
        let tracked = Tracked { future, place, live: Rc::clone(&self.0.live) };
        let schedule = move |runnable| queue::schedule(&inbox, group, runnable);
        let (runnable, task) = async_task::Builder::new().spawn_local(move |()| tracked, schedule);
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

    /// True once the current turn has used its quota: save the state and `yield_now`.
    pub fn need_preempt(&self) -> bool {
        self.0.backend.need_preempt()
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
        let (message, reply) = call_message(group, f, self.0.may_block);
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
        Remote::new(Arc::clone(self.0.queue.inboxes()), self.0.may_block)
    }

    /// This shard's counters so far.
    pub fn stats(&self) -> ShardStats {
        ShardStats { inbox: self.0.queue.inbox().len() as u64, ..self.0.stats.get() }
    }

    pub(crate) fn stats_cell(&self) -> &Rc<StatsCell> {
        &self.0.stats
    }

    pub(crate) fn queue(&self) -> &Rc<LocalQueue> {
        &self.0.queue
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.0.timers
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
                Parcel::Wake(group, runnable) => {
                    self.0.stats.add(|stats| stats.remote_wakeups += 1);
                    self.0.queue.push(group, runnable);
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

    /// Polls the next ready task, taking the groups in turn; false if none is ready.
    pub(crate) fn run_next(&self) -> bool {
        let mut group = self.0.next_group.get();
        let Some(runnable) = self.0.queue.pop_round_robin(&mut group) else { return false };
        self.0.next_group.set(group);
        self.0.stats.add(|stats| stats.polls += 1);
        runnable.run();
        true
    }

    /// Polls the ready task at `place`.
    pub(crate) fn run_at(&self, place: usize) {
        if let Some(runnable) = self.0.queue.pop_at(place) {
            self.0.stats.add(|stats| stats.polls += 1);
            runnable.run();
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
pub(crate) fn call_message<T, F, Fut>(group: CpuGroup, f: F, may_block: bool) -> (Message, Reply<T>)
where
    T: Send + 'static,
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let (answer, reply) = reply(may_block);
    let message = Box::new(move |shard: &Shard| {
        let running = f(shard.clone());
        shard.spawn(group, async move { answer.send(running.await) }).detach();
    });
    (message, reply)
}

/// A task's result to come. Dropping it cancels the task: its future is dropped when the shard gets to it.
#[must_use = "dropping the handle cancels the task; use `detach` to let it run"]
pub struct JoinHandle<T> {
    task: async_task::Task<T>,
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
