//! The program itself, as its users meet it: started, asked, stopped, started again.

mod bad_input;
mod certificates;
mod doors;
mod inside;
mod io_accounting;
mod iotune;
mod levels;
mod paged_scans;
mod process;
mod raw_client;
mod serve;
mod sstables;
