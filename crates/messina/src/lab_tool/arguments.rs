//! The command line of `messina lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Simulates compaction strategies on a workload, without a server.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Lists the workloads that the program contains.
    List,
    /// Prints a workload, as the begin of one's own.
    Show {
        /// A shipped workload, or a file
        workload: String,
    },
    /// Simulates one strategy.
    Run {
        /// A shipped workload, or a YAML file
        workload: String,
        /// A strategy of the workload by name, or a class; options follow: LCS,sstable_size_in_mb=64
        #[arg(long)]
        strategy: Option<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Simulates several strategies on one workload.
    Compare {
        /// A shipped workload, or a YAML file
        workload: String,
        /// A strategy as in `lab run`, once for each; by default those of the workload
        #[arg(long = "strategy")]
        strategies: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Simulates one strategy with several values of one setting.
    Sweep {
        /// A shipped workload, or a YAML file
        workload: String,
        /// The path of the setting in the file: node.flush_bytes, phases.0.writes_per_s; or an option of the
        /// strategy: strategy.sstable_size_in_mb
        knob: String,
        /// Its values
        #[arg(required = true, value_delimiter = ',')]
        values: Vec<String>,
        /// A strategy as in `lab run`; by default the first of the workload
        #[arg(long)]
        strategy: Option<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// The matrix of five typical workloads and five strategies, with numbers.
    Table {
        #[command(flatten)]
        output: OutputArguments,
    },
}

#[derive(Args, Debug)]
pub struct OutputArguments {
    /// Format of the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Directory for plots as SVG files
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// File for one HTML page with tables and plots
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Replaces the seed of the workload
    #[arg(long)]
    pub seed: Option<u64>,
    /// Factor of the number of sampled rows: more are slower and more exact
    #[arg(long, default_value_t = 1.0, value_parser = precision)]
    pub precision: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

fn precision(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.01..=100.0).contains(&value) => Ok(value),
        _ => Err("a number from 0.01 to 100".to_string()),
    }
}
