//! Salvage: reads the readable part of a damaged SSTable, and counts the losses.
//!
//! Partitions are read from Data.db in file order. As long as no error occurs, each partition starts where
//! the previous one ended. After an error the next index entry gives the position of the next partition; the
//! entry and Data.db must then have the same key.
//! - A row whose body cannot be decoded is skipped; its length leads to the next row.
//! - If the next row cannot be found (wrong checksum, invalid head), reading continues at the next block in
//!   the row index of the partition. A partition without a row index ends there. The same applies if the
//!   start of a partition cannot be read; the row index also stores the key and the deletion of the
//!   partition.
//! - A row with a value that is invalid for the type of its column is skipped, unless [`Salvage::validates`]
//!   is false.
//! - A row that is out of order is skipped.
//! - A range deletion that was in force at the damage ends with the last row before the damage, unless the
//!   row index states that it is still in force after it.
//!
//! The fragments of each returned partition are well-formed. Partitions may be returned in any order, and
//! more than once.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringPrefix, PartitionKey, Position, RangeTombstoneChange, Row, Side, TableSchema, Tombstone,
};
use reader::{Fragment, ReadError};
use runtime::IoClass;

use super::values;
use crate::read::data::window::{Fetch, Window};
use crate::read::decode::parse::{Parsed, Parser, change_fragment, row_fragment};
use crate::read::decode::unfiltered::Kind;
use crate::read::index::partition_index::{Entry, PartitionCursor};
use crate::read::index::row_index::RowIndex;
use crate::read::sstable::SSTable;

/// Maximum number of errors that are kept. Further errors are only counted.
const ERRORS_MAX: usize = 1000;

/// The parts of an SSTable that could not be read.
#[derive(Debug, Default)]
pub struct SalvageLosses {
    /// Partitions of which no part could be read.
    pub partitions: u64,
    /// Partitions of which a part could not be read.
    pub damaged_partitions: u64,
    /// Rows that were found but are invalid. The rows inside a gap are not known, so this number does not
    /// include them.
    pub rows: u64,
    /// Places where an unknown number of rows is missing.
    pub gaps: u64,
    /// The first 1,000 errors, in file order.
    pub errors: Vec<ReadError>,
    /// Number of all errors, including those that were not kept.
    pub error_count: u64,
    /// Number of I/O errors among all errors. Another attempt may read what these lost.
    pub io_error_count: u64,
}

/// The start of a salvaged partition.
#[derive(Clone, Debug)]
pub struct Salvaged {
    pub key: PartitionKey,
    /// The partition's deletion.
    pub tombstone: Tombstone,
    /// Position of the partition in the data before compression.
    pub position: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    Static,
    Rows,
}

/// See the head of this file.
pub struct Salvage {
    sstable: Rc<SSTable>,
    schema: Arc<TableSchema>,
    parser: Parser,
    class: IoClass,
    window: Window,
    /// `None` if the index cannot be read any further.
    cursor: Option<PartitionCursor>,
    /// The next index entry.
    ahead: Option<Entry>,
    at: u64,
    /// Whether a partition ended directly before `at`; false after damage.
    is_placed: bool,
    state: State,
    start: u64,
    entry: Option<Entry>,
    last: Option<Position>,
    in_force: Tombstone,
    /// A change of the range deletion in force. It is held back until a later fragment confirms it.
    held: Option<RangeTombstoneChange>,
    out: VecDeque<Fragment>,
    is_damaged: bool,
    /// Whether rows with values that are invalid for their types are skipped.
    pub validates: bool,
    /// The losses so far.
    pub losses: SalvageLosses,
}

impl SSTable {
    /// Starts to read the readable part of the SSTable for `schema`.
    ///
    /// # Errors
    /// The schema does not fit this SSTable.
    pub fn salvage(self: &Rc<Self>, schema: &Arc<TableSchema>, class: IoClass) -> Result<Salvage, ReadError> {
        let map = self.column_map(schema).map_err(|detail| self.data.corrupt(0, &detail))?;
        self.data.set_crc_check_chance(1.0);
        Ok(Salvage {
            sstable: Rc::clone(self),
            schema: Arc::clone(schema),
            parser: Parser::new(self, map),
            class,
            window: Window::new(Fetch::Scan, class),
            cursor: Some(PartitionCursor::new(self, Fetch::Bypass, class)),
            ahead: None,
            at: 0,
            is_placed: true,
            state: State::Between,
            start: 0,
            entry: None,
            last: None,
            in_force: Tombstone::LIVE,
            held: None,
            out: VecDeque::new(),
            is_damaged: false,
            validates: true,
            losses: SalvageLosses::default(),
        })
    }
}

