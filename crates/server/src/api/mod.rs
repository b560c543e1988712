//! Types of the admin API that its two sides share: the node, which answers, and `nodetool`, which asks.

pub mod answers;
pub mod audit_answers;
pub mod backup_answers;
pub mod cluster_answers;
pub mod compaction_answers;
pub mod console_answers;
pub mod login;
pub mod request_answers;
