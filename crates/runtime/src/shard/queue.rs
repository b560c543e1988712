//! Queues of a shard's ready work: its run queues, an inbox for messages of other shards and threads, and an
//! outbox.
//!
//! 1. A task woken on its own shard goes directly into that shard's run queue, without locks or atomics.
//! 2. A wake-up or message from another shard of the runtime goes into the sender's outbox. The outbox is
//!    delivered once per turn, with one lock per target shard.
//! 3. Any other thread puts it into the target's inbox at once.
//! 4. A sender rings the doorbell of an inbox only if the owner has declared itself asleep.
//!
//! The run queue of a group is a multi-level feedback queue with two levels. A task that was woken while it
//! ran has yielded before its work was done, and goes to the lower level. All others go to the upper level,
//! which runs first. A short request that arrives next to hundreds of long ones thus waits only for the
//! running task, and not for a turn of each of the others. After [`UPPER_IN_A_ROW`] tasks of the upper level,
//! one of the lower level runs, so neither level starves.
//!
//! The thread-local `CURRENT` is the queue of the shard whose code runs on this thread; in `sim` all shards
//! use it in turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ShardId;
use crate::cpu::{Cpu, GroupCounters};
use crate::group::{CpuGroup, GROUPS_MAX};
use crate::groups::Groups;
use crate::shard::Shard;

/// The most tasks of a group's upper level that run in a row while tasks of its lower level are ready.
const UPPER_IN_A_ROW: u32 = 8;

/// The outbox for a shard is delivered at once when it contains this number of messages.
const OUTBOX_BATCH: usize = 128;

/// A function to be run on the shard to which it is delivered.
pub(crate) type RemoteCall = Box<dyn FnOnce(&Shard) + Send>;

/// Metadata of every task.
pub(crate) struct TaskInfo {
    pub(crate) group: CpuGroup,
    pub(crate) spawned_at: &'static Location<'static>,
}

pub(crate) type Runnable = async_task::Runnable<TaskInfo>;

/// A message to a shard from another shard or thread.
pub(crate) enum Message {
    /// A woken task that was not running when it was woken.
    Wake(Runnable),
    Call(RemoteCall),
}

/// Wakes a shard that sleeps in the kernel.
pub(crate) trait Doorbell: Send + Sync {
    fn ring(&self);
}

#[derive(Default)]
struct Mailbox {
    messages: Vec<Message>,
    /// Whether calls are refused because the shard stops. Wake-ups are still accepted, since a woken task
    /// must be dropped on its own shard.
    closed: bool,
}

/// The part of a shard's queues that other threads may access.
pub(crate) struct Inbox {
    id: ShardId,
    mailbox: Mutex<Mailbox>,
    has_messages: AtomicBool,
    asleep: AtomicBool,
    doorbell: Option<Box<dyn Doorbell>>,
}

impl Inbox {
    pub(crate) fn new(id: ShardId, doorbell: Option<Box<dyn Doorbell>>) -> Self {
        Self {
            id,
            mailbox: Mutex::default(),
            has_messages: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            doorbell,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        // Under the lock, only the allocator can panic.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers messages and wakes the owner if it sleeps. Calls to a closed shard are dropped, which
    /// notifies their callers.
    pub(crate) fn deliver(&self, messages: impl IntoIterator<Item = Message>) {
        let mut refused = Vec::new();
        let mut mailbox = self.lock();
        if mailbox.closed {
            for message in messages {
                match message {
                    Message::Wake(..) => mailbox.messages.push(message),
                    Message::Call(_) => refused.push(message),
                }
            }
        } else {
            mailbox.messages.extend(messages);
        }
        self.has_messages.store(true, Ordering::Release);
        drop(mailbox);
        self.ring_if_asleep();
        drop(refused);
    }

    /// Rings the doorbell unless the owner will certainly check its inbox before it sleeps.
    ///
    /// The owner stores `asleep`, fences, and loads `has_messages`. The sender stores `has_messages`, fences,
    /// and loads `asleep`. Both fences are sequentially consistent, so at least one side sees the other's
    /// store.
    pub(crate) fn ring_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
            && let Some(doorbell) = &self.doorbell
        {
            doorbell.ring();
        }
    }

    /// Declares the owner asleep. If there are messages, returns false, and the owner stays awake.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_messages.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Acquire)
    }

