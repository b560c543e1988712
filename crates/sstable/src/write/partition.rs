//! Encodes partitions into Data.db: header, static row, rows, range tombstone markers, end byte, and the
//! partition's promoted index.
//!
//! A partition begins in the file with its first known content: a deletion, a row or a marker. A partition
//! without content (all its cells were of dropped columns) leaves nothing in the file.
//!
//! The stream of fragments contains the positions at which the range deletion in force changes; the file
//! contains markers of several kinds. A change at `Before` a prefix lies before the rows with this prefix, a
//! change at `After` lies after them. So the kinds are:
//!
//! | change     | `Before`               | `After`                |
//! |------------|------------------------|------------------------|
//! | none to t  | inclusive start        | exclusive start        |
//! | t to none  | exclusive end          | inclusive end          |
//! | t to u     | excl. end, incl. start | incl. end, excl. start |

use std::cmp::Ordering;
use std::sync::Arc;

use base::bytes::put_u16_bytes;
use base::vint;
use model::{
    ClusteringPrefix, ColumnKind, PartitionKey, Position, RangeTombstoneChange, Row, Side, TableSchema,
    Tombstone,
};

use super::columns::DiskColumns;
use super::data_file::DataFile;
use super::error::WriteError;
use super::large::{LargeDataFinder, LargeDataLimits, RowSeen};
use super::row::{
    END_OF_PARTITION, EXTENDED_IS_STATIC, IS_MARKER, RowEncoder, deletion_time, report_deletion,
};
use crate::component::clustering::{PrefixKind, encode_prefix};
use crate::component::index::PromotedIndexBuilder;
use crate::component::large_data::{LargeData, LargePartition};
use crate::component::statistics::{DeltaBases, KeptPrefix, StatsCollector};

/// Number of clustering columns up to which encoding a row needs no allocation.
const VALUES_ON_STACK: usize = 8;

/// A partition that has been written to Data.db completely.
pub(super) struct EndedPartition<'a> {
    pub(super) key: PartitionKey,
    /// Start of the partition in the uncompressed data.
    pub(super) data_position: u64,
    pub(super) promoted: &'a [u8],
}

/// The partition being written.
struct Current {
    key: PartitionKey,
    tombstone: Tombstone,
    /// Start of the partition in the uncompressed data; `None` until a part of it is written.
    start: Option<u64>,
    /// Length in bytes of its key, deletion and static row.
    header_bytes: u64,
    cells: u64,
    rows: u64,
    dead_rows: u64,
    /// Number of changes of the range deletion in force.
    changes: u64,
    /// Distance in bytes from the partition's start to the last row or marker; 0 before the first one.
    previous_at: u64,
    /// Distance in bytes from the partition's start to the current block; `None` if the block is empty.
    block_at: Option<u64>,
    /// The range deletion in force.
    open: Tombstone,
    /// Position and kind of the last row or marker.
    last: Option<(Position, PrefixKind)>,
    /// Whether the partition has more than one row or marker.
    is_several: bool,
}

pub(super) struct PartitionEncoder {
    schema: Arc<TableSchema>,
    statics: DiskColumns,
    regulars: DiskColumns,
    fixed: Vec<Option<usize>>,
    rows: RowEncoder,
    block_bytes: u64,
    current: Option<Current>,
    promoted: PromotedIndexBuilder,
    /// The encoded prefix of the current block's first row or marker; `last_prefix` is the last one's.
    block_first: Vec<u8>,
    last_prefix: Vec<u8>,
    promoted_bytes: Vec<u8>,
    last_key: Option<PartitionKey>,
    large: LargeDataFinder,
}

impl PartitionEncoder {
    pub(super) fn new(
        schema: Arc<TableSchema>,
        bases: DeltaBases,
        block_bytes: u32,
        large: LargeDataLimits,
    ) -> Self {
        Self {
            statics: DiskColumns::new(&schema, ColumnKind::Static),
            regulars: DiskColumns::new(&schema, ColumnKind::Regular),
            fixed: schema.clustering.iter().map(|column| column.ty.sstable_fixed_len()).collect(),
            rows: RowEncoder::new(bases, schema.full_name()),
            schema,
            block_bytes: u64::from(block_bytes),
            current: None,
            promoted: PromotedIndexBuilder::new(),
            block_first: vec![],
            last_prefix: vec![],
            promoted_bytes: vec![],
            last_key: None,
            large: LargeDataFinder::new(large),
        }
    }

