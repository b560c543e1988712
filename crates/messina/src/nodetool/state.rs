//! Commands about the node as a whole: version, info, status, memory, reads, the disk's model, and drain.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use server::api::answers::{Info, IoModel, Memory, Version};

use super::call::Call;
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
    /// Stops serving and flushes; the node serves again only after a restart
    Drain,
}

impl StateCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::Version => call.get("/v1/version", |version: Version| text::version(&version)),
            Self::Info => call.get("/v1/info", |info: Info| text::info(&info)),
            Self::Status => call.get("/v1/info", |info: Info| text::status(&info)),
            Self::Memory => call.get("/v1/memory", |memory: Memory| text::memory(&memory)),
            // The answer is text.
            Self::Reads => call.client.ask("GET", "/v1/reads"),
            Self::IoModel { svg: None } => {
                call.get("/v1/iomodel", |model: IoModel| io_model_text::text(&model))
            }
            Self::IoModel { svg: Some(file) } => draw_io_model(call, file),
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
