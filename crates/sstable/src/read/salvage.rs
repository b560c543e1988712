//! Reads what can still be read of a damaged SSTable, and counts what cannot.
//!
//! Partitions are taken from Data.db in the order of the file. While nothing is wrong, each starts where the one
//! before ended; behind damage the next entry of the index says where to go on, and then both must have the same key.
//! - A row whose body makes no sense is left out; its length leads to the next one.
//! - Where no next row can be found (a checksum is wrong, a head makes no sense) the row index of a large
//!   partition names the next block; without one the partition ends there. So if its start cannot be read, of which the
//!   row index has the key and the deletion.
//! - A row with a value that is none of its column's type is left out, unless told otherwise ([`Salvage::validates`]).
//! - A row that does not stand behind the one before is left out.
//! - A range deletion that was in force at the damage ends with the last row in front of it, unless the row
//!   index says that it is still in force behind.
//!
//! What is given is always a well-formed partition. Partitions may come in any order, and twice.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringPrefix, PartitionKey, Position, RangeTombstoneChange, Row, Side, TableSchema, Tombstone,
};
use reader::{Fragment, ReadError};
use runtime::IoClass;

use super::parse::{Parsed, Parser, change_fragment, row_fragment};
use super::partition_index::{Entry, PartitionCursor};
use super::row_index::RowIndex;
use super::table::SSTable;
use super::unfiltered::Kind;
use super::values;
use super::window::{Fetch, Window};

/// The most errors that are kept; more are only counted.
const ERRORS_MAX: usize = 1000;

/// What was not read.
#[derive(Debug, Default)]
pub struct SalvageLosses {
    /// Partitions of which nothing could be read.
    pub partitions: u64,
    /// Partitions of which a part could not be read.
    pub damaged_partitions: u64,
    /// Rows that were seen and could not be kept; those inside a gap are not known.
    pub rows: u64,
    /// Places where rows are missing, nobody knows how many.
    pub gaps: u64,
    /// What was wrong, in the order of the file; the first thousand.
    pub errors: Vec<ReadError>,
    pub error_count: u64,
    /// Of them, those of the disk: another try may read what was lost.
    pub io_error_count: u64,
}

/// The start of a partition.
#[derive(Clone, Debug)]
pub struct Salvaged {
    pub key: PartitionKey,
    pub tombstone: Tombstone,
    /// Where it starts in the data before compression.
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
    table: Rc<SSTable>,
    schema: Arc<TableSchema>,
    parser: Parser,
    class: IoClass,
    window: Window,
    /// `None` once the index cannot be read any more.
    cursor: Option<PartitionCursor>,
    /// The next entry of the index.
    ahead: Option<Entry>,
    at: u64,
    /// What is in front of `at` was a partition's end.
    is_placed: bool,
    state: State,
    start: u64,
    entry: Option<Entry>,
    last: Option<Position>,
    in_force: Tombstone,
    /// A change of the range deletion in force, kept back until something follows.
    held: Option<RangeTombstoneChange>,
    out: VecDeque<Fragment>,
    is_damaged: bool,
    /// Rows with values that are none of their types are left out.
    pub validates: bool,
    pub losses: SalvageLosses,
}

