//! The SSTables of the simulated table: the views for the strategies, and the sampled content.
//!
//! Views are kept up to date instead of made for each decision: a table of thousands of SSTables is decided
//! on many thousand times.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::HashMap;
use base::hyperloglog::{HyperLogLog, key_hash};
use compaction::{
    Layout, RunId, RunPiece, SSTableId, SSTableView, SamplePlan, SampledGroup, SampledOverlap, Split,
};
use model::NO_DELETION_TIME_S;

use crate::population::Population;
use crate::sketch::{Entry, RowId};

/// The content of an SSTable.
pub struct Content {
    pub entries: Rc<Vec<Entry>>,
    /// Times at which entries expire or were deleted, ascending.
    deaths: Vec<u32>,
    /// SSTables for which tombstones were kept here by a job that freed nothing; see
    /// `Store::droppable_ratio`.
    pub blockers: Vec<SSTableId>,
}

impl Content {
    pub fn first(&self) -> RowId {
        self.entries[0].place
    }

    pub fn last(&self) -> RowId {
        self.entries[self.entries.len() - 1].place
    }
}

/// An SSTable that is not in the store yet.
pub struct Made {
    pub view: SSTableView,
    pub content: Content,
}

/// See the head of this file.
#[derive(Default)]
pub struct Store {
    views: Vec<SSTableView>,
    contents: Vec<Content>,
    index: HashMap<SSTableId, usize>,
    next_id: u64,
    /// Whether a view has a sketch of its keys; only the incremental strategy reads it.
    has_sketches: bool,
    /// Bytes on disk per byte before compression.
    disk_ratio: f64,
    disk_bytes: u64,
    /// The time for which the droppable ratios were computed.
    gc_before_s: u32,
}

impl Store {
    pub fn new(has_sketches: bool, disk_ratio: f64) -> Self {
        Self { has_sketches, disk_ratio, ..Self::default() }
    }

    pub fn views(&self) -> &[SSTableView] {
        &self.views
    }

    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// The SSTables with their content.
    pub fn iter(&self) -> impl Iterator<Item = (&SSTableView, &Content)> {
        self.views.iter().zip(&self.contents)
    }

    pub fn get(&self, id: SSTableId) -> Option<(&SSTableView, &Content)> {
        self.index.get(&id).map(|at| (&self.views[*at], &self.contents[*at]))
    }

    pub fn set_compacting(&mut self, id: SSTableId, compacting: bool) {
        if let Some(at) = self.index.get(&id) {
            self.views[*at].compacting = compacting;
        }
    }

    pub fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn add(&mut self, mut made: Made) {
        made.view.droppable_ratio = self.droppable_ratio(&made.content);
        self.disk_bytes += made.view.disk_bytes;
        self.index.insert(made.view.id, self.views.len());
        self.views.push(made.view);
        self.contents.push(made.content);
    }

    /// Removes an SSTable and returns its bytes on disk; 0 if it is not there.
    pub fn remove(&mut self, id: SSTableId) -> u64 {
        let Some(at) = self.index.remove(&id) else { return 0 };
        let view = self.views.swap_remove(at);
        self.contents.swap_remove(at);
        if let Some(moved) = self.views.get(at) {
            self.index.insert(moved.id, at);
        }
        self.disk_bytes -= view.disk_bytes;
        view.disk_bytes
    }

    /// Updates the droppable ratios, if the last update was for a time more than `every_s` before.
    pub fn refresh(&mut self, gc_before_s: u32, every_s: u32) {
        if gc_before_s < self.gc_before_s.saturating_add(every_s) {
            return;
        }
        self.gc_before_s = gc_before_s;
        for at in 0..self.views.len() {
            if !self.contents[at].deaths.is_empty() {
                self.views[at].droppable_ratio = self.droppable_ratio(&self.contents[at]);
            }
        }
    }

    /// As in the engine, the ratio is 0 after a job that freed nothing, while an SSTable that kept its
    /// tombstones is still there.
    fn droppable_ratio(&self, content: &Content) -> f64 {
        let droppable = content.deaths.partition_point(|dies_s| *dies_s < self.gc_before_s);
        if droppable == 0 || content.blockers.iter().any(|id| self.index.contains_key(id)) {
            return 0.0;
        }
        droppable as f64 / content.entries.len() as f64
    }

    /// SSTables from sorted entries, cut by `layout`.
    pub fn make(
        &mut self,
        entries: Vec<Entry>,
        layout: &Layout,
        written_s: u32,
        population: &Population,
    ) -> Vec<Made> {
        let run = RunId(u128::from(self.new_id()) << 64);
        let mut made = vec![];
        for piece in cut(entries, layout, population) {
            let run = match &layout.split {
                Split::Runs(pieces) => {
                    let last = population.key(piece[piece.len() - 1].place.partition());
                    RunPiece::of(pieces, last).map_or(run, |at| pieces[at].run)
                }
                _ if layout.is_run => run,
                _ => RunId(u128::from(self.new_id()) << 64),
            };
            made.push(self.describe(piece, layout.level, run, written_s, population));
        }
        made
    }

