//! Restores a node to a point in time: a backup, and the writes of the archive after it.
//!
//! 1. The newest backup not after that time, which an archive follows, is written under a temporary name
//!    ([`restore`](crate::restore())), without the SSTables of tables that were truncated in between.
//! 2. The entries of the system tables' log after the backup and up to the time are made a segment, and an
//!    engine replays them: now the schema is that of the time. Directories of dropped tables are removed.
//! 3. The entries of the log of users' tables are made segments, and an engine replays and flushes them, as a
//!    start after a crash does. Entries that a truncation had removed are left out.
//! 4. The directory gets its name.
//!
//! The time of a write is that of its chunk in the commit log, by the clock of the node: every write that was
//! acknowledged before the chosen time is there, and no write that began after it. Entries before the
//! position of the backup are in its SSTables; replaying them could bring back what a purged tombstone had
//! deleted.

use std::fs;
use std::path::Path;

use base::{HashMap, HashSet};
use engine::commitlog::LogPosition;
use engine::commitlog::archive::{Archived, select};
use engine::commitlog::format::{file_name, segment_id, split_id};
use engine::table::lost;
use engine::table::view_mark::{self, Unbuilt};
use engine::{CompactionOptions, Engine, EngineOptions};
use model::codec;

use crate::archive::{Pass, SegmentEntry, TruncationEntry, passes_between};
use crate::create::id_of;
use crate::error::BackupError;
use crate::fetch;
use crate::manifest::{LogPlace, Manifest, sha256_hex};
use crate::restore::{Restored, Staged, stage, summary};
use crate::storage::Target;

/// Segments are given to this many shards, so that an engine replays them in parallel.
const SHARDS: u64 = 16;

/// Restores the node as it was at `to_us` (microseconds since 1970) as the data directory `to`.
///
/// # Errors
/// No backup with an archive is that old, the archive does not reach the time or has a gap, or an object is
/// missing or damaged. Then `to` is as before.
pub fn restore_to_time(
    target: &dyn Target,
    to_us: i64,
    to: &Path,
    io_bytes_per_s: u64,
) -> Result<Restored, BackupError> {
    let (manifest, chain) = base_of(target, to_us)?;
    let passes = passes_between(target, &chain, manifest.at_us, to_us)?;
    let truncations = truncations(&passes, to_us);
    let mut base = manifest.clone();
    for table in &mut base.tables {
        // A mark is made when the log has been replayed.
        table.is_unbuilt = false;
        if truncations.get(&table.id).is_some_and(|of| of.iter().any(|it| is_behind(it, &manifest))) {
            table.files.clear();
        }
    }
    let staged = stage(target, &base, to, io_bytes_per_s)?;
    let mut replay = Replay { target, chain, manifest: &manifest, truncations, to_us, mutations: 0, made: 0 };
    replay.log(&passes, true, staged.dir())?;
    let (engine, unknown) = open(staged.dir())?;
    let catalog = engine.catalog()?;
    engine.close()?;
    for dir in unknown {
        fs::remove_dir_all(&dir).map_err(|error| BackupError::of_file("remove", &dir, &error))?;
    }
    mark(&staged, &manifest, &catalog)?;
    // That engine's records of its own run, which says that no earlier segment is needed.
    for log in ["commitlog", "commitlog/schema"] {
        remove_files(&staged.dir().join(log))?;
    }
    replay.log(&passes, false, staged.dir())?;
    let mutations = replay.mutations;
    let (engine, _) = open(staged.dir())?;
    engine.close()?;
    staged.publish(to)?;
    let tables = catalog.all_tables().filter(|table| !catalog::is_system_keyspace(&table.schema.keyspace));
    Ok(Restored {
        tables: tables.map(|table| table.schema.full_name()).collect(),
        mutations,
        ..summary(&manifest)
    })
}

/// The newest backup at or before a time that an archive follows, and the archive.
fn base_of(target: &dyn Target, to_us: i64) -> Result<(Manifest, String), BackupError> {
    let mut first = None;
    for id in fetch::ids(target)?.into_iter().rev() {
        // An older one serves as well as a damaged one.
        let Ok(manifest) = fetch::manifest(target, &id) else { continue };
        if let Some(chain) = manifest.archive.clone() {
            if manifest.at_us <= to_us {
                return Ok((manifest, chain));
            }
            first = Some(manifest.id);
        }
    }
    let why = match first {
        Some(id) => format!("the first backup with an archive is {id}; choose a later time"),
        None => "no backup has an archive; set backup_archive_interval before the backup is made".to_string(),
    };
    Err(BackupError(format!("{} cannot be reached from {}: {why}", id_of(to_us), target.name())))
}

