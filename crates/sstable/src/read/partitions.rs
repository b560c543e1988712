//! Reads partitions one by one through the index: single partitions and slices of their rows, in either
//! direction.
//!
//! 1. The index gives the position of the next wanted partition. The header at this position must contain the
//!    same key.
//! 2. If the partition has a row index, a search there (`seek`) finds the block in which a wanted range of
//!    rows begins and the range deletion that is in force at its start.
//! 3. From there rows are read one by one: forward by their sizes, in reverse by the size of the previous
//!    row, which each row stores. Bodies of unwanted rows are not decoded, and often not read.
//! 4. The `SliceCutter` restricts the fragments to the wanted ranges.
//!
//! The index is trusted only after Data.db has confirmed it: the key of a partition, the first row of a
//! block, the stored sizes in both directions, and markers that continue the deletion in force. Memory: one
//! window, which holds at least one whole row; never a partition.

use std::collections::VecDeque;
use std::rc::Rc;

use model::{ClusteringRange, PartitionRange, Position, RingPosition, Row, Tombstone};
use reader::slice::SliceCutter;
use reader::{Fragment, LocalFuture, ReadError, ReadSpec, Reader, RowFragment, Step};
use runtime::IoClass;

use crate::read::data::window::{Fetch, Window};
use crate::read::decode::parse::{Parsed, Parser, change_fragment, row_fragment};
use crate::read::decode::unfiltered::Kind;
use crate::read::index::partition_index::{Entry, PartitionCursor};
use crate::read::index::row_index::{RowBlock, RowIndex};
use crate::read::seek::check_expected;
use crate::read::sstable::SSTable;

/// Partitions up to this length in bytes are fetched in one request.
const SMALL_PARTITION_BYTES: u64 = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No index entry has been read yet.
    Open,
    /// Positioned before the next index entry.
    Next,
    Header,
    Static,
    /// The start of the next wanted range must be searched for.
    Seek,
    Rows,
    Done,
}

/// Result of a step.
enum Stepped {
    /// Continue. A fragment may be ready.
    On,
    /// The window must contain this number of bytes from the start of the current row or marker.
    Need(u64),
}

/// See the head of this file.
pub(super) struct SSTableReader {
    pub(super) sstable: Rc<SSTable>,
    pub(super) parser: Parser,
    pub(super) spec: ReadSpec,
    /// How Index.db is fetched.
    pub(super) index_fetch: Fetch,
    pub(super) class: IoClass,
    pub(super) window: Window,
    cursor: PartitionCursor,
    end: RingPosition,
    pub(super) state: State,
    /// Bytes of the current row or marker that the window must contain before the next step; 0 if it contains
    /// enough.
    pub(super) need: u64,
    /// Restricts the fragments to the wanted ranges; `None` if the read wants everything.
    pub(super) cut: Option<SliceCutter>,
    /// Fragments to return next, if `cut` is `None`.
    ready: VecDeque<Fragment>,
    in_partition: bool,
    pub(super) entry: Option<Entry>,
    pub(super) row_index: Option<RowIndex>,
    /// Position of the partition's first row or marker.
    pub(super) rows_at: u64,
    /// Start of the current row or marker.
    pub(super) at: u64,
    /// In a reversed read, the end of the current row or marker; 0 before the first one.
    pub(super) piece_end: u64,
    pub(super) in_force: Tombstone,
    /// The block that the last seek found.
    pub(super) block: Option<RowBlock>,
    /// The target of the last seek.
    pub(super) sought: Option<Position>,
    /// The clustering position that the row index states for the row or marker at `at`.
    pub(super) expected: Option<Position>,
    /// An empty row that stands for rows of which only the clustering position is needed.
    nothing: Rc<Row>,
}

