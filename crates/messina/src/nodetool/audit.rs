//! Commands about the audit log.

use clap::{Args, Subcommand};
use server::api::answers::CommandResult;
use server::api::audit_answers::AuditState;

use super::call::Call;
use super::http::query;

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Switches the audit log on until the next start, or changes its options
    #[command(name = "enableauditlog")]
    Enable(Box<EnableAudit>),
    /// Switches the audit log off until the next start
    #[command(name = "disableauditlog")]
    Disable,
    /// Shows the options of the audit log
    #[command(name = "getauditlog")]
    Get,
}

/// What is not given is as configured. Names are separated by commas.
#[derive(Args, Debug)]
pub struct EnableAudit {
    /// The kind of log: FileAuditLogger
    #[arg(long, default_value = "FileAuditLogger")]
    logger: String,
    /// Only statements on these keyspaces
    #[arg(long, value_name = "NAMES")]
    included_keyspaces: Option<String>,
    /// No statements on these keyspaces
    #[arg(long, value_name = "NAMES")]
    excluded_keyspaces: Option<String>,
    /// Only entries of these categories: QUERY, DML, DDL, DCL, OTHER, AUTH, ERROR, PREPARE
    #[arg(long, value_name = "NAMES")]
    included_categories: Option<String>,
    /// No entries of these categories
    #[arg(long, value_name = "NAMES")]
    excluded_categories: Option<String>,
    /// Only requests of these users
    #[arg(long, value_name = "NAMES")]
    included_users: Option<String>,
    /// No requests of these users
    #[arg(long, value_name = "NAMES")]
    excluded_users: Option<String>,
    /// When a new file begins: MINUTELY, HOURLY, DAILY
    #[arg(long, value_name = "CYCLE")]
    roll_cycle: Option<String>,
    /// Whether requests wait while the queue is full: true, false
    #[arg(long, value_name = "BOOL")]
    blocking: Option<bool>,
    /// Limit of entries in memory, in bytes
    #[arg(long, value_name = "BYTES")]
    max_queue_weight: Option<u64>,
    /// Limit of all files together, in bytes
    #[arg(long, value_name = "BYTES")]
    max_log_size: Option<u64>,
}

impl AuditCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Enable(options) => options.run(call),
            Self::Disable => call.ask("DELETE", "/v1/audit", |_: CommandResult| String::new()),
            Self::Get => call.get("/v1/audit", |state: AuditState| text(&state)),
        }
    }
}

impl EnableAudit {
    fn run(&self, call: &Call) -> Result<String, String> {
        let kind = self.logger.rsplit('.').next().unwrap_or_default();
        if !kind.eq_ignore_ascii_case("FileAuditLogger") {
            return Err(format!("there is no logger {}; there is: FileAuditLogger", self.logger));
        }
        let blocking = self.blocking.map(|blocking| blocking.to_string());
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let (queue_bytes, log_bytes) = (number(self.max_queue_weight), number(self.max_log_size));
        call.post(&query(
            "/v1/audit",
            &[
                ("included_keyspaces", self.included_keyspaces.as_deref()),
                ("excluded_keyspaces", self.excluded_keyspaces.as_deref()),
                ("included_categories", self.included_categories.as_deref()),
                ("excluded_categories", self.excluded_categories.as_deref()),
                ("included_users", self.included_users.as_deref()),
                ("excluded_users", self.excluded_users.as_deref()),
                ("roll_cycle", self.roll_cycle.as_deref()),
                ("block", blocking.as_deref()),
                ("max_queue_weight", queue_bytes.as_deref()),
                ("max_log_size", log_bytes.as_deref()),
            ],
        ))
    }
}

/// The options in Cassandra's layout, and how many entries there were.
fn text(state: &AuditState) -> String {
    let rows = [
        ("enabled", state.enabled.to_string()),
        ("logger", state.logger.clone()),
        ("audit_logs_dir", state.audit_logs_dir.clone()),
        ("archive_command", String::new()),
        ("roll_cycle", state.roll_cycle.clone()),
        ("block", state.block.to_string()),
        ("max_log_size", state.max_log_size.to_string()),
        ("max_queue_weight", state.max_queue_weight.to_string()),
        ("included_keyspaces", state.included_keyspaces.join(",")),
        ("excluded_keyspaces", state.excluded_keyspaces.join(",")),
        ("included_categories", state.included_categories.join(",")),
        ("excluded_categories", state.excluded_categories.join(",")),
        ("included_users", state.included_users.join(",")),
        ("excluded_users", state.excluded_users.join(",")),
        ("entries", state.entries.to_string()),
        ("dropped_entries", state.dropped.to_string()),
    ];
    rows.iter().map(|(name, value)| format!("{}\n", format!("{name:<20} {value}").trim_end())).collect()
}
