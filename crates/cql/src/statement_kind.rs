//! Kinds of statements: by their timeout, and by their first word.

use syntax::Statement;

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

/// The first word of a statement, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Select,
    Insert,
    Update,
    Delete,
    Batch,
    Other,
}

impl Verb {
    pub const ALL: [Self; 6] =
        [Self::Select, Self::Insert, Self::Update, Self::Delete, Self::Batch, Self::Other];

    pub(crate) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Select(_) => Self::Select,
            Statement::Insert(_) => Self::Insert,
            Statement::Update(_) => Self::Update,
            Statement::Delete(_) => Self::Delete,
            Statement::Batch(_) => Self::Batch,
            _ => Self::Other,
        }
    }
}
