//! Reads one partition from the cache, and the ranges unknown to the cache from the SSTables.
//!
//! 1. The read begins with a snapshot of the partition and the set of SSTables of that moment, so it sees no
//!    data merged into the cache later.
//! 2. In each requested range it walks from entry to entry ([`Walk`]). Known gaps and rows are taken from
//!    memory. An unknown gap is read from the SSTables and added to the cache ([`Populator`]).
//! 3. After [`GAPS_MAX`] gaps the rest of the request is read from the SSTables: many seeks cost more than
//!    reading known data again.
//! 4. A partition that is not cached is read from the SSTables from its beginning.
//!
//! Where cached and read parts meet, range tombstone changes are joined ([`Output`]): the output equals that
//! of one reader over all SSTables, without data that their own tombstones delete.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use ::reader::{CompactReader, Fragment, Keep, LocalFuture, ReadError, ReadSpec, Reader, RowFragment, Step};
use model::{
    ClusteringRange, PartitionKey, PartitionRange, Position, Purge, RangeTombstoneChange, Side, TableSchema,
    Tombstone,
};

use super::content::{Content, Entry, Gap, touch};
use super::populate::{Populator, Progress};
use super::table::{CachedPartition, TableCache};
use crate::memtable::tree::Cursor;

/// Number of gaps of a partition that are read one by one.
const GAPS_MAX: u32 = 4;

/// The SSTables under the cache, as they were when a read began.
pub trait UnderlyingSource {
    /// A reader over all SSTables that may have data of the request; at least one.
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader>;
}

/// See the head of this file.
pub struct CacheReader<B> {
    cache: Rc<TableCache>,
    phase: u64,
    below: B,
    spec: ReadSpec,
    key: PartitionKey,
    /// The partition, if it was cached when the read began, and a snapshot of its content.
    cached: Option<(Rc<CachedPartition>, Content)>,
    state: State,
    out: Output,
    gaps: u32,
}

enum State {
    Start,
    /// Before the range with this number, in the direction of the read.
    Between(usize),
    /// In the range with this number.
    Inside(usize, Walk),
    Below(Box<BelowState>),
    Done,
}

struct BelowState {
    reader: Box<dyn Reader>,
    populator: Populator,
    /// The partition's start and static row are output too.
    gives_head: bool,
    /// `None`: the reader covers the rest of the request.
    then: Option<GoOn>,
}

/// Where the read continues after a gap.
struct GoOn {
    number: usize,
    walk: Walk,
    entry: Option<(Position, Entry)>,
}

impl<B: UnderlyingSource> CacheReader<B> {
    /// A read of the one partition of `spec`; `cached` if the cache has it.
    pub fn new(
        cache: &Rc<TableCache>,
        spec: &ReadSpec,
        key: &PartitionKey,
        cached: Option<Rc<CachedPartition>>,
        below: B,
    ) -> Self {
        cache.rows.count(|stats| stats.reads += 1);
        let cached = cached.map(|partition| {
            cache.rows.touch(partition.item());
            let content = partition.content().clone();
            if let Some(permit) = &spec.permit {
                permit.shares_items(content.entries.len() as u64);
            }
            (partition, content)
        });
        Self {
            cache: cache.clone(),
            phase: cache.phase(),
            below,
            spec: spec.clone(),
            key: key.clone(),
            cached,
            state: State::Start,
            out: Output::default(),
            gaps: 0,
        }
    }

    fn range(&self, number: usize) -> &ClusteringRange {
        let ranges = &self.spec.ranges;
        if self.spec.reversed { &ranges[ranges.len() - 1 - number] } else { &ranges[number] }
    }

    /// Reads `ranges` from the SSTables, then continues with `then`.
    fn read_gaps(&mut self, ranges: Arc<[ClusteringRange]>, gives_head: bool, then: Option<GoOn>) {
        if self.gaps == 0 {
            self.cache.rows.count(|stats| stats.misses += 1);
        }
        self.gaps += 1;
        let spec = ReadSpec {
            partitions: PartitionRange::Key(self.key.clone()),
            ranges: ranges.clone(),
            ..self.spec.clone()
        };
        // Cached data must not contain data that its own tombstones delete.
        let reader = CompactReader::new(self.below.reader(&spec), Purge::nothing(0), Keep::Needed);
        let populator = Populator {
            cache: self.cache.clone(),
            schema: self.spec.schema.clone(),
            key: self.key.clone(),
            phase: self.phase,
            ranges,
            reversed: self.spec.reversed,
            partition: self.cached.as_ref().map(|(partition, _)| partition.clone()),
            progress: Progress::default(),
        };
        self.state =
            State::Below(Box::new(BelowState { reader: Box::new(reader), populator, gives_head, then }));
    }

