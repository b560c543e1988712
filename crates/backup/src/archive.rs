//! The archive of the commit log: copies closed segments to the target, so that a node can be restored to any
//! second after a backup.
//!
//! A chain is an archive without gaps. It has an id; a node begins another one when it starts with another
//! target, or after it ran without an archive. In the target:
//!
//! - `archive/<chain>/log/<id>`, `archive/<chain>/schema/<id>`: the segments, up to their last chunk;
//! - `archive/<chain>/passes/<time>`: a [`Pass`], written after its segments. All writes acknowledged before
//!   its time are in the segments of it and of earlier passes.
//!
//! One pass: the engine closes its open segments; the closed ones in `commitlog/archive` are copied and read
//! back; the pass is written; their links are removed. After a crash the next pass copies again what had no
//! pass.

use std::fs;
use std::path::{Path, PathBuf};

use engine::commitlog::archive as segments;
use engine::commitlog::format::id_of_file_name;
use engine::node::{Rotation, rotate_logs};
use engine::table::truncation::{self, Truncation};
use engine::{Engine, EngineError};
use runtime::{IoClass, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::create::id_of;
use crate::error::BackupError;
use crate::manifest::{LogPlace, checked_text, sha256_hex, text_of};
use crate::pace::Pace;
use crate::storage::Target;
use crate::storage::dir::sync_dir;

/// Directory of the archives in a target.
pub const ARCHIVE: &str = "archive";
/// The file with the chain's id and target, in the directory of the links.
const CHAIN: &str = "chain";
/// The words that begin a pass.
const HEAD: &str = "messina archive";
/// Bytes of one read of a segment.
const CHUNK_BYTES: u64 = 4 << 20;

/// Result of one pass over the commit log, as it is stored in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// All writes acknowledged before this time, in microseconds since 1970, are archived.
    pub complete_until_us: i64,
    /// The same time of the pass before; `None` for the first one of the chain.
    pub previous_us: Option<i64>,
    /// The segments.
    pub segments: Vec<SegmentEntry>,
    /// The truncation records of all tables at the time of the pass.
    pub truncations: Vec<TruncationEntry>,
}

/// A segment of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Its id.
    pub id: u64,
    /// It is of the log of the system tables.
    pub is_schema: bool,
    /// Its bytes up to the last chunk.
    pub bytes: u64,
    /// The SHA-256 of these.
    pub sha256: String,
}

impl SegmentEntry {
    /// The name of its object.
    pub fn name(&self, chain: &str) -> String {
        let log = if self.is_schema { "schema" } else { "log" };
        format!("{ARCHIVE}/{chain}/{log}/{}", self.id)
    }
}

/// A truncation of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncationEntry {
    /// The table's id: 32 hexadecimal digits.
    pub table_id: String,
    /// When it was truncated: the time of the record, in microseconds since 1970.
    pub at_us: i64,
    /// Earlier entries of the table are void.
    pub positions: Vec<LogPlace>,
}

impl Pass {
    /// The name of the pass with this time. Names have the order of the times.
    pub fn name_of(chain: &str, complete_until_us: i64) -> String {
        format!("{ARCHIVE}/{chain}/passes/{complete_until_us:020}")
    }

    /// The text of the pass.
    pub fn encode(&self) -> String {
        text_of(HEAD, self)
    }

    /// Parses the text of the pass `name`.
    ///
    /// # Errors
    /// It is damaged or of a later version.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, BackupError> {
        checked_text(HEAD, name, bytes)
    }
}

/// The archive of a running node.
pub struct Archive {
    data_dir: PathBuf,
    chain: String,
    previous_us: Option<i64>,
}

