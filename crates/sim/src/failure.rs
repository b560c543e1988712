//! The failure of a seed: the checker that detected it, and its text.

use std::any::Any;
use std::fmt;

use runtime::sim::SimStop;

/// The checkers of the simulation. Each guards a promise, and `sim --break` shows that each can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// After a restart a table has the acknowledged writes, and each other write whole or not at all.
    Restart,
    /// After a restart all writes of a batch are there, or none.
    Batches,
    /// While the node runs, every read of an idle table returns the model's content.
    Running,
    /// A partition that is read during writes has the earlier acknowledged writes, and each write whole.
    Meanwhile,
    /// The pages of a read, with other operations between them, are together what one read would return.
    Pages,
    /// What a secondary index finds is what a scan finds and a filter leaves.
    Indexes,
    /// A read of damaged files returns the correct data, or an error.
    Decay,
    /// Conditional writes and counters are linearizable.
    Linear,
    /// A restart finds the schema before or after a change, and each completed change.
    Schema,
    /// The directory opens, and no SSTable is missing.
    Opens,
    /// Every error of a client has a reason.
    Errors,
    /// Scrub and verify find no damage where there is none.
    Undamaged,
    /// An idle node has no unfinished files.
    Strays,
    /// When a full disk has space again, writes resume.
    Resumes,
    /// Every operation ends.
    Ends,
    /// No assertion of the node fails.
    Panics,
    /// The same seed ends the same.
    Same,
}

impl Checker {
    pub const ALL: [Self; 17] = [
        Self::Restart,
        Self::Batches,
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

    /// The world stopped during `what`, and not by a planned crash.
    pub fn stopped(what: &str, stop: SimStop) -> Self {
        Self::new(Checker::Ends, format!("{what}: {stop}"))
    }
}

/// The text of a panic of the node, which is a failure like any other.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    format!("panic: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.checker, self.text)
    }
}
