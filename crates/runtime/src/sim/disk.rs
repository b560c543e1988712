//! The simulated disk's names: directories, files by inode, and which changes to names would survive a loss of power.
//!
//! `current` is what processes see; `durable` what the device holds for certain. A change (create, link, rename,
//! remove) is pending until one of its directories is synced. A loss of power lets each pending change land or not,
//! independently, with two laws: a rename lands whole; a later change to the same file or the same name lands only if
//! the earlier ones did (so that a change never takes a name from another file than the one it was meant for).

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use base::HashSet;
use base::rng::Rng;

use super::inode::FileData;
use crate::files::DirEntry;

pub(crate) type InodeId = u64;

type Names = BTreeMap<(InodeId, String), InodeId>;

const ROOT: InodeId = 0;

#[derive(Clone)]
enum Inode {
    Dir,
    File { data: FileData, open: u32 },
}

/// A change to names: at most one name goes, at most one comes.
#[derive(Clone, Debug)]
struct NameChange {
    number: u64,
    inode: InodeId,
    removes: Option<(InodeId, String)>,
    adds: Option<(InodeId, String)>,
}

impl NameChange {
    fn touches(&self, dir: InodeId) -> bool {
        [&self.removes, &self.adds].into_iter().flatten().any(|(parent, _)| *parent == dir)
    }

    fn apply(&self, names: &mut Names) {
        if let Some(name) = &self.removes
            && names.get(name) == Some(&self.inode)
        {
            names.remove(name);
        }
        if let Some(name) = &self.adds {
            names.insert(name.clone(), self.inode);
        }
    }
}

/// Files and names that tie changes together: those of one file, and those of one name, happen in order.
#[derive(Default)]
struct Tied {
    inodes: HashSet<InodeId>,
    names: HashSet<(InodeId, String)>,
}

impl Tied {
    fn ties(&self, change: &NameChange) -> bool {
        let mut names = [&change.removes, &change.adds].into_iter().flatten();
        self.inodes.contains(&change.inode) || names.any(|name| self.names.contains(name))
    }

    fn tie(&mut self, change: &NameChange) {
        self.inodes.insert(change.inode);
        self.names.extend([&change.removes, &change.adds].into_iter().flatten().cloned());
    }
}