impl SSTableReader {
    pub(super) fn new(
        sstable: &Rc<SSTable>,
        parser: Parser,
        spec: &ReadSpec,
        (fetch, index_fetch): (Fetch, Fetch),
        class: IoClass,
    ) -> Self {
        let state = if sstable.may_contain_range(&spec.partitions) { State::Open } else { State::Done };
        Self {
            sstable: Rc::clone(sstable),
            parser,
            spec: spec.clone(),
            index_fetch,
            class,
            window: Window::new(fetch, class).charged_to(&spec.permit),
            cursor: PartitionCursor::new(sstable, index_fetch, class).charged_to(&spec.permit),
            end: spec.partitions.end(),
            state,
            need: 0,
            cut: (!spec.wants_all_rows()).then(|| SliceCutter::new(spec)),
            ready: VecDeque::new(),
            in_partition: false,
            entry: None,
            row_index: None,
            rows_at: 0,
            at: 0,
            piece_end: 0,
            in_force: Tombstone::LIVE,
            block: None,
            sought: None,
            expected: None,
            nothing: Rc::new(Row::new()),
        }
    }

    /// Moves to the first wanted partition.
    async fn open(&mut self) -> Result<(), ReadError> {
        let sstable = Rc::clone(&self.sstable);
        match &self.spec.partitions {
            PartitionRange::Key(key) => {
                let found = self.cursor.find(&sstable, key).await?;
                if found.is_none() {
                    sstable.count_false_positive(self.class);
                }
                self.begin(found).await
            }
            PartitionRange::Between { start, .. } => {
                if start.side_of(sstable.first_key()).is_lt() {
                    self.cursor.seek(&sstable, start).await?;
                }
                self.next_partition().await
            }
        }
    }

    async fn next_partition(&mut self) -> Result<(), ReadError> {
        let sstable = Rc::clone(&self.sstable);
        let entry = self.cursor.next(&sstable).await?;
        let entry = entry.filter(|entry| self.end.side_of(entry.key()).is_lt());
        self.begin(entry).await
    }

    async fn begin(&mut self, entry: Option<Entry>) -> Result<(), ReadError> {
        self.row_index = None;
        self.block = None;
        self.sought = None;
        self.expected = None;
        self.piece_end = 0;
        self.in_force = Tombstone::LIVE;
        let Some(entry) = entry else {
            self.state = State::Done;
            return Ok(());
        };
        let data = &self.sstable.data;
        if entry.position() >= data.data_bytes() {
            return Err(self.sstable.position_beyond_data(&entry));
        }
        self.at = entry.position();
        self.state = State::Header;
        let next_position = entry.next_position();
        self.entry = Some(entry);
        let len = next_position.and_then(|next| next.checked_sub(self.at));
        let need = len.filter(|len| *len <= SMALL_PARTITION_BYTES).unwrap_or(1);
        self.fill(need).await
    }

    /// Upper bound of the positions that this read needs, as far as it is known; `u64::MAX` if it is not
    /// known.
    pub(super) fn until(&self) -> u64 {
        let is_range = matches!(self.spec.partitions, PartitionRange::Between { .. });
        let next = self.entry.as_ref().and_then(Entry::next_position);
        if is_range { u64::MAX } else { next.unwrap_or(u64::MAX) }
    }

    pub(super) async fn fill(&mut self, need: u64) -> Result<(), ReadError> {
        let until = self.until();
        self.window.fill(&self.sstable.data, self.at, need, until).await
    }

    async fn fill_piece(&mut self) -> Result<(), ReadError> {
        let need = self.need;
        if self.spec.reversed && self.state == State::Rows {
            let sstable = Rc::clone(&self.sstable);
            return self.window.fill_back(&sstable.data, self.at, self.piece_end, self.rows_at).await;
        }
        self.fill(need).await
    }

    fn emit(&mut self, fragment: Fragment) {
        match &mut self.cut {
            Some(cut) => cut.push(fragment),
            None => self.ready.push_back(fragment),
        }
    }

    fn pop(&mut self) -> Option<Fragment> {
        match &mut self.cut {
            Some(cut) => cut.pop(),
            None => self.ready.pop_front(),
        }
    }