/// Result of [`Archive::pass`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// See [`Pass::complete_until_us`].
    pub complete_until_us: i64,
    /// Copied segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Archive {
    /// Goes on with the chain of the directory, or begins one if it has none for this target. The engine runs
    /// with [`engine::EngineOptions::archives_commitlog`].
    ///
    /// # Errors
    /// The target or the directory cannot be used.
    pub fn open(data_dir: &Path, host_id: &str, target: &dyn Target) -> Result<Self, BackupError> {
        let file = links_dir(data_dir, false).join(CHAIN);
        let found = match fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(BackupError::of_file("read", &file, &error)),
            Ok(text) => {
                text.split_once('\n').map(|(chain, of)| (chain.to_string(), of.trim_end().to_string()))
            }
        };
        let chain = match found {
            Some((chain, of)) if of == target.name() => chain,
            _ => {
                let short: String = host_id.chars().take(8).collect();
                let chain = format!("{}-{short}", id_of(clock::now_us()));
                let write = || {
                    let temporary = file.with_extension("tmp");
                    fs::write(&temporary, format!("{chain}\n{}\n", target.name()))?;
                    fs::File::open(&temporary)?.sync_all()?;
                    fs::rename(&temporary, &file)?;
                    sync_dir(file.parent().unwrap_or(Path::new(".")))
                };
                write().map_err(|error| BackupError::of_file("write", &file, &error))?;
                chain
            }
        };
        let previous_us = passes(target, &chain)?.last().copied();
        Ok(Self { data_dir: data_dir.to_owned(), chain, previous_us })
    }

    /// The id of the chain.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Copies the closed segments that are not in the archive yet. After an error the next pass copies them.
    ///
    /// # Errors
    /// A segment is damaged, the log cannot close its segment, or the target fails.
    pub fn pass(
        &mut self,
        engine: &Engine,
        target: &dyn Target,
        pace: &mut Pace,
    ) -> Result<Archived, BackupError> {
        let rotation: Rotation = engine.ask(0, |shard| async move { rotate_logs(&shard).await }).wait()?;
        let mut done: Vec<PathBuf> = vec![];
        let mut pass = Pass {
            complete_until_us: rotation.complete_until_us,
            previous_us: self.previous_us,
            segments: vec![],
            truncations: truncations(&self.data_dir)?,
        };
        for is_schema in [false, true] {
            for (id, path) in closed(&links_dir(&self.data_dir, is_schema), &rotation, is_schema)? {
                let content = read(engine, id, &path, pace)?;
                let used = segments::used_bytes(id, &content)
                    .map_err(|what| BackupError(format!("{} cannot be archived: {what}", path.display())))?;
                done.push(path);
                if used == 0 {
                    continue;
                }
                let content = &content[..used];
                let segment = SegmentEntry { id, is_schema, bytes: used as u64, sha256: sha256_hex(content) };
                let name = segment.name(&self.chain);
                target.put_bytes(&name, content)?;
                if target.get(&name)?.is_none_or(|found| sha256_hex(&found) != segment.sha256) {
                    return Err(BackupError(format!(
                        "{name} is not what was written to {}; check its disk or network",
                        target.name()
                    )));
                }
                pass.segments.push(segment);
            }
        }
        target.put_bytes(&Pass::name_of(&self.chain, pass.complete_until_us), pass.encode().as_bytes())?;
        self.previous_us = Some(pass.complete_until_us);
        for path in done {
            fs::remove_file(&path).map_err(|error| BackupError::of_file("remove", &path, &error))?;
        }
        Ok(Archived {
            complete_until_us: pass.complete_until_us,
            segments: pass.segments.len() as u64,
            bytes: pass.segments.iter().map(|segment| segment.bytes).sum(),
        })
    }
}

/// The directory of the links to segments.
fn links_dir(data_dir: &Path, is_schema: bool) -> PathBuf {
    let log = data_dir.join("commitlog");
    let log = if is_schema { log.join("schema") } else { log };
    log.join(segments::DIR)
}

