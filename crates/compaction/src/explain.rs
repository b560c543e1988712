//! The candidates that a strategy considered and why it took or rejected each: the answer to "why does it not
//! compact?".

use std::borrow::Cow;
use std::fmt;

use crate::plan::{Plan, mb};

/// Everything that a strategy considered for one decision, in the order of consideration.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub strategy: &'static str,
    pub sstables: usize,
    pub bytes: u64,
    pub attempts: Vec<Attempt>,
    /// The resulting plan; `None` if there is no job.
    pub plan: Option<Plan>,
}

/// One rule of a strategy, and the candidates to which it was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub rule: Cow<'static, str>,
    /// In the order of consideration; empty if the rule had no candidates.
    pub candidates: Vec<Candidate>,
}

/// SSTables that might be merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub runs: usize,
    pub bytes: u64,
    /// Estimate of their dead bytes; `None` if the rule does not use it.
    pub dead_bytes: Option<u64>,
    pub verdict: Verdict,
}

/// Why a candidate was taken or not.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Taken,
    /// Another candidate was better, or an earlier rule had one.
    Behind,
    TooFew {
        least: usize,
    },
    /// A level has fewer bytes than it may have.
    BelowTarget {
        target_bytes: u64,
    },
    /// Too few of its SSTables overlap at one place.
    OverlapTooSmall {
        overlap: usize,
        threshold: usize,
    },
    /// Other SSTables may have older data that its tombstones delete.
    Overlapped,
    /// The merge would free too few bytes for the bytes that it writes.
    GainTooSmall {
        gain: f64,
        threshold: f64,
    },
    /// Too small a part of it is droppable.
    RatioTooSmall {
        ratio: f64,
        threshold: f64,
    },
    /// It was written too recently to be merged.
    TooYoung {
        age_s: u32,
        least_s: u32,
    },
    /// The job temporarily needs more disk space than is free.
    DoesNotFit {
        needs_bytes: u64,
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
