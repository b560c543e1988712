//! Answers of the admin API about backups. Those of `POST /v1/backups`, `/v1/backups/verify`,
//! `/v1/backups/prune` and `/v1/backups/restore` are the types of the crate `backup`.

use backup::Created;
use serde::{Deserialize, Serialize};

/// `GET /v1/backups/status`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupStatus {
    /// The option `backup_target`.
    pub target: Option<String>,
    /// The option `backup_interval`; 0: no schedule.
    pub interval_ms: u64,
    /// The option `backup_keep`; 0: all.
    pub keep: u64,
    pub is_running: bool,
    /// Backups since the start of the node.
    pub made: u64,
    /// Failed ones since the start.
    pub failed: u64,
    /// Bytes copied by all of them.
    pub copied_bytes: u64,
    /// The last successful backup since the start.
    pub last: Option<Created>,
    /// Time since its end.
    pub last_age_ms: Option<u64>,
    /// The error of the last backup, if it failed.
    pub last_error: Option<String>,
    /// The option `backup_archive_interval`; 0: no archive.
    pub archive_interval_ms: u64,
    pub archive: ArchiveStatus,
}

/// The archive of the commit log, since the start of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveStatus {
    pub passes: u64,
    pub failed: u64,
    pub segments: u64,
    pub bytes: u64,
    /// Writes acknowledged before this time, in microseconds since 1970, are archived.
    pub complete_until_us: Option<i64>,
    /// The error of the last pass, if it failed.
    pub last_error: Option<String>,
}
