//! Commands that make, list and remove snapshots.

use clap::Subcommand;
use server::api::answers::{CommandResult, Snapshot};

use super::call::Call;
use super::http::query;
use super::text;

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Makes a snapshot: keeps the current SSTables
    Snapshot {
        /// Name of the snapshot; by default the time in milliseconds
        #[arg(short, long)]
        tag: Option<String>,
        /// Only of this keyspace
        keyspace: Option<String>,
        /// Only of this table
        table: Option<String>,
    },
    /// Lists snapshots
    #[command(name = "listsnapshots")]
    ListSnapshots,
    /// Removes snapshots
    #[command(name = "clearsnapshot", group(clap::ArgGroup::new("which").required(true)))]
    ClearSnapshot {
        /// The snapshot of this name
        #[arg(short, long, group = "which")]
        tag: Option<String>,
        /// All snapshots
        #[arg(long, group = "which")]
        all: bool,
        /// Only of this keyspace
        keyspace: Option<String>,
    },
}

impl SnapshotCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Snapshot { tag, keyspace, table } => {
                let tag = tag.clone().unwrap_or_else(|| now_ms().to_string());
                let keyspace = keyspace.as_deref();
                let asked = [("tag", Some(&tag[..])), ("keyspace", keyspace), ("table", table.as_deref())];
                let what = keyspace.unwrap_or("all keyspaces");
                call.ask("POST", &query("/v1/snapshots", &asked), |_: CommandResult| {
                    format!(
                        "Requested creating snapshot(s) for [{what}] with snapshot name [{tag}] and options {{skipFlush=false}}\n\
                         Snapshot directory: {tag}\n"
                    )
                })
            }
            Self::ListSnapshots => {
                call.get("/v1/snapshots", |snapshots: Vec<Snapshot>| text::snapshots(&snapshots))
            }
            Self::ClearSnapshot { tag, all: _, keyspace } => {
                let (tag, keyspace) = (tag.as_deref(), keyspace.as_deref());
                let path = query("/v1/snapshots", &[("tag", tag), ("keyspace", keyspace)]);
                let what = keyspace.unwrap_or("all keyspaces");
                let which = tag.unwrap_or("all snapshots");
                call.ask("DELETE", &path, |_: CommandResult| {
                    format!("Requested clearing snapshot(s) for [{what}] with [{which}]\n")
                })
            }
        }
    }
}

/// The default name of a snapshot, as in Cassandra and ScyllaDB.
#[allow(clippy::disallowed_methods, reason = "a name for a person's command")]
fn now_ms() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}
