//! Who needs files to stay as they are: a snapshot that links those of a table, a replacement that removes some, a change of the
//! commit log's manifest.

use std::cell::Cell;

use runtime::Event;

/// One holder at a time, on one shard.
#[derive(Default)]
pub struct FilesLock {
    held: Cell<bool>,
    released: Event,
}

/// Held until dropped.
pub struct FilesGuard<'a>(&'a FilesLock);

impl FilesLock {
    pub async fn lock(&self) -> FilesGuard<'_> {
        self.released.until(|| !self.held.get()).await;
        self.held.set(true);
        FilesGuard(self)
    }

    pub fn is_held(&self) -> bool {
        self.held.get()
    }

    /// As [`Self::lock`], until [`Self::release`]: for somebody on another shard.
    pub(crate) async fn hold(&self) {
        std::mem::forget(self.lock().await);
    }

    pub(crate) fn release(&self) {
        drop(FilesGuard(self));
    }
}

impl Drop for FilesGuard<'_> {
    fn drop(&mut self) {
        self.0.held.set(false);
        self.0.released.signal();
    }
}
