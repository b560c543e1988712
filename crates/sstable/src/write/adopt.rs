//! Takes an SSTable from another directory under a new name: by hard links where the file system can, else by copies.
//!
//! The new SSTable exists from the renaming of its TOC.txt on, as one that was written here; before, a crash leaves files
//! that `clean_up` removes. The old one is not touched.

use std::io;
use std::path::Path;

use runtime::{FileError, Files, IoClass, OpenOptions};

use super::seal;
use crate::name::{Component, SstableName};

/// A file is copied in pieces of this length.
const COPY_BYTES: usize = 256 * 1024;

/// Where the files come from, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    pub from_dir: &'a Path,
    pub from: SstableName,
    pub to_dir: &'a Path,
    /// Free in `to_dir`. Of the same version and format.
    pub to: SstableName,
    /// What TOC.txt lists; those that are not there are left out.
    pub components: &'a [Component],
    /// Copies even where a link would do, so that the old files stay their owner's alone.
    pub copies: bool,
}

/// Makes the new SSTable. After an error nothing of it is left.
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
    let brought = match bring(files, adoption, &there, class).await {
        // The names of all files come in front of the seal's.
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

async fn bring(
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
                // Another file system, or one without links.
                Err(error)
                    if matches!(
                        error.source.kind(),
                        io::ErrorKind::CrossesDevices
                            | io::ErrorKind::Unsupported
                            | io::ErrorKind::PermissionDenied
                    ) => {}
                linked => {
                    linked?;
                    // Whoever put it there may not have synced it.
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
