//! The candidates that a strategy considered and why it took or rejected each: the answer to "why does it not
//! compact?".

use std::borrow::Cow;
use std::fmt;

use crate::plan::{Plan, mb};

/// Everything that a strategy considered for one decision, in the order of consideration.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Name of the strategy, as in `compaction = {'class': …}`.
    pub strategy: &'static str,
    /// Number of SSTables of the table on the shard.
    pub sstables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The rules that were tried, in order.
    pub attempts: Vec<Attempt>,
    /// The resulting plan; `None` if there is no job.
    pub plan: Option<Plan>,
}

/// One rule of a strategy, and the candidates to which it was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Name of the rule, and of the level or window if it is applied to several.
    pub rule: Cow<'static, str>,
    /// In the order of consideration; empty if the rule had no candidates.
    pub candidates: Vec<Candidate>,
}

/// SSTables that might be merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Number of its runs.
    pub runs: usize,
    /// Bytes of its runs.
    pub bytes: u64,
    /// Estimate of their dead bytes; `None` if the rule does not use it.
    pub dead_bytes: Option<u64>,
    /// Why it was taken or not.
    pub verdict: Verdict,
}

/// Why a candidate was taken or not.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is the plan.
    Taken,
    /// Another candidate was better, or an earlier rule had one.
    Behind,
    /// It has fewer runs than the rule needs.
    TooFew {
        /// The number that the rule needs.
        least: usize,
    },
    /// A level has fewer bytes than it may have.
    BelowTarget {
        /// The bytes that it may have.
        target_bytes: u64,
    },
    /// Too few of its SSTables overlap at one place.
    OverlapTooSmall {
        /// The most SSTables that overlap at one place.
        overlap: usize,
        /// The number from which on they are merged.
        threshold: usize,
    },
    /// Other SSTables may have older data that its tombstones delete.
    Overlapped,
    /// The merge would free too few bytes for the bytes that it writes.
    GainTooSmall {
        /// Bytes that the merge would free, per byte that it writes.
        gain: f64,
        /// The least gain with which the rule takes it.
        threshold: f64,
    },
    /// Too small a part of it is droppable.
    RatioTooSmall {
        /// The part of it that is droppable, from 0 to 1.
        ratio: f64,
        /// The part from which on it would be taken.
        threshold: f64,
    },
    /// It was written too recently to be merged.
    TooYoung {
        /// Seconds since it was written.
        age_s: u32,
        /// Seconds after which it may be merged.
        least_s: u32,
    },
    /// The job temporarily needs more disk space than is free.
    DoesNotFit {
        /// Disk space that the job needs while it runs.
        needs_bytes: u64,
        /// Disk space that is free.
        free_bytes: u64,
    },
    /// A running job uses some of its SSTables.
    Busy,
    /// The rule is switched off or does not apply now.
    Off(&'static str),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("taken"),
            Self::Behind => f.write_str("not now: another one is first"),
            Self::TooFew { least } => write!(f, "too few, at least {least}"),
            Self::BelowTarget { target_bytes } => write!(f, "below its target of {}", mb(*target_bytes)),
            Self::OverlapTooSmall { overlap, threshold } => {
                write!(f, "at most {overlap} overlap at one place; the threshold is {threshold}")
            }
            Self::Overlapped => f.write_str("other SSTables may have older data that its tombstones delete"),
            Self::GainTooSmall { gain, threshold } => {
                write!(f, "frees {gain:.2} bytes for each byte written; the threshold is {threshold:.2}")
            }
            Self::RatioTooSmall { ratio, threshold } => {
                write!(
                    f,
                    "{:.0} % of it may be dropped; the threshold is {:.0} %",
                    ratio * 100.0,
                    threshold * 100.0
                )
            }
            Self::TooYoung { age_s, least_s } => {
                write!(f, "written {age_s} s ago; the threshold is {least_s} s")
            }
            Self::DoesNotFit { needs_bytes, free_bytes } => {
                write!(f, "needs {} temporarily, {} are free", mb(*needs_bytes), mb(*free_bytes))
            }
            Self::Busy => f.write_str("a job has some of it"),
            Self::Off(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.runs, mb(self.bytes))?;
        if let Some(dead_bytes) = self.dead_bytes {
            write!(f, ", about {} of them dead", mb(dead_bytes))?;
        }
        write!(f, ": {}", self.verdict)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} SSTables, {}", self.strategy, self.sstables, mb(self.bytes))?;
        for attempt in &self.attempts {
            match attempt.candidates.as_slice() {
                [] => writeln!(f, "  {}: no candidates", attempt.rule)?,
                candidates => {
                    writeln!(f, "  {}:", attempt.rule)?;
                    for candidate in candidates {
                        writeln!(f, "    {candidate}")?;
                    }
                }
            }
        }
        match &self.plan {
            Some(plan) => write!(f, "  result: {} SSTables are merged: {}", plan.inputs.len(), plan.reason),
            None => write!(f, "  result: no job"),
        }
    }
}
