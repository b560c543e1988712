//! Collects the figures of Statistics.db while an SSTable is written, as Cassandra's `MetadataCollector`
//! does.
//!
//! The writer reports every partition, row, cell and deletion; the collector holds only minima, maxima,
//! histograms and a key sketch. Rules on which readers rely:
//! - A live cell that does not expire is reported too, with [`NO_DELETION_TIME_S`] and TTL 0, so that the
//!   largest deletion time shows whether everything in the SSTable expires.
//! - The smallest clustering is that of a row or a start bound, the largest that of a row or an end bound.
//!   Rows rise within a partition, so it is sufficient to report the first and the last one of each
//!   partition.

use std::cmp::Ordering;

use base::histogram::EstimatedHistogram;
use base::hyperloglog::{HyperLogLog, key_hash};

use super::compaction::CompactionMetadata;
use super::stats::{CommitLogPosition, NO_COMPRESSION_RATIO, StatsMetadata};
use super::tombstones::TombstoneHistogramBuilder;
use crate::component::clustering::PrefixKind;
use crate::component::deletion_time::NO_DELETION_TIME_S;
use crate::component::messina::Contents;

/// Number of buckets of the partition size histogram; the largest offset is 1.4 TB.
const PARTITION_BYTES_OFFSETS: usize = 150;
/// Number of buckets of the cell count histogram; the largest offset is 4.1 billion.
const PARTITION_CELLS_OFFSETS: usize = 118;

/// A clustering prefix owned by the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPrefix {
    /// The kind of position that the prefix describes.
    pub kind: PrefixKind,
    /// The values of the first columns; a null is stored as an empty value.
    pub values: Vec<Vec<u8>>,
}

impl KeptPrefix {
    /// Replaces the prefix and reuses its memory.
    fn set(&mut self, kind: PrefixKind, values: &[Option<&[u8]>]) {
        self.kind = kind;
        self.values.resize_with(values.len(), Vec::new);
        for (kept, value) in self.values.iter_mut().zip(values) {
            kept.clear();
            kept.extend_from_slice(value.unwrap_or_default());
        }
    }

    fn new(kind: PrefixKind, values: &[Option<&[u8]>]) -> Self {
        let mut prefix = Self { kind, values: vec![] };
        prefix.set(kind, values);
        prefix
    }
}

/// The figures of an SSTable so far.
pub struct StatsCollector {
    partition_bytes: EstimatedHistogram,
    partition_cells: EstimatedHistogram,
    keys: HyperLogLog,
    timestamps_us: Option<(i64, i64)>,
    deletion_times_s: Option<(i32, i32)>,
    ttls_s: Option<(i32, i32)>,
    tombstones: TombstoneHistogramBuilder,
    clustering: Option<(KeptPrefix, KeptPrefix)>,
    total_columns_set: u64,
    total_rows: u64,
    compression_ratio: f64,
    has_legacy_counter_shards: bool,
    commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    sstable_level: u32,
    repaired_at_ms: i64,
    originating_host_id: Option<[u8; 16]>,
    contents: Contents,
}

impl StatsCollector {
    /// `originating_host_id` is the UUID of this node, if it has one.
    pub fn new(originating_host_id: Option<[u8; 16]>) -> Self {
        Self {
            partition_bytes: EstimatedHistogram::new(PARTITION_BYTES_OFFSETS),
            partition_cells: EstimatedHistogram::new(PARTITION_CELLS_OFFSETS),
            keys: HyperLogLog::new(),
            timestamps_us: None,
            deletion_times_s: None,
            ttls_s: None,
            tombstones: TombstoneHistogramBuilder::new(),
            clustering: None,
            total_columns_set: 0,
            total_rows: 0,
            compression_ratio: NO_COMPRESSION_RATIO,
            has_legacy_counter_shards: false,
            commit_log_intervals: vec![],
            sstable_level: 0,
            repaired_at_ms: 0,
            originating_host_id,
            contents: Contents::default(),
        }
    }

    /// Adds a timestamp of a cell, row or deletion.
    #[inline]
    pub fn update_timestamp(&mut self, timestamp_us: i64) {
        widen(&mut self.timestamps_us, timestamp_us);
    }

    /// Adds the local deletion time of a tombstone or of an expiring cell or row, or [`NO_DELETION_TIME_S`]
    /// for one that does not expire. Must not be called for a live deletion.
    #[inline]
    pub fn update_deletion_time(&mut self, local_deletion_time_s: i32) {
        widen(&mut self.deletion_times_s, local_deletion_time_s);
        if local_deletion_time_s != NO_DELETION_TIME_S {
            self.tombstones.add(local_deletion_time_s);
        }
    }

    /// Adds the TTL of a cell or row; 0 if it has none.
    #[inline]
    pub fn update_ttl(&mut self, ttl_s: i32) {
        widen(&mut self.ttls_s, ttl_s);
    }

