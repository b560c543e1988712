//! What the directories of tables hold: sizes and snapshots, by looking.
//!
//! Files may come and go meanwhile; what is gone counts nothing.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sstable::name::SstableName;

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

/// A snapshot of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpace {
    pub tag: String,
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

pub fn table_space(dir: &Path, live: &[SstableName]) -> TableSpace {
    let mut space = TableSpace::default();
    for (name, metadata) in files(dir) {
        let Ok((sstable, _)) = SstableName::parse_file_name(&name) else { continue };
        space.total_bytes += metadata.len();
        if live.contains(&sstable) {
            space.live_bytes += metadata.len();
        }
    }
    space.snapshot_bytes = snapshots(dir).iter().map(|snapshot| snapshot.true_bytes).sum();
    space
}

/// By tag.
pub fn snapshots(dir: &Path) -> Vec<SnapshotSpace> {
    let one = |entry: DirEntry| {
        let tag = entry.file_name().into_string().ok()?;
        if !entry.file_type().ok()?.is_dir() {
            return None;
        }
        let mut snapshot = SnapshotSpace { tag, true_bytes: 0, disk_bytes: 0 };
        for (_, metadata) in files(&entry.path()) {
            snapshot.disk_bytes += metadata.len();
            if metadata.nlink() == 1 {
                snapshot.true_bytes += metadata.len();
            }
        }
        Some(snapshot)
    };
    let mut found: Vec<SnapshotSpace> = entries(&dir.join(SNAPSHOTS)).filter_map(one).collect();
    found.sort_by(|a, b| a.tag.cmp(&b.tag));
    found
}

/// Removes a table's snapshots, all if no tag is given; says how many.
pub fn clear_snapshots(dir: &Path, tag: Option<&str>) -> io::Result<u64> {
    let mut count = 0;
    for snapshot in snapshots(dir).into_iter().filter(|found| tag.is_none_or(|tag| found.tag == tag)) {
        fs::remove_dir_all(dir.join(SNAPSHOTS).join(&snapshot.tag))?;
        count += 1;
    }
    Ok(count)
}
