//! Backups of a node: consistent, incremental, verified; to a directory or to object storage.
//!
//! A target ([`storage`]) has three kinds of objects:
//!
//! - `objects/<table id>/<SHA-256>`: a component of an SSTable. The name is its content, so a file that a
//!   backup has already copied is never copied again, and an object never changes.
//! - `backups/<id>`: the manifest of a backup ([`manifest`]). It is written last: a backup exists completely
//!   or not at all.
//! - `leases/…`: marks of running backups and prunes ([`lease`]), so that a prune removes nothing that a
//!   concurrent backup needs.
//!
//! [`mod@create`] copies a checkpoint of the engine; [`mod@restore`] builds a data directory; [`mod@verify`]
//! reads every object; [`mod@prune`] removes old backups. The decisions are pure: [`plan`] (what is copied)
//! and [`retention`] (what is removed). All functions block their thread; none may run on a shard.

#![warn(missing_docs)]

pub mod archive;
pub mod clock;
pub mod create;
pub mod error;
pub mod fetch;
pub mod lease;
pub mod list;
pub mod manifest;
pub mod pace;
pub mod plan;
pub mod point;
pub mod prune;
pub mod restore;
pub mod retention;
pub mod storage;
pub mod verify;

pub use create::{CreateOptions, Created, create};
pub use error::BackupError;
pub use list::{BackupSummary, list};
pub use manifest::Manifest;
pub use point::restore_to_time;
pub use prune::{Pruned, prune};
pub use restore::{Restored, restore};
pub use retention::Retention;
pub use storage::{Target, open_target};
pub use verify::{Verified, verify};
