//! K-way merge of sources: the partitions of all, and of each partition the merged content.
//!
//! 1. Between partitions, the head of every child is its next partition key. The smallest key is next, and
//!    the children with that key participate in the partition.
//! 2. Inside a partition, the head of every participant is its next fragment. The fragment with the smallest
//!    position is emitted; rows with the same key are merged into one.
//! 3. Of the range tombstones in force in the participants, the strongest is in force in the result.
//! 4. A partition of only one child passes through without any comparison.
//!
//! Guarantees: children load concurrently, not one after the other. Cost: one comparison per participant and
//! fragment. Not here: the removal of deleted data (`compact`).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use base::join::join_all;
use model::{PartitionKey, RangeTombstoneChange, Side, TableSchema, Tombstone};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, Source, Step};

struct Child {
    reader: Box<dyn Reader>,
    head: Option<Fragment>,
    finished: bool,
    must_load: bool,
    /// The range tombstone in force in this child.
    in_force: Tombstone,
}

/// Reader that merges several readers. See the head of this file.
pub struct MergeReader {
    schema: Arc<TableSchema>,
    reversed: bool,
    children: Vec<Child>,
    /// The children that participate in the current partition; empty between partitions.
    current: Vec<usize>,
    partition_tombstone: Tombstone,
    /// The range tombstone in force in the result.
    in_force: Tombstone,
    /// The participants whose heads have the smallest position; kept between steps to reuse the allocation.
    least: Vec<usize>,
    /// Counts partitions by the number of children that they came from.
    merged: Option<MergeCounts>,
}

/// Counts of partitions that came from one source, from two sources, and so on.
#[derive(Clone, Debug, Default)]
pub struct MergeCounts(Rc<RefCell<Vec<u64>>>);

impl MergeCounts {
    fn add(&self, sources: usize) {
        let mut counts = self.0.borrow_mut();
        if counts.len() < sources {
            counts.resize(sources, 0);
        }
        counts[sources - 1] += 1;
    }

    /// Pairs of a number of sources and the number of partitions from that many sources, without empty
    /// counts.
    pub fn get(&self) -> Vec<(u32, u64)> {
        let counts = self.0.borrow();
        (1..).zip(counts.iter().copied()).filter(|(_, partitions)| *partitions > 0).collect()
    }
}

impl MergeReader {
    /// A reader over `readers`, which must all read what `spec` describes.
    pub fn new(spec: &ReadSpec, readers: Vec<Box<dyn Reader>>) -> Self {
        let child = |reader| Child {
            reader,
            head: None,
            finished: false,
            must_load: false,
            in_force: Tombstone::LIVE,
        };
        Self {
            schema: spec.schema.clone(),
            reversed: spec.reversed,
            children: readers.into_iter().map(child).collect(),
            current: vec![],
            partition_tombstone: Tombstone::LIVE,
            in_force: Tombstone::LIVE,
            least: vec![],
            merged: None,
        }
    }

    /// Counts in `counts` the number of readers of each partition.
    #[must_use]
    pub fn counting(mut self, counts: MergeCounts) -> Self {
        self.merged = Some(counts);
        self
    }

    /// A reader over all `readers`. A single reader is returned unchanged.
    pub fn of(spec: &ReadSpec, mut readers: Vec<Box<dyn Reader>>) -> Box<dyn Reader> {
        if readers.len() == 1 {
            return readers.remove(0);
        }
        Box::new(Self::new(spec, readers))
    }

    /// Reads the head of every child in `wanted`. False if a child has to load first.
    fn fill(children: &mut [Child], wanted: impl Iterator<Item = usize>) -> Result<bool, ReadError> {
        let mut filled = true;
        for index in wanted {
            let child = &mut children[index];
            if child.head.is_some() || child.finished {
                continue;
            }
            match child.reader.next()? {
                Step::Ready(fragment) => child.head = Some(fragment),
                Step::End => child.finished = true,
                Step::Load => {
                    child.must_load = true;
                    filled = false;
                }
            }
        }
        Ok(filled)
    }