    /// Adds a complete partition: its serialized key, its uncompressed bytes in Data.db, and its number of
    /// cells.
    pub fn add_partition(&mut self, key: &[u8], partition_bytes: u64, cells: u64) {
        self.keys.offer(key_hash(key));
        self.partition_bytes.add(partition_bytes);
        self.partition_cells.add(cells);
    }

    /// Records that a whole partition is deleted.
    pub fn see_partition_deletion(&mut self) {
        self.contents.has_partition_deletions = true;
    }

    /// Records a static row that is not empty.
    #[inline]
    pub fn see_static_row(&mut self) {
        self.contents.has_static_rows = true;
    }

    /// The contents seen so far that the clustering bounds do not cover.
    pub fn contents(&self) -> Contents {
        self.contents
    }

    /// Adds a row, possibly static, with this number of set columns.
    #[inline]
    pub fn add_row(&mut self, columns_set: u64) {
        self.total_rows += 1;
        self.total_columns_set += columns_set;
    }

    /// Adds the clustering of a row or bound. `compare` returns the order of that prefix relative to its
    /// argument; the caller has the prefix in a form of its own. Boundaries are ignored, because a boundary
    /// lies inside the union of its two ranges.
    pub fn update_clustering(
        &mut self,
        kind: PrefixKind,
        values: &[Option<&[u8]>],
        compare: impl Fn(&KeptPrefix) -> Ordering,
    ) {
        if kind.is_boundary() {
            return;
        }
        let Some((least, most)) = &mut self.clustering else {
            let prefix = KeptPrefix::new(kind, values);
            self.clustering = Some((prefix.clone(), prefix));
            return;
        };
        if !kind.is_start() && compare(most) == Ordering::Greater {
            most.set(kind, values);
        } else if !kind.is_end() && compare(least) == Ordering::Less {
            least.set(kind, values);
        }
    }

    /// Sets the compression ratio of the complete Data.db.
    pub fn set_compression(&mut self, compressed_bytes: u64, uncompressed_bytes: u64) {
        assert!(uncompressed_bytes > 0, "an SSTable has data");
        self.compression_ratio = compressed_bytes as f64 / uncompressed_bytes as f64;
    }

    /// Records that counter shards of the old kind exist.
    pub fn set_legacy_counter_shards(&mut self) {
        self.has_legacy_counter_shards = true;
    }

    /// Adds an interval of the commit log whose writes are in the SSTable. Intervals that overlap or touch
    /// are merged.
    pub fn add_commit_log_interval(&mut self, start: CommitLogPosition, end: CommitLogPosition) {
        assert!(start <= end, "an interval ends at or behind its start: {start:?} to {end:?}");
        self.commit_log_intervals.push((start, end));
        self.commit_log_intervals.sort();
        self.commit_log_intervals.dedup_by(|next, before| {
            let together = next.0 <= before.1;
            before.1 = if together { before.1.max(next.1) } else { before.1 };
            together
        });
    }

    /// Sets the level in leveled compaction; 0 otherwise.
    pub fn set_level(&mut self, level: u32) {
        self.sstable_level = level;
    }

    /// Sets the time of the repair in milliseconds since 1970; 0 if the data were not repaired.
    pub fn set_repaired_at(&mut self, repaired_at_ms: i64) {
        self.repaired_at_ms = repaired_at_ms;
    }

    /// Number of added partitions, estimated by the sketch.
    pub fn estimated_partitions(&self) -> u64 {
        self.keys.cardinality()
    }

    /// The stats part and the compaction part.
    pub fn finish(self) -> (StatsMetadata, CompactionMetadata) {
        // Cassandra's defaults for an SSTable without any of the kind.
        let (min_timestamp_us, max_timestamp_us) = self.timestamps_us.unwrap_or((i64::MIN, i64::MAX));
        let none = (NO_DELETION_TIME_S, NO_DELETION_TIME_S);
        let (min_local_deletion_time_s, max_local_deletion_time_s) = self.deletion_times_s.unwrap_or(none);
        let (min_ttl_s, max_ttl_s) = self.ttls_s.unwrap_or((0, 0));
        let (min_clustering, max_clustering) =
            self.clustering.map_or((vec![], vec![]), |(least, most)| (least.values, most.values));
        let none = CommitLogPosition::NONE;
        let stats = StatsMetadata {
            partition_bytes: self.partition_bytes,
            partition_cells: self.partition_cells,
            commit_log_upper: self.commit_log_intervals.last().map_or(none, |(_, end)| *end),
            min_timestamp_us,
            max_timestamp_us,
            min_local_deletion_time_s,
            max_local_deletion_time_s,
            min_ttl_s,
            max_ttl_s,
            compression_ratio: self.compression_ratio,
            tombstone_drop_times: self.tombstones.finish(),
            sstable_level: self.sstable_level,
            repaired_at_ms: self.repaired_at_ms,
            min_clustering,
            max_clustering,
            has_legacy_counter_shards: self.has_legacy_counter_shards,
            total_columns_set: self.total_columns_set,
            total_rows: self.total_rows,
            commit_log_lower: self.commit_log_intervals.first().map_or(none, |(start, _)| *start),
            commit_log_intervals: self.commit_log_intervals,
            pending_repair: None,
            is_transient: false,
            originating_host_id: self.originating_host_id,
            coverage: None,
        };
        (stats, CompactionMetadata::new(&self.keys))
    }
}

