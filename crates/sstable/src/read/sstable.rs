//! An open SSTable: its properties, tests of what it may contain, and its readers.
//!
//! The filter, the summary, the statistics and the offsets of compressed chunks are held in memory. Data.db
//! and the index stay open, for direct I/O. Everything else is read on demand through the shard's
//! [`ChunkCache`]. An SSTable belongs to one shard and never changes.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use model::index::IndexId;
use model::{ClusteringPrefix, ClusteringRange, PartitionKey, PartitionRange, Position, TableSchema};
use reader::{ReadError, ReadSpec, Reader, Source};
use runtime::{Files, IoClass};

use crate::component::compression_info::CompressionInfo;
use crate::component::deletion_time::NO_DELETION_TIME_S;
use crate::component::filter::Filter;
use crate::component::messina::{Contents, MessinaInfo};
use crate::component::statistics::{Statistics, StatsMetadata};
use crate::name::{Component, SSTableName};
use crate::read::data::cache::ChunkCache;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::Fetch;
use crate::read::decode::columns::{ColumnMap, ColumnMaps, DiskColumns};
use crate::read::decode::parse::{FailedReader, Parser};
use crate::read::decode::unfiltered::Bases;
use crate::read::error::SSTableError;
use crate::read::index::partition_index::{Entry, PartitionIndex};
use crate::read::index::secondary::SecondaryIndex;
use crate::read::open::Listing;
use crate::read::partitions::SSTableReader;
use crate::read::scan::ScanReader;

/// See the head of this file. Created by [`SSTable::open`].
pub struct SSTable {
    pub(super) dir: PathBuf,
    pub(super) name: SSTableName,
    pub(super) components: Vec<Component>,
    pub(super) rebuilt: Vec<(Component, String)>,
    pub(super) data: ChunkedFile,
    pub(super) index: PartitionIndex,
    /// `None`: every key may be in the SSTable.
    pub(super) filter: Option<Filter>,
    pub(super) statistics: Statistics,
    pub(super) messina: Option<MessinaInfo>,
    pub(super) first_key: PartitionKey,
    pub(super) last_key: PartitionKey,
    pub(super) bases: Bases,
    pub(super) columns: DiskColumns,
    pub(super) maps: RefCell<ColumnMaps>,
    /// Reads of single partitions that its filter did not rule out.
    pub(super) point_reads: Cell<u64>,
    /// Of `point_reads`, those that found no such partition: false positives of the filter.
    pub(super) false_positives: OnceCell<Rc<Cell<u64>>>,
    /// CRC-32 of Data.db, as stored in Digest.crc32.
    pub(super) digest: Option<u32>,
    /// The secondary indexes of which there is a sound component.
    pub(super) secondary: RefCell<Vec<Rc<SecondaryIndex>>>,
}

impl SSTable {
    /// Opens the SSTable `name` in `dir`. `cache` is the shard's cache; `class` is the I/O class of the
    /// reads.
    ///
    /// Every file that TOC.txt lists must exist, except files that can be rebuilt or that are optional. A
    /// summary or filter that is missing or has a wrong checksum is rebuilt in memory, which reads the whole
    /// index. Without a sound Messina.db the SSTable is treated as written by another server.
    /// [`Self::rebuilt`] lists both. The index may be large, so its pages are verified when they are read,
    /// not here.
    pub async fn open(
        files: &Files,
        dir: &Path,
        name: SSTableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        // Boxed: opening is rare, and its large state would enlarge the caller's future.
        Box::pin(crate::read::open::open(files, dir, name, Listing::In(Component::Toc), cache, class)).await
    }

    /// As [`Self::open`], for files that are complete but not sealed yet
    /// ([`crate::write::SSTableWriter::finish_unsealed`]).
    pub async fn open_unsealed(
        files: &Files,
        dir: &Path,
        name: SSTableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        Box::pin(crate::read::open::open(
            files,
            dir,
            name,
            Listing::In(Component::TocTemporary),
            cache,
            class,
        ))
        .await
    }

    /// As [`Self::open`], for files without TOC.txt: `components` stands for its content.
    pub async fn open_listing(
        files: &Files,
        dir: &Path,
        name: SSTableName,
        components: Vec<Component>,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        Box::pin(crate::read::open::open(files, dir, name, Listing::Given(components), cache, class)).await
    }

