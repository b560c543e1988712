//! Makes a backup: a checkpoint of the engine, the files that the target does not have, and then the
//! manifest.
//!
//! 1. A mark in the target holds prunes back ([`lease`](crate::lease)).
//! 2. The engine makes a checkpoint: hard links to the SSTables of all tables at one point in time.
//! 3. Each file is compared with earlier manifests ([`plan`](crate::plan)). New ones are read, hashed, copied
//!    if the target has no object of that content, and read back from the target.
//! 4. The manifest is written. Before it, there is no backup; after a crash the next one finds the objects
//!    that were copied and copies only the others.
//! 5. The hard links are removed. If the process is killed before, the next backup removes them.
//!
//! SSTables are read by the engine's shards with the I/O class of maintenance, at a limited rate.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use engine::node::snapshot::checkpoint::TAG_PREFIX;
use engine::node::{self, Checkpoint, CheckpointTable, Clear};
use engine::{Engine, EngineError};
use model::CqlType;
use runtime::{IoClass, OpenOptions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sstable::name::SSTableName;

use crate::clock;
use crate::error::BackupError;
use crate::fetch;
use crate::lease::Lease;
use crate::manifest::{FileEntry, LogPlace, Manifest, TableEntry, hex, object_name};
use crate::pace::Pace;
use crate::plan::{Known, LocalFile, ObjectState, Objects};
use crate::storage::Target;

/// Bytes of one read of an SSTable. A file of at most this length is read once; a larger one is hashed first
/// and read again if it has to be copied.
const CHUNK_BYTES: usize = 4 << 20;

/// How a backup is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The node's id.
    pub host_id: String,
    /// The version of this program.
    pub version: String,
    /// Bytes of SSTables read per second; 0: no limit.
    pub io_bytes_per_s: u64,
    /// See [`Manifest::archive`].
    pub archive: Option<String>,
}

/// Result of a backup: its content, and the part of it that was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// Its id.
    pub id: String,
    /// The target's name.
    pub target: String,
    /// Number of tables, system tables included.
    pub tables: u64,
    /// Number of files, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Of these, the files that the target did not have.
    pub copied_files: u64,
    /// See `copied_files`.
    pub copied_bytes: u64,
    /// From the begin to the manifest.
    pub took_ms: u64,
}

/// See the head of this file.
///
/// # Errors
/// A table cannot be read, the target fails, or an object read back is not what was written. Then there is no
/// backup.
pub fn create(engine: &Engine, target: &dyn Target, options: &CreateOptions) -> Result<Created, BackupError> {
    let began_us = clock::now_us();
    let mark = format!("{}-{}", options.host_id, id_of(began_us));
    let mut lease = Lease::create(target, &mark)?;
    remove_links(engine, None)?;
    let tag = format!("{TAG_PREFIX}{}", id_of(began_us));
    let made = tag.clone();
    let checkpoint =
        engine.ask(0, move |shard| async move { node::checkpoint(&shard, made).await }).wait()?;
    let copied = copy(engine, target, options, &checkpoint, &mut lease);
    let removed = remove_links(engine, Some(tag));
    let mut created = copied?;
    removed?;
    created.took_ms = ((clock::now_us() - began_us) / 1000) as u64;
    Ok(created)
}

/// The id of a backup of this time.
pub fn id_of(at_us: i64) -> String {
    let text = CqlType::Timestamp.text_of(&(at_us / 1000).to_be_bytes());
    text.chars().filter(|c| !"'-: ".contains(*c)).collect::<String>().replace("+0000", "Z")
}

/// Removes the snapshots of a backup; `None`: of all backups, which are not running any more.
fn remove_links(engine: &Engine, tag: Option<String>) -> Result<(), BackupError> {
    let remove = |shard| async move {
        let tags = match tag {
            Some(tag) => vec![tag],
            None => {
                let found = node::snapshots(&shard).await?.into_iter().map(|snapshot| snapshot.tag);
                let mut tags: Vec<String> = found.filter(|tag| tag.starts_with(TAG_PREFIX)).collect();
                tags.sort();
                tags.dedup();
                tags
            }
        };
        for tag in tags {
            node::clear_snapshots(&shard, Clear { tag: Some(tag), ..Clear::default() }).await?;
        }
        Ok::<(), EngineError>(())
    };
    Ok(engine.ask(0, remove).wait()?)
}