/// The closed segments in a directory, by id.
fn closed(dir: &Path, rotation: &Rotation, is_schema: bool) -> Result<Vec<(u64, PathBuf)>, BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file("list", dir, &error);
    let mut found = vec![];
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let id = entry.file_name().to_str().and_then(id_of_file_name);
        found.extend(id.filter(|id| rotation.is_closed(*id, is_schema)).map(|id| (id, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// Reads a segment up to its last chunk through the engine, with the I/O class of maintenance.
fn read(engine: &Engine, id: u64, path: &Path, pace: &mut Pace) -> Result<Vec<u8>, BackupError> {
    let mut content = vec![];
    let bytes = fs::metadata(path).map_err(|error| BackupError::of_file("read", path, &error))?.len();
    while (content.len() as u64) < bytes {
        let (file, at) = (path.to_owned(), content.len() as u64);
        let len = (bytes - at).min(CHUNK_BYTES) as usize;
        pace.spend(len as u64);
        let read = move |shard: runtime::Shard| async move {
            let file = shard.files().open(&file, OpenOptions::read()).await?;
            Ok::<_, EngineError>(file.read_at(at, len, IoClass::Maintenance).await?.to_vec())
        };
        let chunk = engine.ask(0, read).wait()?;
        content.extend_from_slice(&chunk);
        if chunk.is_empty() || segments::is_whole(id, &content) {
            break;
        }
    }
    Ok(content)
}

/// The truncation records in the directories of all tables.
fn truncations(data_dir: &Path) -> Result<Vec<TruncationEntry>, BackupError> {
    let data = data_dir.join("data");
    let mut found = vec![];
    for keyspace in dirs(&data)? {
        for table in dirs(&keyspace)? {
            let path = table.join(truncation::FILE_NAME);
            let content = match fs::read(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                content => content.map_err(|error| BackupError::of_file("read", &path, &error))?,
            };
            let name = table.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let record = Truncation::decode(&content);
            let (Some((_, id)), Some(record)) = (name.rsplit_once('-'), record) else { continue };
            let modified = fs::metadata(&path).and_then(|of| of.modified());
            let modified = modified.map_err(|error| BackupError::of_file("read", &path, &error))?;
            let at_us = modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |at| at.as_micros() as i64);
            let place = |position: &engine::commitlog::LogPosition| LogPlace {
                segment: position.segment,
                offset_bytes: position.offset_bytes,
            };
            let positions = record.positions.iter().map(place).collect();
            found.push(TruncationEntry { table_id: id.to_string(), at_us, positions });
        }
    }
    Ok(found)
}

/// The directories in a directory.
fn dirs(dir: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file("list", dir, &error);
    let entries = match fs::read_dir(dir) {
        // A dropped table, removed meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(failed)?,
    };
    let mut found = vec![];
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// The times of the passes of a chain, from the first to the last.
///
/// # Errors
/// The target fails.
pub fn passes(target: &dyn Target, chain: &str) -> Result<Vec<i64>, BackupError> {
    let names = target.list(&format!("{ARCHIVE}/{chain}/passes"))?;
    let time = |(name, _): (String, u64)| name.rsplit('/').next().and_then(|time| time.parse().ok());
    let mut times: Vec<i64> = names.into_iter().filter_map(time).collect();
    times.sort_unstable();
    Ok(times)
}

/// The passes that have the writes after a backup of `from_us` up to `to_us`, in order.
///
/// # Errors
/// The archive does not reach `to_us`, or a pass is missing or damaged.
pub fn passes_between(
    target: &dyn Target,
    chain: &str,
    from_us: i64,
    to_us: i64,
) -> Result<Vec<Pass>, BackupError> {
    let times = passes(target, chain)?;
    let last = times.last().copied();
    let mut wanted = vec![];
    for time in times.into_iter().filter(|time| *time > from_us) {
        let name = Pass::name_of(chain, time);
        let bytes = target.get(&name)?;
        let bytes = bytes.ok_or_else(|| BackupError(format!("{name} is missing in {}", target.name())))?;
        let pass = Pass::decode(&name, &bytes)?;
        let is_next = match wanted.last() {
            None => pass.previous_us.is_none_or(|previous| previous <= from_us),
            Some(Pass { complete_until_us, .. }) => pass.previous_us == Some(*complete_until_us),
        };
        if !is_next {
            return Err(BackupError(format!(
                "a pass before {name} is missing in {}; the archive has a gap there: choose a time before it",
                target.name()
            )));
        }
        wanted.push(pass);
        if time >= to_us {
            return Ok(wanted);
        }
    }
    let until = last.map_or("nothing is archived".to_string(), |last| {
        format!("the archive is complete until {}", id_of(last))
    });
    Err(BackupError(format!(
        "{} cannot be reached: {until}; choose an earlier time, or wait for the next pass of the node",
        id_of(to_us)
    )))
}
