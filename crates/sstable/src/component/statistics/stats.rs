//! The stats part of Statistics.db: figures by which a read excludes the SSTable and a compaction selects it.
//!
//! The fields have the order of [`StatsMetadata`]'s encoder. Their set depends on the [`Version`]; only the
//! fields of versions that Messina writes are encoded. Source: Cassandra's `StatsMetadata`.

use base::bytes::{Take, put_u16_bytes};
use base::histogram::EstimatedHistogram;

use model::CqlType;

use super::text;
use super::tombstones::TombstoneHistogram;
use crate::component::clustering::{PrefixKind, RawPrefix};
use crate::component::deletion_time::local_time_of_u32;
use crate::component::error::check_count;
use crate::component::{FormatError, Named};
use crate::version::Version;

/// The ratio of an SSTable that is not compressed.
pub const NO_COMPRESSION_RATIO: f64 = -1.0;

/// A position in the commit log of the host that wrote the SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitLogPosition {
    /// Number of the commit log's segment; -1 in `NONE`.
    pub segment_id: i64,
    /// Byte in the segment.
    pub position: i32,
}

impl CommitLogPosition {
    /// Before every position: the SSTable has no writes of the commit log.
    pub const NONE: Self = Self { segment_id: -1, position: 0 };
    const SIZE_BYTES: usize = 12;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment_id.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, FormatError> {
        let segment_id = take.i64().named("commit log segment")?;
        let position = take.i32().named("commit log position")?;
        Ok(Self { segment_id, position })
    }
}

/// Figures of a whole SSTable.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsMetadata {
    /// Histogram of the uncompressed partition sizes in bytes.
    pub partition_bytes: EstimatedHistogram,
    /// Histogram of the number of cells in a partition.
    pub partition_cells: EstimatedHistogram,
    /// The end of the last of `commit_log_intervals`, or [`CommitLogPosition::NONE`].
    pub commit_log_upper: CommitLogPosition,
    /// Smallest client timestamp, in microseconds.
    pub min_timestamp_us: i64,
    /// Largest client timestamp, in microseconds.
    pub max_timestamp_us: i64,
    /// Smallest local deletion time of tombstones and expiring cells; 0x7fffffff if there are only live
    /// cells. Times after 2038, which only versions oa and da have, are negative
    /// (`component::deletion_time`).
    pub min_local_deletion_time_s: i32,
    /// 0x7fffffff if there is a live cell that does not expire.
    pub max_local_deletion_time_s: i32,
    /// 0 if there is a live cell that does not expire.
    pub min_ttl_s: i32,
    /// Largest TTL in seconds; 0 if no cell has a TTL.
    pub max_ttl_s: i32,
    /// Compressed length divided by uncompressed length, or [`NO_COMPRESSION_RATIO`].
    pub compression_ratio: f64,
    /// Local deletion times of tombstones and expiring cells.
    pub tombstone_drop_times: TombstoneHistogram,
    /// The level in leveled compaction.
    pub sstable_level: u32,
    /// Time of the repair in milliseconds since 1970; 0 if the data were not repaired.
    pub repaired_at_ms: i64,
    /// The smallest clustering prefix: a value for each of the first columns, possibly not for all; empty if
    /// unbounded. Valid only if [`Version::has_accurate_min_max`].
    pub min_clustering: Vec<Vec<u8>>,
    /// The largest clustering prefix, like `min_clustering`.
    pub max_clustering: Vec<Vec<u8>>,
    /// Whether there are counter shards from before Cassandra 2.1.
    pub has_legacy_counter_shards: bool,
    /// Number of set columns in all rows.
    pub total_columns_set: u64,
    /// Number of rows, including static rows.
    pub total_rows: u64,
    /// The start of the first of `commit_log_intervals`, or [`CommitLogPosition::NONE`].
    pub commit_log_lower: CommitLogPosition,
    /// The intervals of the commit log whose writes are in the SSTable, as start and end, in rising order.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// UUID of the repair session to which the SSTable belongs; from version na on.
    pub pending_repair: Option<[u8; 16]>,
    /// Whether the data are transiently replicated; from version na on.
    pub is_transient: bool,
    /// UUID of the host whose commit log the positions refer to; in versions me, nb and later.
    pub originating_host_id: Option<[u8; 16]>,
    /// Further facts about the covered data; from version oa on.
    pub coverage: Option<Coverage>,
}

/// The facts about an SSTable's data that version oa adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// Java class names of the clustering columns, with which the bounds were written.
    pub clustering_types: Vec<String>,
    /// Whether the covered range begins at `min_clustering` or after it.
    pub start_kind: PrefixKind,
    /// Whether the covered range ends at `max_clustering` or before it.
    pub end_kind: PrefixKind,
    /// Whether there are deletions of whole partitions.
    pub has_partition_deletions: bool,
    /// The smallest partition key by (token, key).
    pub first_key: Vec<u8>,
    /// The largest partition key by (token, key).
    pub last_key: Vec<u8>,
    /// The fraction of the ring for which the SSTable was written; NaN if unknown.
    pub token_space: f64,
}