/// A backup that is being made.
struct Copying<'a, 'b> {
    engine: &'a Engine,
    target: &'a dyn Target,
    lease: &'a mut Lease<'b>,
    objects: Objects,
    pace: Pace,
    created: Created,
}

fn copy(
    engine: &Engine,
    target: &dyn Target,
    options: &CreateOptions,
    checkpoint: &Checkpoint,
    lease: &mut Lease<'_>,
) -> Result<Created, BackupError> {
    // A damaged manifest is no reason to make no backup; its objects are verified again.
    let manifests: Vec<Manifest> =
        fetch::ids(target)?.iter().filter_map(|id| fetch::manifest(target, id).ok()).collect();
    let known = Known::of(&manifests, &options.host_id);
    let mut copying = Copying {
        engine,
        target,
        lease,
        objects: Objects::of(target.list(crate::manifest::OBJECTS)?, &manifests),
        pace: Pace::new(options.io_bytes_per_s),
        created: Created { target: target.name(), ..Created::default() },
    };
    let place = |position: &engine::commitlog::LogPosition| LogPlace {
        segment: position.segment,
        offset_bytes: position.offset_bytes,
    };
    let mut manifest = Manifest {
        id: id_of(checkpoint.at_us),
        at_us: checkpoint.at_us,
        host_id: options.host_id.clone(),
        version: options.version.clone(),
        positions: checkpoint.positions.iter().map(place).collect(),
        schema_position: place(&checkpoint.schema_position),
        archive: options.archive.clone(),
        tables: vec![],
    };
    for table in &checkpoint.tables {
        manifest.tables.push(copying.table(table, &known)?);
    }
    if manifests.iter().any(|other| other.id == manifest.id) {
        return Err(BackupError(format!(
            "{} has a backup {} already; try again",
            target.name(),
            manifest.id
        )));
    }
    copying.lease.check()?;
    target.put_bytes(&manifest.name(), manifest.encode().as_bytes())?;
    let mut created = copying.created;
    created.id = manifest.id.clone();
    created.tables = manifest.tables.len() as u64;
    created.files = manifest.tables.iter().map(|table| table.files.len() as u64).sum();
    created.bytes = manifest.bytes();
    Ok(created)
}

impl Copying<'_, '_> {
    fn table(&mut self, table: &CheckpointTable, known: &Known<'_>) -> Result<TableEntry, BackupError> {
        let schema_file = table.dir.join("schema.cql");
        let schema = fs::read_to_string(&schema_file);
        let mut entry = TableEntry {
            keyspace: table.schema.keyspace.clone(),
            name: table.schema.name.clone(),
            id: table.schema.id.simple().to_string(),
            schema: schema.map_err(|error| BackupError::of_file("read", &schema_file, &error))?,
            is_system: catalog::is_system_keyspace(&table.schema.keyspace),
            is_unbuilt: table.is_unbuilt,
            files: vec![],
        };
        for file in local_files(&table.dir)? {
            let path = table.dir.join(&file.name);
            let known = known.sha256_of(&entry.id, &file);
            let sha256 = self.file(&entry, &path, &file, known)?;
            let LocalFile { name, bytes, modified_us } = file;
            entry.files.push(FileEntry { name, bytes, modified_us, sha256 });
        }
        Ok(entry)
    }