    /// Ends the current partition: emits its end, because the partition has no further rows or none that are
    /// wanted.
    pub(super) fn finish_partition(&mut self) {
        self.leave_partition();
        self.emit(Fragment::PartitionEnd);
    }

    fn leave_partition(&mut self) {
        self.in_partition = false;
        self.need = 0;
        let is_only = matches!(self.spec.partitions, PartitionRange::Key(_));
        self.state = if is_only { State::Done } else { State::Next };
    }

    fn step(&mut self) -> Result<Stepped, ReadError> {
        match self.state {
            State::Header => self.header(),
            State::Static => self.static_row(),
            State::Rows if self.spec.reversed => self.row_back(),
            State::Rows => self.row(),
            State::Open | State::Next | State::Seek | State::Done => unreachable!("these are loaded"),
        }
    }

    fn header(&mut self) -> Result<Stepped, ReadError> {
        let (key, tombstone, bytes) = match self.parser.header(&self.window, self.at)? {
            Parsed::Done(header) => header,
            Parsed::Need(need) => return Ok(Stepped::Need(need)),
        };
        let entry = self.entry.as_ref().expect("a header is read where an entry points");
        if key != *entry.key() {
            let detail = format!(
                "by the index, a partition with key {:?} begins here; found {:?}",
                entry.key().bytes().escape_ascii().to_string(),
                key.bytes().escape_ascii().to_string()
            );
            return Err(self.sstable.data.corrupt(self.at, &detail));
        }
        self.at += bytes;
        self.in_partition = true;
        self.emit(Fragment::PartitionStart { key, tombstone });
        if self.sstable.columns.has_static() {
            self.state = State::Static;
        } else {
            self.rows_begin();
        }
        Ok(Stepped::On)
    }

    fn static_row(&mut self) -> Result<Stepped, ReadError> {
        let head = match self.parser.head(&self.window, self.at, true)? {
            Parsed::Done(head) => head,
            Parsed::Need(need) => return Ok(Stepped::Need(need)),
        };
        if head.kind != Kind::StaticRow {
            return Err(self.sstable.data.corrupt(self.at, "expected the static row, found another"));
        }
        let row = self.parser.row(&self.window, &head, self.at)?;
        self.at += head.bytes;
        if !row.is_empty() {
            self.emit(Fragment::Static(Rc::new(row)));
        }
        self.rows_begin();
        Ok(Stepped::On)
    }

    fn rows_begin(&mut self) {
        self.rows_at = self.at;
        let entry = self.entry.as_ref().expect("rows belong to an entry");
        let is_far = self.cut.is_some() && entry.has_row_index();
        self.state = if self.spec.reversed || is_far { State::Seek } else { State::Rows };
    }

    /// Whether the row index may lead to the wanted range faster than reading rows one by one.
    fn pays_to_seek(&self, wanted: &ClusteringRange) -> bool {
        let target = if self.spec.reversed { &wanted.end } else { &wanted.start };
        if self.row_index.is_none() && !self.entry.as_ref().is_some_and(Entry::has_row_index) {
            return false;
        }
        if self.sought.as_ref() == Some(target) {
            return false;
        }
        let Some(block) = &self.block else { return true };
        let types = &self.sstable.columns.clustering;
        block.is_past(&self.spec.schema, types, target, self.spec.reversed)
    }