#[inline]
fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    *range = match *range {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment_id: i64, position: i32) -> CommitLogPosition {
        CommitLogPosition { segment_id, position }
    }

    #[test]
    fn nothing_seen_gives_cassandras_defaults() {
        let (stats, compaction) = StatsCollector::new(None).finish();
        assert_eq!((stats.min_timestamp_us, stats.max_timestamp_us), (i64::MIN, i64::MAX));
        assert_eq!(stats.min_local_deletion_time_s, NO_DELETION_TIME_S);
        assert_eq!((stats.commit_log_lower, stats.commit_log_upper), (at(-1, 0), at(-1, 0)));
        assert_eq!(stats.compression_ratio, -1.0);
        assert_eq!(compaction.cardinality().unwrap().cardinality(), 0);
    }

    #[test]
    fn live_cells_widen_deletion_times_and_ttls() {
        let mut stats = StatsCollector::new(None);
        stats.update_deletion_time(1000);
        stats.update_ttl(60);
        stats.update_deletion_time(NO_DELETION_TIME_S);
        stats.update_ttl(0);
        stats.update_timestamp(5);
        stats.update_timestamp(-5);
        let (stats, _) = stats.finish();
        assert_eq!((stats.min_local_deletion_time_s, stats.max_local_deletion_time_s), (1000, i32::MAX));
        assert_eq!((stats.min_ttl_s, stats.max_ttl_s), (0, 60));
        assert_eq!((stats.min_timestamp_us, stats.max_timestamp_us), (-5, 5));
        assert_eq!(stats.tombstone_drop_times.bins().len(), 1);
    }

    /// Reports prefixes of one text column and returns the smallest and the largest.
    fn extremes(prefixes: &[(PrefixKind, &str)]) -> (String, String) {
        let mut stats = StatsCollector::new(None);
        for (kind, text) in prefixes {
            let values = [Some(text.as_bytes())];
            stats.update_clustering(*kind, &values, |kept| {
                let kept = (&kept.values[0][..], kept.kind.weight());
                (text.as_bytes(), kind.weight()).cmp(&kept)
            });
        }
        let (stats, _) = stats.finish();
        let text = |values: Vec<Vec<u8>>| String::from_utf8(values.concat()).unwrap();
        (text(stats.min_clustering), text(stats.max_clustering))
    }

    #[test]
    fn the_smallest_and_largest_clustering_come_from_rows_starts_and_ends() {
        use PrefixKind::*;
        let check = |prefixes: &[(PrefixKind, &str)], least: &str, most: &str| {
            assert_eq!(extremes(prefixes), (least.to_owned(), most.to_owned()), "{prefixes:?}");
        };
        check(&[(Row, "m")], "m", "m");
        check(&[(Row, "m"), (Row, "z"), (Row, "ccc"), (Row, "n")], "ccc", "z");
        check(&[(InclStart, "b"), (Row, "c"), (InclEnd, "x"), (Row, "a")], "a", "x");
        check(&[(ExclStart, "b"), (ExclEndInclStart, "zz"), (ExclEnd, "d")], "b", "d");
        check(&[], "", "");
    }

    #[test]
    fn commit_log_intervals_are_united() {
        let mut stats = StatsCollector::new(None);
        for (start, end) in
            [(at(3, 0), at(3, 10)), (at(1, 0), at(1, 5)), (at(1, 5), at(2, 7)), (at(3, 4), at(3, 6))]
        {
            stats.add_commit_log_interval(start, end);
        }
        let (stats, _) = stats.finish();
        assert_eq!(stats.commit_log_intervals, [(at(1, 0), at(2, 7)), (at(3, 0), at(3, 10))]);
        assert_eq!((stats.commit_log_lower, stats.commit_log_upper), (at(1, 0), at(3, 10)));
    }

    #[test]
    fn partitions_and_rows_are_counted() {
        let mut stats = StatsCollector::new(Some([7; 16]));
        for number in 0..500u32 {
            stats.add_partition(&number.to_be_bytes(), u64::from(number), 3);
            stats.add_row(2);
        }
        assert_eq!(stats.estimated_partitions(), 500);
        stats.set_compression(30, 100);
        let (stats, compaction) = stats.finish();
        assert_eq!((stats.total_rows, stats.total_columns_set, stats.compression_ratio), (500, 1000, 0.3));
        assert_eq!((stats.partition_bytes.count(), stats.partition_cells.max()), (500, 3));
        assert_eq!(stats.originating_host_id, Some([7; 16]));
        assert_eq!(compaction.cardinality().unwrap().cardinality(), 500);
    }
}
