//! Answers about the audit log.

use serde::{Deserialize, Serialize};

/// `GET /v1/audit`: the options, with their names in the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditState {
    pub enabled: bool,
    /// Cassandra's name of the kind of log.
    pub logger: String,
    pub audit_logs_dir: String,
    pub roll_cycle: String,
    pub block: bool,
    /// Bytes.
    pub max_log_size: u64,
    /// Bytes, of all shards together.
    pub max_queue_weight: u64,
    pub included_keyspaces: Vec<String>,
    pub excluded_keyspaces: Vec<String>,
    pub included_categories: Vec<String>,
    pub excluded_categories: Vec<String>,
    pub included_users: Vec<String>,
    pub excluded_users: Vec<String>,
    /// Entries written since the start.
    pub entries: u64,
    /// Entries lost since the start: the queue was full, or the file could not be written.
    pub dropped: u64,
}
