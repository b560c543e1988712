//! Names of the simulated disk: directories, files by inode, and the durability of changes to names.
//!
//! `current` is the state that processes see; `durable` is the state that the device certainly holds. A
//! change (create, link, rename, remove) is pending until one of its directories is synced. A loss of power
//! applies or drops each pending change independently, with two laws. A rename is applied completely or not
//! at all. A later change to the same file or the same name is applied only if the earlier ones were, so that
//! a change never takes a name from another file than the intended one.
//!
//! Names are kept per directory, and each inode counts its names, so that no operation searches all names.

use std::collections::VecDeque;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use base::rng::Rng;
use base::{HashMap, HashSet};

use super::inode::FileData;
pub(crate) use super::names::InodeId;
use super::names::{Name, NameChange, Names, Tied};
use crate::shard::files::DirEntry;

const ROOT: InodeId = 0;

/// Content of an inode.
enum Content {
    Dir,
    File { data: FileData, open: u32 },
}

struct Inode {
    content: Content,
    /// Number of names that processes see.
    current: u32,
    /// Number of names on the device, and of pending changes that may restore a name.
    lasting: u32,
}

impl Inode {
    fn new(content: Content) -> Self {
        Self { content, current: 0, lasting: 0 }
    }

    fn is_reachable(&self) -> bool {
        self.current > 0 || self.lasting > 0 || matches!(self.content, Content::File { open: 1.., .. })
    }

    /// Bytes that count as used space: those of a file that has a name or is open.
    fn counted_bytes(&self) -> u64 {
        match &self.content {
            Content::File { data, open } if *open > 0 || self.current > 0 => data.len() as u64,
            Content::File { .. } | Content::Dir => 0,
        }
    }
}

