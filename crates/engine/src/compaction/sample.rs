//! Estimates what a merge would free, from a sample: a few narrow token ranges are merged in memory and
//! discarded.
//!
//! Nothing is written. Reads are bounded: a range with more than [`RANGE_BYTES_MAX`] in memory, for example a
//! huge partition, is left out. Tombstones count as kept, so a sample does not promise more than a merge
//! frees.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::HashMap;
use compaction::{RunId, SamplePlan, SampledGroup, SampledOverlap};
use model::{
    ClusteringKey, ClusteringRange, ClusteringRow, ColumnData, Partition, PartitionKey, PartitionRange,
    Purge, RangeTombstone, RangeTombstoneChange, RingPosition, Row, TableSchema,
};
use reader::{Fragment, ReadError, ReadSpec, Reader, RowFragment, Source, Step};
use runtime::{CpuGroup, IoClass, Shard};
use sstable::read::{SSTable, SSTableSource};

use super::error::JobError;
use super::manager::Manager;
use super::table_state::TableState;

/// Limit for one range, in memory. A whole sample is a few MB.
const RANGE_BYTES_MAX: usize = 4 << 20;

/// The sample of a table.
#[derive(Default)]
pub(super) struct Sampling {
    /// Result of the last sample; cleared when a job has ended.
    overlap: RefCell<Option<SampledOverlap>>,
    /// The runs of the current sample, or of the last one if it failed.
    runs: RefCell<Vec<RunId>>,
    is_running: Cell<bool>,
}

impl Sampling {
    /// Whether these runs are to be sampled; the same runs are not sampled twice in a row.
    fn wants(&self, runs: &[RunId]) -> bool {
        let is_new = *self.runs.borrow() != runs;
        if is_new {
            *self.runs.borrow_mut() = runs.to_vec();
        }
        is_new
    }

    fn begin(&self) {
        self.is_running.set(true);
    }

    fn end(&self, overlap: Option<SampledOverlap>) {
        self.overlap.replace(overlap);
        self.is_running.set(false);
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running.get()
    }

    pub(super) fn overlap(&self) -> Ref<'_, Option<SampledOverlap>> {
        self.overlap.borrow()
    }

    /// Clears the sample because the table's runs have changed.
    pub(super) fn forget(&self) {
        self.overlap.replace(None);
        self.runs.borrow_mut().clear();
    }
}

impl Manager {
    /// Starts a sample if the strategy wants one for its decision.
    pub(super) fn start_sample(self: &Rc<Self>, managed: &Rc<TableState>) -> bool {
        let wanted = self.with_view(managed, |strategy, view| {
            let plan = strategy.wants_sample(view)?;
            let of_run = |run: &RunId| {
                let ids = view.sstables.iter().filter(|sstable| sstable.run == *run);
                ids.map(|sstable| sstable.id).collect::<Vec<_>>()
            };
            Some((plan.runs.iter().map(of_run).collect::<Vec<_>>(), plan))
        });
        let Some((ids, plan)) = wanted else { return false };
        if !managed.sampling.wants(&plan.runs) {
            return false;
        }
        let runs: Result<Vec<_>, JobError> = ids.iter().map(|ids| self.sstables(managed, ids)).collect();
        let Ok(runs) = runs else { return false };
        managed.sampling.begin();
        let (this, managed) = (self.clone(), managed.clone());
        let sampling = async move { this.take_sample(&managed, plan, runs).await };
        self.shard().spawn(CpuGroup::Compaction, sampling).detach();
        true
    }

    async fn take_sample(&self, managed: &TableState, plan: SamplePlan, runs: Vec<Vec<Rc<SSTable>>>) {
        let (shard, schema) = (self.shard(), managed.table.schema());
        // Without a sample the strategy decides on what it knows.
        let taken = Box::pin(take(shard, &schema, plan, runs, shard.wall_s())).await;
        managed.sampling.end(taken.ok());
        self.stats.borrow_mut().samples += 1;
        managed.wants.set(true);
        self.schedule.wake();
        self.running.signal_ended();
    }
}

/// Merges the ranges of `plan`. `runs` has the SSTables of each run of the plan.
async fn take(
    shard: &Shard,
    schema: &Arc<TableSchema>,
    plan: SamplePlan,
    runs: Vec<Vec<Rc<SSTable>>>,
    now_s: u32,
) -> Result<SampledOverlap, ReadError> {
    let mut groups: HashMap<u64, SampledGroup> = HashMap::default();
    for (first, last) in &plan.ranges {
        let (start, end) = (RingPosition::BeforeToken(*first), RingPosition::AfterToken(*last));
        let spec = ReadSpec::new(schema.clone(), PartitionRange::Between { start, end });
        if let Some(partitions) = read(shard, &spec, &runs).await? {
            count(partitions, schema, now_s, &mut groups);
        }
        shard.yield_now().await;
    }
    let mut groups: Vec<SampledGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| group.members);
    Ok(SampledOverlap { runs: plan.runs, groups })
}

