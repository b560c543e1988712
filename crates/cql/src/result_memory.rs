//! Memory accounting of the results that a shard is building. Pages and small results share one limit; large
//! unpaged results share another.
//!
//! The buffers of a read are charged to the read. The cells that a result gathers from several reads of
//! storage are charged here.
//!
//! - A page, or an unpaged result of at most [`SMALL_RESULT_BYTES`], waits for free memory before it starts.
//!   Once started it is finished.
//! - An unpaged result that grows larger holds a reservation of the [`ResultQueue`]. If the queue has no
//!   memory for it, the result is dropped ([`Growth::GiveBack`]), waits for its turn
//!   ([`ResultCharge::turn`]), and is gathered again. The first reservation is as large as recent large
//!   results were, so a result rarely waits twice.
//!
//! The reservation of a large result lives until the client has received the result. A result that holds
//! memory therefore never waits for memory, and the large results of all connections together stay within the
//! limit even if clients are slow.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::result_queue::{Reserved, ResultQueue, Ticket};

/// Largest size in bytes of an unpaged result that needs no reservation.
pub const SMALL_RESULT_BYTES: u64 = 256 << 10;

/// See the head of this file. Belongs to one shard.
#[derive(Debug)]
pub struct ResultMemory {
    limit_bytes: u64,
    /// Bytes of pages and small results.
    used_bytes: Cell<u64>,
    /// Pages and small results that wait for free memory.
    waiting: RefCell<Vec<Waker>>,
    large: RefCell<LargeResults>,
}

#[derive(Debug)]
struct LargeResults {
    queue: ResultQueue,
    /// Expected size of the next large result: a maximum of the recent sizes that decays by an eighth with
    /// each result.
    expected_bytes: u64,
    /// Wakers of the results that wait for admission.
    wakers: BTreeMap<Ticket, Waker>,
    /// Tickets that were admitted, with the bytes reserved for them, until the task of the result resumes.
    granted: BTreeMap<Ticket, u64>,
}

impl ResultMemory {
    /// `limit_bytes` applies to pages and small results, and separately to large results.
    pub fn new(limit_bytes: u64) -> Rc<Self> {
        let large = LargeResults {
            queue: ResultQueue::new(limit_bytes),
            expected_bytes: 0,
            wakers: BTreeMap::new(),
            granted: BTreeMap::new(),
        };
        Rc::new(Self {
            limit_bytes,
            used_bytes: Cell::new(0),
            waiting: RefCell::default(),
            large: RefCell::new(large),
        })
    }

