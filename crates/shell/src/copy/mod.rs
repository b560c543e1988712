//! COPY: loads a table from files, or writes it to files, with the syntax, options and files of cqlsh.
//!
//! | question | file |
//! |---|---|
//! | what does the statement mean | `statement.rs`, `options.rs`, `columns.rs` |
//! | how are values and lines written and read | `text_out.rs`, `text_in.rs`, `time_format.rs`, `dialect.rs` |
//! | COPY FROM: files, rows, workers, their supervision | `source.rs`, `row.rs`, `loader.rs`, `import.rs` |
//! | how does an interrupted COPY FROM go on | `checkpoint.rs` |
//! | COPY TO | `export.rs` |
//! | how fast is it | `progress.rs`, `time.rs` |

mod checkpoint;
mod columns;
mod dialect;
mod export;
mod import;
mod loader;
mod options;
mod progress;
mod row;
mod source;
mod statement;
#[cfg(test)]
mod testing;
mod text_in;
mod text_out;
mod time;
mod time_format;

use std::path::PathBuf;

use columns::TableColumns;
use statement::Direction;

use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;

/// What COPY uses of the shell.
pub struct Place<'a> {
    pub session: &'a mut Session,
    pub output: &'a mut Output,
    /// The path of a file that the user named.
    pub resolve: &'a dyn Fn(&str) -> PathBuf,
    /// Whether the statements themselves come from standard input.
    pub stdin_is_script: bool,
}

/// Runs a COPY statement.
///
/// # Errors
/// The statement is wrong, or not all rows were copied.
pub fn run(place: &mut Place<'_>, text: &str) -> Result<(), Failure> {
    let statement = statement::parse(text).map_err(Failure::Command)?;
    let table = TableColumns::load(place.session, &statement)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = cores.saturating_sub(1).clamp(1, 16);
    let (options, warnings) =
        options::read(&statement, &table.keyspace, workers, place.resolve).map_err(Failure::Command)?;
    for warning in &warnings {
        place.output.warning(&format!("Warning: {warning}"));
    }
    match statement.direction {
        Direction::From => import::run(place, &statement, &table, &options),
        Direction::To => export::run(place, &statement, &table, &options),
    }
}
