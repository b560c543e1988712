//! Verifies an SSTable: compares each component with the others. For tests and for the offline tools.
//!
//! 1. Computes the digest of Data.db as stored, and verifies every chunk checksum.
//! 2. Reads every partition of Data.db front to back and compares it with its index entry: position, key and
//!    order. Decodes every row and marker and checks their order, their stored sizes and every checksum.
//! 3. Compares every block of the row indexes with the rows of the block and with the range deletion that is
//!    in force at the end or start of the block.
//! 4. Compares every key with the bloom filter, every sample of the summary with the index, the smallest and
//!    largest key, and the counts and contents that Messina.db states.
//!
//! [`SSTable::check`] ends at the first contradiction. [`SSTable::verify`] reports all contradictions to a
//! [`CheckWatcher`]: an error in a partition ends the check of that partition, and the check continues at the
//! position that the next index entry gives. Memory: two windows and one row, whatever the size of the
//! SSTable.

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
use super::sstable::SSTable;
use super::trie::{RowTrie, RowTrieCheck};
use super::unfiltered::Kind;
use super::window::{Fetch, Window};
use crate::component::summary::Summary;
use crate::name::Component;

/// Bytes of Data.db that one step of the digest reads. Chunk checksums are verified in runs of about the same
/// length.
const DIGEST_BYTES: usize = 256 * 1024;
/// Upper bound of a stored chunk's length: this factor times the uncompressed length, plus
/// `CHUNK_OVERHEAD_BYTES_MAX`. No codec exceeds it.
const CHUNK_GROWTH_MAX: u64 = 2;
const CHUNK_OVERHEAD_BYTES_MAX: u64 = 4096;

/// Counts of a verified SSTable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub partitions: u64,
    /// Static rows that are not empty. In a table with static columns every partition stores a static row.
    pub static_rows: u64,
    /// Partitions that are deleted as a whole.
    pub partition_deletions: u64,
    /// Rows, without static rows.
    pub rows: u64,
    /// Markers of range tombstones.
    pub markers: u64,
    /// Bytes of Data.db before compression.
    pub uncompressed_bytes: u64,
    /// Whether there was a Digest.crc32 to compare with.
    pub has_digest: bool,
}

/// How much of an SSTable a verification reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Verifies checksums, and that digest, index, summary and filter agree with one another.
    Components,
    /// Also verifies every row, every marker and the row indexes.
    Rows,
}

/// Receives the errors and the progress of a verification.
pub trait CheckWatcher {
    /// Reports an error. An error returned from here ends the verification.
    fn found(&mut self, error: SSTableError) -> Result<(), SSTableError>;

    /// Reports that about `done` of `total` bytes were read.
    fn progress(&mut self, done: u64, total: u64);
}

/// Ends the verification at the first error.
struct First;

impl CheckWatcher for First {
    fn found(&mut self, error: SSTableError) -> Result<(), SSTableError> {
        Err(error)
    }

    fn progress(&mut self, _done: u64, _total: u64) {}
}

impl SSTable {
    /// Reads and verifies the whole SSTable (see the module). Changes nothing and does not use the chunk
    /// cache.
    pub async fn check(self: &Rc<Self>, class: IoClass) -> Result<CheckReport, SSTableError> {
        self.verify(Depth::Rows, class, &mut First).await
    }

