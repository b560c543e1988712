//! The queue of large unpaged results on one shard. It decides which results are gathered now, which wait and
//! which are refused, and has no side effects.
//!
//! First come, first served. A result holds a reservation from the shard's memory limit, and asks for a
//! larger reservation as it grows. If the larger reservation does not fit, the result gives back all its
//! memory and waits for the full amount, in the order of its arrival. A waiting result therefore holds no
//! memory, and no result waits for memory that it holds itself.
//!
//! Laws, tested below:
//!
//! - Reservations never exceed the limit.
//! - No result gets memory while an older one waits.
//! - When all reservations have been given back, the oldest waiting result gets what it wants.
//! - Only a result that wants more than the whole limit is refused.

use std::collections::BTreeMap;

/// Position of a result in the order of arrival. A smaller ticket is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Answer to a result that asks for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The result holds the memory that it asked for.
    Granted,
    /// The result holds no memory now, and waits for the memory that it asked for.
    Waits,
    /// The result wants more than the limit, so it can never be granted.
    TooLarge,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct ResultQueue {
    limit_bytes: u64,
    reserved_bytes: u64,
    next_ticket: u64,
    /// Bytes that each waiting result wants.
    waiting: BTreeMap<Ticket, u64>,
}

impl ResultQueue {
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, reserved_bytes: 0, next_ticket: 0, waiting: BTreeMap::new() }
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Number of waiting results.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the ticket of a newly arrived result.
    pub fn arrive(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// Replaces the reservation of `held_bytes` that a result holds by one of `wanted_bytes`.
    ///
    /// # Panics
    /// The result waits already, or holds more than was reserved.
    pub fn reserve(&mut self, ticket: Ticket, held_bytes: u64, wanted_bytes: u64) -> Reserved {
        assert!(!self.waiting.contains_key(&ticket), "{ticket:?} waits already");
        self.give_back(held_bytes);
        if wanted_bytes > self.limit_bytes {
            return Reserved::TooLarge;
        }
        let is_next = self.waiting.keys().next().is_none_or(|oldest| ticket < *oldest);
        if is_next && self.fits(wanted_bytes) {
            self.reserved_bytes += wanted_bytes;
            return Reserved::Granted;
        }
        self.waiting.insert(ticket, wanted_bytes);
        Reserved::Waits
    }

    /// Reduces or ends a reservation by `bytes`.
    ///
    /// # Panics
    /// `bytes` is more than the queue has reserved.
    pub fn give_back(&mut self, bytes: u64) {
        assert!(bytes <= self.reserved_bytes, "{bytes} bytes given back of {}", self.reserved_bytes);
        self.reserved_bytes -= bytes;
    }

    /// Removes a waiting result, because its deadline has passed or its client has disconnected.
    pub fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// Grants the oldest waiting result the memory that it wants, if the memory is free. The caller repeats
    /// the call until it returns `None`.
    pub fn admit(&mut self) -> Option<(Ticket, u64)> {
        let (ticket, wanted_bytes) = self.waiting.iter().next().map(|(ticket, bytes)| (*ticket, *bytes))?;
        if !self.fits(wanted_bytes) {
            return None;
        }
        self.waiting.remove(&ticket);
        self.reserved_bytes += wanted_bytes;
        Some((ticket, wanted_bytes))
    }

    fn fits(&self, bytes: u64) -> bool {
        self.reserved_bytes + bytes <= self.limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT_BYTES: u64 = 100;

    #[derive(Clone, Debug)]
    enum Op {
        Arrive(u64),
        Grow(usize, u64),
        Shrink(usize, u64),
        End(usize),
        Leave(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            (1..130u64).prop_map(Op::Arrive),
            (any::<usize>(), 1..60u64).prop_map(|(at, bytes)| Op::Grow(at, bytes)),
            (any::<usize>(), 1..60u64).prop_map(|(at, bytes)| Op::Shrink(at, bytes)),
            any::<usize>().prop_map(Op::End),
            any::<usize>().prop_map(Op::Leave),
        ];
        proptest::collection::vec(op, 0..80)
    }

    /// The queue, with a model of the bytes that each result holds or wants.
    struct World {
        queue: ResultQueue,
        holding: BTreeMap<Ticket, u64>,
        wanting: BTreeMap<Ticket, u64>,
    }

    impl World {
        fn reserve(&mut self, ticket: Ticket, wanted: u64) -> Result<(), TestCaseError> {
            let older_waits = self.wanting.keys().any(|other| *other < ticket);
            let held = self.holding.remove(&ticket).unwrap_or(0);
            match self.queue.reserve(ticket, held, wanted) {
                Reserved::Granted => {
                    prop_assert!(!older_waits, "{:?} overtook an older one", ticket);
                    self.holding.insert(ticket, wanted);
                }
                Reserved::Waits => drop(self.wanting.insert(ticket, wanted)),
                Reserved::TooLarge => prop_assert!(wanted > LIMIT_BYTES),
            }
            Ok(())
        }

        fn admit(&mut self) -> Result<(), TestCaseError> {
            while let Some((ticket, bytes)) = self.queue.admit() {
                prop_assert_eq!(self.wanting.keys().next(), Some(&ticket), "the oldest is next");
                prop_assert_eq!(self.wanting.remove(&ticket), Some(bytes));
                self.holding.insert(ticket, bytes);
            }
            Ok(())
        }

        fn check(&self) -> Result<(), TestCaseError> {
            prop_assert_eq!(self.queue.reserved_bytes(), self.holding.values().sum::<u64>());
            prop_assert_eq!(self.queue.waiting(), self.wanting.len());
            prop_assert!(self.queue.reserved_bytes() <= LIMIT_BYTES);
            if let Some(oldest) = self.wanting.values().next() {
                prop_assert!(
                    self.queue.reserved_bytes() + oldest > LIMIT_BYTES,
                    "the oldest waits for nothing"
                );
            }
            Ok(())
        }
    }

    fn nth(map: &BTreeMap<Ticket, u64>, at: usize) -> Option<(Ticket, u64)> {
        let at = at.checked_rem(map.len())?;
        map.iter().nth(at).map(|(ticket, bytes)| (*ticket, *bytes))
    }

    proptest! {
        #[test]
        fn first_come_first_served_within_the_limit(ops in ops()) {
            let mut world = World {
                queue: ResultQueue::new(LIMIT_BYTES),
                holding: BTreeMap::new(),
                wanting: BTreeMap::new(),
            };
            for op in ops {
                match op {
                    Op::Arrive(bytes) => {
                        let ticket = world.queue.arrive();
                        world.reserve(ticket, bytes)?;
                    }
                    Op::Grow(at, bytes) => {
                        if let Some((ticket, held)) = nth(&world.holding, at) {
                            world.reserve(ticket, held + bytes)?;
                        }
                    }
                    Op::Shrink(at, bytes) => {
                        if let Some((ticket, held)) = nth(&world.holding, at) {
                            let less = bytes.min(held);
                            world.queue.give_back(less);
                            world.holding.insert(ticket, held - less);
                        }
                    }
                    Op::End(at) => {
                        if let Some((ticket, held)) = nth(&world.holding, at) {
                            world.holding.remove(&ticket);
                            world.queue.give_back(held);
                        }
                    }
                    Op::Leave(at) => {
                        if let Some((ticket, _)) = nth(&world.wanting, at) {
                            world.wanting.remove(&ticket);
                            world.queue.leave(ticket);
                        }
                    }
                }
                world.admit()?;
                world.check()?;
            }
            // The results that hold memory end one after another. Each waiting result must get its turn, in
            // order of arrival.
            let mut order: Vec<Ticket> = world.wanting.keys().copied().collect();
            order.reverse();
            while let Some((ticket, held)) = nth(&world.holding, 0) {
                world.holding.remove(&ticket);
                world.queue.give_back(held);
                let before = world.wanting.clone();
                world.admit()?;
                for ticket in before.keys().filter(|ticket| !world.wanting.contains_key(ticket)) {
                    prop_assert_eq!(order.pop(), Some(*ticket));
                }
            }
            prop_assert!(world.wanting.is_empty() && order.is_empty());
        }
    }

    #[test]
    fn a_result_that_exceeds_the_memory_waits_at_its_old_place() {
        let mut queue = ResultQueue::new(100);
        let [a, b, c] = [(); 3].map(|()| queue.arrive());
        assert_eq!(queue.reserve(a, 0, 50), Reserved::Granted);
        assert_eq!(queue.reserve(b, 0, 40), Reserved::Granted);
        assert_eq!(queue.reserve(c, 0, 60), Reserved::Waits);
        // Only the younger `c` waits, so `b` may ask for more. 80 bytes do not fit, so `b` gives back its 40
        // bytes and waits.
        assert_eq!(queue.reserve(b, 40, 80), Reserved::Waits);
        assert_eq!((queue.reserved_bytes(), queue.admit()), (50, None));
        assert_eq!(queue.reserve(a, 50, 100), Reserved::Granted);
        queue.give_back(100);
        assert_eq!((queue.admit(), queue.admit()), (Some((b, 80)), None));
        queue.give_back(80);
        assert_eq!(queue.admit(), Some((c, 60)));
        assert_eq!(queue.reserve(c, 60, 101), Reserved::TooLarge);
        assert_eq!(queue.reserved_bytes(), 0);
    }
}