    fn start_partition(&mut self) -> Result<Step, ReadError> {
        let count = self.children.len();
        if !Self::fill(&mut self.children, 0..count)? {
            return Ok(Step::Load);
        }
        let mut least: Option<&PartitionKey> = None;
        for (index, child) in self.children.iter().enumerate() {
            let Some(Fragment::PartitionStart { key, .. }) = &child.head else {
                assert!(child.finished, "a child shows a partition or has ended");
                continue;
            };
            match least.map_or(Ordering::Less, |least| key.cmp(least)) {
                Ordering::Less => {
                    least = Some(key);
                    self.current.clear();
                    self.current.push(index);
                }
                Ordering::Equal => self.current.push(index),
                Ordering::Greater => {}
            }
        }
        let Some(key) = least.cloned() else { return Ok(Step::End) };
        let mut strongest = Tombstone::LIVE;
        for index in &self.current {
            let child = &mut self.children[*index];
            if let Some(Fragment::PartitionStart { tombstone, .. }) = child.head.take() {
                strongest = strongest.max(tombstone);
            }
            child.in_force = Tombstone::LIVE;
        }
        self.in_force = Tombstone::LIVE;
        self.partition_tombstone = strongest;
        if let Some(merged) = &self.merged {
            merged.add(self.current.len());
        }
        Ok(Step::Ready(Fragment::PartitionStart { key, tombstone: strongest }))
    }

    fn pass_through(&mut self, index: usize) -> Result<Step, ReadError> {
        let child = &mut self.children[index];
        let step = match child.head.take() {
            Some(fragment) => Step::Ready(fragment),
            None => child.reader.next()?,
        };
        match step {
            Step::Ready(Fragment::PartitionEnd) => self.current.clear(),
            Step::Ready(_) => {}
            Step::Load => child.must_load = true,
            Step::End => unreachable!("a partition that began also ends"),
        }
        Ok(step)
    }

    /// The next fragment of the current partition; `None` if the consumed heads do not change the result.
    fn merge_step(&mut self) -> Option<Fragment> {
        let rank = |fragment: &Fragment| match fragment {
            Fragment::PartitionStart { .. } => unreachable!("a partition ends before the next begins"),
            Fragment::Static(_) => 0,
            Fragment::Row(_) | Fragment::Change(_) => 1,
            Fragment::PartitionEnd => 2,
        };
        let mut least = std::mem::take(&mut self.least);
        least.clear();
        for index in &self.current {
            let head = self.children[*index].head.as_ref().expect("filled");
            let order = match least.first() {
                None => Ordering::Less,
                Some(first) => {
                    let best = self.children[*first].head.as_ref().expect("filled");
                    rank(head).cmp(&rank(best)).then_with(|| self.compare(head, best))
                }
            };
            match order {
                Ordering::Less => {
                    least.clear();
                    least.push(*index);
                }
                Ordering::Equal => least.push(*index),
                Ordering::Greater => {}
            }
        }
        let merged = self.merge_heads(&least);
        self.least = least;
        merged
    }