    /// The large data found in the finished SSTable.
    pub(super) fn finish(self, now_ms: i64) -> Option<LargeData> {
        self.large.finish(now_ms)
    }

    /// Whether a partition has started and not ended.
    pub(super) fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn start(&mut self, key: PartitionKey, tombstone: Tombstone, stats: &mut StatsCollector) {
        assert!(self.current.is_none(), "a partition ends before the next starts");
        if let Some(last) = &self.last_key {
            assert!(*last < key, "partitions rise by token and key: {last:?}, then {key:?}");
        }
        self.current = Some(Current {
            key,
            tombstone,
            start: None,
            header_bytes: 0,
            cells: 0,
            rows: 0,
            dead_rows: 0,
            changes: 0,
            previous_at: 0,
            block_at: None,
            open: Tombstone::LIVE,
            last: None,
            is_several: false,
        });
        if !tombstone.is_live() {
            stats.see_partition_deletion();
        }
        report_deletion(stats, tombstone);
    }

    /// Writes the start of the partition, unless it was written before: key, deletion, and an empty static
    /// row if the table has static columns.
    fn ensure_begun(&mut self, data: &mut DataFile) {
        if current(&mut self.current).start.is_some() {
            return;
        }
        if self.statics.len() > 0 {
            self.rows.encode_nothing(&self.statics);
        }
        self.begin(data);
    }

    /// Writes key, deletion and, if the table has static columns, the last encoded static row.
    fn begin(&mut self, data: &mut DataFile) {
        let current = current(&mut self.current);
        assert!(current.start.is_none(), "a partition has one static row, in front of its rows");
        let start = data.position();
        let out = data.buffer();
        put_u16_bytes(out, current.key.bytes());
        deletion_time(current.tombstone).encode(out);
        if self.statics.len() > 0 {
            out.extend_from_slice(&[self.rows.static_flags(), EXTENDED_IS_STATIC]);
            put_sized(out, 0, self.rows.body());
        }
        current.start = Some(start);
        current.header_bytes = data.position() - start;
    }

    pub(super) fn push_static(
        &mut self,
        row: &Row,
        data: &mut DataFile,
        stats: &mut StatsCollector,
    ) -> Result<(), WriteError> {
        if let Some(cells) = self.rows.encode(&self.statics, row, stats)? {
            self.begin(data);
            let Self { schema, large, rows, current: started, .. } = self;
            let current = current(started);
            current.cells += cells;
            let bytes = rows.body().len() as u64;
            if large.is_suspicious(bytes) {
                large.row(&RowSeen { schema, key: &current.key, position: None, row, bytes });
            }
            stats.see_static_row();
        }
        Ok(())
    }

    pub(super) fn push_row(
        &mut self,
        key: ClusteringPrefix,
        row: &Row,
        data: &mut DataFile,
        stats: &mut StatsCollector,
    ) -> Result<(), WriteError> {
        // The static row is encoded into the same buffers as the row, so it has to be written before the row
        // is encoded.
        if self.statics.len() > 0
            && current(&mut self.current).start.is_none()
            && self.rows.has_content(&self.regulars, row)
        {
            self.ensure_begun(data);
        }
        let Some(cells) = self.rows.encode(&self.regulars, row, stats)? else { return Ok(()) };
        if self.statics.len() == 0 {
            self.ensure_begun(data);
        }
        let current = current(&mut self.current);
        current.cells += cells;
        current.rows += 1;
        current.dead_rows += u64::from(self.rows.is_dead());
        assert_eq!(key.len(), self.fixed.len(), "a row's key has every clustering column");
        let at = self.place(Position::at(key), PrefixKind::Row, data, stats);
        let out = data.buffer();
        out.push(self.rows.flags());
        // The prefix is the kind followed by the values. A row stores only the values.
        out.extend_from_slice(&self.last_prefix[1..]);
        put_sized(out, at.distance, self.rows.body());
        let bytes = self.placed(at.from_start, data);
        if self.large.is_suspicious(bytes) {
            let Self { schema, large, .. } = self;
            let current = self.current.as_ref().expect("the row is of a partition");
            let position = current.last.as_ref().map(|(position, _)| position);
            large.row(&RowSeen { schema, key: &current.key, position, row, bytes });
        }
        Ok(())
    }

