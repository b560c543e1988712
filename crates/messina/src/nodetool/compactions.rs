//! Commands about compactions: running, ended and pending ones, their limits, and stopping them.

use std::cell::Cell;

use clap::{Subcommand, ValueEnum};
use reports::EndedCompaction;
use server::api::answers::{AutoCompaction, CommandResult, Compactions, ConcurrentCompactors, Throughput};
use server::api::compaction_answers::{ExplainedCompactions, Tombstones};

use super::call::{Call, Tables, one_or_two};
use super::http::query;
use super::{Format, compaction_text, explain_text};

#[derive(Debug, Subcommand)]
pub enum CompactionCommand {
    /// Shows why compactions of a table run or wait: what the strategy considered, and what it would do next
    Explain {
        /// The table
        #[arg(value_name = "KEYSPACE.TABLE or KEYSPACE TABLE", num_args = 1..=2, required = true)]
        of: Vec<String>,
    },
    /// Shows the tombstones of a table's SSTables, and why they are still there
    Tombstones {
        /// The table
        #[arg(value_name = "KEYSPACE.TABLE or KEYSPACE TABLE", num_args = 1..=2, required = true)]
        of: Vec<String>,
    },
    /// Shows running compactions, and the estimated number of pending ones
    #[command(name = "compactionstats")]
    CompactionStats {
        /// Shows sizes in KiB, MiB, GiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Shows ended compactions
    #[command(name = "compactionhistory")]
    CompactionHistory,
    /// Stops running compactions
    Stop {
        /// Only compactions of this kind
        #[arg(ignore_case = true, value_enum)]
        kind: Option<Kind>,
    },
    /// Shows the limit of the rate at which compactions read
    #[command(name = "getcompactionthroughput")]
    GetCompactionThroughput,
    /// Sets the limit of the rate at which compactions read
    #[command(name = "setcompactionthroughput")]
    SetCompactionThroughput {
        /// MiB per second; 0: no limit
        mb_per_s: String,
    },
    /// Shows the limit of concurrent compactions on a shard
    #[command(name = "getconcurrentcompactors")]
    GetConcurrentCompactors,
    /// Sets the limit of concurrent compactions on a shard
    #[command(name = "setconcurrentcompactors")]
    SetConcurrentCompactors {
        /// Number of compactions; 0: one of each size class
        jobs: String,
    },
    /// Turns automatic compaction of tables on
    #[command(name = "enableautocompaction")]
    EnableAutoCompaction(Tables),
    /// Turns automatic compaction of tables off
    #[command(name = "disableautocompaction")]
    DisableAutoCompaction(Tables),
    /// Shows which tables are compacted automatically
    #[command(name = "statusautocompaction")]
    StatusAutoCompaction(Tables),
}

/// A kind of compaction, with its name in Cassandra's and ScyllaDB's nodetool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Kind {
    Compaction,
    MajorCompaction,
    Cleanup,
    #[value(name = "UPGRADE_SSTABLES")]
    UpgradeSSTables,
    GarbageCollect,
    Scrub,
    UserDefinedCompaction,
}

impl Kind {
    /// Its name in the admin API.
    fn name(self) -> &'static str {
        match self {
            Self::Compaction => "Compaction",
            Self::MajorCompaction => "Major compaction",
            Self::Cleanup => "Cleanup",
            Self::UpgradeSSTables => "Upgrade sstables",
            Self::GarbageCollect => "Remove deleted data",
            Self::Scrub => "Scrub",
            Self::UserDefinedCompaction => "User defined compaction",
        }
    }
}

impl CompactionCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Explain { of } => {
                let path = of_table("/v1/compactions/explain", of)?;
                call.get(&path, |shards: Vec<ExplainedCompactions>| explain_text::explained(&shards))
            }
            Self::Tombstones { of } => {
                let path = of_table("/v1/tombstones", of)?;
                call.get(&path, |found: Tombstones| explain_text::tombstones(&found))
            }
            Self::CompactionStats { human_readable } => {
                call.get("/v1/compactions", |all: Compactions| compaction_text::stats(&all, *human_readable))
            }
            Self::CompactionHistory => call.get("/v1/compactions/history", |ended: Vec<EndedCompaction>| {
                compaction_text::history(&ended)
            }),
            Self::Stop { kind } => stop(call, *kind),
            Self::GetCompactionThroughput => call.get("/v1/compactions/throughput", |it: Throughput| {
                format!("Current compaction throughput: {} MB/s\n", it.bytes_per_s >> 20)
            }),
            Self::SetCompactionThroughput { mb_per_s } => {
                call.post(&query("/v1/compactions/throughput", &[("mib_per_s", Some(mb_per_s))]))
            }
            Self::GetConcurrentCompactors => {
                call.get("/v1/compactions/concurrent", |it: ConcurrentCompactors| {
                    format!("Current concurrent compactors in the system is: \n{}\n", it.jobs)
                })
            }
            Self::SetConcurrentCompactors { jobs } => {
                call.post(&query("/v1/compactions/concurrent", &[("jobs", Some(jobs))]))
            }
            Self::EnableAutoCompaction(of) => set_auto(call, of, "true"),
            Self::DisableAutoCompaction(of) => set_auto(call, of, "false"),
            Self::StatusAutoCompaction(of) => {
                let tables = of.joined();
                let asked = [("keyspace", of.keyspace.as_deref()), ("tables", tables.as_deref())];
                call.get(&query("/v1/compactions/auto", &asked), |tables: Vec<AutoCompaction>| {
                    compaction_text::auto(&tables)
                })
            }
        }
    }
}

/// The request about one table.
fn of_table(path: &str, of: &[String]) -> Result<String, String> {
    let (keyspace, table) = match of {
        [keyspace, table] => (Some(&keyspace[..]), Some(&table[..])),
        [one] => one_or_two(Some(one)),
        _ => (None, None),
    };
    match (keyspace, table) {
        (Some(_), Some(_)) => Ok(query(path, &[("keyspace", keyspace), ("table", table)])),
        _ => Err("name one table: KEYSPACE.TABLE".to_string()),
    }
}

fn stop(call: &Call, kind: Option<Kind>) -> Result<String, String> {
    let stopped = Cell::new(0);
    let path = query("/v1/compactions/stop", &[("kind", kind.map(Kind::name))]);
    let text = call.ask("POST", &path, |done: CommandResult| {
        stopped.set(done.count);
        let jobs = if done.count == 1 { "compaction" } else { "compactions" };
        format!("Stopping {} {jobs}\n", done.count)
    })?;
    match (stopped.get(), call.format) {
        (0, Format::Text) => Err("no compaction was stopped: none of this kind runs".to_string()),
        _ => Ok(text),
    }
}

fn set_auto(call: &Call, of: &Tables, enabled: &str) -> Result<String, String> {
    let tables = of.joined();
    let asked =
        [("keyspace", of.keyspace.as_deref()), ("tables", tables.as_deref()), ("enabled", Some(enabled))];
    call.ask("POST", &query("/v1/compactions/auto", &asked), |_: Vec<AutoCompaction>| String::new())
}
