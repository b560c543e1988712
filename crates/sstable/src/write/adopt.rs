//! Adopts an SSTable from another directory under a new name: by hard links if the file system supports them,
//! otherwise by copies.
//!
//! The new SSTable exists once its TOC.txt has been renamed, like a written one. A crash before that leaves
//! files that `clean_up` removes. The original SSTable is not changed.

use std::io;
use std::path::Path;

use runtime::{FileError, Files, IoClass, OpenOptions};

use super::seal;
use crate::name::{Component, SSTableName};

/// Bytes of one copied part of a file.
const COPY_BYTES: usize = 256 * 1024;

/// Source and target of an adoption.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    /// Directory of the original SSTable.
    pub from_dir: &'a Path,
    /// Name of the original SSTable.
    pub from: SSTableName,
    /// Directory of the new SSTable.
    pub to_dir: &'a Path,
    /// The new name. It must be unused in `to_dir`, and have the version and format of `from`.
    pub to: SSTableName,
    /// The components that TOC.txt lists. Components without a file are omitted.
    pub components: &'a [Component],
    /// Copies even where hard links are possible, so that the new SSTable shares no file with the old one.
    pub copies: bool,
}

/// Creates the new SSTable. If creating its files fails, they are removed. If the seal or that removal fails,
/// files may remain, which `clean_up` removes at the next start.
pub async fn adopt(files: &Files, adoption: &Adoption<'_>, class: IoClass) -> Result<(), FileError> {
    let Adoption { from_dir, from, to_dir, to, components, .. } = adoption;
    assert!(from.version == to.version && from.format == to.format, "{from} cannot become {to}");
    let mut there = vec![];
    for component in components.iter().filter(|component| **component != Component::Toc) {
        if files.exists(&from_dir.join(from.file_name(component))).await? {
            there.push(component.clone());
        }
    }
    there.push(Component::Toc);
    let contents = seal::begin(files, to_dir, to, &there, class).await?;
    let brought = match adopt_one(files, adoption, &there, class).await {
        // The names of all files must be durable before the seal.
        Ok(()) => seal::make_durable(files, to_dir, &[contents]).await,
        failed => failed,
    };
    match brought {
        Ok(()) => seal::seal(files, to_dir, to).await,
        Err(error) => {
            seal::remove_components(files, to_dir, to, &there).await?;
            Err(error)
        }
    }
}

async fn adopt_one(
    files: &Files,
    adoption: &Adoption<'_>,
    components: &[Component],
    class: IoClass,
) -> Result<(), FileError> {
    for component in components.iter().filter(|component| **component != Component::Toc) {
        let from = adoption.from_dir.join(adoption.from.file_name(component));
        let to = adoption.to_dir.join(adoption.to.file_name(component));
        if !adoption.copies {
            match files.hard_link(&from, &to).await {
                // Another file system, or one without hard links.
                Err(error)
                    if matches!(
                        error.source.kind(),
                        io::ErrorKind::CrossesDevices
                            | io::ErrorKind::Unsupported
                            | io::ErrorKind::PermissionDenied
                    ) => {}
                linked => {
                    linked?;
                    // The process that wrote the file may not have synced it.
                    files.open(&to, OpenOptions::read_write()).await?.sync_data().await?;
                    continue;
                }
            }
        }
        copy(files, &from, &to, class).await?;
    }
    Ok(())
}

async fn copy(files: &Files, from: &Path, to: &Path, class: IoClass) -> Result<(), FileError> {
    let source = files.open(from, OpenOptions::read()).await?;
    let target = files.open(to, OpenOptions::create_new()).await?;
    let mut at = 0;
    loop {
        let part = source.read_at(at, COPY_BYTES, class).await?;
        let bytes = part.len();
        if bytes > 0 {
            target.write_at(at, part, class).await?;
        }
        at += bytes as u64;
        if bytes < COPY_BYTES {
            return target.sync_data().await;
        }
    }
}
