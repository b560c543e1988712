//! Decides which tombstones a merge may purge, and reports why it keeps the others.
//!
//! A tombstone may be purged under two conditions. (1) It is droppable: older than [`GcBefore`]. (2) No data
//! outside the merge may be deleted by it: its timestamp is below [`PurgeHorizon::max_purgeable`] of its
//! partition. A tombstone that is kept has a [`Cause`], which is counted ([`KeptTombstones`]). If an SSTable
//! is the cause, its id is counted too.
//!
//! No function here allocates memory per partition.

use std::fmt;

use model::{NO_DELETION_TIME_S, PartitionKey, Tombstone};

use crate::sstable_id::SSTableId;

/// `tombstone_gc = {'mode': …}`: when a tombstone becomes droppable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneGc {
    /// `gc_grace_seconds` after the deletion.
    Timeout {
        /// The table's `gc_grace_seconds`.
        gc_grace_s: u32,
    },
    /// Never.
    Disabled,
    /// Immediately.
    Immediate,
    /// When its token was repaired after the deletion, with an allowance for the time that writes may take to
    /// arrive. `repaired_s` is the time of the last repair of the range, `None` if there was none. With a
    /// single replica there is nothing to repair, and tombstones are droppable immediately.
    Repair {
        /// Time of the last repair of the range, in seconds since 1970; `None`: never.
        repaired_s: Option<u32>,
        /// Seconds that a write may take to arrive.
        propagation_delay_s: u32,
        /// Whether the keyspace has a single replica.
        has_one_replica: bool,
    },
}

/// Tombstones with a deletion time before this are droppable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcBefore {
    /// Tombstones whose deletion time (seconds since 1970) is before this are droppable.
    pub before_s: u32,
    /// The value of `before_s` if the commit log were empty.
    pub before_without_log_s: u32,
    /// Why a tombstone younger than both times is kept.
    pub cause: Cause,
}

impl GcBefore {
    /// `log_min_deletion_time_s` is the earliest deletion in the commit log segments that would be replayed
    /// after a crash; `None` if there is none. Tombstones of this age or younger are kept, so that a replay
    /// does not resurrect data.
    pub fn new(gc: TombstoneGc, now_s: u32, log_min_deletion_time_s: Option<u32>) -> Self {
        let (before_without_log_s, cause) = match gc {
            TombstoneGc::Timeout { gc_grace_s } => (now_s.saturating_sub(gc_grace_s), Cause::TooYoung),
            TombstoneGc::Disabled => (0, Cause::Disabled),
            TombstoneGc::Immediate => (now_s, Cause::TooYoung),
            TombstoneGc::Repair { has_one_replica: true, .. } => (now_s, Cause::TooYoung),
            TombstoneGc::Repair { repaired_s, propagation_delay_s, .. } => {
                (repaired_s.map_or(0, |at_s| at_s.saturating_sub(propagation_delay_s)), Cause::NotRepaired)
            }
        };
        let log_s = log_min_deletion_time_s.unwrap_or(NO_DELETION_TIME_S);
        Self { before_s: before_without_log_s.min(log_s), before_without_log_s, cause }
    }

    /// Why a tombstone with this deletion time is kept; `None` if it is droppable.
    pub fn blocks(&self, deletion_time_s: u32) -> Option<Cause> {
        if deletion_time_s < self.before_s {
            None
        } else if deletion_time_s < self.before_without_log_s {
            Some(Cause::CommitLog)
        } else {
            Some(self.cause)
        }
    }
}

/// Why a tombstone was not purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Its `gc_grace_seconds` are not over.
    TooYoung,
    /// `tombstone_gc` is disabled.
    Disabled,
    /// Its token was not repaired since the deletion.
    NotRepaired,
    /// The commit log may still replay data that it deletes.
    CommitLog,
    /// A memtable has older writes of the partition.
    Memtable,
    /// An SSTable outside the merge may have older writes of the partition.
    SSTable,
}

