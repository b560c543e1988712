//! Memory of results in the making, on one shard: a limit for all of them together.
//!
//! What a read of storage holds is charged to the read; what is gathered of several such reads, until it is with the connection, is
//! counted here. A result that is made page by page waits for room before it begins and is small; one that is to come in one
//! go is refused when there is no room for more of it. So those who hold memory never wait for memory.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// See the head of this file. Belongs to one shard.
#[derive(Debug)]
pub struct ResultMemory {
    limit_bytes: u64,
    used_bytes: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl ResultMemory {
    pub fn new(limit_bytes: u64) -> Rc<Self> {
        Rc::new(Self { limit_bytes, used_bytes: Cell::new(0), waiting: RefCell::default() })
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.get()
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Ends when another result may be begun.
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
}

/// What one result takes; gives it back when it is dropped. Without a memory nothing is counted.
#[derive(Debug, Default)]
pub struct ResultCharge {
    memory: Option<Rc<ResultMemory>>,
    bytes: u64,
}

/// A copy is nobody's.
impl Clone for ResultCharge {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl ResultCharge {
    pub fn new(memory: Option<Rc<ResultMemory>>) -> Self {
        Self { memory, bytes: 0 }
    }

    /// The result takes `bytes` now. False: all together take more than they may.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let Some(memory) = &self.memory else { return true };
        if bytes > self.bytes {
            memory.used_bytes.set(memory.used_bytes.get() + bytes - self.bytes);
            self.bytes = bytes;
        }
        memory.used_bytes.get() <= memory.limit_bytes
    }
}

impl Drop for ResultCharge {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.release(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn who_waits_goes_on_when_a_result_is_gone() {
        let memory = ResultMemory::new(100);
        let mut charge = ResultCharge::new(Some(memory.clone()));
        assert!(charge.grow_to(60) && charge.grow_to(50), "it never shrinks");
        assert_eq!(memory.used_bytes(), 60);
        let mut other = ResultCharge::new(Some(memory.clone()));
        assert!(!other.grow_to(41));
        drop(charge.clone());
        let mut waiting = pin!(memory.room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(charge);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        drop(other);
        assert_eq!(memory.used_bytes(), 0);
        assert!(ResultCharge::default().grow_to(u64::MAX));
    }
}
