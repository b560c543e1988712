//! What the node is and has: version, info, status, memory, reads, the model of its disk, levels of its log;
//! and its end, drain.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use server::api::answers::{Binary, CommandResult, Info, IoModel, Logger, Memory, Version};

use super::call::Call;
use super::http::query;
use super::{io_model_text, text};

#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Shows the version of the node
    Version,
    /// Shows memory, load and uptime of the node
    Info,
    /// Shows the ring with the node
    Status,
    /// Shows memory in use, by class and shard
    Memory,
    /// Shows running and waiting reads of each shard, and their memory
    Reads,
    /// Shows the rates of the disk, configured and learned
    #[command(name = "iomodel")]
    IoModel {
        /// Draws the 95th percentile of reads into this file
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Shows the level of each logger
    #[command(name = "getlogginglevels")]
    GetLoggingLevels,
    /// Sets the level of a logger until the next start; without arguments, all get their configured levels
    /// again
    #[command(name = "setlogginglevel", alias = "setlogginglevels")]
    SetLoggingLevel {
        /// The logger, as `getlogginglevels` and the lines of the log name it; ROOT: all without a level of
        /// their own
        #[arg(value_name = "CLASS")]
        logger: Option<String>,
        /// OFF, ERROR, WARN, INFO, DEBUG, TRACE or ALL; without it, the logger gets its configured level
        /// again
        level: Option<String>,
    },
    /// Stops serving CQL clients until enablebinary
    #[command(name = "disablebinary")]
    DisableBinary,
    /// Serves CQL clients again
    #[command(name = "enablebinary")]
    EnableBinary,
    /// Shows whether CQL clients are served
    #[command(name = "statusbinary")]
    StatusBinary,
    /// Stops serving and flushes; only a restart ends it
    Drain,
}

impl StateCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Version => call.get("/v1/version", |version: Version| text::version(&version)),
            Self::Info => call.get("/v1/info", |info: Info| text::info(&info)),
            Self::Status => call.get("/v1/info", |info: Info| text::status(&info)),
            Self::Memory => call.get("/v1/memory", |memory: Memory| text::memory(&memory)),
            Self::Reads => {
                // The answer is text.
                let text = call.client.ask("GET", "/v1/reads")?;
                let body = serde_json::json!({ "reads": text.lines().collect::<Vec<_>>() }).to_string();
                call.show(&body, |_: serde_json::Value| text.clone())
            }
            Self::IoModel { svg: None } => {
                call.get("/v1/iomodel", |model: IoModel| io_model_text::text(&model))
            }
            Self::IoModel { svg: Some(file) } => draw_io_model(call, file),
            Self::GetLoggingLevels => call.get("/v1/loggers", |loggers: Vec<Logger>| text::loggers(&loggers)),
            Self::SetLoggingLevel { logger, level } => call
                .post(&query("/v1/loggers", &[("logger", logger.as_deref()), ("level", level.as_deref())])),
            Self::DisableBinary => call.ask("DELETE", "/v1/binary", |_: CommandResult| String::new()),
            Self::EnableBinary => call.post("/v1/binary"),
            Self::StatusBinary => call.get("/v1/binary", |binary: Binary| {
                let word = if binary.running { "running" } else { "not running" };
                format!("{word}\n")
            }),
            Self::Drain => call.post("/v1/drain"),
        }
    }
}

fn draw_io_model(call: &Call, file: &Path) -> Result<String, String> {
    let body = call.client.ask("GET", "/v1/iomodel")?;
    let model: IoModel = serde_json::from_str(&body)
        .map_err(|error| format!("the node's answer cannot be parsed, is it another version? {error}"))?;
    std::fs::write(file, io_model_text::heat_map(&model).svg())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!("drawn into {}\n", file.display()))
}
