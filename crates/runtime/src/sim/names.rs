//! Names of the simulated disk by directory, changes to names, and the dependencies between changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{HashMap, HashSet};

pub(crate) type InodeId = u64;

/// A name in a directory.
pub(crate) type Name = (InodeId, Rc<str>);

/// The names of all directories.
#[derive(Clone, Default)]
pub(crate) struct Names(HashMap<InodeId, BTreeMap<Rc<str>, InodeId>>);

impl Names {
    pub(crate) fn get(&self, dir: InodeId, name: &str) -> Option<InodeId> {
        self.0.get(&dir)?.get(name).copied()
    }

    pub(crate) fn inside(&self, dir: InodeId) -> impl Iterator<Item = (&Rc<str>, InodeId)> {
        self.0.get(&dir).into_iter().flatten().map(|(name, inode)| (name, *inode))
    }

    pub(crate) fn insert(&mut self, name: &Name, inode: InodeId) -> Option<InodeId> {
        self.0.entry(name.0).or_default().insert(Rc::clone(&name.1), inode)
    }

    /// Removes a name if it refers to `inode`; returns whether it did.
    pub(crate) fn remove_if(&mut self, name: &Name, inode: InodeId) -> bool {
        let Some(dir) = self.0.get_mut(&name.0) else { return false };
        let leads_there = dir.get(&name.1) == Some(&inode);
        if leads_there {
            dir.remove(&name.1);
            if dir.is_empty() {
                self.0.remove(&name.0);
            }
        }
        leads_there
    }

    /// Directories that contain names, in order.
    pub(crate) fn dirs(&self) -> Vec<InodeId> {
        let mut dirs: Vec<InodeId> = self.0.keys().copied().collect();
        dirs.sort_unstable();
        dirs
    }

    pub(crate) fn dir_count(&self) -> usize {
        self.0.len()
    }

    /// Keeps only the names in directories for which `is_kept` is true.
    pub(crate) fn retain_dirs(&mut self, mut is_kept: impl FnMut(InodeId) -> bool) {
        self.0.retain(|dir, _| is_kept(*dir));
    }

    pub(crate) fn inodes(&self) -> impl Iterator<Item = InodeId> {
        self.0.values().flat_map(|dir| dir.values().copied())
    }
}

/// A change of names: removes at most one name and adds at most one.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    pub(crate) number: u64,
    pub(crate) inode: InodeId,
    pub(crate) removes: Option<Name>,
    pub(crate) adds: Option<Name>,
}

impl NameChange {
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        [&self.removes, &self.adds].into_iter().flatten()
    }

    pub(crate) fn touches(&self, dir: InodeId) -> bool {
        self.names().any(|(parent, _)| *parent == dir)
    }
}

/// Files and names that order changes: changes to the same file or the same name are applied in order.
#[derive(Default)]
pub(crate) struct Tied {
    inodes: HashSet<InodeId>,
    names: HashSet<Name>,
}

impl Tied {
    pub(crate) fn ties(&self, change: &NameChange) -> bool {
        self.inodes.contains(&change.inode) || change.names().any(|name| self.names.contains(name))
    }

    pub(crate) fn tie(&mut self, change: &NameChange) {
        self.inodes.insert(change.inode);
        self.names.extend(change.names().cloned());
    }
}
