//! Cuts a stream of whole partitions down to the wanted ranges of rows.
//!
//! A range deletion that is in force where a wanted range begins is announced there, and one that is in force
//! where it ends is ended there. Behind the last wanted range the rest of the partition is skipped.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{ClusteringRange, Position, RangeTombstoneChange, Side, TableSchema, Tombstone};

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, Step};
use crate::merge::parts;

/// See the head of this file.
pub struct SliceReader<R> {
    inner: R,
    cutter: Cutter,
}

impl<R: Reader> SliceReader<R> {
    /// `inner` yields whole partitions, in the direction that `spec` asks for.
    pub fn new(spec: &ReadSpec, inner: R) -> Self {
        Self { inner, cutter: Cutter::new(spec) }
    }
}

impl<R: Reader> Reader for SliceReader<R> {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some(fragment) = self.cutter.pop() {
                return Ok(Step::Ready(fragment));
            }
            if self.cutter.is_done() && self.cutter.is_past_static() {
                self.inner.skip_partition();
                self.cutter.push(Fragment::PartitionEnd);
                continue;
            }
            match self.inner.next()? {
                Step::Ready(fragment) => self.cutter.push(fragment),
                other => return Ok(other),
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        self.inner.load()
    }

    fn skip_partition(&mut self) {
        if self.cutter.skip() {
            self.inner.skip_partition();
        }
    }
}

/// The cutting itself, for readers that know their own ways to jump: fragments in, wanted fragments out.
pub struct Cutter {
    schema: Arc<TableSchema>,
    ranges: Arc<[ClusteringRange]>,
    reversed: bool,
    out: VecDeque<Fragment>,
    in_partition: bool,
    /// The static row has been met, or something behind its place.
    past_static: bool,
    /// How many wanted ranges lie behind us.
    passed: usize,
    /// Whether we are inside range number `passed`.
    inside: bool,
    /// The range deletion in force in the stream that comes in, and in the one that goes out.
    in_force: Tombstone,
    shown: Tombstone,
}

impl Cutter {
    pub fn new(spec: &ReadSpec) -> Self {
        Self {
            schema: spec.schema.clone(),
            ranges: spec.ranges.clone(),
            reversed: spec.reversed,
            out: VecDeque::new(),
            in_partition: false,
            past_static: false,
            passed: 0,
            inside: false,
            in_force: Tombstone::LIVE,
            shown: Tombstone::LIVE,
        }
    }

    /// The next wanted fragment of those that were put in.
    pub fn pop(&mut self) -> Option<Fragment> {
        self.out.pop_front()
    }

    /// Inside a partition of which no further row is wanted: all behind the static row may be left out, then
    /// `PartitionEnd` is to be put in.
    pub fn is_done(&self) -> bool {
        self.in_partition && self.passed == self.ranges.len()
    }

    /// The static row, if there is one, has been put in.
    pub fn is_past_static(&self) -> bool {
        self.past_static
    }

    /// The wanted range that comes next or that we are in, if rows are still wanted.
    pub fn wanted(&self) -> Option<&ClusteringRange> {
        let at = if self.reversed { self.ranges.len().checked_sub(self.passed + 1)? } else { self.passed };
        self.ranges.get(at)
    }

    /// Forgets the current partition; false if there is none, or its end has already been seen.
    pub fn skip(&mut self) -> bool {
        self.out.clear();
        std::mem::take(&mut self.in_partition)
    }

    /// Says which deletion is in force, after rows in front of the next wanted range were jumped over.
    pub fn jump(&mut self, in_force: Tombstone) {
        assert!(!self.inside, "jumps go over what is not wanted");
        self.in_force = in_force;
    }

    /// Where range `range` begins and ends for somebody who reads in our direction.
    fn ends<'a>(&self, range: &'a ClusteringRange) -> (&'a Position, &'a Position) {
        if self.reversed { (&range.end, &range.start) } else { (&range.start, &range.end) }
    }

    pub fn push(&mut self, fragment: Fragment) {
        self.past_static = !matches!(fragment, Fragment::PartitionStart { .. });
        match fragment {
            Fragment::PartitionStart { .. } => {
                assert!(!self.in_partition, "a partition ends before the next begins");
                self.in_partition = true;
                self.passed = 0;
                self.inside = false;
                self.in_force = Tombstone::LIVE;
                self.shown = Tombstone::LIVE;
                self.out.push_back(fragment);
            }
            Fragment::Static(_) => self.out.push_back(fragment),
            Fragment::PartitionEnd => {
                self.in_partition = false;
                self.out.push_back(fragment);
            }
            Fragment::Row(_) | Fragment::Change(_) => self.place(fragment),
        }
    }

    fn place(&mut self, fragment: Fragment) {
        let (ranges, schema) = (self.ranges.clone(), self.schema.clone());
        let reversed = self.reversed;
        let at = parts(&fragment).expect("rows and changes have a position");
        while self.passed < ranges.len() {
            let index = if reversed { ranges.len() - 1 - self.passed } else { self.passed };
            let (begin, end) = self.ends(&ranges[index]);
            let behind = |position: &Position| {
                let order = schema.compare_parts(at, (&position.prefix, position.side));
                if reversed { order.is_le() } else { order.is_ge() }
            };
            if !self.inside {
                if !behind(begin) {
                    break;
                }
                self.inside = true;
                // A change right at the beginning says itself what is in force there.
                let at_begin =
                    at.1 != Side::At && schema.compare_parts(at, (&begin.prefix, begin.side)).is_eq();
                if !at_begin && !self.in_force.is_live() {
                    self.change(begin, self.in_force);
                }
            }
            if !behind(end) {
                break;
            }
            if !self.shown.is_live() {
                self.change(end, Tombstone::LIVE);
            }
            self.inside = false;
            self.passed += 1;
        }
        match &fragment {
            // Where a wanted range begins, the end of a deletion in front of it says nothing.
            Fragment::Change(change) => {
                self.in_force = change.tombstone;
                if self.inside && change.tombstone != self.shown {
                    self.shown = change.tombstone;
                    self.out.push_back(fragment);
                }
            }
            _ if self.inside => self.out.push_back(fragment),
            _ => {}
        }
    }

    fn change(&mut self, position: &Position, tombstone: Tombstone) {
        self.shown = tombstone;
        self.out.push_back(Fragment::Change(RangeTombstoneChange { position: position.clone(), tombstone }));
    }
}
