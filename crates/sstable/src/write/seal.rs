//! When an SSTable exists: TOC.txt, and what leads to it and away from it.
//!
//! A generation is an SSTable if and only if it has `TOC.txt`. Writing begins with `TOC.txt.tmp` and ends with
//! renaming it; removing begins with renaming it back. The directory is synced around each rename, so after a
//! crash a generation is whole, or has no `TOC.txt` and is removed by [`clean_up`]. The temporary name goes last, when
//! all else is gone for good, so that whatever is left of a generation is known as such. One that has neither name and
//! is sound to the last row has lost it otherwise, and gets it back: it is nobody's remains. One that has all that a complete one
//! has, and is not sound, may be the only copy of something: it is moved to `set-aside`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base::drive::all;
use reader::LocalFuture;
use runtime::{File, FileError, Files, IoBuf, IoClass, OpenOptions};

use crate::component::toc;
use crate::name::{Component, SstableName};
use crate::read::{ChunkCache, SSTable};

/// For the look at an SSTable without a table of contents; nothing of it is read twice.
const CHECK_CACHE_BYTES: usize = 1 << 20;
/// The longest TOC.txt that is read; one line is some tens of bytes.
const TOC_BYTES_MAX: u64 = 64 * 1024;
/// A table of contents that is being made for an SSTable that has lost its own.
const FOUND_TOC: &str = "found-toc.tmp";
/// The directory beside SSTables for those that may be damaged ones.
const SET_ASIDE: &str = "set-aside";

/// Says that the files of `name` to come are unfinished. Fails, and changes nothing, if the generation exists. Gives
/// the table of contents, which is to be synced before the seal; a crash before may leave files without it, which
/// [`clean_up`] removes as well.
pub(super) async fn begin(
    files: &Files,
    dir: &Path,
    name: &SstableName,
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

/// Makes complete files durable, with their names: ready to be sealed by [`seal`] or [`seal_all`], and not an SSTable. The journal of the
/// file system does it all at once.
pub(super) async fn make_durable(files: &Files, dir: &Path, written: &[File]) -> Result<(), FileError> {
    let contents: LocalFuture<'_, _> = Box::pin(File::sync_data_of(written));
    all(vec![contents, Box::pin(files.sync_dir(dir))]).await
}

/// Makes the files of `name`, durable by [`make_durable`], an SSTable.
pub(super) async fn seal(files: &Files, dir: &Path, name: &SstableName) -> Result<(), FileError> {
    let temporary = dir.join(name.file_name(&Component::TocTemporary));
    files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await?;
    files.sync_dir(dir).await
}

/// Makes SSTables of files that were written without a seal ([`super::SSTableWriter::finish_unsealed`]). Those that
/// are sealed already, or are not there, are none the worse: it may be done again after a crash.
pub async fn seal_all(files: &Files, dir: &Path, names: &[SstableName]) -> Result<(), FileError> {
    for name in names {
        let temporary = dir.join(name.file_name(&Component::TocTemporary));
        match files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _renamed => (),
        }
    }
    files.sync_dir(dir).await
}

/// Removes SSTables as [`remove_sstable`] does one, with one wait for the directory for all.
pub async fn remove_sstables(files: &Files, dir: &Path, names: &[SstableName]) -> Result<(), FileError> {
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

/// Takes the seal off, if there is one.
pub(super) async fn unseal(files: &Files, dir: &Path, name: &SstableName) -> Result<(), FileError> {
    let sealed = dir.join(name.file_name(&Component::Toc));
    match files.rename(&sealed, &dir.join(name.file_name(&Component::TocTemporary))).await {
        // It may be gone since an earlier call, which ended before that was durable.
        Err(error) if !error.is_not_found() => Err(error),
        _renamed => files.sync_dir(dir).await,
    }
}

/// Removes an SSTable, or what is left of one. Once this returns it is not there after a crash either.
///
/// Its files stay readable to whoever has them open. After an error, call it again, or leave the rest to
/// [`clean_up`].
pub async fn remove_sstable(files: &Files, dir: &Path, name: &SstableName) -> Result<(), FileError> {
    unseal(files, dir, name).await?;
    let components = listed_components(files, dir, name).await?;
    remove_components(files, dir, name, &components).await
}

/// The components in the temporary TOC.txt, or those in the directory if it says nothing.
async fn listed_components(
    files: &Files,
    dir: &Path,
    name: &SstableName,
) -> Result<Vec<Component>, FileError> {
    let temporary = dir.join(name.file_name(&Component::TocTemporary));
    match files.read_all(&temporary, IoClass::Maintenance, TOC_BYTES_MAX).await {
        // Torn by a crash, or somebody else's: look for ourselves.
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

/// Removes these components, and the temporary TOC.txt when they are gone for good. Those that are not there are none the
/// worse.
pub(super) async fn remove_components(
    files: &Files,
    dir: &Path,
    name: &SstableName,
    components: &[Component],
) -> Result<(), FileError> {
    remove_listed(files, dir, name, components).await?;
    files.sync_dir(dir).await?;
    remove_file(files, dir, name, &Component::TocTemporary).await
}

/// Removes these components but the temporary TOC.txt.
async fn remove_listed(
    files: &Files,
    dir: &Path,
    name: &SstableName,
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
    name: &SstableName,
    component: &Component,
) -> Result<(), FileError> {
    match files.remove(&dir.join(name.file_name(component))).await {
        Err(error) if !error.is_not_found() => Err(error),
        _removed => Ok(()),
    }
}

/// Whether a generation without any table of contents is an SSTable all the same: one that was written here, and in which
/// everything agrees with its checksums. It is sealed then.
async fn is_sealed_again(
    files: &Files,
    dir: &Path,
    name: &SstableName,
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
        // Under the temporary name of one that is being written it would be taken for that after a crash.
        let temporary = dir.join(FOUND_TOC);
        files.write_all(&temporary, &toc::encode(&listed), class).await?;
        files.rename(&temporary, &dir.join(name.file_name(&Component::Toc))).await?;
        files.sync_dir(dir).await?;
    }
    Ok(is_sound)
}

/// Whether a generation has what is only there at the end of a write.
fn looks_complete(components: &[Component]) -> bool {
    components.contains(&Component::Data) && components.contains(&Component::Statistics)
}

/// Moves a generation out of the way, to a directory that is new. Gives that.
async fn set_aside(
    files: &Files,
    dir: &Path,
    name: &SstableName,
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

/// What a start did about generations without a seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// Remains of writes and removals that had not ended; they are gone.
    pub removed: Vec<SstableName>,
    /// The directories that have what may be damaged SSTables now.
    pub set_aside: Vec<PathBuf>,
}

/// Removes what crashes have left: every file of a generation that has no `TOC.txt`, unless there is no temporary one either
/// and all of it is sound, or it may be a damaged one. To be called at the start, before anything is written to `dir`.
///
/// Left alone: subdirectories, files that are no SSTable's, and versions that this build does not write.
pub async fn clean_up(files: &Files, dir: &Path) -> Result<CleanedUp, FileError> {
    let mut done = CleanedUp::default();
    for (name, components) in generations(files, dir).await? {
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
    Ok(done)
}

/// The components of each generation in `dir`.
async fn generations(files: &Files, dir: &Path) -> Result<BTreeMap<SstableName, Vec<Component>>, FileError> {
    let mut generations = BTreeMap::<_, Vec<_>>::new();
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        if let Ok((name, component)) = SstableName::parse_file_name(&entry.name) {
            generations.entry(name).or_default().push(component);
        }
    }
    Ok(generations)
}
