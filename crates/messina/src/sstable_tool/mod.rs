//! `messina sstable`: looks at SSTables, checks, mends and converts them, without a server.
//!
//! Thin: arguments, files, terminal and exit codes are here; what the tools do is `sstable::tools` and, for SELECT, `cql`.
//! - `arguments`: the subcommands;
//! - `run`: which SSTables are meant, and each tool on them;
//! - `query`: SELECT on SSTables;
//! - `ls`: what is in a directory, table by table;
//! - `listed`: TOC.txt beside the files of a directory;
//! - `progress`: how far it is, on a terminal.
//!
//! Exit code: 0; 1 if something could not be done; 2 if all was done and damage was found or data were left out.
//! SSTables that vanish between the listing and the opening (a server compacts) are told and left out.

mod arguments;
mod listed;
mod ls;
mod progress;
mod query;
mod run;

pub use arguments::SSTableCommand;