impl Cause {
    /// All causes, in the order of their counters.
    pub const ALL: [Self; 6] =
        [Self::TooYoung, Self::Disabled, Self::NotRepaired, Self::CommitLog, Self::Memtable, Self::SSTable];

    /// The label value in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooYoung => "too_young",
            Self::Disabled => "disabled",
            Self::NotRepaired => "not_repaired",
            Self::CommitLog => "commit_log",
            Self::Memtable => "memtable",
            Self::SSTable => "sstable",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The memtable or SSTable that contains writes which a tombstone may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The table's memtables.
    Memtable,
    /// This SSTable, which is not among the inputs.
    SSTable(SSTableId),
}

impl Blocker {
    /// The cause under which a tombstone is counted that this keeps.
    pub fn cause(self) -> Cause {
        match self {
            Self::Memtable => Cause::Memtable,
            Self::SSTable(_) => Cause::SSTable,
        }
    }
}

/// The properties of an SSTable outside the merge that matter for tombstones.
pub trait Outside {
    /// The SSTable's id.
    fn id(&self) -> SSTableId;
    /// Its smallest partition key.
    fn first(&self) -> &PartitionKey;
    /// Its largest partition key.
    fn last(&self) -> &PartitionKey;
    /// The smallest timestamp of live data in it, or the smallest of all data if that is not known.
    fn min_live_timestamp_us(&self) -> i64;
    /// Whether its bloom filter may contain the partition.
    fn may_contain(&self, key: &PartitionKey) -> bool;
}

/// The timestamp up to which tombstones may be purged, partition by partition.
///
/// The keys are usually requested in ascending order, as in a merge. Each SSTable outside is then visited
/// once, and a request checks only the SSTables whose range contains the key, oldest data first. If a key is
/// smaller than the previous one, the scan starts again.
#[derive(Debug)]
pub struct PurgeHorizon<S> {
    /// The SSTables that may block a purge, by their first keys.
    outside: Vec<S>,
    /// The number of them that begin at or before the token of the last requested key.
    begun: usize,
    /// The SSTables that have begun and not ended, by their smallest timestamp; indexes into `outside`.
    open: Vec<u32>,
    last_token: i64,
    /// The newest write of the merge. Younger data outside cannot be deleted by its tombstones.
    max_timestamp_us: i64,
}

impl<S: Outside> PurgeHorizon<S> {
    /// `outside` contains every SSTable of the table that is not merged, and the released inputs whose files
    /// still exist. `max_timestamp_us` is the newest write of the inputs.
    pub fn new(outside: impl IntoIterator<Item = S>, max_timestamp_us: i64) -> Self {
        let mut outside: Vec<S> = outside
            .into_iter()
            .filter(|sstable| sstable.min_live_timestamp_us() <= max_timestamp_us)
            .collect();
        outside.sort_by(|a, b| a.first().cmp(b.first()));
        let open = Vec::with_capacity(outside.len());
        Self { outside, begun: 0, open, last_token: i64::MIN, max_timestamp_us }
    }

    /// Adds an SSTable created since then: by a flush or as an output of another job. O(n).
    pub fn add(&mut self, sstable: S) {
        if sstable.min_live_timestamp_us() <= self.max_timestamp_us {
            let at = self.outside.partition_point(|other| other.first() <= sstable.first());
            self.outside.insert(at, sstable);
            self.open.reserve(self.outside.len());
            self.restart();
        }
    }

    /// Removes an SSTable that another job has replaced. O(n).
    pub fn remove(&mut self, id: SSTableId) {
        self.outside.retain(|sstable| sstable.id() != id);
        self.restart();
    }

    fn restart(&mut self) {
        self.begun = 0;
        self.open.clear();
    }