    pub(super) fn push_change(
        &mut self,
        change: RangeTombstoneChange,
        data: &mut DataFile,
        stats: &mut StatsCollector,
    ) {
        let RangeTombstoneChange { position, tombstone: to } = change;
        let from = current(&mut self.current).open;
        if from == to {
            return;
        }
        self.ensure_begun(data);
        let before = match position.side {
            Side::Before => true,
            Side::After => false,
            Side::At => panic!("a range deletion changes between rows, not at {position:?}"),
        };
        let kind = match (from.is_live(), to.is_live(), before) {
            (true, _, true) => PrefixKind::InclStart,
            (true, _, false) => PrefixKind::ExclStart,
            (_, true, true) => PrefixKind::ExclEnd,
            (_, true, false) => PrefixKind::InclEnd,
            (_, _, true) => PrefixKind::ExclEndInclStart,
            (_, _, false) => PrefixKind::InclEndExclStart,
        };
        let at = self.place(position, kind, data, stats);
        let deltas = self.rows.deltas();
        let body = self.rows.body_mut();
        for tombstone in [from, to] {
            if !tombstone.is_live() {
                deltas.deletion(body, tombstone);
                report_deletion(stats, tombstone);
            }
        }
        let out = data.buffer();
        out.push(IS_MARKER);
        out.extend_from_slice(&self.last_prefix);
        put_sized(out, at.distance, self.rows.body());
        let current = current(&mut self.current);
        current.open = to;
        current.changes += 1;
        self.placed(at.from_start, data);
    }

    /// The place of the next row or marker. Encodes its prefix into `last_prefix`.
    fn place(
        &mut self,
        position: Position,
        kind: PrefixKind,
        data: &DataFile,
        stats: &mut StatsCollector,
    ) -> UnfilteredPosition {
        let current = current(&mut self.current);
        let is_first = current.last.is_none();
        if let Some((last, _)) = &current.last {
            let order = self.schema.compare_positions(last, &position);
            assert!(order == Ordering::Less, "positions rise: {last:?}, then {position:?}");
            current.is_several = true;
        }
        self.last_prefix.clear();
        with_values(&position.prefix, |values| {
            encode_prefix(&mut self.last_prefix, kind, values, &self.fixed);
        });
        if is_first {
            report_clustering(&self.schema, stats, kind, &position.prefix);
        }
        current.last = Some((position, kind));
        let start = current.start.expect("the partition has begun");
        let from_start = data.position() - start;
        if current.block_at.is_none() {
            current.block_at = Some(from_start);
            self.block_first.clear();
            self.block_first.extend_from_slice(&self.last_prefix);
        }
        UnfilteredPosition { from_start, distance: from_start - current.previous_at }
    }

    /// Records that a row or marker was written; ends the block if it is long enough. Returns the length of
    /// the row or marker in bytes.
    fn placed(&mut self, from_start: u64, data: &DataFile) -> u64 {
        let current = current(&mut self.current);
        current.previous_at = from_start;
        let end = data.position() - current.start.expect("the partition has begun");
        let block_at = current.block_at.expect("a row is in a block");
        if end - block_at >= self.block_bytes {
            let open = (!current.open.is_live()).then(|| deletion_time(current.open));
            self.promoted.add_block(&self.block_first, &self.last_prefix, block_at, end - block_at, open);
            current.block_at = None;
        }
        end - from_start
    }