impl Salvage {
    /// Returns the next partition that has a readable start. Skips the unread part of the current partition.
    pub async fn next_partition(&mut self) -> Option<Salvaged> {
        while self.state != State::Between {
            self.next_fragment().await;
        }
        self.out.clear();
        loop {
            if !self.find_place().await {
                return None;
            }
            match self.header().await {
                Ok((key, tombstone, bytes)) => {
                    let is_known = self.entry.as_ref().is_some_and(|entry| *entry.key() == key);
                    if !self.is_placed && !is_known {
                        let detail = "the index has a partition here, and Data.db another key";
                        let error = self.sstable.data.corrupt(self.at, detail);
                        self.lose_partition(error);
                        continue;
                    }
                    self.begin(if self.sstable.columns.has_static() { State::Static } else { State::Rows });
                    self.at += bytes;
                    return Some(Salvaged { key, tombstone, position: self.start });
                }
                Err(error) => match self.indexed_start().await {
                    Some(partition) => {
                        self.begin(State::Rows);
                        self.cut(error).await;
                        return Some(partition);
                    }
                    None => self.lose_partition(error),
                },
            }
        }
    }

    /// Begins the partition that starts at `at`.
    fn begin(&mut self, state: State) {
        self.start = self.at;
        self.last = None;
        self.in_force = Tombstone::LIVE;
        self.held = None;
        self.is_damaged = false;
        self.is_placed = true;
        self.state = state;
    }

    /// Key and deletion of a large partition whose start cannot be read, from its row index.
    async fn indexed_start(&self) -> Option<Salvaged> {
        let entry = self.entry.as_ref()?;
        let rows = RowIndex::open_unchecked(&self.sstable, entry, Fetch::Bypass, self.class).await.ok()??;
        Some(Salvaged { key: entry.key().clone(), tombstone: rows.deletion(), position: entry.position() })
    }

    /// Moves to a partition that [`Self::next_partition`] has returned before.
    pub fn seek(&mut self, partition: &Salvaged) {
        assert!(self.state == State::Between, "a partition is read to its end first");
        self.at = partition.position;
        self.is_placed = true;
        self.cursor = Some(PartitionCursor::new(&self.sstable, Fetch::Bypass, self.class));
        self.ahead = None;
        self.window = Window::new(Fetch::Bypass, self.class);
    }

    /// Current position in the data before compression.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next fragment of the partition; the last one is [`Fragment::PartitionEnd`].
    pub async fn next_fragment(&mut self) -> Fragment {
        assert!(self.state != State::Between || !self.out.is_empty(), "a partition was begun");
        loop {
            if let Some(fragment) = self.out.pop_front() {
                return fragment;
            }
            if let Err(error) = self.step().await {
                self.cut(error).await;
            }
        }
    }

    fn note(&mut self, error: ReadError) {
        self.losses.error_count += 1;
        self.losses.io_error_count += u64::from(matches!(error, ReadError::Io { .. }));
        if self.losses.errors.len() < ERRORS_MAX {
            self.losses.errors.push(error);
        }
    }

    fn lose_partition(&mut self, error: ReadError) {
        self.note(error);
        self.losses.partitions += 1;
        self.is_placed = false;
        self.at += 1;
    }

    /// Moves to the start of the next partition. Returns false if there is none.
    async fn find_place(&mut self) -> bool {
        self.entry = None;
        if self.is_placed && self.at >= self.sstable.data.data_bytes() {
            return false;
        }
        loop {
            if self.ahead.is_none() {
                self.ahead = self.next_entry().await;
            }
            match &self.ahead {
                Some(entry) if entry.position() < self.at => self.ahead = None,
                Some(entry) if entry.position() == self.at || !self.is_placed => {
                    if entry.position() >= self.sstable.data.data_bytes() {
                        return false;
                    }
                    self.at = entry.position();
                    self.entry = self.ahead.take();
                    return true;
                }
                Some(_) => return true,
                None => {
                    let left_bytes = self.sstable.data.data_bytes().saturating_sub(self.at);
                    if !self.is_placed && left_bytes > 0 {
                        let detail = format!(
                            "the start of the next partition is unknown; {left_bytes} bytes are not checked"
                        );
                        self.note(self.sstable.data.corrupt(self.at, &detail));
                        self.losses.gaps += 1;
                        self.at = self.sstable.data.data_bytes();
                    }
                    return self.is_placed;
                }
            }
        }
    }