    /// As [`Self::check`], but reports every contradiction to `watcher`. The report counts the parts that
    /// could be read.
    ///
    /// # Errors
    /// The error that the watcher returns.
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
        self.check_length()?;
        let passes = if depth == Depth::Rows { 3 } else { 2 };
        let total = self.data_bytes() * passes;
        self.check_digest(class, watcher, total).await?;
        for id in self.secondary_indexes() {
            if let Some(index) = self.secondary_index(id)
                && let Err(error) = index.check(class).await
            {
                watcher.found(error.into())?;
            }
        }
        if depth == Depth::Components {
            self.check_chunks(class, watcher, total).await?;
        }
        let mut check = Check {
            sstable: Rc::clone(self),
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

    /// Checks that Data.db ends near the end of the last chunk of CompressionInfo.db. Bytes after the last
    /// chunk belong to no chunk, and reading them to compute the digest would cost time without a limit.
    fn check_length(&self) -> Result<(), SSTableError> {
        let Some(info) = self.data.compression() else { return Ok(()) };
        let last_at = info.offsets.get(info.offsets.len() - 1);
        let end_max = last_at + CHUNK_GROWTH_MAX * u64::from(info.chunk_bytes) + CHUNK_OVERHEAD_BYTES_MAX;
        let len_bytes = self.data.file_bytes();
        if len_bytes <= end_max {
            return Ok(());
        }
        let detail = format!(
            "it has {len_bytes} bytes, and by {} it ends before byte {end_max}; the rest is not read",
            self.name.file_name(&Component::CompressionInfo)
        );
        Err(SSTableError::Inconsistent { file: self.data.file().path().to_owned(), detail })
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

    /// Verifies every chunk of Data.db separately, so that each corrupt chunk is reported.
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
    sstable: Rc<SSTable>,
    schema: Arc<TableSchema>,
    parser: Parser,
    window: Window,
    class: IoClass,
    at: u64,
    report: CheckReport,
    depth: Depth,
    /// No error has been found so far.
    is_sound: bool,
}

/// Compares the row index of a partition with its rows while the rows are read.
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
        let sstable = Rc::clone(&self.sstable);
        let mut cursor = PartitionCursor::new(&sstable, Fetch::Bypass, self.class);
        let summary = match &sstable.index {
            PartitionIndex::Big { summary, .. } => Some(summary),
            PartitionIndex::Trie(_) => None,
        };
        // The component that states the smallest and the largest key.
        let names_keys = if summary.is_some() { Component::Summary } else { Component::Partitions };
        let mut samples = 0;
        let mut last_key: Option<PartitionKey> = None;
        // Whether `at` is known to be the start of a partition; false after an error.
        let mut is_placed = true;
        loop {
            let entry_at = cursor.place();
            let entry = match cursor.next(&sstable).await {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    self.found(watcher, error.into())?;
                    if !cursor.pass(&sstable, entry_at).await {
                        // The position of the next entry is unknown.
                        return Ok(());
                    }
                    is_placed = false;
                    continue;
                }
            };
            if let Some(summary) = summary {
                samples = self.samples(summary, samples, entry_at, &entry, watcher)?;
            }
            if self.report.partitions == 0 && entry.key() != sstable.first_key() {
                let detail = "its first key is not the first of the index".to_owned();
                let error = self.inconsistent(&names_keys, detail);
                self.found(watcher, error)?;
            }
            if !sstable.may_contain(entry.key()) {
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
                    let error = sstable.data.corrupt(self.at, &detail).into();
                    self.found(watcher, error)?;
                }
                if entry.position() >= sstable.data.data_bytes() {
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
            let read = self.at * sstable.data_bytes() / sstable.uncompressed_bytes().max(1);
            watcher.progress(sstable.data_bytes() * 2 + read, total);
        }
        let ends = self.at == sstable.data.data_bytes();
        if self.depth == Depth::Rows && is_placed && !ends {
            let detail = "the index has no partition here, and the data go on";
            let error = sstable.data.corrupt(self.at, detail).into();
            self.found(watcher, error)?;
        }
        if let Some(summary) = summary.filter(|summary| samples != summary.len()) {
            let detail =
                format!("sample {samples} of {} is not where an entry of Index.db starts", summary.len());
            let error = self.inconsistent(&Component::Summary, detail);
            self.found(watcher, error)?;
        }
        if last_key.as_ref() != Some(sstable.last_key()) {
            let detail = "its last key is not the last of the index".to_owned();
            let error = self.inconsistent(&names_keys, detail);
            self.found(watcher, error)?;
        }
        let counted = self.report.partitions;
        if let Some(count) = sstable.index.partition_count().filter(|count| *count != counted) {
            let detail = format!("it says that it has {count} keys, and it has {counted}");
            let error = self.inconsistent(&Component::Partitions, detail);
            self.found(watcher, error)?;
        }
        Ok(())
    }

    /// Compares the summary's samples from `number` on, up to the entry at `entry_at`, with that entry.
    /// Returns the number of the next sample.
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

