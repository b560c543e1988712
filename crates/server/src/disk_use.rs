//! Disk usage by kind of file, for errors and log lines about a full disk.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::HashMap;

/// Bytes on disk, by kind of file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub commit_log: u64,
    /// In the tables' directories, including components that are being written.
    pub sstables: u64,
    /// Files that only snapshots hold. Snapshots are hard links, so a file costs nothing while the table has
    /// it too.
    pub snapshots: u64,
    /// All other files in the data directory: SSTable manifests, `upload/`, `set-aside/`.
    pub others: u64,
    /// Of the file system; `None` if the system does not report it.
    pub file_system: Option<FileSystem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    pub total_bytes: u64,
    /// Bytes that this user may still write.
    pub free_bytes: u64,
}

/// Kind of a file. A file with several links counts as the first of its kinds in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    CommitLog,
    SSTable,
    Snapshot,
    Other,
}

impl Kind {
    fn of(data_dir: &Path, path: &Path) -> Self {
        let below = path.strip_prefix(data_dir).unwrap_or(path);
        let parts: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        match parts[..] {
            ["commitlog", ..] => Self::CommitLog,
            ["data", _, _, "snapshots", ..] => Self::Snapshot,
            ["data", _, _, _] => Self::SSTable,
            _ => Self::Other,
        }
    }
}

impl DiskUse {
    /// Adds up the allocated blocks of each file; a file with several names counts once. Unreadable entries
    /// are not counted. Blocks.
    pub fn of(data_dir: &Path) -> Self {
        let mut files: HashMap<(u64, u64), (Kind, u64)> = HashMap::default();
        let mut dirs: Vec<PathBuf> = vec![data_dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => dirs.push(path),
                    Ok(metadata) => {
                        let kind = Kind::of(data_dir, &path);
                        let id = (metadata.dev(), metadata.ino());
                        let found = files.entry(id).or_insert((kind, metadata.blocks() * BLOCK_BYTES));
                        found.0 = found.0.min(kind);
                    }
                    Err(_unreadable) => {}
                }
            }
        }
        let mut found = Self { file_system: file_system(data_dir), ..Self::default() };
        for (kind, bytes) in files.into_values() {
            *match kind {
                Kind::CommitLog => &mut found.commit_log,
                Kind::SSTable => &mut found.sstables,
                Kind::Snapshot => &mut found.snapshots,
                Kind::Other => &mut found.others,
            } += bytes;
        }
        found
    }
}

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

impl fmt::Display for DiskUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        if let Some(FileSystem { total_bytes, free_bytes }) = self.file_system {
            write!(f, "the disk has {}, {} of them free: ", mb(total_bytes), mb(free_bytes))?;
        }
        let Self { commit_log, sstables, snapshots, others, .. } = *self;
        write!(f, "commit log {}, SSTables {}, ", mb(commit_log), mb(sstables))?;
        write!(f, "only in snapshots {}, other files of this node {}", mb(snapshots), mb(others))?;
        if let Some(FileSystem { total_bytes, free_bytes }) = self.file_system {
            let ours = commit_log + sstables + snapshots + others;
            write!(f, ", not of this node {}", mb(total_bytes.saturating_sub(free_bytes + ours)))?;
        }
        if snapshots > 0 {
            write!(f, "; nodetool clearsnapshot removes snapshots")?;
        }
        Ok(())
    }
}

/// Size and free space of the file system that holds the path.
pub fn file_system(path: &Path) -> Option<FileSystem> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let of = |blocks: u64| blocks * stat.f_frsize;
    Some(FileSystem { total_bytes: of(stat.f_blocks), free_bytes: of(stat.f_bavail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_what_they_are_for() {
        let dir = crate::config::temporary_dir().join(format!("messina-disk-use-{}", std::process::id()));
        let write = |name: &str, blocks: usize| {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vec![1; blocks * 4096]).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
            path
        };
        write("commitlog/CommitLog-1-1.log", 100);
        write("commitlog/schema/manifest-1", 10);
        let data = write("data/ks/t-1/me-2-big-Data.db", 1000);
        write("data/ks/t-1/snapshots/s/me-1-big-Data.db", 500);
        fs::hard_link(data, dir.join("data/ks/t-1/snapshots/s/me-2-big-Data.db")).unwrap();
        write("data/ks/t-1/upload/me-2-big-Data.db", 7);
        write("sstables/1-0", 3);
        let found = DiskUse::of(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert!(found.file_system.is_some_and(|of| of.total_bytes >= of.free_bytes && of.total_bytes > 0));
        let file_system = Some(FileSystem { total_bytes: 10_000_000, free_bytes: 0 });
        let expect = DiskUse {
            commit_log: 110 << 12,
            sstables: 1000 << 12,
            snapshots: 500 << 12,
            others: 10 << 12,
            file_system,
        };
        assert_eq!(DiskUse { file_system, ..found }, expect);
        let said = "the disk has 10.0 MB, 0.0 MB of them free: commit log 0.5 MB, SSTables 4.1 MB, only in snapshots 2.0 MB, \
            other files of this node 0.0 MB, not of this node 3.4 MB; nodetool clearsnapshot removes snapshots";
        assert_eq!(expect.to_string(), said);
    }
}
