//! Compares everything in an SSTable with everything else: for tests and for the offline tools.
//!
//! 1. The digest against the bytes of Data.db as stored, and every checksum of a chunk.
//! 2. Front to back, every partition of Data.db against its entry in the index: position, key, order; every row
//!    and marker decoded, in order, with sizes that lead back; every checksum on the way.
//! 3. Every block of row indexes against its rows and the deletion open at its end or start.
//! 4. Every key against the filter, every sample of the summary, the smallest and largest key, and what Messina.db
//!    says of counts and contents.
//!
//! [`SSTable::check`] ends at the first contradiction. [`SSTable::verify`] tells a [`CheckWatcher`] all of them: what
//! is wrong with a partition ends that partition, and the next entry of the index says where to go on.
//! Memory: two windows and a row, whatever the SSTable's size.

use std::rc::Rc;
use std::sync::Arc;

use base::crc::Crc32;
use model::{PartitionKey, Position, TableSchema, Tombstone};
use reader::ReadError;
use runtime::IoClass;

use super::chunked::{ChunkedFile, Run};
use super::columns::ColumnMap;
use super::error::SSTableError;
use super::parse::{Parsed, Parser};
use super::partition_index::{Entry, PartitionCursor, PartitionIndex};
use super::promoted::{Block, Promoted};
use super::room::Room;
use super::table::SSTable;
use super::trie::{RowTrie, RowTrieCheck};
use super::unfiltered::Kind;
use super::window::{Fetch, Window};
use crate::component::summary::Summary;
use crate::name::Component;

/// The digest is computed over pieces of this length, and checksums are looked at in runs of about as much.
const DIGEST_BYTES: usize = 256 * 1024;

/// What an SSTable without contradictions contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub partitions: u64,
    /// Those that say something: every partition of a table with static columns has one.
    pub static_rows: u64,
    /// Partitions that are deleted as a whole.
    pub partition_deletions: u64,
    pub rows: u64,
    /// Markers of range tombstones.
    pub markers: u64,
    /// Bytes of Data.db before compression.
    pub uncompressed_bytes: u64,
    /// Whether there was a Digest.crc32 to compare with.
    pub has_digest: bool,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Checksums, and whether digest, index, summary and filter agree with one another.
    Components,
    /// Also every row and marker, and the indexes of rows.
    Rows,
}

/// Who is told what is wrong, and how far it is.
pub trait CheckWatcher {
    /// An error that this returns ends the check.
    fn found(&mut self, error: SSTableError) -> Result<(), SSTableError>;

    /// `done` of `total` bytes that are read in all, about.
    fn progress(&mut self, done: u64, total: u64);
}

/// Ends at the first error.
struct First;

impl CheckWatcher for First {
    fn found(&mut self, error: SSTableError) -> Result<(), SSTableError> {
        Err(error)
    }

    fn progress(&mut self, _done: u64, _total: u64) {}
}

impl SSTable {
    /// Reads all of it and compares; see the module. Changes nothing, and leaves the chunk cache alone.
    pub async fn check(self: &Rc<Self>, class: IoClass) -> Result<CheckReport, SSTableError> {
        self.verify(Depth::Rows, class, &mut First).await
    }

