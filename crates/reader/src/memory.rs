//! Partitions in memory as a source: the simplest source, against which the others are examined.
//!
//! When a reader is opened, it lists every fragment of every wanted partition, so its behaviour is easy to
//! verify by reading. Not for large data.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringRange, ClusteringRow, Mutation, Partition, PartitionKey, Position, RangeTombstoneChange,
    TableSchema, Tombstone,
};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, RowFragment, Source, Step};

/// Partitions by key.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    partitions: BTreeMap<PartitionKey, Partition>,
}

impl MemorySource {
    /// The merged content of `mutations`.
    pub fn new(mutations: &[Mutation]) -> Self {
        let mut source = Self::default();
        mutations.iter().for_each(|mutation| source.apply(mutation));
        source
    }

    /// Merges a write into the source.
    pub fn apply(&mut self, mutation: &Mutation) {
        let partition = self.partitions.entry(mutation.key.clone()).or_default();
        partition.merge(&mutation.partition, &mutation.schema);
    }

    /// All partitions, in the order of the ring.
    pub fn partitions(&self) -> &BTreeMap<PartitionKey, Partition> {
        &self.partitions
    }

    /// All partitions, to be changed. Readers that are open keep what they have read.
    pub fn partitions_mut(&mut self) -> &mut BTreeMap<PartitionKey, Partition> {
        &mut self.partitions
    }
}

impl Source for MemorySource {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let wanted = self.partitions.iter().filter(|(key, _)| spec.partitions.contains(key));
        Box::new(MemoryReader {
            partitions: wanted.map(|(key, partition)| fragments_of(spec, key, partition).into()).collect(),
        })
    }
}

/// The fragments of one partition, cut to the wanted ranges.
pub fn fragments_of(spec: &ReadSpec, key: &PartitionKey, partition: &Partition) -> Vec<Fragment> {
    let schema = &spec.schema;
    let mut placed: Vec<(Position, Fragment)> = vec![];
    for range in spec.ranges.iter() {
        let rows = partition.rows().iter().filter(|row| schema.range_contains(range, &row.key));
        placed.extend(rows.map(|row| (Position::at(row.key.clone()), row_fragment(row))));
        placed.extend(changes_in(schema, partition, range, spec.reversed));
    }
    placed.sort_by(|(a, _), (b, _)| schema.compare_positions(a, b));
    if spec.reversed {
        placed.reverse();
    }
    let mut out = vec![Fragment::PartitionStart { key: key.clone(), tombstone: partition.tombstone }];
    if !partition.static_row.is_empty() {
        out.push(Fragment::Static(Rc::new(partition.static_row.clone())));
    }
    out.extend(placed.into_iter().map(|(_, fragment)| fragment));
    out.push(Fragment::PartitionEnd);
    out
}

fn row_fragment(row: &ClusteringRow) -> Fragment {
    Fragment::Row(RowFragment { key: row.key.clone(), row: Rc::new(row.row.clone()) })
}

/// The positions inside `range`, including its ends, at which the range tombstone in force changes for a
/// reader that sees only this range.
fn changes_in(
    schema: &Arc<TableSchema>,
    partition: &Partition,
    range: &ClusteringRange,
    reversed: bool,
) -> Vec<(Position, Fragment)> {
    let inside = |position: &Position| {
        schema.compare_positions(&range.start, position).is_lt()
            && schema.compare_positions(position, &range.end).is_lt()
    };
    let tombstones = partition.range_tombstones();
    let between = tombstones.changes().iter().map(|change| change.position.clone()).filter(inside);
    let mut points: Vec<Position> = [range.start.clone()].into_iter().chain(between).collect();
    points.push(range.end.clone());
    let mut out = vec![];
    // Between two neighbouring points one range tombstone is in force.
    let spans: Vec<Tombstone> = points[..points.len() - 1].iter().map(|p| tombstones.at(schema, p)).collect();
    for (i, point) in points.into_iter().enumerate() {
        let in_front = if i == 0 { Tombstone::LIVE } else { spans[i - 1] };
        let behind = spans.get(i).copied().unwrap_or(Tombstone::LIVE);
        if in_front != behind {
            let tombstone = if reversed { in_front } else { behind };
            let change = RangeTombstoneChange { position: point.clone(), tombstone };
            out.push((point, Fragment::Change(change)));
        }
    }
    out
}

struct MemoryReader {
    /// The fragments of each partition that has not been read to its end.
    partitions: VecDeque<VecDeque<Fragment>>,
}

impl Reader for MemoryReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        let Some(partition) = self.partitions.front_mut() else { return Ok(Step::End) };
        let fragment = partition.pop_front().expect("a partition leaves with its end");
        if fragment == Fragment::PartitionEnd {
            self.partitions.pop_front();
        }
        Ok(Step::Ready(fragment))
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Ok(()) })
    }

    fn skip_partition(&mut self) {
        let begun = |partition: &VecDeque<Fragment>| !matches!(partition[0], Fragment::PartitionStart { .. });
        if self.partitions.front().is_some_and(begun) {
            self.partitions.pop_front();
        }
    }
}
