//! Where a shard's ready work waits: run queues of its own, an inbox for what others send, and an outbox.
//!
//! 1. A task woken on its own shard goes straight into that shard's run queue: no lock, no atomics.
//! 2. A task woken, or a message sent, by another shard of the runtime goes into the sender's outbox; the outbox
//!    is delivered once per turn, with one lock per target.
//! 3. Any other thread puts it into the target's inbox at once.
//! 4. Whoever puts something into an inbox rings the doorbell only if the owner has declared itself asleep.
//!
//! The thread-local `CURRENT` says which shard's code runs on this thread; in `sim`, one after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_task::Runnable;

use crate::ShardId;
use crate::group::CpuGroup;
use crate::shard::Shard;

/// Delivered at the latest when this many wait for one shard.
const OUTBOX_BATCH: usize = 128;

/// Work to be run on the shard it is delivered to.
pub(crate) type Message = Box<dyn FnOnce(&Shard) + Send>;

/// What goes from one shard or thread to a shard.
pub(crate) enum Parcel {
    Wake(CpuGroup, Runnable),
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
    groups: RefCell<[VecDeque<Runnable>; CpuGroup::ALL.len()]>,
    outbox: RefCell<Vec<Vec<Parcel>>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<LocalQueue>>> = const { RefCell::new(None) };
}

impl LocalQueue {
    pub(crate) fn new(id: ShardId, inboxes: Arc<[Arc<Inbox>]>) -> Self {
        let outbox = inboxes.iter().map(|_| Vec::new()).collect();
        Self { inboxes, id, groups: RefCell::default(), outbox: RefCell::new(outbox) }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inboxes[self.id as usize]
    }

    pub(crate) fn inboxes(&self) -> &Arc<[Arc<Inbox>]> {
        &self.inboxes
    }

    pub(crate) fn push(&self, group: CpuGroup, runnable: Runnable) {
        self.groups.borrow_mut()[group.index()].push_back(runnable);
    }

    /// The next task, taking groups in turn from `*group` on; moves `*group` past the one it came from.
    pub(crate) fn pop_round_robin(&self, group: &mut usize) -> Option<Runnable> {
        let mut groups = self.groups.borrow_mut();
        let count = groups.len();
        for step in 0..count {
            let at = (*group + step) % count;
            if let Some(runnable) = groups[at].pop_front() {
                *group = (at + 1) % count;
                return Some(runnable);
            }
        }
        None
    }

    /// The task at `place` among all ready ones.
    pub(crate) fn pop_at(&self, mut place: usize) -> Option<Runnable> {
        for group in self.groups.borrow_mut().iter_mut() {
            if place < group.len() {
                return group.remove(place);
            }
            place -= group.len();
        }
        None
    }

    pub(crate) fn ready_tasks(&self) -> usize {
        self.groups.borrow().iter().map(VecDeque::len).sum()
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
pub(crate) fn schedule(inbox: &Arc<Inbox>, group: CpuGroup, runnable: Runnable) {
    let mut homeless = Some(runnable);
    // A thread that is being torn down has no CURRENT any more; then it is nobody's shard.
    let _torn_down = CURRENT.try_with(|current| {
        let Ok(current) = current.try_borrow() else { return };
        let Some(queue) = &*current else { return };
        let Some(runnable) = homeless.take() else { return };
        if Arc::ptr_eq(queue.inbox(), inbox) {
            queue.push(group, runnable);
        } else if queue.inboxes.get(inbox.id as usize).is_some_and(|known| Arc::ptr_eq(known, inbox)) {
            queue.send(inbox.id, Parcel::Wake(group, runnable));
        } else {
            homeless = Some(runnable);
        }
    });
    if let Some(runnable) = homeless {
        inbox.deliver([Parcel::Wake(group, runnable)]);
    }
}