    fn start(&mut self) {
        match &self.cached {
            None => self.read_gaps(self.spec.ranges.clone(), true, None),
            Some((_, content)) => {
                self.out
                    .start(Fragment::PartitionStart { key: self.key.clone(), tombstone: content.tombstone });
                if let Some(row) = &content.static_row {
                    self.out.push(Fragment::Static(row.clone()));
                }
                self.state = State::Between(0);
            }
        }
    }

    fn enter(&mut self, number: usize) {
        if number == self.spec.ranges.len() {
            self.out.end();
            self.state = State::Done;
            return;
        }
        let (_, content) = self.cached.as_ref().expect("a walk is over what is cached");
        let walk = Walk::new(&self.spec.schema, content, self.range(number), self.spec.reversed);
        self.state = State::Inside(number, walk);
    }

    /// Goes to the next entry.
    fn walk(&mut self, number: usize, mut walk: Walk) {
        let schema = self.spec.schema.clone();
        if schema.compare_positions(&walk.at, &walk.end).is_eq() {
            self.out.change(&schema, &walk.at, Tombstone::LIVE);
            self.state = State::Between(number + 1);
            return;
        }
        let (gap, entry) = walk.next(&schema);
        let reached = entry.as_ref().map_or(&walk.end, |(at, _)| at);
        if gap.continuous {
            self.out.change(&schema, &walk.at, gap.tombstone);
        } else if !touch(&schema, &walk.at, reached) {
            return self.read_gap(number, walk, entry);
        }
        self.arrive(number, walk, entry);
    }

    /// Continues after the gap before `entry`, or after the gap at the end of the range.
    fn arrive(&mut self, number: usize, mut walk: Walk, entry: Option<(Position, Entry)>) {
        match entry {
            None => walk.at = walk.end.clone(),
            Some((at, entry)) if at.side == Side::At => {
                let (near, far) = beside(&at, self.spec.reversed);
                self.out.change(&self.spec.schema, &near, entry.gap.tombstone);
                if let Some(row) = entry.row {
                    self.cache.rows.touch(entry.item);
                    self.cache.rows.count(|stats| stats.rows_hit += 1);
                    self.out.row(RowFragment { key: at.prefix, row });
                }
                walk.at = far;
            }
            Some((at, _)) => walk.at = at,
        }
        self.state = State::Inside(number, walk);
    }

    fn read_gap(&mut self, number: usize, walk: Walk, entry: Option<(Position, Entry)>) {
        // A slice states the tombstone in force at its beginning, unless there is none.
        self.out.change(&self.spec.schema, &walk.at, Tombstone::LIVE);
        let until = match &entry {
            Some((at, _)) if at.side == Side::At => beside(at, self.spec.reversed).0,
            Some((at, _)) => at.clone(),
            None => walk.end.clone(),
        };
        let between = |from: &Position, until: &Position| {
            let (start, end) = if self.spec.reversed { (until, from) } else { (from, until) };
            ClusteringRange { start: start.clone(), end: end.clone() }
        };
        if self.gaps < GAPS_MAX {
            let gap = Arc::new([between(&walk.at, &until)]);
            return self.read_gaps(gap, false, Some(GoOn { number, walk, entry }));
        }
        let rest = [between(&walk.at, &walk.end)].into_iter();
        let mut rest: Vec<_> = rest
            .chain((number + 1..self.spec.ranges.len()).map(|number| self.range(number).clone()))
            .collect();
        if self.spec.reversed {
            rest.reverse();
        }
        self.read_gaps(rest.into(), false, None);
    }

    /// Passes on the next fragment from the SSTables; false if a load is needed first.
    fn step_below(&mut self, mut state: Box<BelowState>) -> Result<bool, ReadError> {
        let schema = &self.spec.schema;
        let mut is_over = false;
        match state.reader.next()? {
            Step::Load => {
                self.state = State::Below(state);
                return Ok(false);
            }
            Step::Ready(Fragment::PartitionStart { key, tombstone }) => {
                state.populator.start(tombstone);
                if state.gives_head {
                    self.out.start(Fragment::PartitionStart { key, tombstone });
                }
            }
            Step::Ready(Fragment::Static(row)) => {
                if state.gives_head {
                    state.populator.static_row(&row);
                    self.out.push(Fragment::Static(row));
                }
            }
            Step::Ready(Fragment::Change(change)) => {
                state.populator.change(&change.position, change.tombstone);
                self.out.change(schema, &change.position, change.tombstone);
            }
            Step::Ready(Fragment::Row(row)) => {
                self.cache.rows.count(|stats| stats.rows_missed += 1);
                state.populator.row(&row);
                self.out.row(row);
            }
            Step::Ready(Fragment::PartitionEnd) | Step::End => is_over = true,
        }
        if !is_over {
            self.state = State::Below(state);
            return Ok(true);
        }
        state.populator.end();
        match state.then {
            Some(GoOn { number, walk, entry }) => self.arrive(number, walk, entry),
            None => {
                self.out.end();
                self.state = State::Done;
            }
        }
        Ok(true)
    }
}

