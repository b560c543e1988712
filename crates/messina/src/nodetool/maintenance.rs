//! Commands that merge, rewrite or check SSTables.

use std::cell::Cell;
use std::path::{self, Path, PathBuf};

use clap::Subcommand;
use reports::{Scrubbed, Verified};

use super::call::{Call, Tables, flag};
use super::http::query;
use super::text;

#[derive(Debug, Subcommand)]
pub enum MaintenanceCommand {
    /// Merges SSTables
    Compact {
        /// Writes SSTables of a half, a quarter, an eighth, … of the bytes
        #[arg(short, long)]
        split_output: bool,
        /// Merges only these files: paths of Data.db in tables' directories
        #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["split_output", "keyspace"])]
        user_defined: Vec<PathBuf>,
        #[command(flatten)]
        of: Tables,
    },
    /// Rewrites SSTables that hold partitions of other shards
    Cleanup(Tables),
    /// Rewrites SSTables without the data that other SSTables delete
    #[command(name = "garbagecollect")]
    GarbageCollect {
        /// The data that are left out: deleted rows, or deleted cells too
        #[arg(short, long, value_name = "ROW|CELL")]
        granularity: Option<String>,
        #[command(flatten)]
        of: Tables,
    },
    /// Rewrites SSTables of older versions
    #[command(name = "upgradesstables")]
    UpgradeSSTables {
        /// Rewrites SSTables of the newest version, too
        #[arg(short = 'a', long)]
        include_all_sstables: bool,
        #[command(flatten)]
        of: Tables,
    },
    /// Checks SSTables and reports damaged ones; fails if there are any
    Verify {
        /// Checks every row, not only checksums
        #[arg(short, long)]
        extended_verify: bool,
        #[command(flatten)]
        of: Tables,
    },
    /// Rewrites SSTables with their readable content
    Scrub {
        /// Also scrubs damaged tables of counters, and leaves out data that the disk cannot read
        #[arg(short, long)]
        skip_corrupted: bool,
        /// Makes no snapshot before; also -ns
        #[arg(long)]
        no_snapshot: bool,
        /// Keeps rows with values that are not valid for their column's type
        #[arg(short, long)]
        no_validate: bool,
        /// SSTables that a shard scrubs concurrently; 0: the limit of concurrent compactions [default: 1]
        #[arg(short, long)]
        jobs: Option<u32>,
        #[command(flatten)]
        of: Tables,
    },
}

impl MaintenanceCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Compact { user_defined, .. } if !user_defined.is_empty() => {
                let files: Result<Vec<String>, String> =
                    user_defined.iter().map(|file| whole_path(file)).collect();
                let files = files?.join(",");
                call.post(&query("/v1/compact", &[("files", Some(&files[..]))]))
            }
            Self::Compact { split_output, of, .. } => {
                call.of_tables("/v1/compact", of, &[("split", flag(*split_output))])
            }
            Self::Cleanup(of) => call.of_tables("/v1/cleanup", of, &[]),
            Self::GarbageCollect { granularity, of } => {
                call.of_tables("/v1/garbagecollect", of, &[("granularity", granularity.as_deref())])
            }
            Self::UpgradeSSTables { include_all_sstables, of } => {
                call.of_tables("/v1/upgradesstables", of, &[("all", flag(*include_all_sstables))])
            }
            Self::Verify { extended_verify, of } => verify(call, *extended_verify, of),
            Self::Scrub { skip_corrupted, no_snapshot, no_validate, jobs, of } => {
                let (tables, jobs) = (of.joined(), jobs.map(|jobs| jobs.to_string()));
                let asked = [
                    ("keyspace", of.keyspace.as_deref()),
                    ("tables", tables.as_deref()),
                    ("skip_corrupted", flag(*skip_corrupted)),
                    ("no_snapshot", flag(*no_snapshot)),
                    ("no_validate", flag(*no_validate)),
                    ("jobs", jobs.as_deref()),
                ];
                call.ask("POST", &query("/v1/scrub", &asked), |done: Scrubbed| text::scrubbed(&done))
            }
        }
    }
}

fn verify(call: &Call, rows: bool, of: &Tables) -> Result<String, String> {
    let tables = of.joined();
    let asked = [("keyspace", of.keyspace.as_deref()), ("tables", tables.as_deref()), ("all", flag(rows))];
    let is_sound = Cell::new(true);
    let text = call.ask("POST", &query("/v1/verify", &asked), |found: Verified| {
        is_sound.set(found.damaged.is_empty());
        let mut text = format!("{} SSTables checked, {} damaged\n", found.sstables, found.damaged.len());
        found.damaged.iter().for_each(|damaged| text.extend([damaged, "\n"]));
        text
    })?;
    if is_sound.get() { Ok(text) } else { Err(text) }
}

/// The absolute path: the node identifies files by their directories.
fn whole_path(file: &Path) -> Result<String, String> {
    let whole = path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(whole.display().to_string())
}
