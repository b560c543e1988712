//! Parsing that is common to all readers of Data.db: decodes the row or marker at a position, adds the
//! position to errors, and tracks the range deletion in force.

use std::cmp::Ordering;
use std::rc::Rc;

use model::clustering::PrefixBuilder;
use model::{ClusteringKey, PartitionKey, Position, RangeTombstoneChange, Row, TableSchema, Tombstone};
use reader::{Fragment, LocalFuture, ReadError, Reader, RowFragment, Step};

use super::columns::ColumnMap;
use super::row::RowDecoder;
use super::unfiltered::{Head, Kind, PartitionHeader, Stop, parse_head, tombstone_of};
use crate::component::FormatError;
use crate::component::clustering::PrefixKind;
use crate::read::data::window::Window;
use crate::read::sstable::SSTable;

/// A parsed value, or the number of bytes that the window must contain from the start of the row or marker.
pub(in crate::read) enum Parsed<T> {
    Done(T),
    Need(u64),
}

/// See the head of this file.
pub(in crate::read) struct Parser {
    pub(in crate::read) sstable: Rc<SSTable>,
    map: Rc<ColumnMap>,
    decoder: RowDecoder,
    builder: PrefixBuilder,
}

impl Parser {
    pub(in crate::read) fn new(sstable: &Rc<SSTable>, map: Rc<ColumnMap>) -> Self {
        let (decoder, builder) = (RowDecoder::default(), PrefixBuilder::default());
        Self { sstable: Rc::clone(sstable), map, decoder, builder }
    }

    #[cold]
    pub(in crate::read) fn corrupt(&self, piece_at: u64, error: FormatError) -> ReadError {
        let error = error.shifted(piece_at);
        let FormatError { what, offset_bytes, expected, found } = error;
        self.sstable.data.corrupt(offset_bytes, &format!("{what}: expected {expected}, found {found}"))
    }

    fn stopped<T>(&self, piece_at: u64, stop: Stop) -> Result<Parsed<T>, ReadError> {
        match stop {
            Stop::Bad(error) => Err(self.corrupt(piece_at, error)),
            Stop::Short(need) if piece_at.saturating_add(need) <= self.sstable.data.data_bytes() => {
                Ok(Parsed::Need(need))
            }
            Stop::Short(_) => {
                Err(self.sstable.data.corrupt(piece_at, "the data end inside the item that starts here"))
            }
        }
    }

    /// The header of the partition that starts at `at`: its key, its deletion, and the length of both in
    /// bytes.
    pub(in crate::read) fn header(
        &self,
        window: &Window,
        at: u64,
    ) -> Result<Parsed<(PartitionKey, Tombstone, u64)>, ReadError> {
        match PartitionHeader::parse(window.rest(at), self.sstable.name.version) {
            Ok(header) => {
                let key = PartitionKey::new(header.key);
                Ok(Parsed::Done((key, tombstone_of(header.deletion), header.bytes as u64)))
            }
            Err(stop) => self.stopped(at, stop),
        }
    }

    /// The head of the row or marker at `at`. With `whole`, the window must contain the body too.
    #[inline]
    pub(in crate::read) fn head<'w>(
        &self,
        window: &'w Window,
        at: u64,
        whole: bool,
    ) -> Result<Parsed<Head<'w>>, ReadError> {
        let bytes = window.rest(at);
        let left_bytes = self.sstable.data.data_bytes().saturating_sub(at);
        match parse_head(bytes, &self.sstable.columns.clustering_lengths, left_bytes) {
            Ok(head) if !whole || head.bytes <= bytes.len() as u64 => Ok(Parsed::Done(head)),
            Ok(head) => Ok(Parsed::Need(head.bytes)),
            Err(stop) => self.stopped(at, stop),
        }
    }

    #[inline]
    pub(in crate::read) fn key(&mut self, head: &Head<'_>, at: u64) -> Result<ClusteringKey, ReadError> {
        let key = head.prefix(&self.sstable.columns.clustering_lengths, &mut self.builder);
        key.map_err(|error| self.corrupt(at, error))
    }

    /// The order of the row or marker at `at` relative to `target`.
    #[inline]
    pub(in crate::read) fn compare(
        &self,
        head: &Head<'_>,
        at: u64,
        schema: &TableSchema,
        target: &Position,
    ) -> Result<Ordering, ReadError> {
        let order = head.compare(&self.sstable.columns.clustering_lengths, schema, target);
        order.map_err(|error| self.corrupt(at, error))
    }

    /// The content of a row whose head is at `at`. The window must contain the body.
    #[inline]
    pub(in crate::read) fn row(
        &mut self,
        window: &Window,
        head: &Head<'_>,
        at: u64,
    ) -> Result<Row, ReadError> {
        let body = &window.rest(at)[head.body_at..head.bytes as usize];
        let columns = if head.kind == Kind::StaticRow { &self.map.statics } else { &self.map.regulars };
        let row = self.decoder.decode(head.flags, body, columns, &self.sstable.bases);
        row.map_err(|error| self.corrupt(at + head.body_at as u64, error))
    }

    /// The range deletions in force before and after a marker.
    pub(in crate::read) fn marker(
        &self,
        window: &Window,
        head: &Head<'_>,
        kind: PrefixKind,
        at: u64,
    ) -> Result<(Tombstone, Tombstone), ReadError> {
        let body = &window.rest(at)[head.body_at..head.bytes as usize];
        let both = self.sstable.bases.marker(kind, body);
        both.map_err(|error| self.corrupt(at + head.body_at as u64, error))
    }

    /// An error: the marker at `at` does not continue the range deletion in force.
    #[cold]
    pub(in crate::read) fn unbalanced(&self, at: u64, expected: Tombstone, found: Tombstone) -> ReadError {
        let text = |tombstone: Tombstone| match tombstone.is_live() {
            true => "none".to_owned(),
            false => format!("{} us, {} s", tombstone.timestamp_us, tombstone.deletion_time_s),
        };
        let detail = format!(
            "marker of a range tombstone: expected one that continues the deletion in force ({}), found {}",
            text(expected),
            text(found)
        );
        self.sstable.data.corrupt(at, &detail)
    }
}

/// A row as a fragment; `None` if the row had nothing but dropped columns.
#[inline]
pub(in crate::read) fn row_fragment(key: ClusteringKey, row: Row) -> Option<Fragment> {
    (!row.is_empty()).then(|| Fragment::Row(RowFragment { key, row: Rc::new(row) }))
}

pub(in crate::read) fn change_fragment(position: Position, tombstone: Tombstone) -> Fragment {
    Fragment::Change(RangeTombstoneChange { position, tombstone })
}

/// A reader that only returns the reason why it cannot read.
pub(in crate::read) struct FailedReader {
    pub(in crate::read) sstable: Rc<SSTable>,
    pub(in crate::read) detail: String,
}

impl Reader for FailedReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        Err(self.sstable.data.corrupt(0, &self.detail))
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Ok(()) })
    }

    fn skip_partition(&mut self) {}
}