/// The positions directly before and after a row, in the direction of the read.
fn beside(at: &Position, reversed: bool) -> (Position, Position) {
    let (before, after) = (Position::before(at.prefix.clone()), Position::after(at.prefix.clone()));
    if reversed { (after, before) } else { (before, after) }
}

impl<B: UnderlyingSource> Reader for CacheReader<B> {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some(fragment) = self.out.pop() {
                return Ok(Step::Ready(fragment));
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::Start => self.start(),
                State::Between(number) => self.enter(number),
                State::Inside(number, walk) => self.walk(number, walk),
                State::Below(below) => {
                    if !self.step_below(below)? {
                        return Ok(Step::Load);
                    }
                }
                State::Done => return Ok(Step::End),
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        match &mut self.state {
            State::Below(below) => below.reader.load(),
            _ => Box::pin(async { Ok(()) }),
        }
    }

    fn skip_partition(&mut self) {
        let has_begun = self.out.has_given;
        if has_begun {
            self.out = Output { has_given: true, ..Output::default() };
            self.state = State::Done;
        }
    }
}

/// Walks through one range of a partition's entries, in either direction.
struct Walk {
    cursor: Cursor<Position, Entry>,
    reversed: bool,
    /// Forward: the gap after the last entry. Reverse: the gap before the entry last passed.
    beyond: Gap,
    /// The position up to which everything was output, and the end of the range; neither is [`Side::At`].
    at: Position,
    end: Position,
}

impl Walk {
    fn new(schema: &TableSchema, content: &Content, range: &ClusteringRange, reversed: bool) -> Self {
        let (at, end) = if reversed { (&range.end, &range.start) } else { (&range.start, &range.end) };
        let order = |probe: &Position| schema.compare_positions(probe, at);
        let beyond = match content.entries.first_from(order) {
            Some((_, entry)) if reversed => entry.gap,
            _ => content.tail,
        };
        Self { cursor: content.entries.cursor(order), reversed, beyond, at: at.clone(), end: end.clone() }
    }

    /// The next gap, and the entry after it if it is in the range.
    fn next(&mut self, schema: &TableSchema) -> (Gap, Option<(Position, Entry)>) {
        if self.reversed {
            let inside =
                self.cursor.prev().filter(|(at, _)| schema.compare_positions(at, &self.end).is_gt()).cloned();
            let above = self.beyond;
            if let Some((_, entry)) = &inside {
                self.beyond = entry.gap;
            }
            return (above, inside);
        }
        match self.cursor.next() {
            None => (self.beyond, None),
            Some((at, entry)) if schema.compare_positions(at, &self.end).is_lt() => {
                (entry.gap, Some((at.clone(), entry.clone())))
            }
            Some((_, entry)) => (entry.gap, None),
        }
    }
}

/// The output. A range tombstone change is held until a fragment follows, because another change at the same
/// position may cancel it; likewise the start of a partition, which may turn out to be empty.
#[derive(Default)]
struct Output {
    fragments: VecDeque<Fragment>,
    held_start: Option<Fragment>,
    held_change: Option<(Position, Tombstone)>,
    /// The range tombstone in force in the output.
    shown: Tombstone,
    has_given: bool,
}

impl Output {
    #[inline]
    fn pop(&mut self) -> Option<Fragment> {
        let next = self.fragments.pop_front();
        self.has_given |= next.is_some();
        next
    }

    fn start(&mut self, fragment: Fragment) {
        match fragment {
            Fragment::PartitionStart { tombstone, .. } if tombstone.is_live() => {
                self.held_start = Some(fragment)
            }
            said => self.fragments.push_back(said),
        }
    }

    fn push(&mut self, fragment: Fragment) {
        self.fragments.extend(self.held_start.take());
        self.fragments.push_back(fragment);
    }

    /// From `position` on, `tombstone` is in force.
    fn change(&mut self, schema: &TableSchema, position: &Position, tombstone: Tombstone) {
        if self.held_change.is_none() && tombstone == self.shown {
            return;
        }
        if self.held_change.as_ref().is_some_and(|(at, _)| schema.compare_positions(at, position).is_ne()) {
            self.push_change();
        }
        self.held_change = (tombstone != self.shown).then(|| (position.clone(), tombstone));
    }

    fn push_change(&mut self) {
        if let Some((position, tombstone)) = self.held_change.take() {
            self.shown = tombstone;
            self.push(Fragment::Change(RangeTombstoneChange { position, tombstone }));
        }
    }

    fn row(&mut self, row: RowFragment) {
        self.push_change();
        self.push(Fragment::Row(row));
    }

    fn end(&mut self) {
        self.push_change();
        let was_given = self.has_given || !self.fragments.is_empty();
        if self.held_start.take().is_none() && was_given {
            self.fragments.push_back(Fragment::PartitionEnd);
        }
    }
}