    async fn next_entry(&mut self) -> Option<Entry> {
        loop {
            let cursor = self.cursor.as_mut()?;
            let before = cursor.place();
            match cursor.next(&self.sstable).await {
                Ok(Some(entry)) => return Some(entry),
                Ok(None) => {
                    self.cursor = None;
                    return None;
                }
                Err(error) => {
                    if !cursor.pass(&self.sstable, before).await {
                        self.cursor = None;
                    }
                    self.note(error);
                }
            }
        }
    }

    /// Fills the window with `need` bytes and read-ahead. If that fails, reads only the needed bytes, because
    /// the damage may lie in the part that was read ahead.
    async fn fill(&mut self, need: u64) -> Result<(), ReadError> {
        let data = &self.sstable.data;
        let end = self.entry.as_ref().and_then(Entry::next_position);
        if end.is_some_and(|end| end > self.start && self.at.saturating_add(need) > end) {
            return Err(data.corrupt(self.at, "the item that starts here reaches into the next partition"));
        }
        if self.window.fill(data, self.at, need, u64::MAX).await.is_ok() {
            return Ok(());
        }
        self.window = Window::new(Fetch::Bypass, self.class);
        self.window.fill(data, self.at, need, 0).await
    }

    async fn header(&mut self) -> Result<(PartitionKey, Tombstone, u64), ReadError> {
        loop {
            match self.parser.header(&self.window, self.at)? {
                Parsed::Done(header) => return Ok(header),
                Parsed::Need(need) => self.fill(need).await?,
            }
        }
    }

    async fn step(&mut self) -> Result<(), ReadError> {
        let sstable = Rc::clone(&self.sstable);
        let at = self.at;
        loop {
            match self.parser.head(&self.window, at, true)? {
                Parsed::Done(_) => break,
                Parsed::Need(need) => self.fill(need).await?,
            }
        }
        let Parsed::Done(head) = self.parser.head(&self.window, at, true)? else {
            unreachable!("it was there just now");
        };
        let bytes = head.bytes;
        let wants_static = self.state == State::Static;
        if (head.kind == Kind::StaticRow) != wants_static {
            return Err(sstable.data.corrupt(at, "a static row is missing, or is not the first"));
        }
        match head.kind {
            Kind::EndOfPartition => {
                self.at += bytes;
                self.end_partition(Tombstone::LIVE);
            }
            Kind::StaticRow => {
                let row = self.parser.row(&self.window, &head, at);
                self.at += bytes;
                self.state = State::Rows;
                match row.and_then(|row| self.valid(None, row, at)) {
                    Ok(row) if row.is_empty() => {}
                    Ok(row) => self.out.push_back(Fragment::Static(Rc::new(row))),
                    Err(error) => self.lose_row(error),
                }
            }
            Kind::Row => {
                let key = self.parser.key(&head, at)?;
                let row = self.parser.row(&self.window, &head, at);
                self.at += bytes;
                let position = Position { prefix: key.clone(), side: Side::At };
                if !self.rises(&position) {
                    self.lose_row(sstable.data.corrupt(at, "a row that is not after the previous one"));
                    return Ok(());
                }
                match row.and_then(|row| self.valid(Some(&key), row, at)) {
                    Ok(row) => {
                        self.return_held();
                        self.last = Some(position);
                        self.out.extend(row_fragment(key, row));
                    }
                    Err(error) => self.lose_row(error),
                }
            }
            Kind::Marker(kind) => {
                let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
                let marker = self.parser.marker(&self.window, &head, kind, at);
                self.at += bytes;
                let (in_front, behind) = marker?;
                if !self.rises(&position) {
                    return Err(sstable
                        .data
                        .corrupt(at, "a marker that is not after the previous row or marker"));
                }
                let open = self.held.as_ref().map_or(self.in_force, |held| held.tombstone);
                if in_front != open {
                    let error = self.parser.unbalanced(at, open, in_front);
                    self.note(error);
                    self.is_damaged = true;
                }
                self.return_held();
                self.last = Some(position.clone());
                if behind != self.in_force {
                    self.held = Some(RangeTombstoneChange { position, tombstone: behind });
                }
            }
        }
        Ok(())
    }

    /// Returns the row if all its values are valid for their types.
    fn valid(&self, key: Option<&ClusteringPrefix>, row: Row, at: u64) -> Result<Row, ReadError> {
        let checked = if self.validates { values::check(&self.schema, key, &row) } else { Ok(()) };
        checked.map(|()| row).map_err(|detail| self.sstable.data.corrupt(at, &detail))
    }

