//! Sizes and snapshots of tables' directories, read from the file system.
//!
//! Files may come and go meanwhile; a missing file counts as empty.

use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sstable::name::SSTableName;

const SNAPSHOTS: &str = "snapshots";

/// Bytes of a table's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSpace {
    /// Of the SSTables that the table uses.
    pub live_bytes: u64,
    /// Of all SSTables in the directory.
    pub total_bytes: u64,
    pub snapshot_bytes: u64,
}

/// Bytes of the files of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSpace {
    /// Of the files that only this snapshot holds: the disk space that clearing it would free.
    pub true_bytes: u64,
    pub disk_bytes: u64,
}

fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

fn files(dir: &Path) -> impl Iterator<Item = (String, Metadata)> {
    entries(dir).filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, metadata))
    })
}

pub fn table_space(dir: &Path, live: &[SSTableName]) -> TableSpace {
    let mut space = TableSpace::default();
    for (name, metadata) in files(dir) {
        let Ok((sstable, _)) = SSTableName::parse_file_name(&name) else { continue };
        space.total_bytes += metadata.len();
        if live.contains(&sstable) {
            space.live_bytes += metadata.len();
        }
    }
    let of_tag = |tag: &String| snapshot_space(&dir.join(SNAPSHOTS).join(tag)).true_bytes;
    space.snapshot_bytes = snapshot_tags(dir).iter().map(of_tag).sum();
    space
}

/// The tags of the snapshots of the table in `dir`, sorted.
pub fn snapshot_tags(dir: &Path) -> Vec<String> {
    let tag = |entry: DirEntry| {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name().into_string().ok().filter(|_| is_dir)
    };
    let mut found: Vec<String> = entries(&dir.join(SNAPSHOTS)).filter_map(tag).collect();
    found.sort();
    found
}

pub fn snapshot_space(dir: &Path) -> SnapshotSpace {
    let mut space = SnapshotSpace::default();
    for (_, metadata) in files(dir) {
        space.disk_bytes += metadata.len();
        if metadata.nlink() == 1 {
            space.true_bytes += metadata.len();
        }
    }
    space
}
