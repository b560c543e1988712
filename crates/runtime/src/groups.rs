//! Table of CPU groups, with their names and shares: one for all shards of a runtime.
//!
//! Any thread may change the table; changes are rare. A shard applies a change at its next turn. The number
//! of a removed group is reused, so a group should be removed only when no task is spawned into it any more;
//! its remaining tasks continue to run.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{array, fmt};

use crate::group::{CpuGroup, GROUPS_MAX};

/// The groups of a runtime. See the head of the file.
#[derive(Debug)]
pub struct Groups {
    names: Mutex<[Option<String>; GROUPS_MAX]>,
    shares: [AtomicU32; GROUPS_MAX],
    /// How often each number was given to a new group.
    generations: [AtomicU32; GROUPS_MAX],
    /// Incremented by each change.
    version: AtomicU64,
}

/// A group could not be created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// All numbers are in use.
    TooMany,
    /// Another group has this name.
    NameTaken(String),
    /// The group was removed, or is one that always exists.
    NotCreated,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "there are {GROUPS_MAX} scheduling groups already, {} of them always; remove one",
                CpuGroup::ALL.len()
            ),
            Self::NameTaken(name) => write!(f, "there is a scheduling group {name} already"),
            Self::NotCreated => {
                f.write_str("only scheduling groups that were created can be renamed or removed")
            }
        }
    }
}

impl std::error::Error for GroupError {}

impl Default for Groups {
    fn default() -> Self {
        let of = |index: usize| CpuGroup::of_index(index).at_start();
        Self {
            names: Mutex::new(array::from_fn(|index| {
                Some(of(index).0.to_owned()).filter(|name| !name.is_empty())
            })),
            shares: array::from_fn(|index| AtomicU32::new(of(index).1)),
            generations: array::from_fn(|_| AtomicU32::new(0)),
            version: AtomicU64::new(1),
        }
    }
}

impl Groups {
    /// Creates a group. It exists on every shard under the same number.
    pub fn create(&self, name: &str, shares: u32) -> Result<CpuGroup, GroupError> {
        let mut names = self.lock();
        check_free(&names, name)?;
        let index = names.iter().position(Option::is_none).ok_or(GroupError::TooMany)?;
        names[index] = Some(name.to_owned());
        self.generations[index].fetch_add(1, Ordering::Relaxed);
        self.set_shares(CpuGroup::of_index(index), shares);
        Ok(CpuGroup::of_index(index))
    }

    /// Renames a created group.
    pub fn rename(&self, group: CpuGroup, name: &str) -> Result<(), GroupError> {
        let mut names = self.lock();
        check_free(&names, name)?;
        *created(&mut names, group)? = Some(name.to_owned());
        Ok(())
    }

    /// Removes a created group.
    pub fn remove(&self, group: CpuGroup) -> Result<(), GroupError> {
        *created(&mut self.lock(), group)? = None;
        Ok(())
    }

    /// Changes the shares of a group and of its I/O class on all shards. 0 counts as 1.
    pub fn set_shares(&self, group: CpuGroup, shares: u32) {
        self.shares[group.index()].store(shares.max(1), Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The shares of a group in the table; a shard may have set its own.
    pub fn shares(&self, group: CpuGroup) -> u32 {
        self.shares[group.index()].load(Ordering::Relaxed)
    }

    /// The name of a group; `None` if it does not exist.
    pub fn name(&self, group: CpuGroup) -> Option<String> {
        self.lock()[group.index()].clone()
    }

    /// The group with a name.
    pub fn by_name(&self, name: &str) -> Option<CpuGroup> {
        self.lock().iter().position(|known| known.as_deref() == Some(name)).map(CpuGroup::of_index)
    }

    /// All existing groups and their names.
    pub fn list(&self) -> Vec<(CpuGroup, String)> {
        let names = self.lock();
        let named = names.iter().enumerate().filter_map(|(index, name)| Some((index, name.clone()?)));
        named.map(|(index, name)| (CpuGroup::of_index(index), name)).collect()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn generation(&self, index: usize) -> u32 {
        self.generations[index].load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, [Option<String>; GROUPS_MAX]> {
        // Each change is one assignment, so the table is consistent even after a panic of a thread that held
        // the lock.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_free(names: &[Option<String>; GROUPS_MAX], name: &str) -> Result<(), GroupError> {
    match names.iter().flatten().any(|known| known == name) {
        true => Err(GroupError::NameTaken(name.to_owned())),
        false => Ok(()),
    }
}

fn created(
    names: &mut [Option<String>; GROUPS_MAX],
    group: CpuGroup,
) -> Result<&mut Option<String>, GroupError> {
    let name = &mut names[group.index()];
    let is_created = matches!(group, CpuGroup::Created(_)) && name.is_some();
    if is_created { Ok(name) } else { Err(GroupError::NotCreated) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_and_go() {
        let groups = Groups::default();
        let olap = groups.create("sl:olap", 200).unwrap();
        assert_eq!(groups.by_name("sl:olap"), Some(olap));
        assert_eq!(groups.create("sl:olap", 1), Err(GroupError::NameTaken("sl:olap".to_owned())));
        groups.rename(olap, "sl:batch").unwrap();
        assert_eq!((groups.name(olap).as_deref(), groups.shares(olap)), (Some("sl:batch"), 200));
        groups.set_shares(olap, 0);
        assert_eq!(groups.shares(olap), 1);
        groups.remove(olap).unwrap();
        assert_eq!(groups.remove(olap), Err(GroupError::NotCreated));
        assert_eq!(groups.remove(CpuGroup::Statement), Err(GroupError::NotCreated));
        assert_eq!(groups.list().len(), CpuGroup::ALL.len());
    }

    #[test]
    fn there_is_a_limit() {
        let groups = Groups::default();
        let made = (0..).map_while(|at| groups.create(&format!("sl:{at}"), 1).ok()).count();
        assert_eq!(made, GROUPS_MAX - CpuGroup::ALL.len());
        assert_eq!(groups.create("one more", 1), Err(GroupError::TooMany));
    }
}
