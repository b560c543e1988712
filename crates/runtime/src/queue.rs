//! Where a shard's ready work waits: run queues of its own, an inbox for what others send, and an outbox.
//!
//! 1. A task woken on its own shard goes straight into that shard's run queue: no lock, no atomics.
//! 2. A task woken, or a message sent, by another shard of the runtime goes into the sender's outbox; the outbox
//!    is delivered once per turn, with one lock per target.
//! 3. Any other thread puts it into the target's inbox at once.
//! 4. Whoever puts something into an inbox rings the doorbell only if the owner has declared itself asleep.
//!
//! The thread-local `CURRENT` says which shard's code runs on this thread; in `sim`, one after the other.

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

/// Delivered at the latest when this many wait for one shard.
const OUTBOX_BATCH: usize = 128;

/// Work to be run on the shard it is delivered to.
pub(crate) type Message = Box<dyn FnOnce(&Shard) + Send>;

/// What every task carries.
pub(crate) struct TaskInfo {
    pub(crate) group: CpuGroup,
    pub(crate) spawned_at: &'static Location<'static>,
}

pub(crate) type Runnable = async_task::Runnable<TaskInfo>;

/// What goes from one shard or thread to a shard.
pub(crate) enum Parcel {
    Wake(Runnable),
    Call(Message),
}

/// Wakes a shard that sleeps in the kernel.
pub(crate) trait Doorbell: Send + Sync {
    fn ring(&self);
}

#[derive(Default)]
struct Letters {
    parcels: Vec<Parcel>,
    /// No more calls: the shard stops. Wake-ups still arrive, since a woken task must be dropped at home.
    closed: bool,
}

/// The part of a shard that other threads may touch.
pub(crate) struct Inbox {
    id: ShardId,
    letters: Mutex<Letters>,
    has_mail: AtomicBool,
    asleep: AtomicBool,
    doorbell: Option<Box<dyn Doorbell>>,
}

impl Inbox {
    pub(crate) fn new(id: ShardId, doorbell: Option<Box<dyn Doorbell>>) -> Self {
        Self {
            id,
            letters: Mutex::default(),
            has_mail: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            doorbell,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        // Nothing that can panic runs under the lock but the allocator.
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts parcels in and wakes the owner if it sleeps. Calls to a closed shard are dropped, which tells
    /// their callers.
    pub(crate) fn deliver(&self, parcels: impl IntoIterator<Item = Parcel>) {
        let mut refused = Vec::new();
        let mut letters = self.lock();
        if letters.closed {
            for parcel in parcels {
                match parcel {
                    Parcel::Wake(..) => letters.parcels.push(parcel),
                    Parcel::Call(_) => refused.push(parcel),
                }
            }
        } else {
            letters.parcels.extend(parcels);
        }
        self.has_mail.store(true, Ordering::Release);
        drop(letters);
        self.ring_if_asleep();
        drop(refused);
    }

    /// Rings unless the owner is sure to look before it sleeps.
    ///
    /// The owner stores `asleep`, fences, and loads `has_mail`; we stored `has_mail`, fence, and load `asleep`.
    /// With both fences sequentially consistent at least one of the two sees the other's store.
    pub(crate) fn ring_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
            && let Some(doorbell) = &self.doorbell
        {
            doorbell.ring();
        }
    }

    /// Declares the owner asleep; false (and awake) if there is mail.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_mail.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// How many parcels wait.
    pub(crate) fn len(&self) -> usize {
        if self.has_mail() { self.lock().parcels.len() } else { 0 }
    }

    /// Takes everything out, in order of arrival, into `parcels`, which must be empty.
    pub(crate) fn take_into(&self, parcels: &mut Vec<Parcel>) {
        assert!(parcels.is_empty(), "mail is handled before more is fetched");
        if !self.has_mail() {
            return;
        }
        let mut letters = self.lock();
        self.has_mail.store(false, Ordering::Relaxed);
        std::mem::swap(&mut letters.parcels, parcels);
    }

    /// Refuses calls from now on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }
}

/// The part of a shard's queues that only its own thread touches.
pub(crate) struct LocalQueue {
    inboxes: Arc<[Arc<Inbox>]>,
    id: ShardId,
    groups: Arc<Groups>,
    ready: RefCell<Ready>,
    /// The clock as the run loop has read it last.
    now_ns: Cell<u64>,
    outbox: RefCell<Vec<Vec<Parcel>>>,
}

/// The ready tasks of each group, and who of them runs next.
struct Ready {
    queues: [VecDeque<Runnable>; GROUPS_MAX],
    tasks: usize,
    cpu: Cpu,
    /// All wait in the first queue, and nobody is charged.
    is_bypassed: bool,
}

impl Ready {
    fn push(&mut self, runnable: Runnable, now_ns: u64) {
        self.tasks += 1;
        if self.is_bypassed {
            self.queues[0].push_back(runnable);
            return;
        }
        let index = runnable.metadata().group.index();
        self.queues[index].push_back(runnable);
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

    /// The clock as the run loop has read it last.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn set_now_ns(&self, now_ns: u64) {
        self.now_ns.set(now_ns);
    }

