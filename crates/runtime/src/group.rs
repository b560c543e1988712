//! Whose work it is: the CPU group of a task and the class of an I/O request.
//!
//! Groups have a run queue each, visited round robin; classes are counted. Shares and the fair queue come
//! with the scheduling policy and change neither type.

/// Which CPU group a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuGroup {
    /// Somebody waits for the answer to a statement.
    Statement,
    /// Flushing memtables.
    Memtable,
    /// Writing and syncing the commit log.
    CommitLog,
    /// Merging SSTables.
    Compaction,
    /// Repair, scrub, snapshots, start-up.
    Maintenance,
    /// Whatever may wait for everything else.
    Background,
}

impl CpuGroup {
    /// All groups, in the order of their run queues.
    pub const ALL: [Self; 6] = [
        Self::Statement,
        Self::Memtable,
        Self::CommitLog,
        Self::Compaction,
        Self::Maintenance,
        Self::Background,
    ];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Which class an I/O request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    CommitLog,
    Statement,
    MemtableFlush,
    Compaction,
    Maintenance,
}

impl IoClass {
    /// All classes, in the order of their counters.
    pub const ALL: [Self; 5] =
        [Self::CommitLog, Self::Statement, Self::MemtableFlush, Self::Compaction, Self::Maintenance];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_the_place_in_all() {
        assert!(CpuGroup::ALL.iter().enumerate().all(|(at, group)| group.index() == at));
        assert!(IoClass::ALL.iter().enumerate().all(|(at, class)| class.index() == at));
    }
}