    /// Bytes in use by pages and small results.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.get()
    }

    /// Bytes reserved for large results.
    pub fn large_bytes(&self) -> u64 {
        self.large.borrow().queue.reserved_bytes()
    }

    /// Number of large results that wait for their turn.
    pub fn large_waiting(&self) -> usize {
        self.large.borrow().queue.waiting()
    }

    /// The limit in bytes. It applies to pages and small results, and separately to large results.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Completes when another page or small result may start.
    pub async fn room(&self) {
        poll_fn(|context| {
            if self.used_bytes.get() < self.limit_bytes {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn release(&self, bytes: u64) {
        self.used_bytes.set(self.used_bytes.get() - bytes);
        if self.used_bytes.get() < self.limit_bytes {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Gives waiting results their turns while memory is free.
    fn admit(&self) {
        let mut woken = vec![];
        let large = &mut *self.large.borrow_mut();
        while let Some((ticket, bytes)) = large.queue.admit() {
            large.granted.insert(ticket, bytes);
            woken.extend(large.wakers.remove(&ticket));
        }
        woken.into_iter().for_each(Waker::wake);
    }

    fn release_large(&self, bytes: u64) {
        if bytes > 0 {
            self.large.borrow_mut().queue.give_back(bytes);
            self.admit();
        }
    }

    /// Removes a dropped result from the queue, and gives back its reservation and a turn that it has not
    /// taken.
    fn leave(&self, ticket: Ticket, reserved_bytes: u64) {
        let large = &mut *self.large.borrow_mut();
        large.queue.leave(ticket);
        large.wakers.remove(&ticket);
        large.queue.give_back(reserved_bytes + large.granted.remove(&ticket).unwrap_or(0));
    }
}

/// Answer to a result that asks to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    Fits,
    /// No memory is free now. The result must be dropped, and gathered again after [`ResultCharge::turn`].
    GiveBack,
    /// The result is larger than the limit, so it can never be granted.
    TooLarge,
}

/// Memory charged to one result, given back on drop. Without a `ResultMemory` no bytes are counted.
#[derive(Debug, Default)]
pub struct ResultCharge {
    memory: Option<Rc<ResultMemory>>,
    /// Bytes that are counted among pages and small results.
    bytes: u64,
    large: Option<LargeCharge>,
}

#[derive(Debug)]
struct LargeCharge {
    ticket: Ticket,
    reserved_bytes: u64,
    /// The result had to give back its reservation, and its turn has not come.
    waits: bool,
}

/// A clone is charged nothing.
impl Clone for ResultCharge {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl ResultCharge {
    pub fn new(memory: Option<Rc<ResultMemory>>) -> Self {
        Self { memory, bytes: 0, large: None }
    }

    /// Sets the memory of a page to `bytes`. The charge never shrinks.
    pub fn grow_to(&mut self, bytes: u64) {
        let Some(memory) = &self.memory else { return };
        if bytes > self.bytes {
            memory.used_bytes.set(memory.used_bytes.get() + bytes - self.bytes);
            self.bytes = bytes;
        }
    }

    /// Sets the memory of an unpaged result to `bytes`.
    pub fn grow_unpaged(&mut self, bytes: u64) -> Growth {
        let Some(memory) = self.memory.clone() else { return Growth::Fits };
        if self.large.is_none() && bytes <= SMALL_RESULT_BYTES {
            self.grow_to(bytes);
            return Growth::Fits;
        }
        let mut all = memory.large.borrow_mut();
        let limit_bytes = all.queue.limit_bytes();
        let expected_bytes = all.expected_bytes;
        let large = self.large.get_or_insert_with(|| LargeCharge {
            ticket: all.queue.arrive(),
            reserved_bytes: 0,
            waits: false,
        });
        if bytes <= large.reserved_bytes {
            return Growth::Fits;
        }
        if bytes > limit_bytes {
            return Growth::TooLarge;
        }
        let wanted_bytes = match large.reserved_bytes {
            0 => bytes.saturating_mul(2).max(expected_bytes),
            reserved => bytes.max(reserved).saturating_mul(2),
        };
        let wanted_bytes = wanted_bytes.min(limit_bytes);
        let held_bytes = std::mem::take(&mut large.reserved_bytes);
        let reserved = all.queue.reserve(large.ticket, held_bytes, wanted_bytes);
        if reserved == Reserved::Granted {
            large.reserved_bytes = wanted_bytes;
        }
        large.waits = reserved == Reserved::Waits;
        drop(all);
        memory.release(std::mem::take(&mut self.bytes));
        // Memory that this result gave back may be granted to others.
        memory.admit();
        match reserved {
            Reserved::Granted => Growth::Fits,
            Reserved::Waits => Growth::GiveBack,
            Reserved::TooLarge => Growth::TooLarge,
        }
    }

    /// Whether the result had to give back its reservation and has not had its turn yet.
    pub fn waits(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.waits)
    }

    /// Completes when the result may be gathered again; the result then holds its reservation. The caller
    /// drops the future when the deadline has passed.
    pub async fn turn(&mut self) {
        let (Some(memory), Some(large)) = (&self.memory, &mut self.large) else { return };
        large.reserved_bytes = poll_fn(|context| {
            let all = &mut *memory.large.borrow_mut();
            if let Some(bytes) = all.granted.remove(&large.ticket) {
                return Poll::Ready(bytes);
            }
            all.wakers.insert(large.ticket, context.waker().clone());
            Poll::Pending
        })
        .await;
        large.waits = false;
    }

    /// Whether the result takes part in the queue of large results.
    pub fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// Marks the result as complete with a size of `bytes`. The rest of its reservation is given back.
    pub fn settle(&mut self, bytes: u64) {
        if let (Some(memory), true) = (&self.memory, self.is_large()) {
            let large = &mut *memory.large.borrow_mut();
            large.expected_bytes = bytes.max(large.expected_bytes - large.expected_bytes / 8);
        }
        self.shrink_to(bytes);
    }

    /// Reduces the reservation of a large result to `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let (Some(memory), Some(large)) = (&self.memory, &mut self.large) else { return };
        if bytes < large.reserved_bytes {
            memory.release_large(std::mem::replace(&mut large.reserved_bytes, bytes) - bytes);
        }
    }
}

impl Drop for ResultCharge {
    fn drop(&mut self) {
        let Some(memory) = &self.memory else { return };
        memory.release(self.bytes);
        if let Some(large) = &self.large {
            memory.leave(large.ticket, large.reserved_bytes);
            memory.admit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    const LIMIT_BYTES: u64 = 4 << 20;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_waiter_continues_when_a_result_is_dropped() {
        let memory = ResultMemory::new(100);
        let mut charge = ResultCharge::new(Some(memory.clone()));
        charge.grow_to(60);
        charge.grow_to(50);
        assert_eq!(memory.used_bytes(), 60, "it never shrinks");
        let mut other = ResultCharge::new(Some(memory.clone()));
        other.grow_to(40);
        drop(charge.clone());
        let mut waiting = pin!(memory.room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(charge);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        drop(other);
        assert_eq!(memory.used_bytes(), 0);
        assert_eq!(ResultCharge::default().grow_unpaged(u64::MAX), Growth::Fits);
    }

    #[test]
    fn a_large_result_waits_for_its_reservation() {
        let memory = ResultMemory::new(LIMIT_BYTES);
        let [mut a, mut b, mut c] = [(); 3].map(|()| ResultCharge::new(Some(memory.clone())));
        assert_eq!(a.grow_unpaged(SMALL_RESULT_BYTES), Growth::Fits);
        assert_eq!((memory.used_bytes(), memory.large_bytes()), (SMALL_RESULT_BYTES, 0));
        assert_eq!(a.grow_unpaged(3 << 20), Growth::Fits);
        assert_eq!((memory.used_bytes(), memory.large_bytes()), (0, LIMIT_BYTES));
        assert_eq!(b.grow_unpaged(1 << 20), Growth::GiveBack);
        assert_eq!(c.grow_unpaged(1 << 20), Growth::GiveBack);
        assert!(b.waits() && !is_ready(b.turn()), "a turn that is given up can be waited for again");
        a.settle(3 << 20);
        // 1 MiB is free. `b` wants 2 MiB, twice its size, because no large result was complete when it asked.
        assert_eq!((memory.large_bytes(), memory.large_waiting()), (3 << 20, 2));
        a.shrink_to(2 << 20);
        assert_eq!((memory.large_bytes(), memory.large_waiting()), (4 << 20, 1));
        assert!(is_ready(b.turn()) && !b.waits());
        assert_eq!(b.grow_unpaged(2 << 20), Growth::Fits);
        drop(a);
        assert!(is_ready(c.turn()));
        assert_eq!(memory.large_bytes(), 4 << 20);
        assert_eq!(c.grow_unpaged(LIMIT_BYTES + 1), Growth::TooLarge);
        assert!(!c.waits(), "what is refused waits for nothing");
        let mut never = ResultCharge::new(Some(memory.clone()));
        assert_eq!((never.grow_unpaged(LIMIT_BYTES + 1), never.waits()), (Growth::TooLarge, false));
        drop((b, c));
        assert_eq!((memory.used_bytes(), memory.large_bytes(), memory.large_waiting()), (0, 0, 0));
    }

    #[test]
    fn a_cancelled_wait_leaves_no_state() {
        let memory = ResultMemory::new(LIMIT_BYTES);
        let [mut a, mut b, mut c] = [(); 3].map(|()| ResultCharge::new(Some(memory.clone())));
        assert_eq!(a.grow_unpaged(LIMIT_BYTES), Growth::Fits);
        assert_eq!(b.grow_unpaged(LIMIT_BYTES), Growth::GiveBack);
        assert_eq!(c.grow_unpaged(LIMIT_BYTES), Growth::GiveBack);
        drop(b);
        drop(a);
        // `c` has its turn and never takes it.
        assert_eq!((memory.large_bytes(), memory.large_waiting()), (LIMIT_BYTES, 0));
        drop(c);
        assert_eq!(memory.large_bytes(), 0);
    }
}