    /// As [`Self::check`], and every contradiction is told. The report counts what could be read.
    ///
    /// # Errors
    /// What the watcher returns.
    pub async fn verify(
        self: &Rc<Self>,
        depth: Depth,
        class: IoClass,
        watcher: &mut dyn CheckWatcher,
    ) -> Result<CheckReport, SSTableError> {
        self.data.set_crc_check_chance(1.0);
        let inconsistent = |component: &Component, detail: String| SSTableError::Inconsistent {
            file: self.dir.join(self.name.file_name(component)),
            detail,
        };
        let schema = match self.columns.to_schema() {
            Ok(schema) => schema,
            Err(error) => return Err(inconsistent(&Component::Statistics, error.to_string())),
        };
        let passes = if depth == Depth::Rows { 3 } else { 2 };
        let total = self.data_bytes() * passes;
        self.check_digest(class, watcher, total).await?;
        if depth == Depth::Components {
            self.check_chunks(class, watcher, total).await?;
        }
        let mut check = Check {
            table: Rc::clone(self),
            schema,
            parser: Parser::new(self, Rc::new(ColumnMap::identity(&self.columns))),
            window: Window::new(Fetch::Scan, class),
            class,
            at: 0,
            report: CheckReport {
                uncompressed_bytes: self.uncompressed_bytes(),
                has_digest: self.digest.is_some(),
                ..CheckReport::default()
            },
            depth,
            is_sound: true,
        };
        Box::pin(check.run(watcher, total)).await?;
        let Check { report, is_sound, .. } = check;
        if depth == Depth::Components || !is_sound {
            return Ok(report);
        }
        let counted = (report.partitions, report.rows + report.static_rows);
        let stated = |info: &crate::component::messina::MessinaInfo| {
            (info.partition_count.unwrap_or(counted.0), info.row_count.unwrap_or(counted.1))
        };
        if let Some(stated) = self.messina.as_ref().map(stated).filter(|stated| *stated != counted) {
            let detail = format!(
                "it counts {} partitions and {} rows, Data.db has {} and {}",
                stated.0, stated.1, counted.0, counted.1
            );
            watcher.found(inconsistent(&Component::Messina, detail))?;
        }
        let stated = self.contents();
        let denied = [
            ("deleted partitions", report.partition_deletions, stated.has_partition_deletions),
            ("static rows", report.static_rows, stated.has_static_rows),
        ];
        for (what, count, is_stated) in denied {
            if count > 0 && !is_stated {
                let says = if self.messina.is_some() { Component::Messina } else { Component::Statistics };
                watcher.found(inconsistent(&says, format!("it denies {what}, Data.db has {count}")))?;
            }
        }
        Ok(report)
    }

    async fn check_digest(
        &self,
        class: IoClass,
        watcher: &mut dyn CheckWatcher,
        total: u64,
    ) -> Result<(), SSTableError> {
        let Some(expected) = self.digest else { return Ok(()) };
        let file = self.data.file();
        let mut crc = Crc32::new();
        let mut at = 0;
        loop {
            let part = match file.read_at(at, DIGEST_BYTES, class).await {
                Ok(part) => part,
                Err(error) => return watcher.found(error.into()),
            };
            crc.update(&part);
            at += part.len() as u64;
            watcher.progress(at, total);
            if part.len() < DIGEST_BYTES {
                break;
            }
        }
        if crc.value() != expected {
            let detail = format!(
                "its checksum is {}, and not {expected} as in {}",
                crc.value(),
                self.name.file_name(&Component::Digest)
            );
            watcher.found(SSTableError::Inconsistent { file: file.path().to_owned(), detail })?;
        }
        Ok(())
    }

    /// Every chunk of Data.db by itself, so that each bad one is told.
    async fn check_chunks(
        &self,
        class: IoClass,
        watcher: &mut dyn CheckWatcher,
        total: u64,
    ) -> Result<(), SSTableError> {
        let data = &self.data;
        let chunks = data.data_bytes().div_ceil(data.chunk_bytes());
        let unit_chunks = (data.scan_unit_bytes() / data.chunk_bytes()).max(1);
        let run_chunks = (DIGEST_BYTES as u64 / data.chunk_bytes()).max(1).next_multiple_of(unit_chunks);
        let mut out = Room::default();
        let mut first = 0;
        while first < chunks {
            let end = (first + run_chunks).min(chunks);
            out.clear();
            if data.append(&Run { first, count: end - first }, class, &mut out).await.is_err() {
                let mut unit = first;
                while unit < end {
                    out.clear();
                    let run = Run { first: unit, count: unit_chunks.min(end - unit) };
                    if let Err(error) = data.append(&run, class, &mut out).await {
                        watcher.found(error.into())?;
                    }
                    unit += unit_chunks;
                }
            }
            first = end;
            watcher.progress(self.data_bytes() + self.data_bytes() * first / chunks, total);
        }
        Ok(())
    }
}

struct Check {
    table: Rc<SSTable>,
    schema: Arc<TableSchema>,
    parser: Parser,
    window: Window,
    class: IoClass,
    at: u64,
    report: CheckReport,
    depth: Depth,
    /// Nothing has been found so far.
    is_sound: bool,
}

/// Follows the row index of a partition while its rows go by.
enum Blocks {
    Promoted(PromotedBlocks),
    Trie(RowTrieCheck),
}

struct PromotedBlocks {
    promoted: Promoted,
    current: Option<Block>,
    next: Option<Block>,
    next_index: usize,
}

