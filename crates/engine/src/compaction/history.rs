//! The last compactions of all shards, including those before the start that are stored
//! (`shard::compaction_history`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reports::EndedCompaction;

/// The maximum number of jobs in the history.
const REMEMBERED: usize = 2000;

/// A UUID of version 1 from the time, in units of 100 ns since 1582, and `random`.
pub(crate) fn time_uuid(wall_us: i64, random: u64) -> uuid::Uuid {
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
    /// Oldest first.
    ended: VecDeque<EndedCompaction>,
    /// The jobs of `ended` that are not stored yet.
    unsaved: VecDeque<EndedCompaction>,
}

/// One list for all shards, protected by a lock. The lock is taken when a job ends and when the history is
/// read.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Remembered>>);

/// Inserts into `list` in the order of [`EndedCompaction::order`]. Jobs of two shards that end at the same
/// moment may arrive in any order.
fn insert(list: &mut VecDeque<EndedCompaction>, ended: EndedCompaction) {
    let place = list.partition_point(|other| other.order() <= ended.order());
    list.insert(place, ended);
    if list.len() > REMEMBERED {
        list.pop_front();
    }
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_stored`: the job is to be stored, so that it is in the history after a restart.
    pub(crate) fn push(&self, ended: EndedCompaction, is_stored: bool) {
        let mut all = self.lock();
        if is_stored {
            insert(&mut all.unsaved, ended.clone());
        }
        insert(&mut all.ended, ended);
    }

    /// Adds the jobs that were stored before the start.
    pub(crate) fn restore(&self, stored: Vec<EndedCompaction>) {
        let mut all = self.lock();
        stored.into_iter().for_each(|ended| insert(&mut all.ended, ended));
    }

    pub(crate) fn has_unsaved(&self) -> bool {
        !self.lock().unsaved.is_empty()
    }

    pub(crate) fn take_unsaved(&self) -> Vec<EndedCompaction> {
        std::mem::take(&mut self.lock().unsaved).into()
    }

    /// Puts back jobs that could not be stored, for a later attempt.
    pub(crate) fn put_back(&self, unsaved: Vec<EndedCompaction>) {
        let mut all = self.lock();
        unsaved.into_iter().for_each(|ended| insert(&mut all.unsaved, ended));
    }

    /// All jobs, oldest first.
    pub fn all(&self) -> Vec<EndedCompaction> {
        self.lock().ended.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(number: i64) -> EndedCompaction {
        EndedCompaction {
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
    fn the_line_of_the_log() {
        let ended = EndedCompaction {
            reason: "4 SSTables of about 1 MB".into(),
            took_us: 2_500_000,
            input_bytes: 10 << 20,
            output_bytes: 5 << 20,
            input_sstables: 4,
            input_partitions: 400,
            output_partitions: 100,
            ..ended(0)
        };
        assert_eq!(
            ended.to_string(),
            "Compaction of ks.t: 4 SSTables, 10485760 bytes to 5242880 bytes (50% of them) in 2.500 s (4.0 MiB/s); \
             400 partitions to 100; 4 SSTables of about 1 MB"
        );
    }

    #[test]
    fn jobs_of_one_millisecond_have_one_order() {
        let (first, second) = (ended(5), EndedCompaction { id: time_uuid(6, 1), ..ended(5) });
        let ids = |jobs: [&EndedCompaction; 2]| {
            let history = History::default();
            jobs.iter().for_each(|job| history.push((*job).clone(), true));
            history.all().iter().map(|job| job.id).collect::<Vec<_>>()
        };
        assert_eq!(ids([&first, &second]), [first.id, second.id]);
        assert_eq!(ids([&second, &first]), [first.id, second.id]);
    }

    #[test]
    fn the_history_is_bounded_and_stored_entries_come_first() {
        let history = History::default();
        let times = |list: Vec<EndedCompaction>| list.iter().map(|ended| ended.ended_ms).collect::<Vec<_>>();
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