    pub fn name(&self) -> SSTableName {
        self.name
    }

    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The components that TOC.txt lists.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The components that are damaged or missing, each with the reason: rebuilt in memory, or not used
    /// (Messina.db, Digest.crc32). For the log.
    pub fn rebuilt(&self) -> &[(Component, String)] {
        &self.rebuilt
    }

    /// Length of Data.db on disk.
    pub fn data_bytes(&self) -> u64 {
        self.data.file_bytes()
    }

    /// Length of the data before compression.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.data.data_bytes()
    }

    /// Length of Index.db, or of Partitions.db and Rows.db together.
    pub fn index_bytes(&self) -> u64 {
        self.index.file_bytes()
    }

    /// Bytes of memory that the open SSTable holds: filter, summary, chunk offsets and checksums.
    pub fn memory_bytes(&self) -> usize {
        self.filter_bytes() + self.index.memory_bytes() + self.data.memory_bytes()
    }

    /// Bytes of memory of the offsets of its compressed chunks and of its dictionary.
    pub fn compression_bytes(&self) -> usize {
        self.data.compression_bytes()
    }

    /// How Data.db is compressed; `None` if it is not compressed. The options do not contain the dictionary.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        self.data.compression()
    }

    /// Whether the chunks were compressed with a dictionary. No version of Cassandra can read such an
    /// SSTable.
    pub fn needs_dictionary(&self) -> bool {
        self.dictionary_bytes().is_some()
    }

    /// The length of the dictionary in CompressionInfo.db; `None` without one.
    pub fn dictionary_bytes(&self) -> Option<usize> {
        self.data.dictionary_bytes()
    }

    /// Bytes of memory of its bloom filter.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }

    /// Tokens of a sample of its keys, in ascending order; the first and the last key if the index has no
    /// sample.
    pub fn sampled_tokens(&self) -> Vec<i64> {
        let tokens = self.index.sampled_tokens();
        match tokens.is_empty() {
            true => vec![self.first_key.token(), self.last_key.token()],
            false => tokens,
        }
    }

    /// Number of partitions; exact if Messina or another writer with complete histograms wrote the SSTable.
    pub fn partition_count(&self) -> u64 {
        let exact = self.messina.as_ref().and_then(|info| info.partition_count);
        let exact = exact.or_else(|| self.index.partition_count());
        exact.unwrap_or_else(|| self.stats().partition_bytes.count())
    }

    /// The error about an index entry whose partition starts after the end of Data.db.
    pub(super) fn position_beyond_data(&self, entry: &Entry) -> ReadError {
        let (length, position) = (self.data.data_bytes(), entry.position());
        let detail =
            format!("position in Data.db: expected less than {length}, its length, found {position}");
        self.index.corrupt(entry, &detail)
    }

    /// The smallest key by (token, key).
    pub fn first_key(&self) -> &PartitionKey {
        &self.first_key
    }

    /// The largest key by (token, key).
    pub fn last_key(&self) -> &PartitionKey {
        &self.last_key
    }

    /// The stats part of Statistics.db.
    pub fn stats(&self) -> &StatsMetadata {
        &self.statistics.stats
    }

    /// The content of Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The content of Messina.db; `None` if another server wrote the SSTable.
    pub fn messina(&self) -> Option<&MessinaInfo> {
        self.messina.as_ref()
    }

    /// The level in leveled compaction.
    pub fn level(&self) -> u32 {
        self.stats().sstable_level
    }

    /// The smallest client timestamp in the SSTable, in microseconds.
    pub fn min_timestamp_us(&self) -> i64 {
        self.stats().min_timestamp_us
    }

    /// The largest client timestamp in the SSTable, in microseconds.
    pub fn max_timestamp_us(&self) -> i64 {
        self.stats().max_timestamp_us
    }

    /// The time in seconds since 1970 from which on all its content is dead; `None` if it has content that is
    /// not deleted and has no TTL.
    pub fn max_local_deletion_time_s(&self) -> Option<u32> {
        let time_s = self.stats().max_local_deletion_time_s;
        (time_s != NO_DELETION_TIME_S).then_some(time_s as u32)
    }

    /// Whether the SSTable may contain deletions or expiring cells.
    pub fn may_have_tombstones(&self) -> bool {
        self.stats().min_local_deletion_time_s != NO_DELETION_TIME_S
    }

    /// Adds the bytes that client reads fetch from data and index on disk to `bytes`, from now on. Only the
    /// first call has an effect.
    pub fn count_fetched_in(&self, bytes: &Rc<Cell<u64>>) {
        self.data.count_fetched_in(bytes);
        self.index.count_fetched_in(bytes);
    }

    /// Adds the client reads of a partition that the filter did not rule out, and that is not here, to
    /// `reads`, from now on. Only the first call has an effect.
    pub fn count_false_positives_in(&self, reads: &Rc<Cell<u64>>) {
        self.false_positives.get_or_init(|| Rc::clone(reads));
    }

    /// A client's read of a partition has not found it here.
    pub(super) fn count_false_positive(&self, class: IoClass) {
        if let (Some(_), true, Some(reads)) = (
            &self.filter,
            matches!(class, IoClass::Statement | IoClass::Created(_)),
            self.false_positives.get(),
        ) {
            reads.set(reads.get() + 1);
        }
    }

    /// The component of a secondary index; `None` if there is none, or if it was damaged when it was opened.
    pub fn secondary_index(&self, id: IndexId) -> Option<Rc<SecondaryIndex>> {
        self.secondary.borrow().iter().find(|index| index.id() == id).cloned()
    }

    /// The secondary indexes of which there is a component.
    pub fn secondary_indexes(&self) -> Vec<IndexId> {
        self.secondary.borrow().iter().map(|index| index.id()).collect()
    }

    /// Bytes of the components of secondary indexes on disk.
    pub fn secondary_index_bytes(&self) -> u64 {
        self.secondary.borrow().iter().map(|index| index.file_bytes()).sum()
    }

    /// Opens the component of an index that has been published since the SSTable was opened.
    pub async fn open_secondary_index(
        &self,
        files: &Files,
        id: IndexId,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<(), SSTableError> {
        let (dir, bytes) = (&self.dir, self.data_bytes());
        let opened = SecondaryIndex::open(files, dir, &self.name, id, bytes, cache, class).await?;
        self.forget_secondary_index(id);
        self.secondary.borrow_mut().push(opened);
        Ok(())
    }

    /// The component is not used any more. Cursors that have it open go on.
    pub fn forget_secondary_index(&self, id: IndexId) {
        self.secondary.borrow_mut().retain(|index| index.id() != id);
    }

    /// Counts a read of a single partition that opens this SSTable.
    pub fn count_point_read(&self) {
        self.point_reads.set(self.point_reads.get() + 1);
    }

    /// Reads of single partitions that opened this SSTable since this process opened it.
    pub fn point_reads(&self) -> u64 {
        self.point_reads.get()
    }

    /// Whether the SSTable may have partition deletions and static rows, which its clustering bounds do not
    /// cover. Exact if Messina wrote the SSTable; from version oa on, partition deletions are exact for every
    /// writer. Otherwise any deletion or TTL counts as a possible partition deletion, because the statistics
    /// of older versions do not distinguish them.
    pub fn contents(&self) -> Contents {
        if let Some(contents) = self.messina.as_ref().and_then(|info| info.contents) {
            return contents;
        }
        let coverage = self.stats().coverage.as_ref();
        Contents {
            has_partition_deletions: coverage
                .map_or_else(|| self.may_have_tombstones(), |coverage| coverage.has_partition_deletions),
            has_static_rows: self.columns.has_static(),
        }
    }

    /// False if the SSTable certainly does not contain the key.
    pub fn may_contain(&self, key: &PartitionKey) -> bool {
        if *key < self.first_key || *key > self.last_key {
            return false;
        }
        let hash = || base::murmur3::hash128(key.bytes());
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash()))
    }

    /// As [`Self::may_contain`], for callers that ask many SSTables: `hash` is the key's `murmur3::hash128`.
    pub fn may_contain_hashed(&self, key: &PartitionKey, hash: (u64, u64)) -> bool {
        *key >= self.first_key
            && *key <= self.last_key
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// False if the SSTable certainly contains no key of the range.
    pub fn may_contain_range(&self, partitions: &PartitionRange) -> bool {
        match partitions {
            PartitionRange::Key(key) => self.may_contain(key),
            PartitionRange::Between { .. } => partitions.may_overlap(&self.first_key, &self.last_key),
        }
    }

    /// False if nothing in the SSTable can affect a read of these rows: neither a row of the ranges, nor a
    /// static row, nor a deletion.
    ///
    /// The clustering bounds in the statistics cover rows and range deletions. The bounds are prefixes, they
    /// do not cover partition deletions and static rows, and before version md they are unreliable. So an
    /// SSTable is excluded only if it has neither partition deletions nor static rows ([`Self::contents`]).
    /// Source: Cassandra's `shouldInclude`, without its second pass over SSTables with deletions.
    pub fn may_contain_clustering(&self, schema: &TableSchema, ranges: &[ClusteringRange]) -> bool {
        let (least, most) = (&self.stats().min_clustering, &self.stats().max_clustering);
        let knows_nothing = !self.name.version.has_accurate_min_max() || least.is_empty() || most.is_empty();
        let contents = self.contents();
        if knows_nothing || contents.has_static_rows || contents.has_partition_deletions {
            return true;
        }
        let prefix = |values: &[Vec<u8>]| ClusteringPrefix::new(values.iter().map(Vec::as_slice));
        let start = Position::before(prefix(least));
        let end = Position::after(prefix(most));
        ranges.iter().any(|range| {
            schema.compare_positions(&range.start, &end).is_lt()
                && schema.compare_positions(&start, &range.end).is_lt()
        })
    }

    /// The mapping of the SSTable's columns to those of `schema`, or the reason why the schema does not fit.
    pub(super) fn column_map(&self, schema: &std::sync::Arc<TableSchema>) -> Result<Rc<ColumnMap>, String> {
        let here = &self.columns.clustering;
        let there = &schema.clustering;
        let same = here.len() == there.len()
            && here.iter().zip(there).all(|(here, there)| here.is_reversed() == there.ty.is_reversed());
        if !same {
            let names = |types: &[model::CqlType]| {
                types.iter().map(model::CqlType::to_java_name).collect::<Vec<_>>().join(", ")
            };
            let there: Vec<model::CqlType> = there.iter().map(|column| column.ty.clone()).collect();
            return Err(format!(
                "the SSTable has clustering columns ({}), table {} has ({})",
                names(here),
                schema.full_name(),
                names(&there)
            ));
        }
        Ok(self.maps.borrow_mut().get(&self.columns, schema))
    }
}

