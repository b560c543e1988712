//! Finds the model of the data directory's disk in `io_properties.yaml`.
//!
//! The mountpoint of an entry may be any directory on the disk, not only the directory where it is mounted,
//! or the block device itself. A disk without an entry counts as not measured.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use iosched::DiskModel;
use iosched::properties::{self, DiskEntry};

use crate::warning;

/// A longer file is refused: it cannot be an `io_properties.yaml`.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The model that the file at `path` has for the disk of `data_dir`.
///
/// # Errors
/// The file cannot be read or parsed, or has several entries for this disk.
pub fn in_file(path: &Path, data_dir: &Path) -> Result<Option<DiskModel>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("io_properties_file {}: {error}", path.display());
    let len_bytes = fs::metadata(path).map_err(|error| wrong(&error))?.len();
    if len_bytes > FILE_BYTES_MAX {
        return Err(wrong(&format!("{len_bytes} bytes long; it cannot be an io_properties.yaml")));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let model = in_text(&text, data_dir).map_err(|error| wrong(&error))?;
    if model.is_none() {
        let dir = data_dir.display();
        warning!("engine", "{} names no directory on the disk of {dir}", path.display());
    }
    Ok(model)
}

/// The model that the text of `io_properties.yaml` has for the disk of `dir`.
///
/// # Errors
/// The text cannot be parsed, or has several entries for this disk.
pub fn in_text(text: &str, dir: &Path) -> Result<Option<DiskModel>, String> {
    find(&properties::parse(text).map_err(|error| error.to_string())?, dir)
}

/// The entry for the disk of `dir`. `dir` need not exist yet.
fn find(entries: &[DiskEntry], dir: &Path) -> Result<Option<DiskModel>, String> {
    let above = dir.ancestors().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let Some(found) = above.into_iter().find_map(|dir| fs::metadata(dir).ok()) else { return Ok(None) };
    let mut models = vec![];
    for entry in entries {
        let on_disk = entry.mountpoints.iter().filter_map(|path| fs::metadata(path).ok()).any(|metadata| {
            let is_device = metadata.file_type().is_block_device();
            found.dev() == if is_device { metadata.rdev() } else { metadata.dev() }
        });
        if on_disk {
            models.push(entry.model);
        }
    }
    match models[..] {
        [] => Ok(None),
        [model] => Ok(Some(model)),
        _ => {
            Err(format!("{} entries are for the disk of {}; there must be one", models.len(), dir.display()))
        }
    }
}

/// The model as text for a log line.
pub fn show(model: &DiskModel) -> String {
    let mb_s = |bytes_s: u64| bytes_s as f64 / 1e6;
    format!(
        "{} reads and {} writes a second, {:.1} MB/s read and {:.1} MB/s written",
        model.read_iops,
        model.write_iops,
        mb_s(model.read_bandwidth_bytes_s),
        mb_s(model.write_bandwidth_bytes_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_found_by_its_disk() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let entry = |mountpoint: &Path, read_iops| DiskEntry {
            mountpoints: vec![mountpoint.to_owned()],
            model: DiskModel { read_iops, ..DiskModel::NOMINAL },
            physical_block_bytes: None,
        };
        let (src, proc) = (entry(&here.join("src"), 1), entry(Path::new("/proc"), 2));
        let found = find(&[proc.clone(), src.clone()], &here.join("not/yet/there")).unwrap();
        assert_eq!(found, Some(src.model));
        assert_eq!(find(&[proc], here).unwrap(), None);
        let twice = find(&[src.clone(), entry(here, 3)], here).unwrap_err();
        assert!(twice.starts_with("2 entries"), "{twice}");
    }
}
