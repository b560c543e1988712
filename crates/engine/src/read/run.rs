//! Drives readers until a page is full.
//!
//! A read whose last page ended inside a partition first finishes that partition, with the rows behind the last
//! one, and then goes on with the partitions behind it.

use model::{
    ClusteringRange, ClusteringRow, PartitionKey, PartitionRange, Purge, RingPosition, Row, TableSchema,
};
use reader::{CompactReader, FilterReader, Fragment, Keep, ReadSpec, Reader, Step};
use runtime::{IoClass, Shard};
use std::rc::Rc;
use std::sync::Arc;

use crate::error::EngineError;
use crate::table::Table;
use reader::{Charge, Page, PartitionPage, Permit};
use reader::{PagingState, ReadCommand};

/// Fragments between two looks at whether the turn is over; the first is one of them, so that a task which does
/// many short reads gives way too.
const FRAGMENTS_A_CHECK: u64 = 16;

/// A page is charged in steps of so many bytes.
const CHARGE_STEP_BYTES: u64 = 16 * 1024;

/// The next page of `command` out of what this shard has of `table`.
///
/// Readers and the page are charged to `permit`.
pub async fn read_page(
    shard: &Shard,
    table: &Table,
    command: &ReadCommand,
    permit: &Rc<Permit>,
) -> Result<Page, EngineError> {
    table.check_readable()?;
    let io_class = shard.current_group().io_class();
    let sources = TableSources { table, bypass_cache: command.bypass_cache, io_class };
    read_page_of(shard, &sources, command, Some(permit)).await
}

/// What is read, wherever it lies.
pub trait PageSources {
    fn schema(&self) -> Arc<TableSchema>;

    /// A reader over each source that may have something of what is wanted; at least one.
    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>>;

    /// Partitions that are somebody else's are not read.
    fn owns(&self, token: i64) -> bool;
}

struct TableSources<'a> {
    table: &'a Table,
    bypass_cache: bool,
    /// That of the group in whose name is read.
    io_class: IoClass,
}

impl PageSources for TableSources<'_> {
    fn schema(&self) -> Arc<TableSchema> {
        self.table.schema()
    }

    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>> {
        self.table.readers(spec, self.bypass_cache, self.io_class)
    }

    #[inline]
    fn owns(&self, token: i64) -> bool {
        self.table.owns(token)
    }
}

/// The next page of `command` out of what `sources` have. Without a permit nothing is charged.
pub async fn read_page_of(
    shard: &Shard,
    sources: &impl PageSources,
    command: &ReadCommand,
    permit: Option<&Rc<Permit>>,
) -> Result<Page, EngineError> {
    let now_s = command.now_s.unwrap_or_else(|| now_s(shard));
    let mut page = PageBuilder::new(command, permit);
    let schema = sources.schema();
    let Some(mut partitions) = command.remaining_partitions() else { return Ok(page.finish(None)) };
    if let Some(PagingState { key, row: Some(row), partition_rows, .. }) = &command.paging {
        let ranges: Vec<ClusteringRange> = command.ranges_behind(&schema, row);
        if !ranges.is_empty() && *partition_rows < command.partition_limit_rows {
            let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
            let spec = spec.ranges(ranges).reversed(command.reversed).permit(permit.cloned());
            page.resume(*partition_rows);
            page.fill(shard, sources, &spec, now_s).await?;
            // The partition may be another shard's, and then nothing of it was met here.
            page.resume(0);
        }
        match partitions {
            PartitionRange::Key(_) => return Ok(page.finish_partition()),
            PartitionRange::Between { end, .. } => {
                partitions = PartitionRange::Between { start: RingPosition::AfterKey(key.clone()), end };
            }
        }
    }
    if !page.is_full() {
        let spec =
            ReadSpec::new(schema, partitions).ranges(command.ranges.clone()).reversed(command.reversed);
        let spec = spec.permit(permit.cloned());
        page.fill(shard, sources, &spec, now_s).await?;
    }
    Ok(page.finish_partition())
}

/// The shard's wall clock in whole seconds.
pub fn now_s(shard: &Shard) -> u32 {
    u32::try_from(shard.wall_us() / 1_000_000).unwrap_or(0)
}

struct PageBuilder {
    page: Page,
    rows: u64,
    bytes: u64,
    page_rows_max: u64,
    page_bytes_max: u64,
    remaining_rows: u64,
    partition_limit_rows: u64,
    /// Rows of the current partition on earlier pages.
    resumed_rows: u64,
    /// The page ended: here the next one begins.
    next: Option<PagingState>,
    permit: Option<Rc<Permit>>,
    /// For the rows of the page.
    charge: Charge,
}

impl PageBuilder {
    fn new(command: &ReadCommand, permit: Option<&Rc<Permit>>) -> Self {
        let remaining_rows =
            command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
        Self {
            page: Page::default(),
            rows: 0,
            bytes: 0,
            page_rows_max: command.page_rows.max(1).min(remaining_rows),
            page_bytes_max: command.page_bytes,
            remaining_rows,
            partition_limit_rows: command.partition_limit_rows,
            resumed_rows: 0,
            next: None,
            permit: permit.cloned(),
            charge: Charge::new(permit.cloned()),
        }
    }

