//! The audit log: who did what, and when. Entries, categories and filters are those of Cassandra's
//! `FileAuditLogger`.
//!
//! | topic | file |
//! |---|---|
//! | which entries are written | `rules.rs` |
//! | an entry as a line | `entry.rs` |
//! | the way from a request to the file | `log.rs` |
//! | the file, and the older ones | `file.rs` |

mod entry;
mod file;
mod log;
mod rules;

pub use entry::{AuditEntry, AuditEvent};
pub use log::{AuditCounts, AuditLog, all_counts, disable, enable, flush, options};
pub use rules::{AuditOptions, AuditRules, NameFilter, RollCycle};