    /// Number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        if self.has_messages() { self.lock().messages.len() } else { 0 }
    }

    /// Moves all messages, in order of arrival, into `messages`, which must be empty.
    pub(crate) fn take_into(&self, messages: &mut Vec<Message>) {
        assert!(messages.is_empty(), "messages are handled before more are fetched");
        if !self.has_messages() {
            return;
        }
        let mut mailbox = self.lock();
        self.has_messages.store(false, Ordering::Relaxed);
        std::mem::swap(&mut mailbox.messages, messages);
    }

    /// Refuses calls from now on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }
}

/// The part of a shard's queues that only its own thread accesses.
pub(crate) struct LocalQueue {
    inboxes: Arc<[Arc<Inbox>]>,
    id: ShardId,
    groups: Arc<Groups>,
    ready: RefCell<Ready>,
    /// The time that the run loop read last.
    now_ns: Cell<u64>,
    outbox: RefCell<Vec<Vec<Message>>>,
}

/// The ready tasks of a group. See the head of this file.
#[derive(Default)]
struct RunQueue {
    upper: VecDeque<Runnable>,
    lower: VecDeque<Runnable>,
    /// Number of tasks of the upper level that ran since the last one of the lower level, while the lower
    /// level was not empty.
    upper_in_a_row: u32,
}

impl RunQueue {
    fn len(&self) -> usize {
        self.upper.len() + self.lower.len()
    }

    fn is_empty(&self) -> bool {
        self.upper.is_empty() && self.lower.is_empty()
    }

    fn pop(&mut self) -> Option<Runnable> {
        if self.lower.is_empty() {
            self.upper_in_a_row = 0;
            return self.upper.pop_front();
        }
        if self.upper.is_empty() || self.upper_in_a_row >= UPPER_IN_A_ROW {
            self.upper_in_a_row = 0;
            return self.lower.pop_front();
        }
        self.upper_in_a_row += 1;
        self.upper.pop_front()
    }

    /// Removes the task at this position; the upper level comes first.
    fn remove(&mut self, place: usize) -> Option<Runnable> {
        match place.checked_sub(self.upper.len()) {
            None => self.upper.remove(place),
            Some(place) => self.lower.remove(place),
        }
    }

    fn drain(&mut self) -> impl Iterator<Item = Runnable> {
        self.upper.drain(..).chain(self.lower.drain(..))
    }
}

/// The ready tasks of all groups, and the scheduler that chooses among them.
struct Ready {
    queues: [RunQueue; GROUPS_MAX],
    tasks: usize,
    cpu: Cpu,
    /// Whether scheduling is bypassed: all tasks wait in the first queue, and no group is charged.
    is_bypassed: bool,
}

impl Ready {
    fn push(&mut self, runnable: Runnable, gave_way: bool, now_ns: u64) {
        self.tasks += 1;
        if self.is_bypassed {
            self.queues[0].upper.push_back(runnable);
            return;
        }
        let index = runnable.metadata().group.index();
        let queue = &mut self.queues[index];
        if gave_way {
            queue.lower.push_back(runnable)
        } else {
            queue.upper.push_back(runnable)
        }
        self.cpu.ready(index, now_ns);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<LocalQueue>>> = const { RefCell::new(None) };
}

impl LocalQueue {
    pub(crate) fn new(id: ShardId, inboxes: Arc<[Arc<Inbox>]>, groups: Arc<Groups>, quota_us: u64) -> Self {
        let outbox = inboxes.iter().map(|_| Vec::new()).collect();
        let cpu = Cpu::new(quota_us.saturating_mul(1000));
        let ready = RefCell::new(Ready { queues: Default::default(), tasks: 0, cpu, is_bypassed: false });
        Self { inboxes, id, groups, ready, now_ns: Cell::new(0), outbox: RefCell::new(outbox) }
    }

    pub(crate) fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// The time that the run loop read last.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn set_now_ns(&self, now_ns: u64) {
        self.now_ns.set(now_ns);
    }

    /// Applies changes of the table of groups, if there are any. Returns a bit for each number that was given
    /// to a new group.
    pub(crate) fn follow_groups(&self) -> Option<u32> {
        self.ready.borrow_mut().cpu.follow(&self.groups)
    }

    pub(crate) fn set_own_shares(&self, group: CpuGroup, shares: u32) {
        self.ready.borrow_mut().cpu.set_own_shares(group, shares);
    }

