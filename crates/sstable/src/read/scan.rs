//! Scans whole partitions: reads Data.db front to back from one point of the ring to another.
//!
//! The index is read to find the two ends, and to find the next partition when a long partition is skipped.
//! All other data come from Data.db in large requests that overlap with the parsing (`window`). A scan
//! neither reads from the chunk cache nor adds to it.

use std::cell::Cell;
use std::rc::Rc;

use model::{PartitionKey, Position, RingPosition, Tombstone};
use reader::{Fragment, LocalFuture, ReadError, ReadSpec, Reader, Step};
use runtime::IoClass;

use crate::read::data::window::{Fetch, Window};
use crate::read::decode::parse::{Parsed, Parser, change_fragment, row_fragment};
use crate::read::decode::unfiltered::Kind;
use crate::read::index::partition_index::PartitionCursor;
use crate::read::sstable::SSTable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The range of file positions is not known yet.
    Open,
    /// At the start of a partition.
    Header,
    Static,
    Rows,
    /// The rest of the partition has to be skipped.
    Skip,
    Done,
}

/// See the head of this file.
pub(super) struct ScanReader {
    sstable: Rc<SSTable>,
    parser: Parser,
    class: IoClass,
    /// How Index.db is fetched.
    index_fetch: Fetch,
    start: RingPosition,
    end: RingPosition,
    window: Window,
    /// Start of the next row, marker or header.
    at: u64,
    /// End of the scan.
    until: u64,
    state: State,
    /// Bytes that the window must contain from `at` on before the next step; 0 if it contains enough.
    need: u64,
    last_key: Option<PartitionKey>,
    in_force: Tombstone,
    /// Counter of the bytes that the scan has read; `counted` is the position up to which they are counted.
    progress: Option<Rc<Cell<u64>>>,
    counted: u64,
    /// Position of the last returned fragment in the data.
    returned_at: u64,
}

impl ScanReader {
    /// A scan of `spec`, which must want all rows, forward.
    pub(super) fn new(
        sstable: &Rc<SSTable>,
        parser: Parser,
        spec: &ReadSpec,
        index_fetch: Fetch,
        class: IoClass,
        progress: Option<Rc<Cell<u64>>>,
    ) -> Self {
        assert!(spec.wants_all_rows() && !spec.reversed, "a scan gives everything, front to back");
        let state = if sstable.may_contain_range(&spec.partitions) { State::Open } else { State::Done };
        Self {
            sstable: Rc::clone(sstable),
            parser,
            class,
            start: spec.partitions.start(),
            end: spec.partitions.end(),
            window: Window::new(Fetch::Scan, class).charged_to(&spec.permit),
            index_fetch,
            at: 0,
            until: 0,
            state,
            need: 0,
            last_key: None,
            in_force: Tombstone::LIVE,
            progress,
            counted: 0,
            returned_at: 0,
        }
    }

    /// Adds the bytes read since the last call to the progress counter.
    fn count(&mut self) {
        if let Some(progress) = &self.progress {
            progress.set(progress.get() + self.at.saturating_sub(self.counted));
            self.counted = self.at;
        }
    }

    /// Position in the data of the last returned fragment; for a static row, the position after it.
    pub(super) fn returned_at(&self) -> u64 {
        self.returned_at
    }

    /// Start of the first partition after `point`.
    async fn position_after(&self, point: &RingPosition) -> Result<u64, ReadError> {
        let sstable = &*self.sstable;
        let mut cursor = PartitionCursor::new(sstable, self.index_fetch, self.class);
        cursor.seek(sstable, point).await?;
        let Some(entry) = cursor.next(sstable).await? else { return Ok(sstable.data.data_bytes()) };
        if entry.position() >= sstable.data.data_bytes() {
            return Err(sstable.position_beyond_data(&entry));
        }
        Ok(entry.position())
    }

    async fn find_ends(&mut self) -> Result<(), ReadError> {
        let starts_first = self.start.side_of(self.sstable.first_key()).is_gt();
        self.at = if starts_first { 0 } else { self.position_after(&self.start).await? };
        self.counted = self.at;
        let ends_last = self.end.side_of(self.sstable.last_key()).is_lt();
        self.until =
            if ends_last { self.sstable.data.data_bytes() } else { self.position_after(&self.end).await? };
        self.state = State::Header;
        Ok(())
    }

    /// Moves to the next partition by the index.
    async fn skip_by_index(&mut self) -> Result<(), ReadError> {
        let last = self.last_key.clone().expect("a partition was begun");
        let position = self.position_after(&RingPosition::AfterKey(last)).await?;
        if position <= self.at && position != self.sstable.data.data_bytes() {
            let detail = "by the index, a later partition starts before this position";
            return Err(self.sstable.data.corrupt(self.at, detail));
        }
        self.at = position;
        self.state = State::Header;
        Ok(())
    }

