//! Work on the data directory of a stopped node: it is opened as a node opens it, with its lock.

use std::path::Path;

use backup::{BackupError, CreateOptions, Created, Restored};
use engine::{CompactionOptions, Engine, EngineOptions};
use server::table_restore::{self, TableRestore};

/// Opens the directory of a stopped node. The commit log is replayed and flushed, as by a start; nothing is
/// compacted.
///
/// # Errors
/// It is no data directory, a node has it open, or a node could not start with it either.
pub fn open(dir: &Path) -> Result<Engine, BackupError> {
    if !dir.join("host_id").exists() {
        return Err(BackupError(format!("{} is not the data directory of a node", dir.display())));
    }
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    // An archive of the commit log goes on when the node starts again.
    let archives_commitlog = dir.join("commitlog/archive/chain").exists();
    let options = EngineOptions { compaction, archives_commitlog, ..EngineOptions::new(dir) };
    Ok(Engine::open(options)?)
}

/// Makes a backup of the directory of a stopped node.
///
/// # Errors
/// As [`open`] and [`backup::create()`].
pub fn create(dir: &Path, target: &str, io_bytes_per_s: u64) -> Result<Created, BackupError> {
    let target = backup::open_target(target)?;
    let engine = open(dir)?;
    let options = CreateOptions {
        host_id: engine.open_report().host_id.to_string(),
        version: server::VERSION.to_string(),
        io_bytes_per_s,
        archive: None,
    };
    let created = backup::create(&engine, &*target, &options);
    engine.close()?;
    created
}

/// Restores tables into the directory of a stopped node.
///
/// # Errors
/// As [`open`] and [`table_restore::restore_tables`].
pub fn restore_tables(
    dir: &Path,
    target: &str,
    backup: Option<&str>,
    tables: &TableRestore,
    io_bytes_per_s: u64,
) -> Result<Restored, BackupError> {
    let target = backup::open_target(target)?;
    let manifest = backup::fetch::chosen(&*target, backup)?;
    let engine = open(dir)?;
    let restored = table_restore::restore_tables(&engine, dir, &*target, &manifest, tables, io_bytes_per_s);
    engine.close()?;
    restored
}
