//! `messina nodetool`: manages a running node, with the commands and layouts of Cassandra's nodetool.
//!
//! A thin client of the admin API: [`http`] sends the request, `call` parses the answer, [`text`] formats it;
//! `--format json` prints it unchanged. A command is a variant with its arguments and their help, and an arm
//! of its group's `run`:
//!
//! | commands | file |
//! |---|---|
//! | `version`, `info`, `status`, `memory`, `reads`, `iomodel`, `getlogginglevels`, `setlogginglevel`, `…binary`, `drain` | `state.rs` |
//! | `tablestats`, `flush`, `getsstables`, `refresh`, `import` | `tables.rs` |
//! | `compact`, `cleanup`, `garbagecollect`, `upgradesstables`, `verify`, `scrub` | `maintenance.rs` |
//! | `explain`, `tombstones`, `compactionstats`, `compactionhistory`, `stop`, `get…`, `set…`, `…autocompaction` | `compactions.rs` |
//! | `snapshot`, `listsnapshots`, `clearsnapshot` | `snapshots.rs` |
//! | `describecluster`, `ring`, `getendpoints`, `sstableinfo`, `rebuild_index`, caches, … | `cluster.rs` |
//! | histograms, `tpstats`, `clientstats`, `toppartitions`, timeouts, tracing | `requests.rs` |
//! | `enableauditlog`, `disableauditlog`, `getauditlog` | `audit.rs` |
//! | `tasks` | `tasks.rs` |
//! | commands that need more nodes, or parts that are not there | `one_node.rs` |

mod audit;
mod call;
mod cluster;
mod cluster_text;
mod compaction_text;
mod compactions;
mod explain_text;
pub mod http;
mod io_model_text;
mod maintenance;
pub mod one_node;
mod request_text;
mod requests;
mod snapshots;
mod state;
mod tables;
mod tasks;
pub mod text;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Command, Subcommand, ValueEnum};

use audit::AuditCommand;
use call::Call;
use cluster::ClusterCommand;
use compactions::CompactionCommand;
use http::Client;
use maintenance::MaintenanceCommand;
use one_node::OneNodeCommand;
use requests::RequestCommand;
use snapshots::SnapshotCommand;
use state::StateCommand;
use tables::TableCommand;
use tasks::TasksCommand;

#[derive(Args, Debug)]
pub struct NodetoolArguments {
    /// Address of the node's admin API
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    host: String,
    /// Port of the node's admin API
    #[arg(short = 'p', long, default_value_t = 10_000)]
    port: u16,
    /// A name in the node's api_password_file
    #[arg(short = 'u', long)]
    username: Option<String>,
    /// The password of that name; also -pw
    #[arg(long, requires = "username")]
    password: Option<String>,
    /// A file with a line `name password` or `name:password` for each name; also -pwf
    #[arg(long, requires = "username", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// Format of the output: text, or the node's answer as JSON or YAML
    #[arg(short = 'F', long, value_enum, global = true, default_value_t = Format::Text)]
    format: Format,
    /// Print help
    // -h is the host.
    #[arg(long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Option<NodetoolCommand>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Yaml,
}

#[derive(Debug, Subcommand)]
enum NodetoolCommand {
    #[command(flatten)]
    State(StateCommand),
    #[command(flatten)]
    Table(TableCommand),
    #[command(flatten)]
    Maintenance(MaintenanceCommand),
    #[command(flatten)]
    Compaction(CompactionCommand),
    #[command(flatten)]
    Snapshot(SnapshotCommand),
    #[command(flatten)]
    Cluster(ClusterCommand),
    #[command(flatten)]
    Request(RequestCommand),
    #[command(flatten)]
    Audit(AuditCommand),
    /// Shows and stops long operations
    #[command(subcommand)]
    Tasks(TasksCommand),
    #[command(flatten)]
    OneNode(OneNodeCommand),
}

#[derive(Debug)]
pub struct NodetoolError(String);

impl fmt::Display for NodetoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodetool: {}", self.0)
    }
}

impl std::error::Error for NodetoolError {}

impl From<String> for NodetoolError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Options of several letters that the nodetool of Cassandra and ScyllaDB writes with one dash, and their
/// names here.
const ONE_DASH: &[(&str, &str)] =
    &[("-pw", "--password"), ("-pwf", "--password-file"), ("-ns", "--no-snapshot")];

/// The words of nodetool's command line, with two dashes for options of several letters.
pub fn with_two_dashes(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.map(|word| match ONE_DASH.iter().find(|(name, _)| word == *name) {
        Some((_, long)) => OsString::from(long),
        None => word,
    })
}

/// Runs one command and prints its output.
///
/// # Errors
/// No node answers, or the node returns an error.
pub fn run(arguments: &NodetoolArguments) -> Result<(), NodetoolError> {
    let Some(command) = &arguments.command else {
        print(&definition().render_help().to_string());
        return Ok(());
    };
    let call = Call {
        client: Client { host: arguments.host.clone(), port: arguments.port, login: login(arguments)? },
        format: arguments.format,
    };
    let output = match command {
        NodetoolCommand::State(command) => command.run(&call),
        NodetoolCommand::Table(command) => command.run(&call),
        NodetoolCommand::Maintenance(command) => command.run(&call),
        NodetoolCommand::Compaction(command) => command.run(&call),
        NodetoolCommand::Snapshot(command) => command.run(&call),
        NodetoolCommand::Cluster(command) => command.run(&call),
        NodetoolCommand::Request(command) => command.run(&call),
        NodetoolCommand::Audit(command) => command.run(&call),
        NodetoolCommand::Tasks(command) => command.run(&call),
        NodetoolCommand::OneNode(command) => command.run(&call),
    }?;
    print(&output);
    Ok(())
}

