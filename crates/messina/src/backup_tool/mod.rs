//! `messina backup`: makes, lists, verifies, restores and removes backups.
//!
//! With `--target`, list, verify, prune and the restore of a whole backup work on the target directly;
//! without it, and to make a backup of a running node or restore tables into one, the node is asked by its
//! admin API. With `--data-dir`, a stopped node's directory is opened by this program instead.

mod offline;
mod text;

use std::error::Error;
use std::path::PathBuf;

use backup::{BackupSummary, Created, Pruned, Restored, Retention, Verified};
use clap::{Args, Subcommand, ValueEnum};
use model::CqlType;
use serde::Serialize;
use serde::de::DeserializeOwned;
use server::config::units::{self, DefaultUnit};
use server::table_restore::TableRestore;

use crate::nodetool::http::{Client, query};

/// Makes, lists, verifies, restores and removes backups.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Makes a backup of a running node, or of the directory of a stopped one.
    Create {
        /// The target: a directory, file:///…, s3://bucket/prefix, gs://…, az://…; by default the node's
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// The data directory of a stopped node
        #[arg(long, value_name = "DIR", requires = "target")]
        data_dir: Option<PathBuf>,
        /// Limit of the bytes read per second, such as 64MiB/s; of a running node, its option applies
        #[arg(long, value_name = "RATE", value_parser = rate, requires = "data_dir")]
        io_throughput: Option<u64>,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Lists the backups of a target.
    List {
        /// The target; by default the node's
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Reads and checks every object of a backup, or of all.
    Verify {
        /// The target; by default the node's
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// Only this backup
        #[arg(long, value_name = "ID")]
        backup: Option<String>,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Restores a whole backup as a new data directory, or tables of it into a node.
    Restore(RestoreArguments),
    /// Removes old backups, and the objects that no other one needs.
    #[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
    Prune {
        /// The target; by default the node's
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// Keep this many of the newest ones
        #[arg(long, value_name = "N", group = "which")]
        keep: Option<usize>,
        /// Remove only backups older than this, such as 30d; the newest one always stays
        #[arg(long, value_name = "TIME", value_parser = millis, group = "which")]
        older_than: Option<u64>,
        /// Show what would be removed
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        node: NodeArguments,
    },
}

#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// The target; by default the node's
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The backup; by default the newest
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    /// Of a whole restore, the data directory to make: it must not exist, or be empty. Of tables, the data
    /// directory of a stopped node; without it they are restored into a running one
    #[arg(long, value_name = "DIR", requires = "target")]
    data_dir: Option<PathBuf>,
    /// Restore the node as it was at this time, such as '2026-11-25 22:45:01'; UTC unless it has a zone
    #[arg(long, value_name = "TIME", value_parser = time_us, conflicts_with_all = ["backup", "keyspace", "table"])]
    #[arg(requires = "data_dir")]
    to: Option<i64>,
    /// Only the tables of this keyspace
    #[arg(long, value_name = "KEYSPACE")]
    keyspace: Option<String>,
    /// Only this table
    #[arg(long, value_name = "KEYSPACE.TABLE", conflicts_with = "keyspace")]
    table: Option<String>,
    /// The name of the restored table
    #[arg(long = "as", value_name = "KEYSPACE.TABLE", requires = "table")]
    new_name: Option<String>,
    /// Add the rows of the backup to tables that exist
    #[arg(long)]
    merge: bool,
    /// Limit of the bytes read from the target per second, such as 64MiB/s; of a running node, its option
    /// applies
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "data_dir")]
    io_throughput: Option<u64>,
    #[command(flatten)]
    node: NodeArguments,
}

/// The node to ask, and the format of the output.
#[derive(Args, Debug)]
pub struct NodeArguments {
    /// Address of the node's admin API
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port of the node's admin API
    #[arg(short = 'p', long, default_value_t = 10_000)]
    port: u16,
    /// A name in the node's api_password_file
    #[arg(short = 'u', long, requires = "password_file")]
    username: Option<String>,
    /// A file with a line `name:password` for that name
    #[arg(long, requires = "username")]
    password_file: Option<PathBuf>,
    /// Format of the output
    #[arg(short = 'F', long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Microseconds since 1970.
fn time_us(text: &str) -> Result<i64, String> {
    let wrong = || "expected a time such as '2026-11-25 22:45:01' or 2026-11-25T22:45:01.250Z".to_string();
    let has_zone = text.ends_with('Z') || text.get(11..).is_some_and(|time| time.contains(['+', '-']));
    let text = if has_zone { text.to_string() } else { format!("{text}Z") };
    let bytes = CqlType::Timestamp.bytes_of_raw_text(&text).map_err(|_| wrong())?;
    let ms = bytes.first_chunk().map(|bytes| i64::from_be_bytes(*bytes)).ok_or_else(wrong)?;
    Ok(ms.saturating_mul(1000))
}

/// Bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    let bytes = text.strip_suffix("/s").and_then(|size| units::parse_bytes(size, DefaultUnit::Refused));
    bytes.ok_or_else(|| "expected a size per second, such as 64MiB/s".to_string())
}

fn millis(text: &str) -> Result<u64, String> {
    units::parse_millis(text, DefaultUnit::Refused)
        .ok_or_else(|| "expected a time with its unit, such as 30d or 12h".to_string())
}

impl NodeArguments {
    fn client(&self) -> Result<Client, String> {
        let login = match (&self.username, &self.password_file) {
            (Some(name), Some(file)) => Some(crate::nodetool::login_of(name, file)?),
            _ => None,
        };
        Ok(Client { host: self.host.clone(), port: self.port, login })
    }