/// The partitions of a range, each with its data by run. [`read`] returns `None` if they exceed
/// [`RANGE_BYTES_MAX`].
type Partitions = HashMap<PartitionKey, Vec<(u32, Partition)>>;

async fn read(
    shard: &Shard,
    spec: &ReadSpec,
    runs: &[Vec<Rc<SSTable>>],
) -> Result<Option<Partitions>, ReadError> {
    let mut partitions = Partitions::default();
    let mut bytes_left = RANGE_BYTES_MAX;
    for (run, sstables) in (0..).zip(runs) {
        for sstable in sstables.iter().filter(|sstable| sstable.may_contain_range(&spec.partitions)) {
            let mut reader = SSTableSource::new(sstable.clone(), IoClass::Compaction).reader(spec);
            if !collect(shard, spec, &mut *reader, run, &mut bytes_left, &mut partitions).await? {
                return Ok(None);
            }
        }
    }
    Ok(Some(partitions))
}

/// False if there is more than `bytes_left`.
async fn collect(
    shard: &Shard,
    spec: &ReadSpec,
    reader: &mut dyn Reader,
    run: u32,
    bytes_left: &mut usize,
    partitions: &mut Partitions,
) -> Result<bool, ReadError> {
    let schema = &spec.schema;
    let mut key = None;
    let mut partition = Partition::default();
    let mut open: Option<RangeTombstoneChange> = None;
    loop {
        let bytes = match reader.next()? {
            Step::Ready(Fragment::PartitionStart { key: begun, tombstone }) => {
                partition = Partition::default();
                partition.tombstone = tombstone;
                key = Some(begun);
                64
            }
            Step::Ready(Fragment::Static(row)) => {
                partition.static_row = (*row).clone();
                row.heap_bytes()
            }
            Step::Ready(Fragment::Row(RowFragment { key, row })) => {
                let bytes = row.heap_bytes() + 64;
                partition.push_row(schema, ClusteringRow { key, row: Rc::unwrap_or_clone(row) });
                bytes
            }
            Step::Ready(Fragment::Change(change)) => {
                if let Some(begun) = open.take() {
                    let range = ClusteringRange { start: begun.position, end: change.position.clone() };
                    partition.delete_range(schema, &RangeTombstone { range, tombstone: begun.tombstone });
                }
                open = (!change.tombstone.is_live()).then_some(change);
                64
            }
            Step::Ready(Fragment::PartitionEnd) => {
                let key = key.take().expect("a partition begins before it ends");
                partitions.entry(key).or_default().push((run, std::mem::take(&mut partition)));
                0
            }
            Step::Load => {
                reader.load().await?;
                0
            }
            Step::End => return Ok(true),
        };
        match bytes_left.checked_sub(bytes) {
            Some(left) => *bytes_left = left,
            None => return Ok(false),
        }
        if shard.need_preempt() {
            shard.yield_now().await;
        }
    }
}

/// Adds each row to the group of the runs that have it.
fn count(partitions: Partitions, schema: &TableSchema, now_s: u32, groups: &mut HashMap<u64, SampledGroup>) {
    for of_runs in partitions.into_values() {
        let mut merged = Partition::default();
        of_runs.iter().for_each(|(_, partition)| merged.merge(partition, schema));
        merged.shadow(schema);
        merged.compact(schema, &Purge::nothing(now_s));
        let mut rows: HashMap<&ClusteringKey, SampledGroup> = HashMap::default();
        let mut fixed = SampledGroup { members: 0, input_bytes: 0, output_bytes: 0 };
        for (run, partition) in &of_runs {
            let member = 1u64 << run;
            fixed.members |= member;
            fixed.input_bytes += fixed_bytes(partition);
            for row in partition.rows() {
                let group = rows.entry(&row.key).or_insert(SampledGroup {
                    members: 0,
                    input_bytes: 0,
                    output_bytes: 0,
                });
                group.members |= member;
                group.input_bytes += row_bytes(row);
            }
        }
        fixed.output_bytes = fixed_bytes(&merged);
        for row in merged.rows() {
            if let Some(group) = rows.get_mut(&row.key) {
                group.output_bytes = row_bytes(row);
            }
        }
        for group in rows.into_values().chain([fixed]) {
            let all = groups.entry(group.members).or_insert(SampledGroup {
                members: group.members,
                input_bytes: 0,
                output_bytes: 0,
            });
            all.input_bytes += group.input_bytes;
            all.output_bytes += group.output_bytes;
        }
    }
}

/// Approximate bytes of a row, counted the same for inputs and output.
fn row_bytes(row: &ClusteringRow) -> u64 {
    16 + cells_bytes(&row.row)
}

/// Approximate bytes of a partition without its rows.
fn fixed_bytes(partition: &Partition) -> u64 {
    32 + cells_bytes(&partition.static_row)
}