    /// Makes the target have the content of a file; returns its checksum.
    fn file(
        &mut self,
        table: &TableEntry,
        path: &Path,
        file: &LocalFile,
        known: Option<&str>,
    ) -> Result<String, BackupError> {
        if let Some(sha256) = known
            && self.objects.state(&table.id, sha256, file.bytes) == ObjectState::Verified
        {
            return Ok(sha256.to_string());
        }
        let is_small = file.bytes <= CHUNK_BYTES as u64;
        let mut whole = None;
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < file.bytes {
            let chunk = self.read(path, at, file.bytes)?;
            at += chunk.len() as u64;
            hash.update(&chunk);
            whole = is_small.then_some(chunk);
        }
        let sha256 = hex(&hash.finalize());
        let of = FileEntry {
            name: file.name.clone(),
            bytes: file.bytes,
            modified_us: file.modified_us,
            sha256: sha256.clone(),
        };
        match self.objects.state(&table.id, &sha256, file.bytes) {
            ObjectState::Verified => return Ok(sha256),
            ObjectState::Unverified if self.wrong(table, &of)?.is_none() => {}
            ObjectState::Unverified | ObjectState::Missing => {
                self.copy(table, path, &of, whole)?;
                if let Some(wrong) = self.wrong(table, &of)? {
                    return Err(BackupError(format!(
                        "{wrong}, right after it was written; there is no backup: check the disk or the network of {}",
                        self.target.name()
                    )));
                }
                self.created.copied_files += 1;
                self.created.copied_bytes += file.bytes;
            }
        }
        self.objects.verified(&table.id, &sha256, file.bytes);
        Ok(sha256)
    }

    /// Reads an object back from the target; the text describes its damage, if it has any.
    fn wrong(&mut self, table: &TableEntry, file: &FileEntry) -> Result<Option<String>, BackupError> {
        self.lease.renew()?;
        let lease = &mut *self.lease;
        fetch::check_object(self.target, table, file, &mut Pace::new(0), &mut |_| lease.renew())
    }

    fn copy(
        &mut self,
        table: &TableEntry,
        path: &Path,
        file: &FileEntry,
        whole: Option<Vec<u8>>,
    ) -> Result<(), BackupError> {
        let name = object_name(&table.id, &file.sha256);
        let target = self.target;
        if file.bytes <= CHUNK_BYTES as u64 {
            return target.put_bytes(&name, &whole.unwrap_or_default());
        }
        let mut at = 0;
        target.put(&name, file.bytes, &mut || {
            if at >= file.bytes {
                return Ok(None);
            }
            let chunk = self.read(path, at, file.bytes)?;
            at += chunk.len() as u64;
            Ok(Some(chunk))
        })
    }

    /// The next bytes of a file, at the limited rate.
    fn read(&mut self, path: &Path, at: u64, len_bytes: u64) -> Result<Vec<u8>, BackupError> {
        self.lease.renew()?;
        let len = (len_bytes - at).min(CHUNK_BYTES as u64) as usize;
        self.pace.spend(len as u64);
        let file: PathBuf = path.to_owned();
        let read = move |shard: runtime::Shard| async move {
            let file = shard.files().open(&file, OpenOptions::read()).await?;
            Ok::<_, EngineError>(file.read_at(at, len, IoClass::Maintenance).await?.to_vec())
        };
        let chunk = self.engine.ask(0, read).wait()?;
        if chunk.is_empty() {
            return Err(BackupError(format!("{} became shorter while it was read", path.display())));
        }
        Ok(chunk)
    }
}

/// The components of SSTables in a snapshot, by name.
fn local_files(dir: &Path) -> Result<Vec<LocalFile>, BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file("read", dir, &error);
    let mut files = vec![];
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if SSTableName::parse_file_name(&name).is_err() {
            continue;
        }
        let of = entry.metadata().map_err(failed)?;
        let modified = of.modified().map_err(failed)?.duration_since(UNIX_EPOCH);
        let modified_us = modified.map_or(0, |modified| modified.as_micros() as i64);
        files.push(LocalFile { name, bytes: of.len(), modified_us });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_times() {
        assert_eq!(id_of(1_700_000_000_123_456), "20231114T221320.123Z");
        assert!(id_of(1_700_000_000_123_456) < id_of(1_700_000_000_124_000));
    }
}