    /// Reads the row or marker at `at` in a forward read.
    fn row(&mut self) -> Result<Stepped, ReadError> {
        let at = self.at;
        let head = match self.parser.head(&self.window, at, false)? {
            Parsed::Done(head) => head,
            Parsed::Need(need) => return Ok(Stepped::Need(need)),
        };
        let is_here = head.bytes <= self.window.rest(at).len() as u64;
        match head.kind {
            Kind::StaticRow => Err(self.sstable.data.corrupt(at, "a static row that is not the first")),
            Kind::EndOfPartition => {
                if self.expected.is_some() {
                    let detail = "the partition ends where, by the index, a block starts";
                    return Err(self.sstable.data.corrupt(at, detail));
                }
                if !self.in_force.is_live() {
                    return Err(self.parser.unbalanced(at, self.in_force, Tombstone::LIVE));
                }
                self.finish_partition();
                Ok(Stepped::On)
            }
            Kind::Marker(_) if !is_here => Ok(Stepped::Need(head.bytes)),
            Kind::Marker(kind) => {
                let (in_front, behind) = self.parser.marker(&self.window, &head, kind, at)?;
                let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
                self.at += head.bytes;
                check_expected(&self.sstable, &mut self.expected, at, &position)?;
                if in_front != self.in_force {
                    return Err(self.parser.unbalanced(at, self.in_force, in_front));
                }
                self.in_force = behind;
                if in_front != behind {
                    self.emit(change_fragment(position, behind));
                }
                Ok(Stepped::On)
            }
            Kind::Row => {
                if self.expected.is_some() {
                    let position = Position::at(self.parser.key(&head, at)?);
                    check_expected(&self.sstable, &mut self.expected, at, &position)?;
                }
                let schema = &self.spec.schema;
                let mut only_place = false;
                let mut is_single = false;
                if let Some(cut) = &self.cut {
                    let wanted = cut.wanted().expect("a partition of which nothing is wanted is finished");
                    if self.parser.compare(&head, at, schema, &wanted.start)?.is_lt() {
                        if self.pays_to_seek(wanted) {
                            self.state = State::Seek;
                        } else {
                            self.at += head.bytes;
                        }
                        return Ok(Stepped::On);
                    }
                    let is_last = self.spec.ranges.last().is_some_and(|last| std::ptr::eq(last, wanted));
                    only_place = is_last && self.parser.compare(&head, at, schema, &wanted.end)?.is_gt();
                    // A read of a single row needs nothing after this row.
                    is_single = is_last
                        && !only_place
                        && self.in_force.is_live()
                        && wanted.start.prefix.len() == schema.clustering.len()
                        && wanted.start.prefix == wanted.end.prefix;
                }
                let key = self.parser.key(&head, at)?;
                if only_place {
                    let row = Rc::clone(&self.nothing);
                    self.emit(Fragment::Row(RowFragment { key, row }));
                } else if !is_here {
                    return Ok(Stepped::Need(head.bytes));
                } else {
                    let row = self.parser.row(&self.window, &head, at)?;
                    self.at += head.bytes;
                    if let Some(fragment) = row_fragment(key, row) {
                        self.emit(fragment);
                    }
                }
                if is_single {
                    self.finish_partition();
                }
                Ok(Stepped::On)
            }
        }
    }