    pub(crate) fn shares(&self, index: usize) -> u32 {
        self.ready.borrow().cpu.shares(index)
    }

    /// The CPU use of a group so far, and the number of its ready tasks.
    pub(crate) fn counters(&self, index: usize) -> (GroupCounters, usize) {
        let ready = self.ready.borrow();
        (ready.cpu.counters(index, self.now_ns()), ready.queues[index].len())
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inboxes[self.id as usize]
    }

    pub(crate) fn inboxes(&self) -> &Arc<[Arc<Inbox>]> {
        &self.inboxes
    }

    /// Turns the bypass on or off. With the bypass on, tasks run in the order in which they became ready,
    /// regardless of their group.
    pub(crate) fn set_bypassed(&self, bypassed: bool) {
        let ready = &mut *self.ready.borrow_mut();
        if std::mem::replace(&mut ready.is_bypassed, bypassed) == bypassed {
            return;
        }
        let waiting: Vec<Runnable> = ready.queues.iter_mut().flat_map(RunQueue::drain).collect();
        ready.tasks = 0;
        (0..GROUPS_MAX).for_each(|index| ready.cpu.idle(index, self.now_ns()));
        waiting.into_iter().for_each(|runnable| ready.push(runnable, false, self.now_ns()));
    }

    pub(crate) fn is_bypassed(&self) -> bool {
        self.ready.borrow().is_bypassed
    }

    /// Adds a ready task. `gave_way`: it yielded, i.e. it was woken while it ran.
    pub(crate) fn push(&self, runnable: Runnable, gave_way: bool) {
        self.ready.borrow_mut().push(runnable, gave_way, self.now_ns());
    }

    /// Whether the next task belongs to this group too, or scheduling by groups is bypassed.
    pub(crate) fn continues_with(&self, group: CpuGroup) -> bool {
        let ready = self.ready.borrow();
        ready.is_bypassed || ready.cpu.next() == Some(group.index())
    }

    /// Removes the task that runs next.
    pub(crate) fn pop_next(&self) -> Option<Runnable> {
        let ready = &mut *self.ready.borrow_mut();
        let index = if ready.is_bypassed { 0 } else { ready.cpu.next()? };
        let runnable = ready.queues[index].pop();
        ready.tasks -= usize::from(runnable.is_some());
        runnable
    }

    /// Removes the task at `place` among all ready ones.
    pub(crate) fn pop_at(&self, mut place: usize) -> Option<Runnable> {
        let ready = &mut *self.ready.borrow_mut();
        for queue in &mut ready.queues {
            if place < queue.len() {
                ready.tasks -= 1;
                return queue.remove(place);
            }
            place -= queue.len();
        }
        None
    }

    /// Charges `group` for a task that ran from the last reading of the clock to `now_ns`. Returns the time
    /// that it took, in nanoseconds.
    pub(crate) fn ran(&self, group: CpuGroup, now_ns: u64) -> u64 {
        let ready = &mut *self.ready.borrow_mut();
        let from_ns = self.now_ns.replace(now_ns);
        let still_ready = !ready.queues[group.index()].is_empty();
        ready.cpu.ran(group.index(), from_ns, now_ns, still_ready);
        now_ns.saturating_sub(from_ns)
    }

    /// Whether a task for which clients wait is ready and has not yielded before.
    pub(crate) fn has_foreground(&self) -> bool {
        let ready = self.ready.borrow();
        let counts = |index: usize| ready.is_bypassed || CpuGroup::of_index(index).is_foreground();
        ready.queues.iter().enumerate().any(|(index, queue)| !queue.upper.is_empty() && counts(index))
    }

    pub(crate) fn ready_tasks(&self) -> usize {
        self.ready.borrow().tasks
    }

    /// Puts a message for another shard into the outbox.
    pub(crate) fn send(&self, target: ShardId, message: Message) {
        let full = {
            let mut outbox = self.outbox.borrow_mut();
            let waiting = &mut outbox[target as usize];
            waiting.push(message);
            waiting.len() >= OUTBOX_BATCH
        };
        if full {
            self.deliver_to(target);
        }
    }

    /// Delivers the outbox.
    pub(crate) fn deliver_all(&self) {
        for target in 0..self.inboxes.len() as ShardId {
            self.deliver_to(target);
        }
    }

