//! Scheduling groups: the CPU group of a task, and the class of an I/O request.
//!
//! Some groups always exist; others are created while the runtime runs (`Groups`). An I/O class belongs to
//! the group with the same number and has its shares.

use iosched::CLASSES_MAX;

/// The largest number of groups at a time.
pub const GROUPS_MAX: usize = CLASSES_MAX;

/// The CPU group of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuGroup {
    /// Statements, for which clients wait.
    Statement,
    /// Flushes of memtables.
    Memtable,
    /// Writes and syncs of the commit log.
    CommitLog,
    /// Merges of SSTables.
    Compaction,
    /// Repair, scrub, snapshots, start-up.
    Maintenance,
    /// Work that may wait for everything else.
    Background,
    /// Transfers of flushed rows into caches.
    MemtableToCache,
    /// A group made by [`Groups::create`](crate::Groups::create).
    Created(GroupSlot),
}

/// Number of a created group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSlot(u8);

impl CpuGroup {
    /// The groups that always exist, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Statement,
        Self::Memtable,
        Self::CommitLog,
        Self::Compaction,
        Self::Maintenance,
        Self::Background,
        Self::MemtableToCache,
    ];

    /// The number of the group, less than [`GROUPS_MAX`].
    pub fn index(self) -> usize {
        match self {
            Self::Statement => 0,
            Self::Memtable => 1,
            Self::CommitLog => 2,
            Self::Compaction => 3,
            Self::Maintenance => 4,
            Self::Background => 5,
            Self::MemtableToCache => 6,
            Self::Created(slot) => usize::from(slot.0),
        }
    }

    /// The group with a number.
    pub(crate) fn of_index(index: usize) -> Self {
        Self::ALL.get(index).copied().unwrap_or(Self::Created(GroupSlot(index as u8)))
    }

    /// The class of I/O that tasks of the group do on their own behalf. Groups without a class of their own
    /// use the class of memtable flushes or of maintenance.
    pub fn io_class(self) -> IoClass {
        match self {
            Self::Statement => IoClass::Statement,
            Self::Memtable | Self::MemtableToCache => IoClass::MemtableFlush,
            Self::CommitLog => IoClass::CommitLog,
            Self::Compaction => IoClass::Compaction,
            Self::Maintenance | Self::Background => IoClass::Maintenance,
            Self::Created(slot) => IoClass::Created(slot),
        }
    }

    /// Whether clients wait for the tasks of the group.
    pub(crate) fn is_foreground(self) -> bool {
        matches!(self, Self::Statement | Self::CommitLog | Self::Created(_))
    }

    /// Initial name and shares.
    pub(crate) fn at_start(self) -> (&'static str, u32) {
        match self {
            Self::Statement => ("statement", 1000),
            Self::Memtable => ("memtable", 1000),
            Self::CommitLog => ("commitlog", 1000),
            Self::Compaction => ("compaction", 200),
            Self::Maintenance => ("maintenance", 200),
            Self::Background => ("background", 100),
            Self::MemtableToCache => ("memtable_to_cache", 200),
            Self::Created(_) => ("", 1000),
        }
    }
}

/// The class of an I/O request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    CommitLog,
    Statement,
    MemtableFlush,
    Compaction,
    Maintenance,
    /// The class of a created group.
    Created(GroupSlot),
}

impl IoClass {
    /// The classes that always exist.
    pub const ALL: [Self; 5] =
        [Self::CommitLog, Self::Statement, Self::MemtableFlush, Self::Compaction, Self::Maintenance];

    /// The group whose number and shares the class has.
    pub fn group(self) -> CpuGroup {
        match self {
            Self::CommitLog => CpuGroup::CommitLog,
            Self::Statement => CpuGroup::Statement,
            Self::MemtableFlush => CpuGroup::Memtable,
            Self::Compaction => CpuGroup::Compaction,
            Self::Maintenance => CpuGroup::Maintenance,
            Self::Created(slot) => CpuGroup::Created(slot),
        }
    }

    /// The number of the class, less than [`GROUPS_MAX`].
    pub fn index(self) -> usize {
        self.group().index()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_number() {
        assert!(CpuGroup::ALL.iter().enumerate().all(|(at, group)| group.index() == at));
        assert!((0..GROUPS_MAX).all(|index| CpuGroup::of_index(index).index() == index));
        assert!(IoClass::ALL.iter().all(|class| class.group().io_class() == *class));
    }
}
