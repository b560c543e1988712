//! Cuts a stream of whole partitions to the wanted ranges of rows.
//!
//! A range tombstone in force at the start of a wanted range is emitted there, and one in force at its end is
//! ended there. The remainder of the partition after the last wanted range is skipped.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{ClusteringRange, Position, RangeTombstoneChange, Side, TableSchema, Tombstone};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, Step};
use crate::merge::parts;

/// Reader that cuts partitions to the wanted rows. See the head of this file.
pub struct SliceReader<R> {
    inner: R,
    cutter: SliceCutter,
}

impl<R: Reader> SliceReader<R> {
    /// `inner` yields whole partitions, in the direction of `spec`.
    pub fn new(spec: &ReadSpec, inner: R) -> Self {
        Self { inner, cutter: SliceCutter::new(spec) }
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

/// The cutting of fragments without a reader, for readers that can skip rows by other means. Fragments are
/// pushed in, wanted fragments are popped.
pub struct SliceCutter {
    schema: Arc<TableSchema>,
    ranges: Arc<[ClusteringRange]>,
    reversed: bool,
    out: VecDeque<Fragment>,
    in_partition: bool,
    /// Whether the static row, or a fragment after its position, has been pushed.
    past_static: bool,
    /// The number of wanted ranges that have ended.
    passed: usize,
    /// Whether the current position is inside range number `passed`.
    inside: bool,
    /// The range tombstone in force in the input (`in_force`), and in the output (`shown`).
    in_force: Tombstone,
    shown: Tombstone,
}

impl SliceCutter {
    /// Cuts to the ranges of rows of `spec`, in its direction.
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

    /// The next wanted fragment of those that were pushed.
    pub fn pop(&mut self) -> Option<Fragment> {
        self.out.pop_front()
    }

    /// Whether the current partition has no further wanted row. The caller may then skip all fragments after
    /// the static row, and push `PartitionEnd`.
    pub fn is_done(&self) -> bool {
        self.in_partition && self.passed == self.ranges.len()
    }

    /// Whether the position of the static row has been passed.
    pub fn is_past_static(&self) -> bool {
        self.past_static
    }

    /// The wanted range that is current or comes next; `None` if no further row is wanted.
    pub fn wanted(&self) -> Option<&ClusteringRange> {
        let at = if self.reversed { self.ranges.len().checked_sub(self.passed + 1)? } else { self.passed };
        self.ranges.get(at)
    }

    /// Drops the current partition. False if there is none, or if its end was already pushed.
    pub fn skip(&mut self) -> bool {
        self.out.clear();
        std::mem::take(&mut self.in_partition)
    }

    /// Sets the range tombstone in force after the caller has skipped rows before the next wanted range.
    pub fn jump(&mut self, in_force: Tombstone) {
        assert!(!self.inside, "jumps go over what is not wanted");
        self.in_force = in_force;
    }

    /// The start and end of `range` in the direction of the read.
    fn ends<'a>(&self, range: &'a ClusteringRange) -> (&'a Position, &'a Position) {
        if self.reversed { (&range.end, &range.start) } else { (&range.start, &range.end) }
    }

    /// Pushes the next fragment of the input. Fragments must be in the order of a reader.
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
                // A change exactly at the start of the range sets the tombstone itself.
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
            // At the start of a wanted range, the end of an earlier tombstone has no effect and is not
            // emitted.
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
