//! Mutual exclusion between the tasks of one shard, across await points.
//!
//! A task that finds the mutex held waits for its release. A release wakes all waiting tasks, and the first
//! that runs gets the mutex.

use std::cell::Cell;

use crate::event::Event;

/// A mutex for tasks of one shard.
#[derive(Default)]
pub struct Mutex {
    held: Cell<bool>,
    released: Event,
}

/// Holds the mutex until dropped.
pub struct MutexGuard<'a>(&'a Mutex);

impl Mutex {
    /// Locks the mutex; waits while another task holds it.
    pub async fn lock(&self) -> MutexGuard<'_> {
        self.released.until(|| !self.held.get()).await;
        self.held.set(true);
        MutexGuard(self)
    }

    pub fn is_held(&self) -> bool {
        self.held.get()
    }

    /// Locks as [`Self::lock`], until [`Self::release`] is called: for a holder on another shard.
    pub async fn hold(&self) {
        std::mem::forget(self.lock().await);
    }

    /// Releases the mutex after [`Self::hold`].
    pub fn release(&self) {
        drop(MutexGuard(self));
    }
}

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        self.0.held.set(false);
        self.0.released.signal();
    }
}
