//! Entries of batches over several shards: one log has the entry, and memtables of several shards have its
//! mutations.
//!
//! The shard that coordinates the batch appends one entry to its log. Each memtable with a mutation of it
//! counts the entry, under the id of its segment, which names the shard. What concerns another shard's log is
//! posted to that shard:
//!
//! - a memtable was flushed or removed: its entries are released ([`Note::Release`]);
//! - the log is nearly full: memtables of other shards with entries of old segments are flushed
//!   ([`Note::Flush`]);
//! - they cannot be flushed, because the disk is full ([`Note::NoSpace`]): writes that wait for space in the
//!   log are refused;
//! - no start finds the segment any more ([`Note::Gone`]). Until then, compactions on the other shards keep
//!   the tombstones that its entries may need.
//!
//! A memtable with mutations of a batch is flushed only after the entries have been synced
//! ([`CommitLog::sync_with`]): otherwise a loss of power could leave a part of the batch in an SSTable and
//! lose the rest.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::HashSet;
use base::join::LocalFuture;
use model::TableId;

use super::segment::{Segment, SegmentRefs};
use super::{CommitLog, LogError};

/// The same request to flush is not repeated earlier.
const ASKED_US: u64 = 50_000;

/// A message to another shard about a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// To the shard that has the log: these entries of the table are not needed any more.
    Release { table: TableId, uses: SegmentRefs },
    /// To a shard with memtables: those with entries of segments of the same log before this one must be
    /// flushed.
    Flush { before: u64 },
    /// To the shard that has the log: memtables of shard `from` with entries of this log cannot be flushed.
    NoSpace { from: u32, why: String },
    /// To a shard with memtables: no start finds this segment any more.
    Gone { segment: u64 },
}

/// A failed flush of another shard counts so long. A shard tries again, and reports, at least every 10 s.
const STUCK_US: u64 = 20_000_000;

/// How a log reaches the other shards.
pub trait OtherShards {
    /// Sends a note to a shard.
    fn post(&self, shard: u32, note: Note);

    /// Makes all entries that the log of a shard has now durable against power loss.
    fn sync(&self, shard: u32) -> LocalFuture<'static, Result<(), LogError>>;
}

/// What a log knows about the logs of other shards.
#[derive(Default)]
pub struct Others {
    shards: RefCell<Option<Rc<dyn OtherShards>>>,
    /// Segments of other shards' logs of which this shard has got entries, and which a start may find.
    held: RefCell<HashSet<u64>>,
    /// The boundary of the last request to flush, and its time.
    asked: Cell<(u64, u64)>,
    /// Shards that could not flush, with the reason and the time until which this counts.
    stuck: RefCell<BTreeMap<u32, (u64, String)>>,
}

impl Others {
    pub(super) fn holds(&self, segment: u64) -> bool {
        self.held.borrow().contains(&segment)
    }

    fn shards(&self) -> Rc<dyn OtherShards> {
        self.shards.borrow().clone().expect("a log with batches of several shards is connected")
    }

    pub(super) fn post(&self, shard: u32, note: Note) {
        self.shards().post(shard, note);
    }

    pub(super) fn tell_gone(&self, segment: &Segment) {
        segment.holders().into_iter().for_each(|shard| self.post(shard, Note::Gone { segment: segment.id }));
    }
}

impl CommitLog {
    /// Connects the log with other shards.
    pub fn connect(&self, shards: Rc<dyn OtherShards>) {
        *self.others.shards.borrow_mut() = Some(shards);
    }

    /// Records that memtables of this shard get entries of another shard's segment.
    pub fn hold(&self, segment: u64) {
        self.others.held.borrow_mut().insert(segment);
    }

    /// Records that no start finds another shard's segment any more.
    pub fn let_go(&self, segment: u64) {
        self.others.held.borrow_mut().remove(&segment);
    }

    /// Asks the other shards that have entries of segments before `boundary` to flush them.
    pub fn ask_others_to_flush(&self, boundary: u64) {
        let (now_us, (asked, asked_us)) = (self.shard.now_us(), self.others.asked.get());
        if asked == boundary && now_us < asked_us + ASKED_US {
            return;
        }
        self.others.asked.set((boundary, now_us));
        let old = self.segments.in_use().into_iter().filter(|segment| segment.id < boundary);
        let mut holders: Vec<u32> = old.flat_map(|segment| segment.holders()).collect();
        holders.sort_unstable();
        holders.dedup();
        holders.into_iter().for_each(|shard| self.others.post(shard, Note::Flush { before: boundary }));
    }

    /// Tells the other shards of whose logs these memtables have entries that the disk has no space for a
    /// flush.
    pub fn tell_no_space<'u>(&self, uses: impl Iterator<Item = &'u SegmentRefs>, why: &str) {
        let from = self.shard.id();
        let makers: BTreeSet<u32> =
            uses.flat_map(SegmentRefs::shards).filter(|maker| *maker != from).collect();
        makers
            .into_iter()
            .for_each(|maker| self.others.post(maker, Note::NoSpace { from, why: why.to_string() }));
    }

    /// Records that another shard cannot flush entries of this log.
    pub fn set_stuck(&self, shard: u32, why: String) {
        let until_us = self.shard.now_us() + STUCK_US;
        self.others.stuck.borrow_mut().insert(shard, (until_us, why));
        self.progress().signal();
    }

    /// Forgets what other shards have reported: one of them has flushed. Those that still cannot will report
    /// again.
    pub fn clear_stuck(&self) {
        self.others.stuck.borrow_mut().clear();
    }

    /// Why entries of this log in memtables of another shard cannot be flushed; `None` if they can.
    pub fn stuck(&self) -> Option<String> {
        let (now_us, stuck) = (self.shard.now_us(), self.others.stuck.borrow());
        let (shard, (_, why)) = stuck.iter().find(|(_, (until_us, _))| now_us < *until_us)?;
        Some(format!("shard {shard}: {why}"))
    }

    /// Makes the entries of a memtable durable against power loss, in this log and in those of other shards.
    pub async fn sync_with(&self, uses: &SegmentRefs) -> Result<(), LogError> {
        for shard in uses.shards() {
            if shard == self.shard.id() {
                self.sync().await?;
            } else {
                self.others.shards().sync(shard).await?;
            }
        }
        Ok(())
    }
}