/// A disk without a clock: every operation is instant and infallible but for its own rules.
pub(crate) struct Disk {
    inodes: BTreeMap<InodeId, Inode>,
    current: Names,
    durable: Names,
    pending: Vec<NameChange>,
    numbers: u64,
    used_bytes: u64,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let inodes = BTreeMap::from([(ROOT, Inode::Dir)]);
        Self {
            inodes,
            current: Names::new(),
            durable: Names::new(),
            pending: Vec::new(),
            numbers: 0,
            used_bytes: 0,
        }
    }

    /// Bytes of all files that have a name or are open.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(crate) fn lookup(&self, path: &Path) -> io::Result<InodeId> {
        let mut at = ROOT;
        for name in parts(path)? {
            if !matches!(self.inodes.get(&at), Some(Inode::Dir)) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            at = *self.current.get(&(at, name)).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The directory a path's last name is in, and that name.
    fn parent(&self, path: &Path) -> io::Result<(InodeId, String)> {
        let mut names = parts(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.lookup(&names.iter().collect::<PathBuf>())?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok((dir, last))
    }

    pub(crate) fn is_dir(&self, inode: InodeId) -> bool {
        matches!(self.inodes.get(&inode), Some(Inode::Dir))
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        let name = self.parent(path)?;
        if self.current.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(self.add_new(name, Inode::File { data: FileData::default(), open: 0 }))
    }

    fn add_new(&mut self, name: (InodeId, String), inode: Inode) -> InodeId {
        self.numbers += 1;
        let id = self.numbers;
        self.inodes.insert(id, inode);
        self.change(id, None, Some(name));
        id
    }

    fn change(
        &mut self,
        inode: InodeId,
        removes: Option<(InodeId, String)>,
        adds: Option<(InodeId, String)>,
    ) {
        self.numbers += 1;
        let change = NameChange { number: self.numbers, inode, removes, adds };
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for name in parts(path)? {
            at = match self.current.get(&(at, name.clone())) {
                Some(inode) if self.is_dir(*inode) => *inode,
                Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
                None => self.add_new((at, name), Inode::Dir),
            };
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.lookup(path)?;
        if self.is_dir(inode) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let name = self.parent(path)?;
        self.change_and_recount(inode, Some(name), None);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        let (from, to_name) = (self.parent(from)?, self.parent(to)?);
        let replaced = self.current.get(&to_name).copied();
        match replaced {
            Some(same) if same == inode => return Ok(()),
            Some(other) if self.is_dir(other) => {
                if !self.is_dir(inode) {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                if self.children(other).next().is_some() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
            Some(_) if self.is_dir(inode) => return Err(io::ErrorKind::NotADirectory.into()),
            Some(_) | None => (),
        }
        let before = replaced.map_or(0, |other| self.counted_bytes(other));
        self.change(inode, Some(from), Some(to_name));
        let after = replaced.map_or(0, |other| self.counted_bytes(other));
        self.used_bytes = self.used_bytes + after - before;
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        if self.is_dir(inode) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let name = self.parent(to)?;
        if self.current.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(inode, None, Some(name));
        Ok(())
    }

    pub(crate) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.lookup(path)?;
        if !self.is_dir(inode) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let children: Vec<_> = self.children(inode).map(|(name, id)| (name.to_owned(), id)).collect();
        for (name, child) in children {
            if self.is_dir(child) {
                self.remove_dir_all(&path.join(name))?;
            } else {
                self.change_and_recount(child, Some((inode, name)), None);
            }
        }
        if inode != ROOT {
            let name = self.parent(path)?;
            self.change(inode, Some(name), None);
        }
        Ok(())
    }

    fn children(&self, dir: InodeId) -> impl Iterator<Item = (&str, InodeId)> {
        let from = (dir, String::new());
        let inside = self.current.range(from..).take_while(move |((parent, _), _)| *parent == dir);
        inside.map(|((_, name), inode)| (name.as_str(), *inode))
    }

    pub(crate) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self.lookup(path)?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let entry = |(name, id): (&str, InodeId)| match &self.inodes[&id] {
            Inode::Dir => DirEntry { name: name.to_owned(), is_dir: true, len_bytes: 0 },
            Inode::File { data, .. } => {
                DirEntry { name: name.to_owned(), is_dir: false, len_bytes: data.len() as u64 }
            }
        };
        Ok(self.children(dir).map(entry).collect())
    }

    /// The number of the latest change of names: what a directory sync that begins now covers.
    pub(crate) fn latest_change(&self) -> u64 {
        self.numbers
    }

    /// Makes the changes in a directory up to number `covered` durable, with those they depend on.
    pub(crate) fn sync_dir(&mut self, path: &Path, covered: u64) -> io::Result<()> {
        let dir = self.lookup(path)?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // A change lands if it is one of this directory, or if a later one that lands depends on it.
        let mut tied = Tied::default();
        let pending = std::mem::take(&mut self.pending);
        let mut lands: Vec<bool> = Vec::with_capacity(pending.len());
        for change in pending.iter().rev() {
            let asked_for = change.number <= covered && change.touches(dir);
            lands.push(asked_for || tied.ties(change));
            if lands.last() == Some(&true) {
                tied.tie(change);
            }
        }
        for (change, lands) in pending.into_iter().zip(lands.into_iter().rev()) {
            if lands {
                change.apply(&mut self.durable);
            } else {
                self.pending.push(change);
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    /// Drops the inodes that no name, present or to come back, leads to.
    fn forget_unreachable(&mut self) {
        let pending = self.pending.iter().map(|change| change.inode);
        let mut reachable: HashSet<InodeId> =
            self.current.values().chain(self.durable.values()).copied().chain(pending).collect();
        reachable.insert(ROOT);
        self.inodes.retain(|id, inode| match inode {
            Inode::File { open, .. } => *open > 0 || reachable.contains(id),
            Inode::Dir => reachable.contains(id),
        });
    }

    pub(crate) fn opened(&mut self, inode: InodeId) {
        if let Some(Inode::File { open, .. }) = self.inodes.get_mut(&inode) {
            *open += 1;
        }
    }

    pub(crate) fn closed(&mut self, inode: InodeId) {
        let before = self.counted_bytes(inode);
        if let Some(Inode::File { open, .. }) = self.inodes.get_mut(&inode) {
            *open -= 1;
        }
        self.used_bytes = self.used_bytes + self.counted_bytes(inode) - before;
    }

    fn change_and_recount(
        &mut self,
        inode: InodeId,
        removes: Option<(InodeId, String)>,
        adds: Option<(InodeId, String)>,
    ) {
        let before = self.counted_bytes(inode);
        self.change(inode, removes, adds);
        self.used_bytes = self.used_bytes + self.counted_bytes(inode) - before;
    }

    fn counted_bytes(&self, inode: InodeId) -> u64 {
        match self.inodes.get(&inode) {
            Some(Inode::File { data, open }) if *open > 0 || self.has_name(inode) => data.len() as u64,
            _ => 0,
        }
    }

    fn has_name(&self, inode: InodeId) -> bool {
        self.current.values().any(|named| *named == inode)
    }

    pub(crate) fn file(&self, inode: InodeId) -> Option<&FileData> {
        match self.inodes.get(&inode)? {
            Inode::File { data, .. } => Some(data),
            Inode::Dir => None,
        }
    }

    /// Lets `change` change a file that has a name or is open, and keeps the books.
    pub(crate) fn with_file<T>(
        &mut self,
        inode: InodeId,
        change: impl FnOnce(&mut FileData) -> T,
    ) -> Option<T> {
        let Some(Inode::File { data, .. }) = self.inodes.get_mut(&inode) else { return None };
        let before = data.len() as u64;
        let result = change(data);
        self.used_bytes = self.used_bytes + data.len() as u64 - before;
        Some(result)
    }

    /// The processes are gone, the kernel lives on: files without a name go.
    pub(crate) fn close_all(&mut self) {
        for inode in self.inodes.values_mut() {
            if let Inode::File { open, .. } = inode {
                *open = 0;
            }
        }
        self.recount();
    }

    fn recount(&mut self) {
        let named: HashSet<InodeId> = self.current.values().copied().collect();
        self.used_bytes = (self.inodes.iter())
            .map(|(id, inode)| match inode {
                Inode::File { data, .. } if named.contains(id) => data.len() as u64,
                _ => 0,
            })
            .sum();
    }

    /// Power is lost: what is on the device becomes the disk. All files are closed.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        let mut lost = Tied::default();
        for change in std::mem::take(&mut self.pending) {
            if !lost.ties(&change) && rng.chance(1, 2) {
                change.apply(&mut self.durable);
            } else {
                lost.tie(&change);
            }
        }
        self.drop_orphans();
        self.current.clone_from(&self.durable);
        for inode in self.inodes.values_mut() {
            if let Inode::File { data, open } = inode {
                data.lose_power(rng);
                *open = 0;
            }
        }
        self.forget_unreachable();
        self.recount();
    }

    /// Names in directories that did not make it lead nowhere.
    fn drop_orphans(&mut self) {
        loop {
            let dirs: HashSet<InodeId> = self.durable.values().copied().chain([ROOT]).collect();
            let before = self.durable.len();
            self.durable.retain(|(parent, _), _| dirs.contains(parent));
            if self.durable.len() == before {
                return;
            }
        }
    }

    /// All files: path, what processes see, and what is durable for certain (if the name is).
    pub(crate) fn walk(&self, mut visit: impl FnMut(&Path, &FileData)) {
        self.walk_dir(ROOT, &mut PathBuf::from("/"), &mut visit);
    }

    fn walk_dir(&self, dir: InodeId, path: &mut PathBuf, visit: &mut impl FnMut(&Path, &FileData)) {
        for (name, id) in self.children(dir) {
            path.push(name);
            match &self.inodes[&id] {
                Inode::Dir => self.walk_dir(id, path, visit),
                Inode::File { data, .. } => visit(path, data),
            }
            path.pop();
        }
    }

    /// Every name and byte, current and durable, as one number.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = Mix(0x6d65_7373_696e_6121);
        self.walk(|path, data| {
            hash.bytes(path.as_os_str().as_encoded_bytes());
            hash.bytes(data.bytes());
            hash.bytes(data.durable_bytes());
        });
        for ((parent, name), inode) in &self.durable {
            hash.word(*parent);
            hash.bytes(name.as_bytes());
            hash.word(*inode);
        }
        hash.word(self.pending.len() as u64);
        hash.0
    }
}

/// A hash that is the same on every machine.
struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        self.0 = Rng::new(self.0 ^ word).next_u64();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (low, high) = base::murmur3::hash128(bytes);
        self.word(low);
        self.word(high);
        self.word(bytes.len() as u64);
    }
}

/// The names along a path, from the root; relative paths start there too.
fn parts(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned());
            }
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => (),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> &Path {
        Path::new(text)
    }

    fn names(disk: &Disk) -> Vec<String> {
        disk.read_dir(path("/")).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn an_unsynced_rename_lands_whole_or_not_at_all() {
        let mut seen = HashSet::default();
        for seed in 0..100 {
            let mut disk = Disk::new();
            disk.create(path("old")).unwrap();
            disk.sync_dir(path("/"), disk.latest_change()).unwrap();
            disk.create(path("new")).unwrap();
            disk.sync_dir(path("/"), disk.latest_change()).unwrap();
            disk.rename(path("new"), path("old")).unwrap();
            assert_eq!(names(&disk), ["old"]);
            disk.lose_power(&mut Rng::new(seed));
            seen.insert(names(&disk).join(" "));
        }
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen.contains("old") && seen.contains("new old"));
    }

    #[test]
    fn synced_names_survive_and_others_may_go() {
        let mut survived = 0;
        for seed in 0..100 {
            let mut disk = Disk::new();
            disk.create_dir_all(path("/a/b")).unwrap();
            disk.create(path("/a/kept")).unwrap();
            disk.sync_dir(path("/"), disk.latest_change()).unwrap();
            disk.sync_dir(path("/a"), disk.latest_change()).unwrap();
            disk.create(path("/a/b/risky")).unwrap();
            disk.lose_power(&mut Rng::new(seed));
            assert!(disk.lookup(path("/a/kept")).is_ok() && disk.lookup(path("/a/b")).is_ok());
            survived += usize::from(disk.lookup(path("/a/b/risky")).is_ok());
        }
        assert!((20..80).contains(&survived), "{survived} of 100");
    }

    #[test]
    fn changes_never_take_the_name_of_another_file() {
        for seed in 0..200 {
            let mut disk = Disk::new();
            disk.create(path("b")).unwrap();
            disk.sync_dir(path("/"), disk.latest_change()).unwrap();
            let kept = disk.lookup(path("b")).unwrap();
            disk.rename(path("b"), path("c")).unwrap();
            disk.create(path("b")).unwrap();
            disk.remove(path("b")).unwrap();
            disk.lose_power(&mut Rng::new(seed));
            let found = ["b", "c"].iter().any(|name| disk.lookup(path(name)).is_ok_and(|id| id == kept));
            assert!(found, "seed {seed}: {:?}", names(&disk));
        }
    }

    #[test]
    fn space_is_given_back_with_the_last_name_and_the_last_close() {
        let mut disk = Disk::new();
        let inode = disk.create(path("f")).unwrap();
        disk.opened(inode);
        disk.with_file(inode, |data| data.write(0, &[1; 100]));
        assert_eq!(disk.used_bytes(), 100);
        disk.remove(path("f")).unwrap();
        assert_eq!(disk.used_bytes(), 100);
        disk.closed(inode);
        assert_eq!(disk.used_bytes(), 0);
    }
}
