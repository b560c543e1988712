//! Reads the next page: opens readers or resumes them, and drives them until the page is full.
//!
//! If the previous page ended inside a partition, the rest of that partition is read first, and then the
//! partitions after it.

use std::rc::Rc;
use std::sync::Arc;

use base::broken;
use model::{ClusteringRange, PartitionKey, PartitionRange, Purge, RingPosition, TableSchema};
use reader::{
    CompactReader, FilterReader, IndexQuery, Keep, Page, PagingState, Permit, ReadCommand, ReadSpec, Reader,
    ReversingReader, Tracer, UnfinishedPartition,
};
use runtime::{IoClass, Shard};

use super::index::IndexReader;
use super::page_builder::PageBuilder;
use crate::error::EngineError;
use crate::sharder::OwnedTokens;
use crate::table::Table;
use crate::table::open_read::OpenRead;

/// The next page of `command` from this shard's part of `table`.
///
/// Readers and the page are charged to the permit of `limits`. `parked` is the read left open by the previous
/// page. Also returns the read that this page leaves open, if there is a next page.
pub async fn read_table(
    shard: &Shard,
    table: &Rc<Table>,
    command: &ReadCommand,
    limits: &PageLimits,
    parked: Option<OpenRead>,
) -> Result<(Page, Option<OpenRead>), EngineError> {
    table.check_readable()?;
    let io_class = shard.current_group().io_class();
    let sources = TableSources { shard, table, bypass_cache: command.bypass_cache, io_class };
    read_sources(shard, &sources, command, limits, parked).await
}

/// Limits of a page.
#[derive(Clone)]
pub struct PageLimits {
    /// The permit charged with readers and the page; `None`: they are not charged.
    pub permit: Option<Rc<Permit>>,
    /// With a permit: the deadline of the read, in the shard's monotonic time.
    pub deadline_us: u64,
    pub tombstones_max: u64,
    /// Records the steps of the read; `None` without tracing.
    pub trace: Option<Tracer>,
}

impl PageLimits {
    pub const NONE: Self =
        Self { permit: None, deadline_us: u64::MAX, tombstones_max: u64::MAX, trace: None };
}

/// Opens readers for the partitions of `spec`.
fn open(
    sources: &impl PageSources,
    spec: &ReadSpec,
    command: &ReadCommand,
    now_s: u32,
    is_rest: bool,
) -> OpenRead {
    let owned = sources.owned_tokens();
    let wants: Box<dyn FnMut(&PartitionKey) -> bool> = Box::new(move |key| owned.has(key.token()));
    let indexed = command.index.as_ref().and_then(|query| sources.index_reader(spec, query));
    let reader = indexed.unwrap_or_else(|| merged(sources, spec, command.buffered_reverse_bytes_max));
    let filtered = FilterReader::new(reader, wants);
    let reader = CompactReader::new(filtered, Purge::nothing(now_s), Keep::Live)
        .needing_markers(spec.schema.needs_row_marker());
    OpenRead { schema: spec.schema.clone(), reader, partition: None, is_rest }
}

/// The sources of a page.
pub trait PageSources {
    fn schema(&self) -> Arc<TableSchema>;

    /// A reader over each source that may have data of the request; at least one.
    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>>;

    /// A reader of what may match the query; `None`: there are no indexes here.
    fn index_reader(&self, spec: &ReadSpec, query: &Arc<IndexQuery>) -> Option<Box<dyn Reader>> {
        let _ = (spec, query);
        None
    }

    /// The partitions that are read; other shards read the others.
    fn owned_tokens(&self) -> OwnedTokens;
}

struct TableSources<'a> {
    shard: &'a Shard,
    table: &'a Rc<Table>,
    bypass_cache: bool,
    /// The I/O class of the calling task's CPU group.
    io_class: IoClass,
}