impl StatsMetadata {
    pub(super) fn encode(&self, out: &mut Vec<u8>, version: Version) {
        encode_histogram(&self.partition_bytes, out);
        encode_histogram(&self.partition_cells, out);
        self.commit_log_upper.encode(out);
        out.extend_from_slice(&self.min_timestamp_us.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp_us.to_be_bytes());
        out.extend_from_slice(&self.min_local_deletion_time_s.to_be_bytes());
        out.extend_from_slice(&self.max_local_deletion_time_s.to_be_bytes());
        out.extend_from_slice(&self.min_ttl_s.to_be_bytes());
        out.extend_from_slice(&self.max_ttl_s.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        self.tombstone_drop_times.encode(out);
        out.extend_from_slice(&self.sstable_level.to_be_bytes());
        out.extend_from_slice(&self.repaired_at_ms.to_be_bytes());
        for values in [&self.min_clustering, &self.max_clustering] {
            out.extend_from_slice(&(values.len() as u32).to_be_bytes());
            values.iter().for_each(|value| put_u16_bytes(out, value));
        }
        out.push(u8::from(self.has_legacy_counter_shards));
        out.extend_from_slice(&self.total_columns_set.to_be_bytes());
        out.extend_from_slice(&self.total_rows.to_be_bytes());
        self.commit_log_lower.encode(out);
        out.extend_from_slice(&(self.commit_log_intervals.len() as u32).to_be_bytes());
        for (start, end) in &self.commit_log_intervals {
            start.encode(out);
            end.encode(out);
        }
        if version.has_pending_repair() {
            encode_uuid(self.pending_repair, out);
            out.push(u8::from(self.is_transient));
        }
        if version.has_originating_host_id() {
            encode_uuid(self.originating_host_id, out);
        }
    }

    pub(super) fn decode(take: &mut Take<'_>, version: Version) -> Result<Self, FormatError> {
        let partition_bytes = decode_histogram(take, "partition size histogram")?;
        let partition_cells = decode_histogram(take, "cell count histogram")?;
        let commit_log_upper = CommitLogPosition::decode(take)?;
        let min_timestamp_us = take.i64().named("min timestamp")?;
        let max_timestamp_us = take.i64().named("max timestamp")?;
        let local_time = |take: &mut Take<'_>, what| match version.has_uint_deletion_time() {
            true => take.u32().named(what).map(local_time_of_u32),
            false => take.i32().named(what),
        };
        let min_local_deletion_time_s = local_time(take, "min local deletion time")?;
        let max_local_deletion_time_s = local_time(take, "max local deletion time")?;
        let min_ttl_s = take.i32().named("min ttl")?;
        let max_ttl_s = take.i32().named("max ttl")?;
        let compression_ratio = take.f64().named("compression ratio")?;
        let tombstone_drop_times = TombstoneHistogram::decode(take, version)?;
        let sstable_level = take.u32().named("sstable level")?;
        let repaired_at_ms = take.i64().named("repaired at")?;
        let slice = if version.has_improved_min_max() { Some(Slice::decode(take)?) } else { None };
        let (min_clustering, max_clustering) = match &slice {
            Some(slice) => (slice.start.1.clone(), slice.end.1.clone()),
            None => (decode_clustering(take, "min clustering")?, decode_clustering(take, "max clustering")?),
        };
        let has_legacy_counter_shards = decode_bool(take, "legacy counter shards")?;
        let total_columns_set = take.u64().named("total columns set")?;
        let total_rows = take.u64().named("total rows")?;
        let commit_log_lower = CommitLogPosition::decode(take)?;
        let at = take.offset();
        let what = "commit log intervals";
        let count = u64::from(take.u32().named(what)?);
        let count = check_count(what, at, count, 2 * CommitLogPosition::SIZE_BYTES, take.remaining())?;
        let mut commit_log_intervals = Vec::with_capacity(count);
        for _ in 0..count {
            let start = CommitLogPosition::decode(take)?;
            commit_log_intervals.push((start, CommitLogPosition::decode(take)?));
        }
        let (mut pending_repair, mut is_transient, mut originating_host_id) = (None, false, None);
        if version.has_pending_repair() {
            pending_repair = decode_uuid(take, "pending repair")?;
            is_transient = decode_bool(take, "transient flag")?;
        }
        if version.has_originating_host_id() {
            originating_host_id = decode_uuid(take, "originating host id")?;
        }
        let coverage = match slice {
            Some(slice) => Some(Coverage {
                clustering_types: slice.types,
                start_kind: slice.start.0,
                end_kind: slice.end.0,
                has_partition_deletions: decode_bool(take, "partition deletions")?,
                first_key: take.vint_bytes().named("first key")?.to_vec(),
                last_key: take.vint_bytes().named("last key")?.to_vec(),
                token_space: take.f64().named("token space coverage")?,
            }),
            None => None,
        };
        Ok(Self {
            partition_bytes,
            partition_cells,
            commit_log_upper,
            min_timestamp_us,
            max_timestamp_us,
            min_local_deletion_time_s,
            max_local_deletion_time_s,
            min_ttl_s,
            max_ttl_s,
            compression_ratio,
            tombstone_drop_times,
            sstable_level,
            repaired_at_ms,
            min_clustering,
            max_clustering,
            has_legacy_counter_shards,
            total_columns_set,
            total_rows,
            commit_log_lower,
            commit_log_intervals,
            pending_repair,
            is_transient,
            originating_host_id,
            coverage,
        })
    }
}