    /// Returns the timestamp below which tombstones of a partition delete nothing outside the merge. Also
    /// returns the blocker of all other tombstones: the source of the oldest data that they may delete.
    /// `i64::MAX` and `None` if there is no such data.
    ///
    /// `in_memory` returns the smallest timestamp of live data of a partition in the memtables, if they
    /// contain it. It is called last, and only if the memtables may have older data (`memtable_min_us`,
    /// `None` if they are empty).
    pub fn max_purgeable(
        &mut self,
        key: &PartitionKey,
        memtable_min_us: Option<i64>,
        in_memory: impl FnOnce(&PartitionKey) -> Option<i64>,
    ) -> (i64, Option<Blocker>) {
        self.advance(key);
        let mut horizon = (i64::MAX, None);
        let outside = &self.outside;
        let open = self.open.iter().map(|at| &outside[*at as usize]);
        if let Some(oldest) =
            open.into_iter().find(|s| s.first() <= key && key <= s.last() && s.may_contain(key))
        {
            horizon = (oldest.min_live_timestamp_us(), Some(Blocker::SSTable(oldest.id())));
        }
        let limit_us = horizon.0.min(self.max_timestamp_us.saturating_add(1));
        if memtable_min_us.is_some_and(|min_us| min_us < limit_us)
            && let Some(min_us) = in_memory(key)
            && min_us < limit_us
        {
            horizon = (min_us, Some(Blocker::Memtable));
        }
        horizon
    }

    fn advance(&mut self, key: &PartitionKey) {
        let token = key.token();
        if token < self.last_token {
            self.restart();
        }
        self.last_token = token;
        let outside = &self.outside;
        if outside.get(self.begun).is_none_or(|next| next.first().token() > token) {
            return;
        }
        self.open.retain(|at| outside[*at as usize].last().token() >= token);
        while let Some(next) = outside.get(self.begun).filter(|next| next.first().token() <= token) {
            if next.last().token() >= token {
                let timestamp_us = next.min_live_timestamp_us();
                let at = self
                    .open
                    .partition_point(|at| outside[*at as usize].min_live_timestamp_us() <= timestamp_us);
                self.open.insert(at, u32::try_from(self.begun).expect("fewer SSTables than 4 billion"));
            }
            self.begun += 1;
        }
    }
}

/// Why a tombstone must be kept, and the blocking SSTable; `None`: it may be purged. `horizon` is that of its
/// partition.
pub fn blocks(
    tombstone: Tombstone,
    gc: &GcBefore,
    horizon: (i64, Option<Blocker>),
) -> Option<(Cause, Option<SSTableId>)> {
    if let Some(cause) = gc.blocks(tombstone.deletion_time_s) {
        return Some((cause, None));
    }
    if tombstone.timestamp_us < horizon.0 {
        return None;
    }
    Some(match horizon.1 {
        Some(Blocker::SSTable(id)) => (Cause::SSTable, Some(id)),
        Some(Blocker::Memtable) | None => (Cause::Memtable, None),
    })
}

/// The number of tombstones that a merge kept, by cause, and the SSTables that blocked most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptTombstones {
    counts: [u64; Cause::ALL.len()],
    by_sstable: base::HashMap<SSTableId, u64>,
}

impl KeptTombstones {
    /// Counts a tombstone that was kept. `by` is the SSTable that kept it, if one did.
    pub fn add(&mut self, cause: Cause, by: Option<SSTableId>) {
        self.counts[cause as usize] += 1;
        if let Some(id) = by {
            *self.by_sstable.entry(id).or_default() += 1;
        }
    }

    /// The number of tombstones that were kept for `cause`.
    pub fn count(&self, cause: Cause) -> u64 {
        self.counts[cause as usize]
    }

    /// The SSTable that blocked the most tombstones, and their number.
    pub fn worst(&self) -> Option<(SSTableId, u64)> {
        let most = self.by_sstable.iter().max_by_key(|(id, count)| (**count, std::cmp::Reverse(**id)));
        most.map(|(id, count)| (*id, *count))
    }

    /// Adds the counts of another part of the job.
    pub fn add_all(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (id, more) in &other.by_sstable {
            *self.by_sstable.entry(*id).or_default() += more;
        }
    }
}
