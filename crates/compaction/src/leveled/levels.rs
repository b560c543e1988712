//! The SSTables by level, each level sorted by first key.

use model::PartitionKey;

use crate::view::SSTableView;

/// Number of levels: level 0 to level 8.
pub const LEVELS: usize = 9;

/// One level.
#[derive(Debug, Default)]
pub struct Level<'a> {
    /// Sorted by first key.
    pub sstables: Vec<&'a SSTableView>,
    /// For each index, the largest last key of the SSTables up to it.
    reach: Vec<&'a PartitionKey>,
    /// Bytes of its SSTables on disk.
    pub disk_bytes: u64,
}

impl<'a> Level<'a> {
    fn new(mut sstables: Vec<&'a SSTableView>) -> Self {
        sstables.sort_unstable_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
        let mut reach: Vec<&PartitionKey> = Vec::with_capacity(sstables.len());
        for sstable in &sstables {
            reach.push(reach.last().map_or(&sstable.last, |before| (&sstable.last).max(*before)));
        }
        Self { disk_bytes: sstables.iter().map(|sstable| sstable.disk_bytes).sum(), sstables, reach }
    }

    /// Whether the level has no SSTable.
    pub fn is_empty(&self) -> bool {
        self.sstables.is_empty()
    }

    /// The SSTables that overlap the range from `first` to `last`. O(log n) plus the SSTables scanned.
    pub fn overlapping(
        &self,
        first: &PartitionKey,
        last: &PartitionKey,
    ) -> impl Iterator<Item = &'a SSTableView> {
        let from = self.reach.partition_point(|reach| *reach < first);
        let behind = self.sstables.partition_point(|sstable| sstable.first <= *last);
        self.sstables[from.min(behind)..behind].iter().copied().filter(move |sstable| sstable.last >= *first)
    }

    /// The first group of SSTables connected by overlaps; empty if none overlap.
    pub fn first_overlap(&self) -> &[&'a SSTableView] {
        let overlaps = |at: &usize| self.sstables[*at].first <= *self.reach[at - 1];
        let Some(second) = (1..self.sstables.len()).find(overlaps) else { return &[] };
        let end = (second..self.sstables.len()).find(|at| !overlaps(at)).unwrap_or(self.sstables.len());
        &self.sstables[second - 1..end]
    }

    /// All SSTables in ring order, starting with the first one that begins after `key`.
    pub fn starting_after(&self, key: Option<&PartitionKey>) -> impl Iterator<Item = &'a SSTableView> {
        let at = key.map_or(0, |key| self.sstables.partition_point(|sstable| sstable.first <= *key));
        self.sstables[at..].iter().chain(&self.sstables[..at]).copied()
    }
}

/// All levels.
#[derive(Debug)]
pub struct Levels<'a>([Level<'a>; LEVELS]);

impl<'a> Levels<'a> {
    /// Sorts SSTables into the levels that they name. A level above the highest one counts as the highest.
    pub fn new(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Self {
        let mut levels: [Vec<&SSTableView>; LEVELS] = Default::default();
        for sstable in sstables {
            levels[(sstable.level as usize).min(LEVELS - 1)].push(sstable);
        }
        Self(levels.map(Level::new))
    }

    /// The level with this number.
    pub fn at(&self, level: usize) -> &Level<'a> {
        &self.0[level]
    }

    /// The highest non-empty level; 0 if all are empty.
    pub fn top(&self) -> usize {
        (0..LEVELS).rev().find(|level| !self.0[*level].is_empty()).unwrap_or(0)
    }
}

/// The smallest first key and the largest last key. There must be at least one SSTable.
pub fn range<'a>(sstables: &[&'a SSTableView]) -> (&'a PartitionKey, &'a PartitionKey) {
    let first = sstables.iter().map(|sstable| &sstable.first).min().expect("at least one");
    let last = sstables.iter().map(|sstable| &sstable.last).max().expect("at least one");
    (first, last)
}
