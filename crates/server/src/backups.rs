//! Backups of the running node: made on demand or by a schedule, one at a time; what the node says about
//! them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use backup::archive::Archive;
use backup::pace::Pace;
use backup::{BackupError, CreateOptions, Created, Restored, Retention, Target};
use engine::Engine;
use log::{error, info, warn};

use crate::api::backup_answers::{ArchiveStatus, BackupStatus};
use crate::table_restore::{TableRestore, restore_tables};

/// The configuration of backups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupOptions {
    /// The target of requests and schedules that name none.
    pub target: Option<String>,
    /// 0: no schedule.
    pub interval_ms: u64,
    /// How many the schedule keeps; 0: all.
    pub keep: u64,
    /// 0: no limit.
    pub io_bytes_per_s: u64,
    /// The time between two passes of the archive of the commit log; 0: no archive.
    pub archive_interval_ms: u64,
}

impl BackupOptions {
    /// The commit log is archived.
    pub fn is_archived(&self) -> bool {
        self.archive_interval_ms > 0
    }
}

/// See the head of this file.
#[derive(Default)]
pub struct Backups {
    pub options: BackupOptions,
    /// A backup or restore is running.
    is_running: AtomicBool,
    /// By the node, since its start.
    made: AtomicU64,
    failed: AtomicU64,
    copied_bytes: AtomicU64,
    last: Mutex<Last>,
    /// Opened by the first pass or backup.
    archive: Mutex<Option<Archive>>,
    archive_status: Mutex<ArchiveStatus>,
}

#[derive(Clone, Debug, Default)]
struct Last {
    created: Option<Created>,
    /// When it ended, in microseconds since 1970.
    ended_us: Option<i64>,
    error: Option<String>,
}

