//! The seal of an SSTable (TOC.txt): creates, removes and cleans up SSTables atomically.
//!
//! An SSTable exists if and only if its generation has `TOC.txt`. Writing begins with `TOC.txt.tmp` and ends
//! with renaming it; removing begins with renaming it back. The directory is synced before and after each
//! rename. So after a crash a generation is complete, or has no `TOC.txt` and is removed by [`clean_up`]. The
//! temporary name is removed last, after all other removals are durable, so that the remaining files are
//! always recognized as unfinished.
//!
//! A generation with neither name has lost its TOC.txt for another reason. If it is sound to the last row, it
//! is not a remnant of a crash, and it is sealed again. If it has all components of a complete SSTable but is
//! not sound, it may be the only copy of its data, and it is moved to `set-aside`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base::join::join_all;
use reader::LocalFuture;
use runtime::{File, FileError, Files, IoBuf, IoClass, OpenOptions};

use crate::component::toc;
use crate::name::{Component, SSTableName};
use crate::read::{ChunkCache, SSTable};

/// Cache budget in bytes for verifying an SSTable without TOC.txt, which reads nothing twice.
const CHECK_CACHE_BYTES: usize = 1 << 20;
/// The longest TOC.txt in bytes that is read; a line has some tens of bytes.
const TOC_BYTES_MAX: u64 = 64 * 1024;
/// Temporary name of a TOC.txt that is rebuilt.
const FOUND_TOC: &str = "found-toc.tmp";
/// Directory, inside the SSTables' directory, for generations that may be damaged SSTables.
const SET_ASIDE: &str = "set-aside";

/// Begins the generation `name`: writes `TOC.txt.tmp`, which marks the generation's files as unfinished.
/// Fails and changes nothing if the generation exists. Returns the file, which the caller has to sync before
/// the seal; after a crash before that sync, files without it may remain, and [`clean_up`] removes them as
/// well.
pub(super) async fn begin(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    components: &[Component],
    class: IoClass,
) -> Result<File, FileError> {
    let sealed = dir.join(name.file_name(&Component::Toc));
    if files.exists(&sealed).await? {
        return Err(FileError::new("create", &sealed, io::ErrorKind::AlreadyExists.into()));
    }
    let path = dir.join(name.file_name(&Component::TocTemporary));
    let file = files.open(&path, OpenOptions::create_new()).await?;
    file.write_at(0, IoBuf::copy_from(&toc::encode(components)), class).await?;
    Ok(file)
}

/// Makes complete files and their names durable. Afterwards they can be sealed by [`seal`] or [`seal_all`],
/// and are not an SSTable until then. Syncs files and directory together, so that the file system can write
/// them with one journal commit.
pub(super) async fn make_durable(files: &Files, dir: &Path, written: &[File]) -> Result<(), FileError> {
    let contents: LocalFuture<'_, _> = Box::pin(File::sync_data_of(written));
    join_all(vec![contents, Box::pin(files.sync_dir(dir))]).await
}

/// Seals the files of `name`, which [`make_durable`] has made durable.
pub(super) async fn seal(files: &Files, dir: &Path, name: &SSTableName) -> Result<(), FileError> {
    let temporary = dir.join(name.file_name(&Component::TocTemporary));
    files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await?;
    files.sync_dir(dir).await
}

/// Seals SSTables that were written without a seal ([`super::SSTableWriter::finish_unsealed`]). Ignores
/// generations that are sealed already or do not exist, so it can be repeated after a crash.
pub async fn seal_all(files: &Files, dir: &Path, names: &[SSTableName]) -> Result<(), FileError> {
    for name in names {
        let temporary = dir.join(name.file_name(&Component::TocTemporary));
        match files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _renamed => (),
        }
    }
    files.sync_dir(dir).await
}

/// Removes SSTables as [`remove_sstable`] does, but syncs the directory once for all of them.
pub async fn remove_sstables(files: &Files, dir: &Path, names: &[SSTableName]) -> Result<(), FileError> {
    for name in names {
        let sealed = dir.join(name.file_name(&Component::Toc));
        match files.rename(&sealed, &dir.join(name.file_name(&Component::TocTemporary))).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _renamed => (),
        }
    }
    files.sync_dir(dir).await?;
    for name in names {
        let components = listed_components(files, dir, name).await?;
        remove_listed(files, dir, name, &components).await?;
    }
    files.sync_dir(dir).await?;
    for name in names {
        remove_file(files, dir, name, &Component::TocTemporary).await?;
    }
    Ok(())
}

/// Removes the seal, if there is one.
pub(super) async fn unseal(files: &Files, dir: &Path, name: &SSTableName) -> Result<(), FileError> {
    let sealed = dir.join(name.file_name(&Component::Toc));
    match files.rename(&sealed, &dir.join(name.file_name(&Component::TocTemporary))).await {
        // An earlier call may have renamed it and been interrupted before the rename was durable.
        Err(error) if !error.is_not_found() => Err(error),
        _renamed => files.sync_dir(dir).await,
    }
}

/// Removes an SSTable, or the remains of one. After the return the removal is durable.
///
/// Readers that have its files open can still read them. After an error, call it again or leave the remaining
/// files to [`clean_up`].
pub async fn remove_sstable(files: &Files, dir: &Path, name: &SSTableName) -> Result<(), FileError> {
    unseal(files, dir, name).await?;
    let components = listed_components(files, dir, name).await?;
    remove_components(files, dir, name, &components).await
}