impl PageSources for TableSources<'_> {
    fn schema(&self) -> Arc<TableSchema> {
        self.table.schema()
    }

    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>> {
        self.table.readers(spec, self.bypass_cache, self.io_class)
    }

    fn index_reader(&self, spec: &ReadSpec, query: &Arc<IndexQuery>) -> Option<Box<dyn Reader>> {
        let Self { shard, table, bypass_cache, io_class } = self;
        Some(Box::new(IndexReader::new(shard, table, spec, query, *bypass_cache, *io_class)))
    }

    fn owned_tokens(&self) -> OwnedTokens {
        self.table.owned_tokens()
    }
}

/// The next page of `command` from `sources`.
pub async fn read_sources(
    shard: &Shard,
    sources: &impl PageSources,
    command: &ReadCommand,
    limits: &PageLimits,
    parked: Option<OpenRead>,
) -> Result<(Page, Option<OpenRead>), EngineError> {
    let now_s = command.now_s.unwrap_or_else(|| shard.wall_s());
    let read_id = match command.paging.as_ref().map_or(command.read_id, |paging| paging.read_id) {
        0 => shard.random_u64(),
        read_id => read_id,
    };
    let permit = limits.permit.as_ref();
    let mut page = PageBuilder::new(command, limits, read_id);
    let schema = sources.schema();
    let Some(mut partitions) = command.remaining_partitions() else { return Ok((page.finish(None), None)) };
    let mut read = parked;
    if let Some(UnfinishedPartition { key, last_row, shown_rows }) =
        command.paging.as_ref().and_then(PagingState::unfinished)
    {
        if *shown_rows < command.partition_limit_rows {
            if read.is_none() {
                let ranges: Vec<ClusteringRange> = command.ranges_after(&schema, last_row);
                let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
                let spec = spec.ranges(ranges).reversed(command.reversed).permit(permit.cloned());
                let spec = spec.trace(limits.trace.clone());
                // Without ranges the read still finds the static row, which is on no earlier page if there
                // were no rows.
                let is_wanted = !spec.ranges.is_empty() || *shown_rows == 0;
                let is_lost = broken::is("page_restart");
                read = (is_wanted && !is_lost).then(|| open(sources, &spec, command, now_s, true));
            }
            if let Some(read) = &mut read {
                page.resume(*shown_rows);
                page.fill(shard, read).await?;
                // The partition may belong to another shard; then none of its data was read here.
                page.resume(0);
            }
        } else {
            // A parked reader stands inside the partition, from which no more rows are wanted.
            read = None;
        }
        match partitions {
            PartitionRange::Key(_) => return Ok(page.finish_read(read)),
            PartitionRange::Between { end, .. } => {
                partitions = PartitionRange::Between { start: RingPosition::AfterKey(key.clone()), end };
            }
        }
        if page.is_full() || page.next.is_some() {
            return Ok(page.finish_read(read));
        }
        read = read.filter(|read| !read.is_rest);
    }
    if let Some(read) = &mut read {
        page.fill(shard, read).await?;
    } else {
        let spec =
            ReadSpec::new(schema, partitions).ranges(command.ranges.clone()).reversed(command.reversed);
        let spec = spec.permit(permit.cloned()).trace(limits.trace.clone());
        page.fill(shard, read.insert(open(sources, &spec, command, now_s, false))).await?;
    }
    Ok(page.finish_read(read))
}

/// All sources merged, in the direction of the read.
fn merged(
    sources: &impl PageSources,
    spec: &ReadSpec,
    buffered_reverse_bytes_max: Option<u64>,
) -> Box<dyn Reader> {
    match buffered_reverse_bytes_max.filter(|_| spec.reversed) {
        None => reader::MergeReader::of(spec, sources.readers(spec)),
        Some(bytes_max) => {
            let forward = spec.clone().reversed(false);
            let inner = reader::MergeReader::of(&forward, sources.readers(&forward));
            Box::new(ReversingReader::new(inner, bytes_max, spec.permit.clone()))
        }
    }
}