    /// Asks the node.
    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        parameters: &[(&str, Option<&str>)],
    ) -> Done<T> {
        let body = self.client()?.ask(method, &query(path, parameters))?;
        Ok(serde_json::from_str(&body)
            .map_err(|error| format!("the node's answer cannot be parsed, is it another version? {error}"))?)
    }
}

/// Prints an answer as JSON or as text.
fn print<T: Serialize>(format: Format, answer: &T, text: impl Fn(&T) -> String) -> Done<()> {
    let text = match format {
        Format::Json => format!("{}\n", serde_json::to_string(answer)?),
        Format::Text => text(answer),
    };
    // A reader may stop before the end (`| head`).
    drop(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()));
    Ok(())
}

impl BackupCommand {
    /// Runs the command. Returns false if it has found damage, which it has shown.
    ///
    /// # Errors
    /// The target, the directory or the node cannot be used.
    pub fn run(&self) -> Done<bool> {
        match self {
            Self::Create { target, data_dir, io_throughput, node } => {
                let created: Created = match (data_dir, target) {
                    (Some(dir), Some(target)) => offline::create(dir, target, io_throughput.unwrap_or(0))?,
                    _ => node.ask("POST", "/v1/backups", &[("target", target.as_deref())])?,
                };
                print(node.format, &created, text::created)?;
            }
            Self::List { target, node } => {
                let backups: Vec<BackupSummary> = match target {
                    Some(target) => backup::list(&*backup::open_target(target)?)?,
                    None => node.ask("GET", "/v1/backups", &[])?,
                };
                print(node.format, &backups, |backups| text::backups(backups))?;
            }
            Self::Verify { target, backup, node } => {
                let verified: Verified = match target {
                    Some(target) => backup::verify(&*backup::open_target(target)?, backup.as_deref(), 0)?,
                    None => node.ask("POST", "/v1/backups/verify", &[("backup", backup.as_deref())])?,
                };
                print(node.format, &verified, text::verified)?;
                return Ok(verified.problems.is_empty());
            }
            Self::Restore(restore) => restore.run()?,
            Self::Prune { target, keep, older_than, dry_run, node } => {
                let pruned: Pruned = match target {
                    Some(target) => {
                        let older_than_us = older_than.map(|ms| (ms as i64).saturating_mul(1000));
                        let retention = Retention { keep: *keep, older_than_us };
                        backup::prune(&*backup::open_target(target)?, &retention, *dry_run)?
                    }
                    None => {
                        let (keep, age) = (keep.map(|n| n.to_string()), older_than.map(|n| n.to_string()));
                        let parameters = [
                            ("keep", keep.as_deref()),
                            ("older_than_ms", age.as_deref()),
                            ("dry_run", dry_run.then_some("true")),
                        ];
                        node.ask("POST", "/v1/backups/prune", &parameters)?
                    }
                };
                print(node.format, &pruned, |pruned| text::pruned(pruned, *dry_run))?;
            }
        }
        Ok(true)
    }
}

impl RestoreArguments {
    /// The tables to restore; `None`: everything.
    fn tables(&self) -> Result<Option<TableRestore>, String> {
        let (keyspace, table) = match (&self.keyspace, &self.table) {
            (_, Some(table)) => match table.split_once('.') {
                Some((keyspace, table)) => (keyspace.to_string(), Some(table.to_string())),
                None => return Err(format!("--table {table}: write KEYSPACE.TABLE")),
            },
            (Some(keyspace), None) => (keyspace.clone(), None),
            (None, None) => return Ok(None),
        };
        Ok(Some(TableRestore { keyspace, table, new_name: self.new_name.clone(), merge: self.merge }))
    }

    fn run(&self) -> Done<()> {
        let rate = self.io_throughput.unwrap_or(0);
        let backup = self.backup.as_deref();
        if let (Some(to_us), Some(dir), Some(target)) = (self.to, &self.data_dir, &self.target) {
            let target = backup::open_target(target)?;
            let restored = backup::restore_to_time(&*target, to_us, dir, rate)?;
            let to = dir.display().to_string();
            return print(self.node.format, &restored, |restored| text::restored(restored, &to));
        }
        let (restored, to): (Restored, String) = match (self.tables()?, &self.data_dir, &self.target) {
            (None, Some(dir), Some(target)) => {
                let target = backup::open_target(target)?;
                let manifest = backup::fetch::chosen(&*target, backup)?;
                (backup::restore(&*target, &manifest, dir, rate)?, dir.display().to_string())
            }
            (Some(tables), Some(dir), Some(target)) => {
                (offline::restore_tables(dir, target, backup, &tables, rate)?, dir.display().to_string())
            }
            (Some(tables), _, target) => {
                let parameters = [
                    ("target", target.as_deref()),
                    ("backup", backup),
                    ("keyspace", Some(&tables.keyspace[..])),
                    ("table", tables.table.as_deref()),
                    ("as", tables.new_name.as_deref()),
                    ("merge", tables.merge.then_some("true")),
                ];
                let restored = self.node.ask("POST", "/v1/backups/restore", &parameters)?;
                (restored, format!("{}:{}", self.node.host, self.node.port))
            }
            (None, ..) => {
                return Err("a whole restore makes a data directory while the node is stopped: name it (--data-dir) and the target \
                            (--target); --keyspace and --table restore into a running node"
                    .into());
            }
        };
        print(self.node.format, &restored, |restored| text::restored(restored, &to))
    }
}