    fn rises(&self, position: &Position) -> bool {
        self.last.as_ref().is_none_or(|last| self.schema.compare_positions(last, position).is_lt())
    }

    fn lose_row(&mut self, error: ReadError) {
        self.note(error);
        self.losses.rows += 1;
        self.is_damaged = true;
    }

    fn return_held(&mut self) {
        if let Some(change) = self.held.take() {
            self.in_force = change.tombstone;
            self.out.push_back(Fragment::Change(change));
        }
    }

    /// Ends the range deletion in force, unless it is `tombstone`, which shall be in force after the last
    /// fragment.
    fn settle(&mut self, tombstone: Tombstone) {
        // The held change states where the previous deletion ends. The deletion that begins there is unknown.
        let at = match self.held.take() {
            Some(change) if change.tombstone == tombstone => {
                self.in_force = tombstone;
                self.out.push_back(Fragment::Change(change));
                return;
            }
            Some(change) => Some(change.position),
            None => self.last.clone().map(|last| Position { side: Side::After, ..last }),
        };
        if self.in_force != Tombstone::LIVE {
            let position = at.expect("a deletion in force was begun somewhere");
            self.out.push_back(change_fragment(position, Tombstone::LIVE));
            self.in_force = Tombstone::LIVE;
        }
    }

    fn end_partition(&mut self, tombstone: Tombstone) {
        self.settle(tombstone);
        self.state = State::Between;
        self.losses.damaged_partitions += u64::from(self.is_damaged);
        self.out.push_back(Fragment::PartitionEnd);
    }

    /// Handles an error: continues with the next block of the partition, or ends the partition.
    async fn cut(&mut self, error: ReadError) {
        self.note(error);
        self.is_damaged = true;
        self.losses.gaps += 1;
        self.window = Window::new(Fetch::Scan, self.class);
        match self.block_after().await {
            Some((at, open, first)) => {
                self.state = State::Rows;
                self.at = at;
                let is_new =
                    self.last.as_ref().is_none_or(|last| self.schema.compare_positions(last, &first).is_lt());
                if open == self.in_force && self.held.is_none() {
                    return;
                }
                self.settle(open);
                if self.in_force == open {
                    return;
                }
                // The deletion begins inside the gap, at an unknown position. It is known to be in force from
                // the first row after the gap on.
                if is_new && first.side == Side::At {
                    let position = Position { side: Side::Before, ..first };
                    self.in_force = open;
                    self.last = Some(position.clone());
                    self.out.push_back(change_fragment(position, open));
                }
            }
            None => {
                self.end_partition(Tombstone::LIVE);
                self.is_placed = false;
                self.at += 1;
            }
        }
    }

    /// The first block of the partition that starts after `at`: its start, the deletion in force there, and
    /// the position of its first row or marker.
    async fn block_after(&mut self) -> Option<(u64, Tombstone, Position)> {
        let sstable = Rc::clone(&self.sstable);
        let entry = self.entry.as_ref()?;
        let mut rows = RowIndex::open_unchecked(&sstable, entry, Fetch::Bypass, self.class).await.ok()??;
        let mut next = rows.first_block(&sstable).await.ok()?;
        while let Some(block) = next {
            let at = self.start.checked_add(block.offset()).filter(|at| *at < sstable.data.data_bytes())?;
            if at > self.at {
                let open = rows.in_force_at(&sstable, &block).await.ok()?;
                match block.first() {
                    Some(first) => return Some((at, open, first.clone())),
                    // A block whose first row or marker cannot be read is skipped.
                    None => {
                        if let Ok(first) = self.position_at(at).await {
                            return Some((at, open, first));
                        }
                    }
                }
            }
            next = rows.block_after(&sstable, &block).await.ok()?;
        }
        None
    }

    /// The clustering position of the row or marker at `at`.
    async fn position_at(&mut self, at: u64) -> Result<Position, ReadError> {
        let mut window = Window::new(Fetch::Bypass, self.class);
        loop {
            match self.parser.head(&window, at, true)? {
                Parsed::Done(head) if matches!(head.kind, Kind::Row | Kind::Marker(_)) => {
                    return Ok(Position { prefix: self.parser.key(&head, at)?, side: head.side() });
                }
                Parsed::Done(_) => return Err(self.sstable.data.corrupt(at, "no row or marker")),
                Parsed::Need(need) => window.fill(&self.sstable.data, at, need, 0).await?,
            }
        }
    }
}