    /// Takes changes of the groups over, if there are any: a bit for each number that has a new group.
    pub(crate) fn follow_groups(&self) -> Option<u32> {
        self.ready.borrow_mut().cpu.follow(&self.groups)
    }

    pub(crate) fn set_own_shares(&self, group: CpuGroup, shares: u32) {
        self.ready.borrow_mut().cpu.set_own_shares(group, shares);
    }

    pub(crate) fn shares(&self, index: usize) -> u32 {
        self.ready.borrow().cpu.shares(index)
    }

    /// What a group used so far, and how many of its tasks are ready.
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

    /// From now on tasks run in the order in which they became ready, whatever their group, or no longer.
    pub(crate) fn set_bypassed(&self, bypassed: bool) {
        let ready = &mut *self.ready.borrow_mut();
        if std::mem::replace(&mut ready.is_bypassed, bypassed) == bypassed {
            return;
        }
        let waiting: Vec<Runnable> = ready.queues.iter_mut().flat_map(|queue| queue.drain(..)).collect();
        ready.tasks = 0;
        (0..GROUPS_MAX).for_each(|index| ready.cpu.idle(index, self.now_ns()));
        waiting.into_iter().for_each(|runnable| ready.push(runnable, self.now_ns()));
    }

    pub(crate) fn is_bypassed(&self) -> bool {
        self.ready.borrow().is_bypassed
    }

    pub(crate) fn push(&self, runnable: Runnable) {
        self.ready.borrow_mut().push(runnable, self.now_ns());
    }

    /// Whether the next task is of this group too, or nobody asks for groups.
    pub(crate) fn goes_on_with(&self, group: CpuGroup) -> bool {
        let ready = self.ready.borrow();
        ready.is_bypassed || ready.cpu.next() == Some(group.index())
    }

    /// The task that runs next.
    pub(crate) fn pop_next(&self) -> Option<Runnable> {
        let ready = &mut *self.ready.borrow_mut();
        let index = if ready.is_bypassed { 0 } else { ready.cpu.next()? };
        let runnable = ready.queues[index].pop_front();
        ready.tasks -= usize::from(runnable.is_some());
        runnable
    }

    /// The task at `place` among all ready ones.
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

    /// A task of `group` has run since the clock was read last, and now it is `now_ns`. How long it took.
    pub(crate) fn ran(&self, group: CpuGroup, now_ns: u64) -> u64 {
        let ready = &mut *self.ready.borrow_mut();
        let from_ns = self.now_ns.replace(now_ns);
        let still_ready = !ready.queues[group.index()].is_empty();
        ready.cpu.ran(group.index(), from_ns, now_ns, still_ready);
        now_ns.saturating_sub(from_ns)
    }

    pub(crate) fn ready_tasks(&self) -> usize {
        self.ready.borrow().tasks
    }

    /// Puts a parcel for another shard into the outbox.
    pub(crate) fn send(&self, target: ShardId, parcel: Parcel) {
        let full = {
            let mut outbox = self.outbox.borrow_mut();
            let waiting = &mut outbox[target as usize];
            waiting.push(parcel);
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
        let mut parcels = {
            let mut outbox = self.outbox.borrow_mut();
            let waiting = &mut outbox[target as usize];
            if waiting.is_empty() {
                return;
            }
            std::mem::take(waiting)
        };
        self.inboxes[target as usize].deliver(parcels.drain(..));
        // Give the room back for the next batch, unless dropping a refused call filled it meanwhile.
        let mut outbox = self.outbox.borrow_mut();
        if outbox[target as usize].capacity() == 0 {
            outbox[target as usize] = parcels;
        }
    }

    /// Says that this shard's code runs on this thread, until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        Entered { previous: CURRENT.replace(Some(Rc::clone(self))) }
    }
}

/// Whether a shard's code runs on this thread now.
pub(crate) fn on_a_shard() -> bool {
    CURRENT.try_with(|current| current.borrow().is_some()).unwrap_or(false)
}

/// Restores who ran on this thread before.
pub(crate) struct Entered {
    previous: Option<Rc<LocalQueue>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
    }
}

/// Puts a woken task where its shard will find it; called by wakers on any thread.
pub(crate) fn schedule(inbox: &Arc<Inbox>, runnable: Runnable) {
    let mut homeless = Some(runnable);
    // A thread that is being torn down has no CURRENT any more; then it is nobody's shard.
    let _torn_down = CURRENT.try_with(|current| {
        let Ok(current) = current.try_borrow() else { return };
        let Some(queue) = &*current else { return };
        let Some(runnable) = homeless.take() else { return };
        if Arc::ptr_eq(queue.inbox(), inbox) {
            queue.push(runnable);
        } else if queue.inboxes.get(inbox.id as usize).is_some_and(|known| Arc::ptr_eq(known, inbox)) {
            queue.send(inbox.id, Parcel::Wake(runnable));
        } else {
            homeless = Some(runnable);
        }
    });
    if let Some(runnable) = homeless {
        inbox.deliver([Parcel::Wake(runnable)]);
    }
}