    /// Consumes the heads of the children in `least`, which are at the same position, and merges them.
    fn merge_heads(&mut self, least: &[usize]) -> Option<Fragment> {
        let (first_index, rest) = least.split_first().expect("a current partition has participants");
        let first = self.children[*first_index].head.take().expect("filled");
        match first {
            Fragment::Static(mut merged) => {
                for index in rest {
                    let head = self.children[*index].head.take();
                    let Some(Fragment::Static(mut row)) = head else {
                        unreachable!("equal ranks, equal kinds")
                    };
                    if self.must_shadow(self.partition_tombstone) {
                        Rc::make_mut(&mut merged).shadow(self.partition_tombstone);
                        Rc::make_mut(&mut row).shadow(self.partition_tombstone);
                    }
                    Rc::make_mut(&mut merged).merge(&row, &self.schema);
                }
                Some(Fragment::Static(merged))
            }
            Fragment::Row(mut merged) => {
                let deleted = self.partition_tombstone.max(self.in_force);
                for index in rest {
                    let head = self.children[*index].head.take();
                    let Some(Fragment::Row(mut row)) = head else {
                        unreachable!("equal positions, equal kinds")
                    };
                    if self.must_shadow(deleted) {
                        Rc::make_mut(&mut merged.row).shadow(deleted);
                        Rc::make_mut(&mut row.row).shadow(deleted);
                    }
                    Rc::make_mut(&mut merged.row).merge(&row.row, &self.schema);
                }
                Some(Fragment::Row(merged))
            }
            Fragment::Change(change) => {
                self.children[*first_index].in_force = change.tombstone;
                for index in rest {
                    let head = self.children[*index].head.take();
                    let Some(Fragment::Change(change)) = head else {
                        unreachable!("equal positions, equal kinds")
                    };
                    self.children[*index].in_force = change.tombstone;
                }
                let all = self.current.iter().map(|index| self.children[*index].in_force);
                let strongest = all.fold(Tombstone::LIVE, Tombstone::max);
                if strongest == self.in_force {
                    return None;
                }
                self.in_force = strongest;
                Some(Fragment::Change(RangeTombstoneChange {
                    position: change.position,
                    tombstone: strongest,
                }))
            }
            Fragment::PartitionEnd => {
                // Every participant is at its end; otherwise a head with a smaller position would exist.
                for index in self.current.drain(..) {
                    self.children[index].head = None;
                }
                Some(Fragment::PartitionEnd)
            }
            Fragment::PartitionStart { .. } => unreachable!("a partition ends before the next begins"),
        }
    }

    /// Whether a tombstone must be applied before rows are merged: counters that it deletes must not be added
    /// up.
    fn must_shadow(&self, deleted: Tombstone) -> bool {
        self.schema.has_counters() && !deleted.is_live()
    }

    fn compare(&self, a: &Fragment, b: &Fragment) -> Ordering {
        let order = match (parts(a), parts(b)) {
            (Some(a), Some(b)) => self.schema.compare_parts(a, b),
            _ => return Ordering::Equal,
        };
        if self.reversed { order.reverse() } else { order }
    }
}

/// The position of a fragment; `None` if it has no position.
pub(crate) fn parts(fragment: &Fragment) -> Option<(&model::ClusteringPrefix, Side)> {
    match fragment {
        Fragment::Row(row) => Some((&row.key, Side::At)),
        Fragment::Change(change) => Some((&change.position.prefix, change.position.side)),
        Fragment::PartitionStart { .. } | Fragment::Static(_) | Fragment::PartitionEnd => None,
    }
}

impl Reader for MergeReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            match self.current.as_slice() {
                [] => return self.start_partition(),
                [only] => {
                    let only = *only;
                    return self.pass_through(only);
                }
                _ => {
                    if !Self::fill(&mut self.children, self.current.iter().copied())? {
                        return Ok(Step::Load);
                    }
                    if let Some(fragment) = self.merge_step() {
                        return Ok(Step::Ready(fragment));
                    }
                }
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        let waiting = self.children.iter_mut().filter(|child| child.must_load);
        let loads = waiting.map(|child| {
            child.must_load = false;
            child.reader.load()
        });
        let loads: Vec<_> = loads.collect();
        Box::pin(join_all(loads))
    }

    fn skip_partition(&mut self) {
        for index in std::mem::take(&mut self.current) {
            let child = &mut self.children[index];
            // A child whose head is the partition end is already between partitions.
            if !matches!(child.head.take(), Some(Fragment::PartitionEnd)) {
                child.reader.skip_partition();
            }
        }
    }
}

/// Several sources merged into one.
pub struct MergeSource {
    /// The sources, in any order. Each has its data in the order of the ring.
    pub sources: Vec<Rc<dyn Source>>,
}

impl Source for MergeSource {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        MergeReader::of(spec, self.sources.iter().map(|source| source.reader(spec)).collect())
    }
}
