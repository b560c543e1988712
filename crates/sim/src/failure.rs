//! What a seed fails with: the checker that saw it, and what it saw.

use std::fmt;

use runtime::sim::SimStop;

/// The checkers of the simulation. Each guards a promise, and `sim --break` shows that each can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// After a restart a table shows what was acknowledged, and of the rest each write whole or not at all.
    Restart,
    /// While the node runs, every read of a quiet table shows what the model says.
    Running,
    /// A partition that is read while others write shows what was acknowledged before, and each write whole.
    Meanwhile,
    /// The pages of a read, with other work between them, are together what one read would show.
    Pages,
    /// What a secondary index finds is what a scan finds and a filter leaves.
    Indexes,
    /// Over damaged files a read shows what is right, or an error.
    Decay,
    /// Conditional writes and counters have an order that explains each answer.
    Linear,
    /// A restart finds the schema before a change or after it, and each finished change.
    Schema,
    /// The directory opens, and no SSTable is missed in it.
    Opens,
    /// Every error that a client gets has a reason.
    Errors,
    /// A scrub and a verify find nothing where nothing is damaged.
    Undamaged,
    /// A node that does nothing has no unfinished files.
    Strays,
    /// When a full disk has space again, writes resume.
    Resumes,
    /// Everything that was begun ends.
    Ends,
    /// No assertion of the node fails.
    Panics,
    /// The same seed ends the same.
    Same,
}

impl Checker {
    pub const ALL: [Self; 16] = [
        Self::Restart,
        Self::Running,
        Self::Meanwhile,
        Self::Pages,
        Self::Indexes,
        Self::Decay,
        Self::Linear,
        Self::Schema,
        Self::Opens,
        Self::Errors,
        Self::Undamaged,
        Self::Strays,
        Self::Resumes,
        Self::Ends,
        Self::Panics,
        Self::Same,
    ];
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Failure {
    pub checker: Checker,
    pub text: String,
}

impl Failure {
    pub fn new(checker: Checker, text: impl Into<String>) -> Self {
        Self { checker, text: text.into() }
    }

    /// The world stopped during `what`, and not by a crash that was planned.
    pub fn stopped(what: &str, stop: SimStop) -> Self {
        Self::new(Checker::Ends, format!("{what}: {stop}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.checker, self.text)
    }
}
