//! `messina stress`: a load generator with the command line, the profiles and the report of cassandra-stress.
//!
//! It is an ordinary client, and works with any server that speaks CQL.
//!
//! | question | file |
//! |---|---|
//! | what does the command line say | `arguments.rs`, `distribution.rs` |
//! | which rows and values are written | `profile/`, `value.rs`, `population.rs` |
//! | when does an operation start | `schedule.rs` |
//! | how is it executed and checked | `setup.rs`, `worker.rs` |
//! | what is measured and printed | `measurement.rs`, `report.rs` |
//! | how do these make a run | `run.rs` |

mod arguments;
mod clock;
mod distribution;
mod measurement;
mod population;
mod profile;
mod report;
mod run;
mod schedule;
mod setup;
mod value;
mod worker;

use std::error::Error;

use clap::Args;

/// Loads a server as cassandra-stress does, and measures it.
///
/// The command line is that of cassandra-stress: `messina stress write n=1M -rate threads=64 -node
/// 127.0.0.1`. docs/stress.md describes all commands, options and profiles.
#[derive(Args)]
#[command(after_help = HELP)]
pub struct StressCommand {
    /// A command with its options, then groups of options; see below.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "WORD")]
    words: Vec<String>,
}

const HELP: &str = "\
Commands:
  write | read | counter_write | counter_read
  mixed ratio(write=1,read=1,delete=0)
  user profile=FILE|NAME ops(insert=1,QUERY=1)     shipped: counters key_value locking lwt maps random_access time_series
Options of a command:
  n=COUNT | duration=TIME   cl=LEVEL   serial-cl=LEVEL   no-warmup   truncate=never|once|always
Groups:
  -pop seq=A..B | dist=DISTRIBUTION
  -col size=DISTRIBUTION n=fixed(COUNT) | names=A,B
  -rate threads=COUNT | auto threads>=A threads<=B   throttle=COUNT/s
  -schema replication(strategy=NAME,factor=N) compaction(strategy=NAME,OPTION=VALUE) compression=CLASS keyspace=NAME
  -node A,B   -port native=PORT   -mode user=NAME password=TEXT connectionsPerHost=COUNT
  -errors retries=COUNT ignore skip-read-validation timeout=TIME
  -log interval=TIME level=minimal|normal json=FILE   -transport ssl ca=FILE
Distributions: fixed(N) uniform(A..B) gaussian(A..B[,MEAN,DEVIATION]) exp(A..B) extreme(A..B,SHAPE) qextreme(A..B,SHAPE,PARTS)";

impl StressCommand {
    /// Runs until the load has ended.
    ///
    /// # Errors
    /// The command line is wrong, the server cannot be reached, or an operation failed.
    pub fn run(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let settings = arguments::parse(&self.words)?;
        run::run(&settings).map_err(Into::into)
    }
}