/// The covered clusterings in the form of version oa.
struct Slice {
    types: Vec<String>,
    start: (PrefixKind, Vec<Vec<u8>>),
    end: (PrefixKind, Vec<Vec<u8>>),
}

impl Slice {
    fn decode(take: &mut Take<'_>) -> Result<Self, FormatError> {
        let what = "clustering types";
        let at = take.offset();
        let count = take.vint().named(what)?;
        let count = check_count(what, at, count, 1, take.remaining())?;
        let (mut types, mut fixed) = (vec![], vec![]);
        for _ in 0..count {
            let at = take.offset();
            let name = text(take.vint_bytes().named(what)?, what, at)?;
            let parsed = CqlType::from_java_name(&name);
            let parsed = parsed.map_err(|error| FormatError::new(what, at, "a type", error.to_string()))?;
            fixed.push(parsed.sstable_fixed_len());
            types.push(name);
        }
        let bound = |take: &mut Take<'_>| {
            let prefix = RawPrefix::decode(take, &fixed)?;
            let values = prefix.values(&fixed).map(|value| Ok(value?.unwrap_or_default().to_vec()));
            Ok((prefix.kind, values.collect::<Result<_, _>>().named("covered clusterings")?))
        };
        Ok(Self { start: bound(take)?, end: bound(take)?, types })
    }
}

/// Each count is stored with the offset of the bucket before it; the first offset is stored twice.
fn encode_histogram(histogram: &EstimatedHistogram, out: &mut Vec<u8>) {
    let offsets = histogram.offsets();
    out.extend_from_slice(&(histogram.counts().len() as u32).to_be_bytes());
    for (bucket, count) in histogram.counts().iter().enumerate() {
        out.extend_from_slice(&offsets[bucket.saturating_sub(1)].to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
    }
}

fn decode_histogram(take: &mut Take<'_>, what: &'static str) -> Result<EstimatedHistogram, FormatError> {
    let at = take.offset();
    let buckets = u64::from(take.u32().named(what)?);
    let buckets = check_count(what, at, buckets, 16, take.remaining())?;
    let mut offsets = Vec::with_capacity(buckets.saturating_sub(1));
    let mut counts = Vec::with_capacity(buckets);
    for bucket in 0..buckets {
        let offset = take.u64().named(what)?;
        if bucket > 0 {
            offsets.push(offset);
        }
        counts.push(take.u64().named(what)?);
    }
    EstimatedHistogram::from_parts(offsets, counts).map_err(|_| {
        FormatError::new(
            what,
            at,
            "two or more buckets with rising offsets",
            format!("{buckets} buckets with other offsets"),
        )
    })
}

fn decode_clustering(take: &mut Take<'_>, what: &'static str) -> Result<Vec<Vec<u8>>, FormatError> {
    let at = take.offset();
    let count = u64::from(take.u32().named(what)?);
    let count = check_count(what, at, count, 2, take.remaining())?;
    let mut values = vec![];
    for _ in 0..count {
        values.push(take.u16_bytes().named(what)?.to_vec());
    }
    Ok(values)
}

fn encode_uuid(uuid: Option<[u8; 16]>, out: &mut Vec<u8>) {
    out.push(u8::from(uuid.is_some()));
    out.extend(uuid.into_iter().flatten());
}

fn decode_uuid(take: &mut Take<'_>, what: &'static str) -> Result<Option<[u8; 16]>, FormatError> {
    if decode_bool(take, what)? { take.array().named(what).map(Some) } else { Ok(None) }
}

/// Any byte but 0 is true, as in Java.
fn decode_bool(take: &mut Take<'_>, what: &'static str) -> Result<bool, FormatError> {
    take.u8().named(what).map(|byte| byte != 0)
}
