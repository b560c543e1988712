//! Reads: resumes the readers of the previous page, or admits and opens a new read.

use std::sync::Arc;

use model::{
    ClusteringRange, Partition, PartitionKey, PartitionRange, Position, Purge, TableId, TableSchema,
};
use reader::{CompactReader, Keep, MergeReader, ReadSpec, Tracer, collect_partitions};

use super::EngineShard;
use crate::error::EngineError;
use crate::read::page::{self, PageLimits};
use crate::read::trace::{Counters, measured, tracer};
use crate::read::{Page, ReadCommand};

impl EngineShard {
    /// Reads the next page of this shard's part of the result.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, EngineError> {
        let Some(trace) = &command.trace else { return self.read_admitted(command, None).await };
        let tracer = tracer(&self.shard, trace);
        let counters = Counters { shard: &self.shard, cache: &self.cache, rows: &self.rows };
        // The future is boxed: traced reads are rare, and every read's future would be as large.
        let (page, tally) =
            Box::pin(measured(&counters, self.read_admitted(command, Some(tracer.clone())))).await;
        if let Ok(page) = &page {
            let (rows, dead) = (page.row_count(), page.tombstones);
            tracer.note(format!("Read {rows} live rows and {dead} tombstones"));
        }
        tally.note(&tracer);
        page
    }

    /// The stored rows of a partition that a write affects, with the tombstones in force there.
    pub async fn affected(
        &self,
        table: TableId,
        key: &PartitionKey,
        change: &Partition,
    ) -> Result<Partition, EngineError> {
        let schema = self.table(table)?.schema();
        self.stored(table, key, affected_ranges(&schema, change)).await
    }

    /// The stored rows that a write changes, without those that it only deletes in a range, with the
    /// tombstones in force there; and the stored static row.
    pub async fn changed(
        &self,
        table: TableId,
        key: &PartitionKey,
        change: &Partition,
    ) -> Result<Partition, EngineError> {
        let mut ranges: Vec<ClusteringRange> =
            change.rows().iter().map(|row| ClusteringRange::of_prefix(row.key.clone())).collect();
        if ranges.is_empty() && !change.static_row.is_empty() {
            // Without rows: the static row is read with any range.
            ranges.push(ClusteringRange { start: Position::START, end: Position::START });
        }
        self.stored(table, key, ranges).await
    }

    /// The stored content of some ranges of a partition, with tombstones and expired cells. The ranges are
    /// disjoint and rise.
    pub async fn stored(
        &self,
        table: TableId,
        key: &PartitionKey,
        ranges: Vec<ClusteringRange>,
    ) -> Result<Partition, EngineError> {
        if ranges.is_empty() {
            return Ok(Partition::default());
        }
        let table = self.table(table)?;
        table.check_readable()?;
        let schema = table.schema();
        let partitions = PartitionRange::Key(key.clone());
        let ranges: Arc<[ClusteringRange]> = ranges.into();
        let mut command = ReadCommand::new(schema.id, partitions.clone());
        command.ranges = ranges.clone();
        let permit = self.admissions.admit(&self.shard, &table, &command).await?;
        let spec = ReadSpec::new(schema.clone(), partitions).ranges(ranges).permit(Some(permit));
        let io_class = self.shard.current_group().io_class();
        let merged = MergeReader::of(&spec, table.readers(&spec, false, io_class));
        let mut stored = CompactReader::new(merged, Purge::nothing(0), Keep::Needed);
        let partitions = collect_partitions(&mut stored, &schema, false).await?;
        Ok(partitions.into_iter().next().map(|(_, partition)| partition).unwrap_or_default())
    }

    async fn read_admitted(&self, command: &ReadCommand, trace: Option<Tracer>) -> Result<Page, EngineError> {
        let table = self.table(command.table)?;
        let started_us = self.shard.now_us();
        let (parked, permit) = match table.parked.take(command) {
            Some((read, permit)) => (Some(read), permit),
            None => (None, self.admissions.admit(&self.shard, &table, command).await?),
        };
        if let Some(trace) = &trace {
            trace.note(match &parked {
                Some(_) => "Continuing with the readers that the last page left open".to_string(),
                None => {
                    let (name, waiting) = permit.semaphore();
                    let waited_us = self.shard.now_us() - started_us;
                    format!(
                        "Admitted by semaphore {name} after {waited_us} us in its queue; {waiting} wait there"
                    )
                }
            });
        }
        let limits = PageLimits {
            permit: Some(permit.clone()),
            deadline_us: started_us.saturating_add(self.admissions.timeout_us(command)),
            tombstones_max: self.admissions.tombstones_max(&table),
            trace,
        };
        let opened_at = table.parked.opened_at();
        let read = page::read_table(&self.shard, &table, command, &limits, parked).await;
        let (page, open) = read.inspect_err(|error| {
            if let EngineError::Read(error) = error {
                self.admissions.failed(&self.shard, &permit, error);
            }
        })?;
        let now_us = self.shard.now_us();
        table.counters.reads.add_us(now_us - started_us);
        table.counters.slices.borrow_mut().add(now_us, page.row_count(), page.tombstones);
        if let Some(samplers) = &mut *table.counters.hot_keys.borrow_mut()
            && let PartitionRange::Key(key) = &command.partitions
        {
            samplers.reads.add(key);
        }
        // Buffered reverse reads, which exist for comparison, open their readers again for each page.
        let open = open.filter(|_| command.buffered_reverse_bytes_max.is_none());
        if let (Some(open), Some(next)) = (open, &page.next) {
            let snapshot_bytes = match permit.shared_items() {
                0 => 0,
                items => self.rows.bytes_of_entries(items),
            };
            table.parked.park(command, next, (open, opened_at), permit.clone(), snapshot_bytes, now_us);
        }
        if permit.take_evicted() {
            // Parked reads whose permits were evicted are dropped, so that their memory is really free.
            self.tables.borrow().values().for_each(|table| table.parked.sweep(now_us));
        }
        Ok(page)
    }
}

/// The ranges of rows that a write affects, disjoint and rising. A write of static columns affects none.
fn affected_ranges(schema: &TableSchema, change: &Partition) -> Vec<ClusteringRange> {
    if !change.tombstone.is_live() {
        return vec![ClusteringRange::all()];
    }
    let rows = change.rows().iter().map(|row| ClusteringRange::of_prefix(row.key.clone()));
    let mut ranges: Vec<ClusteringRange> =
        rows.chain(change.range_tombstones().ranges().map(|deletion| deletion.range)).collect();
    ranges.sort_by(|a, b| schema.compare_positions(&a.start, &b.start));
    let mut disjoint: Vec<ClusteringRange> = vec![];
    for range in ranges {
        match disjoint.last_mut() {
            Some(last) if schema.compare_positions(&range.start, &last.end).is_le() => {
                if schema.compare_positions(&range.end, &last.end).is_gt() {
                    last.end = range.end;
                }
            }
            _ => disjoint.push(range),
        }
    }
    disjoint
}
