//! An open SSTable: what it is, what it may contain, and readers of it.
//!
//! In memory are the filter, the summary, the statistics and the places of compressed chunks; Data.db and
//! the index stay open, by direct I/O. Everything else is read when it is asked for, through the shard's
//! [`ChunkCache`]. An SSTable belongs to one shard and never changes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use model::{ClusteringPrefix, ClusteringRange, PartitionKey, PartitionRange, Position, TableSchema};
use reader::{ReadSpec, Reader, Source};
use runtime::{Files, IoClass};

use super::cache::ChunkCache;
use super::chunked::ChunkedFile;
use super::columns::{ColumnMap, ColumnMaps, DiskColumns};
use super::parse::{FailedReader, Parser};
use super::partition_index::PartitionIndex;
use super::partitions::SSTableReader;
use super::scan::ScanReader;
use super::unfiltered::Bases;
use super::window::Fetch;
use crate::component::compression_info::CompressionInfo;
use crate::component::deletion_time::NO_DELETION_TIME_S;
use crate::component::filter::Filter;
use crate::component::messina::{Contents, MessinaInfo};
use crate::component::statistics::{Statistics, StatsMetadata};
use crate::name::{Component, SstableName};
use crate::read::error::SSTableError;
use crate::read::open::Listing;

/// See the head of this file. Made by [`SSTable::open`].
pub struct SSTable {
    pub(super) dir: PathBuf,
    pub(super) name: SstableName,
    pub(super) components: Vec<Component>,
    pub(super) rebuilt: Vec<(Component, String)>,
    pub(super) data: ChunkedFile,
    pub(super) index: PartitionIndex,
    /// `None`: every key may be here.
    pub(super) filter: Option<Filter>,
    pub(super) statistics: Statistics,
    pub(super) messina: Option<MessinaInfo>,
    pub(super) first_key: PartitionKey,
    pub(super) last_key: PartitionKey,
    pub(super) bases: Bases,
    pub(super) columns: DiskColumns,
    pub(super) maps: RefCell<ColumnMaps>,
    /// The CRC-32 of Data.db as Digest.crc32 has it.
    pub(super) digest: Option<u32>,
}

impl SSTable {
    /// Opens the SSTable `name` in `dir`. `cache` is the shard's; `class` is whose reads these are.
    ///
    /// Every file that TOC.txt lists must be there. A summary or filter that is missing or not what was written is
    /// rebuilt in memory from the index, which costs reading that; without a sound Messina.db the SSTable is taken for a foreign
    /// one ([`Self::rebuilt`] says so). Of the index, which may be large, each page is checked when it is read.
    pub async fn open(
        files: &Files,
        dir: &Path,
        name: SstableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        // On the heap: opening is rare, and its state is large for those who await it.
        Box::pin(super::open::open(files, dir, name, Listing::In(Component::Toc), cache, class)).await
    }

    /// As [`Self::open`], of files that are complete and not sealed yet
    /// ([`crate::write::SSTableWriter::finish_unsealed`]).
    pub async fn open_unsealed(
        files: &Files,
        dir: &Path,
        name: SstableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        Box::pin(super::open::open(files, dir, name, Listing::In(Component::TocTemporary), cache, class))
            .await
    }

    /// As [`Self::open`], of files without a table of contents: these are taken for what it would list.
    pub async fn open_listing(
        files: &Files,
        dir: &Path,
        name: SstableName,
        components: Vec<Component>,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        Box::pin(super::open::open(files, dir, name, Listing::Given(components), cache, class)).await
    }

    pub fn name(&self) -> SstableName {
        self.name
    }

    /// The directory it is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What TOC.txt lists.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The components that are damaged or missing and had to be rebuilt in memory, or done without (Messina.db, Digest.crc32), each with the
    /// reason. For the log.
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

    /// Length of Index.db, or of Partitions.db and Rows.db.
    pub fn index_bytes(&self) -> u64 {
        self.index.file_bytes()
    }

    /// Bytes of memory that stay used while it is open: filter, summary, chunk places and checksums.
    pub fn memory_bytes(&self) -> usize {
        self.filter_bytes() + self.index.memory_bytes() + self.data.memory_bytes()
    }

    /// Bytes of memory of the places of its compressed chunks, and of its dictionary.
    pub fn compression_bytes(&self) -> usize {
        self.data.compression_bytes()
    }