    fn deliver_to(&self, target: ShardId) {
        let mut messages = {
            let mut outbox = self.outbox.borrow_mut();
            let waiting = &mut outbox[target as usize];
            if waiting.is_empty() {
                return;
            }
            std::mem::take(waiting)
        };
        self.inboxes[target as usize].deliver(messages.drain(..));
        // The allocation is reused for the next batch, unless a refused call that was dropped has filled the
        // outbox meanwhile.
        let mut outbox = self.outbox.borrow_mut();
        if outbox[target as usize].capacity() == 0 {
            outbox[target as usize] = messages;
        }
    }

    /// Declares that code of this shard runs on this thread, until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        Entered { previous: CURRENT.replace(Some(Rc::clone(self))) }
    }
}

/// Whether code of a shard runs on this thread now.
pub(crate) fn on_a_shard() -> bool {
    CURRENT.try_with(|current| current.borrow().is_some()).unwrap_or(false)
}

/// The shard whose code runs on this thread now.
pub(crate) fn current_shard() -> Option<ShardId> {
    CURRENT.try_with(|current| Some(current.try_borrow().ok()?.as_ref()?.id)).unwrap_or(None)
}

/// Restores the previous value of `CURRENT`.
pub(crate) struct Entered {
    previous: Option<Rc<LocalQueue>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
    }
}

/// Queues a woken task for its shard; called by wakers on any thread. A task that was woken while it ran is
/// queued by its own shard after the poll.
pub(crate) fn schedule(inbox: &Arc<Inbox>, runnable: Runnable, gave_way: bool) {
    let mut homeless = Some(runnable);
    // `CURRENT` no longer exists on a thread that is being torn down. Such a thread counts as outside the
    // runtime.
    let _torn_down = CURRENT.try_with(|current| {
        let Ok(current) = current.try_borrow() else { return };
        let Some(queue) = &*current else { return };
        let Some(runnable) = homeless.take() else { return };
        if Arc::ptr_eq(queue.inbox(), inbox) {
            queue.push(runnable, gave_way);
        } else if queue.inboxes.get(inbox.id as usize).is_some_and(|known| Arc::ptr_eq(known, inbox)) {
            queue.send(inbox.id, Message::Wake(runnable));
        } else {
            homeless = Some(runnable);
        }
    });
    if let Some(runnable) = homeless {
        inbox.deliver([Message::Wake(runnable)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that does nothing, identified by its number.
    fn task(number: usize) -> Runnable {
        let info = TaskInfo { group: CpuGroup::of_index(number), spawned_at: Location::caller() };
        let (runnable, task) = async_task::Builder::new().metadata(info).spawn_local(|_| async {}, drop);
        task.detach();
        runnable
    }

    fn number(runnable: &Runnable) -> usize {
        runnable.metadata().group.index()
    }

    #[test]
    fn tasks_that_yielded_run_after_others_and_are_not_forgotten() {
        let mut queue = RunQueue::default();
        (0..3).for_each(|_| queue.lower.push_back(task(1)));
        (0..20).for_each(|_| queue.upper.push_back(task(0)));
        let order: String =
            std::iter::from_fn(|| queue.pop()).map(|task| number(&task).to_string()).collect();
        assert_eq!(order, "00000000100000000100001");
        // While the lower level is empty, tasks of the upper level are not counted.
        (0..9).for_each(|_| queue.upper.push_back(task(0)));
        (0..9).for_each(|_| assert!(queue.pop().is_some()));
        queue.lower.push_back(task(1));
        queue.upper.push_back(task(0));
        assert_eq!(queue.pop().as_ref().map(number), Some(0));
        assert_eq!((queue.len(), queue.is_empty()), (1, false));
    }

    #[test]
    fn tasks_are_counted_and_found_over_both_levels() {
        let mut queue = RunQueue::default();
        queue.lower.push_back(task(2));
        queue.upper.extend([task(0), task(1)]);
        assert_eq!(queue.remove(2).as_ref().map(number), Some(2));
        assert_eq!(queue.remove(1).as_ref().map(number), Some(1));
        assert!(queue.remove(1).is_none());
        assert_eq!(queue.drain().map(|task| number(&task)).collect::<Vec<_>>(), [0]);
        assert!(queue.is_empty());
    }
}
