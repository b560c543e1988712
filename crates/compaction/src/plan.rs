//! What is to be done, and why.

use std::cmp::Ordering;
use std::fmt;

use base::HashMap;
use model::{PartitionKey, RingPosition};

use crate::view::{RunId, SSTableId, SSTableView, TableView};

/// A job: these SSTables are replaced by what their merge gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is merged. None of them is compacting when the plan is made.
    pub inputs: Vec<SSTableId>,
    /// What is dropped without being read: everything in it is expired, and nothing elsewhere needs it.
    pub expired: Vec<SSTableId>,
    pub layout: Layout,
    pub reason: Reason,
    /// Inputs whose partitions have all been merged are released while the job runs, each time an output is sealed.
    pub release_early: bool,
}

/// How the output is cut into SSTables.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The level the SSTables get.
    pub level: u32,
    /// An SSTable ends, at the next partition, after so many bytes of uncompressed data; a partition that is larger
    /// than this by itself is cut between rows if `is_run`. `None`: never.
    pub max_bytes: Option<u64>,
    /// All SSTables of the output are one new run.
    pub is_run: bool,
    pub split: Split,
}

/// Where an SSTable ends whatever its size.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    Nowhere,
    /// Behind each of these tokens, rising.
    Tokens(Vec<i64>),
    /// Each has the writes of one window only: `floor(timestamp / window) * window`, by the timestamp of the cells.
    Windows {
        window_us: i64,
        /// More windows than these at a time go to the nearest one that is open.
        windows_max: usize,
    },
    /// Each piece of the ring goes to a run that is there already, and an SSTable ends where a piece does. The pieces
    /// rise, cover all keys of the inputs, and lie where the rest of their run has nothing: with the inputs gone and
    /// the outputs there, every run is still a run.
    Runs(Vec<RunPiece>),
}

/// Keys behind the piece before and in front of `end` go to `run`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPiece {
    pub end: RingPosition,
    pub run: RunId,
}

impl Plan {
    /// The most disk space the job takes at any time beyond what its inputs have, `None` if an input is not in `view`.
    /// Whoever starts it takes so much off [`crate::DiskView::free_bytes`] until it ends.
    pub fn needs_bytes(&self, view: &TableView<'_>) -> Option<u64> {
        let inputs: Option<Vec<&SSTableView>> = self.inputs.iter().map(|id| view.find(*id)).collect();
        Some(needs_bytes(&inputs?, self.layout.max_bytes, self.release_early))
    }
}

impl RunPiece {
    /// The index of the piece that `key` goes to; `None` if it lies behind all of them.
    pub fn of(pieces: &[Self], key: &PartitionKey) -> Option<usize> {
        let at = pieces.partition_point(|piece| piece.end.side_of(key) == Ordering::Greater);
        (at < pieces.len()).then_some(at)
    }
}

/// The most disk space that a merge of `inputs` takes beyond theirs, if it writes no more bytes than it reads.
///
/// Without early release that is all of them again. With it, when an output is sealed whose last key is k, all inputs
/// up to k are gone: of each run at most one SSTable reaches over k, and what is written and not yet sealed is
/// at most one output. So it is the largest SSTable of each run and one output.
pub fn needs_bytes(inputs: &[&SSTableView], max_bytes: Option<u64>, release_early: bool) -> u64 {
    let disk_bytes: u64 = inputs.iter().map(|input| input.disk_bytes).sum();
    let (true, Some(max_bytes)) = (release_early, max_bytes) else { return disk_bytes };
    let mut largest: HashMap<RunId, u64> = HashMap::default();
    for input in inputs {
        let bytes = largest.entry(input.run).or_default();
        *bytes = input.disk_bytes.max(*bytes);
    }
    let data_bytes: u64 = inputs.iter().map(|input| input.data_bytes).sum();
    let output_bytes = max_bytes as f64 * disk_bytes as f64 / data_bytes.max(1) as f64;
    // A partition may take an output past its size; the largest input tells how far.
    let output_bytes = (output_bytes.ceil() as u64).max(largest.values().copied().max().unwrap_or(0));
    (largest.values().sum::<u64>() + output_bytes).min(disk_bytes)
}

impl Layout {
    /// One SSTable, whatever its size.
    pub fn whole() -> Self {
        Self { level: 0, max_bytes: None, is_run: false, split: Split::Nowhere }
    }

    /// A run of fragments.
    pub fn run(fragment_bytes: u64) -> Self {
        Self { level: 0, max_bytes: Some(fragment_bytes), is_run: true, split: Split::Nowhere }
    }

    /// SSTables of a level.
    pub fn level(level: u32, max_bytes: u64) -> Self {
        Self { level, max_bytes: Some(max_bytes), is_run: level > 0, split: Split::Nowhere }
    }
}