impl fmt::Debug for SSTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SSTable({})", self.dir.join(self.name.to_string()).display())
    }
}

/// An SSTable as a [`Source`], with the I/O class of its reads and whether they may use the cache.
#[derive(Clone, Debug)]
pub struct SSTableSource {
    sstable: Rc<SSTable>,
    class: IoClass,
    bypass_cache: bool,
    progress: Option<Rc<Cell<u64>>>,
}

impl SSTableSource {
    /// A source of the SSTable's fragments. `class` is the I/O class of the reads.
    pub fn new(sstable: Rc<SSTable>, class: IoClass) -> Self {
        Self { sstable, class, bypass_cache: false, progress: None }
    }

    /// Scans regularly add the number of uncompressed bytes that they have read to `bytes`.
    #[must_use]
    pub fn progress(mut self, bytes: Rc<Cell<u64>>) -> Self {
        self.progress = Some(bytes);
        self
    }

    /// If true, reads neither use the chunk cache nor put anything into it.
    #[must_use]
    pub fn bypass_cache(mut self, bypass_cache: bool) -> Self {
        self.bypass_cache = bypass_cache;
        self
    }

    pub fn sstable(&self) -> &Rc<SSTable> {
        &self.sstable
    }
}

impl Source for SSTableSource {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let sstable = &self.sstable;
        sstable.data.set_crc_check_chance(spec.schema.options.crc_check_chance);
        let parser = match sstable.column_map(&spec.schema) {
            Ok(map) => Parser::new(sstable, map),
            Err(detail) => return Box::new(FailedReader { sstable: Rc::clone(sstable), detail }),
        };
        let is_range = matches!(spec.partitions, PartitionRange::Between { .. });
        let is_index_kept = !self.bypass_cache && sstable.index.is_kept();
        if is_range && spec.wants_all_rows() && !spec.reversed {
            let index_fetch = if is_index_kept { Fetch::Cached } else { Fetch::Bypass };
            let progress = self.progress.clone();
            return Box::new(ScanReader::new(sstable, parser, spec, index_fetch, self.class, progress));
        }
        // Single-partition reads rarely need the chunks that a range read fetches, so the range read does not
        // cache them.
        let fetch = if is_range || self.bypass_cache { Fetch::Bypass } else { Fetch::Cached };
        let index_fetch = if is_index_kept { fetch } else { Fetch::Bypass };
        Box::new(SSTableReader::new(sstable, parser, spec, (fetch, index_fetch), self.class))
    }
}
