//! Reads of computed tables: builds the pages that a read of a stored table with the same rows would return.

use std::rc::Rc;
use std::sync::Arc;

use catalog::{Catalog, system, virtual_tables};
use model::{ClusteringRow, PartitionRange, Purge, RingPosition, Row, TableSchema};
use protocol::CqlError;
use reader::{
    CompactReader, Fragment, Keep, MemorySource, Page, PagePlace, PagingState, PartitionPage, ReadCommand,
    ReadError, ReadSpec, Reader, Source, Step, UnfinishedPartition, block_on_ready,
};

use super::node_info::NodeInfo;
use super::tables::virtual_partitions;

/// Whether reads of the table are answered by [`read_virtual`] instead of the storage.
pub fn is_virtual(table: &TableSchema) -> bool {
    // Quick check, because every read calls this function and most reads are of users' tables.
    if !table.keyspace.starts_with(system::SYSTEM) {
        return false;
    }
    virtual_tables::content_of(&table.keyspace, &table.name).is_some()
}

/// Returns the next page of a read of a computed table; `None` for a stored table.
///
/// `catalog` is the catalog with virtual tables, as clients see it. `now_s` is the time of the read, in
/// seconds since the Unix epoch, for a command without a time.
///
/// # Errors
/// The catalog has no table with the command's id.
pub fn read_virtual(
    command: &ReadCommand,
    now_s: u32,
    info: &NodeInfo,
    catalog: &Catalog,
) -> Result<Option<Page>, CqlError> {
    let Some(table) = catalog.table_by_id(command.table) else {
        return Err(CqlError::Invalid(format!("there is no table with the id {}", command.table)));
    };
    let Some(mutations) = virtual_partitions(&table.schema, info, catalog) else { return Ok(None) };
    let source = MemorySource::new(&mutations);
    let page = read_page(&table.schema, &source, command, command.now_s.unwrap_or(now_s));
    page.map(Some).map_err(|error| CqlError::Server(error.to_string()))
}

fn read_page(
    schema: &Arc<TableSchema>,
    source: &MemorySource,
    command: &ReadCommand,
    now_s: u32,
) -> Result<Page, ReadError> {
    let mut page = PageBuilder::new(command);
    let Some(mut partitions) = command.remaining_partitions() else { return Ok(page.finish()) };
    if let Some(UnfinishedPartition { key, last_row, shown_rows }) =
        command.paging.as_ref().and_then(PagingState::unfinished)
    {
        let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
        let spec = spec.ranges(command.ranges_after(schema, last_row)).reversed(command.reversed);
        for partition in live_partitions(source, &spec, now_s)? {
            page.push(partition, *shown_rows);
        }
        let PartitionRange::Between { end, .. } = partitions else { return Ok(page.finish()) };
        partitions = PartitionRange::Between { start: RingPosition::AfterKey(key.clone()), end };
    }
    let spec = ReadSpec::new(schema.clone(), partitions);
    let spec = spec.ranges(command.ranges.clone()).reversed(command.reversed);
    for partition in live_partitions(source, &spec, now_s)? {
        if !page.push(partition, 0) {
            break;
        }
    }
    Ok(page.finish())
}

fn live_partitions(
    source: &MemorySource,
    spec: &ReadSpec,
    now_s: u32,
) -> Result<Vec<PartitionPage>, ReadError> {
    let mut reader = CompactReader::new(source.reader(spec), Purge::nothing(now_s), Keep::Live);
    let mut partitions: Vec<PartitionPage> = vec![];
    loop {
        let fragment = match reader.next()? {
            Step::Ready(fragment) => fragment,
            Step::Load => {
                block_on_ready(reader.load())?;
                continue;
            }
            Step::End => return Ok(partitions),
        };
        let partition = partitions.last_mut();
        match (fragment, partition) {
            (Fragment::PartitionStart { key, .. }, _) => {
                partitions.push(PartitionPage { key, static_row: Row::new(), rows: vec![] });
            }
            (Fragment::Static(row), Some(partition)) => partition.static_row = Rc::unwrap_or_clone(row),
            (Fragment::Row(row), Some(partition)) => {
                partition.rows.push(ClusteringRow { key: row.key, row: Rc::unwrap_or_clone(row.row) });
            }
            (Fragment::PartitionEnd, _) => {}
            (Fragment::Change(_) | Fragment::Static(_) | Fragment::Row(_), _) => {
                unreachable!("a live partition begins with its start and has no deletions")
            }
        }
    }
}

/// Adds partitions to a page until it is full.
struct PageBuilder<'a> {
    command: &'a ReadCommand,
    page: Page,
    remaining_rows: u64,
    rows: u64,
    bytes: u64,
}

impl<'a> PageBuilder<'a> {
    fn new(command: &'a ReadCommand) -> Self {
        let remaining_rows =
            command.paging.as_ref().map_or(command.limit_rows, |paging| paging.remaining_rows);
        Self { command, page: Page::default(), remaining_rows, rows: 0, bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.rows >= self.command.page_rows.max(1).min(self.remaining_rows)
            || self.bytes >= self.command.page_bytes
    }

    /// Adds a partition. `earlier_rows` is the number of its rows on earlier pages. Returns `false` if the
    /// page was already full; the next page then starts after the last partition of this page.
    fn push(&mut self, partition: PartitionPage, earlier_rows: u64) -> bool {
        let PartitionPage { key, static_row, rows } = partition;
        if self.is_full() {
            // If the page ends inside a partition, the paging state is set already.
            if self.page.next.is_none()
                && let Some(last) = self.page.partitions.last()
            {
                self.page.next = Some(self.state(PagePlace::AfterPartition(last.key.clone())));
            }
            return false;
        }
        let wanted = self.command.partition_limit_rows.saturating_sub(earlier_rows);
        let wanted = rows.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if wanted == 0 && earlier_rows > 0 {
            return true;
        }
        let mut taken = PartitionPage { key, static_row, rows: Vec::<ClusteringRow>::new() };
        self.rows += u64::from(wanted == 0);
        for row in rows.into_iter().take(wanted) {
            if self.is_full() {
                // The page was not full before the partition's first row, so a last row exists.
                if let Some(last) = taken.rows.last() {
                    let unfinished = UnfinishedPartition {
                        key: taken.key.clone(),
                        last_row: last.key.clone(),
                        shown_rows: earlier_rows + taken.rows.len() as u64,
                    };
                    self.page.next = Some(self.state(PagePlace::Inside(unfinished)));
                }
                break;
            }
            self.rows += 1;
            self.bytes += row.heap_bytes() as u64;
            taken.rows.push(row);
        }
        self.page.partitions.push(taken);
        true
    }

    fn state(&self, place: PagePlace) -> PagingState {
        let remaining_rows = self.remaining_rows.saturating_sub(self.rows);
        PagingState { place, remaining_rows, read_id: self.command.read_id }
    }

    fn finish(mut self) -> Page {
        self.page.next = self.page.next.filter(|next| next.remaining_rows > 0);
        self.page
    }
}