    /// How Data.db is compressed; `None` if it is not. The dictionary is not among the options.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        self.data.compression()
    }

    /// Whether its chunks were compressed with a dictionary, so that no version of Cassandra can read it.
    pub fn needs_dictionary(&self) -> bool {
        self.data.has_dictionary()
    }

    /// Bytes of memory of its bloom filter.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }

    /// How many partitions it has; exact if Messina or a writer that keeps full histograms wrote it.
    pub fn partition_count(&self) -> u64 {
        let exact = self.messina.as_ref().and_then(|info| info.partition_count);
        let exact = exact.or_else(|| self.index.partition_count());
        exact.unwrap_or_else(|| self.stats().partition_bytes.count())
    }

    /// The smallest key by (token, key).
    pub fn first_key(&self) -> &PartitionKey {
        &self.first_key
    }

    /// The largest key by (token, key).
    pub fn last_key(&self) -> &PartitionKey {
        &self.last_key
    }

    pub fn stats(&self) -> &StatsMetadata {
        &self.statistics.stats
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What Messina wrote beside the common components; `None` if another writer made it.
    pub fn messina(&self) -> Option<&MessinaInfo> {
        self.messina.as_ref()
    }

    /// The level of leveled compaction.
    pub fn level(&self) -> u32 {
        self.stats().sstable_level
    }

    /// The smallest client timestamp in it.
    pub fn min_timestamp_us(&self) -> i64 {
        self.stats().min_timestamp_us
    }

    /// The largest client timestamp in it.
    pub fn max_timestamp_us(&self) -> i64 {
        self.stats().max_timestamp_us
    }

    /// Since when everything in it is dead, or `None` if something lives on without a TTL.
    pub fn max_local_deletion_time_s(&self) -> Option<u32> {
        let time_s = self.stats().max_local_deletion_time_s;
        (time_s != NO_DELETION_TIME_S).then_some(time_s as u32)
    }

    /// Whether there may be deletions or expiring cells in it.
    pub fn may_have_tombstones(&self) -> bool {
        self.stats().min_local_deletion_time_s != NO_DELETION_TIME_S
    }

    /// What requests of clients fetch of its data and index from disk is added to `bytes` from now on; the first call
    /// counts.
    pub fn count_fetched_in(&self, bytes: &Rc<Cell<u64>>) {
        self.data.count_fetched_in(bytes);
        self.index.count_fetched_in(bytes);
    }

    /// What may be in it beside what its bounds of clusterings cover: exactly if Messina wrote it, about deleted
    /// partitions also from version oa on. Otherwise a partition may be deleted if there is any deletion or TTL: the
    /// statistics of older versions do not tell one from the other.
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

    /// False if the key is certainly not here.
    pub fn may_contain(&self, key: &PartitionKey) -> bool {
        if *key < self.first_key || *key > self.last_key {
            return false;
        }
        let hash = || base::murmur3::hash128(key.bytes());
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash()))
    }

    /// As [`Self::may_contain`] for who asks many SSTables: `hash` is the key's `murmur3::hash128`.
    pub fn may_contain_hashed(&self, key: &PartitionKey, hash: (u64, u64)) -> bool {
        *key >= self.first_key
            && *key <= self.last_key
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// False if certainly no key of the range is here.
    pub fn may_contain_range(&self, partitions: &PartitionRange) -> bool {
        match partitions {
            PartitionRange::Key(key) => self.may_contain(key),
            PartitionRange::Between { .. } => partitions.may_overlap(&self.first_key, &self.last_key),
        }
    }

    /// False if nothing here can matter to a read of these rows: no row of them, no static row, no deletion.
    ///
    /// The bounds in the statistics cover rows and range deletions. They are prefixes, know nothing of deleted
    /// partitions and static rows, and are worth nothing before version md; so an SSTable is only left out if it has
    /// neither ([`Self::contents`]). Source: Cassandra's `shouldInclude`, without its second pass over SSTables with
    /// deletions.
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

    /// What a reader for `schema` makes of the columns, or why the schema is not this SSTable's.
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

/// An SSTable as a [`Source`]: with whose reads these are, and whether they may use the cache.
#[derive(Clone, Debug)]
pub struct SSTableSource {
    table: Rc<SSTable>,
    class: IoClass,
    bypass_cache: bool,
    progress: Option<Rc<Cell<u64>>>,
}

impl SSTableSource {
    pub fn new(table: Rc<SSTable>, class: IoClass) -> Self {
        Self { table, class, bypass_cache: false, progress: None }
    }

    /// Scans add to `bytes` what they have read of the uncompressed data, once in a while.
    #[must_use]
    pub fn progress(mut self, bytes: Rc<Cell<u64>>) -> Self {
        self.progress = Some(bytes);
        self
    }

    /// Reads past the chunk cache, which neither serves nor keeps anything then.
    #[must_use]
    pub fn bypass_cache(mut self, bypass_cache: bool) -> Self {
        self.bypass_cache = bypass_cache;
        self
    }

    pub fn table(&self) -> &Rc<SSTable> {
        &self.table
    }
}

impl Source for SSTableSource {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let table = &self.table;
        table.data.set_crc_check_chance(spec.schema.options.crc_check_chance);
        let parser = match table.column_map(&spec.schema) {
            Ok(map) => Parser::new(table, map),
            Err(detail) => return Box::new(FailedReader { table: Rc::clone(table), detail }),
        };
        let is_range = matches!(spec.partitions, PartitionRange::Between { .. });
        let is_index_kept = !self.bypass_cache && table.index.is_kept();
        if is_range && spec.wants_all_rows() && !spec.reversed {
            let index_fetch = if is_index_kept { Fetch::Cached } else { Fetch::Bypass };
            let progress = self.progress.clone();
            return Box::new(ScanReader::new(table, parser, spec, index_fetch, self.class, progress));
        }
        // What a range of partitions reads is not what single reads will want again.
        let fetch = if is_range || self.bypass_cache { Fetch::Bypass } else { Fetch::Cached };
        let index_fetch = if is_index_kept { fetch } else { Fetch::Bypass };
        Box::new(SSTableReader::new(table, parser, spec, (fetch, index_fetch), self.class))
    }
}
