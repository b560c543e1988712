//! Commands about tables: statistics, SSTables of a partition, flush, and loading SSTables from outside.

use std::path::PathBuf;

use clap::Subcommand;
use reports::LoadedSSTables;
use server::api::answers::{SSTables, TableStats};

use super::call::{Call, Tables, one_or_two};
use super::http::query;
use super::text;

#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Shows statistics of tables
    #[command(name = "tablestats", visible_alias = "cfstats")]
    TableStats {
        /// Only this keyspace or table
        #[arg(value_name = "KEYSPACE[.TABLE]")]
        of: Option<String>,
    },
    /// Writes memtables to SSTables
    Flush(Tables),
    /// Shows the SSTables that have a partition
    #[command(name = "getsstables")]
    GetSSTables {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
        /// The partition key; `:` between the values of several columns
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Loads the SSTables in the table's upload directory into the table
    Refresh {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
    },
    /// Loads copies of SSTables on the node's machine into a table
    Import {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
        /// The directory of the SSTables
        directory: PathBuf,
    },
}

impl TableCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::TableStats { of } => {
                let (keyspace, table) = one_or_two(of.as_deref());
                let path = query("/v1/tables", &[("keyspace", keyspace), ("table", table)]);
                call.get(&path, |tables: Vec<TableStats>| text::table_stats(&tables))
            }
            Self::Flush(of) => call.of_tables("/v1/flush", of, &[]),
            Self::GetSSTables { keyspace, table, key } => {
                let asked = [("keyspace", Some(&keyspace[..])), ("table", Some(table)), ("key", Some(key))];
                call.get(&query("/v1/sstables", &asked), |found: SSTables| {
                    found.files.iter().map(|file| format!("{file}\n")).collect()
                })
            }
            Self::Refresh { keyspace, table } => {
                let asked = [("keyspace", Some(&keyspace[..])), ("table", Some(table))];
                call.ask("POST", &query("/v1/refresh", &asked), |loaded: LoadedSSTables| {
                    text::loaded(&loaded)
                })
            }
            Self::Import { keyspace, table, directory } => {
                // The node has another working directory.
                let dir = std::path::absolute(directory)
                    .map_err(|error| format!("{}: {error}", directory.display()))?;
                let dir = dir.to_str().ok_or("the directory's name is not UTF-8")?;
                let asked = [("keyspace", Some(&keyspace[..])), ("table", Some(table)), ("dir", Some(dir))];
                call.ask("POST", &query("/v1/import", &asked), |loaded: LoadedSSTables| text::loaded(&loaded))
            }
        }
    }
}
