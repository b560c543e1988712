//! Compaction jobs and the reasons for them.

use std::cmp::Ordering;
use std::fmt;

use base::HashMap;
use model::{PartitionKey, RingPosition};

use crate::sstable_id::{RunId, SSTableId};
use crate::view::{SSTableView, TableView};

/// A job: merges SSTables and replaces them by the outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The SSTables to merge. None of them is compacting when the plan is made.
    pub inputs: Vec<SSTableId>,
    /// SSTables dropped without being read: all their data is expired, and no other SSTable needs their
    /// tombstones.
    pub expired: Vec<SSTableId>,
    /// How the output is cut into SSTables, and their level and run.
    pub layout: Layout,
    /// Why the job is done.
    pub reason: Reason,
    /// Whether inputs are released while the job runs: each time an output is sealed, those whose partitions
    /// have all been merged.
    pub release_early: bool,
}

/// How the output is divided into SSTables.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The level of the output SSTables.
    pub level: u32,
    /// Maximum size of an output SSTable in bytes of uncompressed data. The SSTable ends at the next
    /// partition; a single larger partition is divided between rows if `is_run`. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Whether all SSTables of the output form one new run.
    pub is_run: bool,
    /// Where the output is cut besides by size.
    pub split: Split,
}

/// Where output SSTables end, independent of their size.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// By size alone.
    Nowhere,
    /// After each of these tokens, in ascending order.
    Tokens(Vec<i64>),
    /// Each output has the writes of one window only: `floor(timestamp / window) * window`, by the timestamp
    /// of the cells.
    Windows {
        /// Length of a window.
        window_us: i64,
        /// Maximum number of open windows. Writes of further windows go to the nearest open window.
        windows_max: usize,
    },
    /// Each piece of the ring is added to an existing run, and an SSTable ends at the end of each piece. The
    /// pieces are in ascending order, cover all keys of the inputs, and lie where the rest of their run has
    /// no data. After the job, every run is therefore still free of overlaps.
    Runs(Vec<RunPiece>),
}

/// The keys after the previous piece and before `end` go to `run`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPiece {
    /// The piece ends before this position; the next one begins there.
    pub end: RingPosition,
    /// The run of the piece's SSTables.
    pub run: RunId,
}

impl Plan {
    /// The largest disk space that the job takes at any time in addition to its inputs; `None` if an input is
    /// not in `view`. The caller subtracts it from [`crate::DiskView::free_bytes`] while the job runs.
    pub fn needs_bytes(&self, view: &TableView<'_>) -> Option<u64> {
        let inputs: Option<Vec<&SSTableView>> = self.inputs.iter().map(|id| view.find(*id)).collect();
        Some(needs_bytes(&inputs?, self.layout.max_bytes, self.release_early))
    }
}

impl RunPiece {
    /// The index of the piece that contains `key`; `None` if the key is after all pieces.
    pub fn of(pieces: &[Self], key: &PartitionKey) -> Option<usize> {
        let at = pieces.partition_point(|piece| piece.end.side_of(key) == Ordering::Greater);
        (at < pieces.len()).then_some(at)
    }
}

/// The largest disk space that a merge of `inputs` takes in addition to them, if it writes no more bytes than
/// it reads.
///
/// Without early release this is the size of all inputs. With early release, once an output with the last key
/// k is sealed, all inputs up to k are removed. Of each run, at most one SSTable contains k and is still
/// there, and at most one output is being written. The space is therefore the largest SSTable of each run
/// plus one output.
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
    // A large partition may exceed the output size. The largest input bounds the excess.
    let output_bytes = (output_bytes.ceil() as u64).max(largest.values().copied().max().unwrap_or(0));
    (largest.values().sum::<u64>() + output_bytes).min(disk_bytes)
}

impl Layout {
    /// One SSTable of any size.
    pub fn whole() -> Self {
        Self { level: 0, max_bytes: None, is_run: false, split: Split::Nowhere }
    }

