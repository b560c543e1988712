//! What is to be done, and why.

use std::fmt;

use model::PartitionKey;

use crate::view::SSTableId;

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
    /// So much of the inputs is the same partitions, by their sketches.
    Duplicates { ratio: f64 },
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

fn mb(bytes: u64) -> String {
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
            Self::Duplicates { ratio } => write!(f, "{:.0} % are the same partitions", ratio * 100.0),
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
}