    /// Ends the partition. `None` if no part of it was written.
    pub(super) fn end(
        &mut self,
        data: &mut DataFile,
        stats: &mut StatsCollector,
    ) -> Option<EndedPartition<'_>> {
        let is_deleted = !current(&mut self.current).tombstone.is_live();
        if is_deleted {
            self.ensure_begun(data);
        }
        let ended = self.current.take().expect("a partition started");
        let Current { rows, dead_rows, changes, .. } = ended;
        let Current { key, tombstone, start, header_bytes, cells, block_at, open, last, is_several, .. } =
            ended;
        assert!(open.is_live(), "a range deletion is ended before its partition {key:?}");
        let start = start?;
        data.buffer().push(END_OF_PARTITION);
        let partition_bytes = data.position() - start;
        if let Some((position, kind)) = last.filter(|_| is_several) {
            report_clustering(&self.schema, stats, kind, &position.prefix);
        }
        stats.add_partition(key.bytes(), partition_bytes, cells);
        let found = || LargePartition {
            key: key.bytes().to_vec(),
            bytes: partition_bytes,
            rows,
            dead_rows,
            range_tombstones: changes,
        };
        self.large.partition(found, partition_bytes, rows);
        // A partition of one block has no promoted index, so its block is not recorded.
        if let Some(block_at) = block_at.filter(|_| self.promoted.block_count() > 0) {
            // As in Cassandra, the width of the last block includes the end byte.
            let width = partition_bytes - block_at;
            self.promoted.add_block(&self.block_first, &self.last_prefix, block_at, width, None);
        }
        self.promoted_bytes.clear();
        self.promoted.finish(header_bytes, deletion_time(tombstone), &mut self.promoted_bytes);
        match &mut self.last_key {
            Some(last) => last.clone_from(&key),
            None => self.last_key = Some(key.clone()),
        }
        Some(EndedPartition { key, data_position: start, promoted: &self.promoted_bytes })
    }
}

#[derive(Clone, Copy)]
struct UnfilteredPosition {
    from_start: u64,
    /// Distance to the row or marker before, or to the partition's start.
    distance: u64,
}

fn current(current: &mut Option<Current>) -> &mut Current {
    current.as_mut().expect("a partition starts before anything in it")
}

/// Writes the size of distance and body, the distance to the row or marker before, and the body.
#[inline]
fn put_sized(out: &mut Vec<u8>, distance: u64, body: &[u8]) {
    let size = vint::unsigned_len(distance) + body.len();
    vint::write_unsigned(out, size as u64);
    vint::write_unsigned(out, distance);
    out.extend_from_slice(body);
}

/// Calls `f` with the values of `prefix` as a slice.
#[inline]
fn with_values<R>(prefix: &ClusteringPrefix, f: impl FnOnce(&[Option<&[u8]>]) -> R) -> R {
    if prefix.len() <= VALUES_ON_STACK {
        let mut values = [None; VALUES_ON_STACK];
        for (slot, value) in values.iter_mut().zip(prefix.values()) {
            *slot = Some(value);
        }
        return f(&values[..prefix.len()]);
    }
    let mut values: Vec<Option<&[u8]>> = prefix.values().map(Some).collect();
    values.resize(prefix.len(), None);
    f(&values)
}

/// Reports the first or last clustering of a partition as a candidate for the SSTable's smallest or largest
/// one.
fn report_clustering(
    schema: &TableSchema,
    stats: &mut StatsCollector,
    kind: PrefixKind,
    prefix: &ClusteringPrefix,
) {
    with_values(prefix, |values| {
        stats.update_clustering(kind, values, |kept| compare_prefixes(schema, kind, prefix, kept));
    });
}

fn compare_prefixes(
    schema: &TableSchema,
    kind: PrefixKind,
    prefix: &ClusteringPrefix,
    kept: &KeptPrefix,
) -> Ordering {
    let types = schema.clustering.iter().map(|column| &column.ty);
    for ((ty, value), kept) in types.zip(prefix.values()).zip(&kept.values) {
        let order = ty.compare(value, kept);
        if order.is_ne() {
            return order;
        }
    }
    let values = prefix.values().count();
    if values < prefix.len().min(kept.values.len()) {
        // Null is less than all values. A kept null is an empty value.
        return if kept.values[values].is_empty() { Ordering::Equal } else { Ordering::Less };
    }
    match prefix.len().cmp(&kept.values.len()) {
        Ordering::Equal => kind.weight().cmp(&kept.kind.weight()),
        Ordering::Less => kind.weight().cmp(&0),
        Ordering::Greater => 0.cmp(&kept.kind.weight()),
    }
}