/// The truncations up to a time, by table.
fn truncations(passes: &[Pass], to_us: i64) -> HashMap<String, Vec<TruncationEntry>> {
    let mut found: HashMap<String, Vec<TruncationEntry>> = HashMap::default();
    for truncation in passes.iter().flat_map(|pass| &pass.truncations).filter(|it| it.at_us <= to_us) {
        let of_table = found.entry(truncation.table_id.clone()).or_default();
        if !of_table.contains(truncation) {
            of_table.push(truncation.clone());
        }
    }
    found
}

fn position(place: &LogPlace) -> LogPosition {
    LogPosition { segment: place.segment, offset_bytes: place.offset_bytes }
}

/// Whether a position is at or behind the end of a backup. Numbers of segments rise over all runs of a node,
/// so a segment of a shard that the backup does not know is later if its number is.
fn is_after(at: LogPosition, ends: &[LogPosition]) -> bool {
    let (shard, number) = split_id(at.segment);
    match ends.iter().find(|end| split_id(end.segment).0 == shard) {
        Some(end) => at >= *end,
        None => ends.iter().all(|end| number > split_id(end.segment).1),
    }
}

/// Whether a table was truncated after the backup.
fn is_behind(truncation: &TruncationEntry, manifest: &Manifest) -> bool {
    let ends: Vec<LogPosition> = manifest.positions.iter().map(position).collect();
    truncation.positions.iter().any(|place| is_after(position(place), &ends))
}

/// Whether a truncation removed an entry at a position.
fn is_truncated(truncation: &TruncationEntry, at: LogPosition) -> bool {
    let shard = split_id(at.segment).0;
    truncation.positions.iter().map(position).any(|until| split_id(until.segment).0 == shard && at < until)
}

struct Replay<'a> {
    target: &'a dyn Target,
    chain: String,
    manifest: &'a Manifest,
    truncations: HashMap<String, Vec<TruncationEntry>>,
    to_us: i64,
    /// Mutations that are replayed.
    mutations: u64,
    /// Segments made.
    made: u64,
}

impl Replay<'_> {
    /// Makes segments of the wanted entries of one log, in the directory of that log.
    fn log(&mut self, passes: &[Pass], is_schema: bool, data_dir: &Path) -> Result<(), BackupError> {
        let dir = data_dir.join(if is_schema { "commitlog/schema" } else { "commitlog" });
        let ends: Vec<LogPosition> = match is_schema {
            true => vec![position(&self.manifest.schema_position)],
            false => self.manifest.positions.iter().map(position).collect(),
        };
        let mut seen = HashSet::default();
        for segment in passes.iter().flat_map(|pass| &pass.segments) {
            if segment.is_schema == is_schema && seen.insert(segment.id) {
                self.segment(segment, &ends, &dir)?;
            }
        }
        Ok(())
    }

    fn segment(
        &mut self,
        segment: &SegmentEntry,
        ends: &[LogPosition],
        dir: &Path,
    ) -> Result<(), BackupError> {
        let name = segment.name(&self.chain);
        let found = self.target.get(&name)?;
        let content = found.ok_or_else(|| self.wrong(&name, "is missing"))?;
        if content.len() as u64 != segment.bytes || sha256_hex(&content) != segment.sha256 {
            return Err(self.wrong(&name, "is damaged: its checksum is wrong"));
        }
        self.made += 1;
        let new_id = segment_id((self.made % SHARDS) as u32, self.made);
        let is_wanted = |archived: Archived<'_>| {
            if archived.written_us > self.to_us || !is_after(archived.position, ends) {
                return Ok(false);
            }
            let table = codec::table_of(archived.mutation).map_err(|error| error.to_string())?;
            let truncations = self.truncations.get(&table.simple().to_string());
            let is_gone =
                truncations.is_some_and(|of| of.iter().any(|it| is_truncated(it, archived.position)));
            Ok(!is_gone)
        };
        let selected = select(segment.id, &content, new_id, is_wanted)
            .map_err(|what| self.wrong(&name, &format!("is damaged: {what}")))?;
        self.mutations += selected.kept;
        if selected.segment.is_empty() {
            return Ok(());
        }
        let path = dir.join(file_name(new_id));
        fs::write(&path, &selected.segment).map_err(|error| BackupError::of_file("write", &path, &error))
    }

    fn wrong(&self, name: &str, what: &str) -> BackupError {
        BackupError(format!(
            "{name} {what}; nothing was restored: choose a time before it, or restore the object in {}",
            self.target.name()
        ))
    }
}

