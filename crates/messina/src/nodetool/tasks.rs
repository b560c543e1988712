//! `nodetool tasks`: ScyllaDB's view of long operations. The module `compaction` has all of them here:
//! merges, scrubs, clean-ups, and builds of indexes.

use clap::Subcommand;
use reports::RunningCompaction;
use server::api::answers::{CommandResult, Compactions};

use super::call::Call;
use super::http::query;
use super::text::aligned;

/// Interval at which `tasks wait` asks.
const WAIT_LOOK: std::time::Duration = std::time::Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// Shows the modules that have tasks
    Modules,
    /// Lists the tasks of a module
    List {
        /// The module: compaction
        module: String,
        /// Only tasks of this keyspace
        #[arg(long)]
        keyspace: Option<String>,
        /// Only tasks of this table
        #[arg(long)]
        table: Option<String>,
    },
    /// Shows a task
    Status {
        /// The id that `tasks list` shows
        id: String,
    },
    /// Shows a task and its parts; tasks have no parts here
    Tree {
        /// The id that `tasks list` shows; without it all tasks
        id: Option<String>,
    },
    /// Stops a task
    Abort {
        /// The id that `tasks list` shows
        id: String,
    },
    /// Waits for the end of a task
    Wait {
        /// The id that `tasks list` shows
        id: String,
    },
}

impl TasksCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Modules => call.get("/v1/version", |_: serde_json::Value| "compaction\n".to_string()),
            Self::List { module, .. } if module != "compaction" => {
                Err(format!("there is no module {module}; there is: compaction"))
            }
            Self::List { keyspace, table, .. } => call.get("/v1/compactions", |all: Compactions| {
                let is_wanted = |task: &&RunningCompaction| {
                    keyspace.as_ref().is_none_or(|name| *name == task.keyspace)
                        && table.as_ref().is_none_or(|name| *name == task.table)
                };
                list(all.running.iter().filter(is_wanted))
            }),
            Self::Tree { id: None } => {
                call.get("/v1/compactions", |all: Compactions| list(all.running.iter()))
            }
            Self::Status { id } | Self::Tree { id: Some(id) } => {
                call.get("/v1/compactions", |all: Compactions| status(&all, id))?
            }
            Self::Abort { id } => {
                call.ask("POST", &query("/v1/compactions/stop", &[("id", Some(id))]), |_: CommandResult| {
                    String::new()
                })
            }
            Self::Wait { id } => wait(call, id),
        }
    }
}

fn find<'a>(all: &'a Compactions, id: &str) -> Option<&'a RunningCompaction> {
    all.running.iter().find(|task| task.task_id() == id)
}

fn list<'a>(tasks: impl Iterator<Item = &'a RunningCompaction>) -> String {
    let title = ["task_id", "type", "kind", "scope", "state", "keyspace", "table", "shard", "progress"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    rows.extend(tasks.map(|task| {
        vec![
            task.task_id(),
            task.kind.to_string(),
            "node".to_string(),
            "table".to_string(),
            "running".to_string(),
            task.keyspace.clone(),
            task.table.clone(),
            task.shard.to_string(),
            format!("{}/{}", task.read_bytes, task.total_bytes),
        ]
    }));
    aligned(&rows, " ")
}

fn status(all: &Compactions, id: &str) -> Result<String, String> {
    let task = find(all, id)
        .ok_or_else(|| format!("no task {id} runs; nodetool compactionhistory has ended ones"))?;
    let lines = [
        ("id", task.task_id()),
        ("type", task.kind.to_string()),
        ("state", "running".to_string()),
        ("keyspace", task.keyspace.clone()),
        ("table", task.table.clone()),
        ("shard", task.shard.to_string()),
        ("reason", task.reason.clone()),
        ("progress_units", "bytes".to_string()),
        ("progress_total", task.total_bytes.to_string()),
        ("progress_completed", task.read_bytes.to_string()),
    ];
    Ok(lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect())
}

#[allow(clippy::disallowed_methods, reason = "a program that waits for its user is on no shard")]
fn wait(call: &Call, id: &str) -> Result<String, String> {
    loop {
        let body = call.client.ask("GET", "/v1/compactions")?;
        let all: Compactions = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        if find(&all, id).is_none() {
            return Ok(String::new());
        }
        std::thread::sleep(WAIT_LOOK);
    }
}