/// A disk without a clock: every operation is instant and fails only by its own rules.
pub(crate) struct Disk {
    inodes: HashMap<InodeId, Inode>,
    current: Names,
    durable: Names,
    pending: VecDeque<NameChange>,
    /// Inodes that lost a name or a change. Those without any are removed at the next sync of a directory.
    shrunk: Vec<InodeId>,
    numbers: u64,
    used_bytes: u64,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let mut root = Inode::new(Content::Dir);
        root.lasting = 1;
        Self {
            inodes: std::iter::once((ROOT, root)).collect(),
            current: Names::default(),
            durable: Names::default(),
            pending: VecDeque::new(),
            shrunk: Vec::new(),
            numbers: 0,
            used_bytes: 0,
        }
    }

    /// Total length in bytes of all files that have a name or are open.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(crate) fn lookup(&self, path: &Path) -> io::Result<InodeId> {
        self.lookup_parts(&parts(path)?)
    }

    fn lookup_parts(&self, names: &[&str]) -> io::Result<InodeId> {
        let mut at = ROOT;
        for name in names {
            if !self.is_dir(at) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            at = self.current.get(at, name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The directory that contains the last name of a path, and that name.
    fn parent(&self, path: &Path) -> io::Result<Name> {
        let mut names = parts(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.lookup_parts(&names)?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok((dir, last.into()))
    }

    pub(crate) fn is_dir(&self, inode: InodeId) -> bool {
        self.inodes.get(&inode).is_some_and(|inode| matches!(inode.content, Content::Dir))
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        let name = self.parent(path)?;
        if self.current.get(name.0, &name.1).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(self.add_new(name, Content::File { data: FileData::default(), open: 0 }))
    }

    fn add_new(&mut self, name: Name, content: Content) -> InodeId {
        self.numbers += 1;
        let id = self.numbers;
        self.inodes.insert(id, Inode::new(content));
        self.change(id, None, Some(name));
        id
    }

    /// Changes the names that processes see. Durability is decided later.
    fn change(&mut self, inode: InodeId, removes: Option<Name>, adds: Option<Name>) {
        self.numbers += 1;
        let before = self.counted_bytes(inode);
        if let Some(name) = &removes
            && self.current.remove_if(name, inode)
        {
            self.count_current(inode, -1);
        }
        if let Some(name) = &adds {
            if let Some(replaced) = self.current.insert(name, inode) {
                let before = self.counted_bytes(replaced);
                self.count_current(replaced, -1);
                self.used_bytes = self.used_bytes + self.counted_bytes(replaced) - before;
            }
            self.count_current(inode, 1);
        }
        self.used_bytes = self.used_bytes + self.counted_bytes(inode) - before;
        self.count_lasting(inode, 1);
        self.pending.push_back(NameChange { number: self.numbers, inode, removes, adds });
    }

    fn count_current(&mut self, inode: InodeId, by: i32) {
        if let Some(counted) = self.inodes.get_mut(&inode) {
            counted.current = counted.current.checked_add_signed(by).expect("names are counted");
            if by < 0 {
                self.shrunk.push(inode);
            }
        }
    }

    fn count_lasting(&mut self, inode: InodeId, by: i32) {
        if let Some(counted) = self.inodes.get_mut(&inode) {
            counted.lasting = counted.lasting.checked_add_signed(by).expect("names are counted");
            if by < 0 {
                self.shrunk.push(inode);
            }
        }
    }

    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for name in parts(path)? {
            at = match self.current.get(at, name) {
                Some(inode) if self.is_dir(inode) => inode,
                Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
                None => self.add_new((at, name.into()), Content::Dir),
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
        self.change(inode, Some(name), None);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        let (from, to_name) = (self.parent(from)?, self.parent(to)?);
        match self.current.get(to_name.0, &to_name.1) {
            Some(same) if same == inode => return Ok(()),
            Some(other) if self.is_dir(other) => {
                if !self.is_dir(inode) {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                if self.current.inside(other).next().is_some() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
            Some(_) if self.is_dir(inode) => return Err(io::ErrorKind::NotADirectory.into()),
            Some(_) | None => (),
        }
        self.change(inode, Some(from), Some(to_name));
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        if self.is_dir(inode) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let name = self.parent(to)?;
        if self.current.get(name.0, &name.1).is_some() {
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
        let children: Vec<(Rc<str>, InodeId)> =
            self.current.inside(inode).map(|(name, id)| (Rc::clone(name), id)).collect();
        for (name, child) in children {
            if self.is_dir(child) {
                self.remove_dir_all(&path.join(&*name))?;
            } else {
                self.change(child, Some((inode, name)), None);
            }
        }
        if inode != ROOT {
            let name = self.parent(path)?;
            self.change(inode, Some(name), None);
        }
        Ok(())
    }

    pub(crate) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self.lookup(path)?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let entry = |(name, id): (&Rc<str>, InodeId)| {
            let (is_dir, len_bytes) = match &self.inodes[&id].content {
                Content::Dir => (true, 0),
                Content::File { data, .. } => (false, data.len() as u64),
            };
            DirEntry { name: name.as_ref().to_owned(), is_dir, len_bytes }
        };
        Ok(self.current.inside(dir).map(entry).collect())
    }

    /// The number of the latest change of names, which a directory sync that begins now covers.
    pub(crate) fn latest_change(&self) -> u64 {
        self.numbers
    }

    /// Makes the changes in a directory up to number `covered` durable, with the changes they depend on.
    pub(crate) fn sync_dir(&mut self, path: &Path, covered: u64) -> io::Result<()> {
        let dir = self.lookup(path)?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // A change is applied if it belongs to this directory, or if a later applied change depends on it.
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
                self.land(&change);
            } else {
                self.pending.push_back(change);
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    /// Applies a pending change to the device.
    fn land(&mut self, change: &NameChange) {
        if let Some(name) = &change.removes
            && self.durable.remove_if(name, change.inode)
        {
            self.count_lasting(change.inode, -1);
        }
        if let Some(name) = &change.adds {
            if let Some(replaced) = self.durable.insert(name, change.inode) {
                self.count_lasting(replaced, -1);
            }
            self.count_lasting(change.inode, 1);
        }
        self.count_lasting(change.inode, -1);
    }

    /// Removes the inodes without any current, durable or pending name.
    fn forget_unreachable(&mut self) {
        for inode in std::mem::take(&mut self.shrunk) {
            match self.inodes.get(&inode) {
                Some(shrunk) if !shrunk.is_reachable() => {
                    self.inodes.remove(&inode);
                }
                Some(_) | None => {}
            }
        }
    }

    pub(crate) fn opened(&mut self, inode: InodeId) {
        if let Some(Inode { content: Content::File { open, .. }, .. }) = self.inodes.get_mut(&inode) {
            *open += 1;
        }
    }

    pub(crate) fn closed(&mut self, inode: InodeId) {
        let Some(closed) = self.inodes.get_mut(&inode) else { return };
        let before = closed.counted_bytes();
        if let Content::File { open, .. } = &mut closed.content {
            *open -= 1;
        }
        self.used_bytes = self.used_bytes + closed.counted_bytes() - before;
        self.shrunk.push(inode);
    }

    fn counted_bytes(&self, inode: InodeId) -> u64 {
        self.inodes.get(&inode).map_or(0, Inode::counted_bytes)
    }

    pub(crate) fn file(&self, inode: InodeId) -> Option<&FileData> {
        match &self.inodes.get(&inode)?.content {
            Content::File { data, .. } => Some(data),
            Content::Dir => None,
        }
    }

    /// Applies `change` to a file that has a name or is open, and updates the used space.
    pub(crate) fn with_file<T>(
        &mut self,
        inode: InodeId,
        change: impl FnOnce(&mut FileData) -> T,
    ) -> Option<T> {
        let Content::File { data, .. } = &mut self.inodes.get_mut(&inode)?.content else { return None };
        let before = data.len() as u64;
        let result = change(data);
        self.used_bytes = self.used_bytes + data.len() as u64 - before;
        Some(result)
    }

    /// Closes the files of all processes, as the kernel does after their end; files without a name are
    /// removed.
    pub(crate) fn close_all(&mut self) {
        for (id, inode) in &mut self.inodes {
            if let Content::File { open, .. } = &mut inode.content
                && std::mem::take(open) > 0
            {
                self.shrunk.push(*id);
            }
        }
        self.recount();
    }

    fn recount(&mut self) {
        self.used_bytes = self.inodes.values().map(Inode::counted_bytes).sum();
    }

    /// Loss of power: the state of the device becomes the state of the disk. All files are closed.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        let mut lost = Tied::default();
        for change in std::mem::take(&mut self.pending) {
            if !lost.ties(&change) && rng.chance(1, 2) {
                self.land(&change);
            } else {
                lost.tie(&change);
            }
        }
        self.drop_orphans();
        self.current.clone_from(&self.durable);
        let mut ids: Vec<InodeId> = self.inodes.keys().copied().collect();
        ids.sort_unstable();
        for inode in self.inodes.values_mut() {
            (inode.current, inode.lasting) = (0, 0);
        }
        for named in self.durable.inodes() {
            let inode = self.inodes.get_mut(&named).expect("a name on the device leads to an inode");
            inode.current += 1;
            inode.lasting += 1;
        }
        self.inodes.get_mut(&ROOT).expect("there is a root").lasting += 1;
        for id in ids {
            let inode = self.inodes.get_mut(&id).expect("it was just listed");
            if let Content::File { data, open } = &mut inode.content {
                data.lose_power(rng);
                *open = 0;
            }
        }
        self.inodes.retain(|_, inode| inode.is_reachable());
        self.shrunk.clear();
        self.recount();
    }

    /// Removes names in directories that did not become durable.
    fn drop_orphans(&mut self) {
        loop {
            let dirs: HashSet<InodeId> = self.durable.inodes().chain([ROOT]).collect();
            let before = self.durable.dir_count();
            self.durable.retain_dirs(|dir| dirs.contains(&dir));
            if self.durable.dir_count() == before {
                return;
            }
        }
    }

    /// Visits all files with their paths; their data has the current and the durable bytes.
    pub(crate) fn walk(&self, mut visit: impl FnMut(&Path, &FileData)) {
        self.walk_dir(ROOT, &mut PathBuf::from("/"), &mut visit);
    }

    fn walk_dir(&self, dir: InodeId, path: &mut PathBuf, visit: &mut impl FnMut(&Path, &FileData)) {
        for (name, id) in self.current.inside(dir) {
            path.push(&**name);
            match &self.inodes[&id].content {
                Content::Dir => self.walk_dir(id, path, visit),
                Content::File { data, .. } => visit(path, data),
            }
            path.pop();
        }
    }

    /// Hash of all names and bytes, current and durable.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = Mix(0x6d65_7373_696e_6121);
        self.walk(|path, data| {
            hash.bytes(path.as_os_str().as_encoded_bytes());
            hash.bytes(data.bytes());
            hash.bytes(data.durable_bytes());
        });
        for dir in self.durable.dirs() {
            for (name, inode) in self.durable.inside(dir) {
                hash.word(dir);
                hash.bytes(name.as_bytes());
                hash.word(inode);
            }
        }
        hash.word(self.pending.len() as u64);
        hash.0
    }
}

/// A hash function with the same results on every machine.
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

/// The names of a path, from the root; relative paths start at the root too.
fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::with_capacity(8);
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_str().ok_or(io::ErrorKind::InvalidFilename)?),
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
        disk.sync_dir(path("/"), disk.latest_change()).unwrap();
        assert!(disk.file(inode).is_none(), "a file without a name that nobody has open is gone");
    }

    #[test]
    fn a_file_that_is_renamed_over_keeps_its_space_while_it_is_open() {
        let mut disk = Disk::new();
        let old = disk.create(path("old")).unwrap();
        disk.opened(old);
        disk.with_file(old, |data| data.write(0, &[1; 100]));
        let new = disk.create(path("new")).unwrap();
        disk.with_file(new, |data| data.write(0, &[1; 10]));
        disk.rename(path("new"), path("old")).unwrap();
        assert_eq!(disk.used_bytes(), 110);
        disk.closed(old);
        assert_eq!(disk.used_bytes(), 10);
        disk.sync_dir(path("/"), disk.latest_change()).unwrap();
        assert!(disk.file(old).is_none() && disk.file(new).is_some());
    }
}