    /// Reads the row or marker at `at` in a reversed read.
    fn row_back(&mut self) -> Result<Stepped, ReadError> {
        let at = self.at;
        let len = self.piece_end - at;
        if (self.window.rest(at).len() as u64) < len {
            return Ok(Stepped::Need(len));
        }
        let head = match self.parser.head(&self.window, at, false)? {
            Parsed::Done(head) if head.bytes == len => head,
            _ => {
                let detail =
                    format!("expected a row or marker of {len} bytes, by the size that the next one states");
                return Err(self.sstable.data.corrupt(at, &detail));
            }
        };
        match head.kind {
            Kind::StaticRow | Kind::EndOfPartition => {
                return Err(self.sstable.data.corrupt(at, "expected a row or marker"));
            }
            Kind::Marker(kind) => {
                let (in_front, behind) = self.parser.marker(&self.window, &head, kind, at)?;
                if behind != self.in_force {
                    return Err(self.parser.unbalanced(at, self.in_force, behind));
                }
                self.in_force = in_front;
                let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
                let previous_bytes = head.previous_bytes;
                if in_front != behind {
                    self.emit(change_fragment(position, in_front));
                }
                return self.step_back(previous_bytes);
            }
            Kind::Row => {}
        }
        let schema = &self.spec.schema;
        let mut only_place = false;
        let mut is_single = false;
        if let Some(cut) = &self.cut {
            let wanted = cut.wanted().expect("a partition of which nothing is wanted is finished");
            if self.parser.compare(&head, at, schema, &wanted.end)?.is_gt() {
                if self.pays_to_seek(wanted) {
                    self.state = State::Seek;
                    return Ok(Stepped::On);
                }
                let previous_bytes = head.previous_bytes;
                return self.step_back(previous_bytes);
            }
            let is_last = self.spec.ranges.first().is_some_and(|first| std::ptr::eq(first, wanted));
            only_place = is_last && self.parser.compare(&head, at, schema, &wanted.start)?.is_lt();
            is_single = is_last
                && !only_place
                && self.in_force.is_live()
                && wanted.start.prefix.len() == schema.clustering.len()
                && wanted.start.prefix == wanted.end.prefix;
        }
        let previous_bytes = head.previous_bytes;
        let key = self.parser.key(&head, at)?;
        if only_place {
            let row = Rc::clone(&self.nothing);
            self.emit(Fragment::Row(RowFragment { key, row }));
        } else {
            let row = self.parser.row(&self.window, &head, at)?;
            if let Some(fragment) = row_fragment(key, row) {
                self.emit(fragment);
            }
        }
        if is_single {
            self.finish_partition();
            return Ok(Stepped::On);
        }
        self.step_back(previous_bytes)
    }

    /// Moves to the row or marker before the current one. `previous_bytes` is its length, as the current one
    /// stores it.
    fn step_back(&mut self, previous_bytes: u64) -> Result<Stepped, ReadError> {
        let start = self.entry.as_ref().expect("a partition is being read").position();
        if self.at == self.rows_at {
            if previous_bytes != self.at - start {
                let detail = format!(
                    "distance to the partition's start: expected {}, found {previous_bytes}",
                    self.at - start
                );
                return Err(self.sstable.data.corrupt(self.at, &detail));
            }
            if !self.in_force.is_live() {
                return Err(self.parser.unbalanced(self.at, self.in_force, Tombstone::LIVE));
            }
            self.finish_partition();
            return Ok(Stepped::On);
        }
        if previous_bytes == 0 || previous_bytes > self.at - self.rows_at {
            let detail = format!(
                "size of the previous row or marker: expected 1 to {}, found {previous_bytes}",
                self.at - self.rows_at
            );
            return Err(self.sstable.data.corrupt(self.at, &detail));
        }
        self.piece_end = self.at;
        self.at -= previous_bytes;
        Ok(Stepped::On)
    }

    /// Whether the read wants nothing more of the current partition.
    fn is_satisfied(&self) -> bool {
        matches!(self.state, State::Seek | State::Rows) && self.cut.as_ref().is_some_and(SliceCutter::is_done)
    }
}

impl Reader for SSTableReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some(fragment) = self.pop() {
                return Ok(Step::Ready(fragment));
            }
            if self.need > 0 {
                return Ok(Step::Load);
            }
            if self.is_satisfied() {
                self.finish_partition();
                continue;
            }
            match self.state {
                State::Done => return Ok(Step::End),
                State::Open | State::Next | State::Seek => return Ok(Step::Load),
                State::Header | State::Static | State::Rows => match self.step()? {
                    Stepped::On => {}
                    Stepped::Need(need) => self.need = need,
                },
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async {
            match self.state {
                State::Open => self.open().await,
                State::Next => self.next_partition().await,
                State::Seek if !self.is_satisfied() => self.seek().await,
                _ if self.need > 0 => {
                    self.fill_piece().await?;
                    self.need = 0;
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    fn skip_partition(&mut self) {
        let was_inside = self.in_partition;
        self.ready.clear();
        if let Some(cut) = &mut self.cut {
            cut.skip();
        }
        if was_inside {
            self.leave_partition();
        }
    }
}
