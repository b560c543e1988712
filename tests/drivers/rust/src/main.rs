//! The checks of the Rust driver `scylla`, and its answers to the queries of the Debian test.
//!
//! ```text
//! drivers-check check HOST:PORT COMPRESSION [SHARDS]    PASS or FAIL per check, then `N passed, N failed`; with SHARDS the server must
//!                                                       have that many, each with a connection of its own
//! drivers-check queries HOST:PORT FILE                  a line `name rows sha256` per query of the file (see queries.rs)
//! ```

mod checks;
mod queries;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::Compression;
use std::process::ExitCode;
use std::time::Duration;

pub type Verdict = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["check", contact, compression] => checks::run(contact, compression, None).await,
        ["check", contact, compression, shards] => checks::run(contact, compression, shards.parse().ok()).await,
        ["queries", contact, file] => match queries::run(contact, file).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("FAIL rust queries: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            println!("check HOST:PORT COMPRESSION [SHARDS] | queries HOST:PORT FILE");
            ExitCode::from(2)
        }
    }
}

pub async fn connect(contact: &str, compression: &str) -> Result<Session, Box<dyn std::error::Error + Send + Sync>> {
    let compression = match compression {
        "lz4" => Some(Compression::Lz4),
        "snappy" => Some(Compression::Snappy),
        _ => None,
    };
    let patience = Duration::from_secs(60);
    Ok(SessionBuilder::new().known_node(contact).compression(compression).connection_timeout(patience).build().await?)
}
