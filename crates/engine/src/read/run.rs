//! Drives readers until a page is full.
//!
//! A read whose last page ended inside a partition first finishes that partition, with the rows behind the last
//! one, and then goes on with the partitions behind it.

use model::{
    ClusteringRange, ClusteringRow, PartitionKey, PartitionRange, Purge, RingPosition, Row, TableSchema,
};
use reader::{CompactReader, FilterReader, Fragment, Keep, ReadSpec, Reader, Step};
use runtime::Shard;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::EngineError;
use crate::sharder::Share;
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
/// Readers and the page are charged to `permit`. `parked` is the read that the last page left open. Beside the page is
/// what this one leaves open, if there is a next one.
pub async fn read_page(
    shard: &Shard,
    table: &Table,
    command: &ReadCommand,
    permit: &Rc<Permit>,
    parked: Option<OpenRead>,
) -> Result<(Page, Option<OpenRead>), EngineError> {
    table.check_readable()?;
    let sources = TableSources { table, bypass_cache: command.bypass_cache };
    read_page_of(shard, &sources, command, Some(permit), parked).await
}

type OwnedReader = FilterReader<Box<dyn Reader>, Box<dyn FnMut(&PartitionKey) -> bool>>;

/// The readers of a read, and how far they are: what is kept between two pages.
pub struct OpenRead {
    reader: CompactReader<OwnedReader, Purge>,
    /// The partition that the page ended in, without its rows.
    partition: Option<PartitionPage>,
    /// It reads the rest of one partition, and what is wanted behind that is read by others.
    is_rest: bool,
}

impl OpenRead {
    fn open(sources: &impl PageSources, spec: &ReadSpec, now_s: u32, is_rest: bool) -> Self {
        let share = sources.share();
        let wants: Box<dyn FnMut(&PartitionKey) -> bool> = Box::new(move |key| share.has(key.token()));
        let owned = FilterReader::new(reader::MergeReader::of(spec, sources.readers(spec)), wants);
        let reader = CompactReader::new(owned, Purge::nothing(now_s), Keep::Live);
        Self { reader, partition: None, is_rest }
    }
}

/// What is read, wherever it lies.
pub trait PageSources {
    fn schema(&self) -> Arc<TableSchema>;

    /// A reader over each source that may have something of what is wanted; at least one.
    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>>;

    /// The partitions that are read; others are somebody else's.
    fn share(&self) -> Share;
}

struct TableSources<'a> {
    table: &'a Table,
    bypass_cache: bool,
}

impl PageSources for TableSources<'_> {
    fn schema(&self) -> Arc<TableSchema> {
        self.table.schema()
    }

    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>> {
        self.table.readers(spec, self.bypass_cache)
    }

    fn share(&self) -> Share {
        self.table.share()
    }
}

/// The next page of `command` out of what `sources` have. Without a permit nothing is charged.
pub async fn read_page_of(
    shard: &Shard,
    sources: &impl PageSources,
    command: &ReadCommand,
    permit: Option<&Rc<Permit>>,
    parked: Option<OpenRead>,
) -> Result<(Page, Option<OpenRead>), EngineError> {
    let now_s = command.now_s.unwrap_or_else(|| now_s(shard));
    let read_id = match command.paging.as_ref().map_or(command.read_id, |paging| paging.read_id) {
        0 => shard.random_u64(),
        read_id => read_id,
    };
    let mut page = PageBuilder::new(command, permit, read_id);
    let schema = sources.schema();
    let Some(mut partitions) = command.remaining_partitions() else { return Ok((page.finish(None), None)) };
    let mut read = parked;
    if let Some(PagingState { key, row: Some(row), partition_rows, .. }) = &command.paging {
        if *partition_rows < command.partition_limit_rows {
            if read.is_none() {
                let ranges: Vec<ClusteringRange> = command.ranges_behind(&schema, row);
                let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
                let spec = spec.ranges(ranges).reversed(command.reversed).permit(permit.cloned());
                read = (!spec.ranges.is_empty()).then(|| OpenRead::open(sources, &spec, now_s, true));
            }
            if let Some(read) = &mut read {
                page.resume(*partition_rows);
                page.fill(shard, read).await?;
                // The partition may be another shard's, and then nothing of it was met here.
                page.resume(0);
            }
        }
        match partitions {
            PartitionRange::Key(_) => return Ok(page.finish_read(read)),
            PartitionRange::Between { end, .. } => {
                partitions = PartitionRange::Between { start: RingPosition::AfterKey(key.clone()), end };
            }
        }
        if page.is_full() {
            return Ok(page.finish_read(read));
        }
        read = read.filter(|read| !read.is_rest);
    }
    if let Some(read) = &mut read {
        page.fill(shard, read).await?;
    } else {
        let spec =
            ReadSpec::new(schema, partitions).ranges(command.ranges.clone()).reversed(command.reversed);
        let spec = spec.permit(permit.cloned());
        page.fill(shard, read.insert(OpenRead::open(sources, &spec, now_s, false))).await?;
    }
    Ok(page.finish_read(read))
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
    read_id: u64,
    permit: Option<Rc<Permit>>,
    /// For the rows of the page.
    charge: Charge,
}

impl PageBuilder {
    fn new(command: &ReadCommand, permit: Option<&Rc<Permit>>, read_id: u64) -> Self {
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
            read_id,
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

    async fn fill(&mut self, shard: &Shard, read: &mut OpenRead) -> Result<(), EngineError> {
        if self.remaining_rows == 0 {
            return Ok(());
        }
        let OpenRead { reader, partition: open, .. } = read;
        let tombstones_before = reader.tombstones_seen();
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
                    *open = Some(PartitionPage { key, static_row: Row::new(), rows: vec![] });
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
                        *open = Some(self.stop_inside(open.take().expect("a partition is open")));
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
        self.page.tombstones += reader.tombstones_seen() - tombstones_before;
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

    /// The page ends inside this partition. Gives what the next page of it begins with.
    fn stop_inside(&mut self, partition: PartitionPage) -> PartitionPage {
        let row = partition.rows.last().map(|row| row.key.clone());
        let partition_rows = self.resumed_rows + partition.rows.len() as u64;
        self.next = Some(self.state(&partition.key, row, partition_rows));
        let (key, static_row) = (partition.key.clone(), partition.static_row.clone());
        self.push(partition);
        PartitionPage { key, static_row, rows: vec![] }
    }

    fn state(
        &self,
        key: &PartitionKey,
        row: Option<model::ClusteringKey>,
        partition_rows: u64,
    ) -> PagingState {
        let remaining_rows = self.remaining_rows.saturating_sub(self.rows);
        PagingState { key: key.clone(), row, partition_rows, remaining_rows, read_id: self.read_id }
    }

    /// The page, and the read if the next page can go on with it.
    fn finish_read(mut self, read: Option<OpenRead>) -> (Page, Option<OpenRead>) {
        let next = self.next.take();
        let page = self.finish(next);
        let goes_on = page.next.as_ref().is_some_and(|next| next.row.is_some());
        // Who reads the rest of a partition has nothing to say behind it.
        let read = read.filter(|read| page.next.is_some() && (goes_on || !read.is_rest));
        (page, read)
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