/// The components that the temporary TOC.txt lists, or, if it is missing or unreadable, those in the
/// directory.
async fn listed_components(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
) -> Result<Vec<Component>, FileError> {
    let temporary = dir.join(name.file_name(&Component::TocTemporary));
    match files.read_all(&temporary, IoClass::Maintenance, TOC_BYTES_MAX).await {
        // TOC.txt that was torn by a crash, or written by another program: list the directory instead.
        Ok(bytes) => {
            if let Ok(components) = toc::decode(&bytes) {
                return Ok(components);
            }
        }
        Err(error) if error.is_not_found() => (),
        Err(error) => return Err(error),
    }
    let mut found = generations(files, dir).await?;
    Ok(found.remove(name).unwrap_or_default())
}

/// Removes these components, and, when their removal is durable, the temporary TOC.txt. Ignores files that do
/// not exist.
pub(super) async fn remove_components(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    components: &[Component],
) -> Result<(), FileError> {
    remove_listed(files, dir, name, components).await?;
    files.sync_dir(dir).await?;
    remove_file(files, dir, name, &Component::TocTemporary).await
}

/// Removes these components except the temporary TOC.txt.
async fn remove_listed(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    components: &[Component],
) -> Result<(), FileError> {
    for component in components.iter().filter(|component| **component != Component::TocTemporary) {
        remove_file(files, dir, name, component).await?;
    }
    Ok(())
}

async fn remove_file(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    component: &Component,
) -> Result<(), FileError> {
    match files.remove(&dir.join(name.file_name(component))).await {
        Err(error) if !error.is_not_found() => Err(error),
        _removed => Ok(()),
    }
}

/// Seals a generation without TOC.txt and `TOC.txt.tmp` again, if Messina wrote it and everything in it
/// agrees with its checksums. Returns whether it did.
async fn is_sealed_again(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    components: &[Component],
) -> Result<bool, FileError> {
    if !components.contains(&Component::Messina) || !components.contains(&Component::Data) {
        return Ok(false);
    }
    let listed: Vec<Component> = components.iter().cloned().chain([Component::Toc]).collect();
    let cache = ChunkCache::new(CHECK_CACHE_BYTES);
    let class = IoClass::Maintenance;
    let is_sound = match SSTable::open_listing(files, dir, *name, listed.clone(), &cache, class).await {
        Ok(sstable) => sstable.rebuilt().is_empty() && sstable.check(class).await.is_ok(),
        Err(_) => false,
    };
    if is_sound {
        // A file named `TOC.txt.tmp` of this generation would mark it as unfinished after a crash, so another
        // name is used.
        let temporary = dir.join(FOUND_TOC);
        files.write_all(&temporary, &toc::encode(&listed), class).await?;
        files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await?;
        files.sync_dir(dir).await?;
    }
    Ok(is_sound)
}

/// Whether a generation has components that exist only at the end of a write.
fn looks_complete(components: &[Component]) -> bool {
    components.contains(&Component::Data) && components.contains(&Component::Statistics)
}

/// Moves a generation to a new directory, and returns that directory.
async fn set_aside(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    components: &[Component],
) -> Result<PathBuf, FileError> {
    let all = dir.join(SET_ASIDE);
    let mut to = all.join(name.to_string());
    let mut attempt = 1;
    while files.exists(&to).await? {
        attempt += 1;
        to = all.join(format!("{name}-{attempt}"));
    }
    files.create_dir_all(&to).await?;
    for component in components {
        let file = name.file_name(component);
        files.rename(&dir.join(&file), &to.join(&file)).await?;
    }
    for changed in [&*to, &*all, dir] {
        files.sync_dir(changed).await?;
    }
    Ok(to)
}

/// What [`clean_up`] did with generations without a seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// Remains of unfinished writes and removals, which were removed.
    pub removed: Vec<SSTableName>,
    /// The new directories of generations that may be damaged SSTables.
    pub set_aside: Vec<PathBuf>,
}

/// Cleans up after a crash: removes every generation without `TOC.txt`. Exceptions are generations without
/// `TOC.txt.tmp`: a sound one is sealed again, and one that may be a damaged SSTable is set aside. Must be
/// called at a start, before anything is written to `dir`. Afterwards the seals of all SSTables are durable.
///
/// Ignores subdirectories, files that belong to no SSTable, and versions that this build does not write.
pub async fn clean_up(files: &Files, dir: &Path) -> Result<CleanedUp, FileError> {
    let mut done = CleanedUp::default();
    let generations = generations(files, dir).await?;
    if generations.values().any(|components| components.contains(&Component::Toc)) {
        // A process that was killed between a rename and its sync leaves a seal that a loss of power could
        // take back. What this start serves must be there at the next one.
        files.sync_dir(dir).await?;
    }
    for (name, components) in generations {
        if components.contains(&Component::Toc) || !name.version.is_writable() {
            continue;
        }
        if !components.contains(&Component::TocTemporary) {
            if is_sealed_again(files, dir, &name, &components).await? {
                continue;
            }
            if looks_complete(&components) {
                done.set_aside.push(set_aside(files, dir, &name, &components).await?);
                continue;
            }
        }
        remove_components(files, dir, &name, &components).await?;
        done.removed.push(name);
    }
    if !done.removed.is_empty() {
        files.sync_dir(dir).await?;
    }
    super::secondary::clean_up(files, dir).await?;
    Ok(done)
}

/// The components of each generation in `dir`.
async fn generations(files: &Files, dir: &Path) -> Result<BTreeMap<SSTableName, Vec<Component>>, FileError> {
    let mut generations = BTreeMap::<_, Vec<_>>::new();
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        if let Ok((name, component)) = SSTableName::parse_file_name(&entry.name) {
            generations.entry(name).or_default().push(component);
        }
    }
    Ok(generations)
}
