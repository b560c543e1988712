//! The compactions that ended lately, of all shards.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// So many are remembered.
const REMEMBERED: usize = 2000;

/// A job that ended well.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Of version 1: when it ended.
    pub id: uuid::Uuid,
    pub shard: u32,
    pub keyspace: String,
    pub table: String,
    pub kind: &'static str,
    pub reason: String,
    /// Milliseconds since 1970.
    pub ended_ms: i64,
    pub took_us: u64,
    /// On disk.
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub input_sstables: u64,
    /// The sum over the inputs: a partition in two of them counts twice.
    pub input_partitions: u64,
    pub output_partitions: u64,
}

/// A UUID of version 1: when, in units of 100 ns since 1582, and `random`.
pub(super) fn time_uuid(wall_us: i64, random: u64) -> uuid::Uuid {
    let ticks = (wall_us.max(0) as u64).wrapping_mul(10).wrapping_add(0x01b2_1dd2_1381_4000);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&(((ticks >> 48) as u16) & 0x0fff | 0x1000).to_be_bytes());
    bytes[8..].copy_from_slice(&random.to_be_bytes());
    bytes[8] = bytes[8] & 0x3f | 0x80;
    uuid::Uuid::from_bytes(bytes)
}

/// One list for all shards: a job that ends, or somebody who looks, takes the lock.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<VecDeque<Ended>>>);

impl History {
    pub(super) fn push(&self, ended: Ended) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back(ended);
    }

    /// The oldest first.
    pub fn all(&self) -> Vec<Ended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