    fn describe(
        &mut self,
        entries: Vec<Entry>,
        level: u32,
        run: RunId,
        written_s: u32,
        population: &Population,
    ) -> Made {
        let data_bytes = crate::sketch::bytes(&entries);
        let mut deaths: Vec<u32> =
            entries.iter().map(|entry| entry.dies_s).filter(|dies_s| *dies_s != NO_DELETION_TIME_S).collect();
        deaths.sort_unstable();
        let mut sketch = HyperLogLog::new();
        let (mut partitions, mut last) = (0, None);
        for entry in &entries {
            let partition = entry.place.partition();
            if last != Some(partition) {
                (partitions, last) = (partitions + 1, Some(partition));
                if self.has_sketches {
                    sketch.offer(key_hash(population.key(partition).bytes()));
                }
            }
        }
        let timestamps = || entries.iter().map(|entry| entry.timestamp_us);
        let is_mortal = deaths.len() == entries.len();
        let view = SSTableView {
            id: SSTableId(self.new_id()),
            run,
            data_bytes: data_bytes as u64,
            disk_bytes: (data_bytes * self.disk_ratio) as u64,
            first: population.key(entries[0].place.partition()).clone(),
            last: population.key(entries[entries.len() - 1].place.partition()).clone(),
            level,
            min_timestamp_us: timestamps().min().expect("an SSTable has entries"),
            max_timestamp_us: timestamps().max().expect("an SSTable has entries"),
            max_deletion_time_s: if is_mortal { deaths[deaths.len() - 1] } else { NO_DELETION_TIME_S },
            may_delete: !deaths.is_empty(),
            written_s,
            droppable_ratio: 0.0,
            partitions,
            keys: self.has_sketches.then(|| Rc::new(sketch)),
            compacting: false,
            frozen: false,
            reads_per_s: None,
            is_repaired: false,
        };
        Made { view, content: Content { entries: Rc::new(entries), deaths, blockers: vec![] } }
    }

    /// The result of a sampling merge. All sampled rows of the runs are used, not only those of the ranges:
    /// they are a sample already.
    pub fn sampled(&self, plan: &SamplePlan) -> SampledOverlap {
        let mut rows: HashMap<RowId, (u64, f64, f64)> = HashMap::default();
        for (index, run) in plan.runs.iter().enumerate() {
            for (_, content) in self.iter().filter(|(view, _)| view.run == *run) {
                for entry in content.entries.iter() {
                    let row = rows.entry(entry.place).or_default();
                    *row = (row.0 | 1 << index, row.1 + entry.bytes(), row.2.max(entry.bytes()));
                }
            }
        }
        let mut groups: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (members, input, output) in rows.into_values() {
            let group = groups.entry(members).or_default();
            *group = (group.0 + input, group.1 + output);
        }
        let groups = groups.into_iter().map(|(members, (input, output))| SampledGroup {
            members,
            input_bytes: input as u64,
            output_bytes: output as u64,
        });
        SampledOverlap { runs: plan.runs.clone(), groups: groups.collect() }
    }
}

/// Divides sorted entries into the contents of SSTables.
fn cut(entries: Vec<Entry>, layout: &Layout, population: &Population) -> Vec<Vec<Entry>> {
    if let Split::Windows { window_us, windows_max } = &layout.split {
        let mut windows: BTreeMap<i64, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            let window = entry.timestamp_us.div_euclid(*window_us) * window_us;
            let is_open = windows.contains_key(&window) || windows.len() < *windows_max;
            let nearest = || *windows.keys().min_by_key(|open| open.abs_diff(window)).expect("some are open");
            let window = if is_open { window } else { nearest() };
            windows.entry(window).or_default().push(entry);
        }
        let each = Layout { split: Split::Nowhere, ..layout.clone() };
        return windows.into_values().flat_map(|entries| cut(entries, &each, population)).collect();
    }
    let part = |place: RowId| {
        let key = population.key(place.partition());
        match &layout.split {
            Split::Tokens(tokens) => Some(tokens.partition_point(|token| *token < key.token())),
            Split::Runs(pieces) => RunPiece::of(pieces, key),
            Split::Nowhere | Split::Windows { .. } => None,
        }
    };
    // Inside a partition only fragments of a run are cut, as in the engine: SSTables of a level that share a
    // partition would be merged again and again.
    let is_divisible = layout.is_run && layout.level == 0;
    let max_bytes = layout.max_bytes.map_or(f64::INFINITY, |max| max as f64);
    let mut pieces: Vec<Vec<Entry>> = vec![];
    let (mut bytes, mut partition_bytes, mut at) = (0.0, 0.0, None);
    for entry in entries {
        let here = part(entry.place);
        let last = pieces.last().map(|piece| piece[piece.len() - 1].place.partition());
        let is_next = last.is_some_and(|last| last != entry.place.partition());
        let is_inside = is_divisible && !is_next && partition_bytes >= max_bytes;
        if pieces.is_empty() || is_inside || (is_next && (bytes >= max_bytes || here != at)) {
            pieces.push(vec![]);
            (bytes, partition_bytes) = (0.0, 0.0);
        }
        if is_next {
            partition_bytes = 0.0;
        }
        (bytes, partition_bytes, at) = (bytes + entry.bytes(), partition_bytes + entry.bytes(), here);
        pieces.last_mut().expect("one was begun").push(entry);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fragments_of_a_run_divide_a_partition() {
        let population = Population::new(4.0, 8.0, 32.0);
        let entries: Vec<Entry> = (0..4)
            .flat_map(|partition| (0..8).map(move |row| RowId::new(partition, row)))
            .map(|place| Entry::row(place, 1, NO_DELETION_TIME_S, 10.0))
            .collect();
        let lens = |layout: &Layout| {
            let pieces = cut(entries.clone(), layout, &population);
            pieces.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(lens(&Layout::level(1, 90)), [16, 16]);
        assert_eq!(lens(&Layout::run(90)), [16, 16]);
        assert_eq!(lens(&Layout::level(1, 30)), [8, 8, 8, 8]);
        assert_eq!(lens(&Layout::run(30)), [3, 3, 5, 3, 5, 3, 5, 3, 2]);
        assert_eq!(lens(&Layout::whole()), [32]);
    }
}