    fn resume(&mut self, partition_rows: u64) {
        self.resumed_rows = partition_rows;
    }

    fn set_awaiting(&self, is_awaiting: bool) {
        if let Some(permit) = &self.permit {
            permit.set_awaiting(is_awaiting);
        }
    }

    fn is_full(&self) -> bool {
        self.rows >= self.page_rows_max || self.bytes >= self.page_bytes_max
    }

    async fn fill(
        &mut self,
        shard: &Shard,
        sources: &impl PageSources,
        spec: &ReadSpec,
        now_s: u32,
    ) -> Result<(), EngineError> {
        if self.remaining_rows == 0 {
            return Ok(());
        }
        let inner = reader::MergeReader::of(spec, sources.readers(spec));
        let owned = FilterReader::new(inner, |key: &PartitionKey| sources.owns(key.token()));
        let mut reader = CompactReader::new(owned, Purge::nothing(now_s), Keep::Live);
        let mut open: Option<PartitionPage> = None;
        let mut fragments = 0u64;
        // Less than a step is in what every read is charged.
        let mut charged_bytes = self.bytes;
        while !self.is_full() {
            let fragment = match reader.next()? {
                Step::Ready(fragment) => fragment,
                Step::End => break,
                Step::Load => {
                    self.set_awaiting(true);
                    let loaded = reader.load().await;
                    self.set_awaiting(false);
                    loaded?;
                    continue;
                }
            };
            match fragment {
                Fragment::PartitionStart { key, .. } => {
                    open = Some(PartitionPage { key, static_row: Row::new(), rows: vec![] });
                }
                Fragment::Static(row) => {
                    let open = open.as_mut().expect("a partition is open");
                    open.static_row = Rc::unwrap_or_clone(row);
                }
                Fragment::Row(fragment) => {
                    let row = ClusteringRow { key: fragment.key, row: Rc::unwrap_or_clone(fragment.row) };
                    let partition = open.as_mut().expect("a partition is open");
                    self.rows += 1;
                    self.bytes += row_bytes(&row);
                    if partition.rows.capacity() == 0 {
                        // Of many partitions one row is all that is wanted.
                        partition.rows.reserve_exact(1);
                    }
                    partition.rows.push(row);
                    if partition.rows.len() as u64 + self.resumed_rows >= self.partition_limit_rows {
                        reader.skip_partition();
                        self.close(open.take().expect("a partition is open"));
                    } else if self.is_full() {
                        let partition = open.take().expect("a partition is open");
                        self.stop_inside(partition);
                    }
                }
                Fragment::PartitionEnd => {
                    if let Some(partition) = open.take() {
                        // A partition that was begun on an earlier page has had its static row there.
                        if !partition.rows.is_empty() || self.resumed_rows == 0 {
                            self.rows += u64::from(partition.rows.is_empty());
                            self.close(partition);
                        }
                    }
                    self.resumed_rows = 0;
                }
                Fragment::Change(_) => unreachable!("a compacted read has no deletions"),
            }
            if self.bytes >= charged_bytes + CHARGE_STEP_BYTES {
                charged_bytes = self.bytes;
                self.charge.grow_to(charged_bytes).await?;
            }
            // Asking for the time costs as much as a fragment does.
            if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
                shard.yield_now().await;
            }
            fragments += 1;
        }
        self.page.tombstones += reader.tombstones_seen();
        Ok(())
    }

    /// The partition is complete, as far as it is wanted.
    fn close(&mut self, partition: PartitionPage) {
        self.bytes += partition.key.bytes().len() as u64 + partition.static_row.heap_bytes() as u64;
        if self.is_full() {
            self.next = Some(self.state(&partition.key, None, 0));
        }
        self.resumed_rows = 0;
        self.push(partition);
    }

    fn push(&mut self, partition: PartitionPage) {
        if self.page.partitions.capacity() == 0 {
            // A point read has one.
            self.page.partitions.reserve_exact(1);
        }
        self.page.partitions.push(partition);
    }

    fn stop_inside(&mut self, partition: PartitionPage) {
        let row = partition.rows.last().map(|row| row.key.clone());
        let partition_rows = self.resumed_rows + partition.rows.len() as u64;
        self.next = Some(self.state(&partition.key, row, partition_rows));
        self.push(partition);
    }

    fn state(
        &self,
        key: &PartitionKey,
        row: Option<model::ClusteringKey>,
        partition_rows: u64,
    ) -> PagingState {
        let remaining_rows = self.remaining_rows.saturating_sub(self.rows);
        PagingState { key: key.clone(), row, partition_rows, remaining_rows }
    }

    fn finish_partition(mut self) -> Page {
        let next = self.next.take();
        self.finish(next)
    }

    fn finish(self, next: Option<PagingState>) -> Page {
        let next = next.filter(|next| next.remaining_rows > 0);
        Page { next, ..self.page }
    }
}

/// About how many bytes a row takes on its way to a client.
fn row_bytes(row: &ClusteringRow) -> u64 {
    (row.key.as_bytes().len() + row.heap_bytes() + size_of::<ClusteringRow>()) as u64
}