impl SSTable {
    /// Reads what can be read, for `schema`.
    ///
    /// # Errors
    /// The schema is not this SSTable's.
    pub fn salvage(self: &Rc<Self>, schema: &Arc<TableSchema>, class: IoClass) -> Result<Salvage, ReadError> {
        let map = self.column_map(schema).map_err(|detail| self.data.corrupt(0, &detail))?;
        self.data.set_crc_check_chance(1.0);
        Ok(Salvage {
            table: Rc::clone(self),
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
    /// The next partition that has a readable start; the rest of the current one is passed over.
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
                        let error = self.table.data.corrupt(self.at, detail);
                        self.lose_partition(error);
                        continue;
                    }
                    self.begin(if self.table.columns.has_static() { State::Static } else { State::Rows });
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

    /// A partition begins at `at`.
    fn begin(&mut self, state: State) {
        self.start = self.at;
        self.last = None;
        self.in_force = Tombstone::LIVE;
        self.held = None;
        self.is_damaged = false;
        self.is_placed = true;
        self.state = state;
    }

    /// What the index says of a large partition whose start cannot be read.
    async fn indexed_start(&self) -> Option<Salvaged> {
        let entry = self.entry.as_ref()?;
        let rows = RowIndex::open_unchecked(&self.table, entry, Fetch::Bypass, self.class).await.ok()??;
        Some(Salvaged { key: entry.key().clone(), tombstone: rows.deletion(), position: entry.position() })
    }

    /// Goes to a partition that [`Self::next_partition`] has given before.
    pub fn seek(&mut self, partition: &Salvaged) {
        assert!(self.state == State::Between, "a partition is read to its end first");
        self.at = partition.position;
        self.is_placed = true;
        self.cursor = Some(PartitionCursor::new(&self.table, Fetch::Bypass, self.class));
        self.ahead = None;
        self.window = Window::new(Fetch::Bypass, self.class);
    }

    /// How far it is in the data before compression.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next piece of the partition; the last one is [`Fragment::PartitionEnd`].
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

    /// Goes to where the next partition starts; false at the end.
    async fn find_place(&mut self) -> bool {
        self.entry = None;
        if self.is_placed && self.at >= self.table.data.data_bytes() {
            return false;
        }
        loop {
            if self.ahead.is_none() {
                self.ahead = self.next_entry().await;
            }
            match &self.ahead {
                Some(entry) if entry.position() < self.at => self.ahead = None,
                Some(entry) if entry.position() == self.at || !self.is_placed => {
                    if entry.position() >= self.table.data.data_bytes() {
                        return false;
                    }
                    self.at = entry.position();
                    self.entry = self.ahead.take();
                    return true;
                }
                Some(_) => return true,
                None => {
                    let left_bytes = self.table.data.data_bytes().saturating_sub(self.at);
                    if !self.is_placed && left_bytes > 0 {
                        let detail = format!(
                            "nothing says where the next partition starts; {left_bytes} bytes are not looked at"
                        );
                        self.note(self.table.data.corrupt(self.at, &detail));
                        self.losses.gaps += 1;
                        self.at = self.table.data.data_bytes();
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
            match cursor.next(&self.table).await {
                Ok(Some(entry)) => return Some(entry),
                Ok(None) => {
                    self.cursor = None;
                    return None;
                }
                Err(error) => {
                    if !cursor.pass(&self.table, before).await {
                        self.cursor = None;
                    }
                    self.note(error);
                }
            }
        }
    }

    /// Fetches; if that fails, only what is needed, since what was fetched ahead may be what is damaged.
    async fn fill(&mut self, need: u64) -> Result<(), ReadError> {
        let data = &self.table.data;
        let end = self.entry.as_ref().and_then(Entry::next_position);
        if end.is_some_and(|end| end > self.start && self.at.saturating_add(need) > end) {
            return Err(data.corrupt(self.at, "what starts here reaches into the next partition"));
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
        let table = Rc::clone(&self.table);
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
            return Err(table.data.corrupt(at, "a static row is missing, or is not the first"));
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
                    self.lose_row(table.data.corrupt(at, "a row that is not behind the one before it"));
                    return Ok(());
                }
                match row.and_then(|row| self.valid(Some(&key), row, at)) {
                    Ok(row) => {
                        self.give_held();
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
                    return Err(table.data.corrupt(at, "a marker that is not behind what is before it"));
                }
                let open = self.held.as_ref().map_or(self.in_force, |held| held.tombstone);
                if in_front != open {
                    let error = self.parser.unbalanced(at, open, in_front);
                    self.note(error);
                    self.is_damaged = true;
                }
                self.give_held();
                self.last = Some(position.clone());
                if behind != self.in_force {
                    self.held = Some(RangeTombstoneChange { position, tombstone: behind });
                }
            }
        }
        Ok(())
    }

    /// The row, if it holds what it may hold.
    fn valid(&self, key: Option<&ClusteringPrefix>, row: Row, at: u64) -> Result<Row, ReadError> {
        let checked = if self.validates { values::check(&self.schema, key, &row) } else { Ok(()) };
        checked.map(|()| row).map_err(|detail| self.table.data.corrupt(at, &detail))
    }

    fn rises(&self, position: &Position) -> bool {
        self.last.as_ref().is_none_or(|last| self.schema.compare_positions(last, position).is_lt())
    }

    fn lose_row(&mut self, error: ReadError) {
        self.note(error);
        self.losses.rows += 1;
        self.is_damaged = true;
    }

    fn give_held(&mut self) {
        if let Some(change) = self.held.take() {
            self.in_force = change.tombstone;
            self.out.push_back(Fragment::Change(change));
        }
    }

    /// Closes what is open, so that `tombstone` is in force from the last piece on.
    fn settle(&mut self, tombstone: Tombstone) {
        // The change that was kept back says where the deletion before it ends; what begins there is not known.
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

    /// Behind an error: goes on with the next block of the partition, or ends it.
    async fn cut(&mut self, error: ReadError) {
        self.note(error);
        self.is_damaged = true;
        self.losses.gaps += 1;
        self.window = Window::new(Fetch::Scan, self.class);
        match self.block_behind().await {
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
                // Where it began is in the gap; from the first row behind that it is known to be in force.
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

    /// The next block of the partition behind `at`: where it starts, what is in force there, and its first piece.
    async fn block_behind(&mut self) -> Option<(u64, Tombstone, Position)> {
        let table = Rc::clone(&self.table);
        let entry = self.entry.as_ref()?;
        let mut rows = RowIndex::open_unchecked(&table, entry, Fetch::Bypass, self.class).await.ok()??;
        let mut next = rows.first_block(&table).await.ok()?;
        while let Some(block) = next {
            let at = self.start.checked_add(block.offset()).filter(|at| *at < table.data.data_bytes())?;
            if at > self.at {
                let open = rows.in_force_at(&table, &block).await.ok()?;
                match block.first() {
                    Some(first) => return Some((at, open, first.clone())),
                    // A block that does not start with something readable is passed over.
                    None => {
                        if let Ok(first) = self.position_at(at).await {
                            return Some((at, open, first));
                        }
                    }
                }
            }
            next = rows.block_after(&table, &block).await.ok()?;
        }
        None
    }

    /// The place of the row or marker at `at`.
    async fn position_at(&mut self, at: u64) -> Result<Position, ReadError> {
        let mut window = Window::new(Fetch::Bypass, self.class);
        loop {
            match self.parser.head(&window, at, true)? {
                Parsed::Done(head) if matches!(head.kind, Kind::Row | Kind::Marker(_)) => {
                    return Ok(Position { prefix: self.parser.key(&head, at)?, side: head.side() });
                }
                Parsed::Done(_) => return Err(self.table.data.corrupt(at, "no row or marker")),
                Parsed::Need(need) => window.fill(&self.table.data, at, need, 0).await?,
            }
        }
    }
}