    /// A run of fragments, each of at most `fragment_bytes`.
    pub fn run(fragment_bytes: u64) -> Self {
        Self { level: 0, max_bytes: Some(fragment_bytes), is_run: true, split: Split::Nowhere }
    }

    /// SSTables of a level.
    pub fn level(level: u32, max_bytes: u64) -> Self {
        Self { level, max_bytes: Some(max_bytes), is_run: level > 0, split: Split::Nowhere }
    }
}

/// Why a strategy made a plan. The text is shown to users.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Several SSTables or runs have about the same size.
    SimilarSizes {
        /// Number of inputs.
        runs: usize,
        /// Their average size.
        average_bytes: u64,
    },
    /// Fewer than `min_threshold` runs of about the same size, merged because there is no better job.
    FewSimilarSizes {
        /// Number of inputs.
        runs: usize,
        /// Their average size.
        average_bytes: u64,
    },
    /// A level has more bytes than its target.
    LevelTooLarge {
        /// The level.
        level: u32,
        /// The level's size.
        bytes: u64,
        /// The size that it should have.
        target_bytes: u64,
    },
    /// Level 0 is merged into level 1.
    LevelZero {
        /// Number of inputs.
        sstables: usize,
    },
    /// Level 0 has too many SSTables; they are first merged with each other.
    LevelZeroBehind {
        /// Number of inputs.
        sstables: usize,
    },
    /// A level is merged upwards so that the next level is ten times as large.
    LevelRatio {
        /// The level.
        level: u32,
    },
    /// An SSTable overlaps nothing in the next level. It is enough to set its level in Statistics.db;
    /// rewriting it has the same effect.
    Uplevel {
        /// The level.
        level: u32,
    },
    /// SSTables of a level overlap, which is not allowed.
    LevelOverlap {
        /// The level.
        level: u32,
        /// Number of inputs.
        sstables: usize,
    },
    /// A window is closed: all its SSTables are merged into one.
    WindowClosed {
        /// Start of the window, in microseconds since 1970.
        window_us: i64,
        /// Number of inputs.
        sstables: usize,
    },
    /// Many SSTables of a window that still gets writes.
    WindowSimilarSizes {
        /// Start of the window, in microseconds since 1970.
        window_us: i64,
        /// Number of inputs.
        sstables: usize,
    },
    /// Too many SSTables of a density level overlap each other.
    Overlap {
        /// The level.
        level: u32,
        /// The largest number of SSTables that overlap at one point.
        overlap: usize,
    },
    /// The two largest tiers together exceed the space amplification goal.
    SpaceAmplification {
        /// The measured ratio.
        ratio: f64,
        /// The goal of the option.
        goal: f64,
    },
    /// A large fraction of the SSTable is droppable tombstones.
    Tombstones {
        /// The measured ratio.
        ratio: f64,
        /// The threshold of the option.
        threshold: f64,
    },
    /// A fragment and all older data that overlaps it, to purge its tombstones and the data that they delete.
    FragmentTombstones {
        /// The measured ratio.
        ratio: f64,
        /// Number of overlapping SSTables in the job.
        overlapping: usize,
    },
    /// A large fraction of the inputs is dead, because they contain the same partitions (estimated by
    /// sketches) or the same rows (measured on a sample).
    Duplicates {
        /// The measured ratio.
        ratio: f64,
        /// Whether the ratio was measured on a sample; else sketches gave it.
        sampled: bool,
    },
    /// All data in the SSTables has expired.
    Expired {
        /// Number of inputs.
        sstables: usize,
    },
    /// Disk space is short, so a smaller job than usual was chosen.
    DiskShort {
        /// Disk space that the usual job needs.
        needed_bytes: u64,
        /// Disk space that is free.
        free_bytes: u64,
    },
    /// No job fits into the disk budget. This is the smallest job; the budget is exceeded until it ends.
    BudgetTooSmall {
        /// Disk space that the usual job needs.
        needed_bytes: u64,
        /// Disk space that is free.
        free_bytes: u64,
    },
    /// Disk space is short; this job has the most bytes that are known to be dead.
    DiskShortDeadBytes {
        /// Bytes that are known to be dead.
        dead_bytes: u64,
    },
    /// Requested by a user: `nodetool compact`, `scrub`, `cleanup`, …
    Asked(&'static str),
    /// SSTables from elsewhere are brought into the strategy's form.
    Reshape {
        /// Number of inputs.
        sstables: usize,
    },
}

