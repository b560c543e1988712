//! The compactions that ended lately, of all shards, and those of before the start that are stored
//! (`history_table`).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub kind: Cow<'static, str>,
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
    /// How many partitions came from one input, from two, …
    pub merged: Vec<(u32, u64)>,
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

#[derive(Debug, Default)]
struct Remembered {
    /// The oldest first.
    ended: VecDeque<Ended>,
    /// Of them, those that are not stored yet.
    unsaved: VecDeque<Ended>,
}

/// One list for all shards: a job that ends, or somebody who looks, takes the lock.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Remembered>>);

fn push(list: &mut VecDeque<Ended>, ended: Ended) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(ended);
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_stored`: it is to be there after a restart too.
    pub(super) fn push(&self, ended: Ended, is_stored: bool) {
        let mut all = self.lock();
        if is_stored {
            push(&mut all.unsaved, ended.clone());
        }
        push(&mut all.ended, ended);
    }

    /// What was stored before the start, the oldest first.
    pub(super) fn restore(&self, stored: Vec<Ended>) {
        let mut all = self.lock();
        let since = std::mem::take(&mut all.ended);
        stored.into_iter().chain(since).for_each(|ended| push(&mut all.ended, ended));
    }

    pub(crate) fn has_unsaved(&self) -> bool {
        !self.lock().unsaved.is_empty()
    }

    pub(super) fn take_unsaved(&self) -> Vec<Ended> {
        std::mem::take(&mut self.lock().unsaved).into()
    }

    /// These could not be stored; another time.
    pub(super) fn put_back(&self, unsaved: Vec<Ended>) {
        let mut all = self.lock();
        let since = std::mem::take(&mut all.unsaved);
        unsaved.into_iter().chain(since).for_each(|ended| push(&mut all.unsaved, ended));
    }

    /// The oldest first.
    pub fn all(&self) -> Vec<Ended> {
        self.lock().ended.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(number: i64) -> Ended {
        Ended {
            id: time_uuid(number, 7),
            shard: 0,
            keyspace: "ks".into(),
            table: "t".into(),
            kind: "Compaction".into(),
            reason: String::new(),
            ended_ms: number,
            took_us: 0,
            input_bytes: 0,
            output_bytes: 0,
            input_sstables: 0,
            input_partitions: 0,
            output_partitions: 0,
            merged: vec![],
        }
    }

    #[test]
    fn so_many_are_remembered_and_what_was_stored_comes_first() {
        let history = History::default();
        let times = |list: Vec<Ended>| list.iter().map(|ended| ended.ended_ms).collect::<Vec<_>>();
        history.push(ended(10), true);
        history.push(ended(11), false);
        history.restore(vec![ended(1), ended(2)]);
        assert_eq!(times(history.all()), [1, 2, 10, 11]);
        assert!(history.has_unsaved());
        let unsaved = history.take_unsaved();
        assert!(!history.has_unsaved());
        history.push(ended(12), true);
        history.put_back(unsaved);
        assert_eq!(times(history.take_unsaved()), [10, 12]);
        (0..REMEMBERED as i64).for_each(|number| history.push(ended(100 + number), true));
        let all = times(history.all());
        assert_eq!((all.len(), all[0]), (REMEMBERED, 100));
    }
}
