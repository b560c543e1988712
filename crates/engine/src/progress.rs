//! Progress of a start, for observers on other threads.

#![warn(missing_docs)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The current stage of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartStage {
    /// Opening directories, the schema, and SSTables.
    OpeningTables,
    /// Reading the commit log, and applying its entries to memtables.
    ReplayingLog,
    /// Writing the memtables of the replayed entries as SSTables.
    FlushingReplayed,
}

/// Written by the shards, read from any thread.
#[derive(Debug, Default)]
pub struct StartProgress {
    stage: AtomicU8,
    /// Bytes of commit log segments that were read, and of all segments.
    replayed_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl StartProgress {
    /// The stage now.
    pub fn stage(&self) -> StartStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => StartStage::OpeningTables,
            1 => StartStage::ReplayingLog,
            _ => StartStage::FlushingReplayed,
        }
    }

    /// Bytes of segments that were replayed, and of all segments.
    pub fn replayed(&self) -> (u64, u64) {
        (self.replayed_bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn replays(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.stage.store(1, Ordering::Relaxed);
    }

    pub(crate) fn has_replayed(&self, bytes: u64) {
        self.replayed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn flushes(&self) {
        self.stage.store(2, Ordering::Relaxed);
    }
}