/// nodetool as a command of its own, for its help and for tests.
pub fn definition() -> Command {
    let command = Command::new("nodetool").bin_name("messina nodetool").disable_help_flag(true);
    NodetoolArguments::augment_args(command)
}

/// Ignores a reader that stops before the end (`| head`).
fn print(text: &str) {
    drop(std::io::stdout().write_all(text.as_bytes()));
}

/// `name:password`; `None` if no name is given.
fn login(arguments: &NodetoolArguments) -> Result<Option<String>, NodetoolError> {
    let Some(name) = &arguments.username else { return Ok(None) };
    if let Some(password) = &arguments.password {
        return Ok(Some(format!("{name}:{password}")));
    }
    let Some(path) = &arguments.password_file else {
        return Err("-u needs a password: -pw PASSWORD, or -pwf FILE".to_string().into());
    };
    Ok(Some(login_of(name, path)?))
}

/// `name:password` from a file with a line `name password` or `name:password` for each name.
///
/// # Errors
/// The file cannot be read, or has no line for the name.
pub fn login_of(name: &str, path: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let of_line = |line: &str| {
        let rest = line.trim().strip_prefix(name)?;
        Some(rest.strip_prefix([' ', '\t', ':'])?.trim().to_string())
    };
    match text.lines().find_map(of_line) {
        Some(password) => Ok(format!("{name}:{password}")),
        None => Err(format!("{} has no line for {name}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    fn parsed(line: &str) -> Result<NodetoolArguments, String> {
        let words = with_two_dashes(line.split_whitespace().map(OsString::from));
        let matches = definition().try_get_matches_from(words).map_err(|error| error.to_string())?;
        NodetoolArguments::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn every_command_and_every_argument_has_help() {
        let mut command = definition();
        command.build();
        command.clone().debug_assert();
        let mut count = 0;
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            count += 1;
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn command_lines_that_people_know() {
        for line in [
            "nodetool -h 127.0.0.1 -p 7199 status",
            "nodetool -u ann -pw secret info",
            "nodetool -u ann -pwf passwords info",
            "nodetool --format json compactionstats",
            "nodetool tablestats ks",
            "nodetool cfstats ks.t",
            "nodetool iomodel --svg plane.svg",
            "nodetool compactionhistory",
            "nodetool getcompactionthroughput",
            "nodetool setcompactionthroughput 16",
            "nodetool getconcurrentcompactors",
            "nodetool enableautocompaction ks",
            "nodetool disableautocompaction ks t",
            "nodetool statusautocompaction",
            "nodetool listsnapshots",
            "nodetool refresh ks t",
            "nodetool import ks t directory",
            "nodetool compactionstats -H",
            "nodetool compact -s ks t u",
            "nodetool compact --split-output",
            "nodetool garbagecollect --granularity ROW",
            "nodetool compactionstats --human-readable",
            "nodetool scrub --skip-corrupted --no-snapshot --no-validate --jobs 0",
            "nodetool upgradesstables --include-all-sstables",
            "nodetool verify --extended-verify",
            "nodetool compact --user-defined a-Data.db b-Data.db",
            "nodetool garbagecollect -g CELL ks t",
            "nodetool getsstables ks t -7",
            "nodetool scrub -s -n -ns -j 2 ks t",
            "nodetool upgradesstables -a",
            "nodetool verify -e ks",
            "nodetool stop",
            "nodetool stop upgrade_sstables",
            "nodetool stop COMPACTION",
            "nodetool setconcurrentcompactors 2",
            "nodetool snapshot -t before ks t",
            "nodetool snapshot ks -t before",
            "nodetool clearsnapshot --all",
            "nodetool getlogginglevels",
            "nodetool setlogginglevel",
            "nodetool setlogginglevels compaction DEBUG",
            "nodetool clearsnapshot -t before ks",
            "nodetool tablestats -F json ks",
            "nodetool info --format yaml",
            "nodetool repair -pr -full ks t --partitioner-range",
            "nodetool decommission --force",
            "nodetool rebuild -ks ks -- dc1",
            "nodetool move -9223372036854775808",
            "nodetool cfhistograms ks t",
            "nodetool tablehistograms ks.t",
            "nodetool toppartitions ks t 100 -k 3 -s 20 -a READS,WRITES",
            "nodetool toppartitions -d 100 --cf-filters ks:t",
            "nodetool profileload 100",
            "nodetool getendpoints ks t -7",
            "nodetool getreplicas ks t a:b",
            "nodetool tasks list compaction --keyspace ks",
            "nodetool tasks status 0-1",
            "nodetool viewbuildstatus ks v",
            "nodetool viewbuildstatus ks.v",
            "nodetool clientstats --all --client-options",
            "nodetool settimeout read 2000",
        ] {
            parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |line: &str, expected: &str| {
            let error = parsed(line).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        };
        refused("nodetool flsuh", "a similar subcommand exists: 'flush'");
        refused("nodetool status now", "unexpected argument 'now'");
        refused("nodetool clearsnapshot ks", "<--tag <TAG>|--all>");
        refused("nodetool clearsnapshot --all -t before", "cannot be used with");
        refused("nodetool stop EVERYTHING", "MAJOR_COMPACTION");
        refused("nodetool scrub -j many", "invalid value 'many'");
        refused("nodetool -pw secret info", "--username");
        refused("nodetool flush --help", "Writes memtables to SSTables");
    }
}