/// In MB; less than 0.1 MB in kB.
pub(crate) fn mb(bytes: u64) -> String {
    match bytes {
        1..100_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SimilarSizes { runs, average_bytes } => {
                write!(f, "{runs} of about {}", mb(*average_bytes))
            }
            Self::FewSimilarSizes { runs, average_bytes } => {
                write!(f, "no other job: {runs} of about {}", mb(*average_bytes))
            }
            Self::LevelTooLarge { level, bytes, target_bytes } => {
                write!(f, "level {level} has {}, more than {}", mb(*bytes), mb(*target_bytes))
            }
            Self::LevelZero { sstables } => write!(f, "{sstables} of level 0 move to level 1"),
            Self::LevelZeroBehind { sstables } => {
                write!(f, "{sstables} of level 0 are too many: they are merged first")
            }
            Self::LevelRatio { level } => {
                write!(f, "level {level} is pushed up, so that the next is ten times as large")
            }
            Self::Uplevel { level } => write!(f, "it overlaps nothing in level {level}"),
            Self::LevelOverlap { level, sstables } => write!(f, "{sstables} of level {level} overlap"),
            Self::WindowClosed { window_us, sstables } => {
                write!(f, "the window from {window_us} us is closed: its {sstables} are merged into one")
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
                write!(
                    f,
                    "{:.0} % of it may be dropped; the threshold is {:.0} %",
                    ratio * 100.0,
                    threshold * 100.0
                )
            }
            Self::FragmentTombstones { ratio, overlapping } => {
                let percent = ratio * 100.0;
                write!(f, "{percent:.0} % of a fragment may be dropped, with {overlapping} that overlap it")
            }
            Self::Duplicates { ratio, sampled } => {
                let by = if *sampled { "a sample" } else { "sketches" };
                write!(f, "{:.0} % of it is dead, by {by} of the shared data", ratio * 100.0)
            }
            Self::Expired { sstables } => write!(f, "all in {sstables} has expired"),
            Self::DiskShort { needed_bytes, free_bytes } => {
                write!(f, "the usual job needs {}, {} are free", mb(*needed_bytes), mb(*free_bytes))
            }
            Self::BudgetTooSmall { needed_bytes, free_bytes } => write!(
                f,
                "the smallest job needs {}, disk_budget leaves {}: the budget is exceeded temporarily",
                mb(*needed_bytes),
                mb(*free_bytes)
            ),
            Self::DiskShortDeadBytes { dead_bytes } => {
                write!(f, "the disk is short of space, and {} here are dead", mb(*dead_bytes))
            }
            Self::Asked(what) => f.write_str(what),
            Self::Reshape { sstables } => {
                write!(f, "{sstables} from elsewhere are brought into the strategy's form")
            }
        }
    }
}

/// The result of a plan, for the strategy that made it.
#[derive(Clone, Debug)]
pub struct Finished<'a> {
    /// The plan of the job.
    pub plan: &'a Plan,
    /// The lowest level of the inputs.
    pub input_level: u32,
    /// The largest key of the outputs; `None` if there are no outputs.
    pub last_key: Option<PartitionKey>,
    /// Bytes of Data.db before compression: of all inputs, and of all outputs.
    pub input_bytes: u64,
    /// See `input_bytes`.
    pub output_bytes: u64,
}
