//! Kinds of statements.

/// Kind of a statement. Each kind has its own timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads at most one partition.
    Read,
    /// Reads several partitions: a range of the ring, or keys given by IN.
    Range,
    Write,
    Counter,
    Conditional,
    Truncate,
    Other,
}