/// Opens a restored directory, which replays and flushes its logs. Returns the directories that belong to no
/// table, too.
fn open(dir: &Path) -> Result<(Engine, Vec<std::path::PathBuf>), BackupError> {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    let options = EngineOptions { compaction, ..EngineOptions::new(dir) };
    let engine = Engine::open(options)?;
    let unknown = engine.open_report().unknown_dirs.clone();
    Ok((engine, unknown))
}

/// Tables that were created after the backup are not lost: their rows are in the log. Their views, and those
/// that the backup had unbuilt, are to be built.
fn mark(staged: &Staged, manifest: &Manifest, catalog: &catalog::Catalog) -> Result<(), BackupError> {
    for table in catalog.all_tables() {
        let schema = &table.schema;
        if catalog::is_system_keyspace(&schema.keyspace) {
            continue;
        }
        let dir = engine::node::table_dir(staged.dir(), schema);
        let id = schema.id.simple().to_string();
        let of_backup = manifest.tables.iter().find(|table| table.id == id);
        if of_backup.is_none() {
            let path = dir.join(lost::FILE_NAME);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(BackupError::of_file("remove", &path, &error));
                }
                _removed => {}
            }
        }
        if schema.view.is_some() && of_backup.is_none_or(|table| table.is_unbuilt) {
            let path = dir.join(view_mark::FILE_NAME);
            let written = fs::write(&path, Unbuilt::Again.text());
            written.map_err(|error| BackupError::of_file("write", &path, &error))?;
        }
    }
    Ok(())
}

/// Removes the files, not the directories, in a directory.
fn remove_files(dir: &Path) -> Result<(), BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file("empty", dir, &error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(shard: u32, number: u64, offset_bytes: u32) -> LogPosition {
        LogPosition { segment: segment_id(shard, number), offset_bytes }
    }

    #[test]
    fn positions_are_compared_within_a_shard_and_numbers_over_all() {
        let ends = [at(0, 10, 100), at(1, 12, 64)];
        assert!(
            is_after(at(0, 10, 100), &ends) && is_after(at(0, 11, 0), &ends) && is_after(at(1, 13, 0), &ends)
        );
        assert!(!is_after(at(0, 10, 99), &ends) && !is_after(at(1, 11, 500), &ends));
        assert!(is_after(at(2, 13, 0), &ends), "a shard that was added by a later start");
        assert!(
            !is_after(at(2, 12, 0), &ends) && !is_after(at(2, 5, 0), &ends),
            "one that an earlier run had"
        );
    }

    #[test]
    fn truncations_up_to_the_time_count() {
        let place = |shard, number| LogPlace { segment: segment_id(shard, number), offset_bytes: 64 };
        let of = |at_us| TruncationEntry { table_id: "t".into(), at_us, positions: vec![place(0, 5)] };
        let passes = [
            Pass { truncations: vec![of(10)], ..Pass::default() },
            Pass { truncations: vec![of(10), of(30)], ..Pass::default() },
        ];
        assert_eq!(truncations(&passes, 20)["t"], [of(10)]);
        assert!(truncations(&passes, 9).is_empty());
        assert!(is_truncated(&of(1), at(0, 5, 63)) && !is_truncated(&of(1), at(0, 5, 64)));
        assert!(!is_truncated(&of(1), at(1, 4, 0)));
        let manifest = |number| Manifest { positions: vec![place(0, number)], ..Manifest::default() };
        assert!(is_behind(&of(1), &manifest(5)) && !is_behind(&of(1), &manifest(6)));
    }
}