    /// Checks the position of the entry's partition: the first partition starts at 0, every other one after
    /// the one before.
    fn place(&mut self, entry: &Entry, watcher: &mut dyn CheckWatcher) -> Result<(), SSTableError> {
        let position = entry.position();
        let is_first = self.report.partitions == 1;
        let fits = if is_first { position == 0 } else { position > self.at };
        if !fits || position >= self.sstable.data.data_bytes() {
            let detail = format!(
                "a partition at position {position} of {} bytes of data; the one before is at {}",
                self.sstable.data.data_bytes(),
                self.at
            );
            let error = self.sstable.index.corrupt(entry, &detail).into();
            self.found(watcher, error)?;
        } else {
            self.at = position;
        }
        Ok(())
    }

    fn inconsistent(&self, component: &Component, detail: String) -> SSTableError {
        let file = self.sstable.dir.join(self.sstable.name.file_name(component));
        SSTableError::Inconsistent { file, detail }
    }

    async fn fill(&mut self, need: u64) -> Result<(), ReadError> {
        self.window.fill(&self.sstable.data, self.at, need, u64::MAX).await
    }

    async fn partition(&mut self, entry: &Entry) -> Result<(), ReadError> {
        let start = self.at;
        let sstable = Rc::clone(&self.sstable);
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
            return Err(sstable.data.corrupt(start, "the index has another key for this partition"));
        }
        let mut blocks = None;
        let mut is_first = true;
        let mut wants_static = sstable.columns.has_static();
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
                return Err(sstable.data.corrupt(at, "a static row is missing, or is not the first"));
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
                                return Err(sstable.data.corrupt(at, detail));
                            }
                        }
                        Some(Blocks::Promoted(blocks)) => {
                            self.block_ends(blocks, previous.as_ref(), in_force)?;
                            if blocks.next.is_some() {
                                return Err(sstable
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
                        return Err(sstable
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
                return Err(sstable.data.corrupt(at, &detail));
            }
            let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
            let rises = previous
                .as_ref()
                .is_none_or(|(_, before)| self.schema.compare_positions(before, &position).is_lt());
            if !rises {
                return Err(sstable.data.corrupt(at, "rows and markers do not rise"));
            }
            match (&mut blocks, &sstable.index) {
                (Some(Blocks::Promoted(blocks)), PartitionIndex::Big { file, .. }) => {
                    self.block_begins(blocks, file, at - start, &position, previous.as_ref(), in_force)
                        .await?;
                }
                (Some(Blocks::Trie(blocks)), PartitionIndex::Trie(trie)) => {
                    let (file, types) = (trie.rows_file(entry.position())?, &sstable.columns.clustering);
                    if let Some(detail) = blocks.piece(file, types, at - start, &position, in_force).await? {
                        return Err(sstable.data.corrupt(at, detail));
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
        let sstable = &self.sstable;
        let (found_bytes, blocks) = match (&sstable.index, entry) {
            (PartitionIndex::Big { file, .. }, Entry::Big(entry)) => {
                let version = sstable.name.version;
                let promoted = Promoted::open(file, entry, version, Fetch::Bypass, self.class).await?;
                let Some(mut promoted) = promoted else { return Ok(None) };
                let next = promoted.block(file, &sstable.columns.clustering_lengths, 0).await?;
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
            return Err(sstable.index.corrupt(entry, &detail));
        }
        Ok(Some(blocks))
    }

    /// Advances to the next block if that block starts with the row or marker at `offset`.
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
            return Err(self.sstable.data.corrupt(self.at, detail));
        }
        self.block_ends(blocks, previous, in_force)?;
        let index = blocks.next_index;
        let next = if index < blocks.promoted.block_count() {
            let fixed = &self.sstable.columns.clustering_lengths;
            Some(blocks.promoted.block(file, fixed, index).await?)
        } else {
            None
        };
        blocks.current = std::mem::replace(&mut blocks.next, next);
        blocks.next_index += 1;
        Ok(())
    }

    /// Checks that the current block ends with `previous`, and that the deletion in force is the one that the
    /// block states as open at its end.
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
        Err(self.sstable.data.corrupt(self.at, detail))
    }
}
