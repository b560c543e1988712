//! Damages files of SSTables while the node is down, and repairs them later. Meanwhile a read returns correct
//! data or an error; afterwards the content is as before.

use std::path::{Path, PathBuf};

use base::rng::Rng;
use runtime::sim::SimDisk;

/// A damaged file, and its content before.
pub struct Damaged {
    pub path: PathBuf,
    pub was: Vec<u8>,
    pub how: String,
}

/// Damages one to three files of SSTables of user tables, at most one of each SSTable: Messina.db holds the
/// checksums of other files. TOC.txt is not damaged, because without it there is no SSTable. Of SSTables made
/// elsewhere, which lack checksums of some files, only the data are damaged.
pub fn damage(rng: &mut Rng, disk: &SimDisk, keyspace_dir: &Path) -> Vec<Damaged> {
    let all = disk.files();
    let is_component = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_of_table = path.parent().and_then(Path::parent) == Some(keyspace_dir);
        let (stem, component) = name.rsplit_once('-').unwrap_or_default();
        let knows_itself = || all.contains(&path.with_file_name(format!("{stem}-Messina.db")));
        is_of_table && component.ends_with(".db") && (component == "Data.db" || knows_itself())
    };
    let files: Vec<PathBuf> = all.iter().filter(|path| is_component(path)).cloned().collect();
    let mut damaged: Vec<Damaged> = vec![];
    if files.is_empty() {
        return damaged;
    }
    for _ in 0..1 + rng.below(3) {
        let path = rng.pick(&files).clone();
        let sstable =
            |path: &PathBuf| path.to_str().and_then(|path| Some(path.rsplit_once('-')?.0.to_owned()));
        if damaged.iter().any(|other| sstable(&other.path) == sstable(&path)) {
            continue;
        }
        let Ok(was) = disk.read(&path) else { continue };
        let mut bytes = was.clone();
        if bytes.is_empty() {
            continue;
        }
        let at = rng.index(bytes.len());
        let how = match rng.below(8) {
            0 => {
                bytes.truncate(at);
                format!("{} cut to {at} bytes", path.display())
            }
            1 => {
                let end = (at + 1 + rng.index(600)).min(bytes.len());
                bytes[at..end].fill(0);
                format!("{} zeroed from {at} to {end}", path.display())
            }
            _ => {
                let mask = 1 << rng.below(8);
                bytes[at] ^= mask;
                format!("{} byte {at} xor {mask:#x}", path.display())
            }
        };
        if bytes != was && disk.write(&path, &bytes).is_ok() {
            damaged.push(Damaged { path, was, how });
        }
    }
    damaged
}

/// Restores the content of the damaged files that still exist.
pub fn repair(disk: &SimDisk, damaged: Vec<Damaged>) {
    for Damaged { path, was, .. } in damaged {
        if disk.read(&path).is_ok() {
            disk.write(&path, &was).expect("a file that is there can be written");
        }
    }
}