fn cells_bytes(row: &Row) -> u64 {
    let bytes = |data: &ColumnData| match data {
        ColumnData::Simple(cell) => 8 + cell.value.len(),
        ColumnData::Complex(complex) => {
            let elements = complex.cells.iter();
            8 + elements.map(|element| 8 + element.path.len() + element.cell.value.len()).sum::<usize>()
        }
    };
    row.cells().iter().map(|(_, data)| bytes(data) as u64).sum()
}

#[cfg(test)]
mod tests {
    use compaction::RunId;
    use model::{Cell, ClusteringPrefix, CqlType};
    use runtime::sim::{SimOptions, SimWorld};

    use super::*;
    use crate::options::EngineOptions;
    use crate::shard::EngineShard;
    use crate::{node, recover};

    #[test]
    fn rows_are_counted_by_the_runs_that_have_them() {
        let schema = TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Text)
            .clustering("c", CqlType::Int)
            .regular("v", CqlType::Text)
            .build()
            .unwrap();
        let partition = |rows: std::ops::Range<i32>, timestamp_us: i64| {
            let mut partition = Partition::default();
            for c in rows {
                let row = partition.row_mut(&schema, ClusteringPrefix::new([&c.to_be_bytes()[..]]));
                let value = "v".repeat(100);
                row.set(schema.column_named("v").unwrap(), Cell::live(timestamp_us, value.as_str()));
            }
            partition
        };
        // Run 0 has rows 0 to 9, run 1 rows 5 to 14 of the same partition; run 2 has another partition.
        let mut partitions = Partitions::default();
        partitions.insert(PartitionKey::new("a"), vec![(0, partition(0..10, 1)), (1, partition(5..15, 2))]);
        partitions.insert(PartitionKey::new("b"), vec![(2, partition(0..10, 1))]);
        let mut groups = HashMap::default();
        count(partitions, &schema, 1, &mut groups);
        let sampled = SampledOverlap {
            runs: vec![RunId(0), RunId(1), RunId(2)],
            groups: groups.into_values().collect(),
        };
        let ratio = |runs: &[u128]| {
            sampled.dead_ratio(&runs.iter().map(|run| RunId(*run)).collect::<Vec<_>>()).unwrap()
        };
        // Five of twenty rows.
        assert!((0.23..0.28).contains(&ratio(&[0, 1])), "{}", ratio(&[0, 1]));
        assert_eq!(ratio(&[0, 2]), 0.0);
    }

    #[test]
    fn a_sample_of_sstables_finds_runs_that_share_rows() {
        let world = SimWorld::new(SimOptions::default());
        let node_1 = world.start_node(|_| async {}).unwrap();
        let sampled = world.block_on(&node_1, 0, |shard| async move {
            let mut options = EngineOptions::new("/data");
            options.memory_bytes = 8 << 20;
            options.commitlog_segment_bytes = 256 << 10;
            options.compaction.is_automatic = false;
            recover::open(&shard, options).await.unwrap();
            node::change_schema(&shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
                .await
                .unwrap();
            let made = TableSchema::builder("ks", "t").partition_key("p", CqlType::Text);
            let made = made.clustering("c", CqlType::Int).regular("v", CqlType::Text).build().unwrap();
            let id = made.id;
            node::change_schema(&shard, move |catalog| catalog.create_table(made, Default::default()))
                .await
                .unwrap();
            let engine = EngineShard::of(&shard).unwrap();
            let table = engine.table(id).unwrap();
            let schema = table.schema();
            // The first two SSTables have the same rows, the third has other rows of the same partitions.
            for (flush, first) in [(1, 0), (2, 0), (3, 100)] {
                for i in 0..200 {
                    let key = PartitionKey::new(format!("key{i}").as_str());
                    let mut mutation = model::Mutation::new(schema.clone(), key);
                    let row = mutation.row_mut(ClusteringPrefix::new([&i32::to_be_bytes(first)[..]]));
                    row.set(schema.column_named("v").unwrap(), Cell::live(flush, "v".repeat(50).as_str()));
                    engine.apply(mutation).await.unwrap();
                }
                node::flush(&shard, vec![id]).await.unwrap();
            }
            let runs: Vec<Vec<Rc<SSTable>>> = table.sstables().iter().map(|it| vec![it.clone()]).collect();
            assert_eq!(runs.len(), 3);
            let ids = vec![RunId(1), RunId(2), RunId(3)];
            let plan = SamplePlan::uniform(ids, 0.5, 16, 7);
            take(&shard, &schema, plan, runs, 1_000_000_000).await.unwrap()
        });
        let sampled = sampled.unwrap();
        let ratio = |runs: &[u128]| {
            sampled.dead_ratio(&runs.iter().map(|run| RunId(*run)).collect::<Vec<_>>()).unwrap()
        };
        // One of two rows remains, and the data of the partition itself.
        assert!((0.4..0.55).contains(&ratio(&[1, 2])), "{sampled:?}");
        assert!(ratio(&[1, 3]) < 0.2, "{sampled:?}");
        let rows: u64 =
            sampled.groups.iter().filter(|group| group.members == 0b100).map(|group| group.input_bytes).sum();
        assert!(rows > 0, "{sampled:?}");
    }
}