    /// The next fragment; `None` at the end, or if `need` is set because the window has to be filled first.
    fn step(&mut self) -> Result<Option<Fragment>, ReadError> {
        let parser = &mut self.parser;
        loop {
            match self.state {
                State::Open | State::Done => return Ok(None),
                State::Header => {
                    if self.at >= self.sstable.data.data_bytes() {
                        self.check_last_partition()?;
                        self.state = State::Done;
                        return Ok(None);
                    }
                    let (key, tombstone, bytes) = match parser.header(&self.window, self.at)? {
                        Parsed::Done(header) => header,
                        Parsed::Need(need) => return Ok(self.wait(need)),
                    };
                    if self.last_key.as_ref().is_some_and(|last| *last >= key) {
                        let detail = "partition keys do not ascend by token and key";
                        return Err(self.sstable.data.corrupt(self.at, detail));
                    }
                    if self.end.side_of(&key).is_gt() {
                        self.state = State::Done;
                        return Ok(None);
                    }
                    if self.start.side_of(&key).is_lt() {
                        let detail =
                            "a partition before the range, where the index has the first of the range";
                        return Err(self.sstable.data.corrupt(self.at, detail));
                    }
                    self.returned_at = self.at;
                    self.at += bytes;
                    self.in_force = Tombstone::LIVE;
                    self.last_key = Some(key.clone());
                    self.state = if self.sstable.columns.has_static() { State::Static } else { State::Rows };
                    return Ok(Some(Fragment::PartitionStart { key, tombstone }));
                }
                State::Skip => {
                    let head = match parser.head(&self.window, self.at, false)? {
                        Parsed::Done(head) => head,
                        Parsed::Need(need) => return Ok(self.wait(need)),
                    };
                    self.at += head.bytes;
                    if head.kind == Kind::EndOfPartition {
                        self.state = State::Header;
                    }
                }
                State::Static | State::Rows => {
                    let head = match parser.head(&self.window, self.at, true)? {
                        Parsed::Done(head) => head,
                        Parsed::Need(need) => return Ok(self.wait(need)),
                    };
                    let at = self.at;
                    let is_static = head.kind == Kind::StaticRow;
                    if is_static != (self.state == State::Static) {
                        let detail = "a static row that is not the first of its partition, or is missing";
                        return Err(self.sstable.data.corrupt(at, detail));
                    }
                    self.state = State::Rows;
                    let fragment = match head.kind {
                        Kind::EndOfPartition => {
                            if !self.in_force.is_live() {
                                return Err(parser.unbalanced(at, self.in_force, Tombstone::LIVE));
                            }
                            self.state = State::Header;
                            Some(Fragment::PartitionEnd)
                        }
                        Kind::StaticRow => {
                            let row = parser.row(&self.window, &head, at)?;
                            (!row.is_empty()).then(|| Fragment::Static(Rc::new(row)))
                        }
                        Kind::Row => {
                            let key = parser.key(&head, at)?;
                            row_fragment(key, parser.row(&self.window, &head, at)?)
                        }
                        Kind::Marker(kind) => {
                            let (in_front, behind) = parser.marker(&self.window, &head, kind, at)?;
                            if in_front != self.in_force {
                                return Err(parser.unbalanced(at, self.in_force, in_front));
                            }
                            self.in_force = behind;
                            let position = Position { prefix: parser.key(&head, at)?, side: head.side() };
                            (in_front != behind).then(|| change_fragment(position, behind))
                        }
                    };
                    self.at += head.bytes;
                    if fragment.is_some() {
                        self.returned_at = if is_static { self.at } else { at };
                        return Ok(fragment);
                    }
                }
            }
        }
    }

    /// Fails if Data.db ends before the SSTable's last partition, and the scan wants it. The length of an
    /// uncompressed Data.db is known from the file alone, so a truncated file ends like a whole one.
    fn check_last_partition(&self) -> Result<(), ReadError> {
        let last = self.sstable.last_key();
        if self.start.side_of(last).is_lt() || self.last_key.as_ref() == Some(last) {
            return Ok(());
        }
        Err(self
            .sstable
            .data
            .corrupt(self.at, "the file ends here, before the last partition of the SSTable"))
    }

    fn wait(&mut self, need: u64) -> Option<Fragment> {
        self.need = need;
        None
    }
}

impl Reader for ScanReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        if self.need > 0 {
            return Ok(Step::Load);
        }
        Ok(match self.step()? {
            Some(fragment) => Step::Ready(fragment),
            None if self.need > 0 || self.state == State::Open => Step::Load,
            None => {
                self.count();
                Step::End
            }
        })
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async {
            match self.state {
                State::Open => self.find_ends().await,
                State::Skip if self.need > 0 => {
                    self.need = 0;
                    self.skip_by_index().await
                }
                _ if self.need > 0 => {
                    self.count();
                    let sstable = Rc::clone(&self.sstable);
                    self.window.fill(&sstable.data, self.at, self.need, self.until).await?;
                    self.need = 0;
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    fn skip_partition(&mut self) {
        if matches!(self.state, State::Static | State::Rows) {
            self.state = State::Skip;
            self.need = 0;
        }
    }
}