/// Why a strategy made a plan; its text is shown to users.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// So many SSTables or runs are of about the same size.
    SimilarSizes { runs: usize, average_bytes: u64 },
    /// Fewer than usual, since there is nothing better to do.
    FewSimilarSizes { runs: usize, average_bytes: u64 },
    /// A level has more bytes than it should.
    LevelTooLarge { level: u32, bytes: u64, target_bytes: u64 },
    /// Level 0 goes to level 1.
    LevelZero { sstables: usize },
    /// Too many SSTables in level 0: they are merged among themselves first.
    LevelZeroBehind { sstables: usize },
    /// A level is pushed up, so that the next is ten times as large.
    LevelRatio { level: u32 },
    /// An SSTable overlaps nothing in the next level: it is enough to give it that level, by its Statistics.db alone.
    /// Rewriting it does the same.
    Uplevel { level: u32 },
    /// SSTables of a level overlap, which they must not.
    LevelOverlap { level: u32, sstables: usize },
    /// A window is over: all it has becomes one.
    WindowClosed { window_us: i64, sstables: usize },
    /// Many SSTables of a window that still gets writes.
    WindowSimilarSizes { window_us: i64, sstables: usize },
    /// So many overlap each other at a level of density.
    Overlap { level: u32, overlap: usize },
    /// The two largest tiers together take more than the goal.
    SpaceAmplification { ratio: f64, goal: f64 },
    /// So much of it is tombstones that may go.
    Tombstones { ratio: f64, threshold: f64 },
    /// A fragment and everything older that overlaps it, to drop what its tombstones delete.
    FragmentTombstones { ratio: f64, overlapping: usize },
    /// So much of the inputs is dead, since they have the same partitions by their sketches, or the same rows by a
    /// sample.
    Duplicates { ratio: f64, sampled: bool },
    /// All in it has expired.
    Expired { sstables: usize },
    /// The disk is short of space: a smaller job than usual.
    DiskShort { needed_bytes: u64, free_bytes: u64 },
    /// The disk is short of space: this has the most bytes that are known to be dead.
    DiskShortDeadBytes { dead_bytes: u64 },
    /// A user asked for it: `nodetool compact`, `scrub`, `cleanup`, …
    Asked(&'static str),
    /// SSTables that came from elsewhere are brought into the strategy's form.
    Reshape { sstables: usize },
}

pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SimilarSizes { runs, average_bytes } => {
                write!(f, "{runs} of about {}", mb(*average_bytes))
            }
            Self::FewSimilarSizes { runs, average_bytes } => {
                write!(f, "nothing else to do: {runs} of about {}", mb(*average_bytes))
            }
            Self::LevelTooLarge { level, bytes, target_bytes } => {
                write!(f, "level {level} has {}, more than {}", mb(*bytes), mb(*target_bytes))
            }
            Self::LevelZero { sstables } => write!(f, "{sstables} of level 0 go to level 1"),
            Self::LevelZeroBehind { sstables } => {
                write!(f, "{sstables} of level 0 are too many: they are merged first")
            }
            Self::LevelRatio { level } => {
                write!(f, "level {level} is pushed up, so that the next is ten times as large")
            }
            Self::Uplevel { level } => write!(f, "it overlaps nothing in level {level}"),
            Self::LevelOverlap { level, sstables } => write!(f, "{sstables} of level {level} overlap"),
            Self::WindowClosed { window_us, sstables } => {
                write!(f, "the window from {window_us} us is closed: its {sstables} become one")
            }
            Self::WindowSimilarSizes { window_us, sstables } => {
                write!(f, "{sstables} of about the same size in the window from {window_us} us")
            }
            Self::Overlap { level, overlap } => {
                write!(f, "up to {overlap} overlap at level {level} of density")
            }
            Self::SpaceAmplification { ratio, goal } => {
                write!(f, "the two largest tiers take {ratio:.2} times the space, the goal is {goal:.2}")
            }
            Self::Tombstones { ratio, threshold } => {
                write!(f, "{:.0} % of it may be dropped, from {:.0} % on", ratio * 100.0, threshold * 100.0)
            }
            Self::FragmentTombstones { ratio, overlapping } => {
                let percent = ratio * 100.0;
                write!(f, "{percent:.0} % of a fragment may be dropped, with {overlapping} that overlap it")
            }
            Self::Duplicates { ratio, sampled } => {
                let by = if *sampled { "a sample" } else { "sketches" };
                write!(f, "{:.0} % of it is dead, by {by} of what they share", ratio * 100.0)
            }
            Self::Expired { sstables } => write!(f, "all in {sstables} has expired"),
            Self::DiskShort { needed_bytes, free_bytes } => {
                write!(f, "the usual job needs {}, {} are free", mb(*needed_bytes), mb(*free_bytes))
            }
            Self::DiskShortDeadBytes { dead_bytes } => {
                write!(f, "the disk is short of space, and {} here are dead", mb(*dead_bytes))
            }
            Self::Asked(what) => f.write_str(what),
            Self::Reshape { sstables } => write!(f, "{sstables} from elsewhere are brought into form"),
        }
    }
}

/// What became of a plan, for the strategy that made it.
#[derive(Clone, Debug)]
pub struct Finished<'a> {
    pub plan: &'a Plan,
    /// The least level of its inputs.
    pub input_level: u32,
    /// The largest key of the outputs; `None` if nothing was left.
    pub last_key: Option<PartitionKey>,
    /// Bytes of Data.db before compression, all inputs and all outputs.
    pub input_bytes: u64,
    pub output_bytes: u64,
}