/// Frees the place of the running backup, also after a panic.
struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Backups {
    pub fn new(options: BackupOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Opens the target `url`, or the configured one.
    ///
    /// # Errors
    /// Neither is there, or it is no target.
    pub fn target(&self, url: Option<&str>) -> Result<Box<dyn Target>, BackupError> {
        match url.or(self.options.target.as_deref()) {
            Some(url) => backup::open_target(url),
            None => Err(BackupError(
                "no target of backups is known: name one (--target), or set backup_target".to_string(),
            )),
        }
    }

    /// Makes a backup. It blocks the thread, which must not be a shard's.
    ///
    /// # Errors
    /// Another backup is running, or [`backup::create()`] fails.
    pub fn create(
        &self,
        engine: &Engine,
        data_dir: &Path,
        url: Option<&str>,
    ) -> Result<Created, BackupError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(BackupError(
                "a backup or restore of this node is running; try again later".to_string(),
            ));
        }
        let _running = Running(&self.is_running);
        let options = CreateOptions {
            host_id: engine.open_report().host_id.to_string(),
            version: crate::VERSION.to_string(),
            io_bytes_per_s: self.options.io_bytes_per_s,
            archive: None,
        };
        let created = self.target(url).and_then(|target| {
            info!(target: "backup", "backup to {} begins", target.name());
            // The archive goes on from backups in its own target only.
            let is_of_archive = self.options.is_archived()
                && Some(target.name()) == self.target(None).ok().map(|it| it.name());
            let archive = match is_of_archive {
                true => Some(self.with_archive(engine, data_dir, |archive| Ok(archive.chain().to_string()))?),
                false => None,
            };
            backup::create(engine, &*target, &CreateOptions { archive, ..options })
        });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &created {
            Ok(created) => {
                info!(
                    target: "backup",
                    "backup {} is complete: {} files of {} tables, {} bytes; {} files with {} bytes were copied in {} ms",
                    created.id,
                    created.files,
                    created.tables,
                    created.bytes,
                    created.copied_files,
                    created.copied_bytes,
                    created.took_ms
                );
                self.made.fetch_add(1, Ordering::Relaxed);
                self.copied_bytes.fetch_add(created.copied_bytes, Ordering::Relaxed);
                last.created = Some(created.clone());
                last.ended_us = Some(backup::clock::now_us());
                last.error = None;
            }
            Err(error) => {
                error!(target: "backup", "a backup failed: {error}");
                self.failed.fetch_add(1, Ordering::Relaxed);
                last.error = Some(error.to_string());
            }
        }
        created
    }

    /// Restores tables of a backup into the node. It blocks the thread. `from`: the target and the id of the
    /// backup; by default the configured target and the newest one.
    ///
    /// # Errors
    /// See [`restore_tables`].
    pub fn restore(
        &self,
        engine: &Engine,
        data_dir: &Path,
        from: (Option<&str>, Option<&str>),
        asked: &TableRestore,
    ) -> Result<Restored, BackupError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(BackupError("a backup or restore is running; try again later".to_string()));
        }
        let _running = Running(&self.is_running);
        let target = self.target(from.0)?;
        let manifest = backup::fetch::chosen(&*target, from.1)?;
        let restored =
            restore_tables(engine, data_dir, &*target, &manifest, asked, self.options.io_bytes_per_s)?;
        info!(target: "backup", "restored {} of backup {}", restored.tables.join(", "), restored.id);
        Ok(restored)
    }

    /// One round of the schedule: a backup, and then the removal of old ones.
    pub fn run_schedule(&self, engine: &Engine, data_dir: &Path) {
        if self.create(engine, data_dir, None).is_err() || self.options.keep == 0 {
            return;
        }
        let retention = Retention { keep: Some(self.options.keep as usize), older_than_us: None };
        match self.target(None).and_then(|target| backup::prune(&*target, &retention, false)) {
            Ok(pruned) if pruned.removed.is_empty() => {}
            Ok(pruned) => info!(
                target: "backup",
                "removed {} backups, of which {} are kept: {} objects with {} bytes",
                pruned.removed.len(),
                pruned.kept.len(),
                pruned.objects,
                pruned.bytes
            ),
            Err(error) => warn!(target: "backup", "old backups were not removed: {error}"),
        }
    }

    /// Runs `f` on the archive, which is opened before.
    fn with_archive<T>(
        &self,
        engine: &Engine,
        data_dir: &Path,
        f: impl FnOnce(&mut Archive) -> Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        let mut archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        if archive.is_none() {
            let host_id = engine.open_report().host_id.to_string();
            let opened = Archive::open(data_dir, &host_id, &*self.target(None)?)?;
            info!(target: "backup", "the commit log is archived as {}", opened.chain());
            *archive = Some(opened);
        }
        f(archive.as_mut().expect("it was opened above"))
    }

    /// Archives the commit log up to now. It blocks the thread. Errors are logged and shown.
    pub fn archive_pass(&self, engine: &Engine, data_dir: &Path) {
        let archived = self.target(None).and_then(|target| {
            let mut pace = Pace::new(self.options.io_bytes_per_s);
            self.with_archive(engine, data_dir, |archive| archive.pass(engine, &*target, &mut pace))
        });
        let mut status = self.archive_status.lock().unwrap_or_else(PoisonError::into_inner);
        match archived {
            Ok(archived) => {
                if status.last_error.take().is_some() {
                    info!(target: "backup", "the commit log is archived again");
                }
                status.passes += 1;
                status.segments += archived.segments;
                status.bytes += archived.bytes;
                status.complete_until_us = Some(archived.complete_until_us);
            }
            Err(error) => {
                status.failed += 1;
                // It is logged once until the next success.
                if status.last_error.replace(error.to_string()).is_none() {
                    error!(target: "backup", "the commit log was not archived, the next pass tries again: {error}");
                }
            }
        }
    }

    pub fn status(&self) -> BackupStatus {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        BackupStatus {
            target: self.options.target.clone(),
            interval_ms: self.options.interval_ms,
            keep: self.options.keep,
            is_running: self.is_running.load(Ordering::Acquire),
            made: self.made.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            copied_bytes: self.copied_bytes.load(Ordering::Relaxed),
            last_age_ms: last
                .ended_us
                .map(|ended_us| ((backup::clock::now_us() - ended_us).max(0) / 1000) as u64),
            last: last.created,
            archive_interval_ms: self.options.archive_interval_ms,
            archive: self.archive_status.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            last_error: last.error,
        }
    }
}