impl Check {
    async fn run(&mut self, watcher: &mut dyn CheckWatcher, total: u64) -> Result<(), SSTableError> {
        let table = Rc::clone(&self.table);
        let mut cursor = PartitionCursor::new(&table, Fetch::Bypass, self.class);
        let summary = match &table.index {
            PartitionIndex::Big { summary, .. } => Some(summary),
            PartitionIndex::Trie(_) => None,
        };
        // Who says what the smallest and largest keys are.
        let names_keys = if summary.is_some() { Component::Summary } else { Component::Partitions };
        let mut samples = 0;
        let mut last_key: Option<PartitionKey> = None;
        // Nothing was wrong with what is in front of `at`.
        let mut is_placed = true;
        loop {
            let entry_at = cursor.place();
            let entry = match cursor.next(&table).await {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    self.found(watcher, error.into())?;
                    if !cursor.pass(&table, entry_at).await {
                        // Where the next entry starts is not known.
                        return Ok(());
                    }
                    is_placed = false;
                    continue;
                }
            };
            if let Some(summary) = summary {
                samples = self.samples(summary, samples, entry_at, &entry, watcher)?;
            }
            if self.report.partitions == 0 && entry.key() != table.first_key() {
                let detail = "its first key is not the first of the index".to_owned();
                let error = self.inconsistent(&names_keys, detail);
                self.found(watcher, error)?;
            }
            if !table.may_contain(entry.key()) {
                let detail = format!("it denies a key that is there, {:?}", entry.key());
                let error = self.inconsistent(&Component::Filter, detail);
                self.found(watcher, error)?;
            }
            last_key = Some(entry.key().clone());
            self.report.partitions += 1;
            if self.depth == Depth::Components {
                self.place(&entry, watcher)?;
                continue;
            }
            if entry.position() != self.at {
                if is_placed {
                    let detail =
                        format!("a partition starts here, the index has it at position {}", entry.position());
                    let error = table.data.corrupt(self.at, &detail).into();
                    self.found(watcher, error)?;
                }
                if entry.position() >= table.data.data_bytes() {
                    is_placed = false;
                    continue;
                }
                self.at = entry.position();
                self.window = Window::new(Fetch::Scan, self.class);
            }
            is_placed = true;
            if let Err(error) = self.partition(&entry).await {
                self.found(watcher, error.into())?;
                is_placed = false;
            }
            let read = self.at * table.data_bytes() / table.uncompressed_bytes().max(1);
            watcher.progress(table.data_bytes() * 2 + read, total);
        }
        let ends = self.at == table.data.data_bytes();
        if self.depth == Depth::Rows && is_placed && !ends {
            let detail = "the index has no partition here, and the data go on";
            let error = table.data.corrupt(self.at, detail).into();
            self.found(watcher, error)?;
        }
        if let Some(summary) = summary.filter(|summary| samples != summary.len()) {
            let detail =
                format!("sample {samples} of {} is not where an entry of Index.db starts", summary.len());
            let error = self.inconsistent(&Component::Summary, detail);
            self.found(watcher, error)?;
        }
        if last_key.as_ref() != Some(table.last_key()) {
            let detail = "its last key is not the last of the index".to_owned();
            let error = self.inconsistent(&names_keys, detail);
            self.found(watcher, error)?;
        }
        let counted = self.report.partitions;
        if let Some(count) = table.index.partition_count().filter(|count| *count != counted) {
            let detail = format!("it says that it has {count} keys, and it has {counted}");
            let error = self.inconsistent(&Component::Partitions, detail);
            self.found(watcher, error)?;
        }
        Ok(())
    }

    /// Compares the samples up to the entry at `entry_at` with it, from `number` on, and says which comes next.
    fn samples(
        &mut self,
        summary: &Summary,
        mut number: usize,
        entry_at: u64,
        entry: &Entry,
        watcher: &mut dyn CheckWatcher,
    ) -> Result<usize, SSTableError> {
        while number < summary.len() {
            let (_, key, at) = summary.sample(number);
            if at > entry_at {
                break;
            }
            if at < entry_at || key != entry.key().bytes() {
                let detail = if at < entry_at {
                    format!("sample {number} of {} is not where an entry of Index.db starts", summary.len())
                } else {
                    format!("sample {number} has another key than Index.db at byte {entry_at}")
                };
                let error = self.inconsistent(&Component::Summary, detail);
                self.found(watcher, error)?;
            }
            number += 1;
        }
        Ok(number)
    }

    fn found(&mut self, watcher: &mut dyn CheckWatcher, error: SSTableError) -> Result<(), SSTableError> {
        self.is_sound = false;
        watcher.found(error)
    }

    /// Whether the partition's place can be one: the first is at the start, and each behind the one before.
    fn place(&mut self, entry: &Entry, watcher: &mut dyn CheckWatcher) -> Result<(), SSTableError> {
        let position = entry.position();
        let is_first = self.report.partitions == 1;
        let fits = if is_first { position == 0 } else { position > self.at };
        if !fits || position >= self.table.data.data_bytes() {
            let detail = format!(
                "a partition at position {position} of {} bytes of data; the one before is at {}",
                self.table.data.data_bytes(),
                self.at
            );
            let error = self.table.index.corrupt(entry, &detail).into();
            self.found(watcher, error)?;
        } else {
            self.at = position;
        }
        Ok(())
    }

    fn inconsistent(&self, component: &Component, detail: String) -> SSTableError {
        let file = self.table.dir.join(self.table.name.file_name(component));
        SSTableError::Inconsistent { file, detail }
    }

    async fn fill(&mut self, need: u64) -> Result<(), ReadError> {
        self.window.fill(&self.table.data, self.at, need, u64::MAX).await
    }

    async fn partition(&mut self, entry: &Entry) -> Result<(), ReadError> {
        let start = self.at;
        let table = Rc::clone(&self.table);
        let key = loop {
            match self.parser.header(&self.window, self.at)? {
                Parsed::Done((key, tombstone, bytes)) => {
                    self.at += bytes;
                    self.report.partition_deletions += u64::from(!tombstone.is_live());
                    break key;
                }
                Parsed::Need(need) => self.fill(need).await?,
            }
        };
        if key != *entry.key() {
            return Err(table.data.corrupt(start, "the index has another key for this partition"));
        }
        let mut blocks = None;
        let mut is_first = true;
        let mut wants_static = table.columns.has_static();
        let mut previous: Option<(u64, Position)> = None;
        let mut in_force = Tombstone::LIVE;
        loop {
            let at = self.at;
            if is_first && !wants_static {
                is_first = false;
                blocks = self.open_blocks(entry, at - start).await?;
            }
            let bytes = match self.parser.head(&self.window, at, true)? {
                Parsed::Done(head) => head.bytes,
                Parsed::Need(need) => {
                    self.fill(need).await?;
                    continue;
                }
            };
            let Parsed::Done(head) = self.parser.head(&self.window, at, true)? else {
                unreachable!("it was there just now");
            };
            if (head.kind == Kind::StaticRow) != wants_static {
                return Err(table.data.corrupt(at, "a static row is missing, or is not the first"));
            }
            let mut behind = in_force;
            match head.kind {
                Kind::EndOfPartition => {
                    if !in_force.is_live() {
                        return Err(self.parser.unbalanced(at, in_force, Tombstone::LIVE));
                    }
                    match &mut blocks {
                        None => {}
                        Some(Blocks::Trie(blocks)) => {
                            if let Some(detail) = blocks.end(at - start) {
                                return Err(table.data.corrupt(at, detail));
                            }
                        }
                        Some(Blocks::Promoted(blocks)) => {
                            self.block_ends(blocks, previous.as_ref(), in_force)?;
                            if blocks.next.is_some() {
                                return Err(table
                                    .data
                                    .corrupt(at, "Index.db has a block behind the last row"));
                            }
                        }
                    }
                    self.at += 1;
                    return Ok(());
                }
                Kind::StaticRow => {
                    let row = self.parser.row(&self.window, &head, at)?;
                    if head.previous_bytes != 0 {
                        return Err(table
                            .data
                            .corrupt(at, "a static row says that there is a row before it"));
                    }
                    self.report.static_rows += u64::from(!row.is_empty());
                    wants_static = false;
                    self.at += bytes;
                    continue;
                }
                Kind::Row => {
                    self.parser.row(&self.window, &head, at)?;
                    self.report.rows += 1;
                }
                Kind::Marker(kind) => {
                    let (in_front, after) = self.parser.marker(&self.window, &head, kind, at)?;
                    if in_front != in_force {
                        return Err(self.parser.unbalanced(at, in_force, in_front));
                    }
                    behind = after;
                    self.report.markers += 1;
                }
            }
            let distance = at - previous.as_ref().map_or(start, |(before, _)| *before);
            if head.previous_bytes != distance {
                let detail = format!(
                    "size of the row or marker in front: expected {distance}, found {}",
                    head.previous_bytes
                );
                return Err(table.data.corrupt(at, &detail));
            }
            let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
            let rises = previous
                .as_ref()
                .is_none_or(|(_, before)| self.schema.compare_positions(before, &position).is_lt());
            if !rises {
                return Err(table.data.corrupt(at, "rows and markers do not rise"));
            }
            match (&mut blocks, &table.index) {
                (Some(Blocks::Promoted(blocks)), PartitionIndex::Big { file, .. }) => {
                    self.block_begins(blocks, file, at - start, &position, previous.as_ref(), in_force)
                        .await?;
                }
                (Some(Blocks::Trie(blocks)), PartitionIndex::Trie(trie)) => {
                    let (file, types) = (trie.rows_file(entry.position())?, &table.columns.clustering);
                    if let Some(detail) = blocks.piece(file, types, at - start, &position, in_force).await? {
                        return Err(table.data.corrupt(at, detail));
                    }
                }
                _ => {}
            }
            previous = Some((at, position));
            in_force = behind;
            self.at += bytes;
        }
    }

    async fn open_blocks(&self, entry: &Entry, header_bytes: u64) -> Result<Option<Blocks>, ReadError> {
        let table = &self.table;
        let (found_bytes, blocks) = match (&table.index, entry) {
            (PartitionIndex::Big { file, .. }, Entry::Big(entry)) => {
                let version = table.name.version;
                let promoted = Promoted::open(file, entry, version, Fetch::Bypass, self.class).await?;
                let Some(mut promoted) = promoted else { return Ok(None) };
                let next = promoted.block(file, &table.columns.clustering_lengths, 0).await?;
                let found_bytes = promoted.head().header_bytes;
                let blocks = PromotedBlocks { promoted, current: None, next: Some(next), next_index: 1 };
                (found_bytes, Blocks::Promoted(blocks))
            }
            (PartitionIndex::Trie(trie), Entry::Trie(entry)) => {
                let Some(root) = entry.rows else { return Ok(None) };
                let file = trie.rows_file(entry.node_at)?;
                let rows = RowTrie::new(trie, root, Fetch::Bypass, self.class);
                let check = RowTrieCheck::new(file, rows).await?;
                (check.first_offset(), Blocks::Trie(check))
            }
            _ => unreachable!("an entry is of its own index"),
        };
        if found_bytes != header_bytes {
            let detail =
                format!("length of a partition's header: expected {header_bytes}, found {found_bytes}");
            return Err(table.index.corrupt(entry, &detail));
        }
        Ok(Some(blocks))
    }

    /// Moves on to the next block if it starts with the row or marker at `offset`.
    async fn block_begins(
        &self,
        blocks: &mut PromotedBlocks,
        file: &ChunkedFile,
        offset: u64,
        position: &Position,
        previous: Option<&(u64, Position)>,
        in_force: Tombstone,
    ) -> Result<(), ReadError> {
        let Some(next) = &blocks.next else { return Ok(()) };
        if offset < next.offset && blocks.current.is_some() {
            return Ok(());
        }
        if offset != next.offset || next.first != *position {
            let detail = "Index.db has a block start where no row starts, or with another row";
            return Err(self.table.data.corrupt(self.at, detail));
        }
        self.block_ends(blocks, previous, in_force)?;
        let index = blocks.next_index;
        let next = if index < blocks.promoted.block_count() {
            let fixed = &self.table.columns.clustering_lengths;
            Some(blocks.promoted.block(file, fixed, index).await?)
        } else {
            None
        };
        blocks.current = std::mem::replace(&mut blocks.next, next);
        blocks.next_index += 1;
        Ok(())
    }

    /// Whether the current block ends with `previous` and leaves open what is in force.
    fn block_ends(
        &self,
        blocks: &mut PromotedBlocks,
        previous: Option<&(u64, Position)>,
        in_force: Tombstone,
    ) -> Result<(), ReadError> {
        let Some(current) = &blocks.current else { return Ok(()) };
        if previous.is_some_and(|(_, last)| *last == current.last) && current.open == in_force {
            return Ok(());
        }
        let detail = "Index.db has a block end with another row, or with another deletion in force";
        Err(self.table.data.corrupt(self.at, detail))
    }
}
