//! `messina sstable`: shows, checks, repairs and converts SSTables, without a server.
//!
//! This folder has only arguments, files, terminal and exit codes; the work is done by `sstable::tools` and,
//! for SELECT, by `cql`.
//! - `arguments`: the subcommands;
//! - `run`: finds the SSTables, and runs each tool on them;
//! - `query`: SELECT on SSTables;
//! - `advise`: samples data, and prints the settings of compression with their costs;
//! - `tombstones`: counts tombstones, and those that other SSTables keep;
//! - `ls`: lists a directory, by table;
//! - `listed`: compares TOC.txt with the files of a directory;
//! - `progress`: progress on a terminal.
//!
//! Exit code: 0; 1 if something could not be done; 2 if everything was done and damage was found or data were
//! left out. An SSTable that vanishes between listing and opening (a server compacts) is reported and left
//! out.

mod advise;
mod arguments;
mod listed;
mod ls;
mod progress;
mod query;
mod run;
mod tombstones;

pub use arguments::SSTableCommand;
